/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Domains: the protection domain that ties queues to the memory they may use, the thread domain and
 * the parent domain that tune it, and the XRC domain that processes share.
 */
#ifndef INFINIBAND_VERBS_PD_H
#define INFINIBAND_VERBS_PD_H

#include <infiniband/verbs/context.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_pd {
	struct ibv_context *context;
	uint32_t handle;
};

/*
 * Allocates a protection domain: QPs reach only memory and address handles of their own.
 * Returns the PD, or NULL with errno set.
 * Errors: ENOMEM: max_pd, or memory.
 * Man: ibv_alloc_pd(3).
 */
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);

/*
 * Ends a protection domain, a parent domain, or this handle of an imported one.
 * Errors: EBUSY: memory regions, windows, QPs, SRQs, address handles, buffers or parent domains of
 * it are left.
 * Man: ibv_alloc_pd(3).
 */
int ibv_dealloc_pd(struct ibv_pd *pd);

/*
 * Gives a handle on the PD that has this handle in the context that `context` was imported from.
 * Returns the PD, or NULL with errno set.
 * Errors: ENOENT: there is none of this handle; ENOMEM: max_pd, or memory.
 * Man: ibv_import_pd(3).
 */
struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle);

/*
 * Lets go of an imported PD; the PD itself stays its owner's. What was made from this handle has to
 * go first: else nothing happens.
 * Errors: None that it could tell.
 * Man: ibv_import_pd(3).
 */
void ibv_unimport_pd(struct ibv_pd *pd);

struct ibv_td_init_attr {
	uint32_t comp_mask; /* 0 */
};

struct ibv_td {
	struct ibv_context *context;
};

/*
 * Makes a thread domain: the promise that one thread at a time uses what is made in it, so that it
 * needs no locks. It takes effect through a parent domain. Here the locks stay: nobody else wants
 * them, so they cost next to nothing.
 * Returns the domain, or NULL with errno set.
 * Errors: EINVAL: comp_mask is not 0; ENOMEM.
 * Man: ibv_alloc_td(3).
 */
static inline struct ibv_td *ibv_alloc_td(struct ibv_context *context,
					  struct ibv_td_init_attr *init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, alloc_td);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->alloc_td(context, init_attr);
}

/*
 * Ends a thread domain.
 * Errors: EBUSY: a parent domain uses it.
 * Man: ibv_alloc_td(3).
 */
static inline int ibv_dealloc_td(struct ibv_td *td)
{
	struct verbs_context *vctx = verbs_get_ctx_op(td->context, dealloc_td);

	return vctx ? vctx->dealloc_td(td) : EOPNOTSUPP;
}

enum ibv_parent_domain_init_attr_mask {
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS = 1 << 0,
	IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT = 1 << 1,
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2,
};

/* What `alloc` may return to leave an allocation to the library. */
#define IBV_ALLOCATOR_USE_DEFAULT ((void *)-1)

struct ibv_parent_domain_init_attr {
	struct ibv_pd *pd;  /* required */
	struct ibv_td *td;  /* or NULL */
	uint32_t comp_mask; /* enum ibv_parent_domain_init_attr_mask */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context; /* handed to alloc and free */
};

/*
 * Makes a parent domain: a further handle of a PD, usable wherever a PD is, with a thread domain or
 * with the program's own allocators, which give the memory of the queues and CQs that are made from
 * it (enum verbatim_resource_type of infiniband/verbatim.h says for what). An allocator may give
 * IBV_ALLOCATOR_USE_DEFAULT. ibv_dealloc_pd() ends it.
 * Returns the domain, or NULL with errno set.
 * Errors: EINVAL: pd is NULL or a parent domain, pd or td is of another context, one of alloc and
 * free is missing, or an unknown bit in comp_mask; ENOMEM.
 * Man: ibv_alloc_parent_domain(3).
 */
static inline struct ibv_pd *ibv_alloc_parent_domain(struct ibv_context *context,
						     struct ibv_parent_domain_init_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, alloc_parent_domain);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->alloc_parent_domain(context, attr);
}

enum ibv_xrcd_init_attr_mask {
	IBV_XRCD_INIT_ATTR_FD = 1 << 0,
	IBV_XRCD_INIT_ATTR_OFLAGS = 1 << 1,
	IBV_XRCD_INIT_ATTR_RESERVED = 1 << 2,
};

struct ibv_xrcd_init_attr {
	uint32_t comp_mask; /* both bits */
	int fd;		    /* a file that names the domain, or -1 for a private one */
	int oflags;	    /* O_CREAT, O_EXCL */
};

struct ibv_xrcd {
	struct ibv_context *context;
};

/*
 * Opens the XRC domain of a file, which all who open that file share; with fd -1 one of the
 * caller's own (oflags has O_CREAT). comp_mask has both bits. O_CREAT: make it if there is none;
 * O_EXCL: only then. The descriptor may be closed afterwards. For now the sharing is between the
 * contexts of one process.
 * Returns the domain, or NULL with errno set.
 * Errors: EINVAL: comp_mask lacks a bit, oflags has another flag, or O_EXCL and there is one;
 * EBADF: fd is not open; EAGAIN: there is none yet, and no O_CREAT; ENOMEM.
 * Man: ibv_open_xrcd(3); A14.
 */
static inline struct ibv_xrcd *ibv_open_xrcd(struct ibv_context *context,
					     struct ibv_xrcd_init_attr *xrcd_init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, open_xrcd);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->open_xrcd(context, xrcd_init_attr);
}

/*
 * Closes an XRC domain. The domain itself goes with the last who has it open.
 * Errors: EBUSY: a QP or SRQ was made with this handle.
 * Man: ibv_open_xrcd(3).
 */
static inline int ibv_close_xrcd(struct ibv_xrcd *xrcd)
{
	return verbs_get_ctx(xrcd->context)->close_xrcd(xrcd);
}

#ifdef __cplusplus
}
#endif

#endif
