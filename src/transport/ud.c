/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UD (9.8.3): one packet a message, to whom the work request says; nothing is answered. In the
 * receive buffer 40 bytes for the sender's network header come first.
 */
#include "device/adapter.h"
#include "transport/build.h"
#include "transport/completion.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "wire/opcode.h"

enum {
	QKEY_OWN = 1u << 31, /* in a work request: the QP's own Q_Key instead (10.2.5) */
	IPV4_HEADER = 20,
	UDP_HEADER = 8,
	UDP_NUMBER = 17,
};

void ud_head(struct qp *qp, uint32_t qpn, uint32_t qkey, bool has_imm, uint32_t length,
	     struct wire_packet *wire)
{
	uint8_t opcode = TRANSPORT_UD | (has_imm ? OP_SEND_ONLY_IMM : OP_SEND_ONLY);

	wire->bth = bth_of(qp, opcode, qp->requester->psn);
	wire->bth.dest_qp = qpn;
	wire->bth.fecn = pace_asks(qp, length);
	wire->payload_length = length;
	wire->deth = (struct deth){qkey & QKEY_OWN ? qp->attr.qkey : qkey, qp->number};
}

static enum sent fail(struct qp *qp, enum ibv_wc_status status, enum reason reason)
{
	requester_fail_wqe(qp, qp->requester->current, status, reason);
	return SENT_FAILED;
}

static enum sent fill_payload(struct qp *qp, const struct send_wqe *wqe, uint8_t *to)
{
	struct sge_list list = wqe_list(qp, wqe);
	enum reason reason;

	if (wqe->is_inline) {
		memcpy(to, wqe->data, wqe->length);
		return SENT;
	}
	reason = payload_gather(&list, &qp->requester->gather, 0, to, wqe->length);
	if (!reason)
		return SENT;
	refuse_wr(reason, "QP 0x%x, wr_id 0x%llx", qp->number, (unsigned long long)wqe->wr_id);
	return fail(qp, IBV_WC_LOC_PROT_ERR, reason);
}

enum sent ud_send(struct qp *qp, struct send_wqe *wqe, struct outbox *outbox, uint32_t *bytes)
{
	struct requester *requester = qp->requester;
	bool has_imm = wqe->opcode == IBV_WR_SEND_WITH_IMM;
	struct wire_packet wire;
	uint8_t *to;

	if (wqe->length > qp->mtu) {
		refuse_wr(REASON_DATAGRAM_TOO_LONG, "QP 0x%x, %llu bytes, MTU %u", qp->number,
			  (unsigned long long)wqe->length, qp->mtu);
		return fail(qp, IBV_WC_LOC_LEN_ERR, REASON_DATAGRAM_TOO_LONG);
	}
	ud_head(qp, wqe->ud.qpn, wqe->ud.qkey, has_imm, wqe->length, &wire);
	wire.bth.solicited = wqe->flags & IBV_SEND_SOLICITED;
	wire.imm = be32toh(wqe->imm_data);
	to = packet_open(outbox, &wqe->ud.av, &wire);
	if (!to)
		return SENT_FULL;
	if (fill_payload(qp, wqe, to) != SENT)
		return SENT_FAILED;
	packet_close(qp, outbox, &wire);
	*bytes = packet_size(&wire);
	requester->psn = requester->end = psn_next(requester->psn);
	requester->current++;
	return SENT;
}

/* What stood before the UDP header, as far as the program may look at it. */
void ud_network_header(const struct packet *packet, uint8_t *area)
{
	size_t udp_length = UDP_HEADER + packet->length + ICRC_BYTES;
	struct grh grh = {
	    .traffic_class = packet->traffic_class,
	    .next_header = UDP_NUMBER,
	    .hop_limit = packet->hop_limit,
	    .payload_length = udp_length,
	    .flow_label = packet->flow_label,
	};
	struct grh_ipv4 ipv4 = {
	    .tos = packet->traffic_class,
	    .ttl = packet->hop_limit,
	    .total_length = IPV4_HEADER + udp_length,
	};

	if (gid_is_ipv4(&packet->sgid)) {
		memcpy(ipv4.saddr, packet->sgid.raw + 12, sizeof(ipv4.saddr));
		memcpy(ipv4.daddr, packet->dgid.raw + 12, sizeof(ipv4.daddr));
		grh_ipv4_pack(area, &ipv4);
		return;
	}
	memcpy(grh.sgid, packet->sgid.raw, sizeof(grh.sgid));
	memcpy(grh.dgid, packet->dgid.raw, sizeof(grh.dgid));
	grh_pack(area, &grh);
}

