/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A trial is of the way that is not taken, and then of the one that is.
 */
#include <stdlib.h>
#include <string.h>

#include "link/halving.h"

enum {
	GAIN = 16, /* that part of the time has to be saved, or nothing changes */
	UNIT = 64 << 10,
};

static int compare(const void *a, const void *b)
{
	uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;

	return (first > second) - (first < second);
}

static uint32_t median(const uint32_t took[HALVING_TIMES])
{
	uint32_t sorted[HALVING_TIMES];

	memcpy(sorted, took, sizeof(sorted));
	qsort(sorted, HALVING_TIMES, sizeof(sorted[0]), compare);
	return sorted[HALVING_TIMES / 2];
}

static void settle(struct halving *halving)
{
	uint32_t best = median(halving->took[halving->pays]);
	bool changes = median(halving->took[!halving->pays]) < best - best / GAIN;

	if (changes)
		halving->pays = !halving->pays;
	if (changes || !halving->interval)
		halving->interval = HALVING_SOONEST;
	else if (halving->interval < HALVING_LATEST)
		halving->interval *= 2;
	halving->is_halved = halving->pays;
	halving->is_running = false;
	halving->settled = 0;
}

bool halving_count(struct halving *halving)
{
	uint32_t interval = halving->interval ? halving->interval : HALVING_FIRST;

	if (halving->is_running)
		return true;
	if (halving->settled++ < interval)
		return false;
	halving->is_running = true;
	halving->copies = 0;
	halving->is_halved = !halving->pays;
	return true;
}

void halving_time(struct halving *halving, uint64_t bytes, uint64_t took)
{
	uint64_t each = (took < UINT32_MAX ? took : UINT32_MAX) * UNIT / bytes;
	uint32_t *times = halving->took[halving->is_halved];

	times[halving->copies % HALVING_TIMES] = each < UINT32_MAX ? (uint32_t)each : UINT32_MAX;
	halving->copies++;
	if (halving->copies == HALVING_TIMES)
		halving->is_halved = halving->pays;
	else if (halving->copies == 2 * HALVING_TIMES)
		settle(halving);
}
