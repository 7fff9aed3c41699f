/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slabs, each of blocks of one size while it has any in use. The lowest free slab is taken first,
 * so what is seldom used is at the end.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/pool.h"
#include "base/watched.h"

#define NONE UINT32_MAX

/* Block sizes: headers and a payload of each path MTU, and what a QP needs to recover. */
static const uint32_t sizes[POOL_CLASSES] = {128,  320,	 576,	1088,  2112,
					     4224, 9344, 18688, 43648, POOL_SLAB};

struct slab {
	uint32_t class;
	uint32_t used;	     /* blocks; 0: the slab is free, or was when it was taken */
	uint32_t fresh;	     /* blocks from this one on were never given */
	uint32_t free;	     /* the first free one below that, or none */
	uint32_t next, last; /* of the open ones of the class, or none */
	bool is_taken;
};

static void *map(size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

void pool_init(struct pool *pool, size_t bytes)
{
	void *memory = MAP_FAILED;

	*pool = (struct pool){.count = 0};
	spin_init(&pool->lock);
	for (int i = 0; i < POOL_CLASSES; i++)
		pool->open[i] = NONE;
	if (IS_WATCHED)
		return;
	/* (a program may have little to map, or lock all that it maps) */
	while (bytes >= POOL_SLAB && (memory = map(bytes)) == MAP_FAILED)
		bytes /= 2;
	if (memory == MAP_FAILED)
		return;
	pool->slabs = calloc(bytes / POOL_SLAB, sizeof(*pool->slabs));
	if (!pool->slabs) {
		munmap(memory, bytes);
		return;
	}
	pool->memory = memory;
	pool->count = (uint32_t)(bytes / POOL_SLAB);
}

void pool_fini(struct pool *pool)
{
	if (pool->memory)
		munmap(pool->memory, (size_t)pool->count * POOL_SLAB);
	free(pool->slabs);
	spin_destroy(&pool->lock);
}

static uint32_t class_of(size_t size)
{
	uint32_t class = 0;

	while (class < POOL_CLASSES && sizes[class] < size)
		class ++;
	return class;
}

static void open_slab(struct pool *pool, uint32_t index)
{
	struct slab *slab = &pool->slabs[index];
	uint32_t *first = &pool->open[slab->class];

	slab->last = NONE;
	slab->next = *first;
	if (*first != NONE)
		pool->slabs[*first].last = index;
	*first = index;
}

static void close_slab(struct pool *pool, uint32_t index)
{
	struct slab *slab = &pool->slabs[index];

	if (slab->next != NONE)
		pool->slabs[slab->next].last = slab->last;
	if (slab->last != NONE)
		pool->slabs[slab->last].next = slab->next;
	else
		pool->open[slab->class] = slab->next;
}

/* A free slab for this class, or NONE. */
static uint32_t take_slab(struct pool *pool, uint32_t class)
{
	for (uint32_t i = pool->first_free; i < pool->count; i++) {
		struct slab *slab = &pool->slabs[i];

		if (slab->is_taken)
			continue;
		*slab = (struct slab){.class = class, .free = NONE, .is_taken = true};
		pool->first_free = i + 1;
		open_slab(pool, i);
		return i;
	}
	pool->first_free = pool->count;
	return NONE;
}

static bool is_full(const struct slab *slab)
{
	return slab->free == NONE && slab->fresh == POOL_SLAB / sizes[slab->class];
}

/* In a free block stands which is the next. */
static uint32_t *block_at(const struct pool *pool, uint32_t index, uint32_t block)
{
	return (uint32_t *)(pool->memory + (size_t)index * POOL_SLAB +
			    (size_t)block * sizes[pool->slabs[index].class]);
}

static void *take_locked(struct pool *pool, uint32_t class)
{
	uint32_t index = pool->open[class], *block;
	struct slab *slab;

	if (index == NONE)
		index = take_slab(pool, class);
	if (index == NONE)
		return NULL;
	slab = &pool->slabs[index];
	if (slab->free != NONE) {
		block = block_at(pool, index, slab->free);
		slab->free = *block;
	} else {
		block = block_at(pool, index, slab->fresh++);
	}
	slab->used++;
	if (is_full(slab))
		close_slab(pool, index);
	return block;
}

void *pool_take(struct pool *pool, size_t size)
{
	uint32_t class = class_of(size);
	void *block;

	if (IS_WATCHED)
		return malloc(size);
	if (class == POOL_CLASSES || !pool->count)
		return NULL;
	spin_lock(&pool->lock);
	block = take_locked(pool, class);
	spin_unlock(&pool->lock);
	return block;
}

/* True: it was the last one of its slab, which is nobody's now. */
static bool give_locked(struct pool *pool, uint32_t index, uint32_t *block)
{
	struct slab *slab = &pool->slabs[index];
	size_t offset = (size_t)((char *)block - pool->memory) % POOL_SLAB;

	if (is_full(slab))
		open_slab(pool, index);
	*block = slab->free;
	slab->free = (uint32_t)(offset / sizes[slab->class]);
	if (--slab->used)
		return false;
	close_slab(pool, index);
	return true;
}

static void free_slab(struct pool *pool, uint32_t index)
{
	pool->slabs[index].is_taken = false;
	if (index < pool->first_free)
		pool->first_free = index;
}

void pool_give(struct pool *pool, void *block)
{
	uint32_t index;
	bool is_free, goes;

	if (IS_WATCHED)
		free(block);
	if (IS_WATCHED || !block)
		return;
	index = (uint32_t)((size_t)((char *)block - pool->memory) / POOL_SLAB);
	goes = (size_t)index * POOL_SLAB >= POOL_KEPT;
	spin_lock(&pool->lock);
	is_free = give_locked(pool, index, block);
	if (is_free && !goes)
		free_slab(pool, index);
	spin_unlock(&pool->lock);
	if (!is_free || !goes)
		return;
	madvise(pool->memory + (size_t)index * POOL_SLAB, POOL_SLAB, MADV_DONTNEED);
	spin_lock(&pool->lock);
	free_slab(pool, index);
	spin_unlock(&pool->lock);
}
