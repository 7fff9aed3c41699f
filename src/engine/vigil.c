/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of vigil.h, without a clock.
 */
#include "engine/vigil.h"

enum {
	STREAM_PACKETS = 8, /* in a batch: there are more to come */
	CALM_MAX = 3,	    /* 8 looks, some 3 us */
};

static void begin(struct vigil *vigil, unsigned int found, uint64_t now)
{
	if (found >= STREAM_PACKETS)
		vigil->until = now + LOOKOUT_NS;
	else if (lookout_may(&vigil->lookout))
		vigil->until = now + lookout_patience(&vigil->lookout);
	vigil->since = now;
	vigil->is_on = now < vigil->until;
}

static void learn(struct vigil *vigil, bool was_there, uint64_t now)
{
	if (lookout_may(&vigil->lookout))
		lookout_looked(&vigil->lookout, was_there, now - vigil->since);
}

bool vigil_goes_on(struct vigil *vigil, unsigned int found, uint64_t looked, uint64_t now)
{
	if (found) {
		if (vigil->is_on)
			learn(vigil, true, looked);
		begin(vigil, found, now);
	} else if (vigil->is_on && now >= vigil->until) {
		learn(vigil, false, now);
		vigil->is_on = false;
	}
	return vigil->is_on;
}

bool vigil_yields(struct vigil *vigil)
{
	if (++vigil->looks < 1u << vigil->calm)
		return false;
	vigil->looks = 0;
	return true;
}

void vigil_yielded(struct vigil *vigil, uint64_t took, enum perch_use use)
{
	if (use != PERCH_UNUSED)
		vigil->calm = 0;
	else if (vigil->calm < CALM_MAX)
		vigil->calm++;
	if (use != PERCH_COMPUTED) {
		vigil->since += took;
		vigil->until += took;
		return;
	}
	if (lookout_may(&vigil->lookout))
		lookout_in_vain(&vigil->lookout);
	vigil->is_on = false;
	vigil->until = 0;
}

void vigil_slept(struct vigil *vigil, uint64_t took)
{
	lookout_slept(&vigil->lookout, took);
}
