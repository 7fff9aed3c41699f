/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains (A14): a domain ties XRC_RECV QPs to the XRC SRQs that their messages may name. Who
 * opens the domain of one file, from whichever context, gets a handle of his own on one domain.
 */
#ifndef DEVICE_XRCD_H
#define DEVICE_XRCD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include <urcu/list.h>

struct adapter;

/* A file, as fstat() names it. */
struct xrcd_file {
	uint64_t device, inode;
};

struct xrc_domain {
	struct cds_list_head node; /* of the adapter's, under its lock */
	unsigned int references;   /* handles and QPs; under the adapter's lock */
	bool is_private;	   /* of no file: nobody else opens it */
	struct xrcd_file file;
	int share; /* the host's: how other processes see that we have it; -1: they don't */
};

struct xrcd {
	struct ibv_xrcd ibv; /* first */
	struct adapter *adapter;
	struct xrc_domain *domain;
	atomic_uint users; /* QPs and SRQs made with this handle */
};

static inline struct xrcd *xrcd_of(struct ibv_xrcd *ibv)
{
	return (struct xrcd *)ibv;
}

enum { XRCD_CREATE = 1, XRCD_EXCLUSIVE = 2 };

/*
 * `file` NULL is a private domain. Without XRCD_CREATE it has to be there (EAGAIN), with both flags
 * it must not (EINVAL). 0, or the positive errno of the noted reason.
 */
int xrcd_open(struct adapter *adapter, const struct xrcd_file *file, int flags, struct xrcd **xrcd);

/* EBUSY while QPs or SRQs were made with it. The domain ends with its last handle and QP. */
int xrcd_close(struct xrcd *xrcd);

/* The domain of a file, with a reference, or NULL. */
struct xrc_domain *xrc_domain_find(struct adapter *adapter, const struct xrcd_file *file);

void xrc_domain_get(struct adapter *adapter, struct xrc_domain *domain);
void xrc_domain_put(struct adapter *adapter, struct xrc_domain *domain);

#endif
