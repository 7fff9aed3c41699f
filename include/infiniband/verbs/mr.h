/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions. Work requests name memory by address and key: the lkey for the owner's own work
 * requests, the rkey for peers. The two differ, and one in the place of the other is refused.
 *
 * Keep registered memory mapped until ibv_dereg_mr has returned. If a program unmaps it earlier,
 * operations on it complete in error.
 */
#ifndef INFINIBAND_VERBS_MR_H
#define INFINIBAND_VERBS_MR_H

#include <infiniband/verbs/context.h>
#include <infiniband/verbs/pd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a region, window or QP lets happen; reading by the owner is always allowed. */
enum ibv_access_flags {
	IBV_ACCESS_LOCAL_WRITE = 1, /* needed by receives, and by REMOTE_WRITE and _ATOMIC */
	IBV_ACCESS_REMOTE_WRITE = (1 << 1),
	IBV_ACCESS_REMOTE_READ = (1 << 2),
	IBV_ACCESS_REMOTE_ATOMIC = (1 << 3),
	IBV_ACCESS_MW_BIND = (1 << 4),
	IBV_ACCESS_ZERO_BASED = (1 << 5), /* addresses count from 0 */
	IBV_ACCESS_ON_DEMAND = (1 << 6),
	IBV_ACCESS_HUGETLB = (1 << 7),
	IBV_ACCESS_FLUSH_GLOBAL = (1 << 8),
	IBV_ACCESS_FLUSH_PERSISTENT = (1 << 9),
	IBV_ACCESS_RELAXED_ORDERING = IBV_ACCESS_OPTIONAL_FIRST,
};

struct ibv_mr {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *addr;
	size_t length; /* bytes */
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};

/*
 * Registers `length` bytes at `addr`, both as they are: no alignment is asked for, and 0 bytes are
 * allowed. `access` is of enum ibv_access_flags. Peers and work requests name them by their
 * address; with ZERO_BASED by the offset. Nothing is pinned, but what is not mapped is refused,
 * unless ON_DEMAND says that it may come later. addr NULL with length SIZE_MAX and ON_DEMAND
 * registers the whole address space.
 * Returns the region, or NULL with errno set.
 * Errors: EINVAL: REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE, unknown flags, or a range past
 * the end of the address space; EFAULT: a part of it is not mapped; ENOMEM: max_mr, or memory.
 * Man: ibv_reg_mr(3); C11-21.
 */
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);

/*
 * Registers memory under addresses that begin at `iova` instead of `addr`. On other adapters both
 * need the same offset within a page; here any will do. ZERO_BASED makes it 0. `access` is of enum
 * ibv_access_flags.
 * Returns the region, or NULL with errno set.
 * Errors: EINVAL: as ibv_reg_mr(), or iova + length goes past 2^64; EFAULT: a part of it is not
 * mapped; ENOMEM: max_mr, or memory.
 * Man: ibv_reg_mr(3).
 */
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access);

/*
 * Registers memory under addresses that begin at `iova`, with flags of IBV_ACCESS_OPTIONAL_RANGE,
 * bits 20 to 29, which a device that does not know them ignores: Verbatim ignores them all. The
 * others are of enum ibv_access_flags, as ever. Programs need not call it: ibv_reg_mr() and
 * ibv_reg_mr_iova() do where a flag may be one of these.
 * Returns the region, or NULL with errno set.
 * Errors: EINVAL: as ibv_reg_mr(), or iova + length goes past 2^64; EFAULT: a part of it is not
 * mapped; ENOMEM: max_mr, or memory.
 * Man: ibv_reg_mr(3).
 */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access);

/*
 * Programs call ibv_reg_mr and ibv_reg_mr_iova through these: the newest entry point is used only
 * by those that may pass an optional flag, so that others still run on older libraries.
 */
__attribute__((__always_inline__)) static inline struct ibv_mr *
__ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, unsigned int access, int is_access_const)
{
	if (is_access_const && !(access & IBV_ACCESS_OPTIONAL_RANGE))
		return ibv_reg_mr(pd, addr, length, (int)access);
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, access);
}

#define ibv_reg_mr(pd, addr, length, access)                                                       \
	__ibv_reg_mr(pd, addr, length, access,                                                     \
		     __builtin_constant_p(((int)(access)&IBV_ACCESS_OPTIONAL_RANGE) == 0))

__attribute__((__always_inline__)) static inline struct ibv_mr *
__ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access,
		  int is_access_const)
{
	if (is_access_const && !(access & IBV_ACCESS_OPTIONAL_RANGE))
		return ibv_reg_mr_iova(pd, addr, length, iova, (int)access);
	return ibv_reg_mr_iova2(pd, addr, length, iova, access);
}

#define ibv_reg_mr_iova(pd, addr, length, iova, access)                                            \
	__ibv_reg_mr_iova(pd, addr, length, iova, access,                                          \
			  __builtin_constant_p(((access)&IBV_ACCESS_OPTIONAL_RANGE) == 0))

