/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The express path between two QPs of a lane, where it is plainest: messages of one element, to a
 * receive of one element. What of it does not change from one message to the next was
 * asked before (express_terms()); what is not plain is left, unchanged, to express_execute().
 */
#include "base/hot.h"
#include "device/adapter.h"
#include "device/av.h"
#include "device/memory.h"
#include "device/mr.h"
#include "transport/completion.h"
#include "transport/express.h"
#include "transport/reach.h"
#include "transport/requester.h"
#include "transport/responder.h"

/* ---- what stays ---- */

static bool is_in(const struct qp *qp, enum ibv_qp_state state)
{
	return atomic_load_explicit(&qp->state, memory_order_relaxed) == state;
}

static bool counts(const struct qp *qp, enum ibv_qp_attach_comp_cntr_op op)
{
	return qp->counted & op;
}

unsigned int express_terms(const struct qp *qp, const struct qp *peer)
{
	unsigned int terms = 0;

	if (qp == peer || qp->type != IBV_QPT_RC || !is_in(qp, IBV_QPS_RTS) ||
	    qp->attr.rate_limit || !qp->sq.max_sge || !express_is_paired(qp, peer))
		return 0;
	if (express_receives(peer) && !counts(qp, IBV_QP_ATTACH_COMP_CNTR_OP_SEND))
		terms |= EXPRESS_MAY_SEND;
	if (!qp->adapter->host->reach)
		return terms;
	if (reach_is_open(peer, IBV_ACCESS_REMOTE_WRITE) &&
	    !counts(qp, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE))
		terms |= EXPRESS_MAY_WRITE;
	if (reach_is_open(peer, IBV_ACCESS_REMOTE_READ) && qp->attr.max_rd_atomic &&
	    !counts(qp, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ))
		terms |= EXPRESS_MAY_READ;
	return terms;
}

/* ---- each message ---- */

/* All that has left is acknowledged, and none of it waits; so the ring has nothing of it. */
static bool is_done(const struct requester *requester)
{
	return requester->una == requester->end && requester_is_quiet(requester);
}

/* Nor does the peer wait for anything: no program sees a reply before its request has completed. */
static bool is_idle(const struct qp *qp, const struct qp *peer)
{
	return is_done(qp->requester) && is_done(peer->requester) && !responder_has_work(qp) &&
	       qp->requester->current == qp->sq.next && express_has_room(&qp->sq);
}

static bool is_plain(const struct ibv_send_wr *wr)
{
	const unsigned int known = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;

	return wr->num_sge == 1 && !(wr->send_flags & ~known) && wr->sg_list->length &&
	       wr->sg_list->length <= EXPRESS_ONE_BYTES;
}

static bool is_told(const struct qp *qp, const struct ibv_send_wr *wr)
{
	return wr->send_flags & IBV_SEND_SIGNALED || qp->sq_sig_all;
}

void express_retire(struct qp *qp, const struct ibv_send_wr *wr, enum ibv_wc_opcode opcode,
		    uint32_t length, uint64_t now)
{
	struct send_queue *sq = &qp->sq;
	struct completion completion;

	qp->requester->current++;
	qp->requester->was_told = is_told(qp, wr);
	sq->next++;
	atomic_store_explicit(&sq->tail, sq->next, memory_order_release);
	atomic_store_explicit(&sq->head, sq->next, memory_order_release);
	if (!is_told(qp, wr))
		return;
	wc_fill(completion_begin(&completion, qp->send_cq, NULL, now), wr->wr_id, opcode, length,
		qp->number);
	completion_end(&completion, qp, qp->send_cq, false);
}

/* What would be more than a packet is none at all, as what inside.h does. */
void express_complete_send(struct qp *qp, const struct ibv_send_wr *wr, uint32_t length,
			   uint64_t now)
{
	struct requester *requester = qp->requester;

	requester->psn = requester->una = requester->end = psn_next(requester->end);
	if (length <= qp->mtu) {
		requester->counters.expressed++;
		requester->counters.sent_packets++;
		requester->counters.sent_bytes +=
		    express_packet_bytes(length, 1, wr->opcode == IBV_WR_SEND_WITH_IMM);
	} else {
		requester->counters.reached++;
	}
	express_retire(qp, wr, IBV_WC_SEND, length, now);
}

