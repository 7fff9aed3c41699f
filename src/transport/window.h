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
 * trip: up to eight are measured in each, and the shortest of them counts. When that is longer than
 * the shortest one ever, packets wait somewhere on the way, and the window shrinks to what would be
 * on the way without waiting. While it doubles it looks at each: what it sees is a round old, and
 * it has doubled since. Whoever has measured its shortest one behind others' packets would never
 * give way to them; so now and then the window begins anew from the start, doubling to where it
 * shall be, and lets the line run empty of its own.
 *
 * A few packets that are lost, towards a peer that tells which are missing, may be lost by chance,
 * or for want of room in a queue so short that no round trip tells of it. A trial tells: the window
 * yields a quarter for a while. Where as much is lost as before it was chance, and it has back what
 * it had; where little is, an eighth is given up, and it grows slowly from there.
 *
 * A stream may have several times that over a short way while nothing is lost. What a READ asks for
 * comes at once, in whole segmented sends, so with four of 64 KiB under way both ends wait for each
 * other; and SENDs and WRITEs leave in turns of 248 KB with one ACK each, of which some have to be
 * under way lest one end waits for the other. After a loss it has so much again when that is
 * forgotten, and ever later with each.
 */
#ifndef TRANSPORT_WINDOW_H
#define TRANSPORT_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/patience.h"
#include "transport/rtt.h"

enum {
	WINDOW_START_BYTES = 64 << 10,
	WINDOW_MAX_BYTES = 256 << 10,
	WINDOW_MAX_PACKETS = 256,
	/* times as much may be a stream's, where a socket of the requester's holds so many bytes */
	WINDOW_WIDE = 2,
	WINDOW_WIDE_SOCKET = 4 * WINDOW_MAX_BYTES,
	WINDOW_WIDEST = 4,
	WINDOW_WIDEST_SOCKET = 16 * WINDOW_MAX_BYTES,
	WINDOW_SMALL_BYTES = 1024, /* what a small packet has of payload, at most */
	WINDOW_FAR_PACKETS = 1536, /* the most over a long way, whatever its speed */
	ACK_INTERVAL = 32,	   /* packets at most between two that ask for an ACK */
	ACK_INTERVAL_OURS = 256,   /* of a stream to who tells at once what is missing */
};

struct trial {
	uint32_t lost;	    /* packets of this epoch */
	uint32_t before;    /* what was lost in the one before the trial, in 1024 */
	uint32_t full;	    /* the window then, */
	uint32_t threshold; /* and that */
	uint32_t borne;	    /* in 1024, */
	uint32_t epochs;    /* for so many more */
	uint32_t ceiling;   /* a window that was found too large, */
	uint32_t wary;	    /* which is believed for so many epochs more */
	uint32_t acked;	    /* packets of this epoch */
	enum { TRIAL_NONE, TRIAL_SETTLES, TRIAL_RUNS } phase;
};

struct window {
	uint32_t smalls;   /* so many small packets take the room of one that is full */
	uint32_t near_max; /* of `max`, over a short way */
	uint32_t start;	   /* to begin with */
	uint32_t recover;  /* PSN; losses before it belong to a round that has been paid for */
	uint32_t lost;	   /* in the round from lost_from to lost_until (PSNs) */
	uint32_t lost_from, lost_until;
	uint64_t emptied; /* when it was small enough that nothing of this QP's waited */
	uint64_t round_until;
	uint64_t round_least; /* the shortest round trip of those in this round; 0: none yet */
	uint64_t shortest;    /* of `queued` */
	uint8_t queued;	      /* so many rounds in a row were longer than they need be */
	uint8_t fresh;	      /* so many rounds more, as it doubled in one just before: */
	uint8_t step;	      /* packets that a round adds above the threshold */
	uint32_t crowded;     /* of `fresh`: so many round trips in a row are that, too */
	uint32_t fitting;     /* of that much nothing would have waited, by the best of them */
	struct patience wide; /* epochs without trouble, until it is wide again */
	/* what each ACK looks at comes last, from trial.wary on: the probe's is behind it */
	struct trial trial;
	uint32_t packets;   /* may be in flight; 1 at least */
	uint32_t max;	    /* of `packets` */
	uint32_t threshold; /* below it the window doubles a round */
	uint32_t grown;	    /* packets acknowledged towards the next step */
	bool is_recovering;
	uint8_t troubled; /* for so many epochs more: something was lost or late */
};

enum { WINDOW_HOT = offsetof(struct window, trial.wary) };

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

static inline bool window_is_doubling(const struct window *window)
{
	return window->packets < window->threshold;
}

/* It opens no further. */
static inline bool window_is_full(const struct window *window)
{
	return window->packets >= window->max;
}

/* Some queue on the way was found to have little room. */
static inline bool window_is_tight(const struct window *window)
{
	return window->trial.wary;
}

/* As far as is known nothing was lost or late, for long. */
static inline bool window_is_untouched(const struct window *window)
{
	return !window->troubled &&
	       (window->threshold >= window->near_max || window->packets >= window->near_max);
}

/* How many windows a stream may have, that is one of so many queue pairs, for a socket that holds
 * so many bytes: the peer's is taken for one of the same size, and all may send there. */
static inline uint32_t window_times(uint32_t socket_bytes, uint32_t qps)
{
	if (socket_bytes < WINDOW_WIDE_SOCKET)
		return 1;
	if (socket_bytes < WINDOW_WIDEST_SOCKET ||
	    qps > socket_bytes / (WINDOW_WIDEST * WINDOW_MAX_BYTES))
		return WINDOW_WIDE;
	return WINDOW_WIDEST;
}

/* Of a stream. */
static inline uint32_t window_wide(const struct window *window, uint32_t times)
{
	bool is_wide = window_is_full(window) && !window_is_long(window) &&
		       window_is_untouched(window) && patience_is_over(&window->wide);

	return is_wide ? times * window->packets : window->packets;
}

/* `packets` more were acknowledged, up to but without `una`. */
void window_acknowledged(struct window *window, uint32_t packets, uint32_t una);

/* Something before `end` was lost: a NAK or a gap told so. */
void window_lost(struct window *window, uint32_t end);

/* `lost` packets of those from `una` to `end` were, and go again alone. */
void window_missed(struct window *window, uint32_t lost, uint32_t una, uint32_t end);

/* A round trip to a peer of ours, that ends now, took `sample` ns, and began with so many packets
 * in flight. */
void window_timed(struct window *window, const struct rtt *rtt, uint64_t sample, uint32_t in_flight,
		  uint32_t mtu, uint64_t now);

/* Something before `end` found a long queue. */
void window_marked(struct window *window, const struct rtt *rtt, uint32_t end);

/* Nothing came back in time. */
void window_timed_out(struct window *window, uint32_t end);

/* How many packets go out at most between two that ask for an ACK, `most` or fewer: two answers a
 * window of `packets`. */
static inline uint32_t window_ack_interval(uint32_t packets, uint32_t most)
{
	uint32_t half = (packets + 1) / 2;

	return half < most ? half : most;
}

#endif
