/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sending end of the express path, and what records stand for.
 */
#include <string.h>

#include "base/hot.h"
#include "base/lines.h"
#include "device/adapter.h"
#include "device/memory.h"
#include "device/mr.h"
#include "transport/express.h"
#include "transport/offer.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "wire/mtu.h"
#include "wire/opcode.h"

_Static_assert(EXPRESS_PSNS <= (int)RECOVERY_SPAN, "what is behind a loss is held");

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
	       requester_is_quiet(requester) && !qp->attr.rate_limit &&
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

bool express_is_kind(const struct qp *qp, const struct ibv_send_wr *wr)
{
	const unsigned int known =
	    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

	if (!is_message(wr->opcode) || wr->send_flags & ~known || wr->num_sge < 0 ||
	    wr->num_sge > EXPRESS_SGE ||
	    (!(wr->send_flags & IBV_SEND_INLINE) && (uint32_t)wr->num_sge > qp->sq.max_sge))
		return false;
	return !(wr->send_flags & IBV_SEND_FENCE) || !qp->requester->rd_count;
}

bool express_is_fit(const struct qp *qp, const struct ibv_send_wr *wr, uint32_t *length)
{
	uint64_t bytes = 0;

	if (!express_is_kind(qp, wr))
		return false;
	if (wr->num_sge == 1) /* as mostly, and then a loop is half of the time */
		bytes = wr->sg_list[0].length;
	else
		for (int i = 0; i < wr->num_sge; i++)
			bytes += wr->sg_list[i].length;
	*length = (uint32_t)bytes;
	return bytes <= EXPRESS_BYTES &&
	       (!(wr->send_flags & IBV_SEND_INLINE) || bytes <= qp->sq.max_inline) &&
	       !offer_is_better(qp, bytes);
}

static bool load(const struct qp *qp, const struct ibv_sge *sge, bool is_inline, uint8_t *to)
{
	struct mr_memo *memo = &qp->adapter->mr_memos[qp->lane].sends;
	char *place = (char *)(uintptr_t)sge->addr;

	if (!sge->length)
		return true;
	if (!is_inline)
		place = mr_place(qp->adapter, memo, qp->pd, sge->lkey, sge->addr, sge->length, 0);
	return (place || is_inline) && !memory_load(to, place, sge->length);
}

bool express_gather_sum(const struct qp *qp, const struct ibv_sge *sge, uint8_t *to, uint32_t *sum)
{
	struct mr_memo *memo = &qp->adapter->mr_memos[qp->lane].sends;
	const char *place =
	    mr_place(qp->adapter, memo, qp->pd, sge->lkey, sge->addr, sge->length, 0);

	return place && !memory_load_sum(to, place, sge->length, sum);
}

bool express_gather(const struct qp *qp, const struct ibv_send_wr *wr, uint8_t *to)
{
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;

	if (wr->num_sge == 1)
		return load(qp, wr->sg_list, is_inline, to);
	for (int i = 0; i < wr->num_sge; i++) {
		if (!load(qp, &wr->sg_list[i], is_inline, to))
			return false;
		to += wr->sg_list[i].length;
	}
	return true;
}

void express_keep(const struct qp *qp, const struct ibv_send_wr *wr, uint32_t length,
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
	if (wqe->num_sge == 1) { /* as mostly */
		wqe->sge[0] = wr->sg_list[0];
		return;
	}
	for (uint32_t i = 0; i < wqe->num_sge; i++)
		wqe->sge[i] = wr->sg_list[i];
}

/* Behind what waits for room it waits too. */
static enum express_step queue(struct qp *qp, const struct ibv_send_wr *wr, uint32_t length)
{
	struct send_wqe *wqe = sq_wqe(&qp->sq, qp->sq.next);

	if (wr->send_flags & IBV_SEND_INLINE && !express_gather(qp, wr, (uint8_t *)wqe->data))
		return EXPRESS_STUCK;
	express_keep(qp, wr, length, wqe);
	qp->sq.next++;
	return EXPRESS_WAITS;
}

void express_sent(struct qp *qp, struct send_wqe *wqe, uint32_t length, uint32_t packets)
{
	struct requester *requester = qp->requester;
	bool has_imm = wqe->opcode == IBV_WR_SEND_WITH_IMM;

	wqe->first_psn = requester->end;
	wqe->last_psn = psn_add(requester->end, (int32_t)packets - 1);
	wqe->flight = WQE_STARTED;
	requester->psn = requester->end = psn_next(wqe->last_psn);
	requester->current++;
	requester->since_ack_req = 0;
	requester->is_untimed |= requester->ack_deadline == NO_DEADLINE;
	requester->counters.expressed++;
	requester->counters.sent_packets += packets;
	requester->counters.sent_bytes += express_packet_bytes(length, packets, has_imm);
}

