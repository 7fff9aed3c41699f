/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of perch.h, without a clock.
 */
#include "engine/perch.h"
#include "engine/yield.h"

enum {
	USED_NS = 2000,
	USED_TIMES = 4,	     /* as long as a yield takes here that nobody used */
	COMPUTED_TIMES = 64, /* where that is long, as on an emulated processor */
	USED_YIELDS = 4,
	PATIENCE_NS = 2000000,
	PATIENCE_MAX_NS = 1 << 30,
	BETTER_NS = 8000000, /* without anybody, and it was better elsewhere */
};

bool perch_is_in_doubt(const struct perch *perch, uint64_t took)
{
	return took >= USED_NS && took >= USED_TIMES * perch->least;
}

static void learn_least(struct perch *perch, uint64_t took)
{
	if (!perch->least || took < perch->least)
		perch->least = took;
}

enum perch_use perch_use(struct perch *perch, uint64_t took, bool was_used)
{
	if (!was_used) {
		learn_least(perch, took);
		return PERCH_UNUSED;
	}
	return yield_was_long(took) && took >= COMPUTED_TIMES * perch->least ? PERCH_COMPUTED
									     : PERCH_POLLED;
}

static bool is_shared(struct perch *perch, enum perch_use use)
{
	perch->used = use == PERCH_UNUSED ? 0 : perch->used + 1;
	return use == PERCH_COMPUTED || perch->used >= USED_YIELDS;
}

static uint64_t patience(const struct perch *perch, enum perch_use reason)
{
	return perch->patience[reason] ? perch->patience[reason] : PATIENCE_NS;
}

/* What was found where it went. */
static void learn(struct perch *perch, uint64_t now, enum perch_use use)
{
	uint64_t *patience = &perch->patience[perch->reason];

	if (!perch->is_new)
		return;
	perch->is_new = false;
	if (now >= perch->left + BETTER_NS || use < perch->reason)
		*patience = 0;
	else if (*patience < PATIENCE_MAX_NS)
		*patience = *patience ? 2 * *patience : PATIENCE_NS;
}

bool perch_is_to_leave(struct perch *perch, uint64_t now, enum perch_use use)
{
	bool is_worse;

	if (!is_shared(perch, use))
		return false;
	learn(perch, now, use);
	is_worse = use > perch->reason;
	if (!is_worse && now < perch->left + patience(perch, use))
		return false;
	perch->left = now;
	perch->reason = use;
	perch->is_new = true;
	perch->used = 0;
	return true;
}
