/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester of a QP: where it is in its send queue and in the PSN space.
 *
 *	una          psn             end
 *	 |  in flight  |  to go again  |  never sent
 *
 * Normally psn == end. Going back (a NAK, a lost response, a timeout) sets psn to una; then packets
 *up to end go out a second time. `una` lies in the WQE at the send queue's head, `psn` in the WQE
 *`current`.
 *
 * All of it is under the lane's lock.
 */
#ifndef TRANSPORT_REQUESTER_H
#define TRANSPORT_REQUESTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lines.h"
#include "device/limits.h"
#include "device/qp.h"
#include "explain/reason.h"
#include "transport/contest.h"
#include "transport/payload.h"
#include "transport/probe.h"
#include "transport/recovery.h"
#include "transport/transport.h"
#include "transport/window.h"
#include "wire/parse.h"
#include "wire/psn.h"

struct cq_taking;

enum wqe_flight {
	WQE_STARTED = 1,     /* has its PSNs; what SQD still finishes */
	WQE_DONE = 2,	     /* made no packet, and is done but for its completion */
	WQE_OWN = 4,	     /* the adapter's own: a rendezvous (tag.c) */
	WQE_REACHING = 8,    /* part of it is done without packets; what SQD still finishes */
	WQE_BY_PACKETS = 16, /* it can't be done otherwise, */
	WQE_NO_OFFER = 32,   /* nor be offered (offer.h) */
};

/* How far UC and UD may run ahead of their receiver (pace.c). */
enum { PACE_SILENT = 4 };

struct pace {
	uint32_t window;    /* packets, of those that are short */
	uint32_t confirmed; /* PSN; what lies before it was taken in, or is lost */
	uint32_t asked;	    /* PSN behind the last that asked, if it has left */
	uint8_t missing;    /* answers in a row that did not come */
	bool has_answered;

	/* UD: the receiver that all this is about, whose address may be ours, and those that never
	 * answered */
	bool is_here;
	union ibv_gid gid;
	uint32_t qpn;
	union ibv_gid silent[PACE_SILENT];
	uint8_t silent_next;
};

struct requester {
	/* what each message looks at comes first, in as few cache lines as may be */
	uint32_t una, psn, end;
	uint32_t current;	/* index of the WQE that psn belongs to, free-running */
	uint32_t since_ack_req; /* packets out since one asked for an ACK */
	uint32_t packets_end;	/* PSN; what has left from there on are records (express.h) */
	bool is_untimed;	/* the ACK timer starts when the host next knows the time */
	bool has_failed;	/* a WQE, below */
	bool has_credits;	/* below */
	bool was_told;		/* the work request that was done last has a completion */
	bool has_gone_back;	/* to this una, told by the peer: further NAKs of the same gap are
				   echoes */
	uint8_t retries_left : 4, rnr_retries_left : 4; /* 7 at most */
	uint8_t rd_count;				/* of rd_last, below */
	uint8_t expired;				/* ACK timeouts in a row */
	uint64_t ack_deadline;	/* NO_DEADLINE: not running; of UC and UD for the receiver's pace */
	uint64_t rnr_deadline;	/* NO_DEADLINE: the peer is ready */
	struct hold *responses; /* what of them came before its turn */
	struct recovery *recovery; /* NULL: nothing is missing */
	/* Of the counters a message looks at what comes first, a cache line; what lies between
	 * fills the last one. */
	_Alignas(CACHE_LINE) struct transport_counters counters;
	uint64_t rate_next;	/* with a limited rate: when the next packet may go */
	uint64_t rate_deadline; /* that, where a packet waits for it, or a visit (reach.h) */
	uint64_t reached;	/* bytes, of the WQE that is WQE_REACHING */
	uint32_t rate_room;	/* bytes that may go now: no segmented send has more */
	uint32_t run_bytes;	/* sent in this turn since a segmented send was full */
	uint32_t turn_runs;	/* full ones, before that */
	uint32_t unreached; /* so many long ones don't wait to be reached: the last was refused */
	uint32_t next_unreached; /* and after the next refusal */
	uint32_t packets_to;	 /* PSN */
	uint32_t large_end;	 /* PSN; from here on all that has left is small (window.h) */
	uint8_t signs_left;	 /* requests that may still ask what the peer is */
	bool is_peer_ours;	 /* it recovers selectively */
	bool takes_offers;	 /* and knows what those are (offer.h) */
	bool has_packets;	 /* what lies before packets_to is not offered */

