/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies between packets and the program's memory.
 */
#include <stdbool.h>
#include <string.h>

#include "device/memory.h"

int memory_load(void *to, const char *from, size_t length)
{
	memcpy(to, from, length);
	return 0;
}

int memory_store(char *to, const void *from, size_t length)
{
	memcpy(to, from, length);
	return 0;
}

int memory_fetch_add(char *place, uint64_t add, uint64_t *old)
{
	*old = __atomic_fetch_add((uint64_t *)(void *)place, add, __ATOMIC_SEQ_CST);
	return 0;
}

int memory_compare_swap(char *place, uint64_t compare, uint64_t swap, uint64_t *old)
{
	*old = compare;
	__atomic_compare_exchange_n((uint64_t *)(void *)place, old, swap, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return 0;
}

int memory_store_8(char *place, uint64_t value)
{
	__atomic_store_n((uint64_t *)(void *)place, value, __ATOMIC_RELEASE);
	return 0;
}
