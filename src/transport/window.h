/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many packets a requester may have in flight. A receiving socket of an unprivileged user holds
 * some 200 KiB for all QPs of a process together, and nothing on the way says when it is full; so
 * the window opens as acknowledgements come (doubling a round until the first loss, then by one
 * packet a round) and halves once for each round that lost something. A timeout starts again from
 * one packet. Small packets count as what they are, as long as there are no others in flight.
 * Deterministic: packets and PSNs alone move it.
 */
#ifndef TRANSPORT_WINDOW_H
#define TRANSPORT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

enum {
	WINDOW_START_BYTES = 64 << 10,
	WINDOW_MAX_BYTES = 256 << 10,
	WINDOW_MAX_PACKETS = 256,
	WINDOW_SMALL_BYTES = 1024, /* what a small packet has of payload, at most */
	ACK_INTERVAL = 32,	   /* packets at most between two that ask for an ACK */
};

struct window {
	uint32_t packets;   /* may be in flight; 1 at least */
	uint32_t max;	    /* of `packets` */
	uint32_t smalls;    /* so many small packets take the room of one that is full */
	uint32_t threshold; /* below it the window doubles a round */
	uint32_t grown;	    /* packets acknowledged towards the next one */
	uint32_t recover;   /* PSN; losses before it belong to a round that has been paid for */
	bool is_recovering;
};

void window_init(struct window *window, uint32_t mtu);

/* The same where all of them are small. */
static inline uint32_t window_smalls(const struct window *window)
{
	uint32_t packets = window->packets * window->smalls;

	return packets < WINDOW_MAX_PACKETS ? packets : WINDOW_MAX_PACKETS;
}

/* `packets` more were acknowledged, up to but without `una`. */
void window_acknowledged(struct window *window, uint32_t packets, uint32_t una);

/* Something before `end` was lost: a NAK or a gap told so. */
void window_lost(struct window *window, uint32_t end);

/* Nothing came back in time. */
void window_timed_out(struct window *window, uint32_t end);

/* How many packets go out at most between two that ask for an ACK: two answers a window. */
static inline uint32_t window_ack_interval(const struct window *window)
{
	uint32_t half = (window->packets + 1) / 2;

	return half < ACK_INTERVAL ? half : ACK_INTERVAL;
}

#endif
