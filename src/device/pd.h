/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains, and the address handles that live in them.
 */
#ifndef DEVICE_PD_H
#define DEVICE_PD_H

#include <stdatomic.h>
#include <stdbool.h>

#include <infiniband/verbs.h>

#include "base/spin.h"
#include "device/av.h"

struct adapter;

/* What makes a PD one, whatever number of handles it has. */
struct protection {
	atomic_uint handles;
};

struct pd {
	struct ibv_pd ibv; /* first: the program's pointer is ours */
	struct adapter *adapter;
	struct protection *protection; /* whose objects may be used together */
	struct pd *base;	       /* of a parent domain: what it was made of; else NULL */
	atomic_uint users;	       /* objects made from it */
	uint32_t shared; /* the verbs layer's own: its place in what the context shares */

	/* a parent domain's allocators; NULL: none */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
	void *face; /* the verbs layer's own: the thread domain */
};

/* NULL is none, and the same as none. */
static inline bool pd_is_same(const struct pd *a, const struct pd *b)
{
	return a && b && a->protection == b->protection;
}

struct ah {
	struct ibv_ah ibv;
	struct pd *pd;
	struct spin lock; /* guards av */
	struct av av;
};

static inline struct pd *pd_of(struct ibv_pd *ibv)
{
	return (struct pd *)ibv;
}

static inline struct ah *ah_of(struct ibv_ah *ibv)
{
	return (struct ah *)ibv;
}

/* These and all creators below: 0, or the positive errno of the noted reason. EBUSY while there are
 * users. */
int pd_create(struct adapter *adapter, struct pd **pd);

/* A parent domain: another handle of `base`, which stays as long as this one. */
int pd_create_on(struct pd *base, struct pd **pd);

/*
 * A handle that imports the PD of another; either may go first. The other's `protection` is held
 * by protection_hold() meanwhile, and that hold becomes the new handle's, if there is one.
 */
int pd_import(struct adapter *adapter, struct protection *protection, uint32_t handle,
	      struct pd **pd);
void protection_hold(struct protection *protection);
void protection_let_go(struct protection *protection);
int pd_check_idle(const struct pd *pd); /* EBUSY while it has users */
int pd_destroy(struct pd *pd);

int ah_create(struct pd *pd, const struct ibv_ah_attr *attr, struct ah **ah);
int ah_destroy(struct ah *ah);

/* What it leads to now, for posting and asking; another destination for what is posted later. */
struct av ah_av(struct ah *ah);
int ah_modify(struct ah *ah, const struct ibv_ah_attr *attr);

#endif
