/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Taking a queue's lock by its word.
 */
#include "base/spin.h"

#ifndef LATCH_IS_MUTEX

static bool take_word(struct spin *spin)
{
	return !atomic_exchange_explicit(&spin->bias.word, 1, memory_order_acquire);
}

bool spin_try_word(struct spin *spin)
{
	if (!take_word(spin))
		return false;
	if (bias_settle(&spin->bias))
		return true;
	atomic_store_explicit(&spin->bias.word, 0, memory_order_release);
	return false;
}

void spin_lock_word(struct spin *spin)
{
	while (!take_word(spin))
		while (atomic_load_explicit(&spin->bias.word, memory_order_relaxed))
			caa_cpu_relax();
	if (!bias_settle(&spin->bias))
		bias_await(&spin->bias);
}

#endif
