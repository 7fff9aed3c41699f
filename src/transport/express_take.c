/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receiving end of the express path. First everything is looked at: the QP, what is
 * acknowledged, the receive work request and its keys. Then the payload goes to its place; then the
 * ACK is taken, for no program may see a reply before its request has completed; and last the
 * receive completes.
 */
#include "base/hot.h"
#include "device/access.h"
#include "device/adapter.h"
#include "device/av.h"
#include "device/limits.h"
#include "device/memory.h"
#include "device/mr.h"
#include "transport/completion.h"
#include "transport/express.h"
#include "transport/reach.h"
#include "transport/requester.h"
#include "transport/responder.h"

/* Where the message goes. */
struct target {
	const struct recv_wqe *recv;
	uint64_t wr_id;
	uint32_t count;
	struct {
		char *place;
		uint32_t length;
	} pieces[EXPRESS_SGE];
	union {
		struct recv_wqe taken; /* from an SRQ */
		char taken_room[sizeof(struct recv_wqe) + MAX_SGE * sizeof(struct ibv_sge)];
	};
};

/* As far as it is looked at before it is known: clearing the pieces takes longer than all else of a
 * message that has one. */
static void clear(struct target *target)
{
	target->recv = NULL;
	target->wr_id = 0;
	target->count = 0;
}

static bool is_receiving(const struct qp *qp)
{
	enum ibv_qp_state state = atomic_load_explicit(&qp->state, memory_order_relaxed);

	return state == IBV_QPS_RTS || state == IBV_QPS_RTR;
}

static bool is_sending(const struct qp *qp)
{
	return atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_RTS;
}

/* As of a packet (9.6.1). */
static bool is_between(const struct qp *qp, const union ibv_gid *sgid, const union ibv_gid *dgid,
		       uint16_t pkey)
{
	return qp->type == IBV_QPT_RC && pkey_is_match(pkey, qp->pkey) &&
	       gid_is_same(sgid, &qp->av.dgid) && gid_is_same(dgid, &qp->av.sgid);
}

bool express_is_paired(const struct qp *qp, const struct qp *peer)
{
	return peer->attr.dest_qp_num == qp->number &&
	       is_between(peer, &qp->av.sgid, &qp->av.dgid, qp->pkey);
}

/* And no event of it is due. */
static bool is_welcome(const struct qp *qp, const union ibv_gid *sgid, const union ibv_gid *dgid,
		       uint16_t pkey)
{
	return is_receiving(qp) && is_between(qp, sgid, dgid, pkey) && qp->has_communicated;
}

/* It is for something in flight, of which nothing is answered with data, and all of it completes.
 */
bool express_can_acknowledge(const struct qp *qp, uint32_t psn)
{
	const struct requester *requester = qp->requester;
	uint32_t psns = psn_into(psn, requester->una) + 1;
	uint32_t most = requester->current - sq_head(qp);

	return psns <= psn_into(requester->end, requester->una) && requester_is_alive(qp) &&
	       requester->psn == requester->end && !requester->rd_count && !requester->has_failed &&
	       !requester->recovery && !requester->responses &&
	       cq_has_room(qp->send_cq, psns < most ? psns : most);
}

void express_acknowledged(struct qp *qp, uint32_t psn, struct cq_taking *taking, uint64_t now)
{
	struct requester *requester = qp->requester;

	completer_acknowledge_sent(qp, psn & PSN_MASK, taking, now);
	requester->ack_deadline = NO_DEADLINE;
	requester->is_untimed = requester->una != requester->end;
}

/* The next message, and the responder has nothing else in mind. */
static bool is_expected(const struct qp *qp, const struct express *express)
{
	return responder_awaits(qp->responder, express->psn) && !qp->ledger &&
	       !(qp->counted & IBV_QP_ATTACH_COMP_CNTR_OP_RECV) && cq_has_room(qp->recv_cq, 1);
}

/* The receive work request. Of an SRQ it is taken at once, for others take from it as well. */
static const struct recv_wqe *find_receive(struct qp *qp, struct target *target)
{
	if (!qp->srq)
		return recv_queue_first(&qp->rq);
	if (qp->srq->type != IBV_SRQT_BASIC || srq_take(qp->srq, &target->taken))
		return NULL;
	return &target->taken;
}

