/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stretches are by turns of the way that is settled on and of the other.
 */
#include "link/lend_trial.h"

enum { GAIN = 16 /* that part of the time has to be saved, or nothing changes */ };

/* A stretch that took longer was the program's time, or the line's. */
static const uint64_t IDLE_NS = 20000000;

static bool is_other_better(const struct lend_trial *trial)
{
	uint64_t best = trial->least[trial->best];

	return trial->least[!trial->best] < best - best / GAIN;
}

/* The first trial falls where all else begins as well, and either way may have waited for that. */
static void settle(struct lend_trial *trial, bool changes)
{
	if (!trial->interval)
		trial->interval = TRIAL_AGAIN;
	else if (changes || trial->interval == TRIAL_AGAIN)
		trial->interval = TRIAL_SOONEST;
	else if (trial->interval < TRIAL_LATEST)
		trial->interval *= 2;
	if (changes)
		trial->best = !trial->best;
	trial->way = trial->best;
	trial->is_running = false;
}

static void begin(struct lend_trial *trial)
{
	trial->is_running = true;
	trial->stretches = 0;
	trial->least[WAY_LENT] = trial->least[WAY_COPIED] = 0;
}

static void end_stretch(struct lend_trial *trial, uint64_t took)
{
	uint64_t each = took * TRIAL_STRETCH / trial->bytes, *least = trial->least + trial->way;

	if (!*least || each < *least)
		*least = each;
	trial->way = !trial->way;
	if (++trial->stretches == 2 * TRIAL_TIMES)
		settle(trial, is_other_better(trial));
}

void lend_trial_time(struct lend_trial *trial, uint64_t now)
{
	uint64_t took = now - trial->since;

	if (!trial->is_running)
		begin(trial);
	else if (took > IDLE_NS)
		settle(trial, false);
	else
		end_stretch(trial, took);
	trial->since = now;
	trial->bytes = 0;
}
