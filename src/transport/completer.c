/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The completer: what comes back for our requests. ACKs are cumulative and any response
 * acknowledges what lies before it; one that overtakes the answer of a READ or atomic shows that
 * this one is lost (9.7.5.1.1, 9.7.5.2).
 */

#include "base/hot.h"
#include "device/adapter.h"
#include "transport/completion.h"
#include "transport/offer.h"
#include "transport/requester.h"
#include "wire/aeth.h"

void completer_retire(struct qp *qp, uint64_t now)
{
	uint32_t head = sq_head(qp);

	send_complete(qp, sq_wqe(&qp->sq, head), IBV_WC_SUCCESS, REASON_NONE, now);
	requester_settle(qp, now);
	completer_retire_done(qp, now);
}

/* Sending again may not have come past them yet: then it goes on behind. */
void completer_retire_done(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;
	uint32_t head;

	while (requester_is_alive(qp)) {
		head = sq_head(qp);
		if (head == sq_tail(qp) || !(sq_wqe(&qp->sq, head)->flight & WQE_DONE))
			return;
		if (requester->current == head)
			requester->current++;
		send_complete(qp, sq_wqe(&qp->sq, head), IBV_WC_SUCCESS, REASON_NONE, now);
		requester_settle(qp, now);
	}
}

static struct send_wqe *head_wqe(struct qp *qp)
{
	return sq_wqe(&qp->sq, sq_head(qp));
}

/* `una` has moved: sending goes on behind it at the earliest, answered requests before it are done.
 */
static void forget_acknowledged(struct qp *qp)
{
	struct requester *requester = qp->requester;

	if (psn_compare(requester->una, requester->psn) > 0) {
		requester->psn = requester->una;
		requester->current = sq_head(qp);
		cursor_reset(&requester->gather);
	}
	while (requester->rd_count &&
	       psn_compare(requester->rd_last[requester->rd_first], requester->una) < 0) {
		requester->rd_first = (requester->rd_first + 1) % MAX_RD_ATOMIC;
		requester->rd_count--;
		if (requester->rd_sent)
			requester->rd_sent--;
	}
}

static void acknowledged(struct qp *qp, uint32_t before, uint64_t now)
{
	struct requester *requester = qp->requester;

	if (requester->una == before || !requester_is_alive(qp))
		return;
	forget_acknowledged(qp);
	requester->rnr_deadline = NO_DEADLINE;
	if (requester->recovery)
		recovery_progressed(qp);
	window_acknowledged(&requester->window, psn_into(requester->una, before), requester->una);
	retry_progressed(qp, now);
	probe_progressed(qp, now);
	if (psn_compare(requester->una, requester->packets_end) > 0)
		requester->packets_end = requester->una;
}

/* A message that has left, all of it before `limit`. */
static bool is_plain(const struct send_wqe *wqe, uint32_t psn, uint32_t limit)
{
	return wqe->flight == WQE_STARTED && wqe->opcode == IBV_WR_SEND && wqe->first_psn == psn &&
	       psn_into(wqe->last_psn, psn) < psn_into(limit, psn);
}

/* From then on the WQEs before `head` are the next ones'. */
static void go_past(struct qp *qp, uint32_t una, uint32_t head, bool was_told)
{
	qp->requester->una = una;
	qp->requester->was_told = was_told;
	atomic_store_explicit(&qp->sq.head, head, memory_order_release);
}

/* As send_complete() does. */
static void tell(struct qp *qp, const struct send_wqe *wqe, uint32_t head, struct cq_taking *taking,
		 uint64_t now)
{
	struct completion completion;
	struct ibv_wc *wc = completion_begin(&completion, qp->send_cq, taking, now);

	wc_fill(wc, wqe->wr_id, IBV_WC_SEND, (uint32_t)wqe->length, qp->number);
	go_past(qp, psn_next(wqe->last_psn), head, true);
	completion_end(&completion, qp, qp->send_cq, false);
}

