/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sending end of the express path, and what records stand for.
 */
#include <string.h>

#include "device/adapter.h"
#include "device/memory.h"
#include "device/mr.h"
#include "transport/express.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "wire/opcode.h"

static bool is_message(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
}

static bool owes_plain_ack(const struct responder *responder)
{
	return responder->is_owed && aeth_kind(responder->syndrome) == AETH_ACK &&
	       !responder->job_count && !responder->is_reporting && !responder->owes_sign;
}

/*
 * Nothing is in the way: all that was posted has left, nothing of it is to go again, and the peer
 * waits for no answer that the message would overtake.
 */
bool express_is_free(const struct qp *qp)
{
	const struct requester *requester = qp->requester;

	return atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_RTS &&
	       requester->current == qp->sq.next && requester->psn == requester->end &&
	       psn_into(requester->end, requester->una) < EXPRESS_WINDOW &&
	       requester->rnr_deadline == NO_DEADLINE && !requester->has_failed &&
	       !requester->recovery && !requester->responses && !requester->has_credits &&
	       !qp->attr.rate_limit && (!responder_has_work(qp) || owes_plain_ack(qp->responder));
}

bool express_has_room(const struct send_queue *sq)
{
	return sq->next - atomic_load_explicit(&sq->head, memory_order_relaxed) < sq->max_wr &&
	       !atomic_load_explicit(&sq->own, memory_order_relaxed);
}

bool express_is_fit(const struct qp *qp, const struct ibv_send_wr *wr, uint32_t *length)
{
	const unsigned int known =
	    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;
	uint64_t bytes = 0;

	if (!is_message(wr->opcode) || wr->send_flags & ~known || wr->num_sge < 0 ||
	    wr->num_sge > EXPRESS_SGE || (!is_inline && (uint32_t)wr->num_sge > qp->sq.max_sge))
		return false;
	if (wr->send_flags & IBV_SEND_FENCE && qp->requester->rd_count)
		return false;
	for (int i = 0; i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	*length = (uint32_t)bytes;
	return bytes <= EXPRESS_BYTES && bytes <= qp->mtu &&
	       (!is_inline || bytes <= qp->sq.max_inline);
}

bool express_gather(const struct qp *qp, const struct ibv_send_wr *wr, uint8_t *to)
{
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;

	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];
		char *place = (char *)(uintptr_t)sge->addr;

		if (!sge->length)
			continue;
		if (!is_inline && (mr_resolve_local(qp->adapter, qp->pd, sge->lkey, sge->addr,
						    sge->length, 0, &place) ||
				   !place))
			return false;
		if (memory_load(to, place, sge->length))
			return false;
		to += sge->length;
	}
	return true;
}

/* What the requester looks at when it has to send again. */
static void fill(const struct qp *qp, const struct ibv_send_wr *wr, const uint8_t *payload,
		 uint32_t length, struct send_wqe *wqe)
{
	wqe->wr_id = wr->wr_id;
	wqe->length = length;
	wqe->opcode = wr->opcode;
	wqe->flags = wr->send_flags | (qp->sq_sig_all ? IBV_SEND_SIGNALED : 0);
	wqe->imm_data = wr->imm_data;
	wqe->first_psn = wqe->last_psn = qp->requester->end;
	wqe->flight = WQE_STARTED;
	wqe->is_inline = wr->send_flags & IBV_SEND_INLINE;
	wqe->num_sge = wqe->is_inline ? 0 : (uint32_t)wr->num_sge;
	for (uint32_t i = 0; i < wqe->num_sge; i++)
		wqe->sge[i] = wr->sg_list[i];
	if (wqe->is_inline)
		memcpy(wqe->data, payload, length);
}

/* The ACK that is owed goes along. */
static uint32_t add_ack(struct qp *qp, struct express *express)
{
	struct responder *responder = qp->responder;

	if (!owes_plain_ack(responder))
		return 0;
	express->ack = responder->answer_psn;
	responder->is_owed = false;
	qp->requester->counters.acks_sent++;
	return EXPRESS_ACK;
}

