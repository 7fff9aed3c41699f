/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane's lock: a word, or the bias of the thread that takes it nearly always, in the caller's own
 * code. A poll takes it and lets it go for each look at the rings, so what a mutex of the C library
 * does beside that (owner, kind, a call each) is a good part of the look. Who has to wait spins a
 * little first, as holders are mostly done within microseconds, and then sleeps in the kernel.
 *
 * Who was told that it is held has left what he came for to its holder, who looks for that when he
 * has let go (lane_fence_released()). On x86-64 to let go is the full fence between the two, or
 * nobody has been told.
 */
#ifndef ENGINE_LATCH_H
#define ENGINE_LATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#ifndef LATCH_IS_MUTEX

#include "base/bias.h"

/* Zeroed memory is free. */
struct latch {
	struct bias bias;
};

/* By the word. */
bool latch_try_word(struct latch *latch);
void latch_take_word(struct latch *latch);
void latch_give_word(struct latch *latch);

static inline bool latch_try(struct latch *latch)
{
	return bias_enter(&latch->bias) || latch_try_word(latch);
}

static inline void latch_take(struct latch *latch)
{
	if (!bias_enter(&latch->bias))
		latch_take_word(latch);
}

static inline void latch_give(struct latch *latch)
{
	if (bias_is_mine(&latch->bias))
		bias_leave(&latch->bias);
	else
		latch_give_word(latch);
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