/* What was taken is the responder's from then on, as if the message had begun. A message that has
 * its end here does without: those are two cache lines of each QP. */
static void hold_receive(struct qp *qp, const struct target *target)
{
	if (target->recv == &target->taken && !qp->responder->has_recv)
		responder_hold(qp->responder, &target->taken);
}

/* Its elements, as far as the message reaches. */
static bool resolve(const struct qp *qp, const struct recv_wqe *recv, uint32_t length,
		    struct target *target)
{
	struct mr_memo *memo = &qp->adapter->mr_memos[qp->lane].receives;
	const struct pd *pd = qp->srq ? qp->srq->pd : qp->pd;

	target->recv = recv;
	target->wr_id = recv->wr_id;
	target->count = 0;
	if (recv->length < length)
		return false;
	for (uint32_t i = 0; length; i++) {
		const struct ibv_sge *sge = &recv->sge[i];
		uint32_t piece = length < sge->length ? length : sge->length;
		char *place;

		if (i >= EXPRESS_SGE)
			return false;
		if (!piece)
			continue;
		place = mr_place(qp->adapter, memo, pd, sge->lkey, sge->addr, piece,
				 IBV_ACCESS_LOCAL_WRITE);
		if (!place)
			return false;
		target->pieces[target->count].place = place;
		target->pieces[target->count++].length = piece;
		length -= piece;
	}
	return true;
}

static bool store(const struct target *target, const uint8_t *from)
{
	for (uint32_t i = 0; i < target->count; i++) {
		if (memory_move(target->pieces[i].place, (const char *)from,
				target->pieces[i].length))
			return false;
		from += target->pieces[i].length;
	}
	return true;
}

void express_owe(struct qp *qp, uint32_t psn)
{
	struct responder *responder = qp->responder;

	responder->is_owed = true;
	responder->syndrome = AETH_ACK | AETH_CREDIT_NONE;
	responder->answer_psn = psn;
}

/* `last` is its last PSN. */
static void complete(struct qp *qp, const struct express *express, const struct target *target,
		     uint32_t length, uint32_t last, uint64_t now)
{
	uint8_t flags = express_flags(express);
	const struct express_arrival arrival = {
	    .wr_id = target->wr_id,
	    .length = length,
	    .last = last,
	    .imm = express->imm,
	    .has_imm = flags & EXPRESS_IMM,
	    .is_solicited = flags & EXPRESS_SOLICITED,
	};

	express_complete_receive(qp, &arrival, NULL, now);
}

static void count_ack(const struct qp *qp)
{
	struct transport_counters *counters = &qp->requester->counters;

	counters->received_packets++;
	counters->received_bytes += opcode_get(OP_ACKNOWLEDGE)->header_bytes;
}

void express_count(struct qp *qp, const struct express *express, uint32_t length, uint32_t packets)
{
	struct transport_counters *counters = &qp->requester->counters;
	uint8_t flags = express_flags(express);

	if (flags & EXPRESS_MESSAGE) {
		counters->received_packets += packets;
		counters->received_bytes +=
		    express_packet_bytes(length, packets, flags & EXPRESS_IMM);
	}
	if (flags & EXPRESS_ACK)
		count_ack(qp);
}

WHOLE bool express_take_ack(struct qp *qp, const struct packet *packet, uint16_t pkey, uint32_t psn,
			    struct cq_taking *taking, uint64_t now)
{
	if (!is_welcome(qp, &packet->sgid, &packet->dgid, pkey))
		return false;
	if (!is_sending(qp) || !completer_acknowledge_single(qp, psn, taking, now)) {
		if (!express_can_acknowledge(qp, psn))
			return false;
		express_acknowledged(qp, psn, taking, now);
	}
	count_ack(qp);
	return true;
}

static bool has_target(struct qp *qp, const struct express *express, uint32_t length,
		       struct target *target)
{
	const struct recv_wqe *recv;

	if (!is_expected(qp, express))
		return false;
	recv = find_receive(qp, target);
	if (recv && resolve(qp, recv, length, target))
		return true;
	hold_receive(qp, target);
	return false;
}

