/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The express path: a SEND of an RC QP to a QP of this host, when nothing is in its way. It goes
 * from the posting verb into a record of shared memory, and from there to the receive buffer, by a
 * few checks at each end and without the packets that it stands for: one for each path MTU of it.
 *
 * It is RC nevertheless. A record has their PSNs, and may bring the ACK of what its sender has
 * executed. Both ends are left as by the packets that it stands for, so that records and packets
 * may take turns at any message. What is not as it should be (a fence, a READ outstanding, no
 * receive, a key that does not fit) is found before anything has changed, and the general path does
 * it: posted again there, or taken in as those packets. A record that is lost is as a packet that
 * is lost.
 *
 * What needs the time or a turn of its own is left to the host: transport_is_late().
 *
 * All of it is under the lane's lock.
 */
#ifndef TRANSPORT_EXPRESS_H
#define TRANSPORT_EXPRESS_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "device/limits.h"
#include "device/srq.h"
#include "transport/packet.h"
#include "transport/reach.h"
#include "wire/headers.h"

struct adapter;
struct cq_taking;
struct qp;
struct recv_wqe;
struct responder;
struct send_queue;
struct send_wqe;
struct wire_packet;

enum {
	EXPRESS_BYTES = 64 << 10, /* payload at most */
	EXPRESS_WINDOW = 512,	  /* messages in flight, at most: the ring has room for them */
	EXPRESS_PSNS = 2048,	  /* and PSNs: as far as one that is lost goes again alone */
	EXPRESS_SGE = 4,
	EXPRESS_LIST_BYTES = 64 << 10, /* of a verb, without packets: then the rest has a turn */
	EXPRESS_ONE_BYTES = 1 << 20,   /* one message of it, as long as a turn's part */
};

enum express_flags {
	EXPRESS_ACK = 1, /* `ack` counts */
	EXPRESS_MESSAGE = 2,
	EXPRESS_IMM = 4,
	EXPRESS_SOLICITED = 8,
	EXPRESS_MANY = 16, /* behind the head are further ACKs, of other QPs; no message */
};

/* What has become of a message. */
enum express_step {
	EXPRESS_SENT,
	EXPRESS_WAITS, /* for room, which what is in flight will make */
	EXPRESS_STUCK, /* the general path knows what to do */
};

/* The head of a record, in the byte order of the host; the payload follows. */
struct express {
	uint32_t to; /* QP number, flags in the high byte */
	uint32_t psn;
	uint32_t ack; /* all up to this PSN is executed */
	__be32 imm;
	uint16_t pkey;
	uint16_t mtu; /* the sender's: of a longer message each so many bytes stand for a packet */
};

/* One of those. */
struct express_ack {
	uint32_t to; /* QP number */
	uint32_t ack;
};

/* Five slots of a ring: an ACK takes the seventh part of a cache line. */
enum { EXPRESS_ACKS = 37 };

static inline uint32_t express_qpn(const struct express *express)
{
	return express->to & 0xffffff;
}

static inline uint8_t express_flags(const struct express *express)
{
	return express->to >> 24;
}

/* So many packets, and PSNs, is a message. */
static inline uint32_t express_packets(uint32_t length, uint32_t mtu)
{
	return length <= mtu ? 1 : (length + mtu - 1) / mtu;
}

/* What counters count of the packets that it stands for: BTH to pad. */
static inline uint32_t express_packet_bytes(uint32_t length, uint32_t packets, bool has_imm)
{
	return packets * BTH_BYTES + (has_imm ? sizeof(__be32) : 0) + ((length + 3) & ~3u);
}

/*
 * Posts what is fit for it of a list, and sends it; or what is in flight fills the ring, and then
 * it waits in the send queue for express_advance(). The first that is not fit, for the general path
 * to post (or to refuse); NULL if that was all.
 */
struct ibv_send_wr *express_post(struct qp *qp, struct ibv_send_wr *wr, struct outbox *outbox);

/*
 * The same between two processes, in steps, for messages of one element and one packet on a QP that
 * express_may_leave(): which holds until a QP of the adapter changes (adapter->qp_changes). Between
 * express_begin_plain() and sq_commit() a record is as long as express_plain_size() says, 0 if the
 * work request is not plain; it is written, shown, and then what may have to go again written down.
 */
bool express_may_leave(const struct qp *qp);
bool express_begin_plain(struct qp *qp);
size_t express_plain_size(const struct qp *qp, const struct ibv_send_wr *wr);
bool express_write_plain(struct qp *qp, const struct ibv_send_wr *wr, struct express *express);
void express_keep_plain(struct qp *qp, const struct ibv_send_wr *wr);

/*
 * Where what the next message of a QP looks at is, to be asked for ahead of its turn: with many
 * queue pairs it was pushed out of the caches since the last. Of `host`, the host's own, that is
 * what comes first.
 */
