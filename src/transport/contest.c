/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The windows are by turns of the way that is settled on and of the other.
 */
#include "transport/contest.h"
#include "wire/psn.h"

enum {
	GAIN = 16,    /* that part of the time has to be saved, or nothing changes */
	HOPELESS = 2, /* so many times as long, and the other way is given up */
	UNIT = 1024,  /* PSNs */
};

/* A window that took longer was the program's time, and no copies'. */
static const uint64_t IDLE_NS = 3000000;

static void begin_window(struct contest *contest, uint32_t psn)
{
	contest->state = CONTEST_CLEARING;
	contest->from = psn;
}

static uint64_t median(const uint64_t took[CONTEST_TIMES])
{
	uint64_t a = took[0], b = took[1], c = took[2];

	if (a > b) {
		a = took[1];
		b = took[0];
	}
	return c < a ? a : c > b ? b : c;
}

_Static_assert(CONTEST_TIMES == 3, "the median of three");

static void settle(struct contest *contest, bool changes)
{
	if (changes) {
		contest->best = !contest->best;
		contest->interval = CONTEST_SOONEST;
	} else if (!contest->interval) {
		contest->interval = CONTEST_SOONEST;
	} else if (contest->interval < CONTEST_LATEST) {
		contest->interval *= 2;
	}
	contest->way = contest->best;
	contest->settled = 0;
	contest->state = CONTEST_SETTLED;
}

static bool is_other_better(const struct contest *contest)
{
	uint64_t best = median(contest->took[contest->best]);

	return median(contest->took[!contest->best]) < best - best / GAIN;
}

/* After one window each. */
static bool is_hopeless(const struct contest *contest)
{
	return contest->windows == 2 &&
	       contest->took[!contest->best][0] / HOPELESS > contest->took[contest->best][0];
}

static bool count(struct contest *contest, uint32_t una, uint32_t psn, uint32_t psns)
{
	switch (contest->state) {
	case CONTEST_CLEARING:
		return una == psn || psn_compare(una, contest->from) >= 0;
	case CONTEST_TIMING:
		return psn_into(una, contest->from) >= CONTEST_WINDOW * psns;
	default:
		contest->settled++;
		if (contest->settled < (contest->interval ? contest->interval : CONTEST_FIRST))
			return false;
		contest->windows = 0;
		begin_window(contest, psn);
		return false;
	}
}

/* Where most of a block were of the other kind, that one's contest goes on. */
static void change_sides(struct contests *contests, uint32_t psn)
{
	struct contest *contest = &contests->of[!contests->are_alone];

	contests->are_alone = !contests->are_alone;
	if (contest->state != CONTEST_SETTLED)
		begin_window(contest, psn);
}

static void end_block(struct contests *contests, uint32_t psn)
{
	uint8_t others =
	    contests->are_alone ? contests->counted - contests->alone : contests->alone;

	if (others > CONTEST_BLOCK * 3 / 4)
		change_sides(contests, psn);
	contests->counted = contests->alone = 0;
}

bool contests_count(struct contests *contests, uint32_t una, uint32_t psn, uint32_t psns)
{
	contests->counted++;
	contests->alone += una == psn;
	if (contests->counted == CONTEST_BLOCK)
		end_block(contests, psn);
	return count(&contests->of[contests->are_alone], una, psn, psns);
}

static void end_window(struct contest *contest, uint32_t una, uint32_t psn, uint64_t now)
{
	uint64_t took = now - contest->since;

	contest->took[contest->way][contest->windows / 2] =
	    took * UNIT / psn_into(una, contest->from);
	contest->windows++;
	if (took > IDLE_NS || is_hopeless(contest)) {
		settle(contest, false);
	} else if (contest->windows == 2 * CONTEST_TIMES) {
		settle(contest, is_other_better(contest));
	} else {
		contest->way = !contest->way;
		begin_window(contest, psn);
	}
}

void contests_time(struct contests *contests, uint32_t una, uint32_t psn, uint64_t now)
{
	struct contest *contest = &contests->of[contests->are_alone];

	if (contest->state == CONTEST_TIMING) {
		end_window(contest, una, psn, now);
	} else {
		contest->state = CONTEST_TIMING;
		contest->from = una;
		contest->since = now;
	}
}