static bool fill(struct qp *qp, const struct target *target, const uint8_t *payload)
{
	if (store(target, payload))
		return true;
	hold_receive(qp, target);
	return false;
}

static bool is_packet(const struct qp *qp, uint64_t length)
{
	return length <= qp->mtu;
}

/* Both ends cut it into the same packets. */
static bool is_cut_alike(const struct qp *qp, const struct express *express, uint32_t length)
{
	return length <= EXPRESS_BYTES &&
	       (express->mtu == qp->mtu || (length <= express->mtu && length <= qp->mtu));
}

bool express_take_packet(struct qp *qp, const struct packet *packet, const struct express *express,
			 const uint8_t *payload, uint32_t length, uint64_t now)
{
	bool has_ack = express_flags(express) & EXPRESS_ACK;
	struct target target;

	clear(&target);
	if (!is_welcome(qp, &packet->sgid, &packet->dgid, express->pkey) ||
	    (has_ack && !express_can_acknowledge(qp, express->ack)) || !is_packet(qp, length) ||
	    !has_target(qp, express, length, &target) || !fill(qp, &target, payload))
		return false;
	qp->av.is_doubted = false;
	express_count(qp, express, length, 1);
	if (has_ack) {
		hold_receive(qp, &target); /* to be flushed, should the QP end here */
		completer_acknowledge(qp, express->ack, now);
		if (!is_receiving(qp))
			return true;
	}
	express_owe(qp, express->psn);
	complete(qp, express, &target, length, express->psn, now);
	return true;
}

bool express_take_packet_ack(struct qp *qp, const struct packet *packet,
			     const struct express *express, uint64_t now)
{
	if (!is_welcome(qp, &packet->sgid, &packet->dgid, express->pkey) ||
	    !express_can_acknowledge(qp, express->psn))
		return false;
	count_ack(qp);
	completer_acknowledge(qp, express->psn, now);
	return true;
}

WHOLE bool express_take(struct qp *qp, const struct packet *packet, const struct express *express,
			uint64_t now)
{
	const uint8_t *payload = packet->bth + sizeof(*express);
	uint32_t length = (uint32_t)(packet->length - sizeof(*express));
	uint8_t flags = express_flags(express);
	uint32_t packets, last;
	struct target target;

	clear(&target);
	if (!is_welcome(qp, &packet->sgid, &packet->dgid, express->pkey))
		return false;
	packets = express_packets(length, qp->mtu); /* which it has from RTR on */
	last = psn_add(express->psn, (int32_t)packets - 1);
	if (flags & EXPRESS_ACK && !express_can_acknowledge(qp, express->ack))
		return false;
	if (flags & EXPRESS_MESSAGE &&
	    (!is_cut_alike(qp, express, length) || !has_target(qp, express, length, &target) ||
	     !fill(qp, &target, payload)))
		return false;
	express_count(qp, express, length, packets);
	if (flags & EXPRESS_ACK) {
		hold_receive(qp, &target); /* to be flushed, should the QP end here */
		express_acknowledged(qp, express->ack, cq_take_own(), now);
	}
	/* a completion too many may have ended the QP */
	if (flags & EXPRESS_MESSAGE && is_receiving(qp)) {
		express_owe(qp, last);
		complete(qp, express, &target, length, last, now);
	}
	return true;
}

/* ---- within a process ---- */

/* Nothing is under way, and nothing is queued. */
static bool is_idle(const struct qp *qp)
{
	return express_is_free(qp) && express_has_room(&qp->sq) &&
	       qp->requester->una == qp->requester->end;
}

/* Nor does the peer wait for anything: no program sees a reply before its request has completed. */
static bool is_direct(const struct qp *qp, const struct qp *peer, const struct ibv_send_wr *wr)
{
	bool is_told = wr->send_flags & IBV_SEND_SIGNALED || qp->sq_sig_all;

	return is_idle(qp) && !responder_has_work(qp) &&
	       !(qp->counted & IBV_QP_ATTACH_COMP_CNTR_OP_SEND) &&
	       (!is_told || cq_has_room(qp->send_cq, qp->send_cq == peer->recv_cq ? 2 : 1)) &&
	       is_welcome(peer, &qp->av.sgid, &qp->av.dgid, qp->pkey);
}

