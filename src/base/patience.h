/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When something that has failed is tried again: after one round, three, seven and so on, until it
 * has worked. A round is what its owner counts; time plays no part.
 */
#ifndef BASE_PATIENCE_H
#define BASE_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

enum { PATIENCE_ROUNDS_MAX = 1 << 16 };

/* Zeroed at first: it may be tried. */
struct patience {
	uint32_t rounds; /* to come without a try */
	uint32_t last;	 /* as many as the last failure took; 0: it has worked since */
};

static inline bool patience_is_over(const struct patience *patience)
{
	return !patience->rounds;
}

/* A round is over. */
static inline void patience_pass(struct patience *patience)
{
	patience->rounds -= patience->rounds > 0;
}

static inline void patience_failed(struct patience *patience)
{
	patience->last = 2 * patience->last + 1;
	if (patience->last > PATIENCE_ROUNDS_MAX)
		patience->last = PATIENCE_ROUNDS_MAX;
	patience->rounds = patience->last;
}

static inline void patience_worked(struct patience *patience)
{
	patience->last = 0;
}

#endif
