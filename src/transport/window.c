/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The congestion window, as window.h describes it.
 */
#include "transport/window.h"
#include "wire/psn.h"

enum {
	TOLERATED_SHARE = 10, /* one packet in so many may be lost of itself, and one more */
	TOLERANT_FROM = 8,    /* packets; many QPs share what room a receiver has */
	SAMPLES = 4,	      /* round trips, before the shortest is taken for the way's */
	STEPS_MAX = 16,
	SURE = 3,	      /* long rounds in a row */
	MARK_SHARE_MAX = 4,   /* a mark takes one part of the window in so many, at most, */
	MARK_SHARE_MIN = 16,  /* and at least */
	CROWDED = 3,	      /* long round trips in a row, of eight in a round, end the doubling */
	FRESH_ROUNDS = 2,     /* behind one in which it doubled, that included */
	TRIAL_PACKETS = 256,  /* of an epoch, at least */
	TRIAL_SHARE = 4,      /* so much the window yields in one, */
	TRIAL_SHARE_KEPT = 8, /* and so much for good */
	TRIAL_LOSSES = 8,     /* as many as that should be seen in one */
	TRIAL_RATE = 6,	      /* in 1024: so much is lost without one */
	TRIAL_REST = 32,      /* epochs */
	TRIAL_WARY = 64,      /* epochs in which the window comes back more slowly, */
	TRIAL_SLOWLY = 8,     /* by so much */
	TROUBLED_EPOCHS = 32, /* then what was lost or late is forgotten */
};

/* Packets that wait so long, and a sixteenth of the round trip, wait for each other; less is what
 * processors and radios do. */
static const uint64_t QUEUE_NS = 500000;

/* How often the line runs empty. */
static const uint64_t EMPTY_NS = 2000000000;

/* A step more for each. */
static const uint64_t STEP_NS = 1250000;

static uint32_t at_least(uint32_t value, uint32_t least)
{
	return value > least ? value : least;
}

static uint32_t at_most(uint32_t value, uint32_t most)
{
	return value < most ? value : most;
}

void window_init(struct window *window, uint32_t mtu)
{
	*window = (struct window){
	    .packets = at_least(WINDOW_START_BYTES / mtu, 1),
	    .start = at_least(WINDOW_START_BYTES / mtu, 1),
	    .near_max = at_most(WINDOW_MAX_BYTES / mtu, WINDOW_MAX_PACKETS),
	    .step = 1,
	    .smalls = at_least(mtu / WINDOW_SMALL_BYTES, 1),
	};
	window->threshold = window->max = window->near_max;
}

/* Something was lost or late. */
static void trouble(struct window *window)
{
	if (!window->troubled)
		patience_failed(&window->wide);
	window->troubled = TROUBLED_EPOCHS;
}

/* ---- trials ---- */

static void trial_reset(struct trial *trial)
{
	trial->phase = TRIAL_NONE;
	trial->acked = trial->lost = 0;
}

/* A queue was seen meanwhile: no more than this comes back. */
static void trial_limit(struct window *window)
{
	struct trial *trial = &window->trial;

	trial->full = at_most(trial->full, window->packets);
	trial->threshold = at_most(trial->threshold, window->packets);
}

static void trial_begin(struct window *window, uint32_t rate)
{
	struct trial *trial = &window->trial;

	trial->before = rate;
	trial->full = window->packets;
	trial->threshold = window->threshold;
	trial->phase = TRIAL_SETTLES;
	window->packets = window->threshold = window->packets - window->packets / TRIAL_SHARE;
	window->grown = 0;
}

/* Much less was lost: there was no room for more. */
static void trial_judge(struct window *window, uint32_t rate)
{
	struct trial *trial = &window->trial;

	trial->phase = TRIAL_NONE;
	if (5 * rate < 2 * trial->before) {
		window->packets =
		    at_least(window->packets, trial->full - trial->full / TRIAL_SHARE_KEPT);
		window->threshold = window->packets;
		trial->ceiling = trial->before > 2 * TRIAL_RATE ? trial->full : 0;
		trial->epochs = 0;
		trial->wary = TRIAL_WARY;
		return;
	}
	trial->ceiling = 0;
	window->packets = at_least(window->packets, trial->full);
	window->threshold = at_least(trial->threshold, window->packets);
	trial->borne = rate + rate / 2 + TRIAL_RATE;
	trial->epochs = TRIAL_REST;
}

