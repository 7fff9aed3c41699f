/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending again: after a sequence NAK or a lost response at once, after an RNR NAK when its time is
 * over, after a timeout as the last resort. It is go-back-N: from the oldest packet not
 * acknowledged on (9.7.5.1.4, 9.7.6.1). Towards adapters of our own recovery.c comes first.
 */
#include "device/adapter.h"
#include "transport/offer.h"
#include "transport/requester.h"
#include "wire/timers.h"

enum { RNR_FOR_EVER = 7 };

/*
 * 9.7.6.1.3 lets the timer run for one to four times the timeout: longer from one expiry to the
 * next, as a peer that has stopped answering for want of a processor or of buffers is not helped by
 * more of the same.
 */
void retry_start_timer(struct qp *qp, uint64_t now)
{
	uint8_t expired = qp->requester->expired;
	uint64_t timeout = ack_timeout_ns(qp->attr.timeout) << (expired < 2 ? expired : 2);

	if (timeout && qp->requester->ack_deadline == NO_DEADLINE)
		qp->requester->ack_deadline = now + timeout;
}

/* Something was acknowledged: counters are full again, */
void retry_refill(struct qp *qp)
{
	struct requester *requester = qp->requester;

	requester->retries_left = qp->attr.retry_cnt;
	requester->rnr_retries_left = qp->attr.rnr_retry;
	requester->has_gone_back = false;
	requester->expired = 0;
	requester->ack_deadline = NO_DEADLINE;
}

/* and the timer begins anew if anything is outstanding. */
void retry_progressed(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;

	retry_refill(qp);
	if (requester->una != requester->psn)
		retry_start_timer(qp, now);
}

void retry_go_back(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;

	recovery_drop(qp);
	probe_drop(qp, now);
	requester->psn = requester->una;
	requester->current = sq_head(qp);
	requester->rd_sent = 0;
	requester->since_ack_req = 0;
	requester->ack_deadline = NO_DEADLINE;
	cursor_reset(&requester->gather);
}

/* One of retry_cnt is used up; false if there was none, and the oldest WQE has failed. */
bool retry_spend(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;

	if (requester->retries_left) {
		requester->retries_left--;
		return true;
	}
	refuse_wr(REASON_RETRY_EXCEEDED, "QP 0x%x to QP 0x%x, PSN 0x%x, %u retries", qp->number,
		  qp->attr.dest_qp_num, requester->una, qp->attr.retry_cnt);
	requester_fail_wqe(qp, sq_head(qp), IBV_WC_RETRY_EXC_ERR, REASON_RETRY_EXCEEDED);
	requester_settle(qp, now);
	return false;
}

/* A sequence NAK for `una`, or an answer that shows that the one at `una` is lost. */
void retry_after_gap(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;

	if (requester->has_gone_back)
		return;
	window_lost(&requester->window, requester->end);
	if (!retry_spend(qp, now))
		return;
	offer_no_more(requester);
	retry_go_back(qp, now);
	requester->has_gone_back = true;
}

void retry_after_rnr(struct qp *qp, uint8_t timer, uint64_t now)
{
	struct requester *requester = qp->requester;

	if (requester->rnr_deadline != NO_DEADLINE)
		return;
	if (qp->attr.rnr_retry != RNR_FOR_EVER) {
		if (!requester->rnr_retries_left) {
			refuse_wr(REASON_RNR_RETRY_EXCEEDED, "QP 0x%x to QP 0x%x, PSN 0x%x",
				  qp->number, qp->attr.dest_qp_num, requester->una);
			requester_fail_wqe(qp, sq_head(qp), IBV_WC_RNR_RETRY_EXC_ERR,
					   REASON_RNR_RETRY_EXCEEDED);
			requester_settle(qp, now);
			return;
		}
		requester->rnr_retries_left--;
	}
	retry_go_back(qp, now);
	requester->rnr_deadline = now + rnr_timer_ns(timer);
}

static bool is_peer_gone(struct qp *qp)
{
	struct adapter *adapter = qp->adapter;

	return adapter->host->is_peer_gone && adapter->host->is_peer_gone(adapter, qp);
}

/* Soft-RoCE does not answer a FLUSH with an ICRC as it should be, and no other adapter one with
 * Soft-RoCE's. */
static void try_other_flush(struct qp *qp)
{
	if (sq_wqe(&qp->sq, sq_head(qp))->opcode == IBV_WR_FLUSH)
		qp->requester->flushes_twice = !qp->requester->flushes_twice;
}

/* False if the QP has failed. */
bool retry_on_deadline(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;

	if (now >= requester->rnr_deadline)
		requester->rnr_deadline = NO_DEADLINE;
	if (now < requester->ack_deadline) {
		if (now >= requester->probe.deadline)
			probe_expire(qp);
		return true;
	}
	if (!qp_is_reliable(qp)) {
		pace_expire(qp);
		return true;
	}
	requester->counters.timeouts++;
	qp->av.is_doubted = true;
	if (requester->expired < UINT8_MAX)
		requester->expired++;
	window_timed_out(&requester->window, requester->end);
	if (is_peer_gone(qp)) /* more of the same would only take longer */
		requester->retries_left = 0;
	if (!retry_spend(qp, now))
		return false;
	try_other_flush(qp);
	offer_no_more(requester);
	retry_go_back(qp, now);
	requester->has_gone_back = false;
	return true;
}
