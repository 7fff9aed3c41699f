/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The middle of a long SEND or WRITE over RC, at its responder, and of the responses to a READ, at
 * its requester: most packets of a stream are such, and differ in PSN and payload alone. What was
 * checked when the message began holds, and is not checked again; what can change from packet to
 * packet is. Whatever is not so plain is left for the pipeline (responder.c, completer.c), and then
 * nothing has changed.
 */
#include "device/access.h"
#include "device/adapter.h"
#include "device/memory.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "wire/opcode.h"

enum { MIGREQ = 0x40 }; /* the only bit of the second byte that means nothing here */

static enum message message_of(const struct packet *packet)
{
	switch (packet->bth[0]) {
	case TRANSPORT_RC | OP_SEND_MIDDLE:
		return MESSAGE_SEND;
	case TRANSPORT_RC | OP_WRITE_MIDDLE:
		return MESSAGE_WRITE;
	default:
		return MESSAGE_NONE;
	}
}

/* No pad, no FECN, BECN or AckReq: it is to be placed and nothing else. */
static bool is_plain(const struct packet *packet)
{
	const uint8_t *bth = packet->bth;

	return !(bth[1] & ~MIGREQ) && !bth[4] && !bth[8] && !congestion_is_marked(packet);
}

static bool is_from_peer(const struct qp *qp, const struct packet *packet)
{
	return gid_is_same(&packet->sgid, &qp->av.dgid) && gid_is_same(&packet->dgid, &qp->av.sgid);
}

/* The QP is in the midst of such a message, expects this packet, and has nothing else on its mind.
 */
static bool is_expected(const struct qp *qp, const struct packet *packet, enum message message)
{
	const struct responder *responder = qp->responder;
	int state = atomic_load_explicit(&qp->state, memory_order_relaxed);

	return (state == IBV_QPS_RTR || state == IBV_QPS_RTS) && qp->type == IBV_QPT_RC &&
	       responder->message == message && responder->psn == bth_psn(packet->bth) &&
	       packet->length == BTH_BYTES + (size_t)qp->mtu && !responder->is_fatal &&
	       !responder->has_told && !responder->is_unready && !responder->requests &&
	       (!responder->is_owed || aeth_kind(responder->syndrome) == AETH_ACK) && !qp->ledger &&
	       pkey_is_match(get_be16(packet->bth + 2), qp->pkey) && is_from_peer(qp, packet);
}

static bool place_send(struct qp *qp, const uint8_t *payload)
{
	struct responder *responder = qp->responder;
	struct sge_list list = {qp->adapter, receive_pd(qp), responder->recv.sge,
				responder->recv.num_sge};

	return responder->has_recv && responder->tag_mode == TAG_NONE && !responder->skip &&
	       responder->received + qp->mtu <= responder->recv.length &&
	       responder->received + qp->mtu <= MAX_MESSAGE_SIZE &&
	       !payload_scatter(&list, &responder->scatter, responder->received, payload, qp->mtu);
}

static bool place_write(struct qp *qp, const uint8_t *payload)
{
	struct responder *responder = qp->responder;
	struct access access;
	bool is_placed;

	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) ||
	    responder->received + qp->mtu >= responder->write_length ||
	    access_begin(qp, request_pd(qp, 0), responder->write_rkey,
			 responder->write_va + responder->received, qp->mtu,
			 IBV_ACCESS_REMOTE_WRITE, &access))
		return false;
	is_placed = !memory_store(access.place, payload, qp->mtu);
	access_end(&access);
	return is_placed;
}

static bool take_request(struct qp *qp, const struct packet *packet, enum message message)
{
	const uint8_t *payload = packet->bth + BTH_BYTES;
	struct responder *responder = qp->responder;

	if (!is_expected(qp, packet, message) ||
	    !(message == MESSAGE_SEND ? place_send(qp, payload) : place_write(qp, payload)))
		return false;
	responder->received += qp->mtu;
	responder->psn = psn_next(responder->psn);
	responder->has_acknowledged = false;
	return true;
}

/* It is what the oldest READ waits for, and not the last that its request asked for. */
static bool is_awaited(const struct qp *qp, const struct packet *packet)
{
	const struct requester *requester = qp->requester;

	return requester_is_alive(qp) && qp->type == IBV_QPT_RC && qp->has_communicated &&
	       requester->una == bth_psn(packet->bth) &&
	       packet->length == BTH_BYTES + (size_t)qp->mtu && requester->rd_sent &&
	       requester->rd_last[requester->rd_first] != requester->una &&
	       psn_compare(requester->psn, requester->una) > 0 && !requester->recovery &&
	       requester->rnr_deadline == NO_DEADLINE &&
	       sq_wqe(&qp->sq, sq_head(qp))->opcode == IBV_WR_RDMA_READ &&
	       pkey_is_match(get_be16(packet->bth + 2), qp->pkey) && is_from_peer(qp, packet);
}

static bool take_response(struct qp *qp, const struct packet *packet, uint64_t now)
{
	struct requester *requester = qp->requester;
	const struct send_wqe *wqe;
	struct sge_list list;
	uint64_t offset;

	if (!is_awaited(qp, packet))
		return false;
	wqe = sq_wqe(&qp->sq, sq_head(qp));
	list = wqe_list(qp, wqe);
	offset = (uint64_t)psn_into(requester->una, wqe->first_psn) * qp->mtu;
	if (psn_compare(requester->una, wqe->first_psn) < 0 || offset + qp->mtu >= wqe->length ||
	    payload_scatter(&list, &requester->scatter, offset, packet->bth + BTH_BYTES, qp->mtu))
		return false;
	requester->una = psn_next(requester->una);
	window_acknowledged(&requester->window, 1, requester->una);
	retry_progressed(qp, now);
	if (transport_waits(qp))
		qp->adapter->host->schedule(qp->adapter, qp);
	return true;
}

struct qp *middle_take(struct adapter *adapter, const struct packet *packet, uint64_t now)
{
	bool is_response = packet->bth[0] == (TRANSPORT_RC | OP_READ_RESPONSE_MIDDLE);
	enum message message = message_of(packet);
	struct qp *qp;

	if ((message == MESSAGE_NONE && !is_response) || !is_plain(packet))
		return NULL;
	qp = adapter_find_qp(adapter, bth_dest_qp(packet->bth));
	if (!qp ||
	    !(is_response ? take_response(qp, packet, now) : take_request(qp, packet, message)))
		return NULL;
	qp->requester->counters.received_packets++;
	qp->requester->counters.received_bytes += packet->length;
	return qp;
}
