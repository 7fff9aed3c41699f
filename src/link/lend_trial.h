/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * By which of two ways the pages of a stream leave: lent, or copied by the kernel (udp_lend.c).
 * Which one is faster is the machine's: by a half on one, and by as much as twice the other way on
 * the next. So both are tried now and then, in turn a stretch of bytes each. The least time of each
 * way counts, as whatever comes between only adds. Trials that change nothing come less and less
 * often.
 */
#ifndef LINK_LEND_TRIAL_H
#define LINK_LEND_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/duel.h"

enum {
	LEND_TRIAL_FIRST = 8 << 20,   /* bytes before the first: the pages are new */
	LEND_TRIAL_STRETCH = 4 << 20, /* bytes at least */
	LEND_TRIAL_TIMES = 3,	      /* stretches of each way */
};

#define LEND_TRIAL_AGAIN   (64ull << 20)  /* bytes from the first to the second, */
#define LEND_TRIAL_SOONEST (512ull << 20) /* from that one to the next, */
#define LEND_TRIAL_LATEST  (8ull << 30)

enum lend_way { WAY_LENT, WAY_COPIED };

/* Zeroed at first. */
struct lend_trial {
	struct duel duel;  /* counts KiB; the first way is to lend */
	uint8_t stretches; /* of it that are over */
	uint64_t bytes;	   /* of this stretch; less than a KiB while none is running */
	uint64_t since;	   /* ns: it began; 0: the first is about to */
	uint64_t least[2]; /* ns for a stretch each way; 0: none yet */
};

/* What leaves now. */
static inline bool lend_trial_lends(const struct lend_trial *lend)
{
	return lend->duel.way == WAY_LENT;
}

/* So many bytes have left by the present way. True: the time is wanted, by lend_trial_time(). */
bool lend_trial_count(struct lend_trial *lend, uint32_t bytes);
void lend_trial_time(struct lend_trial *lend, uint64_t now);

#endif