/* What acknowledge_before() does of such messages, which are most of a stream, in a few steps. What
 * follows the last of them is done as after any. */
static void retire_messages(struct qp *qp, uint32_t limit, struct cq_taking *taking, uint64_t now)
{
	struct requester *requester = qp->requester;
	uint32_t before = requester->una, una = before, head = sq_head(qp);

	while (una != limit) {
		const struct send_wqe *wqe = sq_wqe(&qp->sq, head);

		if (!is_plain(wqe, una, limit))
			break;
		una = psn_next(wqe->last_psn);
		head++;
		if (!(wqe->flags & IBV_SEND_SIGNALED))
			continue;
		tell(qp, wqe, head, taking, now);
		if (!requester_is_alive(qp)) /* a completion too many */
			return;
	}
	if (una == before)
		return;
	if (una != requester->una)
		go_past(qp, una, head, false);
	if (head != sq_tail(qp))
		completer_retire_done(qp, now);
}

static void retire_plain(struct qp *qp, uint32_t limit, uint64_t now)
{
	if (!qp->requester->has_failed && requester_is_alive(qp) &&
	    !(qp->counted & IBV_QP_ATTACH_COMP_CNTR_OP_SEND))
		retire_messages(qp, limit, cq_take_own(), now);
}

/*
 * Everything before `limit` is acknowledged. Stops at a request that is answered with data, for its
 * answer can't be skipped: false.
 */
static bool acknowledge_before(struct qp *qp, uint32_t limit, uint64_t now)
{
	struct requester *requester = qp->requester;
	uint32_t before = requester->una;
	struct send_wqe *wqe;
	bool is_whole = true;

	retire_plain(qp, limit, now);
	while (requester->una != limit && requester_is_alive(qp)) {
		wqe = head_wqe(qp);
		is_whole = !is_answered(wqe->opcode);
		if (!is_whole)
			break;
		if (psn_into(limit, requester->una) <= psn_into(wqe->last_psn, requester->una)) {
			requester->una = limit;
			break;
		}
		requester->una = psn_next(wqe->last_psn);
		completer_retire(qp, now);
	}
	acknowledged(qp, before, now);
	return is_whole && requester_is_alive(qp);
}

void completer_acknowledge(struct qp *qp, uint32_t psn, uint64_t now)
{
	struct requester *requester = qp->requester;

	requester->counters.acks_received++;
	acknowledge_before(qp, psn_next(psn), now);
	requester->has_credits = false;
}

APART static void acknowledge_packets(struct qp *qp, uint32_t psn, uint64_t now)
{
	completer_acknowledge(qp, psn, now);
}

void completer_acknowledge_sent(struct qp *qp, uint32_t psn, struct cq_taking *taking, uint64_t now)
{
	struct requester *requester = qp->requester;
	uint32_t limit = psn_next(psn);

	if (psn_compare(requester->una, requester->packets_end) >= 0 &&
	    !(qp->counted & IBV_QP_ATTACH_COMP_CNTR_OP_SEND))
		retire_messages(qp, limit, taking, now);
	if (requester->una != limit || !requester_is_alive(qp)) {
		acknowledge_packets(qp, psn, now);
		return;
	}
	requester->packets_end = limit;
	retry_refill(qp);
	requester->has_credits = false;
	requester->counters.acks_received++;
}

/* All that is in flight has left once, as records. */
static bool is_all_sent(const struct requester *requester)
{
	return requester->psn == requester->end && !requester->rd_count && !requester->has_failed &&
	       !requester->recovery && !requester->responses &&
	       psn_compare(requester->una, requester->packets_end) >= 0;
}

/* The oldest message, if it is one of a packet. */
static bool is_single(const struct send_wqe *wqe, const struct requester *requester, uint32_t psn)
{
	return psn == requester->una && psn != requester->end && wqe->first_psn == psn &&
	       wqe->last_psn == psn && wqe->flight == WQE_STARTED && wqe->opcode == IBV_WR_SEND;
}

