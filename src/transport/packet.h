/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What passes between the transport and a link: a packet that came in, and an outbox for those that
 * go out. Neither side knows sockets: a link may be UDP, shared memory or a simulation.
 */
#ifndef TRANSPORT_PACKET_H
#define TRANSPORT_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "device/av.h"
#include "wire/headers.h"
#include "wire/opcode.h"

/*
 * Packets that are offered before anybody has checked them: whoever copies their payload has it
 * summed in the same pass, and knows then whether they are sound.
 */
struct seal {
	/* Copies all that a packet of the row has behind its BTH to the program's memory. False:
	 * the packet is not sound, or there is no memory, and what was copied is worth nothing. */
	bool (*open)(struct seal *seal, const uint8_t *payload, char *to, uint32_t length);
	uint32_t opened; /* and taken in: so many, from the first on */
};

/* A packet that came in: ICRC stripped, and checked, if it has no seal. Valid during the call it is
 * handed to. */
struct packet {
	const uint8_t *bth; /* from the BTH to the end of the pad */
	size_t length;
	bool is_express; /* it is no packet but a record (express.h): `bth` is where that begins */
	union ibv_gid sgid, dgid; /* from the IP header; dgid is a group's for multicast */
	uint8_t traffic_class, hop_limit;
	uint32_t flow_label;
	uint16_t source_port; /* UDP, host order */
	uint8_t lane;	      /* the lane that took it in: multicast is given to its own QPs only */
	/* So many lie behind it, each `stride` bytes behind the one before, that differ from it in
	 * their PSNs, each one more, and in their payload alone: opcode_comes_in_rows(). */
	uint32_t more, stride;
	struct seal *seal; /* NULL: it is open */
	/* The ACK that it came behind (OPCODE_ACK_AND), its BTH and AETH, for the same QP. NULL:
	 * none.
	 */
	const uint8_t *ack;
};

/* That ACK, as it would have come by itself, in so much room; the packet is without it then. */
static inline struct packet packet_part_ack(struct packet *packet, uint8_t room[ACK_BYTES])
{
	struct packet ack = *packet;

	memcpy(room, packet->ack, ACK_BYTES);
	room[0] = TRANSPORT_RC | OP_ACKNOWLEDGE;
	ack.bth = room;
	ack.length = ACK_BYTES;
	ack.more = 0;
	ack.ack = packet->ack = NULL;
	return ack;
}

/* On to the first that is behind `count` of them. False if there is none. */
static inline bool packet_pass(struct packet *packet, uint32_t count)
{
	if (packet->more < count)
		return false;
	packet->bth += (size_t)count * packet->stride;
	packet->more -= count;
	packet->ack = NULL;
	return true;
}

/* The first alone. */
static inline struct packet packet_single(const struct packet *packet)
{
	struct packet single = *packet;

	single.more = 0;
	return single;
}

/* How many packets of so many bytes, ICRC included, a segmented send takes (link/udp_link.h). */
static inline uint32_t packets_of_run(uint32_t bytes)
{
	enum { RUN_BYTES = 65000, RUN_PACKETS = 128 };

	return RUN_BYTES / bytes < RUN_PACKETS ? RUN_BYTES / bytes : RUN_PACKETS;
}

/* Segmented sends of a QP's turn: they leave by one system call, and all else waits meanwhile. */
enum { TURN_RUNS = 4 };

/*
 * Where packets go out. The link gives room in its staging buffer, the transport writes headers,
 * payload and pad there, and the link adds the ICRC when it sends. Under the lane's lock.
 *
 *	uint8_t *bth = outbox->reserve(outbox, &av, dest_qp, size);	size: BTH to pad
 *	if (!bth) ...							full: stop, be run again
 *	... write size bytes ...
 *	outbox->commit(outbox, size);
 *
 * At most one reservation is open; not committing it takes it back.
 */
struct outbox {
	uint8_t *(*reserve)(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
			    size_t size);
	void (*commit)(struct outbox *outbox, size_t size);

	/*
	 * Room for several packets of one size, the first of them of that opcode, each `stride`
	 * bytes behind the one before: for `count` of them or fewer, 0 where one at a time has to
	 * do. NULL itself: so it is always. The first `count` of them are committed together.
	 * `is_summed`, where the link takes sums: behind each packet, where the link's ICRC goes,
	 * stands the sum of all behind its BTH (icrc_sum()), made where that was copied, and the
	 * link need not read it again.
	 */
	uint32_t (*reserve_run)(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
				uint8_t opcode, size_t size, uint32_t count, uint8_t **bth,
				uint32_t *stride);
	void (*commit_run)(struct outbox *outbox, size_t size, uint32_t count, bool is_summed);
	bool takes_sums;

	/*
	 * The link takes an ACK with a packet behind its AETH as one packet (OPCODE_ACK_AND), that
	 * one no longer than av->carrier_max. It may be committed as a run of one, with its sum.
	 */
	bool joins_acks;

	/*
	 * The same for a record of the express path (express.h), where there is one to that QP:
	 * NULL where there is none, or no room. NULL itself: there is none at all.
	 */
	void *(*reserve_express)(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
				 size_t size);
	void (*commit_express)(struct outbox *outbox, size_t size);

	/* Whether records go to that QP, if there is room. */
	bool (*has_records)(const struct outbox *outbox, const struct av *av, uint32_t dest_qp);

	/* Whether a record to that QP would go where the one does that is reserved. */
	bool (*is_along)(const struct outbox *outbox, const struct av *av, uint32_t dest_qp);
};

#endif
