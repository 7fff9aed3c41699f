/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether what comes by an inlet is an exchange: one packet at a time, each of which answers one of
 * ours, as its ACK in front of it shows (OPCODE_ACK_AND). Then an inlet can be terse (udp.h), which
 * spares 0.4 us of each. A stream is none, even where its packets come one by one because the line
 * is slow: its packets are not all answers. So nobody is missing marks (ECN) who could make use of
 * them.
 *
 * By what comes, without a clock: it takes a window of turns to begin, and two batches of another
 * kind in a row to end it. What ended soon is tried again later each time.
 */
#ifndef ENGINE_EXCHANGE_H
#define ENGINE_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/patience.h"

/* Zeroed at first. */
struct exchange {
	uint32_t turns;		  /* of this window */
	uint32_t doubt;		  /* grows with each batch that is none, shrinks with each turn */
	struct patience patience; /* in windows */
};

/* A batch came in, a turn or another. False: while this was taken for an exchange, it is over. */
bool exchange_goes_on(struct exchange *exchange, bool is_turn);

/* A window of so many batches is over; what was begun has lasted for long enough to have been worth
 * it, or not: whether the next window may be an exchange. */
bool exchange_review(struct exchange *exchange, uint32_t batches, bool has_lasted);

/* What was begun is over. */
void exchange_ended(struct exchange *exchange);

#endif
