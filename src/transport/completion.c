/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completions: what a work request comes to. Each is reported once and in order; a success that
 * nobody asked to hear of only makes room in the send queue.
 */
#include "device/cq.h"
#include "transport/completion.h"
#include "transport/requester.h"
#include "transport/responder.h"

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_FLUSH:
		return IBV_WC_FLUSH;
	case IBV_WR_ATOMIC_WRITE:
		return IBV_WC_ATOMIC_WRITE;
	default:
		return IBV_WC_SEND;
	}
}

/* A full CQ is in error, and so are the QPs that it lost a completion of (11.6.3.1). */
void push_completion(struct qp *qp, struct cq *cq, const struct cqe *cqe, bool is_solicited)
{
	if (!cq_push_cqe(cq, cqe, is_solicited))
		return;
	if (atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_ERR)
		return;
	refuse_wr(REASON_COMPLETION_LOST, "QP 0x%x, wr_id 0x%llx", qp->number,
		  (unsigned long long)cqe->wc.wr_id);
	qp_event(qp, IBV_EVENT_QP_FATAL);
	qp_enter_error(qp, cqe->timestamp);
}

static enum ibv_qp_attach_comp_cntr_op counted_as(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		return IBV_QP_ATTACH_COMP_CNTR_OP_SEND;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ;
	default:
		return 0;
	}
}

void send_complete(struct qp *qp, const struct send_wqe *wqe, enum ibv_wc_status status,
		   enum reason reason, uint64_t now)
{
	enum ibv_qp_attach_comp_cntr_op counted = counted_as(wqe->opcode);
	bool is_told = status != IBV_WC_SUCCESS || (wqe->flags & IBV_SEND_SIGNALED);
	struct cqe cqe;

	if (wqe->flight & WQE_OWN) {
		tag_own_done(qp, wqe, status, reason, now);
		return;
	}
	if (qp->counted & counted)
		comp_cntr_count(qp, counted, status == IBV_WC_SUCCESS, wqe->length);
	if (is_told)
		cqe = (struct cqe){
		    .wc = {.wr_id = wqe->wr_id,
			   .status = status,
			   .opcode = wc_opcode(wqe->opcode),
			   .vendor_err = reason,
			   .byte_len = wqe->length,
			   .qp_num = qp->number},
		    .timestamp = now,
		};
	qp->requester->was_told = is_told; /* from then on the WQE is the next one's */
	atomic_store_explicit(&qp->sq.head, sq_head(qp) + 1, memory_order_release);
	if (is_told)
		push_completion(qp, qp->send_cq, &cqe, false);
}

void recv_complete(struct qp *qp, struct ibv_wc *wc, bool is_solicited, uint64_t now)
{
	struct cq *cq = receive_cq(qp);
	struct cqe cqe = {.wc = *wc, .timestamp = now};

	cqe.wc.wr_id = qp->responder->recv.wr_id;
	cqe.wc.qp_num = qp->number;
	tag_complete(qp, &cqe);
	comp_cntr_count(qp, IBV_QP_ATTACH_COMP_CNTR_OP_RECV, wc->status == IBV_WC_SUCCESS,
			wc->byte_len);
	qp->responder->has_recv = false;
	if (cq)
		push_completion(qp, cq, &cqe, is_solicited);
}

void recv_complete_error(struct qp *qp, enum ibv_wc_status status, enum reason reason, uint64_t now)
{
	struct ibv_wc wc = {.status = status, .opcode = IBV_WC_RECV, .vendor_err = reason};

	recv_complete(qp, &wc, true, now);
}

void flush_send(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;

	while (sq_head(qp) != sq_tail(qp))
		send_complete(qp, sq_wqe(&qp->sq, sq_head(qp)), IBV_WC_WR_FLUSH_ERR,
			      REASON_SEND_FLUSHED, now);
	requester->current = sq_head(qp);
	requester->una = requester->psn = requester->end;
	requester->rd_count = requester->rd_sent = 0;
	requester->has_failed = false;
	requester->ack_deadline = requester->rnr_deadline = NO_DEADLINE;
	requester->rate_deadline = NO_DEADLINE;
	probe_drop(qp, now);
}

/* Of a shared queue only the one that was taken: the others belong to all (10.2.9.3). */
void flush_recv(struct qp *qp, uint64_t now)
{
	struct responder *responder = qp->responder;

	if (responder->waiting_count)
		tag_flush(qp, now);
	if (responder->has_recv)
		recv_complete_error(qp, IBV_WC_WR_FLUSH_ERR, REASON_RECV_FLUSHED, now);
	while (!qp->srq && qp_take_recv(qp, &responder->recv) == 0)
		recv_complete_error(qp, IBV_WC_WR_FLUSH_ERR, REASON_RECV_FLUSHED, now);
}
