/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues: a ring of completions under one lock, an arming state, and overrun.
 */
#ifndef DEVICE_CQ_H
#define DEVICE_CQ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/spin.h"

struct adapter;

/* A completion with what only extended polling shows. */
struct cqe {
	struct ibv_wc wc;
	uint64_t timestamp; /* ns, the `now` of the transport */
	uint64_t tm_tag;
	uint32_t tm_priv;
	uint32_t flow_tag;
	uint16_t cvlan;
};

enum cq_arm { CQ_NOT_ARMED, CQ_ARMED_SOLICITED, CQ_ARMED_NEXT };

struct cq {
	union {
		struct ibv_cq ibv; /* first */
		struct ibv_cq_ex ibv_ex;
	};
	struct adapter *adapter;
	struct pd *pd; /* the parent domain whose allocators its ring is from; or NULL */
	atomic_uint
	    users; /* QPs and SRQs that complete here; one QP counts for each of its two queues */
	atomic_uint lanes; /* bit mask of the lanes whose QPs complete here: where a poller makes
			      progress */
	/* the host's, under the adapter's lock: QPs that ever completed here, the first's lane */
	uint32_t seats, first_lane;
	void *face; /* the verbs layer's own (channel, extended poll state) */

	struct spin lock; /* guards all below, but for the peek at `count` */
	struct cqe *ring;
	atomic_uint capacity;	   /* entries, as asked for; peeked at without the lock */
	uint32_t head;		   /* next to poll */
	atomic_uint count;	   /* written under the lock, peeked at without it by pollers */
	_Atomic(enum cq_arm) arm;  /* peeked at without the lock */
	uint16_t moderate_count;   /* an event only for so many; 0 or 1: for each */
	atomic_ulong moderate_ns;  /* or when the first has waited so long; 0: not at all */
	uint32_t held;		   /* completions since the arming that would have been an event */
	_Atomic uint64_t event_at; /* then the event of the held ones; CQ_NO_EVENT: none waits */
	bool ignore_overrun;
	atomic_bool is_overrun; /* an entry was lost; the CQ is in error */
};

static inline struct cq *cq_of(struct ibv_cq *ibv)
{
	return (struct cq *)ibv;
}

int cq_create(struct adapter *adapter, uint32_t cqe, struct cq **cq);

/* The same, with memory from a parent domain's allocators. */
int cq_create_in(struct pd *pd, uint32_t cqe, struct cq **cq);
int cq_destroy(struct cq *cq); /* EBUSY while it has users */

/* That refusal alone, ahead of what cannot be taken back. */
int cq_check_idle(const struct cq *cq);

/* Keeps what is in it; refuses (EINVAL) fewer entries than it holds. */
int cq_resize(struct cq *cq, uint32_t cqe);

/*
 * Adds a completion, and tells the host where the CQ was armed for it: any when armed for the next,
 * `is_solicited` or in error when armed for solicited ones. -EOVERFLOW when full: then the CQ goes
 * into error once, with IBV_EVENT_CQ_ERR, and the caller puts its QP into the error state
 * (IBV_EVENT_QP_FATAL).
 */
int cq_push(struct cq *cq, const struct ibv_wc *wc, bool is_solicited, uint64_t now);
int cq_push_cqe(struct cq *cq, const struct cqe *cqe, bool is_solicited);

/*
 * The same in two steps, for who is in no poll: where the next completion stands, to be filled in
 * there, with the CQ's lock until cq_added(). NULL, without, if there is no room: cq_push_cqe()
 * then says so.
 */
struct cqe *cq_add(struct cq *cq);
void cq_added(struct cq *cq, const struct cqe *cqe, bool is_solicited);

/* The same for several: for how many of `count` there is room (for none: without the lock), where
 * each of those stands, and that they are there. */
uint32_t cq_add_row(struct cq *cq, uint32_t count);
struct cqe *cq_row_at(struct cq *cq, uint32_t index);
void cq_added_row(struct cq *cq, uint32_t count, bool is_solicited);

/* A success, each field. */
static inline void wc_fill(struct ibv_wc *wc, uint64_t wr_id, enum ibv_wc_opcode opcode,
			   uint32_t length, uint32_t qpn)
{
	wc->wr_id = wr_id;
	wc->status = IBV_WC_SUCCESS;
	wc->opcode = opcode;
	wc->vendor_err = 0;
	wc->byte_len = length;
	wc->imm_data = 0;
	wc->qp_num = qpn;
	wc->src_qp = 0;
	wc->wc_flags = 0;
	wc->pkey_index = 0;
	wc->slid = 0;
	wc->sl = 0;
	wc->dlid_path_bits = 0;
}

