/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Taking a latch by its word, and waiting for it.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <urcu/arch.h>

#include "engine/latch.h"

#ifndef LATCH_IS_MUTEX

/* What the word says. */
enum { LATCH_FREE, LATCH_HELD, LATCH_AWAITED /* held, and somebody may sleep */ };

enum { SPINS = 100 };

static void wake(struct latch *latch)
{
	syscall(SYS_futex, &latch->bias.word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool take_word(struct latch *latch)
{
	unsigned int word = LATCH_FREE;

	return atomic_compare_exchange_strong_explicit(&latch->bias.word, &word, LATCH_HELD,
						       memory_order_acquire, memory_order_relaxed);
}

/* Who finds somebody inside looks once more behind the word: until then others were told that it is
 * held, by us, who will not look for what they left. */
bool latch_try_word(struct latch *latch)
{
	do {
		if (!take_word(latch))
			return false;
		if (bias_settle(&latch->bias))
			return true;
		latch_give_word(latch);
	} while (!bias_is_inside(&latch->bias));
	return false;
}

/* Who has slept leaves it awaited, as others may sleep still. */
static void await_word(struct latch *latch)
{
	for (int i = 0; i < SPINS; i++) {
		if (take_word(latch))
			return;
		caa_cpu_relax();
	}
	while (atomic_exchange_explicit(&latch->bias.word, LATCH_AWAITED, memory_order_acquire) !=
	       LATCH_FREE)
		syscall(SYS_futex, &latch->bias.word, FUTEX_WAIT_PRIVATE, LATCH_AWAITED, NULL, NULL,
			0);
}

void latch_take_word(struct latch *latch)
{
	await_word(latch);
	if (!bias_settle(&latch->bias))
		bias_await(&latch->bias);
}

void latch_give_word(struct latch *latch)
{
	if (atomic_exchange(&latch->bias.word, LATCH_FREE) == LATCH_AWAITED)
		wake(latch);
}

#endif
