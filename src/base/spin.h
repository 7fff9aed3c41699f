/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock of a queue: a word, held for some tens of instructions, or the bias of the thread that
 * takes it nearly always. The C library's is the same word behind a call, and a message takes three
 * to six of them.
 */
#ifndef BASE_SPIN_H
#define BASE_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <urcu/arch.h>

#ifndef LATCH_IS_MUTEX

#include "base/bias.h"

/* Zeroed memory is free. */
struct spin {
	struct bias bias; /* its word: 1, held */
};

static inline void spin_init(struct spin *spin)
{
	*spin = (struct spin){.bias = {.word = 0}};
}

static inline void spin_destroy(struct spin *spin)
{
	(void)spin;
}

/* By the word. */
bool spin_try_word(struct spin *spin);
void spin_lock_word(struct spin *spin);

static inline bool spin_try(struct spin *spin)
{
	return bias_enter(&spin->bias) || spin_try_word(spin);
}

static inline void spin_lock(struct spin *spin)
{
	if (!bias_enter(&spin->bias))
		spin_lock_word(spin);
}

static inline void spin_unlock(struct spin *spin)
{
	if (bias_is_mine(&spin->bias))
		bias_leave(&spin->bias);
	else
		atomic_store_explicit(&spin->bias.word, 0, memory_order_release);
}

#else /* for tools that know locks, as engine/latch.h */

#include <pthread.h>

struct spin {
	pthread_spinlock_t lock;
	uint32_t room[3]; /* as long as the other: what shares a cache line is the same */
};

static inline void spin_init(struct spin *spin)
{
	pthread_spin_init(&spin->lock, PTHREAD_PROCESS_PRIVATE);
}

static inline void spin_destroy(struct spin *spin)
{
	pthread_spin_destroy(&spin->lock);
}

static inline bool spin_try(struct spin *spin)
{
	return pthread_spin_trylock(&spin->lock) == 0;
}

/* (The C library's pthread_spin_lock jumps back to its first instruction when it has waited, which
 * helgrind takes for another call: a lock taken twice.) */
static inline void spin_lock(struct spin *spin)
{
	while (!spin_try(spin))
		caa_cpu_relax();
}

static inline void spin_unlock(struct spin *spin)
{
	pthread_spin_unlock(&spin->lock);
}

#endif

#endif
