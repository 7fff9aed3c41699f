/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whom a request is for. An RC request is for the QP that it comes to, and the QP's PD, SRQ and CQ
 * are what it meets. An XRC request names an SRQ, and meets that one's (A14): the receives, the PD
 * that keys are checked against, the CQ. The SRQ is looked up for each packet, as keys are: it may
 * be gone.
 */
#include <errno.h>

#include "device/adapter.h"
#include "device/xrcd.h"
#include "transport/responder.h"

/* NULL if there is none of this number in the QP's domain. Valid while the lane's lock is held. */
struct srq *xrc_srq(const struct qp *qp, uint32_t srqn)
{
	struct adapter *adapter = qp->adapter;
	struct srq *srq;

	if (srqn >> QPN_SLOT_SHIFT != adapter->slot)
		return NULL;
	srq = table_find(&adapter->srqs, srqn & ((1u << QPN_SLOT_SHIFT) - 1));
	if (!srq || srq->type != IBV_SRQT_XRC || srq->xrcd->domain != qp->domain)
		return NULL;
	return srq;
}

/* What rkeys of a request are checked against; NULL, which no key fits, if the SRQ is gone. */
const struct pd *request_pd(const struct qp *qp, uint32_t srqn)
{
	const struct srq *srq;

	if (qp->type != IBV_QPT_XRC_RECV)
		return qp->pd;
	srq = xrc_srq(qp, srqn);
	return srq ? srq->pd : NULL;
}

/* What lkeys of the receive work request are checked against. */
const struct pd *receive_pd(const struct qp *qp)
{
	if (qp->type == IBV_QPT_XRC_RECV)
		return request_pd(qp, qp->responder->srqn);
	return qp->srq ? qp->srq->pd : qp->pd;
}

/* Where the receive work request completes; NULL if the SRQ is gone, and then nobody waits. */
struct cq *receive_cq(const struct qp *qp)
{
	const struct srq *srq;

	if (qp->type != IBV_QPT_XRC_RECV)
		return qp->srq && qp->srq->cq ? qp->srq->cq : qp->recv_cq;
	srq = xrc_srq(qp, qp->responder->srqn);
	return srq ? srq->cq : NULL;
}

/* The receive work request that the message begins with. */
enum verdict receive_take(struct arrival *arrival)
{
	struct responder *responder = arrival->qp->responder;
	struct srq *srq;
	int ret;

	if (arrival->qp->srq && arrival->qp->srq->type == IBV_SRQT_TM)
		return tag_take(arrival);
	if (arrival->qp->type == IBV_QPT_XRC_RECV) {
		responder->srqn = arrival->wire->xrceth;
		srq = xrc_srq(arrival->qp, responder->srqn); /* check_srq() has found it */
		ret = srq ? srq_take(srq, &responder->recv) : -ENOENT;
	} else {
		ret = qp_take_recv(arrival->qp, &responder->recv);
	}
	return ret ? NOT_READY : PASS;
}

/* Each packet names the SRQ, and all of a message the same. */
enum verdict check_srq(struct arrival *arrival)
{
	const struct qp *qp = arrival->qp;
	uint32_t srqn = arrival->wire->xrceth;
	bool is_same = message_starts(arrival->wire) || srqn == qp->responder->srqn;

	if (qp->type != IBV_QPT_XRC_RECV)
		return PASS;
	if (is_same && xrc_srq(qp, srqn)) {
		qp->responder->srqn = srqn;
		return PASS;
	}
	refuse_wr(REASON_XRC_SRQ_NUMBER, "QP 0x%x from QP 0x%x: %s, SRQ number 0x%x%s", qp->number,
		  qp->attr.dest_qp_num, arrival->wire->op->name, srqn,
		  is_same ? "" : " in the middle of a message to another");
	return refuse_request(arrival, IBV_WC_REM_INV_REQ_ERR, REASON_XRC_SRQ_NUMBER);
}
