/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What regions of special memory keep alive: a mapping, a buffer, device memory, a DMA handle. It
 * hangs at the region's `face`; a plain region has none.
 */
#ifndef VERBS_MEMORY_H
#define VERBS_MEMORY_H

#include <stdatomic.h>
#include <stddef.h>

#include <infiniband/verbs.h>

#include "device/mr.h"
#include "verbs/memfd.h"

struct ibv_buf {
	struct memfd memory;
	struct ibv_pd *pd;
	size_t size;
	atomic_uint users; /* who holds it: the program, and each region on it */
};

/* Device memory, which several handles may have. */
struct dm_memory {
	struct memfd memfd;
	size_t size;
	struct adapter *counted; /* whose dm_bytes it is part of; NULL: another process's */
	atomic_uint handles;
};

struct dm {
	struct ibv_dm ibv; /* first */
	struct dm_memory *memory;
	atomic_uint users; /* regions by this handle */
	uint32_t shared;   /* its place in what the context shares */
};

static inline struct dm *dm_of(struct ibv_dm *ibv)
{
	return (struct dm *)ibv;
}

struct dmah {
	struct ibv_dmah ibv; /* first */
	atomic_uint users;   /* regions */
};

struct mr_memory {
	atomic_uint users; /* regions that share it */
	void *mapping;	   /* of a dma-buf; NULL: none */
	size_t mapped;
	uint64_t offset; /* of the region in it */
	int dmabuf;	 /* its descriptor, a duplicate */
	struct ibv_buf *buf;
	struct dm *dm;
	struct dmah *dmah;
};

/* mr.c: a region of `length` bytes at `place`, which keeps `memory`'s holds from then on. NULL and
 * errno, and then the holds are still the caller's. */
struct ibv_mr *memory_register(struct ibv_pd *pd, void *place, size_t length, uint64_t iova,
			       unsigned int access, const struct mr_memory *memory);

/* Lists it among what its context shares. */
void memory_list(struct mr *mr);

/* Lets go of all that is held. */
void memory_let_go(struct mr_memory *memory);

/* dmabuf.c */
int dmabuf_map(int fd, uint64_t offset, size_t length, unsigned int access,
	       struct mr_memory *memory, void **place);
void dmabuf_unmap(struct mr_memory *memory);

/* buf.c */
int buf_check(const struct ibv_buf *buf, const void *addr, size_t length);
void buf_hold(struct ibv_buf *buf);
void buf_let_go(struct ibv_buf *buf);

/* dm.c */
void dm_let_go(struct dm *dm);

/* A handle of memory that the caller holds; NULL and errno, and then the hold is gone. */
struct ibv_dm *dm_handle(struct ibv_context *context, struct dm_memory *memory, uint32_t handle);

/* What another process's descriptor, which is closed where it fails, has of it. NULL and errno. */
struct dm_memory *dm_memory_of(int fd, size_t size);

/* dmah.c */
void dmah_hold(struct dmah *dmah);
void dmah_let_go(struct dmah *dmah);

#endif
