/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receiver's half is the responder's own: the receive is taken and completed as for a message
 * of one packet, but for its length. A receive that was taken for nothing stays the responder's for
 * the message that now comes by packets.
 */
#include "device/av.h"
#include "device/port.h"
#include "device/srq.h"
#include "transport/inside.h"
#include "transport/reach.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "wire/opcode.h"

enum {
	FROM = 8192,	  /* less goes as fast by packets */
	UP_TO = 16 << 20, /* both lanes are held meanwhile */
};

bool inside_may(const struct qp *qp, const struct send_wqe *wqe)
{
	return qp->adapter->host->enter_peer && qp->type == IBV_QPT_RC &&
	       (wqe->opcode == IBV_WR_SEND || wqe->opcode == IBV_WR_SEND_WITH_IMM) &&
	       wqe->length >= FROM && wqe->length <= UP_TO && !wqe->is_inline &&
	       !qp->requester->has_credits && reach_is_free(qp, wqe);
}

/* What the checks of a packet on its way in come to, and that nothing is in progress. */
static bool takes(const struct qp *peer, const struct qp *qp)
{
	const struct responder *responder = peer->responder;
	enum ibv_qp_state state = atomic_load_explicit(&peer->state, memory_order_relaxed);

	return peer->type == IBV_QPT_RC && peer->has_communicated &&
	       (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD) &&
	       peer->attr.dest_qp_num == qp->number && gid_is_same(&peer->av.dgid, &qp->av.sgid) &&
	       gid_is_same(&peer->av.sgid, &qp->av.dgid) && pkey_is_match(peer->pkey, qp->pkey) &&
	       !(peer->srq && peer->srq->type == IBV_SRQT_TM) &&
	       responder->message == MESSAGE_NONE && !responder->is_fatal &&
	       responder->psn == qp->requester->psn;
}

static bool take_receive(struct arrival *arrival, uint64_t length)
{
	struct responder *responder = arrival->qp->responder;

	if (!responder->has_recv && receive_take(arrival) != PASS)
		return false;
	responder->has_recv = true;
	cursor_reset(&responder->scatter);
	return responder->recv.length >= length;
}

static bool copy(struct qp *peer, const struct iovec *pieces, uint32_t count)
{
	struct responder *responder = peer->responder;
	struct sge_list list = {peer->adapter, receive_pd(peer), responder->recv.sge,
				responder->recv.num_sge};
	uint64_t offset = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (payload_scatter(&list, &responder->scatter, offset, pieces[i].iov_base,
				    (uint32_t)pieces[i].iov_len))
			return false;
		offset += pieces[i].iov_len;
	}
	return true;
}

static bool hand_over(const struct qp *qp, const struct send_wqe *wqe, struct qp *peer,
		      uint64_t now)
{
	bool has_imm = wqe->opcode == IBV_WR_SEND_WITH_IMM;
	struct wire_packet wire = {
	    .op = opcode_get(TRANSPORT_RC | (has_imm ? OP_SEND_ONLY_IMM : OP_SEND_ONLY)),
	    .imm = be32toh(wqe->imm_data),
	    .bth.solicited = wqe->flags & IBV_SEND_SOLICITED,
	};
	struct arrival arrival = {.qp = peer, .wire = &wire, .now = now};
	struct reach_op op = {.length = wqe->length, .bytes = wqe->length};
	struct iovec pieces[MAX_SGE];

	if (!takes(peer, qp) || !reach_resolve(qp, wqe, &op, pieces, &op.count) ||
	    !take_receive(&arrival, wqe->length) || !copy(peer, pieces, op.count))
		return false;
	peer->responder->received = wqe->length;
	execute_end_of_message(&arrival);
	return true;
}

enum reach_result inside_run(struct qp *qp, struct send_wqe *wqe, uint64_t now, uint32_t *bytes)
{
	const struct adapter_host *host = qp->adapter->host;
	struct qp *peer = host->enter_peer(qp);
	bool is_done = false;

	if (peer) {
		is_done = hand_over(qp, wqe, peer, now);
		host->leave_peer(qp, peer);
	}
	if (!is_done) {
		wqe->flight |= WQE_BY_PACKETS;
		return REACH_REFUSED;
	}
	*bytes = reach_cost(wqe->length);
	reach_retire(qp, now);
	return REACH_DONE;
}
