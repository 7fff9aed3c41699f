/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a lane's thread, when all is done, looks again for a while before it sleeps.
 *
 * In a stream from another host the next batch comes sooner than a thread wakes up, as its sender
 * waits for each answer. And who asks one thing after another of a process that sleeps, for its
 * memory by READs and atomics say, waits for a wake-up each time. So it looks again after a large
 * batch, and where requests came soon after each other lately (lookout.h). Without a clock.
 */
#ifndef ENGINE_VIGIL_H
#define ENGINE_VIGIL_H

#include "engine/lookout.h"
#include "engine/perch.h"

/* A thread's. Zeroed at first. */
struct vigil {
	struct lookout lookout;
	uint64_t since, until; /* it looks */
	uint32_t looks;	       /* since the last yield */
	uint32_t calm;	       /* how often their number before one was doubled */
	bool is_on;
};

/* It looked, at first then, found so many packets, and is done with them now: whether it is to look
 * again. What answers took is no part of the wait for the next request. */
bool vigil_goes_on(struct vigil *vigil, unsigned int found, uint64_t looked, uint64_t now);

/* It found nothing: whether it yields the core before it looks again. A yield takes as long as a
 * few looks, and so each makes a message late that comes meanwhile. */
bool vigil_yields(struct vigil *vigil);

/* It did, and others had the core for so long: that is none of the while. Where nobody had use for
 * it, the next yield comes later; where somebody computes, to look is in vain. */
void vigil_yielded(struct vigil *vigil, uint64_t took, enum perch_use use);

/* It slept for so long. */
void vigil_slept(struct vigil *vigil, uint64_t took);

#endif
