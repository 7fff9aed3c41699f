/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the core calls for malloc() and the like (CMakeLists.txt renames them in a copy of it).
 * While a verb of the data path is at work, or a lane's turn, which a verb may be, nothing is taken
 * and nothing given back: the verb may have been interrupted by a signal whose handler allocates.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sim.h"

void *counted_malloc(size_t size);
void *counted_calloc(size_t count, size_t size);
void *counted_realloc(void *memory, size_t size);
void *counted_aligned_alloc(size_t alignment, size_t size);
void counted_free(void *memory);

static void check(const char *what, const void *caller)
{
	if (!sim_in_verb)
		return;
	printf("failed: %s() on the data path, called near %p (verb: %s)\n", what, caller,
	       sim_in_verb);
	fflush(stdout);
	abort();
}

void *counted_malloc(size_t size)
{
	check("malloc", __builtin_return_address(0));
	return malloc(size);
}

void *counted_calloc(size_t count, size_t size)
{
	check("calloc", __builtin_return_address(0));
	return calloc(count, size);
}

void *counted_realloc(void *memory, size_t size)
{
	check("realloc", __builtin_return_address(0));
	return realloc(memory, size);
}

void *counted_aligned_alloc(size_t alignment, size_t size)
{
	check("aligned_alloc", __builtin_return_address(0));
	return aligned_alloc(alignment, size);
}

void counted_free(void *memory)
{
	if (memory)
		check("free", __builtin_return_address(0));
	free(memory);
}
