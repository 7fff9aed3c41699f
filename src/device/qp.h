/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: attributes, the two queues, and the state machine's rules (qp_state.c has its
 * table). What moves packets is the transport's: requester and responder hang here and are known
 * only there.
 *
 * Locks: a QP belongs to one lane for its life; the lane's lock guards state, attributes, requester
 * and responder. The send queue's lock guards posting, so that ibv_post_send() needs no lane.
 */
#ifndef DEVICE_QP_H
#define DEVICE_QP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/lines.h"
#include "base/spin.h"
#include "device/av.h"
#include "device/comp_cntr.h"
#include "device/mw.h"
#include "device/srq.h"
#include "wire/frame.h"

struct adapter;
struct cq;
struct home;
struct ledger;
struct line;
struct opening;
struct pd;
struct requester;
struct responder;
struct wq_table;
struct seat;
struct xrcd;
struct xrc_domain;

/*
 * A send work request as posted; kept until it is complete. Host order, but for imm_data. What all
 * but messages have comes first, so that the rest, with one element, is a cache line.
 */
struct send_wqe {
	union {
		struct {
			uint64_t remote_addr; /* RDMA, atomics, FLUSH */
			uint32_t rkey;
			union {
				struct {
					uint64_t compare_add, swap;
				} atomic;
				struct {
					uint8_t type;  /* IBV_FLUSH_* placement bits */
					uint8_t level; /* IBV_FLUSH_RANGE or _MR */
				} flush;
				uint64_t atomic_write; /* the 8 bytes, as they go to memory */
				struct mw_bind bind;
			};
		};
		struct {
			struct av av;
			uint32_t qpn, qkey;
		} ud;
	};
	uint32_t remote_srqn; /* XRC: who shall receive */

	uint64_t wr_id;
	uint64_t length; /* payload bytes; for READ those asked for */
	enum ibv_wr_opcode opcode;
	unsigned int flags; /* IBV_SEND_* ; SIGNALED is set for all under sq_sig_all */
	union {
		__be32 imm_data;
		uint32_t invalidate_rkey;
	};

	/* the requester's, under the lane's lock */
	uint32_t first_psn, last_psn;
	uint32_t flight; /* its own flags */

	uint32_t num_sge; /* 0 with inline data */
	bool is_inline;	  /* the payload stands in `data` */
	union {
		struct ibv_sge sge[0];
		char data[0];
	};
};

_Static_assert(offsetof(struct send_wqe, wr_id) == CACHE_LINE,
	       "a line, where a WQE begins with one");
_Static_assert(offsetof(struct send_wqe, sge) + sizeof(struct ibv_sge) <= 2 * CACHE_LINE,
	       "with it");

struct send_queue {
	struct spin lock; /* guards posting: `tail`, `next`, and the WQEs from tail on */
	char *ring;	  /* mostly 16 bytes into a cache line */
	uint32_t stride;
	uint32_t max_wr, max_sge, max_inline;
	uint32_t ring_mask; /* its size, a power of two, less one: max_wr, or more with `own` */
	/* Index of the WQE that stands first in the ring: a queue that was empty begins there
	 * again, so who has one message at a time touches the same memory for each. Changed by who
	 * posts, while there is none. */
	atomic_uint base;
	atomic_uint own;  /* WQEs of the adapter's own: rendezvous of tag matching */
	atomic_uint head; /* oldest not complete; free-running; written under the lane's lock */
	uint32_t next;	  /* behind the last one built but not published */
	atomic_uint tail; /* next to post; free-running; the release that publishes a WQE */
};