bool completer_acknowledge_single(struct qp *qp, uint32_t psn, struct cq_taking *taking,
				  uint64_t now)
{
	struct requester *requester = qp->requester;
	uint32_t head = sq_head(qp);
	const struct send_wqe *wqe = sq_wqe(&qp->sq, head);
	bool is_told = wqe->flags & IBV_SEND_SIGNALED;
	struct ibv_wc *wc = NULL;

	if (!is_single(wqe, requester, psn) || !is_all_sent(requester) ||
	    qp->counted & IBV_QP_ATTACH_COMP_CNTR_OP_SEND)
		return false;
	if (is_told) {
		wc = cq_take_next(taking, qp->send_cq);
		if (!wc && !cq_has_room(qp->send_cq, 1))
			return false;
	}
	if (wc)
		wc_fill(wc, wqe->wr_id, IBV_WC_SEND, (uint32_t)wqe->length, qp->number);
	if (is_told && !wc)
		tell(qp, wqe, head + 1, NULL, now);
	else
		go_past(qp, psn_next(psn), head + 1, is_told);
	requester->packets_end = requester->una;
	retry_refill(qp);
	requester->has_credits = false;
	requester->is_untimed = requester->una != requester->end;
	requester->counters.acks_received++;
	if (head + 1 != sq_tail(qp))
		completer_retire_done(qp, now);
	return true;
}

/* The answer to the packet at `una` is in. */
static void acknowledge_answer(struct qp *qp, const struct send_wqe *wqe, uint64_t now)
{
	struct requester *requester = qp->requester;
	uint32_t before = requester->una;

	requester->una = psn_next(before);
	if (before == wqe->last_psn)
		completer_retire(qp, now);
	acknowledged(qp, before, now);
}

static void fail_head(struct qp *qp, enum ibv_wc_status status, enum reason reason, uint64_t now)
{
	requester_fail_wqe(qp, sq_head(qp), status, reason);
	requester_settle(qp, now);
}

static void bad_response(struct qp *qp, const struct wire_packet *wire, uint64_t now)
{
	refuse_wr(REASON_BAD_RESPONSE, "QP 0x%x from QP 0x%x, PSN 0x%x, %s with %u bytes",
		  qp->number, qp->attr.dest_qp_num, wire->bth.psn, wire->op->name,
		  wire->payload_length);
	fail_head(qp, IBV_WC_BAD_RESP_ERR, REASON_BAD_RESPONSE, now);
}

/* 9.7.7.2: an ACK with a credit count says how many receive WQEs there are for the messages from
 * `una` on. */
static void take_credits(struct qp *qp, uint8_t syndrome)
{
	struct requester *requester = qp->requester;

	if (aeth_kind(syndrome) != AETH_ACK)
		return;
	requester->has_credits = aeth_value(syndrome) != AETH_CREDIT_NONE;
	requester->credit_limit = sq_head(qp) + aeth_credits(aeth_value(syndrome));
}

static bool is_last_response(const struct wire_packet *wire)
{
	return wire->op->flags & OPF_END;
}

/* A response to a READ: data for the place that its PSN says. */
static void read_data(struct qp *qp, const struct send_wqe *wqe, const struct wire_packet *wire,
		      uint64_t now)
{
	struct requester *requester = qp->requester;
	struct sge_list list = wqe_list(qp, wqe);
	uint64_t offset = (uint64_t)psn_into(requester->una, wqe->first_psn) * qp->mtu;
	bool is_last = requester->una == requester->rd_last[requester->rd_first];
	uint64_t expected = wqe->length - offset;
	enum reason reason;

	if (expected > qp->mtu)
		expected = qp->mtu;
	/* what was asked for again has ends of its own */
	if ((is_last != is_last_response(wire) && !requester->is_peer_ours) ||
	    wire->payload_length != expected) {
		bad_response(qp, wire, now);
		return;
	}
	reason = payload_scatter(&list, &requester->scatter, offset, wire->payload,
				 wire->payload_length);
	if (reason) {
		refuse_wr(reason, "QP 0x%x, answer to wr_id 0x%llx, byte %llu", qp->number,
			  (unsigned long long)wqe->wr_id, (unsigned long long)offset);
		fail_head(qp, IBV_WC_LOC_PROT_ERR, reason, now);
		return;
	}
	acknowledge_answer(qp, wqe, now);
}

