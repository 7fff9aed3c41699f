/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The windows are by turns of the way that is settled on and of the other.
 */
#include "transport/contest.h"
#include "wire/psn.h"

enum {
	HOPELESS = 2, /* so many times as long, and the other way is given up */
	UNIT = 1024,  /* PSNs */
};

static const struct duel_terms terms = {
    .first = CONTEST_FIRST,
    .again = CONTEST_SOONEST,
    .soonest = CONTEST_SOONEST,
    .latest = CONTEST_LATEST,
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

static bool is_other_better(const struct contest *contest)
{
	uint8_t best = contest->duel.best;

	return duel_is_better(duel_median(contest->took[!best], CONTEST_TIMES),
			      duel_median(contest->took[best], CONTEST_TIMES));
}

/* After one window each. */
static bool is_hopeless(const struct contest *contest)
{
	uint8_t best = contest->duel.best;

	return contest->windows == 2 && contest->took[!best][0] / HOPELESS > contest->took[best][0];
}

/* Whether this part of the window is over. */
static bool is_over(const struct contests *contests, uint8_t state, uint32_t una, uint32_t psn,
		    uint32_t psns)
{
	switch (state) {
	case CONTEST_CLEARING:
		return una == psn || psn_compare(una, contests->from) >= 0;
	case CONTEST_WARMING:
		return psn_into(una, contests->from) >= CONTEST_WARM * psns;
	default:
		return psn_into(una, contests->from) >= CONTEST_WINDOW * psns;
	}
}

static bool count(struct contests *contests, uint32_t una, uint32_t psn, uint32_t psns)
{
	struct contest *contest = present(contests);

	if (contest->duel.is_running)
		return is_over(contests, contest->state, una, psn, psns);
	if (duel_begins(&contest->duel, &terms, 1)) {
		contest->windows = 0;
		begin_window(contests, psn);
	}
	return false;
}

/* Where most of a block were of the other kind, that one's contest goes on. */
static void change_sides(struct contests *contests, uint32_t psn)
{
	contests->are_alone = !contests->are_alone;
	if (present(contests)->duel.is_running)
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
	struct duel *duel = &contest->duel;
	uint64_t took = now - contests->since;

	if (took > IDLE_NS) {
		duel_end(duel, &terms, false);
		return;
	}
	contest->took[duel->way][contest->windows / 2] =
	    (uint32_t)(took * UNIT / psn_into(una, contests->from));
	contest->windows++;
	if (is_hopeless(contest)) {
		duel_end(duel, &terms, false);
	} else if (contest->windows == 2 * CONTEST_TIMES) {
		duel_end(duel, &terms, is_other_better(contest));
	} else {
		duel_turn(duel);
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