static void trial_end_epoch(struct window *window)
{
	struct trial *trial = &window->trial;
	uint32_t rate = trial->lost * 1024 / trial->acked;
	bool are_some = trial->lost > 1;

	trial->acked = trial->lost = 0;
	if (window->troubled)
		window->troubled--;
	else
		patience_pass(&window->wide);
	if (trial->phase == TRIAL_RUNS) {
		trial_judge(window, rate);
	} else if (trial->phase == TRIAL_SETTLES) {
		trial->phase = TRIAL_RUNS;
	} else if (are_some && rate > (trial->epochs ? trial->borne : TRIAL_RATE) &&
		   window->packets >= TOLERANT_FROM) {
		trial_begin(window, rate);
	} else {
		trial->epochs -= trial->epochs > 0;
		trial->wary -= trial->wary > 0;
	}
}

static void trial_acknowledged(struct window *window, uint32_t packets)
{
	struct trial *trial = &window->trial;
	uint32_t epoch = at_least(window->packets, TRIAL_PACKETS);

	if (trial->phase == TRIAL_SETTLES)
		epoch = 2 * trial->full;
	if (trial->phase == TRIAL_RUNS)
		epoch = at_least(epoch, TRIAL_LOSSES * 1024 / trial->before);
	trial->acked += packets;
	if (trial->acked >= epoch)
		trial_end_epoch(window);
}

/* Packets that are acknowledged from one step to the next: no step in a trial, and few of them
 * where the last one found that there was no more room. */
static uint32_t packets_to_step(const struct window *window)
{
	const struct trial *trial = &window->trial;

	if (trial->phase != TRIAL_NONE)
		return UINT32_MAX;
	if (trial->wary && window->packets <= trial->ceiling)
		return TRIAL_SLOWLY * window->packets;
	return window->packets;
}

/* ---- what moves it ---- */

void window_acknowledged(struct window *window, uint32_t packets, uint32_t una)
{
	if (window->is_recovering && psn_compare(una, window->recover) >= 0)
		window->is_recovering = false;
	trial_acknowledged(window, packets);
	if (window->packets < window->threshold) {
		window->packets = at_most(window->packets + packets, window->threshold);
	} else {
		window->grown += packets;
		if (window->grown >= packets_to_step(window)) {
			window->grown = 0;
			window->packets += window->step;
		}
	}
	if (window->packets > window->max)
		window->packets = window->max;
}

static void window_shrink(struct window *window, uint32_t packets, uint32_t end)
{
	window->threshold = at_least(window->packets / 2, 2);
	window->packets = packets;
	window->grown = 0;
	window->recover = end;
	window->is_recovering = true;
	trouble(window);
	trial_reset(&window->trial);
}

void window_lost(struct window *window, uint32_t end)
{
	if (!window->is_recovering)
		window_shrink(window, at_least(window->packets / 2, 1), end);
}

/* No room was wanting, as far as one can see. */
static bool is_by_chance(struct window *window, uint32_t lost, uint32_t una, uint32_t end)
{
	uint32_t round;

	if (!window->lost || psn_compare(una, window->lost_until) >= 0) {
		window->lost = 0;
		window->lost_from = una;
		window->lost_until = end;
	}
	window->lost += lost;
	trouble(window);
	window->trial.lost += lost;
	round = at_least(window->packets, psn_into(end, window->lost_from));
	return round >= TOLERANT_FROM && window->lost <= 1 + round / TOLERATED_SHARE;
}

void window_missed(struct window *window, uint32_t lost, uint32_t una, uint32_t end)
{
	if (!is_by_chance(window, lost, una, end))
		window_lost(window, end);
}

