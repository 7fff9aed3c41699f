/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For how long a lane's thread that was called (link/assist.h) helps its peers with their long
 * copies: while they come one right after another, and the core that it has is nobody else's.
 *
 * Between copies it yields, once a millisecond in a stream of them and more often in a pause: who
 * has use for the core gets it then and not in the midst of a copy, for which the peer would have
 * to wait. Where somebody computes there, yield after yield, it goes back to sleep. While others
 * had its core it has not looked, so that time is none of its patience. Without a clock.
 */
#ifndef ENGINE_ATTENDANCE_H
#define ENGINE_ATTENDANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/perch.h"

/* A thread's. Zeroed at first. */
struct attendance {
	uint64_t patience, looked; /* looking in vain that is left; when it did last */
	uint64_t pause, yield_at;
	uint64_t wait_until;	  /* at most, for the end of a copy that somebody does alone */
	bool is_on, was_computed; /* by others, while it yielded last */
	bool was_busy;		  /* its core, and so it ended */
};

/* It is called, or goes on after a look elsewhere. */
void attendance_begin(struct attendance *attendance, uint64_t now);

/* It looked, and helped or had nothing to help with: whether it yields before it looks again. */
bool attendance_looked(struct attendance *attendance, bool has_helped, uint64_t now);

/* Who called is in the midst of a copy, with which it cannot be helped any more; with the next one
 * it can. */
void attendance_awaits(struct attendance *attendance, uint64_t now);

/* It did, to that use. */
void attendance_yielded(struct attendance *attendance, enum perch_use use, uint64_t now);

/* Whether it is to look again. */
static inline bool attendance_goes_on(const struct attendance *attendance)
{
	return attendance->is_on && attendance->patience > 0;
}

/* It is over. */
void attendance_end(struct attendance *attendance);

#endif
