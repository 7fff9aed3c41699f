/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queues of a connection: its QP with the native operations that the device has, its CQs, and
 * the channel by which these wake. They are made with the request and go with the connection.
 */
#include "rpma/face.h"

enum {
	MAX_SGE_OF_QP = 1,
	MAX_INLINE_OF_QP = 8 /* an atomic write's, where it is an ordinary one */
};

static int qp_new(struct rpma_peer *peer, const struct rpma_conn_cfg *cfg,
		  const struct rpma_srq *srq, struct queues *queues)
{
	struct rpma_cq *rcq = srq && srq->rcq ? srq->rcq : queues->rcq ?: queues->cq;
	struct ibv_qp_init_attr_ex attr = {
	    .send_cq = queues->cq->cq,
	    .recv_cq = rcq->cq,
	    .srq = srq ? srq->srq : NULL,
	    .cap.max_send_wr = atomic_load(&cfg->sq_size),
	    .cap.max_recv_wr = atomic_load(&cfg->rq_size),
	    .cap.max_send_sge = MAX_SGE_OF_QP,
	    .cap.max_recv_sge = MAX_SGE_OF_QP,
	    .cap.max_inline_data = MAX_INLINE_OF_QP,
	    .qp_type = IBV_QPT_RC,
	    .comp_mask = IBV_QP_INIT_ATTR_PD,
	    .pd = peer->pd,
	};

	if (peer->has_flush)
		attr.send_ops_flags |= IBV_QP_EX_WITH_FLUSH;
	if (peer->has_atomic_write)
		attr.send_ops_flags |= IBV_QP_EX_WITH_ATOMIC_WRITE;
	if (attr.send_ops_flags)
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if (FAULT_MINUS(rdma_create_qp_ex(queues->id, &attr)))
		return REFUSE(RPMA_PROVIDER, "rdma_create_qp_ex(SQ %u, RQ %u)",
			      attr.cap.max_send_wr, attr.cap.max_recv_wr);
	return 0;
}

int queues_new(struct rpma_peer *peer, struct rdma_cm_id *id, const struct rpma_conn_cfg *cfg,
	       struct queues *queues)
{
	struct rpma_srq *srq = atomic_load(&cfg->srq);
	uint32_t rcq_size = srq && srq->rcq ? 0 : atomic_load(&cfg->rcq_size);
	int code;

	*queues = (struct queues){.id = id};
	if (atomic_load(&cfg->is_channel_shared)) {
		if (srq && srq->rcq)
			return REFUSE(RPMA_CHANNELS, "the SRQ's receive CQ");
		queues->channel = FAULT_NULL(ibv_create_comp_channel(id->verbs));
		if (!queues->channel)
			return REFUSE(RPMA_PROVIDER, "ibv_create_comp_channel()");
	}
	code = cq_new(id->verbs, atomic_load(&cfg->cq_size), queues->channel, &queues->cq);
	if (!code && rcq_size)
		code = cq_new(id->verbs, rcq_size, queues->channel, &queues->rcq);
	if (!code)
		code = qp_new(peer, cfg, srq, queues);
	if (!code) {
		/* (librdmacm lets flushes in with the connection, where the device has them) */
		queues->has_flush = peer->has_flush;
		queues->has_atomic_write = peer->has_atomic_write;
		return 0;
	}
	cq_delete(&queues->rcq);
	cq_delete(&queues->cq);
	if (queues->channel)
		ibv_destroy_comp_channel(queues->channel);
	return code;
}

int queues_delete(struct queues *queues)
{
	int error, code, cq_code;

	rdma_destroy_qp(queues->id);
	code = cq_delete(&queues->rcq);
	cq_code = cq_delete(&queues->cq);
	code = code ?: cq_code;
	error = queues->channel ? FAULT_END(ibv_destroy_comp_channel(queues->channel)) : 0;
	if (error)
		code = code ?: REFUSE_ERRNO(error, "ibv_destroy_comp_channel()");
	if (FAULT_END(rdma_destroy_id(queues->id)))
		code = code ?: REFUSE(RPMA_PROVIDER, "rdma_destroy_id()");
	return code;
}
