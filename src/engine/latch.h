/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane's lock: a word, taken and let go in the caller's own code. A poll does both for each look
 * at the rings, so what a mutex of the C library does beside that (owner, kind, a call each) is a
 * good part of the look. Who has to wait spins a little first, as holders are mostly done within
 * microseconds, and then sleeps in the kernel.
 *
 * To let go is a full fence, on which lane_fence_released() relies on x86-64.
 */
#ifndef ENGINE_LATCH_H
#define ENGINE_LATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#ifndef LATCH_IS_MUTEX

enum latch_state { LATCH_FREE, LATCH_HELD, LATCH_AWAITED /* held, and somebody may sleep */ };

/* Zeroed memory is free. */
struct latch {
	atomic_uint state;
};

static inline bool latch_try(struct latch *latch)
{
	unsigned int state = LATCH_FREE;

	return atomic_compare_exchange_strong_explicit(&latch->state, &state, LATCH_HELD,
						       memory_order_acquire, memory_order_relaxed);
}

void latch_take(struct latch *latch);
void latch_wake(struct latch *latch);

static inline void latch_give(struct latch *latch)
{
	if (atomic_exchange(&latch->state, LATCH_FREE) == LATCH_AWAITED)
		latch_wake(latch);
}

#else /* for tools that know mutexes, and of such a word only what it is told of each access */

#include <pthread.h>

struct latch {
	pthread_mutex_t mutex;
};

static inline bool latch_try(struct latch *latch)
{
	return pthread_mutex_trylock(&latch->mutex) == 0;
}

static inline void latch_take(struct latch *latch)
{
	pthread_mutex_lock(&latch->mutex);
}

static inline void latch_give(struct latch *latch)
{
	pthread_mutex_unlock(&latch->mutex);
}

#endif

#endif
