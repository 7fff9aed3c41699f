/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transport: RC, UC and UD between a QP's queues and packets. Sans-IO: packets, the time (ns,
 * monotonic) and randomness are arguments, and all is called with the lane's lock held.
 *
 * A packet's way in:  transport_receive() -> QP -> responder (requests) or completer (ACKs,
 * responses). A message's way out: host schedules the QP -> transport_run() -> requester -> outbox.
 */
#ifndef TRANSPORT_TRANSPORT_H
#define TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "transport/packet.h"

struct adapter;
struct express;
struct qp;
struct pd;

#define NO_DEADLINE UINT64_MAX

/* qp_create() and the transport's half of it; 0 or a positive errno (noted). */
int transport_create_qp(struct pd *pd, struct ibv_qp_init_attr_ex *attr, struct qp **qp);

struct ledger;
struct xrc_domain;

/* qp_create_branch() and the transport's half; the ledger has to outlive it. NULL without memory,
 * and then the reference of the domain is still the caller's. */
struct qp *transport_create_branch(struct adapter *adapter, struct xrc_domain *domain,
				   uint32_t number, struct ledger *ledger);

/* What a branch has to know of its QP, which the program sets there. */
struct qp_terms {
	enum ibv_qp_state state;
	struct ibv_qp_attr attr;
	struct av av;
	uint32_t mtu;
	uint16_t pkey;
};

void transport_get_terms(const struct qp *qp, struct qp_terms *terms);
/* False if they make no sense, or there is no memory. */
bool transport_set_terms(struct qp *branch, const struct qp_terms *terms);
/* The same of a QP that is taken over, in whatever state it is. */
bool transport_take_terms(struct qp *qp, const struct qp_terms *terms);

/* The QP is in error, whatever made it so. */
void transport_fail(struct qp *qp, uint64_t now);

/* What was under way to the peer, or from it, may be lost: it is asked to send again from what is
 * expected. */
void transport_ask_again(struct qp *qp);

/* Whether the peer waits for an answer that could not leave yet. */
bool transport_owes(const struct qp *qp);

/* It has an ACK to send, and no other answer. */
bool transport_owes_ack_alone(const struct qp *qp);

/* Responses are to follow. */
bool transport_has_responses(const struct qp *qp);

/* Whole segmented sends of responses have left, and less than one more is to follow. */
bool transport_has_rest(const struct qp *qp);

/* More of the peer's message is to come. */
bool transport_is_amid(const struct qp *qp);

/*
 * Before the QP goes: repeats its last ACK. Programs end when they have what they want; if the ACK
 * of the peer's last message is lost then, nobody is left to answer when the peer asks again.
 */
void transport_part(struct qp *qp, struct outbox *outbox);

/* After qp_unlist() and a quiesce. Nothing completes any more. */
void transport_free_qp(struct qp *qp);

/* qp_modify() and what follows from it: queues flushed, PSNs set, SQ drained, timers stopped. May
 * schedule the QP. */
int transport_modify_qp(struct qp *qp, const struct ibv_qp_attr *attr, int mask, uint64_t now);

/* qp_describe() and the transport's part: PSNs, draining. */
void transport_query_qp(const struct qp *qp, struct ibv_qp_attr *attr,
			struct ibv_qp_init_attr *init);

/*
 * Takes a packet in. Whatever it holds, nothing but the state of the QP that it names changes. An
 * answer may be owed afterwards (a coalesced ACK): the QP is scheduled, and answers when it is run
 * at the end of the batch. The QP that it was for, whose deadline may be another now; NULL if
 * there is none, or several are in a multicast group.
 */
struct qp *transport_receive(struct adapter *adapter, const struct packet *packet, uint64_t now,
			     struct outbox *outbox);

/*
 * Packets that have a seal: takes in those of the row whose payload nobody may see yet, and says in
 * the seal how many those are. The others are as if they had not come, and their QP is NULL.
 */
struct qp *transport_open(struct adapter *adapter, const struct packet *packet, uint64_t now);

