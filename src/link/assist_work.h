/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of assist.h: what initiator (assist.c) and helper (assist_help.c) share.
 *
 * Claims are one word, so that a claim is of this work and no other: number of the work (32 bits),
 * how many chunks it has (16), which is next (16). What the work is, is only written while nothing
 * can be claimed; who read it and then claims with success, has read what belongs together.
 */
#ifndef LINK_ASSIST_WORK_H
#define LINK_ASSIST_WORK_H

#include "link/assist.h"
#include "link/reach.h"

enum {
	WORK_CHUNKS = 3, /* at most */
	WORK_TAIL = 64,	 /* of a WRITE, where the rest was done by two */
};

/* What is to be done, in words. */
struct work {
	struct directory_question question;
	uint64_t address; /* the initiator's memory */
	uint64_t offset;  /* into the message */
	uint64_t bytes;
	uint64_t second, third; /* chunk: where it begins */
	uint32_t is_read;
	uint32_t others; /* with it, whole messages */
	uint64_t tail;	 /* bytes behind all that, which are to be stored last: */
	union {
		char end[WORK_TAIL];
		struct work_other {
			uint32_t rkey, bytes;
			uint64_t addr;	  /* in the question about it */
			uint64_t address; /* the initiator's memory */
			uint64_t second;  /* chunk, which is the last */
		} other[BUNDLE_OTHERS];
	};
};

_Static_assert(sizeof(struct work) <= ASSIST_WORDS * 8, "fits");
_Static_assert(1 + BUNDLE_OTHERS <= REACH_SPANS, "by one call");

/* Where a chunk begins, and the one before it ends. */
static inline uint64_t work_start(const struct work *work, uint32_t chunk)
{
	switch (chunk) {
	case 0:
		return 0;
	case 1:
		return work->second;
	case 2:
		return work->third;
	default:
		return work->bytes;
	}
}

static inline uint64_t work_bytes(const struct work *work, uint32_t chunk)
{
	return work_start(work, chunk + 1) - work_start(work, chunk);
}

static inline uint64_t work_claims(uint32_t number, uint32_t chunks, uint32_t next)
{
	return (uint64_t)number << 32 | chunks << 16 | next;
}

/* One of this work. `rest`: if it is this one, all that is left from there on; 0: never. */
bool work_claim(struct assist_board *board, uint32_t number, uint32_t rest, uint32_t *chunk);

/* The same chunk of this work and, of two chunks, of the others. `here` is where each of them
 * begins in this process, `there` where in the other one. */
bool work_copy(struct reach *reach, const struct work *work, bool is_read, uint32_t chunk,
	       const uint64_t *here, const uint64_t *there);

/* Until the other one has said that, so long at most. */
bool work_await(const atomic_uint *word, unsigned int value, uint64_t patience);

#endif
