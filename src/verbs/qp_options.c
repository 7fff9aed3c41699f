/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a QP can be told and asked beyond its attributes: its rate, the extensions that the two ends
 * of a connection agree upon (ECE), and in which order its data come.
 */
#include "device/memory.h"
#include "verbs/face.h"

static int modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	UNCANCELLED;

	return verb_result(engine_limit_rate(real_qp(qp), attr));
}

/* ---- ECE: there is nothing that two of us would have to agree upon ---- */

static void own_options(struct ibv_qp *qp, struct ibv_ece *ece)
{
	struct ibv_device_attr attr;

	ibv_query_device(qp->context, &attr);
	*ece = (struct ibv_ece){.vendor_id = attr.vendor_id};
}

/* In and out: what is accepted. The options of another vendor are none of ours. */
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	enum ibv_qp_state state = atomic_load(&real_qp(qp)->state);

	if (ece->comp_mask)
		return verb_result(
		    refuse(REASON_COMP_MASK, "ece->comp_mask is %#x", ece->comp_mask));
	if (state != IBV_QPS_RESET && state != IBV_QPS_INIT)
		return verb_result(
		    refuse(REASON_ECE_STATE, "QP %#x is in %s", qp->qp_num, qp_state_name(state)));
	own_options(qp, ece);
	return 0;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	own_options(qp, ece);
	return 0;
}

/* ---- order ---- */

/*
 * What a peer writes here: a QP takes its packets in order, and the copies ascend. Not so for one
 * of this host, which may copy to here itself; nor is what a completion tells of copied in order.
 */
static bool is_ordered(struct qp *qp)
{
	enum ibv_qp_state state = atomic_load(&qp->state);

	return memory_is_ordered() && (state == IBV_QPS_RTR || state == IBV_QPS_RTS) &&
	       !qp->adapter->host->is_near(qp);
}

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	const uint32_t known =
	    IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS | IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY;
	bool is = (op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_WRITE_WITH_IMM) &&
		  !(flags & ~known) && is_ordered(qp_of(qp));

	if (!(flags & IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS))
		return is;
	return is ? IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG |
			IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES
		  : 0;
}

void context_set_qp_option_ops(struct verbs_context *verbs)
{
	verbs->modify_qp_rate_limit = modify_qp_rate_limit;
}
