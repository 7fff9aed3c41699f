/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The express path between two processes, where it is plainest: a message of one element and one
 * packet, to a receive of one element, and the ACK of such. What of it does not change from one
 * message to the next was asked before (express_may_leave(), express_may_arrive()); what is not
 * plain is left, unchanged, to express_post() and express_take().
 */
#include <string.h>

#include "device/adapter.h"
#include "device/av.h"
#include "device/memory.h"
#include "device/mr.h"
#include "transport/completion.h"
#include "transport/express.h"
#include "transport/requester.h"
#include "transport/responder.h"

/* ---- what stays ---- */

static enum ibv_qp_state state_of(const struct qp *qp)
{
	return atomic_load_explicit(&qp->state, memory_order_relaxed);
}

bool express_has_receives(const struct qp *qp)
{
	return (state_of(qp) == IBV_QPS_RTS || state_of(qp) == IBV_QPS_RTR) &&
	       (!qp->srq || qp->srq->type == IBV_SRQT_BASIC) && !qp->ledger &&
	       !(qp->counted & IBV_QP_ATTACH_COMP_CNTR_OP_RECV);
}

bool express_receives(const struct qp *qp)
{
	return express_has_receives(qp) && qp->has_communicated;
}

/* Without work requests of the adapter's own, as tag matching makes. */
bool express_may_leave(const struct qp *qp)
{
	return qp->type == IBV_QPT_RC && state_of(qp) == IBV_QPS_RTS && !qp->attr.rate_limit &&
	       qp->sq.max_sge && !qp->responder->waiting;
}

/* A full member hears all of its partition (10.9.3), and its own P_Key most of all. */
bool express_may_arrive(const struct qp *qp, const struct packet *packet)
{
	return qp->type == IBV_QPT_RC && express_receives(qp) &&
	       pkey_is_match(qp->pkey, qp->pkey) && responder_is_from_peer(qp, packet) &&
	       !(qp->counted & IBV_QP_ATTACH_COMP_CNTR_OP_SEND);
}

/* ---- what leaves ---- */

/* Nothing is to go again or waits, and what is owed goes along. */
static bool is_clear(const struct qp *qp)
{
	return requester_is_quiet(qp->requester) && qp->requester->current == qp->sq.next &&
	       (!responder_has_work(qp) || express_owes(qp->responder));
}

static bool is_plain(const struct qp *qp, const struct ibv_send_wr *wr)
{
	const unsigned int known = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

	return wr->num_sge == 1 && !(wr->send_flags & ~known) &&
	       (wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM) &&
	       wr->sg_list->length - 1 < qp->mtu && /* which none is */
	       (!(wr->send_flags & IBV_SEND_INLINE) || wr->sg_list->length <= qp->sq.max_inline);
}

static bool has_room(const struct qp *qp)
{
	const struct requester *requester = qp->requester;
	uint32_t under_way = requester->current - sq_head(qp);

	return under_way < EXPRESS_WINDOW && under_way < qp->sq.max_wr &&
	       psn_into(requester->end, requester->una) < EXPRESS_PSNS;
}

/* Inline data are read once, and stand in the queue from there on. */
static bool load(const struct qp *qp, const struct ibv_send_wr *wr, uint8_t *to)
{
	const struct ibv_sge *sge = wr->sg_list;
	const char *place = (const char *)(uintptr_t)sge->addr;

	if (wr->send_flags & IBV_SEND_INLINE) {
		struct send_wqe *wqe = sq_wqe(&qp->sq, qp->sq.next);

		if (memory_load(wqe->data, place, sge->length))
			return false;
		if (sge->length == sizeof(uint64_t)) /* as often, and then no call */
			memcpy(to, wqe->data, sizeof(uint64_t));
		else
			memcpy(to, wqe->data, sge->length);
		return true;
	}
	place = mr_place(qp->adapter, &qp->adapter->mr_memos[qp->lane].sends, qp->pd, sge->lkey,
			 sge->addr, sge->length, 0);
	return place && !memory_load(to, place, sge->length);
}

bool express_begin_plain(struct qp *qp)
{
	if (!sq_try_begin(qp))
		return false;
	if (is_clear(qp))
		return true;
	sq_abort(qp);
	return false;
}

