/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Short SENDs over RC that came in one batch, as shorts.c sends them. A link hands those on
 * together that are alike but for PSN and payload (packet.h), so what they have in common is looked
 * at once. Each payload goes to its receive first; then as many as have room in the CQ complete in
 * one go, and one ACK is owed for them. What is not so plain (a receive that is not there, or too
 * short, or in pieces, a full CQ, an SRQ) is left, from there on, for those that take one by one
 * (plain_take.c, responder.c), and of that nothing has changed.
 */
#include "device/adapter.h"
#include "device/memory.h"
#include "transport/completion.h"
#include "transport/express.h"
#include "transport/plain.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "wire/opcode.h"

/* The CQ is locked while its completions are written, and a program may want to poll. */
enum { ROW = 32 };

struct row {
	struct qp *qp;
	const struct packet *packet;
	uint32_t count;	 /* of the packet and those behind it */
	uint32_t length; /* of each payload */
	uint64_t now;
};

static bool is_solicited(const struct row *row)
{
	return row->packet->bth[1] & BTH_SOLICITED;
}

/* It is the next one, and the QP has nothing else in mind. */
static bool is_expected(const struct qp *qp, const struct packet *packet)
{
	return express_may_arrive(qp, packet) && !qp->srq &&
	       get_be16(packet->bth + 2) == qp->pkey &&
	       responder_awaits(qp->responder, bth_psn(packet->bth));
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* False where they bring nothing, or more than a packet of this QP may. */
static bool measure(struct row *row)
{
	const struct packet *packet = row->packet;
	size_t around = BTH_BYTES + bth_pad_count(packet->bth);

	if (packet->length <= around || packet->length - around > row->qp->mtu)
		return false;
	row->length = (uint32_t)(packet->length - around);
	row->count = least(packet->more + 1, ROW);
	row->count = least(row->count, recv_queue_count(&row->qp->rq));
	row->count = least(row->count, cq_room(row->qp->recv_cq));
	return true;
}

/* How many of them found their place. */
static uint32_t place(const struct row *row)
{
	const uint8_t *from = row->packet->bth + BTH_BYTES;
	uint32_t done = 0;

	for (; done < row->count; done++, from += row->packet->stride) {
		const struct recv_wqe *recv = recv_queue_at(&row->qp->rq, done);
		char *to = express_room_of(row->qp, recv, row->length);

		if (!to || memory_move(to, (const char *)from, row->length))
			break;
	}
	return done;
}

static void fill(const struct row *row, uint32_t index, struct ibv_wc *wc)
{
	const struct qp *qp = row->qp;

	wc_fill_receive(wc, qp, recv_queue_at(&qp->rq, index)->wr_id, row->length);
}

/* To who polls. */
static uint32_t fill_taking(const struct row *row, uint32_t count)
{
	struct cq_taking *taking = cq_take_own();
	uint32_t done = 0;
	struct ibv_wc *wc;

	for (; done < count && (wc = cq_take_next(taking, row->qp->recv_cq)); done++)
		fill(row, done, wc);
	return done;
}

/* Into the CQ, which stays locked unless it has room for none. */
static uint32_t fill_stored(const struct row *row, uint32_t from, uint32_t count)
{
	struct cq *cq = row->qp->recv_cq;
	uint32_t room = count ? cq_add_row(cq, count) : 0;

	for (uint32_t i = 0; i < room; i++) {
		struct cqe *cqe = cq_row_at(cq, i);

		cqe_begin(cqe, row->now);
		fill(row, from + i, &cqe->wc);
	}
	return room;
}

static void executed(const struct row *row, uint32_t count)
{
	struct qp *qp = row->qp;
	struct responder *responder = qp->responder;
	struct transport_counters *counters = &qp->requester->counters;

	recv_queue_pass(&qp->rq, count);
	responder->psn = psn_add(responder->psn, (int32_t)count);
	responder->msn = (responder->msn + count) & PSN_MASK;
	responder->has_acknowledged = true;
	express_owe(qp, psn_add(responder->psn, -1));
	qp->av.is_doubted = false;
	counters->received_packets += count;
	counters->received_bytes += count * row->packet->length;
}

/* A program that sees a completion may post anew: so the receives are free before. */
static uint32_t complete(const struct row *row, uint32_t count)
{
	uint32_t taken = fill_taking(row, count), stored = fill_stored(row, taken, count - taken);

	if (taken + stored)
		executed(row, taken + stored);
	if (stored)
		cq_added_row(row->qp->recv_cq, stored, is_solicited(row));
	return taken + stored;
}

struct qp *shorts_take(struct adapter *adapter, const struct packet *packet, uint64_t now,
		       uint32_t *taken)
{
	struct row row = {.packet = packet, .now = now};

	if (packet->bth[0] != (TRANSPORT_RC | OP_SEND_ONLY) || !plain_is_send(packet))
		return NULL;
	row.qp = adapter_find_qp(adapter, bth_dest_qp(packet->bth));
	if (!row.qp || !is_expected(row.qp, packet) || !measure(&row))
		return NULL;
	*taken = complete(&row, place(&row));
	if (!*taken)
		return NULL;
	adapter->host->schedule(adapter, row.qp);
	return row.qp;
}
