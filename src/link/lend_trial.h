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

enum {
	TRIAL_FIRST = 8 << 20,	 /* bytes before the first: the pages are new */
	TRIAL_STRETCH = 4 << 20, /* bytes at least */
	TRIAL_TIMES = 3,	 /* stretches of each way */
};

#define TRIAL_AGAIN   (64ull << 20)  /* bytes from the first to the second, */
#define TRIAL_SOONEST (512ull << 20) /* from that one to the next, */
#define TRIAL_LATEST  (8ull << 30)

enum lend_way { WAY_LENT, WAY_COPIED };

/* Zeroed at first. */
struct lend_trial {
	uint8_t way;	   /* of what leaves now */
	uint8_t best;	   /* outside of trials */
	uint8_t stretches; /* that are over, */
	bool is_running;   /* the trial is */
	uint64_t interval; /* bytes until the next one; 0: the first */
	uint64_t bytes;	   /* of this stretch, or since the last trial */
	uint64_t since;	   /* ns: it began */
	uint64_t least[2]; /* ns for a stretch each way; 0: none yet */
};

/* So many bytes have left by the present way. True: the time is wanted, by lend_trial_time(). */
static inline bool lend_trial_count(struct lend_trial *trial, uint32_t bytes)
{
	uint64_t first = trial->interval ? trial->interval : TRIAL_FIRST;

	trial->bytes += bytes;
	return trial->bytes >= (trial->is_running ? TRIAL_STRETCH : first);
}

void lend_trial_time(struct lend_trial *trial, uint64_t now);

#endif