/* Where it is here, and its length: of a WRITE, READ or SEND. */
static bool find_pieces(const struct qp *qp, const struct ibv_send_wr *wr, struct reach_op *op,
			struct iovec *pieces)
{
	struct mr_memos *memos = &qp->adapter->mr_memos[qp->lane];
	struct mr_memo *memo = op->is_read ? &memos->receives : &memos->sends;
	unsigned int need = op->is_read ? IBV_ACCESS_LOCAL_WRITE : 0;
	uint64_t length = 0;
	uint32_t count = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];
		char *place;

		if (!sge->length)
			continue;
		place =
		    mr_place(qp->adapter, memo, qp->pd, sge->lkey, sge->addr, sge->length, need);
		if (!place)
			return false;
		pieces[count].iov_base = place;
		pieces[count++].iov_len = sge->length;
		length += sge->length;
	}
	op->count = count;
	op->length = length;
	return true;
}

/* Inline data are looked at as a whole, before the first of them arrives. */
static bool load_inline(const struct qp *qp, const struct ibv_send_wr *wr, struct reach_op *op,
			struct iovec *pieces, uint8_t *data)
{
	for (int i = 0; i < wr->num_sge; i++)
		op->length += wr->sg_list[i].length;
	op->count = 1;
	pieces[0] = (struct iovec){data, op->length};
	return op->length <= MAX_INLINE && op->length <= qp->sq.max_inline &&
	       express_gather(qp, wr, data);
}

/* As long as what a verb does at once may be. */
static bool find(const struct qp *qp, const struct ibv_send_wr *wr, uint64_t up_to,
		 struct reach_op *op, struct iovec *pieces, uint8_t *data)
{
	return (wr->send_flags & IBV_SEND_INLINE ? load_inline(qp, wr, op, pieces, data)
						 : find_pieces(qp, wr, op, pieces)) &&
	       op->length <= up_to;
}

/* From place to place. */
static bool move(const struct target *target, const struct iovec *from)
{
	size_t into = 0;

	for (uint32_t i = 0; i < target->count; i++) {
		char *to = target->pieces[i].place;
		size_t left = target->pieces[i].length, piece;

		for (; left; left -= piece, to += piece) {
			piece = from->iov_len - into < left ? from->iov_len - into : left;
			if (memory_move(to, (const char *)from->iov_base + into, piece))
				return false;
			into += piece;
			if (into == from->iov_len) {
				from++;
				into = 0;
			}
		}
	}
	return true;
}

static bool arrive(struct qp *peer, const struct target *target, const struct iovec *pieces)
{
	if (move(target, pieces))
		return true;
	hold_receive(peer, target);
	return false;
}

static bool execute(struct qp *qp, struct qp *peer, const struct ibv_send_wr *wr, uint64_t now,
		    uint64_t *bytes)
{
	uint8_t data[MAX_INLINE], flags = EXPRESS_MESSAGE;
	struct express express = {.psn = qp->requester->end, .imm = wr->imm_data};
	struct iovec pieces[EXPRESS_SGE];
	struct target target;
	struct reach_op op = {0};
	uint32_t length;

	clear(&target);
	if (!express_is_kind(qp, wr) || !is_direct(qp, peer, wr) ||
	    !find(qp, wr, EXPRESS_ONE_BYTES, &op, pieces, data) ||
	    !has_target(peer, &express, (uint32_t)op.length, &target) ||
	    !arrive(peer, &target, pieces))
		return false;
	length = (uint32_t)op.length;
	flags |= wr->opcode == IBV_WR_SEND_WITH_IMM ? EXPRESS_IMM : 0;
	flags |= wr->send_flags & IBV_SEND_SOLICITED ? EXPRESS_SOLICITED : 0;
	express.to = (uint32_t)flags << 24;
	if (is_packet(qp, length))
		express_count(peer, &express, length, 1);
	express_complete_send(qp, wr, length, now);
	complete(peer, &express, &target, length, express.psn, now);
	*bytes += length;
	return true;
}

