/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of lookout.h, without a clock.
 */
#include "engine/lookout.h"

enum {
	/* of a wait that slept, both ends' wake-ups in it; where these take long, as many */
	SHORT_NS = 150000,
	SHORT_WAKES = 10,
	PATIENCE_WAKES = 5, /* as much as the other end needs to answer by sleeping */
	WAKE_MAX_NS = 150000,
};

bool lookout_may(const struct lookout *lookout)
{
	return habit_holds(&lookout->habit);
}

uint64_t lookout_patience(const struct lookout *lookout)
{
	uint64_t patience = PATIENCE_WAKES * lookout->wake;

	return patience > LOOKOUT_NS ? patience : LOOKOUT_NS;
}

/* The least lately: what is more is the wait for a core. */
void lookout_woke(struct lookout *lookout, uint64_t took)
{
	uint64_t most = lookout->wake ? lookout->wake + lookout->wake / 4 : WAKE_MAX_NS;

	if (most > WAKE_MAX_NS)
		most = WAKE_MAX_NS;
	lookout->wake = took < most ? took : most;
}

static bool is_short(const struct lookout *lookout, uint64_t took)
{
	return took <= SHORT_NS || took <= SHORT_WAKES * lookout->wake;
}

void lookout_slept(struct lookout *lookout, uint64_t took)
{
	habit_sign(&lookout->habit, is_short(lookout, took));
}

void lookout_in_vain(struct lookout *lookout)
{
	habit_give_up(&lookout->habit);
}

void lookout_looked(struct lookout *lookout, bool was_there)
{
	habit_tried(&lookout->habit, was_there);
}

void lookout_not(struct lookout *lookout)
{
	habit_sign(&lookout->habit, false);
}
