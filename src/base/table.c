/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A table of numbers and pointers. Two levels: chunks are published once with release and never
 * freed before table_fini(), entries are single atomic pointers, so that table_find() is two loads.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/table.h"

void table_init(struct table *table, uint32_t limit)
{
	pthread_mutex_init(&table->lock, NULL);
	table->limit = limit;
	table->next = 0;
	table->count = 0;
	for (int i = 0; i < TABLE_CHUNKS; i++)
		atomic_init(&table->chunks[i], NULL);
}

void table_fini(struct table *table)
{
	for (int i = 0; i < TABLE_CHUNKS; i++)
		free((void *)atomic_load_explicit(&table->chunks[i], memory_order_relaxed));
	pthread_mutex_destroy(&table->lock);
}

/* The place of an entry, its chunk made where it is missing; NULL without memory. Holds
 * table->lock. */
static _Atomic(void *) *place_of(struct table *table, uint32_t id)
{
	_Atomic(_Atomic(void *) *) *slot = &table->chunks[id / TABLE_CHUNK];
	_Atomic(void *) *chunk = atomic_load_explicit(slot, memory_order_relaxed);

	if (!chunk) {
		chunk = calloc(TABLE_CHUNK, sizeof(*chunk));
		if (!chunk)
			return NULL;
		atomic_store_explicit(slot, chunk, memory_order_release);
	}
	return &chunk[id % TABLE_CHUNK];
}

/* Every `every`th; `from` and `first` are alike modulo that. */
static int add_locked(struct table *table, uint32_t first, uint32_t from, uint32_t every,
		      void *entry, uint32_t *id)
{
	uint32_t at = from;

	for (uint32_t tried = first; tried < table->limit; tried += every, at += every) {
		_Atomic(void *) *place;

		if (at < first || at >= table->limit)
			at = first;
		place = place_of(table, at);
		if (!place)
			return -ENOMEM;
		if (atomic_load_explicit(place, memory_order_relaxed))
			continue;
		atomic_store_explicit(place, entry, memory_order_release);
		table->next = at + 1;
		table->count++;
		*id = at;
		return 0;
	}
	return -ENOSPC;
}

int table_add(struct table *table, uint32_t first, uint32_t from, void *entry, uint32_t *id)
{
	int ret;

	pthread_mutex_lock(&table->lock);
	ret = add_locked(table, first, from ? from : table->next, 1, entry, id);
	pthread_mutex_unlock(&table->lock);
	return ret;
}

/* The first number from `at` on that is `rest` modulo `every`. */
static uint32_t align(uint32_t at, uint32_t rest, uint32_t every)
{
	return at + ((rest - at) & (every - 1));
}

int table_add_every(struct table *table, uint32_t first, uint32_t from, uint32_t rest,
		    uint32_t every, void *entry, uint32_t *id)
{
	int ret;

	pthread_mutex_lock(&table->lock);
	ret = add_locked(table, align(first, rest, every), align(from, rest, every), every, entry,
			 id);
	if (ret == -ENOSPC)
		ret = add_locked(table, first, from, 1, entry, id);
	pthread_mutex_unlock(&table->lock);
	return ret;
}

static _Atomic(void *) *chunk_of(const struct table *table, uint32_t id)
{
	if (id >= table->limit)
		return NULL;
	return atomic_load_explicit(&table->chunks[id / TABLE_CHUNK], memory_order_acquire);
}

void *table_find(const struct table *table, uint32_t id)
{
	_Atomic(void *) *chunk = chunk_of(table, id);

	return chunk ? atomic_load_explicit(&chunk[id % TABLE_CHUNK], memory_order_acquire) : NULL;
}

void table_fetch(const struct table *table, uint32_t id)
{
	const _Atomic(void *) *chunk = chunk_of(table, id);

	if (chunk)
		__builtin_prefetch(&chunk[id % TABLE_CHUNK]);
}

void table_remove(struct table *table, uint32_t id)
{
	if (!table_find(table, id))
		return;
	pthread_mutex_lock(&table->lock);
	atomic_store_explicit(place_of(table, id), NULL, memory_order_release);
	table->count--;
	pthread_mutex_unlock(&table->lock);
}
