/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a lane's thread that looks for packets goes to another core.
 *
 * A packet wakes it on the core where the packet was handled, if the kernel likes; whoever computes
 * or polls there then shares that core with it, perhaps beside an idle one. The kernel moves one of
 * them when it next compares cores, milliseconds later, and not at all while the thread sleeps most
 * of the time. Yields tell: where each takes long, somebody uses them. Then it leaves, and ever
 * more rarely where it was no better elsewhere.
 *
 * Who computes takes a core for milliseconds, who polls for microseconds, and then that is most
 * often the peer. So to come from the one to the other is to be better off, and to find who
 * computes where one left who polls is to go back at once. Without a clock.
 */
#ifndef ENGINE_PERCH_H
#define ENGINE_PERCH_H

#include <stdbool.h>
#include <stdint.h>

enum perch_use { PERCH_UNUSED, PERCH_POLLED, PERCH_COMPUTED, PERCH_USES };

/* A thread's. Zeroed at first. */
struct perch {
	uint32_t used;		       /* yields in a row that somebody used */
	uint64_t least;		       /* that one took nobody used; 0: not known */
	uint64_t left;		       /* when it left a core last, */
	enum perch_use reason;	       /* why, */
	bool is_new;		       /* and has found no use of the new one yet */
	uint64_t patience[PERCH_USES]; /* until it leaves for the same reason again */
};

/* A yield took so long: whether that may have been somebody's use. Then its caller asks. */
bool perch_is_in_doubt(const struct perch *perch, uint64_t took);

/* It was of that use. */
enum perch_use perch_use(struct perch *perch, uint64_t took, bool was_used);

/* So it was until now: whether it leaves. */
bool perch_is_to_leave(struct perch *perch, uint64_t now, enum perch_use use);

#endif
