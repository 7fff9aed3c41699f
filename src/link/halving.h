/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a copy that is not so long is one for two (assist.h), each of whom does half of it: each
 * looks up pages of its own, and the one that is there first waits for the other. On one machine
 * 128 KiB take a fifth less by halves, on another half as long again. So both ways are tried now
 * and then, some copies each; the median of each counts, as others may have had the core in one of
 * them. Trials that change nothing come less and less often.
 */
#ifndef LINK_HALVING_H
#define LINK_HALVING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/duel.h"

enum {
	HALVING_FIRST = 32,	/* copies before the first trial: the pages are new */
	HALVING_SOONEST = 1024, /* from one to the next, */
	HALVING_LATEST = 64 << 10,
	HALVING_TIMES = 5, /* copies of each way */
};

enum halving_way { HALVING_IN_ONE, HALVING_HALVES };

/* Zeroed at first. */
struct halving {
	struct duel duel;		 /* counts copies */
	uint8_t copies;			 /* of it that are over */
	uint32_t took[2][HALVING_TIMES]; /* ns for 64 KiB: in one, by halves */
};

/* Of the present copy. */
static inline bool halving_is_halved(const struct halving *halving)
{
	return halving->duel.way == HALVING_HALVES;
}

/* A copy begins. True: halving_time() is to be told how long it took. */
bool halving_count(struct halving *halving);
void halving_time(struct halving *halving, uint64_t bytes, uint64_t took);

#endif
