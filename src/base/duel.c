/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a trial changed something, the next one comes soon: what one was wrong about, or what has
 * changed, may do so again.
 */
#include "base/duel.h"

enum { GAIN = 16 /* that part of the time has to be saved, or nothing changes */ };

void duel_end(struct duel *duel, const struct duel_terms *terms, bool is_other_better)
{
	if (!duel->interval)
		duel->interval = terms->again;
	else if (is_other_better || duel->interval < terms->soonest)
		duel->interval = terms->soonest;
	else if (duel->interval < terms->latest)
		duel->interval *= 2;
	if (is_other_better)
		duel->best = !duel->best;
	duel->way = duel->best;
	duel->settled = 0;
	duel->is_running = false;
}

bool duel_is_better(uint64_t other, uint64_t best)
{
	return other < best - best / GAIN;
}

uint32_t duel_median(const uint32_t *times, unsigned int count)
{
	uint32_t sorted[DUEL_TIMES_MAX];

	for (unsigned int i = 0; i < count; i++) {
		unsigned int at = i;

		for (; at && sorted[at - 1] > times[i]; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = times[i];
	}
	return sorted[count / 2];
}
