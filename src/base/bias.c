/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whom a lock leans to.
 */
#include <stddef.h>
#include <urcu/arch.h>

#include "base/bias.h"

/* A fence takes as long as 4,000 locked instructions where its target runs on a virtual machine's
 * other core. So what did not last is taken up ever later, and where few locks lasted all are. */
enum {
	FIRST = 64,    /* in a row, until it leans */
	LEVEL_MAX = 9, /* doubled so often at most */
	IN_VAIN = 16,  /* leanings of any lock that ended, for a level of all */
	SPINS = 100,
};

static _Atomic(const struct bias_host *) host;
static atomic_bool is_allowed;
static atomic_uint ended; /* leanings, of any lock */

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

/* So often in a row, once more than that. */
static uint16_t wanted(const struct bias *bias)
{
	unsigned int level = atomic_load_explicit(&ended, memory_order_relaxed) / IN_VAIN;

	if (level < bias->level)
		level = bias->level;
	return (uint16_t)(FIRST << (level < LEVEL_MAX ? level : LEVEL_MAX));
}

static void begin(struct bias *bias, uintptr_t thread)
{
	atomic_store_explicit(&bias->leans, thread | BIAS_PAST | BIAS_BACK, memory_order_relaxed);
	bias->left = wanted(bias);
}

static void withdraw(struct bias *bias, uintptr_t leans)
{
	atomic_store(&bias->leans, leans | BIAS_PAST);
	if (!atomic_load(&host)->fence())
		atomic_store(&is_allowed, false);
	if (bias->level < LEVEL_MAX)
		bias->level++;
	if (atomic_load_explicit(&ended, memory_order_relaxed) < LEVEL_MAX * IN_VAIN)
		atomic_fetch_add_explicit(&ended, 1, memory_order_relaxed);
	bias->left = wanted(bias);
}

/* One more by this thread. */
static void count(struct bias *bias, uintptr_t leans)
{
	uintptr_t thread = bias_thread(), last = leans & ~(uintptr_t)BIAS_FLAGS;

	if (last != thread && leans && !(leans & BIAS_BACK)) {
		bias->left = wanted(bias);
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
