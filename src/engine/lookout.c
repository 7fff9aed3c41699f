/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of lookout.h, without a clock.
 */
#include "engine/lookout.h"

enum {
	SHORT_NS = 150000, /* of a wait that slept, both ends' wake-ups in it */
	QUICK_MIN = 4,
	NEEDED_MAX = 1024,
	MISSES_MAX = 3,
	HITS_MAX = 64,
};

bool lookout_may(const struct lookout *lookout)
{
	return lookout->quick >= QUICK_MIN + lookout->needed;
}

void lookout_slept(struct lookout *lookout, uint64_t took)
{
	if (took > SHORT_NS)
		lookout->quick = 0;
	else if (!lookout_may(lookout))
		lookout->quick++;
}

void lookout_looked(struct lookout *lookout, bool was_there)
{
	if (was_there) {
		lookout->misses = 0;
		if (++lookout->hits >= HITS_MAX)
			lookout->needed = 0;
		return;
	}
	lookout->hits = 0;
	if (++lookout->misses < MISSES_MAX)
		return;
	lookout->misses = lookout->quick = 0;
	lookout->needed = lookout->needed ? 2 * lookout->needed : QUICK_MIN;
	if (lookout->needed > NEEDED_MAX)
		lookout->needed = NEEDED_MAX;
}

void lookout_not(struct lookout *lookout)
{
	lookout->quick = 0;
}
