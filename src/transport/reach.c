/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which work requests need no packets, and their parts.
 */
#include "device/comp_cntr.h"
#include "device/cq.h"
#include "device/mr.h"
#include "transport/reach.h"
#include "transport/requester.h"

enum {
	PART_BYTES = 1 << 20, /* whoever withdraws the memory waits for so much at most */
	COST_SHIFT = 4,	      /* a copy costs less than packets do, */
	COST_BYTES = 256,     /* a call more */
	LATER_NS = 200000,
	LONG_BYTES = 64 << 10, /* costs its target more by packets than an answer */
	UNREACHED_MAX = 32,
};

/* Of the packets before, all is acknowledged; over UC they have left, and the host knows whether
 * they arrived. */
static bool is_alone(const struct qp *qp)
{
	const struct requester *requester = qp->requester;

	return requester->current == sq_head(qp) && requester->una == requester->psn &&
	       requester->psn == requester->end;
}

bool reach_is_free(const struct qp *qp, const struct send_wqe *wqe)
{
	return is_alone(qp) && !(wqe->flight & (WQE_OWN | WQE_BY_PACKETS)) && !qp->attr.rate_limit;
}

static bool is_kind(const struct qp *qp, const struct send_wqe *wqe)
{
	if (!qp->adapter->host->reach || (qp->type != IBV_QPT_RC && qp->type != IBV_QPT_UC))
		return false;
	return wqe->opcode == IBV_WR_RDMA_WRITE ||
	       (wqe->opcode == IBV_WR_RDMA_READ && qp->attr.max_rd_atomic);
}

bool reach_may(const struct qp *qp, const struct send_wqe *wqe)
{
	return is_kind(qp, wqe) && wqe->length && wqe->length <= MAX_MESSAGE_SIZE &&
	       reach_is_free(qp, wqe);
}

/* A stream whose first message found the peer not ready would go on by packets otherwise. All that
 * is outstanding has asked for an answer. */
bool reach_waits(struct qp *qp, const struct send_wqe *wqe)
{
	if (wqe->length < LONG_BYTES || qp->type != IBV_QPT_RC || !is_kind(qp, wqe) ||
	    wqe->flight & (WQE_OWN | WQE_BY_PACKETS) || is_alone(qp) ||
	    !qp->adapter->host->is_reached || !qp->adapter->host->is_reached(qp))
		return false;
	if (!qp->requester->unreached)
		return true;
	qp->requester->unreached--;
	return false;
}

bool reach_resolve(const struct qp *qp, const struct send_wqe *wqe, const struct reach_op *op,
		   struct iovec *pieces, uint32_t *count)
{
	struct sge_list list = wqe_list(qp, wqe);

	return payload_find(&list, op->is_read ? IBV_ACCESS_LOCAL_WRITE : 0, op->offset, op->bytes,
			    pieces, count);
}

/* The program has taken the completion of the one before, so it most likely waits for this one. */
static bool is_awaited(const struct qp *qp)
{
	return qp->requester->was_told &&
	       !atomic_load_explicit(&qp->send_cq->count, memory_order_relaxed);
}

static enum reach_result do_part(struct qp *qp, struct send_wqe *wqe, uint64_t offset,
				 uint64_t bytes)
{
	struct iovec pieces[MAX_SGE];
	struct reach_op op = {
	    .is_read = wqe->opcode == IBV_WR_RDMA_READ,
	    .is_awaited = is_awaited(qp),
	    .rkey = wqe->rkey,
	    .remote_addr = wqe->remote_addr,
	    .length = wqe->length,
	    .offset = offset,
	    .bytes = bytes,
	    .pieces = pieces,
	};

	if (wqe->is_inline) {
		pieces[0] = (struct iovec){wqe->data + offset, bytes};
		op.count = 1;
	} else if (!reach_resolve(qp, wqe, &op, pieces, &op.count)) {
		return REACH_REFUSED;
	}
	return qp->adapter->host->reach(qp, &op);
}

/* Credits are counted in work requests (requester.h), and this one took none. */
void reach_retire(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;

	requester->current++;
	requester->credit_limit++;
	requester->counters.reached++;
	completer_retire(qp, now);
}

/* The peer may just not be ready: behind the first refusal all wait, behind the next ones ever less
 * does. */
static void note_refusal(struct requester *requester)
{
	uint32_t count = requester->next_unreached;

	requester->unreached = count;
	if (count < UNREACHED_MAX)
		requester->next_unreached = count ? 2 * count : 1;
}

uint32_t reach_cost(uint64_t bytes)
{
	return COST_BYTES + (uint32_t)(bytes >> COST_SHIFT);
}

enum reach_result reach_run(struct qp *qp, struct send_wqe *wqe, uint64_t now, uint32_t *bytes)
{
	struct requester *requester = qp->requester;
	uint64_t offset = wqe->flight & WQE_REACHING ? requester->reached : 0;
	uint64_t part = wqe->length - offset;
	enum reach_result result;

	if (part > PART_BYTES)
		part = PART_BYTES;
	result = do_part(qp, wqe, offset, part);
	if (result == REACH_REFUSED) {
		wqe->flight = (wqe->flight & ~(uint32_t)WQE_REACHING) | WQE_BY_PACKETS;
		note_refusal(requester);
	}
	if (result == REACH_LATER) {
		wqe->flight |= WQE_REACHING;
		requester->reached = offset;
		requester->rate_deadline = now + LATER_NS;
	}
	if (result != REACH_DONE)
		return result;
	requester->unreached = requester->next_unreached = 0;
	*bytes = reach_cost(part);
	if (offset + part == wqe->length) {
		reach_retire(qp, now);
	} else {
		wqe->flight |= WQE_REACHING;
		requester->reached = offset + part;
	}
	return REACH_DONE;
}

/* ---- the other side ---- */

static bool counts(const struct qp *qp, enum ibv_qp_attach_comp_cntr_op op)
{
	return qp->counted & op;
}

/*
 * What the program is to hear of goes by packets: the first message to a QP in RTR, and operations
 * that it counts.
 */
static unsigned int announced(const struct qp *qp)
{
	enum ibv_qp_state state = atomic_load_explicit(&qp->state, memory_order_relaxed);
	unsigned int access =
	    qp->attr.qp_access_flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);

	if (qp->type != IBV_QPT_RC && qp->type != IBV_QPT_UC)
		return 0;
	if (qp->type == IBV_QPT_RC && (state == IBV_QPS_RTS || state == IBV_QPS_SQD))
		access |= REACH_SENDS;
	if (state != IBV_QPS_RTS && state != IBV_QPS_SQD &&
	    (state != IBV_QPS_RTR || !qp->has_communicated))
		return 0;
	if (counts(qp, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE))
		access &= ~(unsigned int)IBV_ACCESS_REMOTE_WRITE;
	if (qp->type == IBV_QPT_UC || !qp->attr.max_dest_rd_atomic ||
	    counts(qp, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ))
		access &= ~(unsigned int)IBV_ACCESS_REMOTE_READ;
	return access;
}

bool reach_is_open(const struct qp *qp, unsigned int need)
{
	return qp->is_published && !(need & ~announced(qp));
}

void reach_withdraw(struct qp *qp)
{
	if (qp->is_published)
		qp->adapter->host->withdraw_qp(qp->adapter, qp);
	qp->is_published = false;
}

void reach_announce(struct qp *qp)
{
	const struct adapter_host *host = qp->adapter->host;
	unsigned int access = host->publish_qp ? announced(qp) : 0;

	reach_withdraw(qp);
	qp->is_published = access && host->publish_qp(qp->adapter, qp, access);
}
