/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lock's leaning towards the thread that takes it nearly always. A locked instruction takes as
 * long as twenty others and none may pass it, and a small message came by six of them; so that
 * thread says by a plain store that it is inside. Whoever else comes has the host make all threads
 * of the process stand at a fence, once: after that the lock leans to nobody, and is taken by its
 * word, until one thread alone has taken it for a while. Each time that takes longer.
 *
 * What the word says is the lock's own, but that 0 is free. Who has taken it asks bias_settle().
 *
 * The thread that a lock leaned to may be stopped between its store and its second look, for as
 * long as it likes, and then takes the store back. Nobody else's may stand there: so the lock leans
 * to another thread only if that one has come by the word since.
 *
 * x86-64 alone: what is said here of stores and loads is said of its order. Elsewhere, and without
 * such a host, no lock leans. Where tools are to see locks, there is none of this (spin.h).
 */
#ifndef BASE_BIAS_H
#define BASE_BIAS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Zeroed memory is free and leans to nobody. */
struct bias {
	atomic_uint word;
	/* with the word: so often more in a row, and it leans; how often it did in vain */
	uint16_t left;
	uint8_t level;
	atomic_bool is_inside;	  /* the thread that it leans to or did, without the word */
	_Atomic(uintptr_t) leans; /* to this thread; with BIAS_PAST, it did or may */
};

/* Beside the address of a thread. BACK: it came by the word since. */
enum { BIAS_PAST = 1, BIAS_BACK = 2, BIAS_FLAGS = 3 };

/* This one. Where no lock leans, whatever: a variable of its own would take it a call, or room that
 * is not to be had for a library that is loaded late. */
static inline uintptr_t bias_thread(void)
{
#ifdef __x86_64__
	uintptr_t thread;

	__asm__("movq %%fs:0, %0" : "=r"(thread));
	return thread;
#else
	return 4;
#endif
}

/* From now on locks may lean: all threads of the process stand at a fence when `fence` is called,
 * and one that waits for another calls `wait`, which says for how long. `fence` may say that it was
 * the last time. */
struct bias_host {
	bool (*fence)(void);
	void (*wait)(unsigned int round);
};

void bias_allow(const struct bias_host *host);
bool bias_is_allowed(void);

/* This thread is inside without the word. Whom it leans to does not change while one is. */
static inline bool bias_is_mine(const struct bias *bias)
{
	return atomic_load_explicit(&bias->is_inside, memory_order_relaxed) &&
	       (atomic_load_explicit(&bias->leans, memory_order_relaxed) &
		~(uintptr_t)BIAS_FLAGS) == bias_thread();
}

/* Goes in without the word. False: by that, then, as while this thread itself has it. */
static inline bool bias_enter(struct bias *bias)
{
	uintptr_t thread = bias_thread();

	if (atomic_load_explicit(&bias->leans, memory_order_relaxed) != thread ||
	    atomic_load_explicit(&bias->word, memory_order_relaxed) ||
	    atomic_load_explicit(&bias->is_inside, memory_order_relaxed))
		return false;
	atomic_store_explicit(&bias->is_inside, true, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&bias->leans, memory_order_acquire) == thread)
		return true;
	atomic_store_explicit(&bias->is_inside, false, memory_order_release);
	return false;
}

/* Who was inside when the leaning ended makes up for it with a fence: those who came meanwhile were
 * told that the lock is held, and what they left behind is seen from here on. */
static inline void bias_leave(struct bias *bias)
{
	atomic_store_explicit(&bias->is_inside, false, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&bias->leans, memory_order_relaxed) != bias_thread())
		atomic_thread_fence(memory_order_seq_cst);
}

/* With the word: it leans to nobody now. False: somebody is inside still, maybe this thread. */
bool bias_settle(struct bias *bias);

static inline bool bias_is_inside(const struct bias *bias)
{
	return atomic_load_explicit(&bias->is_inside, memory_order_acquire);
}

/* With the word: until nobody is inside. */
void bias_await(const struct bias *bias);

#endif
