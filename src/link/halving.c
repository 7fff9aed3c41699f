/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A trial is of the way that is not taken, and then of the one that is.
 */
#include "link/halving.h"

enum { UNIT = 64 << 10 };

static const struct duel_terms terms = {
    .first = HALVING_FIRST,
    .again = HALVING_SOONEST,
    .soonest = HALVING_SOONEST,
    .latest = HALVING_LATEST,
};

bool halving_count(struct halving *halving)
{
	if (halving->duel.is_running)
		return true;
	if (!duel_begins(&halving->duel, &terms, 1))
		return false;
	duel_turn(&halving->duel);
	halving->copies = 0;
	return true;
}

static bool is_other_better(const struct halving *halving)
{
	uint8_t best = halving->duel.best;

	return duel_is_better(duel_median(halving->took[!best], HALVING_TIMES),
			      duel_median(halving->took[best], HALVING_TIMES));
}

void halving_time(struct halving *halving, uint64_t bytes, uint64_t took)
{
	uint64_t each = (took < UINT32_MAX ? took : UINT32_MAX) * UNIT / bytes;
	uint32_t *times = halving->took[halving->duel.way];

	times[halving->copies % HALVING_TIMES] = each < UINT32_MAX ? (uint32_t)each : UINT32_MAX;
	halving->copies++;
	if (halving->copies == HALVING_TIMES)
		duel_turn(&halving->duel);
	else if (halving->copies == 2 * HALVING_TIMES)
		duel_end(&halving->duel, &terms, is_other_better(halving));
}
