/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Zeroed memory for what each message looks at, from the beginning of a cache line on: so it is as
 * few lines as its fields are laid out in, which counts where there are a thousand queue pairs.
 */
#ifndef BASE_LINES_H
#define BASE_LINES_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_LINE = 64 };

/* Asks for what will be written, so that nothing waits for it then. */
static inline void lines_fetch(const void *place)
{
#ifdef __x86_64__
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)place)); /* gcc's is for all x86 */
#else
	__builtin_prefetch(place, 1);
#endif
}

/* NULL without memory; for free(). */
static inline void *lines_alloc(size_t size)
{
	size_t whole = (size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	void *memory = whole < size ? NULL : aligned_alloc(CACHE_LINE, whole);

	return memory ? memset(memory, 0, whole) : NULL;
}

#endif
