/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of yield.h, without a clock.
 */
#include "engine/lane.h"
#include "engine/yield.h"

enum {
	AFTER_MAX = 4 * LANE_SOCKET_LOOK, /* looks */
	BRISK_MAX = 4,			  /* 4 looks */
	CALM_MAX = 4,			  /* 1024 looks, some 30 us at a socket */
	UNUSED_MAX = 16,
	USED_NS = 1500,
	SCARCE_FOUND = 4,
	SCARCE_TIMES = 2,
	LONG_NS = 100000,
	KEEP_NS = 2000000,
	SLEEPS_MAX_NS = 64000000,
};

bool yield_is_due(const struct yield *yield)
{
	return yield->idle >= (uint32_t)AFTER_MAX << yield->calm >> yield->brisk;
}

void yield_again(struct yield *yield)
{
	yield->idle = 0;
}

void yield_found(struct yield *yield)
{
	yield->idle = 0;
	yield->has_found = true;
}

void yield_kept(struct yield *yield)
{
	yield->found += yield->has_found;
	yield->has_found = false;
}

enum yield_manner yield_manner(const struct yield *yield, uint64_t now)
{
	return now < yield->until ? yield->manner : YIELD_CORE;
}

bool yield_was_long(uint64_t took)
{
	return took > LONG_NS;
}

static void keep_from_now_on(struct yield *yield, uint64_t now)
{
	yield->manner = YIELD_KEEP;
	yield->until = now + KEEP_NS;
	yield->found = 0;
	yield->has_found = false;
}

/* As far as one can see, one of which nobody says where it is. If it goes to another core, that is
 * seen when this one is kept again, after the longest time of sleeps. */
static bool is_beside_peer(struct yield *yield)
{
	if (yield->manner == YIELD_KEEP) {
		yield_kept(yield);
		if (yield->found >= SCARCE_FOUND)
			yield->scarce = 0;
		else if (yield->found)
			yield->scarce++;
	} else if (yield->sleep_for == SLEEPS_MAX_NS) {
		yield->scarce = 0;
	}
	return yield->scarce >= SCARCE_TIMES;
}

/* To try a yield beside one who computes costs all of his time: the next try is ever later. */
static void sleep_from_now_on(struct yield *yield, uint64_t now)
{
	yield->sleep_for = yield->sleep_for ? 2 * yield->sleep_for : KEEP_NS;
	if (yield->sleep_for > SLEEPS_MAX_NS)
		yield->sleep_for = SLEEPS_MAX_NS;
	yield->manner = YIELD_SLEEP;
	yield->until = now + yield->sleep_for;
}

/* How soon the next one comes. */
static void learn_use(struct yield *yield, uint64_t took)
{
	if (took > USED_NS) {
		yield->brisk = BRISK_MAX;
		yield->calm = yield->unused = 0;
		return;
	}
	yield->scarce = 0; /* nobody is here */
	if (yield->brisk) {
		yield->brisk--;
	} else if (yield->calm < CALM_MAX && ++yield->unused == UNUSED_MAX) {
		yield->calm++;
		yield->unused = 0;
	}
}

void yield_learn(struct yield *yield, uint64_t now, uint64_t took, bool has_peers_here)
{
	learn_use(yield, took);
	if (!yield_was_long(took)) {
		yield->sleep_for = 0;
	} else if (has_peers_here || is_beside_peer(yield)) {
		sleep_from_now_on(yield, now);
	} else {
		keep_from_now_on(yield, now);
	}
}