struct qp {
	union {
		struct ibv_qp ibv; /* first */
		struct ibv_qp_ex ibv_ex;
	};
	struct xrcd *xrcd;	   /* XRC_RECV: as it was created with; NULL when let go */
	struct xrc_domain *domain; /* XRC_RECV: where its SRQs are */
	struct wq_table *wq_table; /* RAW_PACKET: where it receives instead; NULL: as others do */
	void *face; /* the verbs layer's own: async events outstanding, builder of ibv_wr_* */
	struct ibv_qp_attr attr; /* what ibv_modify_qp() set, the state and PSNs aside */
	/* What each message looks at is the end of that, from pkey_index on, and what follows, in
	 * as few cache lines as may be. */
	struct av av; /* of a connected QP */
	struct adapter *adapter;
	struct requester *requester;
	struct responder *responder;
	struct seat *seat; /* the engine's: the lane, ready list and timer */
	enum ibv_qp_type type;
	uint32_t number; /* 24 bits, slot included */
	/* under the lane's lock; `state` is peeked at by posting */
	_Atomic(enum ibv_qp_state) state;
	uint16_t pkey; /* value at attr.pkey_index */
	uint8_t lane;  /* its number, set by the host at creation; a simulation has lane 0 alone */
	bool sq_sig_all;
	bool has_receives;     /* of its own: no SRQ's, no table's, and of a type that has any */
	bool has_communicated; /* IBV_EVENT_COMM_EST was raised or is not due */
	bool is_draining;      /* SQD: IBV_EVENT_SQ_DRAINED is still owed */
	bool is_published;     /* by the host: peers reach memory through it */
	uint32_t mtu;	       /* path MTU in bytes; UD: the port's */
	struct send_queue sq;
	struct pd *pd;		      /* NULL: XRC_RECV, whose SRQs have one each */
	struct cq *send_cq, *recv_cq; /* NULL: XRC has one at most */
	struct srq *srq;	      /* NULL: its own queue, `rq` */
	struct ledger *ledger; /* what others may have to go on from: kept up to date; or NULL */
	uint32_t dest_qpn;     /* attr.dest_qp_num */
	uint32_t counted;      /* IBV_QP_ATTACH_COMP_CNTR_OP_*: those that have `counters` */
	struct recv_queue rq;  /* from its lock on */
	struct comp_cntr *counters[COMP_CNTR_OPS];

	uint8_t hash_key[TOEPLITZ_KEY];
	uint64_t hash_fields;
	bool strips_vlan;
	atomic_uint flows;  /* that lead here */
	atomic_uint groups; /* multicast groups that it is attached to */
	uint32_t max_burst; /* bytes, of attr.rate_limit */

	/* XRC_RECV with SRQs in other processes; under the lane's lock */
	struct home *home;	 /* the engine's: where its packets go; NULL: all are for us */
	struct line *line;	 /* the engine's, of a branch: to its home. A branch is what a QP of
				    another process is here, whose number it has */
	struct opening *opening; /* the engine's: this only stands for a QP of another process */
	struct qp *stand_in;	 /* of a QP that we took over: what the program has open */
	atomic_bool is_orphan;	 /* a stand-in whose QP is gone */
};

/* Where what each message looks at begins; three lines more, and a fourth of `rq`. */
enum {
	QP_HOT = offsetof(struct qp, attr) + offsetof(struct ibv_qp_attr, pkey_index),
	QP_HOT_END = offsetof(struct qp, rq.lock),
};

_Static_assert(QP_HOT % CACHE_LINE == 0, "begins a line");
_Static_assert(offsetof(struct qp, sq) == QP_HOT + 2 * CACHE_LINE, "a line each");
_Static_assert(offsetof(struct qp, pd) == QP_HOT + 3 * CACHE_LINE, "a line each");
_Static_assert(offsetof(struct qp, rq.lock) == QP_HOT + 4 * CACHE_LINE, "a line each");

static inline struct qp *qp_of(struct ibv_qp *ibv)
{
	return (struct qp *)ibv;
}

/* Acknowledged: RC and XRC. */
static inline bool qp_is_reliable(const struct qp *qp)
{
	return qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_SEND ||
	       qp->type == IBV_QPT_XRC_RECV;
}

/* XRC QPs have a send queue or none, and never receives of their own (A14). */
static inline bool qp_is_xrc(const struct qp *qp)
{
	return qp->type == IBV_QPT_XRC_SEND || qp->type == IBV_QPT_XRC_RECV;
}

static inline struct send_wqe *sq_wqe(const struct send_queue *sq, uint32_t index)
{
	uint32_t at = index - atomic_load_explicit(&sq->base, memory_order_relaxed);

	return (struct send_wqe *)(sq->ring + (size_t)(at & sq->ring_mask) * sq->stride);
}

/* Where the next message's stands most likely: if the last one found the queue empty, so will it.
 */
static inline const struct send_wqe *sq_next_wqe(const struct send_queue *sq)
{
	uint32_t at = sq->next - atomic_load_explicit(&sq->base, memory_order_relaxed);

	return sq_wqe(sq, at == 1 ? sq->next - at : sq->next);
}

/*
 * RC, UC, UD or XRC; `pd` is NULL for XRC_RECV, which has an XRCD instead. attr->cap gets what it
 * got (max_wr is rounded up to a power of two). The QP is in the table, so packets can find it, but
 * in RESET it takes none. The requester and responder are the transport's to add (transport.h has
 * the call that does both).
 */
int qp_create(struct pd *pd, struct ibv_qp_init_attr_ex *attr, struct qp **qp);