static void count(const struct qp *peer, const struct ibv_send_wr *wr)
{
	struct transport_counters *counters = &peer->requester->counters;
	uint32_t length = wr->sg_list->length;

	if (length > peer->mtu)
		return;
	counters->received_packets++;
	counters->received_bytes +=
	    express_packet_bytes(length, 1, wr->opcode == IBV_WR_SEND_WITH_IMM);
}

/* The receive completes. */
static void arrive(struct qp *peer, const struct ibv_send_wr *wr, uint64_t wr_id, uint64_t now)
{
	const struct express_arrival arrival = {
	    .wr_id = wr_id,
	    .length = wr->sg_list->length,
	    .last = peer->responder->psn,
	    .imm = wr->imm_data,
	    .has_imm = wr->opcode == IBV_WR_SEND_WITH_IMM,
	    .is_solicited = wr->send_flags & IBV_SEND_SOLICITED,
	};

	express_complete_receive(peer, &arrival, NULL, now);
}

static bool send(struct qp *qp, struct qp *peer, const struct ibv_send_wr *wr, uint64_t now)
{
	struct mr_memos *memos = &qp->adapter->mr_memos[qp->lane];
	uint32_t told = is_told(qp, wr);
	const struct ibv_sge *sge = wr->sg_list;
	struct express_receive receive;
	const char *here;

	if (!responder_awaits(peer->responder, qp->requester->end) ||
	    (told && !cq_has_room(qp->send_cq, 1)) ||
	    !cq_has_room(peer->recv_cq, qp->send_cq == peer->recv_cq ? told + 1 : 1))
		return false;
	here = mr_place(qp->adapter, &memos->sends, qp->pd, sge->lkey, sge->addr, sge->length, 0);
	if (!here || !express_find_receive(peer, sge->length, &receive))
		return false;
	if (memory_move(receive.place, here, sge->length)) {
		express_leave_receive(peer, &receive);
		return false;
	}
	count(peer, wr);
	express_complete_send(qp, wr, sge->length, now);
	arrive(peer, wr, receive.wr_id, now);
	return true;
}

static bool reach(struct qp *qp, struct qp *peer, const struct ibv_send_wr *wr, uint64_t now)
{
	bool is_read = wr->opcode == IBV_WR_RDMA_READ;
	struct mr_memos *memos = &qp->adapter->mr_memos[qp->lane];
	const struct ibv_sge *sge = wr->sg_list;
	char *here, *there;

	if (!cq_has_room(qp->send_cq, 1))
		return false;
	here = mr_place(qp->adapter, is_read ? &memos->receives : &memos->sends, qp->pd, sge->lkey,
			sge->addr, sge->length, is_read ? IBV_ACCESS_LOCAL_WRITE : 0);
	there = mr_remote_place(qp->adapter, &memos->reached, peer->pd, wr->wr.rdma.rkey,
				wr->wr.rdma.remote_addr, sge->length,
				is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
	if (!here || !there ||
	    memory_move(is_read ? here : there, is_read ? there : here, sge->length))
		return false;
	qp->requester->counters.reached++;
	express_retire(qp, wr, is_read ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE, sge->length, now);
	return true;
}

static bool execute(struct qp *qp, struct qp *peer, unsigned int terms,
		    const struct ibv_send_wr *wr, uint64_t now)
{
	if (!is_plain(wr) || !is_idle(qp, peer))
		return false;
	switch (wr->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return terms & EXPRESS_MAY_SEND && send(qp, peer, wr, now);
	case IBV_WR_RDMA_WRITE:
		return terms & EXPRESS_MAY_WRITE && reach(qp, peer, wr, now);
	case IBV_WR_RDMA_READ:
		return terms & EXPRESS_MAY_READ && reach(qp, peer, wr, now);
	default:
		return false;
	}
}

static unsigned long changes(const struct qp *qp)
{
	return atomic_load_explicit(&qp->adapter->qp_changes, memory_order_relaxed);
}

/* A completion too many ends a QP, and with it the terms. */
WHOLE struct ibv_send_wr *express_execute_plain(struct qp *qp, struct qp *peer, unsigned int terms,
						struct ibv_send_wr *wr, uint64_t now)
{
	unsigned long before = changes(qp);
	uint64_t bytes = 0;

	if (!sq_try_begin(qp))
		return wr;
	while (wr && bytes < EXPRESS_LIST_BYTES && changes(qp) == before &&
	       execute(qp, peer, terms, wr, now)) {
		bytes += wr->sg_list->length;
		wr = wr->next;
	}
	sq_commit(qp);
	return wr;
}
