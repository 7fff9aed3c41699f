/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for a latch.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <urcu/arch.h>

#include "engine/latch.h"

#ifndef LATCH_IS_MUTEX

enum { SPINS = 100 };

void latch_wake(struct latch *latch)
{
	syscall(SYS_futex, &latch->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Who has slept leaves it awaited, as others may sleep still. */
void latch_take(struct latch *latch)
{
	for (int i = 0; i < SPINS; i++) {
		if (latch_try(latch))
			return;
		caa_cpu_relax();
	}
	while (atomic_exchange_explicit(&latch->state, LATCH_AWAITED, memory_order_acquire) !=
	       LATCH_FREE)
		syscall(SYS_futex, &latch->state, FUTEX_WAIT_PRIVATE, LATCH_AWAITED, NULL, NULL, 0);
}

#endif
