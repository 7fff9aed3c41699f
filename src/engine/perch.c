/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of perch.h, without a clock.
 */
#include "engine/perch.h"
#include "engine/yield.h"

enum {
	SHARED_NS = 5000,
	SHARED_TIMES = 4, /* as long as a yield takes here that nobody used */
	SHARED_YIELDS = 4,
	PATIENCE_NS = 2000000,
	PATIENCE_MAX_NS = 1 << 30,
	BETTER = 4, /* times as long as patience asks for, and it was better elsewhere */
};

static bool is_shared(struct perch *perch, uint64_t took)
{
	if (!perch->least || took < perch->least)
		perch->least = took;
	if (yield_was_long(took))
		return true;
	if (took < SHARED_NS || took < SHARED_TIMES * perch->least)
		perch->shared = 0;
	else
		perch->shared++;
	return perch->shared >= SHARED_YIELDS;
}

static void learn(struct perch *perch, uint64_t now)
{
	if (now >= perch->left + BETTER * perch->patience)
		perch->patience = PATIENCE_NS;
	else if (perch->patience < PATIENCE_MAX_NS)
		perch->patience *= 2;
}

bool perch_is_to_leave(struct perch *perch, uint64_t now, uint64_t took)
{
	if (!is_shared(perch, took) || (perch->patience && now < perch->left + perch->patience))
		return false;
	learn(perch, now);
	perch->left = now;
	perch->shared = 0;
	return true;
}