size_t express_plain_size(const struct qp *qp, const struct ibv_send_wr *wr)
{
	return is_plain(qp, wr) && has_room(qp) ? sizeof(struct express) + wr->sg_list->length : 0;
}

bool express_write_plain(struct qp *qp, const struct ibv_send_wr *wr, struct express *express)
{
	if (!load(qp, wr, (uint8_t *)(express + 1)))
		return false;
	express_head(qp, wr->opcode, wr->send_flags, wr->imm_data, express);
	return true;
}

void express_keep_plain(struct qp *qp, const struct ibv_send_wr *wr)
{
	struct send_wqe *wqe = sq_wqe(&qp->sq, qp->sq.next);
	uint32_t length = wr->sg_list->length;

	express_keep(qp, wr, length, wqe);
	qp->sq.next++;
	express_sent(qp, wqe, length, 1);
}

/* ---- what is done from here ---- */

/* Nothing is in flight or waits, here or there: no program sees the reply before its request has
 * completed. */
bool express_begin_reach(struct qp *qp)
{
	if (!sq_try_begin(qp))
		return false;
	if (requester_is_quiet(qp->requester) && qp->requester->una == qp->requester->end &&
	    qp->requester->current == qp->sq.next && express_has_room(&qp->sq) &&
	    !responder_has_work(qp))
		return true;
	sq_abort(qp);
	return false;
}

/* In this direction, that is. */
static bool may_reach(const struct qp *qp, const struct ibv_send_wr *wr)
{
	if (wr->opcode == IBV_WR_RDMA_WRITE)
		return !(qp->counted & IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE) &&
		       (!(wr->send_flags & IBV_SEND_INLINE) ||
			wr->sg_list->length <= qp->sq.max_inline);
	return wr->opcode == IBV_WR_RDMA_READ && qp->attr.max_rd_atomic &&
	       !(wr->send_flags & IBV_SEND_INLINE) &&
	       !(qp->counted & IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ);
}

/* Inline data are looked at as a whole, before the first of them arrives. */
static void *place_here(const struct qp *qp, const struct ibv_send_wr *wr,
			struct express_reach *reach)
{
	struct mr_memos *memos = &qp->adapter->mr_memos[qp->lane];
	const struct ibv_sge *sge = wr->sg_list;

	if (wr->send_flags & IBV_SEND_INLINE)
		return memory_load(reach->data, (const char *)(uintptr_t)sge->addr, sge->length)
			   ? NULL
			   : reach->data;
	return mr_place(qp->adapter, reach->op.is_read ? &memos->receives : &memos->sends, qp->pd,
			sge->lkey, sge->addr, sge->length,
			reach->op.is_read ? IBV_ACCESS_LOCAL_WRITE : 0);
}

/* Its own state is asked each time: a completion too many, as others add to the CQ as well, may
 * have ended it behind the one before. */
bool express_find_reach(const struct qp *qp, const struct ibv_send_wr *wr,
			struct express_reach *reach)
{
	const unsigned int known =
	    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
	uint32_t length;

	if (state_of(qp) != IBV_QPS_RTS || wr->num_sge != 1 || wr->send_flags & ~known ||
	    !may_reach(qp, wr) || !cq_has_room(qp->send_cq, 1))
		return false;
	length = wr->sg_list->length;
	if (!length || length > EXPRESS_ONE_BYTES)
		return false;
	reach_begin(wr, &reach->op);
	reach->piece = (struct iovec){place_here(qp, wr, reach), length};
	reach->op.length = reach->op.bytes = length;
	reach->op.pieces = &reach->piece;
	reach->op.count = 1;
	return reach->piece.iov_base;
}

void express_end_reach(struct qp *qp, const struct ibv_send_wr *wr, uint64_t now)
{
	qp->requester->counters.reached++;
	express_retire(qp, wr,
		       wr->opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE,
		       wr->sg_list->length, now);
}

/* ---- what arrives ---- */

static const struct recv_wqe *next_receive(struct qp *qp, struct express_receive *receive)
{
	if (!qp->srq)
		return recv_queue_first(&qp->rq);
	return srq_take_single(qp->srq, &receive->taken) ? NULL : &receive->taken;
}

