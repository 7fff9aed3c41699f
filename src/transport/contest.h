/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * By which of two ways middling SENDs go: as records, which are copied into the ring and out of it
 * (express.h), or as offers, which their receiver fetches (offer.h). Which one is faster is the
 * machine's, by up to a factor of two either way. So both are tried now and then, in turn a window
 * of messages each, timed from acknowledgement to acknowledgement; the median of each counts, as
 * others may have had the core in one of them. What goes right behind a change of the way is not
 * timed: its ends have to find into step, and offers their helper, so that it is slower than all
 * that follows. Contests that change nothing come less and less often, and what is clearly slower
 * is given up after its first window.
 *
 * Streams, and messages that leave while nothing is in flight, have a contest each: the first are
 * about bandwidth, the second about latency.
 */
#ifndef TRANSPORT_CONTEST_H
#define TRANSPORT_CONTEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/duel.h"

enum {
	CONTEST_BYTES = 16 << 10, /* of a message at least: shorter ones are records */
	CONTEST_FIRST = 64,	  /* messages before the first: the ring's memory is new */
	CONTEST_SOONEST = 8192,	  /* from one to the next, */
	CONTEST_LATEST = 128 << 10,
	CONTEST_WARM = 32,    /* messages of each window before its time begins, */
	CONTEST_WINDOW = 128, /* and in it */
	CONTEST_TIMES = 3,    /* windows of each way */
	CONTEST_BLOCK = 64,   /* of so many messages most are alone, or most are not */
};

enum contest_way { CONTEST_RECORDS, CONTEST_OFFERS };

/* Of the window. */
enum contest_state {
	CONTEST_CLEARING, /* what left by the other way is not all acknowledged */
	CONTEST_WARMING,
	CONTEST_TIMING,
};

struct contest {
	struct duel duel;		 /* counts messages */
	uint8_t state;			 /* while it is running */
	uint8_t windows;		 /* that are over */
	uint32_t took[2][CONTEST_TIMES]; /* ns each way; for 1024 PSNs */
};

/* Zeroed at first. */
struct contests {
	struct contest of[2]; /* streams, messages alone */
	uint64_t since;	      /* when `from` was acknowledged, if that is timed */
	uint32_t from;	      /* PSN; there the window, or its time, begins or began */
	bool are_alone;
	uint8_t counted, alone; /* of the block */
};

static inline bool contests_want_offers(const struct contests *contests)
{
	return contests->of[contests->are_alone].duel.way == CONTEST_OFFERS;
}

/*
 * A message is about to leave with this PSN, as `psns` of them; what lies before `una` is
 * acknowledged. True: the time is wanted, by contests_time().
 */
bool contests_count(struct contests *contests, uint32_t una, uint32_t psn, uint32_t psns);
void contests_time(struct contests *contests, uint32_t una, uint32_t psn, uint64_t now);

#endif