enum { EXPRESS_HOST_BYTES = 128 };

struct express_lines {
	const char *host, *qp, *requester, *responder, *wqe;
};

void express_note_lines(const struct qp *qp, const void *host, struct express_lines *lines);
void express_fetch_lines(const struct express_lines *lines);

/* The same of an ACK that comes soon: the QP, and when that is there, what it points to. */
void express_fetch_qp(const struct qp *qp);
void express_fetch_sent(const struct qp *qp);

/*
 * Sends what waits in the send queue, as far as there is room. False if the QP needs its turn for
 * that: what waits is not fit, or waits for something else.
 */
bool express_advance(struct qp *qp, struct outbox *outbox);

/*
 * The same of the next message alone, where the general path has come to it: a stream that once
 * went by packets, as nobody polled yet or a message waited, does not do so to its end. Its
 * `bytes`, if it was sent. Nothing is said to the timers.
 */
enum express_step express_go_on(struct qp *qp, struct outbox *outbox, uint32_t *bytes);

/*
 * The same where the peer is a QP of this process: executed at once, without a record or an ACK,
 * and WRITEs and READs too. All that went before has to be taken in there, and both lanes' locks
 * are held.
 */
struct ibv_send_wr *express_execute(struct qp *qp, struct qp *peer, struct ibv_send_wr *wr,
				    uint64_t now);

/* Whether the peer, of RC, is connected to this QP, by the same addresses and in its partition. */
bool express_is_paired(const struct qp *qp, const struct qp *peer);

/*
 * What of that stays as it is until one of the two QPs changes (adapter->qp_changes): states,
 * addresses, rights, what is counted. EXPRESS_MAY_*, 0 if none.
 */
enum express_terms { EXPRESS_MAY_SEND = 1, EXPRESS_MAY_WRITE = 2, EXPRESS_MAY_READ = 4 };

unsigned int express_terms(const struct qp *qp, const struct qp *peer);

/*
 * The same on such terms, which still hold, with the lock of the lane that both are on: those of
 * one element that such a list begins with.
 */
struct ibv_send_wr *express_execute_plain(struct qp *qp, struct qp *peer, unsigned int terms,
					  struct ibv_send_wr *wr, uint64_t now);

/*
 * The WRITEs and READs that such a list begins with, where the peer is a QP of another process and
 * its memory is mapped here: done at once. An ACK that is owed leaves first, as a record;
 * *has_answered says so.
 */
struct ibv_send_wr *express_reach(struct qp *qp, struct ibv_send_wr *wr, uint64_t now,
				  struct outbox *outbox, bool *has_answered);

/*
 * The same in steps, of those of one element on a QP that express_may_leave(), for who knows a
 * quicker way there: between express_begin_reach(), which says whether anything is in the way, and
 * sq_commit() each is found, done as `op` says it, and ended.
 */
struct express_reach {
	struct reach_op op;
	struct iovec piece;
	uint8_t data[MAX_INLINE];
};

bool express_begin_reach(struct qp *qp);
bool express_find_reach(const struct qp *qp, const struct ibv_send_wr *wr,
			struct express_reach *reach);
void express_end_reach(struct qp *qp, const struct ibv_send_wr *wr, uint64_t now);

/*
 * A QP that takes messages into receives of its own or of a basic SRQ; where the next message goes,
 * into a receive of one element; where it would go of any receive, NULL if there is no room; and
 * that it is there. Of an SRQ a receive is taken at once, for others take from it as well: what
 * does not come after all, or only once something else was done, leaves it to the responder.
 */
struct express_receive {
	char *place;
	uint64_t wr_id;
	union {
		struct recv_wqe taken;
		char taken_room[RECV_WQE_SINGLE];
	};
};

struct express_arrival {
	uint64_t wr_id;
	uint32_t length;
	uint32_t last; /* PSN */
	__be32 imm;
	bool has_imm, is_solicited;
};

bool express_receives(const struct qp *qp);
bool express_has_receives(const struct qp *qp); /* and may not have heard of its peer yet */
bool express_find_receive(struct qp *qp, uint32_t length, struct express_receive *receive);
void express_leave_receive(struct qp *qp, const struct express_receive *receive);
void express_drop_receive(struct qp *qp); /* it is done */
char *express_room_of(struct qp *qp, const struct recv_wqe *recv, uint32_t length);
void express_complete_receive(struct qp *qp, const struct express_arrival *arrival,
			      struct cq_taking *taking, uint64_t now);

/* What both have behind the copy, in a verb that posts: the work request is done before anybody
 * sees it. Of a SEND its PSN and what counters say as well. */
void express_retire(struct qp *qp, const struct ibv_send_wr *wr, enum ibv_wc_opcode opcode,
		    uint32_t length, uint64_t now);
void express_complete_send(struct qp *qp, const struct ibv_send_wr *wr, uint32_t length,
			   uint64_t now);