	/* Credits of the peer's last ACK (9.7.7.2): WQEs before credit_limit find a receive WQE
	 * there. */
	uint32_t credit_limit;
	bool notify_drained; /* IBV_EVENT_SQ_DRAINED was asked for */
	bool flushes_twice;  /* how the peer wants them, for all that is known (icrc.h) */
	bool is_unasked;     /* who would have asked for an ACK left that to a packet behind */
	bool ends_by_record; /* this turn, as far as it has come */
	/* A WQE that failed here; it completes when those before it have. */
	uint32_t failed;
	enum ibv_wc_status failed_status;
	/* What each ACK looks at of the two is the end of one and the beginning of the other, in a
	 * cache line. */
	struct window window; /* RC */
	struct probe probe;
	enum reason failed_reason;
	struct pace pace;	  /* UC, UD */
	struct contests contests; /* RC, to another process of this host */
	struct sge_cursor gather, scatter;

	/*
	 * Requests that are answered with data, not acknowledged yet: the last PSN of each, oldest
	 * first. A long READ goes out as several requests, each within the window. `rd_sent` of the
	 * `rd_count` are in flight, the rest is to go again, with the same borders: the responder
	 * may have executed any of them.
	 */
	uint32_t rd_first, rd_sent;
	uint32_t rd_last[MAX_RD_ATOMIC];
};

/* That cache line. */
enum { REQUESTER_ACKED = offsetof(struct requester, window) + WINDOW_HOT };

_Static_assert(offsetof(struct requester, counters) == CACHE_LINE, "what comes first is a line");
_Static_assert(REQUESTER_ACKED % CACHE_LINE == 0 &&
		   offsetof(struct requester, probe.rtt.samples) <= REQUESTER_ACKED + CACHE_LINE,
	       "is one");

/* Answered with data or a saved result: READ, atomics, FLUSH, ATOMIC WRITE. */
static inline bool is_answered(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_WR_FLUSH:
	case IBV_WR_ATOMIC_WRITE:
		return true;
	default:
		return false;
	}
}

static inline uint32_t sq_head(const struct qp *qp)
{
	return atomic_load_explicit(&qp->sq.head, memory_order_relaxed);
}

static inline uint32_t sq_tail(const struct qp *qp)
{
	return atomic_load_explicit(&qp->sq.tail, memory_order_acquire);
}

static inline struct sge_list wqe_list(const struct qp *qp, const struct send_wqe *wqe)
{
	const struct pd *pd = wqe->flight & WQE_OWN ? qp->srq->pd : qp->pd;

	return (struct sge_list){qp->adapter, pd, wqe->sge, wqe->num_sge};
}

/* States in which requests and their answers move. */
static inline bool requester_is_alive(const struct qp *qp)
{
	enum ibv_qp_state state = atomic_load_explicit(&qp->state, memory_order_relaxed);

	return state == IBV_QPS_RTS || state == IBV_QPS_SQD;
}

/* rate.c: the rate that the program asked for, or a long way's. */
bool rate_may_send(struct qp *qp, uint64_t now);
void rate_sent(struct qp *qp, uint32_t bytes, uint32_t psns, uint64_t now);

static const uint64_t RATE_PACED_FROM_NS = 1000000;

static inline bool rate_is_limited(const struct qp *qp)
{
	return qp->attr.rate_limit || (window_is_long(&qp->requester->window) &&
				       qp->requester->probe.rtt.least >= RATE_PACED_FROM_NS);
}

/* requester.c: what goes out when. True: wants another turn. */
bool requester_run(struct qp *qp, uint64_t now, struct outbox *outbox);
void requester_reset(struct qp *qp);
void requester_start(struct qp *qp, uint32_t psn);
void requester_fail_wqe(struct qp *qp, uint32_t index, enum ibv_wc_status status,
			enum reason reason);
void requester_settle(struct qp *qp, uint64_t now);
bool requester_has_drained(const struct qp *qp);

/* request.c: one packet of a WQE. */
enum sent {
	SENT,
	SENT_FULL,   /* the outbox has no room */
	SENT_WAIT,   /* something has to come back first */
	SENT_FAILED, /* requester_fail_wqe() was called */
};

/* Checks a WQE and gives it its PSNs. SENT, or SENT_FAILED. */
enum sent request_begin(struct qp *qp, struct send_wqe *wqe);

/* The packet at requester->psn. `bytes` is what it costs of a turn, one that `asks` wants an
 * ACK. */
enum sent request_send(struct qp *qp, struct send_wqe *wqe, bool asks, struct outbox *outbox,
		       uint32_t *bytes);

/* `psns` of it have left, whichever way. */
void request_advance(struct requester *requester, const struct send_wqe *wqe, uint32_t psns);

/* How many packets may be in flight, of a stream or where a READ's responses are among them. */
uint32_t request_wide_window(const struct qp *qp);

/* The WQE that a PSN in flight belongs to. */
uint32_t request_index(const struct qp *qp, uint32_t psn);

/* The `psns` at requester->psn once more; not for the first time. */
enum sent request_send_again(struct qp *qp, struct send_wqe *wqe, uint32_t psns,
			     struct outbox *outbox, uint32_t *bytes);