/*
 * Registers `length` bytes of a dma-buf from `offset` on, under addresses that begin at `iova`. The
 * exporter has to allow mmap(); a memfd does as well. The descriptor is duplicated: it may be
 * closed afterwards. mr->addr is the offset.
 * Returns the region, or NULL with errno set.
 * Errors: EBADF: fd is not open; EINVAL: it cannot be mapped with this access, the range is empty
 * or goes past its end, or flags other than LOCAL_WRITE, REMOTE_READ, _WRITE, _ATOMIC and the
 * optional ones; EMFILE: no descriptor is left; ENOMEM: max_mr, or memory.
 * Man: ibv_reg_mr(3).
 */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access);

struct ibv_dmah {
	struct ibv_context *context;
};

enum ibv_tph_mem_type {
	IBV_TPH_MEM_TYPE_VM, /* volatile */
	IBV_TPH_MEM_TYPE_PM, /* persistent */
};

enum ibv_dmah_init_attr_mask {
	IBV_DMAH_INIT_ATTR_MASK_CPU_ID = 1 << 0,
	IBV_DMAH_INIT_ATTR_MASK_PH = 1 << 1,
	IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE = 1 << 2,
};

struct ibv_dmah_init_attr {
	uint32_t comp_mask; /* enum ibv_dmah_init_attr_mask */
	uint32_t cpu_id;
	uint8_t ph;	      /* PCI processing hint, 0 to 3 */
	uint8_t tph_mem_type; /* enum ibv_tph_mem_type */
};

/*
 * Makes a DMA handle: hints for the bus between adapter and memory (PCI processing hints) that a
 * region can be registered with. Here there is no such bus: they are checked and have no effect.
 * Returns the handle, or NULL with errno set.
 * Errors: EINVAL: an unknown bit in comp_mask, ph above 3, an unknown tph_mem_type, or a cpu_id
 * that this machine does not have; ENOMEM.
 * Man: ibv_alloc_dmah(3).
 */
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);

/*
 * Ends a DMA handle.
 * Errors: EBUSY: a region uses it.
 * Man: ibv_alloc_dmah(3).
 */
int ibv_dealloc_dmah(struct ibv_dmah *dmah);

enum ibv_mr_init_attr_mask {
	IBV_REG_MR_MASK_IOVA = 1 << 0,
	IBV_REG_MR_MASK_ADDR = 1 << 1,
	IBV_REG_MR_MASK_FD = 1 << 2,
	IBV_REG_MR_MASK_FD_OFFSET = 1 << 3,
	IBV_REG_MR_MASK_DMAH = 1 << 4,
	IBV_REG_MR_MASK_BUF = 1 << 5,
};

struct ibv_mr_init_attr {
	size_t length; /* bytes */
	int access;
	uint64_t comp_mask; /* enum ibv_mr_init_attr_mask: which of those below are set */
	uint64_t iova;
	void *addr;
	int fd; /* of a dma-buf */
	uint64_t fd_offset;
	struct ibv_dmah *dmah;
	struct ibv_buf *buf; /* with addr inside it */
};

/*
 * Registers memory in any of the ways in one call: comp_mask says which members are set. Memory is
 * named by addr, by fd with fd_offset (a dma-buf), or by buf with addr inside it; iova is addr or
 * fd_offset where it is not given; dmah may be added.
 * Returns the region, or NULL with errno set.
 * Errors: EINVAL: comp_mask names no memory or names it twice, buf or dmah is NULL, or what the
 * call for this kind of memory says; EOPNOTSUPP: an unknown bit in comp_mask; EFAULT: a part of it
 * is not mapped; EBADF: fd is not open; ENOMEM: max_mr, or memory.
 * Man: ibv_reg_mr_ex(3).
 */
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);

/*
 * Allocates memory from the library, page aligned (from 2 MiB on aligned to that), in the way that
 * suits the device best: here shared memory, which other processes can import with the regions on
 * it. The handle goes to *buf.
 * Returns where it is, or NULL with errno set.
 * Errors: EINVAL: size is 0; ENOMEM; EMFILE: no descriptor is left.
 * Man: ibv_alloc_buf(3).
 */
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);

/*
 * Frees such memory. Deregister the regions on it first; here it stays until the last of them is
 * gone.
 * Errors: None.
 * Man: ibv_alloc_buf(3).
 */
void ibv_free_buf(struct ibv_buf *buf);

/*
 * Registers the `length` bytes at `addr` of a buffer that ibv_alloc_buf() gave.
 * Returns the region, or NULL with errno set.
 * Errors: EINVAL: the range is not within the buffer, or the flags are refused as ibv_reg_mr()
 * does; ENOMEM: max_mr, or memory.
 * Man: ibv_alloc_buf(3).
 */
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);

/*
 * Exports a buffer's memory as a dma-buf, made by /dev/udmabuf; where there is none, as a memfd,
 * which ibv_reg_dmabuf_mr() takes as well.
 * Returns a new descriptor, the caller's to close, or -1 with errno set.
 * Errors: EOPNOTSUPP: it could not be exported: no descriptor is left.
 * Man: ibv_alloc_buf(3).
 */
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);

