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

/* A protection domain. Man: ibv_alloc_pd(3). */
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);

/* EBUSY while a memory region, QP, SRQ, AH or window still uses it. Man: ibv_alloc_pd(3). */
int ibv_dealloc_pd(struct ibv_pd *pd);

/* The PD that has this handle in a context that was shared. Man: ibv_import_pd(3). */
struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle);

/* Lets go of an imported PD; the PD itself stays its owner's. Man: ibv_import_pd(3). */
void ibv_unimport_pd(struct ibv_pd *pd);

struct ibv_td_init_attr {
	uint32_t comp_mask; /* 0 */
};

struct ibv_td {
	struct ibv_context *context;
};

/*
 * A thread domain: the promise that all objects in it are used by one thread at a time, so that
 * they need no locks. It takes effect through a parent domain. Man: ibv_alloc_td(3).
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

/* EBUSY while a parent domain uses it. Man: ibv_alloc_td(3). */
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
 * A PD with further properties (a thread domain, the program's allocators), usable wherever a PD
 * is; ended by ibv_dealloc_pd. Man: ibv_alloc_parent_domain(3).
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

/* The XRC domain of a file, shared by all who open it. Man: ibv_open_xrcd(3). */
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

/* EBUSY while a QP or SRQ of this process uses it. Man: ibv_open_xrcd(3). */
static inline int ibv_close_xrcd(struct ibv_xrcd *xrcd)
{
	return verbs_get_ctx(xrcd->context)->close_xrcd(xrcd);
}

#ifdef __cplusplus
}
#endif

#endif
