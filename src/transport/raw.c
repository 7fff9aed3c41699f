/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw packet QPs: a work request is an Ethernet frame, which goes out as it is; frames that come in
 * go to the QPs that a flow names, or by their hash to one of the receive queues of a table.
 */
#include <errno.h>

#include "device/adapter.h"
#include "device/flow.h"
#include "device/wq.h"
#include "transport/completion.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "wire/frame.h"

enum { FRAME_OVERHEAD = FRAME_MIN + FRAME_VLAN, RAW_FRAME_MAX = 65536 + FRAME_OVERHEAD };

_Static_assert((int)RAW_FRAME_MAX <= ADAPTER_FRAME_ROOM, "has room");

/* ---- sending ---- */

static enum sent fail(struct qp *qp, enum ibv_wc_status status, enum reason reason)
{
	requester_fail_wqe(qp, qp->requester->current, status, reason);
	return SENT_FAILED;
}

static enum reason gather(struct qp *qp, const struct send_wqe *wqe, uint8_t *frame)
{
	struct sge_list list = wqe_list(qp, wqe);

	if (wqe->is_inline) {
		memcpy(frame, wqe->data, wqe->length);
		return REASON_NONE;
	}
	cursor_reset(&qp->requester->gather);
	return payload_gather(&list, &qp->requester->gather, 0, frame, wqe->length);
}

enum sent raw_send(struct qp *qp, const struct send_wqe *wqe, uint32_t *bytes)
{
	const struct adapter_host *host = qp->adapter->host;
	uint8_t *frame = host->frame_room ? host->frame_room(qp) : NULL;
	uint32_t mtu = port_netdev_mtu(&qp->adapter->port);
	enum reason reason;
	int error;

	if (wqe->length < FRAME_MIN || wqe->length > (uint64_t)mtu + FRAME_OVERHEAD ||
	    wqe->length > RAW_FRAME_MAX) {
		refuse_wr(REASON_FRAME_LENGTH, "QP 0x%x, wr_id 0x%llx: %llu bytes, MTU %u",
			  qp->number, (unsigned long long)wqe->wr_id,
			  (unsigned long long)wqe->length, mtu);
		return fail(qp, IBV_WC_LOC_LEN_ERR, REASON_FRAME_LENGTH);
	}
	reason = frame ? gather(qp, wqe, frame) : REASON_NONE;
	if (reason) {
		refuse_wr(reason, "QP 0x%x, wr_id 0x%llx", qp->number,
			  (unsigned long long)wqe->wr_id);
		return fail(qp, IBV_WC_LOC_PROT_ERR, reason);
	}
	error = frame ? host->send_frame(qp->adapter, frame, wqe->length) : -ENODEV;
	if (error == -EAGAIN)
		return SENT_FULL;
	if (error) {
		refuse_wr(REASON_FRAME_REFUSED, "QP 0x%x, wr_id 0x%llx: errno %d", qp->number,
			  (unsigned long long)wqe->wr_id, -error);
		return fail(qp, IBV_WC_LOC_QP_OP_ERR, REASON_FRAME_REFUSED);
	}
	*bytes = (uint32_t)wqe->length;
	qp->requester->counters.sent_packets++;
	qp->requester->counters.sent_bytes += wqe->length;
	qp->requester->current++;
	return SENT;
}

/* ---- receiving ---- */

union taken {
	struct recv_wqe wqe;
	char room[sizeof(struct recv_wqe) + MAX_SGE * sizeof(struct ibv_sge)];
};

/* Whose a receive is: a QP's own or its SRQ's, or a work queue's. */
struct receiver {
	struct adapter *adapter;
	const struct pd *pd;
	struct cq *cq;
	struct wq *wq; /* NULL: of a QP */
	uint32_t number;
	bool strips_vlan;
};

