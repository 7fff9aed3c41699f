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

	return !(bth[1] & ~BTH_MIGREQ) && !bth[4] && !bth[8] && !congestion_is_marked(packet);
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
	       pkey_is_match(get_be16(packet->bth + 2), qp->pkey) &&
	       responder_is_from_peer(qp, packet);
}

/* How many of the packet and those behind it are whole within so many bytes. */
static uint32_t packets_within(const struct qp *qp, const struct packet *packet, uint64_t bytes)
{
	uint64_t whole = bytes / qp->mtu;

	return whole <= packet->more ? whole : 1 + packet->more;
}

static uint32_t place_send(struct qp *qp, const struct packet *packet)
{
	struct responder *responder = qp->responder;
	struct sge_list list = {qp->adapter, receive_pd(qp), responder->recv.sge,
				responder->recv.num_sge};
	struct payload_row row = {packet->bth + BTH_BYTES, packet->stride, qp->mtu, 0,
				  packet->seal};
	uint64_t room = responder->recv.length;

	if (room > MAX_MESSAGE_SIZE)
		room = MAX_MESSAGE_SIZE;
	if (!responder->has_recv || responder->tag_mode != TAG_NONE || responder->skip ||
	    responder->received > room)
		return 0;
	row.count = packets_within(qp, packet, room - responder->received);
	return payload_scatter_row(&list, &responder->scatter, responder->received, &row);
}

static uint32_t store(char *to, const uint8_t *from, uint32_t stride, uint32_t each, uint32_t count)
{
	uint32_t done = 0;

	for (; done < count && !memory_store(to, from, each); done++, to += each)
		from += stride;
	return done;
}

/* Its last packet is none of the middle. Programs look at what a WRITE brings before it is over, so
 * nothing of a packet that may not be sound is to be seen there. */
static uint32_t place_write(struct qp *qp, const struct packet *packet)
{
	struct responder *responder = qp->responder;
	struct access access;
	uint32_t count;

	if (packet->seal || !(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) ||
	    responder->received >= responder->write_length)
		return 0;
	count = packets_within(qp, packet, responder->write_length - responder->received - 1);
	if (!count || access_begin(qp, request_pd(qp, 0), responder->write_rkey,
				   responder->write_va + responder->received,
				   (uint64_t)count * qp->mtu, IBV_ACCESS_REMOTE_WRITE, &access))
		return 0;
	count = store(access.place, packet->bth + BTH_BYTES, packet->stride, qp->mtu, count);
	access_end(&access);
	return count;
}

static uint32_t take_requests(struct qp *qp, const struct packet *packet, enum message message)
{
	struct responder *responder = qp->responder;
	uint32_t count;

	if (!is_expected(qp, packet, message))
		return 0;
	count = message == MESSAGE_SEND ? place_send(qp, packet) : place_write(qp, packet);
	if (!count)
		return 0;
	responder->received += (uint64_t)count * qp->mtu;
	responder->psn = psn_add(responder->psn, count);
	responder->has_acknowledged = false;
	return count;
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
	       pkey_is_match(get_be16(packet->bth + 2), qp->pkey) &&
	       responder_is_from_peer(qp, packet);
}

/* How many of the packet and those behind it are none of the last that a request of it asked for.
 */
static uint32_t packets_asked(const struct requester *requester, const struct packet *packet)
{
	uint32_t before = psn_into(requester->rd_last[requester->rd_first], requester->una);

	return before <= packet->more ? before : 1 + packet->more;
}

static uint32_t take_responses(struct qp *qp, const struct packet *packet, uint64_t now)
{
	struct requester *requester = qp->requester;
	struct payload_row row = {packet->bth + BTH_BYTES, packet->stride, qp->mtu, 0,
				  packet->seal};
	const struct send_wqe *wqe;
	struct sge_list list;
	uint64_t offset;
	uint32_t count, within;

	if (!is_awaited(qp, packet))
		return 0;
	wqe = sq_wqe(&qp->sq, sq_head(qp));
	list = wqe_list(qp, wqe);
	offset = (uint64_t)psn_into(requester->una, wqe->first_psn) * qp->mtu;
	if (psn_compare(requester->una, wqe->first_psn) < 0 || offset >= wqe->length)
		return 0;
	within = packets_within(qp, packet, wqe->length - offset - 1);
	row.count = packets_asked(requester, packet);
	row.count = row.count < within ? row.count : within;
	count = payload_scatter_row(&list, &requester->scatter, offset, &row);
	if (!count)
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		requester->una = psn_next(requester->una);
		window_acknowledged(&requester->window, 1, requester->una);
	}
	retry_progressed(qp, now);
	probe_progressed(qp, now);
	if (transport_waits(qp))
		qp->adapter->host->schedule(qp->adapter, qp);
	return count;
}

struct qp *middle_take(struct adapter *adapter, const struct packet *packet, uint64_t now,
		       uint32_t *taken)
{
	bool is_response = packet->bth[0] == (TRANSPORT_RC | OP_READ_RESPONSE_MIDDLE);
	enum message message = message_of(packet);
	struct qp *qp;

	if ((message == MESSAGE_NONE && !is_response) || !is_plain(packet))
		return NULL;
	qp = adapter_find_qp(adapter, bth_dest_qp(packet->bth));
	if (!qp)
		return NULL;
	*taken = is_response ? take_responses(qp, packet, now) : take_requests(qp, packet, message);
	if (!*taken)
		return NULL;
	qp->requester->counters.received_packets += *taken;
	qp->requester->counters.received_bytes += *taken * packet->length;
	return qp;
}
