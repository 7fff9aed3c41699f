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

/* In what the owner counts: messages, copies, KiB. */
struct duel_terms {
	uint32_t first;	  /* from the beginning to the first trial, when all else is new as well */
	uint32_t again;	  /* from that one to the second, */
	uint32_t soonest; /* from then on from one to the next, at least */
	uint32_t latest;  /* and at most */
};

enum duel_stage {
	DUEL_FIRST,
	DUEL_AGAIN,
	DUEL_SOONEST,	  /* and twice as late with each stage behind it */
	DUEL_NEVER = 255, /* no trial comes */
};

/* Zeroed at first. Each queue pair has some, so it is small. */
struct duel {
	uint8_t way;	  /* of what is done now: 0 or 1 */
	uint8_t best;	  /* outside of trials */
	bool is_running;  /* the trial is */
	uint8_t stage;	  /* that the next one, or this one, comes at */
	uint32_t settled; /* so much was done since the last one */
};

/* So much, and then it comes. */
static inline uint64_t duel_interval(const struct duel *duel, const struct duel_terms *terms)
{
	if (duel->stage == DUEL_NEVER)
		return UINT64_MAX;
	if (duel->stage >= DUEL_SOONEST)
		return (uint64_t)terms->soonest << (duel->stage - DUEL_SOONEST);
	return duel->stage == DUEL_FIRST ? terms->first : terms->again;
}

/* So much more is about to be done by the present way. True: a trial begins before it, whose owner
 * may turn at once. To be asked while none is running. */
static inline bool duel_begins(struct duel *duel, const struct duel_terms *terms, uint32_t more)
{
	duel->is_running = duel->settled >= duel_interval(duel, terms);
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
