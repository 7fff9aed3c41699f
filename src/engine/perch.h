/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a lane's thread that looks for packets goes to another core.
 *
 * A packet wakes it on the core where the packet was handled, if the kernel likes; whoever computes
 * or polls there then shares that core with it, perhaps beside an idle one. The kernel moves one of
 * them when it next compares cores, milliseconds later, and not at all while the thread sleeps most
 * of the time. Yields tell: where each takes long, somebody uses them. Then it leaves, and ever
 * more rarely where it was no better elsewhere. Without a clock.
 */
#ifndef ENGINE_PERCH_H
#define ENGINE_PERCH_H

#include <stdbool.h>
#include <stdint.h>

/* A thread's. Zeroed at first. */
struct perch {
	uint32_t shared; /* yields in a row that somebody used */
	uint64_t least;	 /* that a yield took; on an emulated processor that is long */
	uint64_t left;	 /* when it left a core last */
	uint64_t patience;
};

/* Others had the core for so long, until now: whether it leaves. */
bool perch_is_to_leave(struct perch *perch, uint64_t now, uint64_t took);

#endif
