/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a thread that waits for an event of a completion channel looks for it itself for a while
 * before it sleeps.
 *
 * Between a packet and a program that sleeps lie two wake-ups, that of the lane's thread and the
 * program's own, and each takes the waker as much of its time as a message takes in all. So where
 * events come sooner than that, looking costs less than sleeping, for both processes. It is tried
 * where they did several times in a row, and given up where it is in vain (habit.h).
 *
 * Where both ends wait for each other by sleeping, an answer takes longer than looking is worth: so
 * the first look is as long as the waits before were, until the other end, which does the same, has
 * begun as well, and so is the one behind a look in vain, over which the other end may have gone to
 * sleep. Whoever has to be looked for so long each time is not looked for any more.
 */
#ifndef ENGINE_LOOKOUT_H
#define ENGINE_LOOKOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/habit.h"

enum { LOOKOUT_NS = 50000 }; /* the least patience */

/* A channel's, under the channel's lock, or a thread's. Zeroed at first. */
struct lookout {
	struct habit habit; /* its signs are short waits */
	uint64_t wake;	    /* how long a wake-up takes on this machine; 0: not known */
	uint64_t slept;	    /* the longest short wait lately; 0 once looking has paid */
};

/* Enough waits were short. */
bool lookout_may(const struct lookout *lookout);

/* How long to look, and then it sleeps: what sleeping would have cost; at first as long as waits
 * were, and behind a look that did not pay as long as the longest that are short. */
uint64_t lookout_patience(const struct lookout *lookout);

/* A thread that slept ran again so long after its event was raised. */
void lookout_woke(struct lookout *lookout, uint64_t took);

/* A wait is over that took so long, by sleeping. */
void lookout_slept(struct lookout *lookout, uint64_t took);

/* The time for looking is over, or the event was there before, after so long. */
void lookout_looked(struct lookout *lookout, bool was_there, uint64_t took);

/* To look was wrong, and is not to be tried again soon. */
void lookout_in_vain(struct lookout *lookout);

/* Others wait on the channel as well. */
void lookout_not(struct lookout *lookout);

#endif
