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
 * Registers `length` bytes at `addr`, both as they are: no alignment is asked for. errno EINVAL:
 * REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE, unknown flags, or a range past the end of the
 * address space; EFAULT: a part of it is not mapped (allowed with ON_DEMAND); ENOMEM: max_mr, or
 * memory. Man: ibv_reg_mr(3).
 */
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);

/*
 * The same, under addresses that start at `iova` instead of `addr`; both must have the same offset
 * in a page for other adapters, here any will do. Man: ibv_reg_mr(3).
 */
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access);

/* The same with optional access flags, bits 20 to 29, which a device may ignore. */
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

/* Registers a part of a dma-buf: `offset` bytes into `fd`. Man: ibv_reg_mr(3). */
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

/* A DMA handle: hints for the bus that a region can be registered with. Man: ibv_alloc_dmah(3). */
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);

/* EBUSY while a region uses it. Man: ibv_alloc_dmah(3). */
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

/* All ways to register in one call. Man: ibv_reg_mr_ex(3). */
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);

/*
 * Memory from the library, at least page aligned, in the way that suits the device best; the handle
 * goes to *buf. Man: ibv_alloc_buf(3).
 */
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);

/* Frees it; regions on it must be gone. Man: ibv_alloc_buf(3). */
void ibv_free_buf(struct ibv_buf *buf);

/* Registers [addr, addr + length) of such a buffer. Man: ibv_alloc_buf(3). */
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);

/*
 * A new descriptor of the dma-buf behind the buffer, the caller's to close; -1 with errno if there
 * is none. Man: ibv_alloc_buf(3).
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
 * Changes what the flags say, in place; the keys may change. Nothing may be under way on the
 * region. 0 or an ibv_rereg_mr_err_code. Man: ibv_rereg_mr(3).
 */
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access);

/*
 * After it has returned nobody reads or writes the memory any more. EBUSY while a memory window is
 * bound to it. Man: ibv_reg_mr(3).
 */
int ibv_dereg_mr(struct ibv_mr *mr);

/* The region that has this handle in a context that was shared. Man: ibv_import_mr(3). */
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle);

/* Lets go of an imported region. Man: ibv_import_mr(3). */
void ibv_unimport_mr(struct ibv_mr *mr);

/* A region that swallows writes and reads as zeroes, at any address. Man: ibv_alloc_null_mr(3). */
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
 * Advice on on-demand regions, such as to bring pages in. ENOENT: an lkey of the list is unknown;
 * EFAULT: a page could not be brought in. Man: ibv_advise_mr(3).
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
