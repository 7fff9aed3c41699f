/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Claims, the copies of a chunk, and waiting for the other one.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "link/assist_work.h"
#include "link/clock.h"
#include "link/reach.h"

enum {
	SPINS = 64,
	SPIN_NS = 20000, /* then others may run */
};

bool work_claim(struct assist_board *board, uint32_t number, uint32_t rest, uint32_t *chunk)
{
	uint64_t claims = atomic_load_explicit(&board->claims, memory_order_acquire), next;

	do {
		uint32_t chunks = (uint16_t)(claims >> 16);

		*chunk = (uint16_t)claims;
		if (claims >> 32 != number || *chunk == chunks)
			return false;
		next = rest && *chunk == rest ? work_claims(number, chunks, chunks) : claims + 1;
	} while (!atomic_compare_exchange_weak_explicit(
	    &board->claims, &claims, next, memory_order_acq_rel, memory_order_acquire));
	return true;
}

static void add(struct reach_spans *spans, uint64_t here, uint64_t there, uint64_t bytes)
{
	spans->here[spans->count] = (struct iovec){(void *)(uintptr_t)here, bytes};
	spans->there[spans->count++] = (struct iovec){(void *)(uintptr_t)there, bytes};
}

bool work_copy(struct reach *reach, const struct work *work, bool is_read, uint32_t chunk,
	       const uint64_t *here, const uint64_t *there)
{
	uint64_t start = work_start(work, chunk);
	struct reach_spans spans = {.count = 0};

	add(&spans, here[0] + start, there[0] + start, work_bytes(work, chunk));
	for (uint32_t i = 0; i < work->others; i++) {
		const struct work_other *other = &work->other[i];

		start = chunk ? other->second : 0;
		add(&spans, here[i + 1] + start, there[i + 1] + start,
		    chunk ? other->bytes - start : other->second);
	}
	return reach_copy_all(reach, is_read, &spans);
}

bool work_await(const atomic_uint *word, unsigned int value, uint64_t patience)
{
	uint64_t begin = 0;

	for (int i = 0; atomic_load_explicit(word, memory_order_acquire) != value; i++) {
		uint64_t now;

		if (i % SPINS)
			continue;
		now = clock_ns();
		if (!begin)
			begin = now;
		if (now > begin + patience)
			return false;
		if (now > begin + SPIN_NS)
			sched_yield();
	}
	return true;
}
