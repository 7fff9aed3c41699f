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
	fetch->wire.bth.psn = psn_add(wire->bth.psn, (uint32_t)((fetch->bytes - 1) / mtu));
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

static enum reach_result fetch_piece(struct qp *qp, const struct fetch *fetch)
{
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
	};

	if (!payload_find(&list, IBV_ACCESS_LOCAL_WRITE, responder->received + fetch->done,
			  piece->length, pieces, &op.count))
		return REACH_REFUSED;
	return qp->adapter->host->reach(qp, &op);
}

enum verdict fetch_go_on(struct arrival *arrival)
{
	struct qp *qp = arrival->qp;
	struct responder *responder = qp->responder;
	struct fetch *fetch = responder->fetch;
	enum reach_result result;

	for (; fetch->next < fetch->count; fetch->next++) {
		result = fetch_piece(qp, fetch);
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
	return verdict == PASS ? fetch_go_on(arrival) : verdict;
}

void fetch_drop(struct qp *qp)
{
	pool_give(&qp->adapter->pool, qp->responder->fetch);
	qp->responder->fetch = NULL;
}
