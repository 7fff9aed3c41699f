/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a program that only glances at the rings makes a turn of its lane, which looks at timers and
 * at what else there is: after so many glances, with the first that finds nothing. What a turn
 * finds in the rings is taken in by the general path, which is slower. Where each glance finds
 * something it does not wait for ever.
 */
#ifndef ENGINE_TURN_H
#define ENGINE_TURN_H

#include <stdbool.h>
#include <stdint.h>

enum { TURN_EVERY = 64, TURN_LATEST = 256 };

/* Zeroed at first. */
struct turn {
	uint32_t glances; /* since the last one that was due */
};

static inline bool turn_is_now(struct turn *turn, uint32_t from)
{
	if (turn->glances < from)
		return false;
	turn->glances = 0;
	return true;
}

/* Instead of a glance. */
static inline bool turn_is_overdue(struct turn *turn)
{
	return turn_is_now(turn, TURN_LATEST);
}

/* Behind one. */
static inline bool turn_is_due(struct turn *turn, bool has_found)
{
	turn->glances++;
	return !has_found && turn_is_now(turn, TURN_EVERY);
}

/* It took as long as so many. */
static inline void turn_took(struct turn *turn, uint32_t glances)
{
	turn->glances += glances;
}

/* Behind something that takes so little that to look comes later. False: it is to be done so that
 * turn_is_due(). */
static inline bool turn_may_wait(struct turn *turn)
{
	return ++turn->glances < TURN_EVERY;
}

#endif
