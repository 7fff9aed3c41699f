/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ACKs of the express path. One goes along with the next message of its QP; those that find none go
 * together, for a record of its own is a cache line that moves from core to core. They are what
 * they would be alone, each of a QP: one that cannot be taken in is taken as a packet.
 */
#include <string.h>

#include "device/qp.h"
#include "transport/express.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "wire/opcode.h"

static size_t size_of(uint32_t count)
{
	return sizeof(struct express) + (count - 1) * sizeof(struct express_ack);
}

bool express_owes(const struct responder *responder)
{
	return responder->is_owed && aeth_kind(responder->syndrome) == AETH_ACK &&
	       !responder->job_count && !responder->is_reporting && !responder->owes_sign;
}

/* What it owes. */
static uint32_t take(struct qp *qp)
{
	qp->responder->is_owed = false;
	qp->requester->counters.acks_sent++;
	return qp->responder->answer_psn;
}

uint32_t express_add_ack(struct qp *qp, uint32_t *ack)
{
	if (!express_owes(qp->responder))
		return 0;
	*ack = take(qp);
	return EXPRESS_ACK;
}

uint32_t express_acks_send(struct express_acks *acks)
{
	uint32_t count = acks->record ? acks->count : 0;

	if (count > 1)
		acks->record->to |= EXPRESS_MANY << 24;
	if (count)
		acks->outbox->commit_express(acks->outbox, size_of(count));
	acks->record = NULL;
	acks->count = 0;
	return count;
}

static bool begin(struct express_acks *acks, const struct qp *qp)
{
	struct outbox *outbox = acks->outbox;
	uint32_t room = outbox->is_along ? EXPRESS_ACKS : 1;

	acks->record = outbox->reserve_express(outbox, &qp->av, qp->dest_qpn, size_of(room));
	if (!acks->record)
		return false;
	acks->record->to = qp->dest_qpn | EXPRESS_ACK << 24;
	acks->record->pkey = qp->pkey;
	return true;
}

bool express_acks_take(const struct express_acks *acks, const struct qp *qp)
{
	const struct outbox *outbox = acks->outbox;

	return !acks->record ||
	       (acks->count < EXPRESS_ACKS && acks->record->pkey == qp->pkey && outbox->is_along &&
		outbox->is_along(outbox, &qp->av, qp->dest_qpn));
}

bool express_acks_add(struct express_acks *acks, struct qp *qp)
{
	struct express_ack ack;

	if (!express_owes(qp->responder) || !acks->outbox->reserve_express)
		return false;
	if (!acks->record && !begin(acks, qp))
		return false;
	ack = (struct express_ack){.to = qp->dest_qpn, .ack = take(qp)};
	if (!acks->count)
		acks->record->ack = ack.ack;
	else
		memcpy((uint8_t *)acks->record + size_of(acks->count), &ack, sizeof(ack));
	acks->count++;
	qp->requester->counters.sent_packets++;
	qp->requester->counters.sent_bytes += opcode_get(OP_ACKNOWLEDGE)->header_bytes;
	return true;
}

bool express_acknowledge(struct qp *qp, struct outbox *outbox)
{
	struct express_acks acks = {.outbox = outbox};

	return express_acks_add(&acks, qp) && express_acks_send(&acks);
}

/* ---- what came in ---- */

uint32_t express_count_acks(const struct packet *packet)
{
	return 1 +
	       (uint32_t)((packet->length - sizeof(struct express)) / sizeof(struct express_ack));
}

uint32_t express_copy_acks(const struct packet *packet, const struct express *head,
			   struct express_ack acks[EXPRESS_ACKS])
{
	uint32_t count = express_count_acks(packet);

	if (count > EXPRESS_ACKS)
		return 0;
	acks[0] = (struct express_ack){head->to, head->ack};
	memcpy(&acks[1], packet->bth + sizeof(*head), (count - 1) * sizeof(acks[0]));
	return count;
}

struct express express_ack_at(const struct packet *packet, const struct express *head,
			      uint32_t index)
{
	struct express one = {.ack = head->ack, .pkey = head->pkey};
	struct express_ack ack = {.to = head->to};

	if (index) {
		memcpy(&ack, packet->bth + size_of(index), sizeof(ack));
		one.ack = ack.ack;
	}
	one.to = (ack.to & 0xffffff) | EXPRESS_ACK << 24;
	return one;
}
