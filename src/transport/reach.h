/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WRITE and READ without packets: where the peer is a process of this host, its host may let us at
 * the memory itself (adapter.h). Then the message is done when it is posted, and nobody has to wake
 * up for it. It takes no PSN. Order is kept by doing so only with nothing outstanding.
 *
 * Any refusal sends the whole work request by packets, which find out what is wrong and say so.
 */
#ifndef TRANSPORT_REACH_H
#define TRANSPORT_REACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "device/adapter.h"

struct qp;
struct reach_behind;
struct send_wqe;

/* Besides IBV_ACCESS_REMOTE_*: what the QP offers may be fetched (offer.h), from any region. */
enum { REACH_SENDS = 1 << 30 };

struct reach_op {
	bool is_read;
	bool is_fetch;	 /* a READ of what the peer has offered */
	bool is_awaited; /* the program has taken the completion of what it posted before */
	bool is_prompt;	 /* refused if that takes a system call */
	uint32_t rkey;
	uint64_t remote_addr, length; /* of the whole message: what is checked */
	uint64_t offset, bytes;	      /* the part to be done */
	const struct iovec *pieces;   /* of that part, here */
	uint32_t count;		      /* MAX_SGE at most */
	uint32_t psn;		      /* of a fetch: the last one of the offer */
	/* Of a fetch, or NULL: finds what the peer has offered behind it, the next messages of the
	 * QP, `room` of them at most. The host may do them with it; each is asked for when it is at
	 * the head nevertheless. */
	uint32_t (*behind)(const struct reach_op *op, struct reach_behind *found, uint32_t room);
	const void *context; /* its */
};

/* A message in one piece at either end. */
struct reach_behind {
	uint32_t rkey, psn;
	uint64_t remote_addr, length;
	char *here;
};

/*
 * What a verb does at once begins with: of a work request all but what and how much. Field by
 * field, which takes a third of what it takes to make it whole and copy it.
 */
static inline void reach_begin(const struct ibv_send_wr *wr, struct reach_op *op)
{
	op->is_read = wr->opcode == IBV_WR_RDMA_READ;
	op->is_fetch = op->is_awaited = false;
	op->is_prompt = true;
	op->rkey = wr->wr.rdma.rkey;
	op->remote_addr = wr->wr.rdma.remote_addr;
	op->length = op->offset = op->bytes = 0;
	op->pieces = NULL;
	op->count = 0;
	op->psn = 0;
	op->behind = NULL;
}

/* Whether this WQE, which has no PSNs yet, is one to try. */
bool reach_may(const struct qp *qp, const struct send_wqe *wqe);

/* Whether this one is so long that it had better wait for what is outstanding, and be tried then.
 */
bool reach_waits(struct qp *qp, const struct send_wqe *wqe);

/* Does it, or a turn's part of it; `bytes` is the cost. REACH_REFUSED: it goes by packets. */
enum reach_result reach_run(struct qp *qp, struct send_wqe *wqe, uint64_t now, uint32_t *bytes);

/* For inside.c, which does the same with messages: nothing is outstanding and nothing else forbids
 * it; where the part of a WQE lies (false where there is something to say about a key); what it
 * costs; the WQE is done. */
bool reach_is_free(const struct qp *qp, const struct send_wqe *wqe);
bool reach_resolve(const struct qp *qp, const struct send_wqe *wqe, const struct reach_op *op,
		   struct iovec *pieces, uint32_t *count);
uint32_t reach_cost(uint64_t bytes);
void reach_retire(struct qp *qp, uint64_t now);

/* After any change of the QP's state or rights: tells the host what peers may do through it. */
void reach_announce(struct qp *qp);
/* Nothing is done through it any more, and what a peer has not fetched by now does not count. */
void reach_withdraw(struct qp *qp);

/* Whether they may do this, IBV_ACCESS_REMOTE_*, that way. */
bool reach_is_open(const struct qp *qp, unsigned int need);

#endif
