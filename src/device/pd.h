/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains, and the address handles that live in them.
 */
#ifndef DEVICE_PD_H
#define DEVICE_PD_H

#include <stdatomic.h>

#include <infiniband/verbs.h>

#include "device/av.h"

struct adapter;

struct pd {
	struct ibv_pd ibv; /* first: the program's pointer is ours */
	struct adapter *adapter;
	atomic_uint users; /* objects made from it */
};

struct ah {
	struct ibv_ah ibv;
	struct pd *pd;
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
int pd_destroy(struct pd *pd);

int ah_create(struct pd *pd, const struct ibv_ah_attr *attr, struct ah **ah);
int ah_destroy(struct ah *ah);

#endif
