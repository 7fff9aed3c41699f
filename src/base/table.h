/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A table of numbers and pointers: look-up without a lock, on a packet's way; adding and removing
 * under one. Grows by chunks that stay until the end, so that a look-up never meets freed memory.
 */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum { TABLE_CHUNK = 1024, TABLE_CHUNKS = 1024 };

struct table {
	pthread_mutex_t lock;
	uint32_t limit; /* ids are below it */
	uint32_t next;	/* where the search for a free id goes on */
	_Atomic(uint32_t) count;
	_Atomic(_Atomic(void *) *) chunks[TABLE_CHUNKS];
};

/* `limit` is at most TABLE_CHUNK * TABLE_CHUNKS. */
void table_init(struct table *table, uint32_t limit);
void table_fini(struct table *table);

/*
 * Finds a free id at or after `from` (wrapping to `first`), and puts the pointer there. 0, -ENOSPC
 * or -ENOMEM. Ids are not reused at once: the search goes on behind the last one when `from` is 0.
 */
int table_add(struct table *table, uint32_t first, uint32_t from, void *entry, uint32_t *id);

/* The same, but of the ids that are `rest` modulo `every`, a power of two; any other where none of
 * those is free. */
int table_add_every(struct table *table, uint32_t first, uint32_t from, uint32_t rest,
		    uint32_t every, void *entry, uint32_t *id);

/* How many there are; of any thread. */
static inline uint32_t table_count(const struct table *table)
{
	return atomic_load_explicit(&table->count, memory_order_relaxed);
}

/* NULL where there is none, or the id is out of range. */
void *table_find(const struct table *table, uint32_t id);

/* Asks for the memory that table_find() will look at. */
void table_fetch(const struct table *table, uint32_t id);

void table_remove(struct table *table, uint32_t id);

#endif
