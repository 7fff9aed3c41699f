/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters: how many operations of QPs are done, or how many bytes they moved, and how
 * many ended in error. Counting takes no lock: several lanes may do it at once.
 */
#ifndef DEVICE_COMP_CNTR_H
#define DEVICE_COMP_CNTR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct adapter;
struct qp;

enum {
	COMP_CNTR_OPS = 6, /* enum ibv_qp_attach_comp_cntr_op, a bit each */
	COMP_CNTR_ALL = (1 << COMP_CNTR_OPS) - 1,
};

struct comp_cntr {
	struct ibv_comp_cntr ibv; /* first */
	struct adapter *adapter;
	enum ibv_comp_cntr_type type;
	_Atomic uint64_t done, failed;
	atomic_uint users; /* QPs */
};

static inline struct comp_cntr *comp_cntr_of(struct ibv_comp_cntr *ibv)
{
	return (struct comp_cntr *)ibv;
}

/* 0, or the positive errno of the noted reason. */
int comp_cntr_create(struct adapter *adapter, const struct ibv_comp_cntr_init_attr *attr,
		     struct comp_cntr **cntr);
int comp_cntr_destroy(struct comp_cntr *cntr); /* EBUSY while a QP uses it */

/* The QP, in RESET or INIT, counts these operations there from now on. The lane's lock is held. */
int comp_cntr_attach(struct comp_cntr *cntr, struct qp *qp,
		     const struct ibv_qp_attach_comp_cntr_attr *attr);

/* The QP goes. */
void comp_cntr_detach_all(struct qp *qp);

/* An operation of the kind `op` (one bit) of this QP is over. */
void comp_cntr_count(const struct qp *qp, enum ibv_qp_attach_comp_cntr_op op, bool is_good,
		     uint64_t bytes);

#endif
