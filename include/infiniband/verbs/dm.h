/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: memory of the adapter, addressed by offset, reached by keys as any other. With
 * Verbatim it is shared memory, the fastest there is between processes of one host.
 */
#ifndef INFINIBAND_VERBS_DM_H
#define INFINIBAND_VERBS_DM_H

#include <infiniband/verbs/context.h>
#include <infiniband/verbs/pd.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_alloc_dm_attr {
	size_t length;		/* bytes */
	uint32_t log_align_req; /* alignment 2^n bytes */
	uint32_t comp_mask;	/* 0 */
};

enum ibv_dm_mask {
	IBV_DM_MASK_HANDLE = 1 << 0,
};

struct ibv_dm {
	struct ibv_context *context;
	int (*memcpy_to_dm)(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr,
			    size_t length);
	int (*memcpy_from_dm)(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset,
			      size_t length);
	uint32_t comp_mask; /* enum ibv_dm_mask */
	uint32_t handle;
};

/* At most ibv_device_attr_ex.max_dm_size bytes in all. Man: ibv_alloc_dm(3). */
static inline struct ibv_dm *ibv_alloc_dm(struct ibv_context *context,
					  struct ibv_alloc_dm_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, alloc_dm);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->alloc_dm(context, attr);
}

/* EBUSY while a region is registered on it. Man: ibv_alloc_dm(3). */
static inline int ibv_free_dm(struct ibv_dm *dm)
{
	struct verbs_context *vctx = verbs_get_ctx_op(dm->context, free_dm);

	return vctx ? vctx->free_dm(dm) : EOPNOTSUPP;
}

/* Copies into device memory; offset and length are multiples of 4. Man: ibv_alloc_dm(3). */
static inline int ibv_memcpy_to_dm(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr,
				   size_t length)
{
	return dm->memcpy_to_dm(dm, dm_offset, host_addr, length);
}

/* Copies out of device memory; offset and length are multiples of 4. Man: ibv_alloc_dm(3). */
static inline int ibv_memcpy_from_dm(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset,
				     size_t length)
{
	return dm->memcpy_from_dm(host_addr, dm, dm_offset, length);
}

/*
 * Registers a part of device memory; `access` has IBV_ACCESS_ZERO_BASED, as addresses are offsets.
 * Man: ibv_alloc_dm(3).
 */
static inline struct ibv_mr *ibv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
					   size_t length, unsigned int access)
{
	struct verbs_context *vctx = verbs_get_ctx_op(pd->context, reg_dm_mr);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->reg_dm_mr(pd, dm, dm_offset, length, access);
}

/* The device memory that has this handle in a context that was shared. Man: ibv_import_dm(3). */
struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle);

/* Lets go of imported device memory. Man: ibv_import_dm(3). */
void ibv_unimport_dm(struct ibv_dm *dm);

/* A new dma-buf descriptor of the memory, the caller's to close; -1 with errno if there is none. */
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);

#ifdef __cplusplus
}
#endif

#endif
