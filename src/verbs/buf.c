/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers from the library: shared from birth, so that other processes can be given them. A buffer
 * that the program frees stays until the last region on it is gone, as pinned pages would.
 */
#include <stdlib.h>

#include "device/pd.h"
#include "verbs/face.h"
#include "verbs/memory.h"

enum { HUGE_PAGE = 2 << 20 };

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	UNCANCELLED;
	struct ibv_buf *new;
	int ret;

	if (!size) {
		errno = refuse(REASON_BUF_SIZE, "size is 0");
		return NULL;
	}
	new = calloc(1, sizeof(*new));
	ret = new ? memfd_create_mapped(&new->memory, "verbatim-buf", size,
					size >= HUGE_PAGE ? HUGE_PAGE : 0)
		  : -ENOMEM;
	if (ret) {
		free(new);
		errno =
		    refuse(ret == -EMFILE || ret == -ENFILE ? REASON_NO_EVENT_FD : REASON_NO_MEMORY,
			   "for a buffer of %zu bytes", size);
		return NULL;
	}
	new->pd = pd;
	new->size = size;
	atomic_init(&new->users, 1);
	atomic_fetch_add(&pd_of(pd)->users, 1);
	*buf = new;
	return new->memory.place;
}

void buf_hold(struct ibv_buf *buf)
{
	atomic_fetch_add(&buf->users, 1);
}

void buf_let_go(struct ibv_buf *buf)
{
	if (atomic_fetch_sub(&buf->users, 1) > 1)
		return;
	atomic_fetch_sub(&pd_of(buf->pd)->users, 1);
	memfd_end(&buf->memory);
	free(buf);
}

void ibv_free_buf(struct ibv_buf *buf)
{
	UNCANCELLED;

	buf_let_go(buf);
}

int buf_check(const struct ibv_buf *buf, const void *addr, size_t length)
{
	const char *at = addr, *start = buf->memory.place;

	if (at < start || length > buf->size || (size_t)(at - start) > buf->size - length)
		return refuse(REASON_BUF_RANGE, "%zu bytes at %p, the buffer has %zu at %p", length,
			      addr, buf->size, (const void *)start);
	return 0;
}

int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
	UNCANCELLED;

	return memfd_export(&buf->memory);
}

void context_set_buf_ops(struct verbs_context *verbs)
{
	verbs->alloc_buf = ibv_alloc_buf;
	verbs->free_buf = ibv_free_buf;
}
