/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * As plain.h describes it. The checks are those of the express path (express.h), and that nothing
 * is in flight.
 */
#include <string.h>

#include "base/hot.h"
#include "transport/build.h"
#include "transport/express.h"
#include "transport/plain.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "wire/opcode.h"

bool plain_may(const struct qp *qp)
{
	return qp->requester->una == qp->requester->end;
}

/* Nothing is in flight, the peer is not to be asked what it is, and a longer way has no pace of its
 * own. */
static bool is_open(const struct qp *qp)
{
	const struct requester *requester = qp->requester;

	return plain_may(qp) && express_is_free(qp) && !requester->signs_left &&
	       !requester->probe.is_due && !window_is_long(&requester->window) &&
	       !qp->responder->waiting_count && !qp->responder->fetch;
}

/* One packet. */
static bool is_fit(const struct qp *qp, const struct ibv_send_wr *wr, uint32_t *length)
{
	return express_is_fit(qp, wr, length) && *length <= qp->mtu && express_has_room(&qp->sq);
}

static void describe(const struct qp *qp, const struct ibv_send_wr *wr, uint32_t length,
		     struct wire_packet *wire)
{
	bool has_imm = wr->opcode == IBV_WR_SEND_WITH_IMM;

	wire->bth = bth_of(qp, TRANSPORT_RC | (has_imm ? OP_SEND_ONLY_IMM : OP_SEND_ONLY),
			   qp->requester->psn);
	wire->bth.ack_req = true;
	wire->bth.solicited = wr->send_flags & IBV_SEND_SOLICITED;
	wire->imm = be32toh(wr->imm_data);
	wire->payload_length = length;
}

/* Inline data are read once, and from there on stand in the queue. */
static bool gather(const struct qp *qp, const struct ibv_send_wr *wr, struct send_wqe *wqe,
		   uint32_t length, uint8_t *to)
{
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return express_gather(qp, wr, to);
	if (!express_gather(qp, wr, (uint8_t *)wqe->data))
		return false;
	memcpy(to, wqe->data, length);
	return true;
}

static bool is_whole(const struct qp *qp, const struct ibv_send_wr *wr,
		     const struct wire_packet *wire)
{
	return wire->payload_length == qp->mtu && wr->num_sge == 1 &&
	       !(wr->send_flags & IBV_SEND_INLINE);
}

/* A whole packet goes on with the run of the ACK before it, and is summed as it is copied. */
static bool put_summed(struct qp *qp, const struct ibv_send_wr *wr, const struct wire_packet *wire,
		       struct outbox *outbox)
{
	uint32_t sum = 0;
	uint8_t *to;

	if (!is_whole(qp, wr, wire))
		return false;
	to = packet_open_summed(outbox, &qp->av, wire, &sum);
	if (!to || !express_gather_sum(qp, wr->sg_list, to, &sum))
		return false;
	packet_close_summed(qp, outbox, wire, to, sum);
	return true;
}

static bool put(struct qp *qp, const struct ibv_send_wr *wr, struct send_wqe *wqe,
		const struct wire_packet *wire, struct outbox *outbox)
{
	uint8_t *to;

	if (put_summed(qp, wr, wire, outbox))
		return true;
	to = packet_open(outbox, &qp->av, wire);
	if (!to || !gather(qp, wr, wqe, wire->payload_length, to))
		return false;
	packet_close(qp, outbox, wire);
	return true;
}

/* The ACK that is owed, and behind it a message, is what an answer to a message mostly is. */
static bool may_join(const struct qp *qp, const struct outbox *outbox,
		     const struct wire_packet *wire)
{
	return outbox->joins_acks && express_owes(qp->responder) &&
	       packet_size(wire) + ICRC_BYTES <= qp->av.carrier_max;
}

static void put_ack(const struct qp *qp, uint8_t *to)
{
	const struct responder *responder = qp->responder;
	struct bth bth = bth_of(qp, OPCODE_ACK_AND, responder->answer_psn);
	struct aeth aeth = {responder->syndrome, responder->msn};

	bth_pack(to, &bth);
	aeth_pack(to + BTH_BYTES, &aeth);
}

