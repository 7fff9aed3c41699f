/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of lookout.h, without a clock.
 */
#include "engine/lookout.h"

enum {
	/* of a wait that slept, both ends' wake-ups in it; where these take long, as many */
	SHORT_NS = 250000,
	SHORT_WAKES = 10,
	PATIENCE_WAKES = 5, /* as much as the other end needs to answer by sleeping */
	WAKE_MAX_NS = 150000,
};

bool lookout_may(const struct lookout *lookout)
{
	return habit_holds(&lookout->habit);
}

/* What sleeping would have cost. */
static uint64_t worth(const struct lookout *lookout)
{
	uint64_t patience = PATIENCE_WAKES * lookout->wake;

	return patience > LOOKOUT_NS ? patience : LOOKOUT_NS;
}

/* The longest of short waits. */
static uint64_t short_most(const struct lookout *lookout)
{
	uint64_t wakes = SHORT_WAKES * lookout->wake;

	return wakes > SHORT_NS ? wakes : SHORT_NS;
}

uint64_t lookout_patience(const struct lookout *lookout)
{
	uint64_t patience = worth(lookout), slept = lookout->slept + lookout->slept / 4;

	if (lookout->habit.misses)
		return short_most(lookout);
	return patience > slept ? patience : slept;
}

/* The least lately: what is more is the wait for a core. */
void lookout_woke(struct lookout *lookout, uint64_t took)
{
	uint64_t most = lookout->wake ? lookout->wake + lookout->wake / 4 : WAKE_MAX_NS;

	if (most > WAKE_MAX_NS)
		most = WAKE_MAX_NS;
	lookout->wake = took < most ? took : most;
}

void lookout_slept(struct lookout *lookout, uint64_t took)
{
	bool was_short = took <= short_most(lookout);
	uint64_t less = lookout->slept - lookout->slept / 4;

	habit_sign(&lookout->habit, was_short);
	if (was_short)
		lookout->slept = took > less ? took : less;
}

void lookout_in_vain(struct lookout *lookout)
{
	habit_give_up(&lookout->habit);
}

void lookout_looked(struct lookout *lookout, bool was_there, uint64_t took)
{
	bool has_paid = was_there && took <= worth(lookout);

	habit_tried(&lookout->habit, has_paid);
	if (has_paid)
		lookout->slept = 0;
}

void lookout_not(struct lookout *lookout)
{
	habit_sign(&lookout->habit, false);
}
