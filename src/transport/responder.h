/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder of a QP: what comes next, the message in progress, and the answers that are owed.
 *
 * Answers leave in PSN order. Responses with data (READ, atomics, FLUSH, ATOMIC WRITE) queue as
 * jobs, sorted by PSN; an ACK or NAK is owed behind them, one at most, because a later ACK covers
 * an earlier one and a response with data covers everything before it.
 *
 * All of it is under the lane's lock.
 */
#ifndef TRANSPORT_RESPONDER_H
#define TRANSPORT_RESPONDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/patience.h"
#include "device/cq.h"
#include "device/limits.h"
#include "device/qp.h"
#include "explain/reason.h"
#include "transport/payload.h"
#include "transport/transport.h"
#include "wire/aeth.h"
#include "wire/parse.h"
#include "wire/psn.h"

enum message {
	MESSAGE_NONE,
	MESSAGE_SEND,
	MESSAGE_WRITE,
};

/* What a message is to a tag matching SRQ. */
enum tag_mode {
	TAG_NONE,	/* no message of tag matching */
	TAG_NO_TAG,	/* for the program, uncounted: NO_TAG, FIN */
	TAG_UNEXPECTED, /* for the program */
	TAG_EXPECTED,	/* into the buffer of its tag, without the header */
	TAG_RENDEZVOUS, /* the buffer is filled by a READ of our own */
	TAG_INCOMPLETE, /* the same, but the program has to do it */
};

/* What the sender of a message tells in struct ibv_rvh. */
struct rendezvous {
	uint64_t va;
	uint32_t rkey, length;
	uint64_t tag;
	uint32_t context;
};

/* One whose READ could not be posted yet: the program is in the midst of posting. */
struct waiting_rendezvous {
	struct rendezvous what;
	union {
		struct recv_wqe recv;
		char recv_room[sizeof(struct recv_wqe) + MAX_SGE * sizeof(struct ibv_sge)];
	};
};

enum job_kind {
	JOB_READ,
	JOB_ATOMIC, /* an ATOMIC ACKNOWLEDGE with the original data */
	JOB_DONE,   /* a READ RESPONSE without data: FLUSH, ATOMIC WRITE */
};

struct response_job {
	enum job_kind kind;
	bool
	    is_again; /* for a duplicate request, which does not count against max_dest_rd_atomic */
	bool has_begun;	   /* a response has left: the next one is no FIRST */
	uint32_t psn;	   /* of the next response */
	uint32_t last_psn; /* of the last */
	uint32_t msn;
	uint32_t rkey;
	uint32_t srqn;	 /* XRC */
	uint32_t length; /* READ: of the whole */
	uint64_t va;	 /* READ: where the next response's data lie */
	union {
		uint64_t left; /* READ: bytes */
		uint64_t original;
	};
};

/* What an executed atomic (or FLUSH, ATOMIC WRITE) answered, for its duplicates (9.4.5). */
struct saved_result {
	bool is_used;
	enum job_kind kind;
	uint32_t psn;
	uint64_t original;
};

struct responder {
	/* what each message looks at comes first, in a cache line */
	uint32_t psn; /* expected */
	uint32_t msn;
	uint32_t answer_psn; /* of the answer that is owed */
	uint8_t syndrome;
	bool is_owed;
	bool is_fatal; /* the NAK owed ends the QP */
	bool has_told; /* a NAK of this gap, or an RNR NAK, is on its way: what comes behind is
			  dropped */
	enum message message;
	bool has_recv;	       /* `recv` is taken from the queue and not complete */
	bool is_reporting;     /* the peer is to hear of `requests` */
	bool is_unready;       /* an RNR NAK is on its way */
	bool owes_sign;	       /* the peer has asked what we are */
	bool has_acknowledged; /* the last request was a SEND's or WRITE's end, or asked */
	uint32_t job_count;    /* of `jobs` */
	struct hold *requests; /* that came behind a gap, from a peer of ours; NULL: none */
	uint32_t waiting_count;
	struct fetch *fetch; /* of the offer that has come and is not all here (fetch.h) */

	uint64_t received; /* bytes of the message in progress */
	uint64_t write_va, write_length;
	uint32_t write_rkey;
	uint32_t srqn; /* XRC: that of the message in progress names */

	uint64_t told_congestion; /* when; 0: never */
	uint64_t
	    behind_until; /* the ACK waits for the WRITE that it leaves behind; 0: it doesn't */

	struct patience lending; /* of responses, in READs: one that came again may have lost its
				    responses by it */
	struct response_job *jobs;
	uint32_t job_room;
	struct saved_result *saved;
	uint32_t saved_next, saved_room;
	uint32_t depth; /* max_dest_rd_atomic that the two have room for */

	struct sge_cursor scatter;
	/* of the message that `recv` is for, where the SRQ matches tags; tag.c */
	enum tag_mode tag_mode;
	struct rendezvous rendezvous; /* of an eager message tag and context alone */
	struct waiting_rendezvous
	    *waiting;  /* waiting_count of MAX_RNDV; NULL: its SRQ matches no tags */
	uint64_t skip; /* bytes of the message that go nowhere */

	union {
		struct recv_wqe recv;
		char recv_room[sizeof(struct recv_wqe) + MAX_SGE * sizeof(struct ibv_sge)];
	};
};

/* A request on its way through the checks. */
struct arrival {
	struct qp *qp;
	const struct packet *packet;
	const struct wire_packet *wire;
	uint64_t now;

	/* what a check that refuses leaves */
	uint8_t syndrome;
	enum ibv_wc_status status; /* of the receive WQE, if the message has one */
	enum ibv_event_type event; /* if it has none */
	enum reason reason;
};

