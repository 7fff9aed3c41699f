/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plain SENDs and their ACKs on their way in: most packets of small messages are such. Here is
 * whether a packet is of these; what its QP has to say about it is as of a record (express.h).
 */
#include <string.h>

#include "device/adapter.h"
#include "transport/express.h"
#include "transport/plain.h"
#include "transport/requester.h"
#include "wire/aeth.h"
#include "base/bytes.h"
#include "wire/opcode.h"

static struct express record_of(const uint8_t *bth)
{
	return (struct express){.psn = bth_psn(bth), .pkey = get_be16(bth + 2)};
}

/* Version 0, and no sign that is for the QP as a whole. */
static bool is_plain(const struct packet *packet, const uint8_t *bth, uint8_t flags)
{
	return !(bth[1] & ~(BTH_MIGREQ | flags)) && !bth[4] && !congestion_is_marked(packet);
}

bool plain_is_send(const struct packet *packet)
{
	const uint8_t *bth = packet->bth;

	return (bth[0] == (TRANSPORT_RC | OP_SEND_ONLY) ||
		bth[0] == (TRANSPORT_RC | OP_SEND_ONLY_IMM)) &&
	       bth[8] == BTH_ACK_REQ && packet->length % 4 == 0 &&
	       is_plain(packet, bth, BTH_SOLICITED | BTH_PAD);
}

/* Without a credit count. */
static bool is_bare_ack(const struct packet *packet, const uint8_t *bth)
{
	return bth[BTH_BYTES] == (AETH_ACK | AETH_CREDIT_NONE) && !bth[8] &&
	       is_plain(packet, bth, 0);
}

static bool is_ack(const struct packet *packet)
{
	return packet->bth[0] == (TRANSPORT_RC | OP_ACKNOWLEDGE) && packet->length == ACK_BYTES &&
	       is_bare_ack(packet, packet->bth);
}

/* With the ACK that it came behind, if it did. */
static bool is_message(const struct packet *packet)
{
	const uint8_t *ack = packet->ack;

	return plain_is_send(packet) &&
	       (!ack || (is_bare_ack(packet, ack) && !memcmp(ack + 2, packet->bth + 2, 2)));
}

static bool take_send(struct qp *qp, const struct packet *packet, uint64_t now)
{
	const struct opcode *op = opcode_get(packet->bth[0]);
	const uint8_t *bth = packet->bth;
	struct express express = record_of(bth);
	uint32_t flags = EXPRESS_MESSAGE, pad = bth_pad_count(bth);

	if (packet->length < op->header_bytes + pad)
		return false;
	if (op->immdt_at) {
		flags |= EXPRESS_IMM;
		express.imm = htobe32(immdt_unpack(bth + op->immdt_at));
	}
	if (packet->ack) {
		flags |= EXPRESS_ACK;
		express.ack = bth_psn(packet->ack);
	}
	flags |= bth[1] & BTH_SOLICITED ? EXPRESS_SOLICITED : 0;
	express.to = flags << 24;
	return express_take_packet(qp, packet, &express, bth + op->header_bytes,
				   (uint32_t)(packet->length - op->header_bytes - pad), now);
}

static bool take_ack(struct qp *qp, const struct packet *packet, uint64_t now)
{
	struct express express = record_of(packet->bth);

	return express_take_packet_ack(qp, packet, &express, now);
}

struct qp *plain_take(struct adapter *adapter, const struct packet *packet, uint64_t now)
{
	bool has_message = is_message(packet);
	struct qp *qp;

	if (!has_message && (packet->ack || !is_ack(packet)))
		return NULL;
	qp = adapter_find_qp(adapter, bth_dest_qp(packet->bth));
	if (!qp || !(has_message ? take_send(qp, packet, now) : take_ack(qp, packet, now)))
		return NULL;
	adapter->host->schedule(adapter, qp);
	return qp;
}