/* Without its VLAN tag, where that is asked for: the addresses move up to the type behind it. */
static enum reason store(const struct receiver *to, const union taken *taken,
			 const struct frame *frame, uint32_t stripped)
{
	struct sge_list list = {to->adapter, to->pd, taken->wqe.sge, taken->wqe.num_sge};
	const uint32_t addresses = 2 * FRAME_MAC;
	struct sge_cursor cursor;
	enum reason reason;

	cursor_reset(&cursor);
	reason = payload_scatter(&list, &cursor, 0, frame->bytes, addresses);
	if (reason)
		return reason;
	return payload_scatter(&list, &cursor, addresses, frame->bytes + addresses + stripped,
			       (uint32_t)frame->length - addresses - stripped);
}

static void receive(const struct receiver *to, const union taken *taken, const struct frame *frame,
		    uint32_t tag, uint64_t now)
{
	bool strips = to->strips_vlan && frame->vlan_tag;
	uint32_t stripped = strips ? FRAME_VLAN : 0;
	struct cqe cqe = {
	    .wc = {.wr_id = taken->wqe.wr_id,
		   .opcode = IBV_WC_RECV,
		   .byte_len = (uint32_t)frame->length - stripped,
		   .qp_num = to->number},
	    .timestamp = now,
	    .flow_tag = tag,
	    .cvlan = strips ? frame->vlan_tag : 0,
	};
	enum reason reason = REASON_RECEIVE_TOO_SMALL;

	if (cqe.wc.byte_len <= taken->wqe.length)
		reason = store(to, taken, frame, stripped);
	if (reason) {
		refuse_wr(reason, "receive wr_id 0x%llx of %llu bytes, frame of %u",
			  (unsigned long long)cqe.wc.wr_id, (unsigned long long)taken->wqe.length,
			  cqe.wc.byte_len);
		cqe.wc.status =
		    reason == REASON_RECEIVE_TOO_SMALL ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR;
		cqe.wc.vendor_err = reason;
	}
	if (cq_push_cqe(to->cq, &cqe, true) && to->wq)
		wq_fail(to->wq);
}

static void to_wq(const struct qp *qp, const struct frame *frame, uint32_t tag, uint64_t now)
{
	uint32_t hash = frame_hash(frame, qp->hash_key, qp->hash_fields);
	struct wq *wq = qp->wq_table->wqs[hash & qp->wq_table->mask];
	struct receiver to = {qp->adapter, wq->pd,	   wq->cq,
			      wq,	   wq->ibv.wq_num, atomic_load(&wq->strips_vlan)};
	union taken taken;

	if (atomic_load(&wq->state) == IBV_WQS_RDY && recv_queue_take(&wq->queue, &taken.wqe) == 0)
		receive(&to, &taken, frame, tag, now);
}

static void to_qp(struct qp *qp, const struct frame *frame, uint32_t tag, uint64_t now)
{
	struct receiver to = {qp->adapter,    qp->srq ? qp->srq->pd : qp->pd,
			      receive_cq(qp), NULL,
			      qp->number,     qp->strips_vlan};
	union taken taken;

	if (qp_take_recv(qp, &taken.wqe) == 0)
		receive(&to, &taken, frame, tag, now);
}

static void take(const struct flow *flow, const struct frame *frame, void *data)
{
	const uint64_t *now = data;
	struct qp *qp = flow->qp;
	enum ibv_qp_state state = atomic_load_explicit(&qp->state, memory_order_relaxed);

	if (qp->wq_table)
		to_wq(qp, frame, flow->tag, *now);
	else if (state == IBV_QPS_RTR || state == IBV_QPS_RTS)
		to_qp(qp, frame, flow->tag, *now);
}

void transport_receive_frame(struct adapter *adapter, const uint8_t *bytes, size_t length,
			     uint64_t now)
{
	struct frame frame;

	if (frame_parse(&frame, bytes, length) == 0)
		flow_match(adapter, &frame, take, &now);
}