/* Takes a record in. False if it has to go by the general path, and then nothing has changed. */
bool express_take(struct qp *qp, const struct packet *packet, const struct express *express,
		  uint64_t now);

/*
 * The same of a message of one packet, of its ACK, or both, where express_may_arrive() still holds:
 * this QP takes such from where the packet is from. Neither changes until a QP of the adapter does
 * (adapter->qp_changes). Completions go to who polls (`taking`, or NULL) or to their CQs.
 */
bool express_may_arrive(const struct qp *qp, const struct packet *packet);
bool express_arrive(struct qp *qp, const struct express *express, const struct packet *packet,
		    struct cq_taking *taking, uint64_t now);

/* The same for an ACK, whatever else the record brings, where its QP has to be asked. `taking` is
 * this thread's. */
bool express_take_ack(struct qp *qp, const struct packet *packet, uint16_t pkey, uint32_t psn,
		      struct cq_taking *taking, uint64_t now);

/* The same for packets, however they came, that a record could have been: a SEND of one packet, an
 * ACK, or both (plain.h). */
bool express_take_packet(struct qp *qp, const struct packet *packet, const struct express *express,
			 const uint8_t *payload, uint32_t length, uint64_t now);
bool express_take_packet_ack(struct qp *qp, const struct packet *packet,
			     const struct express *express, uint64_t now);

/*
 * ACKs that are owed, of several QPs in a record: begun by zeros and an outbox. While
 * express_acks_take() is true of a QP its ACK may be added; that is false if there is no room, or
 * if something else has to be answered: then the QP needs its turn. Nothing else may be reserved
 * until express_acks_send(), which says how many that were.
 */
struct express_acks {
	struct outbox *outbox;
	struct express *record; /* NULL: none is begun */
	uint32_t count;
};

bool express_acks_take(const struct express_acks *acks, const struct qp *qp);
bool express_acks_add(struct express_acks *acks, struct qp *qp);
uint32_t express_acks_send(struct express_acks *acks);

/* The same of one QP. */
bool express_acknowledge(struct qp *qp, struct outbox *outbox);

/* Nothing but an ACK is owed; and it goes along with a record: its flag, or 0. */
bool express_owes(const struct responder *responder);
uint32_t express_add_ack(struct qp *qp, uint32_t *ack);

/* How many ACKs a record of EXPRESS_MANY brings; all of them (0: more than there may be), for its
 * sender could still change it; and one as a record of its own. */
uint32_t express_count_acks(const struct packet *packet);
uint32_t express_copy_acks(const struct packet *packet, const struct express *head,
			   struct express_ack acks[EXPRESS_ACKS]);
struct express express_ack_at(const struct packet *packet, const struct express *head,
			      uint32_t index);

/* Of a work request, with the send queue's lock: whether anything is in its way (all that was
 * posted has left, for one), whether it is of the kind, whether it is short enough as well, whether
 * there is room. */
bool express_is_free(const struct qp *qp);
bool express_is_kind(const struct qp *qp, const struct ibv_send_wr *wr);
bool express_is_fit(const struct qp *qp, const struct ibv_send_wr *wr, uint32_t *length);
bool express_has_room(const struct send_queue *sq);

/* Its payload; false if there is something to say about a key or an address. */
bool express_gather(const struct qp *qp, const struct ibv_send_wr *wr, uint8_t *to);

/* The same of one element, *sum going on over it (memory_load_sum()). */
bool express_gather_sum(const struct qp *qp, const struct ibv_sge *sge, uint8_t *to, uint32_t *sum);

/* The head of its record, which takes the ACK along that is owed. */
void express_head(struct qp *qp, enum ibv_wr_opcode opcode, unsigned int send_flags, __be32 imm,
		  struct express *express);

/* Writes it down as the general path would post it, but for inline data and PSNs; and with those,
 * that it has left. */
void express_keep(const struct qp *qp, const struct ibv_send_wr *wr, uint32_t length,
		  struct send_wqe *wqe);
void express_sent(struct qp *qp, struct send_wqe *wqe, uint32_t length, uint32_t packets);

/* Of a record: its ACK is for something in flight, and all of that completes; it is so. Its last
 * PSN is owed an ACK. What counters say of it. */
bool express_can_acknowledge(const struct qp *qp, uint32_t psn);
void express_acknowledged(struct qp *qp, uint32_t psn, struct cq_taking *taking, uint64_t now);
void express_owe(struct qp *qp, uint32_t psn);
void express_count(struct qp *qp, const struct express *express, uint32_t length, uint32_t packets);

/* The packets that a record stands for: an ACK, those of a request. False if it has none such. */
bool express_ack_packet(const struct express *express, struct wire_packet *wire);
bool express_request_packet(const struct express *express, const struct packet *packet,
			    uint32_t index, struct wire_packet *wire);

#endif