enum ibv_rereg_mr_flags {
	IBV_REREG_MR_CHANGE_TRANSLATION = (1 << 0), /* addr and length */
	IBV_REREG_MR_CHANGE_PD = (1 << 1),
	IBV_REREG_MR_CHANGE_ACCESS = (1 << 2),
	IBV_REREG_MR_FLAGS_SUPPORTED = ((IBV_REREG_MR_CHANGE_ACCESS << 1) - 1),
};

/* What ibv_rereg_mr returns instead of an errno; after the first three the region is still good. */
enum ibv_rereg_mr_err_code {
	IBV_REREG_MR_ERR_INPUT = -1,		   /* bad arguments, nothing changed */
	IBV_REREG_MR_ERR_DONT_FORK_NEW = -2,	   /* fork protection failed, nothing changed */
	IBV_REREG_MR_ERR_DO_FORK_OLD = -3,	   /* changed; the old range stays protected */
	IBV_REREG_MR_ERR_CMD = -4,		   /* failed: the region may only be deregistered */
	IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW = -5, /* likewise */
};

/*
 * Changes a region in place: its range, PD or access, as flags, of enum ibv_rereg_mr_flags, say.
 * Its keys stay the same. Nothing may be under way on it, and no window may be bound to it. Null
 * regions, those on device memory, dma-bufs and buffers, and imported ones cannot be changed.
 * Returns 0, or one of enum ibv_rereg_mr_err_code, with errno set. After IBV_REREG_MR_ERR_INPUT the
 * region is as it was; after IBV_REREG_MR_ERR_CMD other libraries leave one that may only be
 * deregistered, here it is as it was, too.
 * Errors: EINVAL: unknown or no flags, CHANGE_TRANSLATION without addr and length, CHANGE_PD
 * without a PD or with one of another context, access without CHANGE_ACCESS, or what ibv_reg_mr()
 * refuses; EOPNOTSUPP: a region of a kind that cannot be changed; EFAULT: a part of the range is
 * not mapped; EBUSY: windows are bound to it.
 * Man: ibv_rereg_mr(3).
 */
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access);

/*
 * Ends a region. Once it has returned nobody reads or writes the memory any more, and its keys are
 * refused; work requests that still name them complete in error. It may be freed then.
 * Errors: EBUSY: memory windows are bound to it.
 * Man: ibv_reg_mr(3).
 */
int ibv_dereg_mr(struct ibv_mr *mr);

/*
 * Gives a handle on the region that has this handle in the context that the PD's was imported from.
 * `pd` is the imported PD that it was registered with. In another process the region has to lie in
 * shared memory: ibv_alloc_buf(), device memory, a dma-buf, or what the program mapped MAP_SHARED
 * itself. lkey and rkey are its maker's where their places are free; mr->addr is NULL.
 * Returns the region, or NULL with errno set.
 * Errors: ENOENT: there is none of this handle; EINVAL: it is of another PD; EOPNOTSUPP: the memory
 * is the other process's alone; ENOMEM.
 * Man: ibv_import_mr(3).
 */
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle);

/*
 * Lets go of an imported region. The last handle of a region ends it.
 * Errors: None that it could tell.
 * Man: ibv_import_mr(3).
 */
void ibv_unimport_mr(struct ibv_mr *mr);

/*
 * Makes a null region: its lkey, at any address, swallows what is written and reads as zeroes. It
 * is for elements of receives and sends whose bytes do not matter; peers have no key for it (rkey
 * is 0).
 * Returns the region, or NULL with errno set; ibv_dereg_mr() ends it.
 * Errors: ENOMEM: max_mr, or memory.
 * Man: ibv_alloc_null_mr(3).
 */
static inline struct ibv_mr *ibv_alloc_null_mr(struct ibv_pd *pd)
{
	struct verbs_context *vctx = verbs_get_ctx_op(pd->context, alloc_null_mr);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->alloc_null_mr(pd);
}

/*
 * Gives advice on memory of on-demand regions: to bring pages in for reading (PREFETCH) or writing
 * (PREFETCH_WRITE), or nothing beyond what is present (NO_FAULT). With IBV_ADVISE_MR_FLAG_FLUSH it
 * returns when they are in; without, it asks the kernel to read ahead and reports no missing page.
 * Errors: EOPNOTSUPP: unknown advice; EINVAL: an unknown flag, or a region that is not ON_DEMAND;
 * ENOENT: an lkey of the list is unknown; EPERM: a region of another PD, or PREFETCH_WRITE of one
 * without LOCAL_WRITE; EFAULT: an element reaches outside its region, or a page could not be
 * brought in.
 * Man: ibv_advise_mr(3).
 */
static inline int ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
				struct ibv_sge *sg_list, uint32_t num_sge)
{
	struct verbs_context *vctx = verbs_get_ctx_op(pd->context, advise_mr);

	return vctx ? vctx->advise_mr(pd, advice, flags, sg_list, num_sge) : EOPNOTSUPP;
}

#ifdef __cplusplus
}
#endif

#endif
