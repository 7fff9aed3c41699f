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
static const uint64_t IDLE_NS = 12000000;

static struct contest *present(struct contests *contests)
{
	return &contests->of[contests->are_alone];
}

static void begin_window(struct contests *contests, uint32_t psn)
{
	present(contests)->state = CONTEST_CLEARING;
	contests->from = psn;
}

static uint32_t median(const uint32_t took[CONTEST_TIMES])
{
	uint32_t a = took[0], b = took[1], c = took[2];

	if (a > b) {
		a = took[1];
		b = took[0];
	}
	return c < a ? a : c > b ? b : c;
}

_Static_assert(CONTEST_TIMES == 3, "the median of three");

static void settle(struct contest *contest, bool changes)
{
	if (changes)
		contest->best = !contest->best;
	if (changes || !contest->interval)
		contest->interval = CONTEST_SOONEST;
	else if (contest->interval < CONTEST_LATEST)
		contest->interval *= 2;
	contest->way = contest->best;
	contest->settled = 0;
	contest->state = CONTEST_SETTLED;
}

static bool is_other_better(const struct contest *contest)
{
	uint32_t best = median(contest->took[contest->best]);

	return median(contest->took[!contest->best]) < best - best / GAIN;
}

/* After one window each. */
static bool is_hopeless(const struct contest *contest)
{
	return contest->windows == 2 &&
	       contest->took[!contest->best][0] / HOPELESS > contest->took[contest->best][0];
}

static bool count(struct contests *contests, uint32_t una, uint32_t psn, uint32_t psns)
{
	struct contest *contest = present(contests);

	switch (contest->state) {
	case CONTEST_CLEARING:
		return una == psn || psn_compare(una, contests->from) >= 0;
	case CONTEST_WARMING:
		return psn_into(una, contests->from) >= CONTEST_WARM * psns;
	case CONTEST_TIMING:
		return psn_into(una, contests->from) >= CONTEST_WINDOW * psns;
	default:
		contest->settled++;
		if (contest->settled < (contest->interval ? contest->interval : CONTEST_FIRST))
			return false;
		contest->windows = 0;
		begin_window(contests, psn);
		return false;
	}
}

/* Where most of a block were of the other kind, that one's contest goes on. */
static void change_sides(struct contests *contests, uint32_t psn)
{
	contests->are_alone = !contests->are_alone;
	if (present(contests)->state != CONTEST_SETTLED)
		begin_window(contests, psn);
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
	return count(contests, una, psn, psns);
}

static void end_window(struct contests *contests, uint32_t una, uint32_t psn, uint64_t now)
{
	struct contest *contest = present(contests);
	uint64_t took = now - contests->since;

	if (took > IDLE_NS) {
		settle(contest, false);
		return;
	}
	contest->took[contest->way][contest->windows / 2] =
	    (uint32_t)(took * UNIT / psn_into(una, contests->from));
	contest->windows++;
	if (is_hopeless(contest)) {
		settle(contest, false);
	} else if (contest->windows == 2 * CONTEST_TIMES) {
		settle(contest, is_other_better(contest));
	} else {
		contest->way = !contest->way;
		begin_window(contests, psn);
	}
}

void contests_time(struct contests *contests, uint32_t una, uint32_t psn, uint64_t now)
{
	struct contest *contest = present(contests);

	if (contest->state == CONTEST_TIMING) {
		end_window(contests, una, psn, now);
		return;
	}
	contest->state++;
	contests->from = una;
	contests->since = now;
}
