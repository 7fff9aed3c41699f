/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What processes say to each other over their slots' mailboxes: "who has the sockets of this
 * address?", the answer with the vault's descriptors, packets that reached the wrong process, and
 * offers of shared memory and of lines. Between users there is one thing to say, "not here".
 * Processes with another version of this format are ignored.
 */
#ifndef ENGINE_MEETING_H
#define ENGINE_MEETING_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "engine/slot.h"
#include "engine/vault.h"
#include "transport/packet.h"

enum meeting_type {
	MEETING_ASK = 1,
	MEETING_HERE,
	MEETING_NOT_HERE,
	MEETING_PACKET,
	/* line.h */
	MEETING_LINE,	/* to oneself: QP `question` wants a line to `slot` */
	MEETING_BRANCH, /* the file of a domain follows; with the line's end and its ledger */
	MEETING_VISIT,	/* the file of a domain follows; to open QP `question`, with two sockets */
	/* neighbours.h */
	MEETING_OFFER,
	MEETING_ACCEPT,
	MEETING_INTRODUCE,
};

/* The one fixed head of all mail. */
struct meeting {
	uint32_t magic;
	uint16_t version;
	uint16_t type;	   /* enum meeting_type */
	union ibv_gid gid; /* the address that it is about; of a packet, where it came in */
	uint32_t scope;	   /* interface index of a link-local address, else 0 */
	uint32_t lanes;	   /* HERE: of the group; OFFER, ACCEPT: of the process */
	uint32_t question; /* ASK, OFFER, and the answers to them */

	/* OFFER, ACCEPT, INTRODUCE: from a lane to a way of a slot; LINE, BRANCH: the slot */
	uint32_t lane, slot, way;
	uint32_t is_again; /* VISIT: by who has visited the QP at its last home */

	/* of a packet; its bytes follow */
	union ibv_gid sgid, dgid;
	uint32_t flow_label;
	uint16_t source_port;
	uint8_t traffic_class, hop_limit;
};

/*
 * Asks all other slots for the group of an address. 0 with the vault and the number of lanes;
 * -ENOENT when all who live say that it is not theirs; -ETIMEDOUT when some didn't answer and none
 * had it.
 */
int meeting_ask(uint32_t own_slot, const union ibv_gid *gid, uint32_t scope, struct vault *vault,
		uint32_t *lanes);

/* A head of this type, all else zero. */
void meeting_head(struct meeting *meeting, enum meeting_type type);

/* The message that mail holds; NULL if it is none of ours. `length` is what follows the head. */
const struct meeting *meeting_of(const struct mail *mail, size_t *length);

/* Answers a question: with the vault, or NULL for "not here". */
void meeting_answer(int fd, const struct mail *mail, const struct vault *vault, uint32_t lanes);

/* Passes a packet on to its owner's mailbox, which is given a moment when it is full if `waits`; 0
 * or -errno. */
int meeting_forward(int fd, const struct mail_address *to, const union ibv_gid *gid, uint32_t scope,
		    const struct packet *packet, bool waits);

/* The packet in a message of type MEETING_PACKET, valid as long as the mail is. False if it is
 * malformed. */
bool meeting_packet(const struct meeting *meeting, size_t length, struct packet *packet);

#endif