static void receive_read_response(struct qp *qp, const struct wire_packet *wire, uint64_t now)
{
	struct send_wqe *wqe = head_wqe(qp);

	switch (wqe->opcode) {
	case IBV_WR_RDMA_READ:
		read_data(qp, wqe, wire, now);
		break;
	case IBV_WR_FLUSH:
	case IBV_WR_ATOMIC_WRITE:
		if (wire->payload_length || !is_last_response(wire))
			bad_response(qp, wire, now);
		else
			acknowledge_answer(qp, wqe, now);
		break;
	default:
		bad_response(qp, wire, now);
		break;
	}
}

/* The original value goes to the program in its own byte order, as all implementations have it. */
static void receive_atomic(struct qp *qp, const struct wire_packet *wire, uint64_t now)
{
	struct send_wqe *wqe = head_wqe(qp);
	struct sge_list list = wqe_list(qp, wqe);
	enum reason reason;

	if (wqe->opcode != IBV_WR_ATOMIC_CMP_AND_SWP &&
	    wqe->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD) {
		bad_response(qp, wire, now);
		return;
	}
	reason = payload_scatter(&list, &qp->requester->scatter, 0, &wire->atomic_ack,
				 sizeof(wire->atomic_ack));
	if (reason) {
		refuse_wr(reason, "QP 0x%x, answer to wr_id 0x%llx", qp->number,
			  (unsigned long long)wqe->wr_id);
		fail_head(qp, IBV_WC_LOC_PROT_ERR, reason, now);
		return;
	}
	acknowledge_answer(qp, wqe, now);
}

static void receive_answer(struct qp *qp, const struct wire_packet *wire, uint64_t now)
{
	if (!acknowledge_before(qp, wire->bth.psn, now)) {
		if (requester_is_alive(qp) && !recovery_answer(qp, wire, now)) {
			qp->requester->counters.implied_naks++;
			retry_after_gap(qp, now);
		}
		return;
	}
	if (wire->op->flags & OPF_ATOMIC_ACK)
		receive_atomic(qp, wire, now);
	else
		receive_read_response(qp, wire, now);
}

static void refused_by_peer(struct qp *qp, uint8_t code, uint64_t now)
{
	static const struct {
		enum ibv_wc_status status;
		enum reason reason;
	} errors[] = {
	    [NAK_INVALID_REQUEST] = {IBV_WC_REM_INV_REQ_ERR, REASON_PEER_INVALID_REQUEST},
	    [NAK_REMOTE_ACCESS] = {IBV_WC_REM_ACCESS_ERR, REASON_PEER_REFUSED_ACCESS},
	    [NAK_REMOTE_OPERATIONAL] = {IBV_WC_REM_OP_ERR, REASON_PEER_FAILED},
	};
	const struct send_wqe *wqe = head_wqe(qp);

	qp->requester->counters.error_naks_received++;
	refuse_wr(errors[code].reason,
		  "QP 0x%x to QP 0x%x, wr_id 0x%llx, remote address 0x%llx, rkey 0x%x, %llu bytes",
		  qp->number, qp->attr.dest_qp_num, (unsigned long long)wqe->wr_id,
		  (unsigned long long)wqe->remote_addr, wqe->rkey, (unsigned long long)wqe->length);
	fail_head(qp, errors[code].status, errors[code].reason, now);
}

