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

enum yield_manner yield_manner(const struct yield *yield, uint64_t now)
{
	return now < yield->until ? yield->manner : YIELD_CORE;
}

bool yield_was_long(uint64_t took)
{
	return took > LONG_NS;
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

void yield_learn(struct yield *yield, uint64_t now, uint64_t took, bool has_peers_here)
{
	if (took > USED_NS) {
		yield->brisk = BRISK_MAX;
		yield->calm = yield->unused = 0;
	} else if (yield->brisk) {
		yield->brisk--;
	} else if (yield->calm < CALM_MAX && ++yield->unused == UNUSED_MAX) {
		yield->calm++;
		yield->unused = 0;
	}
	if (!yield_was_long(took)) {
		yield->sleep_for = 0;
	} else if (has_peers_here) {
		sleep_from_now_on(yield, now);
	} else {
		yield->manner = YIELD_KEEP;
		yield->until = now + KEEP_NS;
	}
}
