/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Explicit congestion notification (A17.9): a switch whose queue is long marks packets that say
 * they may be marked (ECT), instead of losing them. Whoever gets a marked request tells its sender
 * by a congestion notification packet, whatever make that is; a marked response tells the requester
 * itself, for it decides how much is on the way. Packets say so where the program's traffic class
 * does; and of themselves once the peer has shown that it is ours, since others may not answer
 * marks, and then a switch would have neither a sender that yields nor room.
 */
#include "device/adapter.h"
#include "transport/build.h"
#include "transport/requester.h"
#include "transport/responder.h"

enum { ECN_BITS = 3, ECN_ECT0 = 2, ECN_CE = 3 };

/* Once in so long, as adapters do: it is a state, not an event. */
static const uint64_t TELL_NS = 50000;

bool congestion_is_marked(const struct packet *packet)
{
	return (packet->traffic_class & ECN_BITS) == ECN_CE;
}

static void tell(struct qp *qp, uint64_t now, struct outbox *outbox)
{
	struct responder *responder = qp->responder;
	struct wire_packet wire;
	uint8_t *payload;

	if (responder->told_congestion && now - responder->told_congestion < TELL_NS)
		return;
	wire.bth = bth_of(qp, OPCODE_CNP, 0);
	wire.bth.becn = true;
	wire.payload_length = CNP_PAYLOAD_BYTES;
	payload = packet_open(outbox, &qp->av, &wire);
	if (!payload)
		return;
	memset(payload, 0, CNP_PAYLOAD_BYTES);
	packet_close(qp, outbox, &wire);
	responder->told_congestion = now;
}

void congestion_seen(struct qp *qp, const struct wire_packet *wire, uint64_t now,
		     struct outbox *outbox)
{
	if (wire->op->flags & OPF_RESPONSE)
		congestion_told(qp);
	else
		tell(qp, now, outbox);
}

/* Within an address there is nobody who could mark. */
void congestion_offer(struct qp *qp)
{
	struct av *av = &qp->av;

	if (!(av->traffic_class & ECN_BITS) && !gid_is_same(&av->sgid, &av->dgid))
		av->ecn = ECN_ECT0;
}

void congestion_told(struct qp *qp)
{
	struct requester *requester = qp->requester;

	requester->counters.congestion++;
	window_marked(&requester->window, &requester->probe.rtt, requester->end);
}
