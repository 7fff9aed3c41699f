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
	SURE = 3,	     /* long round trips in a row */
	MARK_SHARE_MAX = 4,  /* a mark takes one part of the window in so many, at most, */
	MARK_SHARE_MIN = 16, /* and at least */
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

void window_acknowledged(struct window *window, uint32_t packets, uint32_t una)
{
	if (window->is_recovering && psn_compare(una, window->recover) >= 0)
		window->is_recovering = false;
	if (window->packets < window->threshold) {
		window->packets = at_most(window->packets + packets, window->threshold);
	} else {
		window->grown += packets;
		if (window->grown >= window->packets) {
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
}

void window_lost(struct window *window, uint32_t end)
{
	if (!window->is_recovering)
		window_shrink(window, at_least(window->packets / 2, 1), end);
}

/* No room was wanting, as far as one can see. */
static bool is_by_chance(struct window *window, uint32_t una, uint32_t end)
{
	uint32_t round;

	if (!window->lost || psn_compare(una, window->lost_until) >= 0) {
		window->lost = 0;
		window->lost_from = una;
		window->lost_until = end;
	}
	window->lost++;
	round = at_least(window->packets, psn_into(end, window->lost_from));
	return window->queued < SURE - 1 && round >= TOLERANT_FROM &&
	       window->lost <= 1 + round / TOLERATED_SHARE;
}

void window_missed(struct window *window, uint32_t una, uint32_t end)
{
	if (!is_by_chance(window, una, end))
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

/* What waits goes: as all who share the line do so at once, each sees how long its way is. One or
 * two long round trips may be processors that were busy. */
void window_timed(struct window *window, const struct rtt *rtt, uint64_t sample, uint32_t mtu,
		  uint64_t now)
{
	set_max(window, rtt, mtu);
	if (sample <= rtt->least + rtt->least / 16 + QUEUE_NS) {
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
	if (now - window->emptied > EMPTY_NS) {
		window->packets = window->start;
		window->emptied = now;
	}
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
	window->grown = 0;
	window->recover = end;
	window->is_recovering = true;
}

void window_timed_out(struct window *window, uint32_t end)
{
	window_shrink(window, 1, end);
}