/* The same of any length: of one packet there is no contest, and express_beside.c asks for none. */
static void note_sent(struct qp *qp, struct send_wqe *wqe, uint32_t length)
{
	uint32_t packets = express_packets(length, qp->mtu);

	if (length >= CONTEST_BYTES)
		offer_contest(qp, packets);
	express_sent(qp, wqe, length, packets);
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

/* Room for a record. */
static enum express_step begin(const struct qp *qp, uint32_t length, struct outbox *outbox,
			       struct express **express)
{
	const struct requester *requester = qp->requester;

	if (requester->current - sq_head(qp) >= EXPRESS_WINDOW ||
	    psn_into(requester->end, requester->una) >= EXPRESS_PSNS)
		return EXPRESS_WAITS;
	*express =
	    outbox->reserve_express(outbox, &qp->av, qp->dest_qpn, sizeof(**express) + length);
	if (*express)
		return EXPRESS_SENT;
	return requester->una != requester->end ? EXPRESS_WAITS : EXPRESS_STUCK;
}

void express_head(struct qp *qp, enum ibv_wr_opcode opcode, unsigned int send_flags, __be32 imm,
		  struct express *express)
{
	uint32_t flags = EXPRESS_MESSAGE;

	flags |= opcode == IBV_WR_SEND_WITH_IMM ? EXPRESS_IMM : 0;
	flags |= send_flags & IBV_SEND_SOLICITED ? EXPRESS_SOLICITED : 0;
	flags |= express_add_ack(qp, &express->ack);
	express->to = qp->dest_qpn | flags << 24;
	express->psn = qp->requester->end;
	express->imm = imm;
	express->pkey = qp->pkey;
	express->mtu = (uint16_t)qp->mtu;
}

/* The next work request, which is fit. */
static enum express_step send(struct qp *qp, struct outbox *outbox)
{
	struct send_wqe *wqe = sq_wqe(&qp->sq, qp->requester->current);
	uint32_t length = (uint32_t)wqe->length;
	struct express *express;
	enum express_step step = begin(qp, length, outbox, &express);

	if (step != EXPRESS_SENT)
		return step;
	if (!gather(qp, wqe, (uint8_t *)(express + 1)))
		return EXPRESS_STUCK;
	express_head(qp, wqe->opcode, wqe->flags, wqe->imm_data, express);
	outbox->commit_express(outbox, sizeof(*express) + length);
	note_sent(qp, wqe, length);
	return EXPRESS_SENT;
}

/*
 * A work request that nothing waits in front of. The peer waits for the record, so that leaves
 * first; what is kept of it, in case it has to go again, is written then. Inline data alone are
 * read once, and from there on stand in the queue.
 */
static enum express_step send_new(struct qp *qp, const struct ibv_send_wr *wr, uint32_t length,
				  struct outbox *outbox)
{
	struct send_wqe *wqe = sq_wqe(&qp->sq, qp->sq.next);
	struct express *express;
	enum express_step step = begin(qp, length, outbox, &express);

	if (step != EXPRESS_SENT)
		return step;
	if (wr->send_flags & IBV_SEND_INLINE) {
		if (!express_gather(qp, wr, (uint8_t *)wqe->data))
			return EXPRESS_STUCK;
		memcpy(express + 1, wqe->data, length);
	} else if (!express_gather(qp, wr, (uint8_t *)(express + 1))) {
		return EXPRESS_STUCK;
	}
	express_head(qp, wr->opcode, wr->send_flags, wr->imm_data, express);
	outbox->commit_express(outbox, sizeof(*express) + length);
	express_keep(qp, wr, length, wqe);
	qp->sq.next++;
	note_sent(qp, wqe, length);
	return EXPRESS_SENT;
}

/* The next work request, which the general path may have posted, and begun without sending it. */
static bool is_fit(const struct qp *qp, const struct send_wqe *wqe)
{
	bool is_new =
	    !wqe->flight || (wqe->flight == WQE_STARTED && wqe->first_psn == qp->requester->psn);

	return is_new && is_message(wqe->opcode) && wqe->num_sge <= EXPRESS_SGE &&
	       wqe->length <= EXPRESS_BYTES && !offer_is_better(qp, wqe->length) &&
	       !(wqe->flags & IBV_SEND_FENCE && qp->requester->rd_count);
}

/* All that waits, up to `end`. */
static enum express_step advance(struct qp *qp, uint32_t end, struct outbox *outbox)
{
	enum express_step step = EXPRESS_SENT;

	while (step == EXPRESS_SENT && qp->requester->current != end)
		step = is_fit(qp, sq_wqe(&qp->sq, qp->requester->current)) ? send(qp, outbox)
									   : EXPRESS_STUCK;
	return step;
}

bool express_advance(struct qp *qp, struct outbox *outbox)
{
	if (qp->requester->current == sq_tail(qp))
		return true;
	return qp->type == IBV_QPT_RC && outbox->reserve_express && is_open(qp) &&
	       advance(qp, sq_tail(qp), outbox) != EXPRESS_STUCK;
}

enum express_step express_go_on(struct qp *qp, struct outbox *outbox, uint32_t *bytes)
{
	const struct send_wqe *wqe = sq_wqe(&qp->sq, qp->requester->current);
	enum express_step step;

	if (qp->type != IBV_QPT_RC || !outbox->reserve_express || !is_fit(qp, wqe) ||
	    !is_open(qp) || !outbox->has_records(outbox, &qp->av, qp->dest_qpn))
		return EXPRESS_STUCK;
	step = send(qp, outbox);
	if (step == EXPRESS_SENT)
		*bytes = (uint32_t)wqe->length;
	return step;
}

static struct ibv_send_wr *post(struct qp *qp, struct ibv_send_wr *wr, struct outbox *outbox)
{
	enum express_step step = EXPRESS_SENT;
	uint32_t length;

	if (qp->requester->current != qp->sq.next)
		step = advance(qp, qp->sq.next, outbox);
	for (; wr && step != EXPRESS_STUCK; wr = wr->next) {
		if (!express_is_fit(qp, wr, &length) || !express_has_room(&qp->sq))
			break;
		if (step == EXPRESS_SENT)
			step = send_new(qp, wr, length, outbox);
		if (step == EXPRESS_WAITS)
			step = queue(qp, wr, length);
		if (step == EXPRESS_STUCK)
			break;
	}
	return wr;
}

WHOLE struct ibv_send_wr *express_post(struct qp *qp, struct ibv_send_wr *wr, struct outbox *outbox)
{
	if (qp->type != IBV_QPT_RC || !outbox->reserve_express || !sq_try_begin(qp))
		return wr;
	if (is_open(qp))
		wr = post(qp, wr, outbox);
	sq_commit(qp);
	return wr;
}

void express_note_lines(const struct qp *qp, const void *host, struct express_lines *lines)
{
	*lines = (struct express_lines){
	    .host = host,
	    .qp = (const char *)qp,
	    .requester = (const char *)qp->requester,
	    .responder = (const char *)qp->responder,
	    .wqe = (const char *)sq_next_wqe(&qp->sq),
	};
}

static void fetch(const char *place, size_t from, size_t to)
{
	for (size_t at = from / CACHE_LINE * CACHE_LINE; at < to; at += CACHE_LINE)
		lines_fetch(place + at);
}

static void fetch_first(const char *place, size_t from)
{
	lines_fetch(place + from);
}

void express_fetch_lines(const struct express_lines *lines)
{
	if (!lines->qp)
		return;
	fetch(lines->host, 0, EXPRESS_HOST_BYTES);
	fetch_first(lines->qp, 0);
	fetch(lines->qp, QP_HOT, QP_HOT_END);
	fetch_first(lines->requester, 0);
	fetch_first(lines->requester, offsetof(struct requester, counters));
	fetch(lines->responder, 0, CACHE_LINE);
	fetch(lines->wqe, offsetof(struct send_wqe, wr_id),
	      sizeof(struct send_wqe) + sizeof(struct ibv_sge));
}

void express_fetch_qp(const struct qp *qp)
{
	fetch((const char *)qp, QP_HOT, QP_HOT_END);
}

void express_fetch_sent(const struct qp *qp)
{
	const char *requester = (const char *)qp->requester;

	fetch_first(requester, 0);
	fetch_first(requester, offsetof(struct requester, counters));
	fetch_first((const char *)sq_wqe(&qp->sq, sq_head(qp)), offsetof(struct send_wqe, wr_id));
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

static bool is_mtu(uint32_t bytes)
{
	int code = mtu_code(bytes);

	return code && mtu_bytes(code) == bytes;
}

static uint8_t send_operation(bool is_first, bool is_last, bool has_imm)
{
	if (is_first && is_last)
		return has_imm ? OP_SEND_ONLY_IMM : OP_SEND_ONLY;
	if (is_first)
		return OP_SEND_FIRST;
	if (!is_last)
		return OP_SEND_MIDDLE;
	return has_imm ? OP_SEND_LAST_IMM : OP_SEND_LAST;
}

bool express_request_packet(const struct express *express, const struct packet *packet,
			    uint32_t index, struct wire_packet *wire)
{
	uint32_t length = (uint32_t)(packet->length - sizeof(*express)), from, count;
	uint32_t mtu = express->mtu;
	uint8_t flags = express_flags(express);
	bool is_last;

	if (!(flags & EXPRESS_MESSAGE) || length > EXPRESS_BYTES || !is_mtu(mtu))
		return false;
	count = express_packets(length, mtu);
	if (index >= count)
		return false;
	is_last = index + 1 == count;
	from = index * mtu;
	begin_packet(express, send_operation(!index, is_last, flags & EXPRESS_IMM), wire);
	wire->bth.psn = psn_add(express->psn, (int32_t)index);
	wire->bth.ack_req = is_last;
	wire->bth.solicited = is_last && flags & EXPRESS_SOLICITED;
	wire->imm = be32toh(express->imm);
	wire->payload = packet->bth + sizeof(*express) + from;
	wire->payload_length = is_last ? length - from : mtu;
	return true;
}