/* A WRITE or READ that is fit to be done as reach.h says, at once. */
static bool is_reach(const struct qp *qp, const struct ibv_send_wr *wr, struct reach_op *op)
{
	const unsigned int known =
	    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
	unsigned int counted = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE;

	if (wr->opcode == IBV_WR_RDMA_READ)
		counted = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ;
	else if (wr->opcode != IBV_WR_RDMA_WRITE)
		return false;
	if (wr->send_flags & ~known || wr->num_sge < 1 || wr->num_sge > EXPRESS_SGE ||
	    (uint32_t)wr->num_sge > qp->sq.max_sge || !qp->adapter->host->reach || !is_idle(qp) ||
	    qp->counted & counted || !cq_has_room(qp->send_cq, 1))
		return false;
	reach_begin(wr, op);
	return !op->is_read || (qp->attr.max_rd_atomic && !(wr->send_flags & IBV_SEND_INLINE));
}

/* The order is that of the list; the end of a WRITE comes last. */
static bool move_at(const struct reach_op *op, char *at)
{
	for (uint32_t i = 0; i < op->count; i++) {
		char *here = op->pieces[i].iov_base;
		size_t length = op->pieces[i].iov_len;

		if (op->is_read ? memory_move(here, at, length) : memory_move(at, here, length))
			return false;
		at += length;
	}
	return true;
}

/* In the peer's memory, with its lane's lock: so the directory, which others look at, need not be
 * asked. What it would say is the same. */
static bool access_peer(const struct qp *qp, const struct qp *peer, const struct reach_op *op)
{
	unsigned int need = op->is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	struct access access;
	bool is_done;

	if (!reach_is_open(peer, need) || !express_is_paired(qp, peer) ||
	    access_begin(peer, peer->pd, op->rkey, op->remote_addr, op->length, need, &access))
		return false;
	is_done = access.place && move_at(op, access.place);
	access_end(&access);
	return is_done;
}

/* `peer` is NULL where that is of another process. */
static bool reach(struct qp *qp, struct qp *peer, const struct ibv_send_wr *wr, uint64_t now,
		  uint64_t *bytes)
{
	struct iovec pieces[EXPRESS_SGE];
	uint8_t data[MAX_INLINE];
	struct reach_op op;

	if (!is_reach(qp, wr, &op) || !find(qp, wr, EXPRESS_ONE_BYTES, &op, pieces, data) ||
	    !op.length)
		return false;
	op.bytes = op.length;
	op.pieces = pieces;
	if (peer ? !access_peer(qp, peer, &op) : qp->adapter->host->reach(qp, &op) != REACH_DONE)
		return false;
	qp->requester->counters.reached++;
	express_retire(qp, wr, op.is_read ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE,
		       (uint32_t)op.length, now);
	*bytes += op.length;
	return true;
}

WHOLE struct ibv_send_wr *express_execute(struct qp *qp, struct qp *peer, struct ibv_send_wr *wr,
					  uint64_t now)
{
	uint64_t bytes = 0;

	if (!sq_try_begin(qp))
		return wr;
	while (wr && bytes < EXPRESS_LIST_BYTES &&
	       (execute(qp, peer, wr, now, &bytes) || reach(qp, peer, wr, now, &bytes)))
		wr = wr->next;
	sq_commit(qp);
	return wr;
}

/* No program sees the reply before its request has completed. */
ASIDE static bool answer(struct qp *qp, struct outbox *outbox)
{
	return is_idle(qp) && express_acknowledge(qp, outbox);
}

WHOLE struct ibv_send_wr *express_reach(struct qp *qp, struct ibv_send_wr *wr, uint64_t now,
					struct outbox *outbox, bool *has_answered)
{
	uint64_t bytes = 0;

	*has_answered = false;
	if (!sq_try_begin(qp))
		return wr;
	if (responder_has_work(qp))
		*has_answered = answer(qp, outbox);
	if (*has_answered || !responder_has_work(qp))
		while (wr && bytes < EXPRESS_LIST_BYTES && reach(qp, NULL, wr, now, &bytes))
			wr = wr->next;
	sq_commit(qp);
	return wr;
}
