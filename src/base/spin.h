/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock of a queue: a word, held for some tens of instructions. The C library's is the same word
 * behind a call, and a message takes three to six of them.
 */
#ifndef BASE_SPIN_H
#define BASE_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>

#include <urcu/arch.h>

#ifndef LATCH_IS_MUTEX

/* Zeroed memory is free. */
struct spin {
	atomic_int is_held;
};

static inline void spin_init(struct spin *spin)
{
	atomic_init(&spin->is_held, 0);
}

static inline void spin_destroy(struct spin *spin)
{
	(void)spin;
}

static inline bool spin_try(struct spin *spin)
{
	return !atomic_exchange_explicit(&spin->is_held, 1, memory_order_acquire);
}

static inline void spin_lock(struct spin *spin)
{
	while (!spin_try(spin))
		while (atomic_load_explicit(&spin->is_held, memory_order_relaxed))
			caa_cpu_relax();
}

static inline void spin_unlock(struct spin *spin)
{
	atomic_store_explicit(&spin->is_held, 0, memory_order_release);
}

#else /* for tools that know locks, as engine/latch.h */

#include <pthread.h>

struct spin {
	pthread_spinlock_t lock;
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
