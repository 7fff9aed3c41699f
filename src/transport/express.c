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

/* Nothing of what has left is to go again, and the peer waits for no answer that a message would
 * overtake. */
static bool is_open(const struct qp *qp)
{
	const struct requester *requester = qp->requester;

	return atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_RTS &&
	       requester->psn == requester->end && requester->rnr_deadline == NO_DEADLINE &&
	       !requester->has_failed && !requester->recovery && !requester->responses &&
	       !requester->has_credits && !qp->attr.rate_limit &&
	       (!responder_has_work(qp) || express_owes(qp->responder));
}

bool express_is_free(const struct qp *qp)
{
	return is_open(qp) && qp->requester->current == qp->sq.next;
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

/* As the general path would post it. */
static bool fill(const struct qp *qp, const struct ibv_send_wr *wr, uint32_t length,
		 struct send_wqe *wqe)
{
	wqe->wr_id = wr->wr_id;
	wqe->length = length;
	wqe->opcode = wr->opcode;
	wqe->flags = wr->send_flags | (qp->sq_sig_all ? IBV_SEND_SIGNALED : 0);
	wqe->imm_data = wr->imm_data;
	wqe->flight = 0;
	wqe->is_inline = wr->send_flags & IBV_SEND_INLINE;
	wqe->num_sge = wqe->is_inline ? 0 : (uint32_t)wr->num_sge;
	for (uint32_t i = 0; i < wqe->num_sge; i++)
		wqe->sge[i] = wr->sg_list[i];
	return !wqe->is_inline || express_gather(qp, wr, (uint8_t *)wqe->data);
}

static bool queue(struct qp *qp, const struct ibv_send_wr *wr)
{
	uint32_t length;

	if (!express_is_fit(qp, wr, &length) || !express_has_room(&qp->sq) ||
	    !fill(qp, wr, length, sq_wqe(&qp->sq, qp->sq.next)))
		return false;
	qp->sq.next++;
	return true;
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

static bool gather(const struct qp *qp, const struct send_wqe *wqe, uint8_t *to)
{
	struct ibv_sge sge[EXPRESS_SGE];
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = (int)wqe->num_sge};

	if (wqe->is_inline) {
		memcpy(to, wqe->data, wqe->length);
		return true;
	}
	memcpy(sge, wqe->sge, wqe->num_sge * sizeof(*sge));
	return express_gather(qp, &wr, to);
}

enum step {
	STEP_SENT,
	STEP_WAITS, /* for room, which what is in flight will make */
	STEP_STUCK, /* the general path knows what to do */
};

/* The next work request, which is fit. */
static enum step send(struct qp *qp, struct outbox *outbox)
{
	struct requester *requester = qp->requester;
	struct send_wqe *wqe = sq_wqe(&qp->sq, requester->current);
	bool has_imm = wqe->opcode == IBV_WR_SEND_WITH_IMM;
	uint32_t length = (uint32_t)wqe->length, flags = EXPRESS_MESSAGE;
	struct express *express;

	if (psn_into(requester->end, requester->una) >= EXPRESS_WINDOW)
		return STEP_WAITS;
	express = outbox->reserve_express(outbox, &qp->av, qp->attr.dest_qp_num,
					  sizeof(*express) + length);
	if (!express)
		return requester->una != requester->end ? STEP_WAITS : STEP_STUCK;
	if (!gather(qp, wqe, (uint8_t *)(express + 1)))
		return STEP_STUCK;
	flags |= has_imm ? EXPRESS_IMM : 0;
	flags |= wqe->flags & IBV_SEND_SOLICITED ? EXPRESS_SOLICITED : 0;
	flags |= express_add_ack(qp, &express->ack); /* what is owed goes along */
	express->to = qp->attr.dest_qp_num | flags << 24;
	express->psn = wqe->first_psn = wqe->last_psn = requester->end;
	express->imm = wqe->imm_data;
	express->pkey = qp->pkey;
	wqe->flight = WQE_STARTED;
	outbox->commit_express(outbox, sizeof(*express) + length);
	sent(qp, length, has_imm);
	return STEP_SENT;
}

/* The next work request, which the general path may have posted, and begun without sending it. */
static bool is_fit(const struct qp *qp, const struct send_wqe *wqe)
{
	bool is_new =
	    !wqe->flight || (wqe->flight == WQE_STARTED && wqe->first_psn == qp->requester->psn);

	return is_new && is_message(wqe->opcode) && wqe->num_sge <= EXPRESS_SGE &&
	       wqe->length <= EXPRESS_BYTES && wqe->length <= qp->mtu &&
	       !(wqe->flags & IBV_SEND_FENCE && qp->requester->rd_count);
}

/* All that waits, up to `end`. */
static enum step advance(struct qp *qp, uint32_t end, struct outbox *outbox)
{
	enum step step = STEP_SENT;

	while (step == STEP_SENT && qp->requester->current != end)
		step = is_fit(qp, sq_wqe(&qp->sq, qp->requester->current)) ? send(qp, outbox)
									   : STEP_STUCK;
	return step;
}

bool express_advance(struct qp *qp, struct outbox *outbox)
{
	if (qp->requester->current == sq_tail(qp))
		return true;
	return qp->type == IBV_QPT_RC && outbox->reserve_express && is_open(qp) &&
	       advance(qp, sq_tail(qp), outbox) != STEP_STUCK;
}

/* Behind what waits for room it waits too. */
static struct ibv_send_wr *post(struct qp *qp, struct ibv_send_wr *wr, struct outbox *outbox)
{
	enum step step = advance(qp, qp->sq.next, outbox);

	for (; wr && step != STEP_STUCK && queue(qp, wr); wr = wr->next) {
		if (step == STEP_WAITS)
			continue;
		step = send(qp, outbox);
		if (step == STEP_STUCK) {
			qp->sq.next--;
			break;
		}
	}
	return wr;
}

struct ibv_send_wr *express_post(struct qp *qp, struct ibv_send_wr *wr, struct outbox *outbox)
{
	if (qp->type != IBV_QPT_RC || !outbox->reserve_express || !sq_try_begin(qp))
		return wr;
	if (is_open(qp))
		wr = post(qp, wr, outbox);
	sq_commit(qp);
	return wr;
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