static void sent(struct qp *qp, uint32_t length, bool has_imm)
{
	struct requester *requester = qp->requester;

	requester->psn = requester->end = psn_next(requester->end);
	requester->current++;
	requester->since_ack_req = 0;
	requester->is_untimed |= requester->ack_deadline == NO_DEADLINE;
	requester->counters.expressed++;
	requester->counters.sent_packets++;
	requester->counters.sent_bytes += express_packet_bytes(length, has_imm);
}

static bool post(struct qp *qp, const struct ibv_send_wr *wr, struct outbox *outbox)
{
	bool has_imm = wr->opcode == IBV_WR_SEND_WITH_IMM;
	struct express *express;
	struct send_wqe *wqe;
	uint32_t length, flags = EXPRESS_MESSAGE;

	if (!express_is_fit(qp, wr, &length) || !express_has_room(&qp->sq))
		return false;
	wqe = sq_wqe(&qp->sq, qp->sq.next);
	express = outbox->reserve_express(outbox, &qp->av, qp->attr.dest_qp_num,
					  sizeof(*express) + length);
	if (!express)
		return false;
	if (!express_gather(qp, wr, (uint8_t *)(express + 1)))
		return false;
	fill(qp, wr, (uint8_t *)(express + 1), length, wqe);
	flags |= has_imm ? EXPRESS_IMM : 0;
	flags |= wr->send_flags & IBV_SEND_SOLICITED ? EXPRESS_SOLICITED : 0;
	flags |= add_ack(qp, express);
	express->to = qp->attr.dest_qp_num | flags << 24;
	express->psn = wqe->first_psn;
	express->imm = wr->imm_data;
	express->pkey = qp->pkey;
	outbox->commit_express(outbox, sizeof(*express) + length);
	qp->sq.next++;
	sent(qp, length, has_imm);
	return true;
}

struct ibv_send_wr *express_post(struct qp *qp, struct ibv_send_wr *wr, struct outbox *outbox)
{
	if (qp->type != IBV_QPT_RC || !outbox->reserve_express || !sq_try_begin(qp))
		return wr;
	if (express_is_free(qp))
		while (wr && post(qp, wr, outbox))
			wr = wr->next;
	sq_commit(qp);
	return wr;
}

bool express_acknowledge(struct qp *qp, struct outbox *outbox)
{
	struct express *express;

	if (!owes_plain_ack(qp->responder) || !outbox->reserve_express)
		return false;
	express = outbox->reserve_express(outbox, &qp->av, qp->attr.dest_qp_num, sizeof(*express));
	if (!express)
		return false;
	express->to = qp->attr.dest_qp_num | add_ack(qp, express) << 24;
	express->pkey = qp->pkey;
	outbox->commit_express(outbox, sizeof(*express));
	qp->requester->counters.sent_packets++;
	qp->requester->counters.sent_bytes += opcode_get(OP_ACKNOWLEDGE)->header_bytes;
	return true;
}

/* ---- what a record stands for ---- */

static void begin_packet(const struct express *express, uint8_t operation, struct wire_packet *wire)
{
	memset(wire, 0, sizeof(*wire));
	wire->bth.opcode = TRANSPORT_RC | operation;
	wire->bth.migreq = true;
	wire->bth.pkey = express->pkey;
	wire->bth.dest_qp = express_qpn(express);
	wire->op = opcode_get(wire->bth.opcode);
}

bool express_ack_packet(const struct express *express, struct wire_packet *wire)
{
	if (!(express_flags(express) & EXPRESS_ACK))
		return false;
	begin_packet(express, OP_ACKNOWLEDGE, wire);
	wire->bth.psn = express->ack & PSN_MASK;
	wire->aeth.syndrome = AETH_ACK | AETH_CREDIT_NONE;
	return true;
}

bool express_request_packet(const struct express *express, const struct packet *packet,
			    struct wire_packet *wire)
{
	uint8_t flags = express_flags(express);

	if (!(flags & EXPRESS_MESSAGE))
		return false;
	begin_packet(express, flags & EXPRESS_IMM ? OP_SEND_ONLY_IMM : OP_SEND_ONLY, wire);
	wire->bth.psn = express->psn & PSN_MASK;
	wire->bth.ack_req = true;
	wire->bth.solicited = flags & EXPRESS_SOLICITED;
	wire->imm = be32toh(express->imm);
	wire->payload = packet->bth + sizeof(*express);
	wire->payload_length = packet->length - sizeof(*express);
	return true;
}
