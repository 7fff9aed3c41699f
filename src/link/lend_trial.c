/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stretches are by turns of the way that is settled on and of the other.
 */
#include "link/lend_trial.h"

enum { KIB = 1024 };

/* The first trial falls where all else begins as well, and either way may have waited for that: so
 * the second comes soon. */
static const struct duel_terms terms = {
    .first = LEND_TRIAL_FIRST / KIB,
    .again = LEND_TRIAL_AGAIN / KIB,
    .soonest = LEND_TRIAL_SOONEST / KIB,
    .latest = LEND_TRIAL_LATEST / KIB,
};

/* A stretch that took longer was the program's time, or the line's. */
static const uint64_t IDLE_NS = 20000000;

bool lend_trial_count(struct lend_trial *lend, uint32_t bytes)
{
	uint32_t kib;

	lend->bytes += bytes;
	if (lend->duel.is_running)
		return lend->bytes >= LEND_TRIAL_STRETCH;
	kib = (uint32_t)(lend->bytes / KIB);
	lend->bytes %= KIB;
	if (!duel_begins(&lend->duel, &terms, kib))
		return false;
	lend->stretches = 0;
	lend->since = 0;
	lend->least[WAY_LENT] = lend->least[WAY_COPIED] = 0;
	return true;
}

static bool is_other_better(const struct lend_trial *lend)
{
	uint8_t best = lend->duel.best;

	return duel_is_better(lend->least[!best], lend->least[best]);
}

static void end_stretch(struct lend_trial *lend, uint64_t took)
{
	uint64_t each = took * LEND_TRIAL_STRETCH / lend->bytes;
	uint64_t *least = lend->least + lend->duel.way;

	if (!*least || each < *least)
		*least = each;
	duel_turn(&lend->duel);
	if (++lend->stretches == 2 * LEND_TRIAL_TIMES)
		duel_end(&lend->duel, &terms, is_other_better(lend));
}

void lend_trial_time(struct lend_trial *lend, uint64_t now)
{
	uint64_t took = now - lend->since;

	if (lend->since && took > IDLE_NS)
		duel_end(&lend->duel, &terms, false);
	else if (lend->since)
		end_stretch(lend, took);
	lend->since = now;
	lend->bytes = 0;
}
