/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The round trip of a connection, smoothed as RFC 6298 has it. Of the packets that ask for an ACK
 * one at a time is timed, over a long way up to eight of a window; none that may have left twice.
 * The time that the peer takes to answer is part of it.
 */
#ifndef TRANSPORT_RTT_H
#define TRANSPORT_RTT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "wire/psn.h"

enum { RTT_TIMED = 8 };

/* A packet that is timed. */
struct timed {
	uint64_t since; /* when it left */
	uint32_t psn;	/* behind it */
	uint32_t ahead; /* packets in flight with it */
	bool is_void;	/* it has left again, */
	bool
	    is_behind_gap; /* or its ACK may have waited for others: only GAPS tells when it came */
};

struct rtt {
	uint32_t timed_count;
	uint32_t samples;
	uint64_t smoothed; /* ns; 0: nothing is known */
	uint64_t variation;
	uint64_t least; /* of the last ten to twenty seconds */
	uint64_t least_next, least_until;
	struct timed timed[RTT_TIMED]; /* in the order of leaving */
};

static const uint64_t RTT_LEAST_NS = 10000000000;

/* The way may have become longer. */
static inline void rtt_note_least(struct rtt *rtt, uint64_t sample, uint64_t now)
{
	rtt->samples++;
	if (!rtt->least || now >= rtt->least_until) {
		rtt->least = rtt->least ? rtt->least_next : sample;
		rtt->least_next = sample;
		rtt->least_until = now + RTT_LEAST_NS;
	}
	if (sample < rtt->least_next)
		rtt->least_next = sample;
	if (sample < rtt->least)
		rtt->least = sample;
}

static inline void rtt_add(struct rtt *rtt, uint64_t sample)
{
	uint64_t off = sample > rtt->smoothed ? sample - rtt->smoothed : rtt->smoothed - sample;

	if (!rtt->smoothed) {
		rtt->smoothed = sample ? sample : 1;
		rtt->variation = sample / 2;
		return;
	}
	rtt->variation += off / 4 - rtt->variation / 4;
	rtt->smoothed += sample / 8 - rtt->smoothed / 8;
}

static inline bool rtt_is_timing(const struct rtt *rtt)
{
	return rtt->timed_count;
}

/* Whether another one may be timed, `stride` PSNs behind the last. */
static inline bool rtt_may_time(const struct rtt *rtt, uint32_t psn, uint32_t stride)
{
	uint32_t count = rtt->timed_count;

	if (!count)
		return true;
	return count < RTT_TIMED && psn_into(psn, rtt->timed[count - 1].psn) >= stride;
}

static inline void rtt_time(struct rtt *rtt, struct timed timed)
{
	rtt->timed[rtt->timed_count++] = timed;
}

/* The first `count` are over. */
static inline void rtt_drop(struct rtt *rtt, uint32_t count)
{
	rtt->timed_count -= count;
	if (rtt->timed_count)
		memmove(rtt->timed, rtt->timed + count, rtt->timed_count * sizeof(rtt->timed[0]));
}

/* What is under way is behind a gap from now on. */
static inline void rtt_note_gap(struct rtt *rtt)
{
	for (uint32_t i = 0; i < rtt->timed_count; i++)
		rtt->timed[i].is_behind_gap = true;
}

/* The packet before this PSN leaves again: which of the two will be answered? */
static inline void rtt_void(struct rtt *rtt, uint32_t psn)
{
	for (uint32_t i = 0; i < rtt->timed_count; i++)
		if (rtt->timed[i].psn == psn)
			rtt->timed[i].is_void = true;
}

/* After this time without an answer something is lost, most likely. */
static inline uint64_t rtt_patience(const struct rtt *rtt)
{
	uint64_t twice = 2 * rtt->smoothed, late = rtt->smoothed + 4 * rtt->variation;

	return twice > late ? twice : late;
}

#endif
