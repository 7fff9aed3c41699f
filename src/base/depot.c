/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An extent begins with its head, and is found by the address of any of its blocks. Blocks are
 * counted in cache lines.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/depot.h"
#include "base/lines.h"
#include "base/watched.h"

enum {
	SIZES = DEPOT_LARGEST / CACHE_LINE,
};

struct extent {
	struct extent *next;
	uint32_t used;		  /* blocks */
	uint32_t lines;		  /* that it has */
	uint32_t top;		  /* none from here on was ever given */
	uint32_t free[SIZES + 1]; /* by size: the first, and in it stands the next; 0: none */
};

static uint32_t lines_of(size_t size)
{
	return size ? (uint32_t)((size + CACHE_LINE - 1) / CACHE_LINE) : 1;
}

static void *line_at(struct extent *extent, uint32_t line)
{
	return (char *)extent + (size_t)line * CACHE_LINE;
}

static struct extent *extent_of(void *block)
{
	return (struct extent *)((uintptr_t)block & ~(uintptr_t)(DEPOT_EXTENT - 1));
}

void depot_init(struct depot *depot)
{
	*depot = (struct depot){.extents = NULL};
	spin_init(&depot->lock);
}

void depot_fini(struct depot *depot)
{
	struct extent *next;

	for (struct extent *extent = depot->extents; extent; extent = next) {
		next = extent->next;
		munmap(extent, (size_t)extent->lines * CACHE_LINE);
	}
	spin_destroy(&depot->lock);
}

/* Where an extent may begin, with nothing mapped around it. NULL without memory. */
static void *map(size_t size)
{
	char *all = mmap(NULL, size + DEPOT_EXTENT, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t before;

	if (all == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)all % DEPOT_EXTENT;
	if (before)
		munmap(all, before);
	munmap(all + before + size, DEPOT_EXTENT - before);
	return all + before;
}

static struct extent *add_extent(struct depot *depot)
{
	size_t size = depot->extents ? DEPOT_EXTENT : DEPOT_FIRST;
	struct extent *extent = map(size);

	if (!extent)
		return NULL;
	if (size == DEPOT_EXTENT)
		madvise(extent, size, MADV_HUGEPAGE);
	extent->next = depot->extents;
	extent->lines = (uint32_t)(size / CACHE_LINE);
	extent->top = lines_of(sizeof(*extent));
	depot->extents = depot->current = extent;
	return extent;
}

/* Not the first, which is the last of the list. */
static void drop_extent(struct depot *depot, struct extent *extent)
{
	struct extent **link = &depot->extents;

	if (!extent->next)
		return;
	while (*link != extent)
		link = &(*link)->next;
	*link = extent->next;
	depot->current = depot->extents;
	munmap(extent, DEPOT_EXTENT);
}

static void *take_from(struct extent *extent, uint32_t lines)
{
	uint32_t line = extent->free[lines];

	if (line) {
		uint32_t *block = line_at(extent, line);

		extent->free[lines] = *block;
		memset(block, 0, (size_t)lines * CACHE_LINE);
	} else if (lines <= extent->lines - extent->top) {
		line = extent->top;
		extent->top += lines;
	}
	extent->used += line > 0;
	return line ? line_at(extent, line) : NULL;
}

static void *take_locked(struct depot *depot, uint32_t lines)
{
	void *block = depot->current ? take_from(depot->current, lines) : NULL;

	for (struct extent *extent = depot->extents; extent && !block; extent = extent->next) {
		block = take_from(extent, lines);
		if (block)
			depot->current = extent;
	}
	if (!block && add_extent(depot))
		block = take_from(depot->current, lines);
	return block;
}

/* (What calloc() has in store for it may have to be cleared, and is resident then.) */
static void *take_long(size_t size)
{
	void *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return block == MAP_FAILED ? NULL : block;
}

void *depot_take(struct depot *depot, size_t size)
{
	void *block;

	if (IS_WATCHED)
		return lines_alloc(size);
	if (size > DEPOT_LARGEST)
		return take_long(size);
	spin_lock(&depot->lock);
	block = take_locked(depot, lines_of(size));
	spin_unlock(&depot->lock);
	return block;
}

static void give_locked(struct depot *depot, uint32_t *block, uint32_t lines)
{
	struct extent *extent = extent_of(block);

	*block = extent->free[lines];
	extent->free[lines] = (uint32_t)(((char *)block - (char *)extent) / CACHE_LINE);
	if (--extent->used == 0)
		drop_extent(depot, extent);
}

static void give_short(struct depot *depot, void *block, size_t size)
{
	spin_lock(&depot->lock);
	give_locked(depot, block, lines_of(size));
	spin_unlock(&depot->lock);
}

void depot_give(struct depot *depot, void *block, size_t size)
{
	if (!block)
		return;
	if (IS_WATCHED)
		free(block);
	else if (size > DEPOT_LARGEST)
		munmap(block, size);
	else
		give_short(depot, block, size);
}