/* Each check passes the request on or ends its way. */
enum verdict {
	PASS,
	DROP,
	NOT_READY, /* no receive WQE */
	DECLINED,  /* an offer that is to come as packets */
	LATER,	   /* the fetch of one goes on in a moment */
	REFUSED,   /* `arrival` says how */
};

/* It comes from whom the QP is connected to, by address, to the address that this one knows. */
static inline bool responder_is_from_peer(const struct qp *qp, const struct packet *packet)
{
	return gid_is_same(&packet->sgid, &qp->av.dgid) && gid_is_same(&packet->dgid, &qp->av.sgid);
}

/* The message at this PSN is the next one, and there is nothing else in mind. */
static inline bool responder_awaits(const struct responder *responder, uint32_t psn)
{
	return psn == responder->psn && responder->message == MESSAGE_NONE &&
	       !responder->has_recv && !responder->has_told && !responder->requests &&
	       !responder->is_fatal &&
	       (!responder->is_owed || aeth_kind(responder->syndrome) == AETH_ACK);
}

static inline bool message_starts(const struct wire_packet *wire)
{
	return wire->op->flags & OPF_START;
}

static inline bool message_ends(const struct wire_packet *wire)
{
	return wire->op->flags & OPF_END;
}

/* responder.c */
void responder_receive(struct arrival *arrival, struct outbox *outbox);
bool responder_run(struct qp *qp, uint64_t now, struct outbox *outbox);
/* The ACK or NAK that is owed, if there is one; false when the outbox is full. */
bool responder_answer(struct qp *qp, struct outbox *outbox);

/* It has left. */
static inline void responder_answered(struct responder *responder)
{
	responder->is_owed = false;
	responder->behind_until = 0;
}

/* A receive work request that was taken out of an SRQ is the next message's, or the one to flush.
 */
void responder_hold(struct responder *responder, const struct recv_wqe *taken);

void responder_fetch(struct qp *qp, uint64_t now); /* what was LATER */
void responder_part(struct qp *qp, struct outbox *outbox);
bool responder_has_work(const struct qp *qp);
bool responder_has_rest(const struct qp *qp); /* transport_has_rest() */
void responder_reset(struct qp *qp);
void responder_forget_held(struct qp *qp);

/* responder_checks.c: checks that RC and UC share, and the refusals. */
enum verdict check_sequence(struct arrival *arrival);
enum verdict check_enabled(struct arrival *arrival);
enum verdict check_receive(struct arrival *arrival);
enum verdict check_length(struct arrival *arrival);
enum verdict check_key(struct arrival *arrival);
unsigned int access_needed(const struct wire_packet *wire);
enum verdict refuse_request(struct arrival *arrival, enum ibv_wc_status status, enum reason reason);

/* xrc.c: whom a request is for, where the request says so. */
struct srq *xrc_srq(const struct qp *qp, uint32_t srqn);
const struct pd *request_pd(const struct qp *qp, uint32_t srqn);
const struct pd *receive_pd(const struct qp *qp);
struct cq *receive_cq(const struct qp *qp);
enum verdict receive_take(struct arrival *arrival);
enum verdict check_srq(struct arrival *arrival);

/* tag.c: messages to a tag matching SRQ. */
enum verdict tag_take(struct arrival *arrival);
void tag_complete(struct qp *qp, struct cqe *cqe);
void tag_delivered(struct qp *qp, uint64_t now);
void tag_run(struct qp *qp);
void tag_flush(struct qp *qp, uint64_t now);
void tag_own_done(struct qp *qp, const struct send_wqe *wqe, enum ibv_wc_status status,
		  enum reason reason, uint64_t now);

/* responder_execute.c: SEND and WRITE, and what completes a receive. */
enum verdict execute_send(struct arrival *arrival);
enum verdict execute_write(struct arrival *arrival);
void execute_end_of_message(struct arrival *arrival);

/* responder_resource.c: READ, atomics, FLUSH, ATOMIC WRITE, their jobs and duplicates. */
int resource_reserve(struct qp *qp, uint32_t depth);
void resource_reset(struct qp *qp);
enum verdict check_resources(struct arrival *arrival);
enum verdict execute_answered(struct arrival *arrival);
uint32_t request_psns(const struct qp *qp, const struct wire_packet *wire);
void resource_duplicate(struct arrival *arrival);
uint32_t resource_covered(const struct qp *qp, uint32_t psn);

/* response.c: the packets. */
enum response { RESPONSE_SENT, RESPONSE_FULL, RESPONSE_FAULT };
enum response response_send(struct qp *qp, struct response_job *job, struct outbox *outbox);
bool response_gaps(struct qp *qp, struct outbox *outbox);
bool response_acknowledge(struct qp *qp, uint8_t syndrome, uint32_t psn, struct outbox *outbox);

/* middle.c: the QP that the packet was for, where it is the middle of a message and plain; else
 * NULL, and nothing has changed. So many of it and of those behind it are `taken` then. */
struct qp *middle_take(struct adapter *adapter, const struct packet *packet, uint64_t now,
		       uint32_t *taken);

/* shorts_take.c: the same of short SENDs. */
struct qp *shorts_take(struct adapter *adapter, const struct packet *packet, uint64_t now,
		       uint32_t *taken);

/* burst.c: the middle of a READ, of `most` packets at most. How many, 0 if one goes by itself. */
uint32_t burst_respond(struct qp *qp, struct response_job *job, uint32_t most,
		       struct outbox *outbox);

/* uc.c, ud.c */
void uc_receive(struct arrival *arrival);
void ud_receive(struct arrival *arrival);

/* ud.c: the GRH_BYTES that a datagram has before its payload, and what its completion says of them
 */
void ud_network_header(const struct packet *packet, uint8_t *area);
uint8_t ud_packet_type(const struct packet *packet);

#endif
