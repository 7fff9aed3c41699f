/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transitions of a QP's state (10.3.1): those that the program asks for, after the device has
 * checked them, and those that errors force.
 */
#include <errno.h>

#include "base/hot.h"
#include "device/adapter.h"
#include "transport/completion.h"
#include "transport/fetch.h"
#include "transport/reach.h"
#include "transport/requester.h"
#include "transport/responder.h"

static enum ibv_qp_state state_of(const struct qp *qp)
{
	return atomic_load_explicit(&qp->state, memory_order_relaxed);
}

/* The work requests are forgotten without completions; completions that are in a CQ stay there. */
static void enter_reset(struct qp *qp)
{
	spin_lock(&qp->sq.lock);
	atomic_store_explicit(&qp->sq.head, sq_tail(qp), memory_order_release);
	atomic_store_explicit(&qp->sq.own, 0, memory_order_relaxed);
	spin_unlock(&qp->sq.lock);
	fetch_end(qp);
	while (!qp->srq && qp_take_recv(qp, &qp->responder->recv) == 0)
		continue;
	requester_reset(qp);
	responder_reset(qp);
	qp->is_draining = false;
	qp->has_communicated = false;
}

/* 10.3.1.6: everything is flushed, and what comes later will be. */
static void flush_all(struct qp *qp, uint64_t now)
{
	struct responder *responder = qp->responder;

	qp->is_draining = false;
	responder->job_count = 0;
	responder->is_owed = responder->is_fatal = false;
	responder->message = MESSAGE_NONE;
	responder_forget_held(qp);
	fetch_end(qp);
	recovery_drop(qp);
	flush_send(qp, now);
	flush_recv(qp, now);
	if (qp->srq)
		qp_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}

ASIDE void qp_enter_error(struct qp *qp, uint64_t now)
{
	if (state_of(qp) == IBV_QPS_ERR)
		return;
	atomic_store_explicit(&qp->state, IBV_QPS_ERR, memory_order_release);
	qp_changed(qp);
	reach_announce(qp);
	flush_all(qp, now);
	if (qp->home) /* its branches are to know */
		qp->adapter->host->schedule(qp->adapter, qp);
}

/* 10.3.1.5: UC and UD lose the send queue only. */
void qp_enter_send_error(struct qp *qp, uint64_t now)
{
	if (state_of(qp) == IBV_QPS_ERR)
		return;
	atomic_store_explicit(&qp->state, IBV_QPS_SQE, memory_order_release);
	qp_changed(qp);
	reach_announce(qp);
	flush_send(qp, now);
}

static void enter(struct qp *qp, enum ibv_qp_state before, const struct ibv_qp_attr *attr, int mask,
		  uint64_t now)
{
	enum ibv_qp_state after = state_of(qp);

	switch (after) {
	case IBV_QPS_RESET:
		enter_reset(qp);
		break;
	case IBV_QPS_SQD:
		if (before == IBV_QPS_SQD)
			break;
		qp->is_draining = true;
		qp->requester->notify_drained =
		    (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) && attr->en_sqd_async_notify;
		break;
	case IBV_QPS_ERR:
		if (before != IBV_QPS_ERR)
			flush_all(qp, now);
		break;
	default:
		qp->is_draining = false;
		break;
	}
}

int transport_modify_qp(struct qp *qp, const struct ibv_qp_attr *attr, int mask, uint64_t now)
{
	enum ibv_qp_state before = state_of(qp);
	int error;

	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && attr->max_dest_rd_atomic <= MAX_RD_ATOMIC &&
	    resource_reserve(qp, attr->max_dest_rd_atomic))
		return refuse(REASON_NO_MEMORY_FOR_READS, "QP 0x%x, max_dest_rd_atomic %u",
			      qp->number, attr->max_dest_rd_atomic);
	error = qp_modify(qp, attr, mask);
	if (error)
		return error;
	if (mask & IBV_QP_RQ_PSN)
		qp->responder->psn = attr->rq_psn & PSN_MASK;
	if (mask & IBV_QP_SQ_PSN)
		requester_start(qp, attr->sq_psn);
	enter(qp, before, attr, mask, now);
	reach_announce(qp);
	qp->adapter->host->schedule(qp->adapter, qp);
	return 0;
}

void transport_query_qp(const struct qp *qp, struct ibv_qp_attr *attr,
			struct ibv_qp_init_attr *init)
{
	qp_describe(qp, attr, init);
	attr->rq_psn = qp->responder->psn;
	attr->sq_psn = qp->requester->psn;
	attr->sq_draining = qp->is_draining;
}
