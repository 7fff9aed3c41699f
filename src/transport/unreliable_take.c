/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs of UC and UD on their way in, of one packet and into a receive of one element. All is
 * looked at before anything changes. A packet of another process of this host lies where its sender
 * could still change it: so its head is copied first.
 */
#include "base/bytes.h"
#include "base/hot.h"
#include "device/adapter.h"
#include "device/av.h"
#include "device/memory.h"
#include "transport/completion.h"
#include "transport/express.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/unreliable.h"
#include "wire/opcode.h"

struct head {
	uint8_t bth[BTH_BYTES];
	struct deth deth; /* UD */
	uint32_t imm;
	bool is_datagram, has_imm;
	const uint8_t *payload;
	uint32_t length;
};

static bool is_send(uint8_t opcode)
{
	uint8_t transport = opcode_transport(opcode), operation = opcode_operation(opcode);

	return (transport == TRANSPORT_UD || transport == TRANSPORT_UC) &&
	       (operation == OP_SEND_ONLY || operation == OP_SEND_ONLY_IMM);
}

/* Version 0, and no sign but the question of the pace. */
static bool is_plain(const uint8_t *bth)
{
	return !(bth[1] & ~(BTH_SOLICITED | BTH_MIGREQ | BTH_PAD)) && !(bth[4] & ~BTH_FECN) &&
	       !bth[8];
}

static bool load(const struct packet *packet, uint8_t opcode, struct head *head)
{
	const struct opcode *op = opcode_get(opcode);
	uint32_t pad;

	if (packet->length < op->header_bytes || packet->length % 4)
		return false;
	memcpy(head->bth, packet->bth, BTH_BYTES);
	head->bth[0] = opcode;
	pad = bth_pad_count(head->bth);
	if (!is_plain(head->bth) || packet->length < op->header_bytes + pad)
		return false;
	head->is_datagram = op->deth_at;
	head->deth.src_qp = 0; /* a connection has it by itself */
	if (op->deth_at)
		deth_unpack(&head->deth, packet->bth + op->deth_at);
	head->has_imm = op->immdt_at;
	if (op->immdt_at)
		head->imm = immdt_unpack(packet->bth + op->immdt_at);
	head->payload = packet->bth + op->header_bytes;
	head->length = (uint32_t)(packet->length - op->header_bytes - pad);
	return true;
}

static bool is_for_datagrams(const struct qp *qp, const struct packet *packet,
			     const struct head *head)
{
	return qp->type == IBV_QPT_UD && head->deth.qkey == qp->attr.qkey &&
	       !gid_is_multicast(&packet->dgid);
}

/* From its peer; and no message has begun. */
static bool is_for_connected(const struct qp *qp, const struct packet *packet,
			     const struct head *head)
{
	return qp->type == IBV_QPT_UC && qp->has_communicated && head->length <= qp->mtu &&
	       qp->responder->message == MESSAGE_NONE && responder_is_from_peer(qp, packet);
}

/* Whoever asks is of this host as well, and the answer goes where others went. */
static bool may_answer(const struct qp *qp, const struct packet *packet, const struct head *head,
		       const struct outbox *outbox)
{
	struct av av = pace_answer_av(qp, packet);

	return outbox && outbox->has_records &&
	       outbox->has_records(outbox, &av,
				   head->is_datagram ? head->deth.src_qp : qp->attr.dest_qp_num);
}

static bool is_welcome(const struct qp *qp, const struct packet *packet, const struct head *head)
{
	return express_has_receives(qp) &&
	       (head->is_datagram ? is_for_datagrams(qp, packet, head)
				  : is_for_connected(qp, packet, head)) &&
	       pkey_is_match(get_be16(head->bth + 2), qp->pkey) && !qp->responder->has_recv &&
	       cq_has_room(qp->recv_cq, 1);
}

static bool move(const struct packet *packet, const struct head *head, char *place)
{
	uint8_t area[GRH_BYTES];

	if (head->is_datagram) {
		ud_network_header(packet, area);
		if (memory_move(place, (const char *)area, sizeof(area)))
			return false;
		place += sizeof(area);
	}
	return !memory_move(place, (const char *)head->payload, head->length);
}

static bool fill(struct qp *qp, const struct packet *packet, const struct head *head,
		 uint32_t length, struct express_receive *receive)
{
	if (!express_find_receive(qp, length, receive))
		return false;
	if (move(packet, head, receive->place))
		return true;
	express_leave_receive(qp, receive);
	return false;
}

