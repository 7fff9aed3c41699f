/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of an object's queues: from the program's allocators where its parent domain has some,
 * else ours.
 */
#ifndef DEVICE_BUFFER_H
#define DEVICE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

struct depot;
struct pd;

/*
 * `count` pieces of `size` bytes, zeroed, aligned for any use; NULL without memory. `pd` may be
 * NULL. What is not the program's is the depot's, or, where that is NULL, malloc()'s. `type` is one
 * of enum verbatim_resource_type, for the program's allocator to see.
 */
void *buffer_alloc(struct pd *pd, struct depot *depot, size_t count, size_t size, uint64_t type);

/* With all that it was allocated with, `bytes` in all. NULL is fine. */
void buffer_free(struct pd *pd, struct depot *depot, void *buffer, size_t bytes, uint64_t type);

#endif