/*
 * A branch: an XRC_RECV QP that serves the SRQs of our domain for a QP of another process. It is in
 * no table; the transport adds its half (transport_create_branch). The caller's reference of the
 * domain becomes its own. NULL without memory.
 */
struct qp *qp_create_branch(struct adapter *adapter, struct xrc_domain *domain, uint32_t number);

/* Which adapter such a QP is of; NULL when neither a PD nor an XRCD says. */
struct adapter *qp_adapter_of(const struct pd *pd, const struct ibv_qp_init_attr_ex *attr);

/* An XRC_RECV QP lets go of its XRCD, which its creator may close then; others still have it open.
 */
void qp_leave_xrcd(struct qp *qp);

/* EBUSY while attached to a multicast group, or while flows lead to it. */
int qp_check_idle(const struct qp *qp);

/*
 * Takes it out of the table; EBUSY while attached to a multicast group. Then, after a quiesce,
 * qp_free() forgets its completions, as ConnectX does, and frees it.
 */
int qp_unlist(struct qp *qp);
void qp_free(struct qp *qp);
void qp_forget_completions(struct qp *qp);

/*
 * Checks a transition against the table (required and optional attributes, ranges) and takes over
 * the attributes and the state; a refusal changes nothing. RESET empties the queues and forgets the
 * QP's completions. The lane's lock is held. The transport's half of a transition comes after
 * (transport_modify_qp).
 */
int qp_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);

/* What the device knows; PSNs and the like are the transport's to fill in. */
void qp_describe(const struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);

/*
 * Posting. Both check all that can be checked at once (opcode for the type and state, number of
 * elements, inline size, room in the queue) and stop at the first bad one with *bad set and a
 * positive errno (noted). The caller then has the host schedule the QP (qp_post_send() does not).
 */
int qp_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int qp_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/*
 * The same in steps, for the ibv_wr_* builders. sq_begin() takes the send queue's lock; sq_next()
 * gives the next free WQE, cleared, or NULL when full; sq_commit() publishes all since sq_begin()
 * and unlocks; sq_abort() forgets them.
 */
void sq_begin(struct qp *qp);
struct send_wqe *sq_next(struct qp *qp);
void sq_commit(struct qp *qp);
void sq_abort(struct qp *qp);

/* As sq_next(), for a WQE of the adapter's own: from the reserve, NULL when that is used up. */
struct send_wqe *sq_next_own(struct qp *qp);

/* As sq_begin(); false when somebody is posting, who may be the calling thread. */
bool sq_try_begin(struct qp *qp);

/*
 * What fills a WQE, for both ways of posting: elements, inline data (num_sge pieces; copied at
 * once), the destination of a datagram. 0, or the positive errno of the noted reason.
 */
int wqe_set_sge(struct qp *qp, struct send_wqe *wqe, const struct ibv_sge *sge, size_t num_sge);
int wqe_set_inline(struct qp *qp, struct send_wqe *wqe, const struct ibv_data_buf *pieces,
		   size_t count);
int wqe_set_ud(struct qp *qp, struct send_wqe *wqe, const struct ibv_ah *ah, uint32_t qpn,
	       uint32_t qkey);

/*
 * Whether the state takes work requests, the type the opcode, and the opcode the flags, lengths and
 * elements; 0, or the positive errno of the noted reason. What only a completion may tell (keys,
 * misaligned atomics, too long a message) is the transport's to find.
 */
int qp_check_send(const struct qp *qp, const struct send_wqe *wqe);

/* Takes the next receive WQE for the responder, from the SRQ or its own queue. 0 or -ENOENT. */
int qp_take_recv(struct qp *qp, struct recv_wqe *wqe);

/*
 * ibv_modify_qp_rate_limit(): kbit/s of what it sends, 0 for no limit. The lane's lock is held. 0,
 * or the positive errno of the noted reason.
 */
int qp_limit_rate(struct qp *qp, const struct ibv_qp_rate_limit_attr *attr);

/*
 * With the QP's lane's lock, where something of it changes that is not of single messages: its
 * state, attributes, what is counted. And when it is out of the table, ahead of a quiesce. So who
 * has the lock of the lane that both are on, and finds adapter->qp_changes as it was when he looked
 * at the two, finds them as they were.
 */
void qp_changed(const struct qp *qp);

/* A state's name, for messages. */
const char *qp_state_name(enum ibv_qp_state state);

/* Raises an async event of this QP (IBV_EVENT_QP_FATAL, ...). */
void qp_event(struct qp *qp, enum ibv_event_type type);

#endif
