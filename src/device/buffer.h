/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of an object's queues: from the program's allocators where its parent domain has some,
 * else ours.
 */
#ifndef DEVICE_BUFFER_H
#define DEVICE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

struct pd;

/*
 * `count` pieces of `size` bytes, zeroed, aligned for any use; NULL without memory. `pd` may be
 * NULL. `type` is one of enum verbatim_resource_type, for the program's allocator to see.
 */
void *buffer_alloc(struct pd *pd, size_t count, size_t size, uint64_t type);

/* With the `pd` and `type` that it was allocated with. NULL is fine. */
void buffer_free(struct pd *pd, void *buffer, uint64_t type);

#endif
