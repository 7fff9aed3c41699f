/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of an adapter's queue pairs: what each message looks at, of as many as there are, in as
 * few pages as may be. With a thousand of them the processor knows no more where each page is than
 * what is in it. So all of it comes from extents of 2 MiB, a huge page each if the kernel has one;
 * the first is smaller and of usual pages, for who has few.
 *
 * Blocks are zeroed and begin with a cache line; no size but theirs is kept. What is free goes to
 * the next of the same size; an extent of which all is free goes back to the system, but for the
 * first. What is long is mapped by itself.
 *
 * Thread-safe.
 */
#ifndef BASE_DEPOT_H
#define BASE_DEPOT_H

#include <stddef.h>

#include "base/spin.h"

enum {
	DEPOT_EXTENT = 2 << 20,
	DEPOT_FIRST = 512 << 10,  /* bytes of the first */
	DEPOT_LARGEST = 16 << 10, /* what is longer is resident only as far as it is used */
};

struct depot {
	struct spin lock;
	struct extent *extents; /* newest first */
	struct extent *current; /* tried first */
};

void depot_init(struct depot *depot);

/* All blocks must have come back. */
void depot_fini(struct depot *depot);

/* NULL without memory. */
void *depot_take(struct depot *depot, size_t size);

/* Of that size. NULL is given back as well. */
void depot_give(struct depot *depot, void *block, size_t size);

#endif