/* What is behind the ACK's BTH. A whole packet is summed as it is copied. */
static bool put_behind(const struct qp *qp, const struct ibv_send_wr *wr, struct send_wqe *wqe,
		       const struct wire_packet *wire, uint8_t *aeth, bool is_summed)
{
	uint8_t *bth = aeth + AETH_BYTES, *to = bth + wire_pack(bth, wire);
	uint32_t length = wire->payload_length, sum;

	memset(to + length, 0, wire_pad(length));
	if (!is_summed)
		return gather(qp, wr, wqe, length, to);
	sum = icrc_sum(0, aeth, (size_t)(to - aeth));
	if (!express_gather_sum(qp, wr->sg_list, to, &sum))
		return false;
	put_le32(to + length, sum);
	return true;
}

static void count_joined(struct qp *qp, uint32_t size)
{
	struct transport_counters *counters = &qp->requester->counters;

	counters->sent_packets += 2;
	counters->sent_bytes += size;
	counters->acks_sent++;
}

static bool put_joined(struct qp *qp, const struct ibv_send_wr *wr, struct send_wqe *wqe,
		       const struct wire_packet *wire, struct outbox *outbox)
{
	uint32_t size = ACK_BYTES + packet_size(wire);
	bool is_summed = outbox->takes_sums && is_whole(qp, wr, wire);
	uint8_t *to = outbox->reserve(outbox, &qp->av, qp->attr.dest_qp_num, size);

	if (!to)
		return false;
	put_ack(qp, to);
	if (!put_behind(qp, wr, wqe, wire, to + BTH_BYTES, is_summed))
		return false;
	if (is_summed)
		outbox->commit_run(outbox, size, 1, true);
	else
		outbox->commit(outbox, size);
	count_joined(qp, size);
	responder_answered(qp->responder);
	return true;
}

static void advance(struct qp *qp, struct send_wqe *wqe)
{
	struct requester *requester = qp->requester;

	wqe->first_psn = wqe->last_psn = requester->end;
	wqe->flight = WQE_STARTED;
	requester->psn = requester->end = requester->packets_end = psn_next(requester->end);
	requester->current++;
	requester->since_ack_req = 0;
	requester->is_unasked = requester->is_untimed = false;
	requester->large_end = wqe->length > WINDOW_SMALL_BYTES ? requester->end : requester->una;
}

/* What waits for its answer begins to. */
static void await_answer(struct qp *qp, uint64_t now)
{
	retry_start_timer(qp, now);
	probe_asked(qp, psn_add(qp->requester->psn, -1), now);
}

static bool send(struct qp *qp, const struct ibv_send_wr *wr, uint32_t length,
		 struct outbox *outbox)
{
	struct send_wqe *wqe = sq_wqe(&qp->sq, qp->sq.next);
	struct wire_packet wire;

	describe(qp, wr, length, &wire);
	if (may_join(qp, outbox, &wire)) {
		if (!put_joined(qp, wr, wqe, &wire, outbox))
			return false;
	} else if (!responder_answer(qp, outbox) || !put(qp, wr, wqe, &wire, outbox)) {
		return false;
	}
	wqe->length = length;
	qp->sq.next++;
	return true;
}

WHOLE bool plain_post(struct qp *qp, const struct ibv_send_wr *wr, struct outbox *outbox)
{
	uint32_t length;
	bool is_sent;

	if (qp->type != IBV_QPT_RC || !sq_try_begin(qp))
		return false;
	is_sent = is_open(qp) && is_fit(qp, wr, &length) && send(qp, wr, length, outbox);
	sq_commit(qp);
	return is_sent;
}

void plain_sent(struct qp *qp, const struct ibv_send_wr *wr, uint64_t now)
{
	struct send_wqe *wqe = sq_wqe(&qp->sq, qp->requester->current);

	express_keep(qp, wr, (uint32_t)wqe->length, wqe);
	advance(qp, wqe);
	await_answer(qp, now);
}
