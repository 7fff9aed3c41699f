/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whom a lock leans to.
 */
#include <stddef.h>
#include <urcu/arch.h>

#include "base/bias.h"

enum {
	FIRST = 1024,  /* in a row, until it leans */
	LEVEL_MAX = 5, /* doubled each time up to this: a fence takes as long as 4,000 locked
			  instructions where its target runs on a virtual machine's other core */
	SPINS = 100,
};

static _Atomic(const struct bias_host *) host;
static atomic_bool is_allowed;

void bias_allow(const struct bias_host *given)
{
#if defined(__x86_64__) && !defined(LATCH_IS_MUTEX)
	atomic_store(&host, given);
	atomic_store(&is_allowed, true);
#endif
}

bool bias_is_allowed(void)
{
	return atomic_load_explicit(&is_allowed, memory_order_relaxed);
}

static void begin(struct bias *bias, uintptr_t thread)
{
	atomic_store_explicit(&bias->leans, thread | BIAS_PAST | BIAS_BACK, memory_order_relaxed);
	bias->left = (uint16_t)(FIRST << bias->level);
}

static void withdraw(struct bias *bias, uintptr_t leans)
{
	atomic_store(&bias->leans, leans | BIAS_PAST);
	if (!atomic_load(&host)->fence())
		atomic_store(&is_allowed, false);
	if (bias->level < LEVEL_MAX)
		bias->level++;
	bias->left = (uint16_t)(FIRST << bias->level);
}

/* One more by this thread. */
static void count(struct bias *bias, uintptr_t leans)
{
	uintptr_t thread = bias_thread(), last = leans & ~(uintptr_t)BIAS_FLAGS;

	if (last != thread && leans && !(leans & BIAS_BACK)) {
		bias->left = (uint16_t)(FIRST << bias->level);
		return;
	}
	if (last != thread || !(leans & BIAS_BACK)) {
		begin(bias, thread);
		return;
	}
	if (bias->left)
		bias->left--;
	else if (bias_is_allowed())
		atomic_store_explicit(&bias->leans, thread, memory_order_relaxed);
}

bool bias_settle(struct bias *bias)
{
	uintptr_t leans = atomic_load_explicit(&bias->leans, memory_order_relaxed);

	if (bias_is_mine(bias))
		return false;
	if (leans && !(leans & BIAS_PAST))
		withdraw(bias, leans);
	if (bias_is_inside(bias))
		return false;
	if (!leans || leans & BIAS_PAST)
		count(bias, leans);
	return true;
}

void bias_await(const struct bias *bias)
{
	for (unsigned int i = 0; bias_is_inside(bias); i++) {
		if (i < SPINS)
			caa_cpu_relax();
		else
			atomic_load(&host)->wait(i - SPINS);
	}
}
