/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of two ways to do the same is faster is often the machine's, and another one when its cores
 * are elsewhere or others have them. So both are tried now and then; between trials all goes by the
 * better one. What is counted, what is timed and how is its owner's, who says at the end whether
 * the other way was better. Trials that change nothing come less and less often.
 */
#ifndef BASE_DUEL_H
#define BASE_DUEL_H

#include <stdbool.h>
#include <stdint.h>

/* In what the owner counts: messages, copies, bytes. */
struct duel_terms {
	uint64_t first;	  /* from the beginning to the first trial, when all else is new as well */
	uint64_t again;	  /* from that one to the second, */
	uint64_t soonest; /* from then on from one to the next, at least */
	uint64_t latest;  /* and at most */
};

/* Zeroed at first. */
struct duel {
	uint8_t way;	   /* of what is done now: 0 or 1 */
	uint8_t best;	   /* outside of trials */
	bool is_running;   /* the trial is */
	uint64_t settled;  /* so much was done since the last one */
	uint64_t interval; /* so much, and then comes the next; 0: the first */
};

/* So much more is about to be done by the present way. True: a trial begins before it, whose owner
 * may turn at once. To be asked while none is running. */
static inline bool duel_begins(struct duel *duel, const struct duel_terms *terms, uint64_t more)
{
	duel->is_running = duel->settled >= (duel->interval ? duel->interval : terms->first);
	duel->settled += more;
	return duel->is_running;
}

/* The other way from here on. */
static inline void duel_turn(struct duel *duel)
{
	duel->way = !duel->way;
}

void duel_end(struct duel *duel, const struct duel_terms *terms, bool is_other_better);

/* Whether that is worth a change: where the other way takes a sixteenth less. */
bool duel_is_better(uint64_t other, uint64_t best);

enum { DUEL_TIMES_MAX = 5 };

/* Of an odd number of times, up to DUEL_TIMES_MAX: others may have had the core in the rest. */
uint32_t duel_median(const uint32_t *times, unsigned int count);

#endif
