/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory for what comes up on a packet's way: packets that came before their turn, or on another
 * lane. A verb that is interrupted there by a signal, whose handler allocates, would hang in
 * malloc() if it allocated too; so all of the pool is mapped when it is made. It is resident as far
 * as it was used; beyond the first few MiB what is free again goes back to the system.
 *
 * Thread-safe. Where blocks are watched (watched.h) each is malloc()'s.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/spin.h"

enum {
	POOL_SLAB = 128 << 10, /* also the largest block */
	POOL_KEPT = 4 << 20,   /* stays resident */
	POOL_CLASSES = 10,
};

struct pool {
	struct spin lock;
	char *memory;
	struct slab *slabs;	     /* what is known of each */
	uint32_t count;		     /* of slabs; 0 where no memory could be had */
	uint32_t first_free;	     /* no slab below it is free */
	uint32_t open[POOL_CLASSES]; /* the first slab with free blocks of a class, or none */
};

/* `bytes`, or as much as can be had: a pool without memory gives none. */
void pool_init(struct pool *pool, size_t bytes);

/* All blocks must have come back. */
void pool_fini(struct pool *pool);

/* Not cleared; NULL when there is no room. */
void *pool_take(struct pool *pool, size_t size);

/* NULL is given back as well. */
void pool_give(struct pool *pool, void *block);

#endif
