/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Short SENDs over RC that stand one behind the other in the send queue and are alike but for their
 * payload, as those of a list or a stream mostly are. Room for many is asked for at once, and their
 * header is packed once; each asks for an ACK, as the end of any message. What is not so plain goes
 * by itself (request.c), and so does one whose payload can't be had: it says why.
 */
#include <string.h>

#include "device/memory.h"
#include "device/mr.h"
#include "transport/build.h"
#include "transport/requester.h"
#include "wire/opcode.h"

static bool is_open(const struct qp *qp)
{
	const struct requester *requester = qp->requester;

	return qp->type == IBV_QPT_RC && requester_is_quiet(requester) && !requester->signs_left &&
	       !rate_is_limited(qp) &&
	       atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_RTS;
}

/* As long as the path MTU takes is summed as it is copied, by itself. */
static bool is_fit(const struct qp *qp, const struct send_wqe *wqe)
{
	return !wqe->flight && wqe->opcode == IBV_WR_SEND && !(wqe->flags & IBV_SEND_FENCE) &&
	       wqe->length && wqe->length < qp->mtu && wqe->length <= WINDOW_SMALL_BYTES &&
	       (wqe->is_inline || wqe->num_sge == 1);
}

/* What all of them have. */
struct likeness {
	uint8_t header[BTH_BYTES];
	uint32_t length, pad, size;
	unsigned int solicited;
};

static struct likeness likeness_of(const struct qp *qp, const struct send_wqe *wqe)
{
	struct likeness alike = {
	    .length = (uint32_t)wqe->length,
	    .pad = wire_pad((uint32_t)wqe->length),
	    .solicited = wqe->flags & IBV_SEND_SOLICITED,
	};
	struct bth bth = bth_of(qp, TRANSPORT_RC | OP_SEND_ONLY, 0);

	alike.size = BTH_BYTES + alike.length + alike.pad;
	bth.solicited = alike.solicited;
	bth.ack_req = true;
	bth.pad_count = alike.pad;
	bth_pack(alike.header, &bth);
	return alike;
}

static bool has(const struct qp *qp, const struct send_wqe *wqe, const struct likeness *alike)
{
	return wqe->length == alike->length && is_fit(qp, wqe) &&
	       (wqe->flags & IBV_SEND_SOLICITED) == alike->solicited;
}

static bool load(const struct qp *qp, const struct send_wqe *wqe, uint8_t *to)
{
	struct mr_memo *memo = &qp->adapter->mr_memos[qp->lane].sends;
	const char *place = wqe->data;

	if (!wqe->is_inline)
		place = mr_place(qp->adapter, memo, qp->pd, wqe->sge->lkey, wqe->sge->addr,
				 wqe->length, 0);
	return place && !memory_load(to, place, wqe->length);
}

/* The packet of the work request, which begins with it. */
static bool put(const struct qp *qp, struct send_wqe *wqe, const struct likeness *alike,
		uint32_t psn, uint8_t *to)
{
	if (!has(qp, wqe, alike) || !load(qp, wqe, to + BTH_BYTES))
		return false;
	memcpy(to, alike->header, BTH_BYTES);
	bth_set_psn(to, psn);
	memset(to + BTH_BYTES + alike->length, 0, alike->pad);
	wqe->first_psn = wqe->last_psn = psn;
	wqe->flight = WQE_STARTED;
	return true;
}

/* They have left. */
static void advance(struct qp *qp, uint32_t count, uint32_t size)
{
	struct requester *requester = qp->requester;

	requester->current += count;
	requester->psn = requester->end = psn_add(requester->end, (int32_t)count);
	requester->since_ack_req = 0;
	requester->is_unasked = false;
	requester->counters.sent_packets += count;
	requester->counters.sent_bytes += (uint64_t)count * size;
}

uint32_t shorts_send(struct qp *qp, uint32_t most, struct outbox *outbox, uint32_t *bytes)
{
	uint32_t next = qp->requester->current, psn = qp->requester->psn, count = 0, stride, room;
	const struct send_wqe *first = sq_wqe(&qp->sq, next);
	struct likeness alike;
	uint8_t *to;

	if (most < 2 || !outbox->reserve_run || !is_open(qp) || !is_fit(qp, first))
		return 0;
	alike = likeness_of(qp, first);
	room = outbox->reserve_run(outbox, &qp->av, qp->attr.dest_qp_num,
				   TRANSPORT_RC | OP_SEND_ONLY, alike.size, most, &to, &stride);
	for (; count < room && put(qp, sq_wqe(&qp->sq, next + count), &alike, psn, to); count++) {
		psn = psn_next(psn);
		to += stride;
	}
	if (!count)
		return 0;
	outbox->commit_run(outbox, alike.size, count, false);
	advance(qp, count, alike.size);
	*bytes = count * alike.size;
	return count;
}