bool express_find_receive(struct qp *qp, uint32_t length, struct express_receive *receive)
{
	const struct recv_wqe *recv = next_receive(qp, receive);

	if (!recv)
		return false;
	receive->wr_id = recv->wr_id;
	receive->place = express_room_of(qp, recv, length);
	if (!receive->place)
		express_leave_receive(qp, receive);
	return receive->place;
}

void express_leave_receive(struct qp *qp, const struct express_receive *receive)
{
	if (qp->srq)
		responder_hold(qp->responder, &receive->taken);
}

char *express_room_of(struct qp *qp, const struct recv_wqe *recv, uint32_t length)
{
	const struct pd *pd = qp->srq ? qp->srq->pd : qp->pd;

	if (!recv->num_sge || recv->sge[0].length < length || recv->length < length)
		return NULL;
	return mr_place(qp->adapter, &qp->adapter->mr_memos[qp->lane].receives, pd,
			recv->sge[0].lkey, recv->sge[0].addr, length, IBV_ACCESS_LOCAL_WRITE);
}

void express_drop_receive(struct qp *qp)
{
	if (qp->srq)
		qp->responder->has_recv = false;
	else
		recv_queue_drop(&qp->rq);
}

void express_complete_receive(struct qp *qp, const struct express_arrival *arrival,
			      struct cq_taking *taking, uint64_t now)
{
	struct responder *responder = qp->responder;
	struct completion completion;
	struct ibv_wc *wc;

	express_drop_receive(qp);
	responder->psn = psn_next(arrival->last);
	responder->msn = (responder->msn + 1) & PSN_MASK;
	responder->has_acknowledged = true;
	wc = completion_begin(&completion, qp->recv_cq, taking, now);
	wc_fill_receive(wc, qp, arrival->wr_id, arrival->length);
	if (arrival->has_imm) {
		wc->imm_data = arrival->imm;
		wc->wc_flags = IBV_WC_WITH_IMM;
	}
	completion_end(&completion, qp, qp->recv_cq, arrival->is_solicited);
}

/* The next message, and the responder has nothing else in mind. */
static bool is_expected(const struct qp *qp, const struct express *express, uint32_t length)
{
	return length && length <= qp->mtu && length <= express->mtu &&
	       responder_awaits(qp->responder, express->psn) && cq_has_room(qp->recv_cq, 1);
}

static bool place(struct qp *qp, const struct express *express, const char *payload,
		  uint32_t length, struct express_receive *receive)
{
	if (!is_expected(qp, express, length) || !express_find_receive(qp, length, receive))
		return false;
	if (!memory_move(receive->place, payload, length))
		return true;
	express_leave_receive(qp, receive);
	return false;
}

static void take_message(struct qp *qp, const struct express *express, uint64_t wr_id,
			 uint32_t length, struct cq_taking *taking, uint64_t now)
{
	uint8_t flags = express_flags(express);
	const struct express_arrival arrival = {
	    .wr_id = wr_id,
	    .length = length,
	    .last = express->psn,
	    .imm = express->imm,
	    .has_imm = flags & EXPRESS_IMM,
	    .is_solicited = flags & EXPRESS_SOLICITED,
	};

	express_owe(qp, express->psn);
	express_complete_receive(qp, &arrival, taking, now);
}

bool express_arrive(struct qp *qp, const struct express *express, const struct packet *packet,
		    struct cq_taking *taking, uint64_t now)
{
	const char *payload = (const char *)packet->bth + sizeof(*express);
	uint32_t length = (uint32_t)(packet->length - sizeof(*express));
	bool is_message = express_flags(express) & EXPRESS_MESSAGE;
	bool is_ack = express_flags(express) & EXPRESS_ACK;
	struct express_receive receive;

	if (express->pkey != qp->pkey || (is_ack && !express_can_acknowledge(qp, express->ack)) ||
	    (is_message && !place(qp, express, payload, length, &receive)))
		return false;
	express_count(qp, express, length, 1);
	if (is_ack) {
		if (is_message) /* to be flushed, should the QP end here */
			express_leave_receive(qp, &receive);
		express_acknowledged(qp, express->ack, taking, now);
	}
	/* a completion too many may have ended the QP */
	if (is_message && state_of(qp) != IBV_QPS_ERR)
		take_message(qp, express, receive.wr_id, length, taking, now);
	return true;
}