/* The same for a packet that is known to be for this QP: a branch. */
void transport_receive_for(struct qp *qp, const struct packet *packet, uint64_t now,
			   struct outbox *outbox);

/*
 * The same for an Ethernet frame: the raw packet QPs that flows lead to get it, on whichever lane
 * they are; some lane's lock is held.
 */
void transport_receive_frame(struct adapter *adapter, const uint8_t *bytes, size_t length,
			     uint64_t now);

/*
 * Does what the QP has to do at this time: answers owed, retransmission where a deadline has
 * passed, new work requests as far as windows allow, flushing in the error state. True if it
 * stopped because the outbox was full or its turn (some 64 KiB) was over, and so wants another
 * turn.
 */
bool transport_run(struct qp *qp, uint64_t now, struct outbox *outbox);

/*
 * Whether what was just posted may wait for company: many requests are in flight whose answers
 * schedule the QP anyway, and what is waiting is small. Sending several packets at once costs
 * little more than sending one.
 */
bool transport_can_wait(const struct qp *qp);

/* What one QP has counted since its creation, under the lane's lock. Packets of both directions,
 * requester and responder. */
struct transport_counters {
	uint64_t sent_packets, sent_bytes, received_packets, received_bytes; /* bytes: BTH to pad */
	uint64_t acks_sent, acks_received; /* ACKNOWLEDGE packets that are no NAK */
	uint64_t expressed; /* messages that went by the express path (express.h); counted above */
	uint64_t resent;    /* request packets that had gone out before */
	uint64_t sequence_naks_sent, sequence_naks_received;
	uint64_t rnr_naks_sent, rnr_naks_received;
	uint64_t error_naks_sent, error_naks_received; /* invalid request, access, operational */
	uint64_t implied_naks; /* a response overtaken by a later one, so lost */
	uint64_t timeouts;
	uint64_t congestion;   /* notifications, and responses that came marked */
	uint64_t probes;       /* packets that went again because nothing came back (probe.h) */
	uint64_t duplicates;   /* requests seen before */
	uint64_t out_of_order; /* requests after a gap */
	uint64_t ghosts;       /* responses to nothing outstanding */
	uint64_t dropped; /* everything else that was ignored: wrong peer, state, opcode, P_Key,
			     Q_Key, no room */
	uint64_t reached; /* messages that made no packet (reach.h); not counted above */
	uint64_t offered, fetched; /* OFFERs that left; that came and were done (offer.h) */
};

const struct transport_counters *transport_counters(const struct qp *qp);

/*
 * A record of the express path, for who makes progress without the time. `taken` is told of each QP
 * that it was for, but for those that a record of several ACKs leaves nothing to do. False if
 * transport_receive() has to take it, to which ACKs that were taken of it are duplicates. `now` is
 * about what completions are told, no more. No QP is scheduled: see transport_is_late().
 */
struct glance {
	uint8_t lane;
	uint64_t now;
	void (*taken)(struct qp *qp, const struct packet *packet, void *data);
	void *data;
	struct outbox *outbox; /* of answers to packets: whether who gets them is to be woken is the
				  host's to find out */
};

bool transport_glance(struct adapter *adapter, const struct packet *packet,
		      const struct glance *glance);

/* The QP of this lane that a record of one message, or ACK, is for, and its head, which is copied:
 * its sender could still change it. NULL if it is none such. For express_arrive(). */
struct qp *transport_find_express(struct adapter *adapter, const struct packet *packet,
				  uint8_t lane, struct express *head);

/*
 * What the express path leaves to its host: an ACK that is owed, which the next message to the peer
 * takes along (transport_answers()), and what waits in the send queue (transport_waits()), both of
 * which are late; and an ACK timer that starts when the time is known.
 */
bool transport_answers(const struct qp *qp);
bool transport_waits(const struct qp *qp);
bool transport_is_late(const struct qp *qp);
bool transport_is_untimed(const struct qp *qp);
void transport_time(struct qp *qp, uint64_t now);

/* When transport_run() is due at the latest; NO_DEADLINE if nothing waits for the time to pass. */
uint64_t transport_deadline(const struct qp *qp);

#endif
