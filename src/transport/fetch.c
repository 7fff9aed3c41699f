/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an offer says, the checks that its packets would have found, and the copies.
 */
#include "device/adapter.h"
#include "device/srq.h"
#include "transport/fetch.h"
#include "transport/offer.h"
#include "transport/reach.h"
#include "wire/offer.h"
#include "wire/opcode.h"

enum { LATER_NS = 200000 };

static uint8_t operation_of(uint8_t flags)
{
	switch (flags & (OFFER_STARTS | OFFER_ENDS)) {
	case OFFER_STARTS:
		return OP_SEND_FIRST;
	case OFFER_ENDS:
		return flags & OFFER_HAS_IMM ? OP_SEND_LAST_IMM : OP_SEND_LAST;
	case OFFER_STARTS | OFFER_ENDS:
		return flags & OFFER_HAS_IMM ? OP_SEND_ONLY_IMM : OP_SEND_ONLY;
	default:
		return OP_SEND_MIDDLE;
	}
}

/* Of the packets that an offer stands for. */
static uint32_t last_psn(const struct qp *qp, uint32_t first, uint64_t bytes)
{
	return psn_add(first, (uint32_t)((bytes - 1) / qp->mtu));
}

/* False where packets would say what is wrong with it, or nobody makes such an offer. */
static bool read_offer(const struct arrival *arrival, struct fetch *fetch)
{
	const struct wire_packet *wire = arrival->wire;
	uint32_t mtu = arrival->qp->mtu;
	struct offer_head head;

	if (!offer_unpack(&head, wire->payload, wire->payload_length) || !head.pieces ||
	    head.pieces > MAX_SGE)
		return false;
	for (uint32_t i = 0; i < head.pieces; i++) {
		reth_unpack(&fetch->pieces[i], wire->payload + offer_size(i));
		if (!fetch->pieces[i].length)
			return false;
		fetch->bytes += fetch->pieces[i].length;
	}
	if (fetch->bytes > OFFER_PART || (!(head.flags & OFFER_ENDS) && fetch->bytes % mtu))
		return false;
	fetch->count = head.pieces;
	fetch->wire.bth = wire->bth;
	fetch->wire.bth.opcode = TRANSPORT_RC | operation_of(head.flags);
	fetch->wire.bth.psn = last_psn(arrival->qp, wire->bth.psn, fetch->bytes);
	fetch->wire.op = opcode_get(fetch->wire.bth.opcode);
	fetch->wire.imm = head.imm;
	return true;
}

static bool matches_tags(const struct qp *qp)
{
	return qp->srq && qp->srq->type == IBV_SRQT_TM;
}

/* What the pipeline checks of a SEND, of all of its packets at once. */
static enum verdict check(struct arrival *arrival, const struct fetch *fetch)
{
	struct responder *responder = arrival->qp->responder;
	bool starts = message_starts(arrival->wire);
	uint64_t length = (starts ? 0 : responder->received) + fetch->bytes;
	enum verdict verdict;

	if (starts ? responder->message != MESSAGE_NONE : responder->message != MESSAGE_SEND)
		return DECLINED;
	if (length > MAX_MESSAGE_SIZE || matches_tags(arrival->qp))
		return DECLINED;
	verdict = check_receive(arrival);
	if (verdict != PASS)
		return verdict == NOT_READY ? NOT_READY : DECLINED;
	if (length > responder->recv.length)
		return DECLINED;
	if (starts)
		responder->received = 0;
	return PASS;
}

/* ---- what is offered behind it ---- */

/* Of the packets behind this one: a whole message in one piece, right behind `psn`. */
static bool read_behind(struct qp *qp, uint32_t next, uint32_t psn, struct reach_behind *behind)
{
	const unsigned int whole = OFFER_STARTS | OFFER_ENDS;
	struct wire_packet wire;
	struct offer_head head;
	const uint8_t *bytes;
	struct reth reth;
	size_t length;

	bytes = qp->adapter->host->behind(qp, next, &length);
	if (!bytes || wire_parse(&wire, bytes, length) != PARSE_OK ||
	    !(wire.op->flags & OPF_OFFER) || wire.bth.dest_qp != qp->number ||
	    wire.bth.psn != psn_next(psn) ||
	    !offer_unpack(&head, wire.payload, wire.payload_length) || head.pieces != 1 ||
	    (head.flags & whole) != whole)
		return false;
	reth_unpack(&reth, wire.payload + offer_size(0));
	if (!reth.length || reth.length > OFFER_PART)
		return false;
	*behind = (struct reach_behind){
	    .rkey = reth.rkey,
	    .psn = last_psn(qp, wire.bth.psn, reth.length),
	    .remote_addr = reth.va,
	    .length = reth.length,
	};
	return true;
}

