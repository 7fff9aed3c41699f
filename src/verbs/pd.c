/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains, and what refines them: thread domains and parent domains. A parent domain is
 * another handle of its PD, with allocators for the queues of what is made from it. A thread domain
 * promises that one thread at a time uses its objects; locks that nobody else wants cost next to
 * nothing, so they stay.
 */
#include <stdlib.h>

#include "device/pd.h"
#include "verbs/face.h"
#include "verbs/share.h"

struct td {
	struct ibv_td ibv;
	atomic_uint users; /* parent domains */
};

void pd_share(struct pd *pd)
{
	struct share_entry entry = {.kind = SHARE_PD, .handle = pd->ibv.handle, .fd = -1};

	pd->shared = share_add(context_of(pd->ibv.context)->share, &entry, pd);
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ibv)
{
	struct context *context = context_of(ibv);
	struct pd *pd;
	int ret = pd_create(context->adapter, &pd);

	if (ret) {
		errno = ret;
		return NULL;
	}
	pd->ibv.context = ibv;
	pd_share(pd);
	atomic_fetch_add(&context->objects, 1);
	return &pd->ibv;
}

/* Out of what is shared first, so that nobody finds a PD that is going. */
int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	struct context *context = context_of(ibv->context);
	struct pd *pd = pd_of(ibv);
	struct td *td = pd->face;
	int ret = pd_check_idle(pd);

	if (ret)
		return verb_result(ret);
	share_remove(context->share, pd->shared);
	ret = pd_destroy(pd);
	if (ret) {
		pd_share(pd);
		return verb_result(ret);
	}
	if (td)
		atomic_fetch_sub(&td->users, 1);
	atomic_fetch_sub(&context->objects, 1);
	return 0;
}

/* ---- thread domains ---- */

static struct ibv_td *alloc_td(struct ibv_context *ibv, struct ibv_td_init_attr *attr)
{
	struct td *td;

	if (attr->comp_mask) {
		errno = refuse(REASON_COMP_MASK, "comp_mask is %#x", attr->comp_mask);
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td) {
		errno = refuse(REASON_NO_MEMORY, "for a thread domain");
		return NULL;
	}
	td->ibv.context = ibv;
	atomic_fetch_add(&context_of(ibv)->objects, 1);
	return &td->ibv;
}

static int dealloc_td(struct ibv_td *ibv)
{
	struct td *td = (struct td *)ibv;
	unsigned int users = atomic_load(&td->users);

	if (users)
		return verb_result(refuse(REASON_TD_BUSY, "%u parent domains", users));
	atomic_fetch_sub(&context_of(ibv->context)->objects, 1);
	free(td);
	return 0;
}

/* ---- parent domains ---- */

static int check_parent(const struct ibv_context *context,
			const struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |
			       IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC;

	if (!attr->pd || pd_of(attr->pd)->base)
		return refuse(REASON_PARENT_PD, "pd is %s", attr->pd ? "a parent domain" : "NULL");
	if (attr->pd->context != context || (attr->td && attr->td->context != context))
		return refuse(REASON_PARENT_CONTEXT, "%s",
			      attr->pd->context != context ? "pd" : "td");
	if (attr->comp_mask & ~known)
		return refuse(REASON_COMP_MASK, "comp_mask is %#x", attr->comp_mask);
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS &&
	    (!attr->alloc || !attr->free))
		return refuse(REASON_PARENT_ALLOCATORS, "%s is NULL",
			      attr->alloc ? "free" : "alloc");
	return 0;
}

static struct ibv_pd *alloc_parent_domain(struct ibv_context *context,
					  struct ibv_parent_domain_init_attr *attr)
{
	int ret = check_parent(context, attr);
	struct pd *pd;

	if (!ret)
		ret = pd_create_on(pd_of(attr->pd), &pd);
	if (ret) {
		errno = ret;
		return NULL;
	}
	pd->ibv.context = context;
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->pd_context = attr->pd_context;
	if (attr->td) {
		pd->face = attr->td;
		atomic_fetch_add(&((struct td *)attr->td)->users, 1);
	}
	pd_share(pd);
	atomic_fetch_add(&context_of(context)->objects, 1);
	return &pd->ibv;
}

void context_set_pd_ops(struct verbs_context *verbs)
{
	verbs->alloc_td = alloc_td;
	verbs->dealloc_td = dealloc_td;
	verbs->alloc_parent_domain = alloc_parent_domain;
}
