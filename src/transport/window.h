/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many packets a requester may have in flight. A receiving socket of an unprivileged user holds
 * some 200 KiB for all QPs of a process together, and nothing on the way says when it is full; so
 * the window opens as acknowledgements come (doubling a round until the first congestion, then by
 * one packet a round) and halves once for each round that was congested. A timeout starts again
 * from one packet. Small packets count as what they are, as long as there are no others in flight.
 * Deterministic: packets, PSNs and round trips alone move it.
 *
 * A long way holds more: there the window opens further, in larger steps, and follows the round
 * trip. When that is longer than the shortest one, packets wait somewhere on the way, and the
 * window shrinks to what would be on the way without waiting. Whoever has measured its shortest one
 * behind others' packets would never give way to them; so now and then the window begins anew from
 * the start, doubling to where it shall be, and lets the line run empty of its own.
 *
 * A few packets lost while none waits were not lost for want of room: towards a peer that tells
 * which are missing they change nothing.
 */
#ifndef TRANSPORT_WINDOW_H
#define TRANSPORT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/rtt.h"

enum {
	WINDOW_START_BYTES = 64 << 10,
	WINDOW_MAX_BYTES = 256 << 10,
	WINDOW_MAX_PACKETS = 256,
	WINDOW_SMALL_BYTES = 1024, /* what a small packet has of payload, at most */
	WINDOW_FAR_PACKETS = 1536, /* the most over a long way, whatever its speed */
	ACK_INTERVAL = 32,	   /* packets at most between two that ask for an ACK */
	ACK_INTERVAL_OURS = 128,   /* of a stream to who tells at once what is missing */
};

struct window {
	uint32_t packets;   /* may be in flight; 1 at least */
	uint32_t max;	    /* of `packets` */
	uint32_t smalls;    /* so many small packets take the room of one that is full */
	uint32_t near_max;  /* of that, over a short way */
	uint32_t start;	    /* to begin with */
	uint32_t step;	    /* packets that a round adds above the threshold */
	uint32_t threshold; /* below it the window doubles a round */
	uint32_t grown;	    /* packets acknowledged towards the next step */
	uint32_t recover;   /* PSN; losses before it belong to a round that has been paid for */
	uint32_t lost;	    /* in the round from lost_from to lost_until (PSNs) */
	uint32_t lost_from, lost_until;
	bool is_recovering;
	uint64_t emptied;  /* when it was small enough that nothing of this QP's waited */
	uint32_t queued;   /* so many round trips in a row were longer than they need be */
	uint64_t shortest; /* of those */
};

void window_init(struct window *window, uint32_t mtu);

/* The same where all of them are small. */
static inline uint32_t window_smalls(const struct window *window)
{
	uint32_t packets = window->packets * window->smalls;

	if (packets < WINDOW_MAX_PACKETS)
		return packets;
	return window->packets > WINDOW_MAX_PACKETS ? window->packets : WINDOW_MAX_PACKETS;
}

/* A long way's: it may open further than others. */
static inline bool window_is_long(const struct window *window)
{
	return window->max > window->near_max;
}

/* As far as is known nothing was ever lost or late. */
static inline bool window_is_untouched(const struct window *window)
{
	return !window->lost && window->threshold >= window->near_max;
}

/* `packets` more were acknowledged, up to but without `una`. */
void window_acknowledged(struct window *window, uint32_t packets, uint32_t una);

/* Something before `end` was lost: a NAK or a gap told so. */
void window_lost(struct window *window, uint32_t end);

/* One packet of those from `una` to `end` was lost, and goes again alone. */
void window_missed(struct window *window, uint32_t una, uint32_t end);

/* A round trip to a peer of ours, that ends now, took `sample` ns. */
void window_timed(struct window *window, const struct rtt *rtt, uint64_t sample, uint32_t mtu,
		  uint64_t now);

/* Something before `end` found a long queue. */
void window_marked(struct window *window, const struct rtt *rtt, uint32_t end);

/* Nothing came back in time. */
void window_timed_out(struct window *window, uint32_t end);

/* How many packets go out at most between two that ask for an ACK, `most` or fewer: two answers a
 * window. */
static inline uint32_t window_ack_interval(const struct window *window, uint32_t most)
{
	uint32_t half = (window->packets + 1) / 2;

	return half < most ? half : most;
}

#endif