/* Where its receive has it, in one piece. */
static bool place_behind(struct qp *qp, uint32_t next, struct reach_behind *behind)
{
	const struct recv_wqe *recv;
	struct iovec pieces[MAX_SGE];
	struct sge_list list;
	uint32_t count;

	if (next >= recv_queue_count(&qp->rq))
		return false;
	recv = recv_queue_at(&qp->rq, next);
	list = (struct sge_list){qp->adapter, receive_pd(qp), recv->sge, recv->num_sge};
	if (!payload_find(&list, IBV_ACCESS_LOCAL_WRITE, 0, behind->length, pieces, &count) ||
	    count != 1)
		return false;
	behind->here = pieces[0].iov_base;
	return true;
}

/* What the host may do with it: all is checked when it is at the head. */
static uint32_t look_behind(const struct reach_op *op, struct reach_behind *found, uint32_t room)
{
	struct qp *qp = ((const struct arrival *)op->context)->qp;
	uint32_t psn = op->psn, count = 0;

	for (; count < room && read_behind(qp, count, psn, &found[count]) &&
	       place_behind(qp, count, &found[count]);
	     count++)
		psn = found[count].psn;
	return count;
}

/* Receives are the QP's own then, whose next ones they are for sure. */
static bool may_look_behind(const struct qp *qp, const struct fetch *fetch)
{
	return qp->adapter->host->behind && !qp->srq && fetch->count == 1;
}

/* ---- the copies ---- */

static enum reach_result fetch_piece(const struct arrival *arrival, const struct fetch *fetch,
				     bool is_first)
{
	struct qp *qp = arrival->qp;
	struct responder *responder = qp->responder;
	const struct reth *piece = &fetch->pieces[fetch->next];
	struct sge_list list = {qp->adapter, receive_pd(qp), responder->recv.sge,
				responder->recv.num_sge};
	struct iovec pieces[MAX_SGE];
	struct reach_op op = {
	    .is_read = true,
	    .is_fetch = true,
	    .rkey = piece->rkey,
	    .remote_addr = piece->va,
	    .length = piece->length,
	    .bytes = piece->length,
	    .pieces = pieces,
	    .psn = fetch->wire.bth.psn,
	    .behind = is_first && may_look_behind(qp, fetch) ? look_behind : NULL,
	    .context = arrival,
	};

	if (!payload_find(&list, IBV_ACCESS_LOCAL_WRITE, responder->received + fetch->done,
			  piece->length, pieces, &op.count))
		return REACH_REFUSED;
	return qp->adapter->host->reach(qp, &op);
}

static enum verdict go_on(struct arrival *arrival, bool is_first)
{
	struct qp *qp = arrival->qp;
	struct responder *responder = qp->responder;
	struct fetch *fetch = responder->fetch;
	enum reach_result result;

	for (; fetch->next < fetch->count; fetch->next++) {
		result = fetch_piece(arrival, fetch, is_first);
		if (result == REACH_LATER) {
			fetch->at = arrival->now + LATER_NS;
			return LATER;
		}
		if (result == REACH_REFUSED)
			return DECLINED;
		fetch->done += fetch->pieces[fetch->next].length;
	}
	responder->received += fetch->bytes;
	responder->message = MESSAGE_SEND;
	qp->requester->counters.fetched++;
	return PASS;
}

enum verdict fetch_go_on(struct arrival *arrival)
{
	return go_on(arrival, false);
}

enum verdict fetch_begin(struct arrival *arrival)
{
	struct adapter *adapter = arrival->qp->adapter;
	struct fetch *fetch;
	enum verdict verdict;

	if (!adapter->host->reach)
		return DECLINED;
	fetch = pool_take(&adapter->pool, sizeof(*fetch));
	if (!fetch)
		return DECLINED;
	memset(fetch, 0, sizeof(*fetch));
	arrival->qp->responder->fetch = fetch;
	if (!read_offer(arrival, fetch))
		return DECLINED;
	arrival->wire = &fetch->wire;
	verdict = check(arrival, fetch);
	if (verdict != PASS)
		return verdict;
	return go_on(arrival, true);
}

void fetch_drop(struct qp *qp)
{
	pool_give(&qp->adapter->pool, qp->responder->fetch);
	qp->responder->fetch = NULL;
}

void fetch_end(struct qp *qp)
{
	fetch_drop(qp);
	if (qp->adapter->host->forget_reach)
		qp->adapter->host->forget_reach(qp);
}