/* 9.8.3.1: datagrams that find no receive work request are lost. One that doesn't fit is an error,
 * as on ConnectX. */
static enum verdict take_receive(struct arrival *arrival)
{
	struct responder *responder = arrival->qp->responder;

	if (!responder->has_recv && qp_take_recv(arrival->qp, &responder->recv))
		return NOT_READY;
	responder->has_recv = true;
	cursor_reset(&responder->scatter);
	if (GRH_BYTES + (uint64_t)arrival->wire->payload_length <= responder->recv.length)
		return PASS;
	refuse_wr(REASON_RECEIVE_TOO_SMALL,
		  "QP 0x%x, wr_id 0x%llx of %llu bytes, datagram of 40 and %u", arrival->qp->number,
		  (unsigned long long)responder->recv.wr_id,
		  (unsigned long long)responder->recv.length, arrival->wire->payload_length);
	return refuse_request(arrival, IBV_WC_LOC_LEN_ERR, REASON_RECEIVE_TOO_SMALL);
}

static enum verdict scatter(struct arrival *arrival)
{
	struct responder *responder = arrival->qp->responder;
	const struct qp *qp = arrival->qp;
	struct sge_list list = {qp->adapter, receive_pd(qp), responder->recv.sge,
				responder->recv.num_sge};
	uint8_t area[GRH_BYTES];
	enum reason reason;

	ud_network_header(arrival->packet, area);
	reason = payload_scatter(&list, &responder->scatter, 0, area, sizeof(area));
	if (!reason)
		reason = payload_scatter(&list, &responder->scatter, sizeof(area),
					 arrival->wire->payload, arrival->wire->payload_length);
	if (!reason)
		return PASS;
	refuse_wr(reason, "QP 0x%x, receive wr_id 0x%llx", qp->number,
		  (unsigned long long)responder->recv.wr_id);
	return refuse_request(arrival, IBV_WC_LOC_PROT_ERR, reason);
}

/*
 * Which header the area has, as A17.4.5.1 asks that a completion tells. The specification leaves
 * open where; ConnectX does it in the service level, which RoCE does not carry: 8 for UDP, with 2
 * for IPv4 or 1 for IPv6. UCX reads it there.
 */
uint8_t ud_packet_type(const struct packet *packet)
{
	return gid_is_ipv4(&packet->sgid) ? 8 | 2 : 8 | 1;
}

static void complete(struct arrival *arrival)
{
	const struct wire_packet *wire = arrival->wire;
	struct ibv_wc wc = {
	    .status = IBV_WC_SUCCESS,
	    .opcode = IBV_WC_RECV,
	    .byte_len = GRH_BYTES + wire->payload_length,
	    .src_qp = wire->deth.src_qp,
	    .wc_flags = IBV_WC_GRH,
	    .sl = ud_packet_type(arrival->packet),
	    .pkey_index = arrival->qp->attr.pkey_index,
	};

	if (wire->op->flags & OPF_IMM) {
		wc.imm_data = htobe32(wire->imm);
		wc.wc_flags |= IBV_WC_WITH_IMM;
	}
	recv_complete(arrival->qp, &wc, wire->bth.solicited, arrival->now);
}

void ud_receive(struct arrival *arrival)
{
	struct qp *qp = arrival->qp;
	enum verdict verdict = PASS;

	/* 10.2.5: a Q_Key that doesn't fit is a message for somebody else */
	if (arrival->wire->deth.qkey != qp->attr.qkey) {
		atomic_fetch_add_explicit(&qp->adapter->bad_qkey, 1, memory_order_relaxed);
		qp->requester->counters.dropped++;
		return;
	}
	verdict = take_receive(arrival);
	if (verdict == PASS)
		verdict = scatter(arrival);
	if (verdict == PASS) {
		complete(arrival);
		return;
	}
	qp->requester->counters.dropped++;
	if (verdict == REFUSED) {
		recv_complete_error(qp, arrival->status, arrival->reason, arrival->now);
		qp_enter_error(qp, arrival->now);
	}
}
