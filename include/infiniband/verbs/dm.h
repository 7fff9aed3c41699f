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

/*
 * Allocates device memory: log_align_req up to 30, at most max_dm_size bytes (16 MiB) in all
 * allocations of a device together. It is shared memory here, that other processes can import.
 * Returns the device memory, or NULL with errno set.
 * Errors: EINVAL: length is 0 or above max_dm_size, log_align_req above 30, or comp_mask not 0;
 * ENOMEM: so much is not free; EMFILE: no descriptor is left.
 * Man: ibv_alloc_dm(3).
 */
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

/*
 * Frees device memory, or this handle of it if it was imported.
 * Errors: EBUSY: regions are registered on it.
 * Man: ibv_alloc_dm(3).
 */
static inline int ibv_free_dm(struct ibv_dm *dm)
{
	struct verbs_context *vctx = verbs_get_ctx_op(dm->context, free_dm);

	return vctx ? vctx->free_dm(dm) : EOPNOTSUPP;
}

/*
 * Copies `length` bytes at host_addr into device memory, to dm_offset; both numbers are multiples
 * of 4. When it returns, peers read the new bytes.
 * Errors: EINVAL: dm_offset or length is no multiple of 4; EFAULT: it would reach past the end.
 * Threads: as with memcpy(): copies to the same place at once leave a mixture.
 * Man: ibv_alloc_dm(3).
 */
static inline int ibv_memcpy_to_dm(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr,
				   size_t length)
{
	return dm->memcpy_to_dm(dm, dm_offset, host_addr, length);
}

/*
 * Copies `length` bytes at dm_offset of device memory to host_addr; both numbers are multiples of
 * 4.
 * Errors: EINVAL: dm_offset or length is no multiple of 4; EFAULT: it would reach past the end.
 * Threads: as with memcpy().
 * Man: ibv_alloc_dm(3).
 */
static inline int ibv_memcpy_from_dm(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset,
				     size_t length)
{
	return dm->memcpy_from_dm(host_addr, dm, dm_offset, length);
}

/*
 * Registers `length` bytes of device memory from dm_offset on. `access` has IBV_ACCESS_ZERO_BASED:
 * work requests and peers call the first byte 0. mr->addr is NULL.
 * Returns the region, or NULL with errno set; ibv_dereg_mr() ends it.
 * Errors: EINVAL: no ZERO_BASED, a flag that device memory does not take (ON_DEMAND, HUGETLB,
 * FLUSH_PERSISTENT), a range past the end, REMOTE_WRITE or _ATOMIC without LOCAL_WRITE, or a PD of
 * another context; ENOMEM: max_mr, or memory.
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

/*
 * Gives a handle on the device memory that has this handle in the context that `context` was
 * imported from.
 * Returns the device memory, or NULL with errno set.
 * Errors: ENOENT: there is none of this handle; EOPNOTSUPP: its memory could not be mapped; EMFILE;
 * ENOMEM.
 * Man: ibv_import_dm(3).
 */
struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle);

/*
 * Lets go of imported device memory. The memory itself goes with its last handle. Deregister the
 * regions that were made with this handle first: else nothing happens.
 * Errors: None that it could tell.
 * Man: ibv_import_dm(3).
 */
void ibv_unimport_dm(struct ibv_dm *dm);

/*
 * Exports device memory as a dma-buf, made by /dev/udmabuf; where there is none, as a memfd, which
 * ibv_reg_dmabuf_mr() takes as well.
 * Returns a new descriptor, the caller's to close, or -1 with errno set.
 * Errors: EOPNOTSUPP: it could not be exported: no descriptor is left.
 */
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);

#ifdef __cplusplus
}
#endif

#endif
