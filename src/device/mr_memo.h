/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What was found of a region last, for who looks again: most messages of a program lie in one or
 * two.
 *
 * It holds as long as no region of the adapter has ended or changed. One that does is first out of
 * look-ups' sight, then the adapter counts, and then each lane's lock has been free once (mr.c). So
 * who has a lane's lock and finds the count as it was ahead of the look-up is one of those that are
 * waited for, as if it had looked up the region now.
 */
#ifndef DEVICE_MR_MEMO_H
#define DEVICE_MR_MEMO_H

#include <stddef.h>
#include <stdint.h>

#include "base/lines.h"
#include "device/limits.h"

struct protection;

/* Zeroed memory is of no region. */
struct mr_memo {
	unsigned long changes; /* as the adapter counted them */
	const struct protection *protection;
	char *base;
	uint64_t iova, length;
	uint32_t key;
	unsigned int access;
};

/* Where it lies, NULL if that is not known. `changes` is what the adapter has counted by now. */
static inline char *mr_recall(const struct mr_memo *memo, unsigned long changes,
			      const struct protection *protection, uint32_t key, uint64_t addr,
			      uint64_t length, unsigned int need)
{
	uint64_t into = addr - memo->iova;

	if (memo->key != key || memo->changes != changes || memo->protection != protection ||
	    need & ~memo->access || into > memo->length || length > memo->length - into)
		return NULL;
	return memo->base + into;
}

/* A lane's, under its lock: of what is sent, of what is received, and of what a peer of this
 * process writes or reads (by its rkey). */
struct mr_memos {
	struct mr_memo sends, receives, reached;
	char apart[CACHE_LINE]; /* from the next lane's */
};

#endif
