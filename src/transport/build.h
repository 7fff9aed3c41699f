/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Building a packet in the room that the outbox gives: headers by the opcode table, pad zeroed, the
 * payload left to the caller, who then closes. Not closing takes the packet back.
 */
#ifndef TRANSPORT_BUILD_H
#define TRANSPORT_BUILD_H

#include "device/qp.h"
#include "transport/packet.h"
#include "transport/requester.h"
#include "wire/icrc.h"
#include "wire/parse.h"

/* The high bits of all its opcodes. */
static inline uint8_t transport_of(const struct qp *qp)
{
	if (qp_is_xrc(qp))
		return TRANSPORT_XRC;
	return qp->type == IBV_QPT_UC ? TRANSPORT_UC : TRANSPORT_RC;
}

/* The BTH of every packet of a connected QP; MigReq is 1 (no path migration: 17.2.8, and ConnectX
 * insists). */
static inline struct bth bth_of(const struct qp *qp, uint8_t opcode, uint32_t psn)
{
	return (struct bth){
	    .opcode = opcode,
	    .migreq = true,
	    .pkey = qp->pkey,
	    .dest_qp = qp->attr.dest_qp_num,
	    .psn = psn,
	};
}

static inline size_t packet_size(const struct wire_packet *wire)
{
	return opcode_get(wire->bth.opcode)->header_bytes + wire->payload_length +
	       wire_pad(wire->payload_length);
}

/* Where the payload goes, NULL when the outbox is full. */
static inline uint8_t *packet_open(struct outbox *outbox, const struct av *av,
				   const struct wire_packet *wire)
{
	uint8_t *bytes = outbox->reserve(outbox, av, wire->bth.dest_qp, packet_size(wire));

	if (!bytes)
		return NULL;
	bytes += wire_pack(bytes, wire);
	memset(bytes + wire->payload_length, 0, wire_pad(wire->payload_length));
	return bytes;
}

/*
 * The same for a packet of a link that takes sums: its payload is to be summed on from *sum, where
 * it is copied. NULL also where the link does not take this one's.
 */
static inline uint8_t *packet_open_summed(struct outbox *outbox, const struct av *av,
					  const struct wire_packet *wire, uint32_t *sum)
{
	uint8_t *bytes;
	uint32_t stride;
	size_t head;

	if (!outbox->takes_sums || !wire->payload_length || wire_pad(wire->payload_length) ||
	    !outbox->reserve_run(outbox, av, wire->bth.dest_qp, wire->bth.opcode, packet_size(wire),
				 1, &bytes, &stride))
		return NULL;
	head = wire_pack(bytes, wire);
	*sum = icrc_sum(0, bytes + BTH_BYTES, head - BTH_BYTES);
	return bytes + head;
}

static inline void packet_close(struct qp *qp, struct outbox *outbox,
				const struct wire_packet *wire)
{
	size_t size = packet_size(wire);

	outbox->commit(outbox, size);
	qp->requester->counters.sent_packets++;
	qp->requester->counters.sent_bytes += size;
}

static inline void packet_close_summed(struct qp *qp, struct outbox *outbox,
				       const struct wire_packet *wire, uint8_t *payload,
				       uint32_t sum)
{
	size_t size = packet_size(wire);

	put_le32(payload + wire->payload_length, sum);
	outbox->commit_run(outbox, size, 1, true);
	qp->requester->counters.sent_packets++;
	qp->requester->counters.sent_bytes += size;
}

#endif
