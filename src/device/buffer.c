/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In front of a buffer of a parent domain with allocators stands whose it is: the allocator may
 * leave each single one to us.
 */
#include <stdlib.h>
#include <string.h>

#include "base/depot.h"
#include "device/buffer.h"
#include "device/pd.h"

enum { ALIGNMENT = 64 };

struct head {
	_Alignas(ALIGNMENT) void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size,
					   size_t alignment, uint64_t resource_type);
	/* NULL: ours */
};

_Static_assert(sizeof(struct head) == ALIGNMENT, "what follows is aligned");

static void *alloc_own(struct depot *depot, size_t count, size_t size)
{
	size_t bytes;

	if (!depot)
		return calloc(count, size);
	return __builtin_mul_overflow(count, size, &bytes) ? NULL : depot_take(depot, bytes);
}

void *buffer_alloc(struct pd *pd, struct depot *depot, size_t count, size_t size, uint64_t type)
{
	struct head *head;
	size_t bytes;

	if (!pd || !pd->alloc)
		return alloc_own(depot, count, size);
	if (__builtin_mul_overflow(count, size, &bytes) ||
	    __builtin_add_overflow(bytes, sizeof(*head), &bytes))
		return NULL;
	head = pd->alloc(&pd->ibv, pd->pd_context, bytes, ALIGNMENT, type);
	if (!head)
		return NULL;
	if (head != IBV_ALLOCATOR_USE_DEFAULT) {
		memset(head, 0, bytes);
		head->alloc = pd->alloc;
		return head + 1;
	}
	head = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1));
	if (!head)
		return NULL;
	memset(head, 0, bytes);
	return head + 1;
}

static void free_own(struct depot *depot, void *buffer, size_t bytes)
{
	if (depot)
		depot_give(depot, buffer, bytes);
	else
		free(buffer);
}

void buffer_free(struct pd *pd, struct depot *depot, void *buffer, size_t bytes, uint64_t type)
{
	struct head *head = buffer;

	if (!buffer)
		return;
	if (!pd || !pd->alloc) {
		free_own(depot, buffer, bytes);
		return;
	}
	head--;
	if (head->alloc)
		pd->free(&pd->ibv, pd->pd_context, head, type);
	else
		free(head);
}