/* A long way: as much as a fast line holds. */
static void set_max(struct window *window, const struct rtt *rtt, uint32_t mtu)
{
	uint64_t least = rtt->samples < SAMPLES ? 0 : rtt->least;
	uint64_t held = least / mtu; /* at a byte a ns */
	uint32_t far = held < WINDOW_FAR_PACKETS ? held : WINDOW_FAR_PACKETS;
	uint32_t max = at_least(window->near_max, far);

	if (window->threshold >= window->max)
		window->threshold = max;
	window->max = max;
	window->step = 1 + at_most(least / STEP_NS, STEPS_MAX - 1);
}

static bool is_long_for(const struct rtt *rtt, uint64_t sample)
{
	return sample > rtt->least + rtt->least / 16 + QUEUE_NS;
}

/* While it doubles what waits is seen a round later, and has doubled since; so that round is looked
 * at closely, and what was in flight when the packets left counts. What left before the window
 * began anew says nothing. */
static void time_doubling(struct window *window, const struct rtt *rtt, uint64_t sample,
			  uint32_t in_flight, uint64_t now)
{
	if (now - sample < window->emptied)
		return;
	if (!is_long_for(rtt, sample)) {
		window->crowded = window->fitting = 0;
		return;
	}
	window->fitting = at_least(window->fitting, in_flight * rtt->least / sample);
	if (++window->crowded < CROWDED || window->packets <= window->near_max)
		return;
	window->threshold = at_least(at_most(window->fitting, window->packets), window->near_max);
	window->packets = window->threshold;
	window->grown = window->crowded = window->fitting = 0;
	window->queued = window->fresh = 0;
	trial_limit(window);
}

/* What waits goes: as all who share the line do so at once, each sees how long its way is. One or
 * two long rounds may be processors that were busy. */
static void time_round(struct window *window, const struct rtt *rtt, uint64_t sample, uint64_t now)
{
	if (!is_long_for(rtt, sample)) {
		window->queued = 0;
		return;
	}
	if (!window->queued || sample < window->shortest)
		window->shortest = sample;
	window->queued += window->queued < SURE;
	if (window->queued < SURE - 1 || window->packets <= window->near_max)
		return;
	if (window->queued < SURE) {
		window->threshold = window->packets;
		return;
	}
	window->threshold =
	    at_least(window->packets * rtt->least / window->shortest, window->near_max);
	window->packets = window->threshold;
	window->grown = 0;
	window->queued = 0;
	trial_limit(window);
	if (now - window->emptied > EMPTY_NS) {
		window->packets = window->start;
		window->emptied = now;
	}
}

void window_timed(struct window *window, const struct rtt *rtt, uint64_t sample, uint32_t in_flight,
		  uint32_t mtu, uint64_t now)
{
	set_max(window, rtt, mtu);
	if (window_is_doubling(window))
		window->fresh = FRESH_ROUNDS;
	if (window->fresh)
		time_doubling(window, rtt, sample, in_flight, now);
	if (!window->round_least || sample < window->round_least)
		window->round_least = sample;
	if (now < window->round_until)
		return;
	time_round(window, rtt, window->round_least, now);
	window->round_until = now + rtt->smoothed;
	window->round_least = 0;
	window->fresh -= window->fresh > 0;
}

/* How many packets of the window wait, as far as is known; not all of them, not none. */
static uint32_t waiting(const struct window *window, const struct rtt *rtt)
{
	uint32_t most = window->packets / MARK_SHARE_MAX, least = window->packets / MARK_SHARE_MIN;

	if (!rtt->least || rtt->smoothed < rtt->least)
		return most;
	return at_least(
	    at_most(window->packets * (rtt->smoothed - rtt->least) / rtt->smoothed, most), least);
}

/* Once a round, and by what waits, as nothing is lost yet: over a long way that is little of all
 * that is on the way. */
void window_marked(struct window *window, const struct rtt *rtt, uint32_t end)
{
	if (window->is_recovering)
		return;
	window->packets = at_least(window->packets - waiting(window, rtt), 2);
	window->threshold = window->packets;
	trial_limit(window);
	window->grown = 0;
	trouble(window);
	window->recover = end;
	window->is_recovering = true;
}

void window_timed_out(struct window *window, uint32_t end)
{
	window_shrink(window, 1, end);
}