/* And what only extended polling shows. */
static inline void cqe_begin(struct cqe *cqe, uint64_t now)
{
	cqe->timestamp = now;
	cqe->tm_tag = 0;
	cqe->tm_priv = 0;
	cqe->flow_tag = 0;
	cqe->cvlan = 0;
}

/*
 * Moderation: an armed CQ raises its event for `count` completions, or when the oldest has waited
 * for `period_us`, or at once for one in error. 0 turns that part off, both are no moderation. Who
 * runs a QP that completes here asks cq_event_at() for its deadline, and calls cq_expire() then.
 */
void cq_moderate(struct cq *cq, uint16_t count, uint16_t period_us);
void cq_expire(struct cq *cq, uint64_t now);

struct cq_status {
	uint32_t entries, held;
	enum cq_arm arm;
	bool is_overrun;
	uint16_t moderate_count, moderate_us;
};

void cq_query(struct cq *cq, struct cq_status *status);

#define CQ_NO_EVENT UINT64_MAX

/*
 * Who polls may make progress itself, and what completes then need not be stored to be polled: it
 * goes to his array, as long as the CQ is empty and nobody waits for its event. Who is told of it
 * does so by cq_take_next(); from cq_take_share() on all that this thread adds goes there, which is
 * more steps. cq_take_end() says how many that were.
 */
struct cq_taking {
	struct cq *cq;
	struct ibv_wc *wc;
	int room, count;
	bool is_shared;
};

static inline void cq_take_begin(struct cq_taking *taking, struct cq *cq, int room,
				 struct ibv_wc *wc)
{
	*taking = (struct cq_taking){.cq = cq, .wc = wc, .room = room};
}

void cq_take_share(struct cq_taking *taking);
void cq_take_unshare(void);
int cq_take_count(void);	     /* so far, where it is shared */
struct cq_taking *cq_take_own(void); /* what this thread shares; or NULL */

/* Where in the array a completion of this CQ goes, to be filled in there; NULL: it is stored.
 * Whoever arms the CQ meanwhile does so after this completion, which is polled. */
static inline struct ibv_wc *cq_take_next(struct cq_taking *taking, const struct cq *cq)
{
	if (!taking || taking->cq != cq || taking->count >= taking->room ||
	    atomic_load_explicit(&cq->count, memory_order_relaxed) ||
	    atomic_load_explicit(&cq->is_overrun, memory_order_relaxed) ||
	    atomic_load_explicit(&cq->arm, memory_order_relaxed) != CQ_NOT_ARMED)
		return NULL;
	return &taking->wc[taking->count++];
}

static inline bool cq_take_is_full(const struct cq_taking *taking)
{
	return taking->count >= taking->room;
}

static inline int cq_take_end(const struct cq_taking *taking)
{
	if (taking->is_shared)
		cq_take_unshare();
	return taking->count;
}

/* For who polls: there is nothing to take, not even an error to tell. */
static inline bool cq_is_empty(const struct cq *cq)
{
	return !atomic_load_explicit(&cq->count, memory_order_acquire) &&
	       !atomic_load_explicit(&cq->is_overrun, memory_order_relaxed);
}

/* For how many more there is room, as far as one can tell without the lock; none where they might
 * make the event wait for a time, which the QPs would have to be told (cq_moderate()). */
uint32_t cq_room(const struct cq *cq);
bool cq_has_room(const struct cq *cq, uint32_t count);

static inline uint64_t cq_event_at(const struct cq *cq)
{
	return atomic_load_explicit(&cq->event_at, memory_order_relaxed);
}

/* Takes up to `count` completions, oldest first; how many. -EOVERFLOW when it is empty and in
 * error. */
int cq_poll(struct cq *cq, int count, struct ibv_wc *wc);

/* The same for one, with its timestamp: 0, -ENOENT when empty, -EOVERFLOW when empty and in error.
 */
int cq_poll_one(struct cq *cq, struct cqe *cqe);

/* ibv_req_notify_cq(): for a completion added after this call. A stronger arming is kept
 * (11.4.2.2). */
void cq_arm(struct cq *cq, bool solicited_only);

/* Drops what a QP has completed here: it is gone, or was reset. */
void cq_forget(struct cq *cq, uint32_t qpn);

#endif