static void count(const struct qp *qp, const struct packet *packet)
{
	qp->requester->counters.received_packets++;
	qp->requester->counters.received_bytes += packet->length;
}

static void fill_completion(const struct qp *qp, const struct packet *packet,
			    const struct head *head, struct ibv_wc *wc)
{
	if (head->is_datagram) {
		wc->src_qp = head->deth.src_qp;
		wc->wc_flags = IBV_WC_GRH;
		wc->sl = ud_packet_type(packet);
		wc->pkey_index = qp->attr.pkey_index;
	}
	if (head->has_imm) {
		wc->imm_data = htobe32(head->imm);
		wc->wc_flags |= IBV_WC_WITH_IMM;
	}
}

static void complete(struct qp *qp, const struct packet *packet, const struct head *head,
		     uint64_t wr_id, uint32_t length, struct cq_taking *taking, uint64_t now)
{
	struct completion completion;
	struct ibv_wc *wc;

	express_drop_receive(qp);
	count(qp, packet);
	if (!head->is_datagram)
		qp->responder->psn = psn_next(bth_psn(head->bth));
	wc = completion_begin(&completion, qp->recv_cq, taking, now);
	if (head->is_datagram)
		wc_fill(wc, wr_id, IBV_WC_RECV, length, qp->number);
	else
		wc_fill_receive(wc, qp, wr_id, length);
	fill_completion(qp, packet, head, wc);
	completion_end(&completion, qp, qp->recv_cq, head->bth[1] & BTH_SOLICITED);
}

static struct qp *take_send(struct adapter *adapter, const struct packet *packet, uint8_t opcode,
			    struct cq_taking *taking, uint64_t now, struct outbox *outbox)
{
	struct express_receive receive;
	struct head head;
	uint32_t length;
	struct qp *qp;
	bool asks;

	if (!load(packet, opcode, &head))
		return NULL;
	qp = adapter_find_qp(adapter, bth_dest_qp(head.bth));
	if (!qp || !is_welcome(qp, packet, &head) || qp->lane != packet->lane)
		return NULL;
	length = head.length + (head.is_datagram ? GRH_BYTES : 0);
	asks = bth_has_fecn(head.bth);
	if ((asks && !may_answer(qp, packet, &head, outbox)) ||
	    !fill(qp, packet, &head, length, &receive))
		return NULL;
	complete(qp, packet, &head, receive.wr_id, length, taking, now);
	if (asks)
		pace_answer(qp, packet, bth_psn(head.bth), head.deth.src_qp, outbox);
	return qp;
}

/* ---- an answer ---- */

static bool is_answer(const struct packet *packet, const uint8_t *bth)
{
	return packet->length == BTH_BYTES + CNP_PAYLOAD_BYTES && !(bth[1] & ~BTH_MIGREQ) &&
	       bth[4] == BTH_BECN && !bth[8];
}

static bool is_sending(const struct qp *qp, const struct packet *packet)
{
	return atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_RTS &&
	       (qp->type == IBV_QPT_UD ||
		(qp->type == IBV_QPT_UC && responder_is_from_peer(qp, packet)));
}

static struct qp *take_answer(struct adapter *adapter, const struct packet *packet)
{
	uint8_t bth[BTH_BYTES];
	struct qp *qp;

	if (packet->length < sizeof(bth))
		return NULL;
	memcpy(bth, packet->bth, sizeof(bth));
	if (!is_answer(packet, bth))
		return NULL;
	qp = adapter_find_qp(adapter, bth_dest_qp(bth));
	if (!qp || !is_sending(qp, packet) || qp->lane != packet->lane ||
	    !pkey_is_match(get_be16(bth + 2), qp->pkey))
		return NULL;
	count(qp, packet);
	pace_confirm(qp, bth_psn(bth));
	return qp;
}

WHOLE struct qp *unreliable_take(struct adapter *adapter, const struct packet *packet,
				 struct cq_taking *taking, uint64_t now, struct outbox *outbox)
{
	uint8_t opcode = packet->bth[0];

	if (is_send(opcode))
		return take_send(adapter, packet, opcode, taking, now, outbox);
	return opcode == OPCODE_CNP ? take_answer(adapter, packet) : NULL;
}
