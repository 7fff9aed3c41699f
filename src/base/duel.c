/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a trial changed something, the next one comes soon: what one was wrong about, or what has
 * changed, may do so again.
 */
#include "base/duel.h"

enum { GAIN = 16 /* that part of the time has to be saved, or nothing changes */ };

static uint8_t next_stage(const struct duel *duel, const struct duel_terms *terms, bool changes)
{
	if (duel->stage == DUEL_FIRST && terms->again < terms->soonest)
		return DUEL_AGAIN;
	if (duel->stage < DUEL_SOONEST || changes)
		return DUEL_SOONEST;
	return duel->stage + (duel_interval(duel, terms) < terms->latest);
}

void duel_end(struct duel *duel, const struct duel_terms *terms, bool is_other_better)
{
	duel->stage = next_stage(duel, terms, is_other_better);
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
