/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters.
 */
#include <stdlib.h>

#include "device/adapter.h"
#include "device/comp_cntr.h"
#include "device/qp.h"
#include "explain/reason.h"

int comp_cntr_create(struct adapter *adapter, const struct ibv_comp_cntr_init_attr *attr,
		     struct comp_cntr **cntr)
{
	struct comp_cntr *new;

	if (attr->comp_mask || attr->flags || (unsigned int)attr->type > IBV_COMP_CNTR_TYPE_BYTES)
		return refuse(REASON_COMP_CNTR_ATTR, "comp_mask %#x, type %d, flags %#x",
			      attr->comp_mask, attr->type, attr->flags);
	if (atomic_load(&adapter->comp_cntr_count) >= MAX_COMP_CNTR)
		return refuse(REASON_TOO_MANY_COMP_CNTRS, "%s has %u already", adapter->name,
			      MAX_COMP_CNTR);
	new = calloc(1, sizeof(*new));
	if (!new)
		return refuse(REASON_NO_MEMORY, "for a completion counter");
	new->adapter = adapter;
	new->type = attr->type;
	new->ibv.handle = atomic_fetch_add(&adapter->last_handle, 1) + 1;
	atomic_fetch_add(&adapter->comp_cntr_count, 1);
	*cntr = new;
	return 0;
}

int comp_cntr_destroy(struct comp_cntr *cntr)
{
	unsigned int users = atomic_load(&cntr->users);

	if (users)
		return refuse(REASON_COMP_CNTR_BUSY, "counter %u still serves %u QPs",
			      cntr->ibv.handle, users);
	atomic_fetch_sub(&cntr->adapter->comp_cntr_count, 1);
	free(cntr);
	return 0;
}

static int check(const struct comp_cntr *cntr, const struct qp *qp,
		 const struct ibv_qp_attach_comp_cntr_attr *attr)
{
	enum ibv_qp_state state = atomic_load_explicit(&qp->state, memory_order_relaxed);

	if (attr->comp_mask || !attr->op_mask)
		return refuse(REASON_COMP_CNTR_MASK, "comp_mask %#x, op_mask %#x", attr->comp_mask,
			      attr->op_mask);
	if (attr->op_mask & ~(uint32_t)COMP_CNTR_ALL)
		return refuse(REASON_COMP_CNTR_OPS, "op_mask %#x", attr->op_mask);
	if (cntr->adapter != qp->adapter)
		return refuse(REASON_QP_OTHER_DEVICE, "the QP is of %s, the counter of %s",
			      qp->adapter->name, cntr->adapter->name);
	if (state != IBV_QPS_RESET && state != IBV_QPS_INIT)
		return refuse(REASON_COMP_CNTR_STATE, "QP %#x is in %s", qp->number,
			      qp_state_name(state));
	for (int i = 0; i < COMP_CNTR_OPS; i++)
		if (attr->op_mask & 1u << i && qp->counters[i])
			return refuse(REASON_COMP_CNTR_TAKEN,
				      "QP %#x, operation %#x has counter %u", qp->number, 1u << i,
				      qp->counters[i]->ibv.handle);
	return 0;
}

int comp_cntr_attach(struct comp_cntr *cntr, struct qp *qp,
		     const struct ibv_qp_attach_comp_cntr_attr *attr)
{
	int ret = check(cntr, qp, attr);

	for (int i = 0; i < COMP_CNTR_OPS && !ret; i++) {
		if (!(attr->op_mask & 1u << i))
			continue;
		qp->counters[i] = cntr;
		qp->counted |= 1u << i;
		atomic_fetch_add(&cntr->users, 1);
	}
	if (!ret)
		qp_changed(qp);
	return ret;
}

void comp_cntr_detach_all(struct qp *qp)
{
	for (int i = 0; i < COMP_CNTR_OPS; i++)
		if (qp->counters[i])
			atomic_fetch_sub(&qp->counters[i]->users, 1);
}

void comp_cntr_count(const struct qp *qp, enum ibv_qp_attach_comp_cntr_op op, bool is_good,
		     uint64_t bytes)
{
	struct comp_cntr *cntr = qp->counters[__builtin_ctz(op)];

	if (!cntr)
		return;
	if (!is_good)
		atomic_fetch_add_explicit(&cntr->failed, 1, memory_order_release);
	else
		atomic_fetch_add_explicit(&cntr->done,
					  cntr->type == IBV_COMP_CNTR_TYPE_BYTES ? bytes : 1,
					  memory_order_release);
}