/* The same for those at `psn`, which belong to the WQE `index`; new packets go on where they were.
 */
enum sent request_repeat(struct qp *qp, uint32_t index, uint32_t psn, uint32_t psns,
			 struct outbox *outbox);

/* burst.c: packets of the WQE from requester->psn on, `most` at most, where they are plain. How
 * many have left. */
uint32_t burst_send(struct qp *qp, const struct send_wqe *wqe, uint32_t most,
		    struct outbox *outbox);

/* shorts.c: the next work requests, `most` at most, as far as they are such SENDs and have not
 * begun. How many have left; `bytes` as for request_send(). */
uint32_t shorts_send(struct qp *qp, uint32_t most, struct outbox *outbox, uint32_t *bytes);

/* Nothing of what has left is to go again. */
static inline bool requester_is_quiet(const struct requester *requester)
{
	return requester->psn == requester->end && requester->rnr_deadline == NO_DEADLINE &&
	       !requester->has_failed && !requester->recovery && !requester->responses &&
	       !requester->has_credits;
}

/* PSNs that may be on the way. */
static inline uint32_t requester_in_flight(const struct requester *requester)
{
	uint32_t sent = psn_into(requester->psn, requester->una);

	if (!requester->recovery)
		return sent;
	/* what has settled may be acknowledged since it was counted */
	return sent > requester->recovery->settled ? sent - requester->recovery->settled : 0;
}

/* completer.c: responses. */
void completer_receive(struct qp *qp, const struct wire_packet *packet, uint64_t now);

/* All up to this PSN, of which nothing is answered with data, is acknowledged. */
void completer_acknowledge(struct qp *qp, uint32_t psn, uint64_t now);

/* The same where nothing failed, goes again or is answered with data, and for fewer steps where all
 * that is in flight left as records: neither window nor probe are about those. `taking` is this
 * thread's. */
void completer_acknowledge_sent(struct qp *qp, uint32_t psn, struct cq_taking *taking,
				uint64_t now);

/* The same in the fewest, of the oldest message alone, of one packet, if its completion finds room.
 * False, and nothing has changed, where it is anything else. */
bool completer_acknowledge_single(struct qp *qp, uint32_t psn, struct cq_taking *taking,
				  uint64_t now);

/* The WQE at the head is done: its completion, if it wants one, and the next is the head. */
void completer_retire(struct qp *qp, uint64_t now);

/* So are those at the head that made no packet: they complete in their turn. */
void completer_retire_done(struct qp *qp, uint64_t now);

/* retry.c */
bool retry_spend(struct qp *qp, uint64_t now);
void retry_go_back(struct qp *qp, uint64_t now);
void retry_after_gap(struct qp *qp, uint64_t now);
void retry_after_rnr(struct qp *qp, uint8_t timer, uint64_t now);
bool retry_on_deadline(struct qp *qp, uint64_t now);
void retry_refill(struct qp *qp);
void retry_progressed(struct qp *qp, uint64_t now);
void retry_start_timer(struct qp *qp, uint64_t now);

/* pace.c */
void pace_start(struct qp *qp);
void pace_toward(struct qp *qp, const struct av *av, uint32_t qpn);
uint32_t pace_bytes(const struct qp *qp, const struct send_wqe *wqe); /* of its packets, at most */
bool pace_has_room(const struct qp *qp, uint32_t bytes);
bool pace_may_send(struct qp *qp, uint32_t bytes, uint64_t now);
bool pace_asks(struct qp *qp, uint32_t bytes);
void pace_expire(struct qp *qp);
void pace_confirm(struct qp *qp, uint32_t psn);
void pace_answer(struct qp *qp, const struct packet *packet, uint32_t psn, uint32_t src_qp,
		 struct outbox *outbox);
struct av pace_answer_av(const struct qp *qp, const struct packet *packet);

/* congestion.c: of RC. A packet that came marked; a notification that one of ours did. */
bool congestion_is_marked(const struct packet *packet);
void congestion_seen(struct qp *qp, const struct wire_packet *wire, uint64_t now,
		     struct outbox *outbox);
void congestion_told(struct qp *qp);
/* The peer has shown that it is ours. */
void congestion_offer(struct qp *qp);

/* raw.c */
enum sent raw_send(struct qp *qp, const struct send_wqe *wqe, uint32_t *bytes);

/* ud.c */
enum sent ud_send(struct qp *qp, struct send_wqe *wqe, struct outbox *outbox, uint32_t *bytes);

/* The headers of the next datagram, but for what its work request asks of the receiver. */
void ud_head(struct qp *qp, uint32_t qpn, uint32_t qkey, bool has_imm, uint32_t length,
	     struct wire_packet *wire);

#endif
