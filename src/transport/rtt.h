/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The round trip of a connection, smoothed as RFC 6298 has it: one packet that asks for an ACK is
 * timed at a time, none that may have left twice. The time that the peer takes to answer is part of
 * it.
 */
#ifndef TRANSPORT_RTT_H
#define TRANSPORT_RTT_H

#include <stdbool.h>
#include <stdint.h>

struct rtt {
	uint64_t smoothed; /* ns; 0: nothing is known */
	uint64_t variation;
	uint64_t since; /* when the packet that is timed left */
	uint32_t psn;	/* behind it */
	bool is_timing;
	bool is_behind_gap; /* its ACK may have waited for others: only GAPS tells when it came */

	uint32_t samples;
	uint64_t least; /* of the last ten to twenty seconds */
	uint64_t least_next, least_until;
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

/* After this time without an answer something is lost, most likely. */
static inline uint64_t rtt_patience(const struct rtt *rtt)
{
	uint64_t twice = 2 * rtt->smoothed, late = rtt->smoothed + 4 * rtt->variation;

	return twice > late ? twice : late;
}

#endif