static void receive_nak(struct qp *qp, const struct wire_packet *wire, uint64_t now)
{
	struct transport_counters *counters = &qp->requester->counters;
	uint8_t code = aeth_value(wire->aeth.syndrome);

	if (!acknowledge_before(qp, wire->bth.psn, now)) {
		if (requester_is_alive(qp)) {
			counters->implied_naks++;
			retry_after_gap(qp, now);
		}
	} else if (code == NAK_PSN_SEQUENCE) {
		counters->sequence_naks_received++;
		retry_after_gap(qp, now);
	} else if (code == NAK_DECLINED) {
		offer_declined(qp, now);
	} else if (code <= NAK_REMOTE_OPERATIONAL) {
		refused_by_peer(qp, code, now);
	} else {
		counters->dropped++; /* 9.7.5.2.8: reserved codes */
	}
}

static void receive_ack(struct qp *qp, const struct wire_packet *wire, uint64_t now)
{
	struct transport_counters *counters = &qp->requester->counters;
	bool is_whole;

	switch (aeth_kind(wire->aeth.syndrome)) {
	case AETH_ACK:
		counters->acks_received++;
		is_whole = acknowledge_before(qp, psn_next(wire->bth.psn), now) ||
			   !requester_is_alive(qp) || recovery_acknowledge(qp, wire->bth.psn, now);
		take_credits(qp, wire->aeth.syndrome);
		break;
	case AETH_RNR_NAK:
		counters->rnr_naks_received++;
		is_whole = acknowledge_before(qp, wire->bth.psn, now);
		if (is_whole)
			retry_after_rnr(qp, aeth_value(wire->aeth.syndrome), now);
		break;
	case AETH_NAK:
		receive_nak(qp, wire, now);
		return;
	default:
		counters->dropped++;
		return;
	}
	if (!is_whole && requester_is_alive(qp)) {
		counters->implied_naks++;
		retry_after_gap(qp, now);
	}
}

/* Nothing new, but the credits may be: 9.7.7.2.5, the unsolicited ACK repeats the PSN of the last
 * one. */
static void receive_ghost(struct qp *qp, const struct wire_packet *wire)
{
	struct requester *requester = qp->requester;

	requester->counters.ghosts++;
	if ((wire->op->flags & OPF_ACK) && wire->bth.psn == psn_add(requester->una, -1))
		take_credits(qp, wire->aeth.syndrome);
}

/* Requests that the responder holds: those before are missing. */
static void receive_gaps(struct qp *qp, const struct wire_packet *wire, uint64_t now)
{
	qp->requester->counters.sequence_naks_received++;
	acknowledge_before(qp, wire->bth.psn, now);
	if (requester_is_alive(qp) && !recovery_gaps(qp, wire, now))
		retry_after_gap(qp, now);
}

/* What came before its turn, when its turn has come. */
static void receive_held(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;
	struct wire_packet wire;
	struct held *held;

	while (requester_is_alive(qp) && requester->recovery) {
		if (psn_compare(requester->recovery->executed, requester->una) > 0)
			acknowledge_before(qp, requester->recovery->executed, now);
		held = hold_take(qp->adapter, requester->responses, requester->una);
		if (!held)
			return;
		if (wire_parse(&wire, held->bth, held->length) == PARSE_OK)
			receive_answer(qp, &wire, now);
		hold_free(qp->adapter, held);
	}
}

void completer_receive(struct qp *qp, const struct wire_packet *wire, uint64_t now)
{
	struct requester *requester = qp->requester;

	if (!requester_is_alive(qp)) {
		requester->counters.dropped++;
		return;
	}
	if (psn_into(wire->bth.psn, requester->una) >= psn_into(requester->end, requester->una))
		receive_ghost(qp, wire);
	else if (wire->op->flags & OPF_ACK)
		receive_ack(qp, wire, now);
	else if (wire->op->flags & OPF_GAPS)
		receive_gaps(qp, wire, now);
	else
		receive_answer(qp, wire, now);
	if (requester->recovery)
		receive_held(qp, now);
	qp->adapter->host->schedule(qp->adapter, qp);
}
