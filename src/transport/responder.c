/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RC responder (9.7): a request goes through the checks in order, is executed, and is answered.
 * What is answered is decided here, and leaves in responder_run() or at once if it is a NAK.
 */

#include "device/adapter.h"
#include "transport/completion.h"
#include "transport/fetch.h"
#include "transport/ledger.h"
#include "transport/requester.h"
#include "transport/responder.h"

void responder_reset(struct qp *qp)
{
	struct responder *responder = qp->responder;

	responder->psn = responder->msn = 0;
	responder->has_told = false;
	responder->message = MESSAGE_NONE;
	responder->received = 0;
	responder->is_owed = responder->is_fatal = false;
	responder->has_recv = false;
	responder->tag_mode = TAG_NONE;
	responder->waiting_count = 0;
	responder->behind_until = 0;
	responder->skip = 0;
	responder->has_acknowledged = false;
	responder_forget_held(qp);
	fetch_drop(qp);
	responder->is_unready = responder->owes_sign = false;
	resource_reset(qp);
}

void responder_forget_held(struct qp *qp)
{
	hold_drop(qp->adapter, &qp->responder->requests);
	qp->responder->is_reporting = false;
}

void responder_hold(struct responder *responder, const struct recv_wqe *taken)
{
	recv_wqe_copy(&responder->recv, taken);
	responder->has_recv = true;
	cursor_reset(&responder->scatter);
}

bool responder_has_work(const struct qp *qp)
{
	return qp->responder->is_owed || qp->responder->job_count || qp->responder->is_reporting;
}

static void owe(struct responder *responder, uint8_t syndrome, uint32_t psn)
{
	responder->is_owed = true;
	responder->syndrome = syndrome;
	responder->answer_psn = psn;
}

/* An ACK is behind a job only if it covers more; one already owed keeps what it covers. */
static void owe_ack_again(struct responder *responder, uint32_t psn)
{
	if (responder->behind_until)
		responder->behind_until = 1; /* that was too long for the peer */
	if (responder->is_owed && (aeth_kind(responder->syndrome) != AETH_ACK ||
				   psn_compare(responder->answer_psn, psn) >= 0))
		return;
	if (responder->job_count &&
	    psn_compare(responder->jobs[responder->job_count - 1].last_psn, psn) > 0)
		return;
	owe(responder, AETH_ACK | AETH_CREDIT_NONE, psn);
}

static enum verdict execute(struct arrival *arrival)
{
	uint32_t flags = arrival->wire->op->flags;

	if (flags & OPF_SEND)
		return execute_send(arrival);
	if (flags & OPF_WRITE)
		return execute_write(arrival);
	return execute_answered(arrival);
}

/* 9.7.4.1: the order is the specification's, but that a receive work request is taken last, when
 * nothing else can fail. */
static enum verdict validate_and_execute(struct arrival *arrival)
{
	static enum verdict (*const pipeline[])(struct arrival *) = {
	    check_sequence,  /* 9.7.4.1.2 */
	    check_srq,	     /* A14 */
	    check_enabled,   /* 9.7.4.1.3 */
	    check_resources, /* 9.7.4.1.4 */
	    check_length,    /* 9.7.4.1.6 */
	    check_key,	     /* 9.7.4.1.5 */
	    check_receive,   /* 9.7.5.2.8 */
	    execute,
	};
	enum verdict verdict = PASS;

	for (size_t i = 0; i < sizeof(pipeline) / sizeof(pipeline[0]) && verdict == PASS; i++)
		verdict = pipeline[i](arrival);
	return verdict;
}

/* Executed: the next PSN is expected, and the answer is owed. */
static void executed(struct arrival *arrival)
{
	struct responder *responder = arrival->qp->responder;
	const struct wire_packet *wire = arrival->wire;
	bool is_message = wire->op->flags & (OPF_SEND | OPF_WRITE);
	uint32_t last = psn_add(wire->bth.psn, request_psns(arrival->qp, wire) - 1);
	bool was_nak = responder->is_owed && aeth_kind(responder->syndrome) != AETH_ACK;

	responder->psn = psn_next(last);
	arrival->qp->av.is_doubted = false;
	responder->has_told = responder->is_unready = false;
	responder->has_acknowledged = is_message && (wire->bth.ack_req || message_ends(wire));
	if (message_ends(wire))
		responder->msn = (responder->msn + 1) & PSN_MASK;
	if (!is_message)
		responder->is_owed = false; /* its answer acknowledges all before it */
	else if (wire->bth.ack_req || was_nak)
		owe(responder, AETH_ACK | AETH_CREDIT_NONE, last);
	if (is_message && message_ends(wire))
		execute_end_of_message(arrival);
	if (arrival->qp->ledger) /* before the answer leaves */
		ledger_note(arrival->qp, arrival->qp->ledger);
}

void transport_ask_again(struct qp *qp)
{
	qp->responder->has_told = true;
	owe(qp->responder, AETH_NAK | NAK_PSN_SEQUENCE, qp->responder->psn);
	qp->adapter->host->schedule(qp->adapter, qp);
}

/* 9.9.3: the receive work request completes in error if there is one, else an event tells; the NAK
 * ends the QP. */
static void refused(struct arrival *arrival)
{
	struct qp *qp = arrival->qp;
	uint32_t flags = arrival->wire->op->flags;

	if (flags & OPF_WRITE)
		comp_cntr_count(qp, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE, false, 0);
	if (flags & OPF_READ_REQUEST)
		comp_cntr_count(qp, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ, false, 0);
	if (qp->responder->has_recv)
		recv_complete_error(qp, arrival->status, arrival->reason, arrival->now);
	else
		qp_event(qp, arrival->event);
	owe(qp->responder, arrival->syndrome, arrival->wire->bth.psn);
	qp->responder->is_fatal = true;
}

/* What comes behind this answer to what is expected is dropped: all comes again from here on. */
static void owe_nak(struct qp *qp, uint8_t syndrome)
{
	struct responder *responder = qp->responder;

	owe(responder, syndrome, responder->psn);
	responder->has_told = responder->is_unready = true;
	responder_forget_held(qp);
}

static void conclude(struct arrival *arrival, enum verdict verdict)
{
	struct qp *qp = arrival->qp;

	switch (verdict) {
	case PASS:
		executed(arrival);
		break;
	case NOT_READY:
		owe_nak(qp, AETH_RNR_NAK | (qp->attr.min_rnr_timer & AETH_VALUE_MASK));
		break;
	case DECLINED:
		owe_nak(qp, AETH_NAK | NAK_DECLINED);
		break;
	case LATER:
		qp->responder->has_told = qp->responder->is_unready = true;
		responder_forget_held(qp);
		break;
	case REFUSED:
		refused(arrival);
		break;
	case DROP:
		qp->requester->counters.dropped++;
		break;
	}
}

/* With what came of a fetch it ends, unless it goes on. */
static void conclude_fetch(struct arrival *arrival, enum verdict verdict)
{
	struct qp *qp = arrival->qp;
	bool has_missed = qp->responder->fetch && qp->responder->fetch->has_missed;

	conclude(arrival, verdict);
	if (verdict == LATER)
		return;
	fetch_drop(qp);
	if (verdict == PASS && has_missed)
		owe_nak(qp, AETH_NAK | NAK_DECLINED);
}

static void receive_expected(struct arrival *arrival)
{
	struct qp *qp = arrival->qp;

	if (qp->responder->fetch) /* sent again, as it takes that long */
		qp->requester->counters.dropped++;
	else if (arrival->wire->op->flags & OPF_OFFER)
		conclude_fetch(arrival, fetch_begin(arrival));
	else
		conclude(arrival, validate_and_execute(arrival));
}

void responder_fetch(struct qp *qp, uint64_t now)
{
	struct arrival arrival = {.qp = qp, .wire = &qp->responder->fetch->wire, .now = now};

	conclude_fetch(&arrival, fetch_go_on(&arrival));
}

/* 9.7.5.1.2: seen before. SEND and WRITE are acknowledged again, the others answered again. */
static void receive_duplicate(struct arrival *arrival)
{
	struct qp *qp = arrival->qp;
	const struct wire_packet *wire = arrival->wire;

	qp->requester->counters.duplicates++;
	qp->av.is_doubted = true; /* the answer may not have come */
	if (wire->op->flags & (OPF_SEND | OPF_WRITE | OPF_OFFER))
		owe_ack_again(qp->responder, resource_covered(qp, wire->bth.psn));
	else
		resource_duplicate(arrival);
}

/* A peer of ours sends what is missing alone, so what comes behind is held. */
static bool hold_request(struct arrival *arrival)
{
	struct qp *qp = arrival->qp;
	struct responder *responder = qp->responder;

	if (!qp->requester->is_peer_ours || responder->is_unready ||
	    arrival->wire->op->flags & OPF_OFFER ||
	    !hold_put(qp->adapter, &responder->requests, responder->psn, arrival->wire->bth.psn,
		      arrival->packet->bth, arrival->packet->length))
		return false;
	responder->is_reporting = true;
	return true;
}

/* The gap is filled: what was held is received. */
static void receive_held(struct arrival *arrival)
{
	struct qp *qp = arrival->qp;
	struct responder *responder = qp->responder;
	struct wire_packet wire;
	struct packet packet = *arrival->packet;
	struct arrival next = {.qp = qp, .packet = &packet, .wire = &wire, .now = arrival->now};
	struct held *held;

	while (!responder->is_fatal &&
	       (held = hold_take(qp->adapter, responder->requests, responder->psn))) {
		packet.bth = held->bth;
		packet.length = held->length;
		if (wire_parse(&wire, packet.bth, packet.length) == PARSE_OK)
			receive_expected(&next);
		hold_free(qp->adapter, held);
	}
	hold_trim(qp->adapter, &responder->requests, responder->psn);
	responder->is_reporting = responder->is_reporting && responder->requests;
}

/* 9.7.5.2.8, C9-114: one NAK for a gap, however much comes behind it. */
static void receive_out_of_order(struct arrival *arrival)
{
	struct responder *responder = arrival->qp->responder;

	arrival->qp->requester->counters.out_of_order++;
	if (responder->fetch)
		responder->fetch->has_missed = true;
	if (hold_request(arrival))
		return;
	if (responder->has_told)
		return;
	responder->has_told = true;
	owe(responder, AETH_NAK | NAK_PSN_SEQUENCE, responder->psn);
}

bool responder_answer(struct qp *qp, struct outbox *outbox)
{
	struct responder *responder = qp->responder;

	if (!responder->is_owed)
		return true;
	if (!response_acknowledge(qp, responder->syndrome, responder->answer_psn, outbox))
		return false;
	responder_answered(responder);
	return true;
}

/* What is owed behind the jobs, which may be the last that the QP says. False when the outbox is
 * full. */
static bool answer(struct qp *qp, uint64_t now, struct outbox *outbox)
{
	bool is_owed = qp->responder->is_owed;

	if (!responder_answer(qp, outbox))
		return false;
	if (is_owed && qp->responder->is_fatal)
		qp_enter_error(qp, now);
	return true;
}

void responder_receive(struct arrival *arrival, struct outbox *outbox)
{
	struct qp *qp = arrival->qp;
	struct responder *responder = qp->responder;
	int32_t order = psn_compare(arrival->wire->bth.psn, responder->psn);

	if (responder->is_fatal) {
		qp->requester->counters.dropped++;
		return;
	}
	if (order > 0)
		receive_out_of_order(arrival);
	else if (order < 0)
		receive_duplicate(arrival);
	else
		receive_expected(arrival);
	if (responder->requests && order == 0)
		receive_held(arrival);
	if (responder->is_owed && aeth_kind(responder->syndrome) != AETH_ACK &&
	    !responder->job_count && answer(qp, arrival->now, outbox))
		return;
	if (responder_has_work(qp))
		qp->adapter->host->schedule(qp->adapter, qp);
}

/* The data of a READ can't be read any more: the responses end with a NAK (9.7.5.2.4). */
static void read_failed(struct qp *qp, uint32_t psn)
{
	struct responder *responder = qp->responder;

	qp_event(qp, IBV_EVENT_QP_ACCESS_ERR);
	comp_cntr_count(qp, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ, false, 0);
	responder->job_count = 0;
	owe(responder, AETH_NAK | NAK_REMOTE_ACCESS, psn);
	responder->is_fatal = true;
}

static void job_done(const struct qp *qp, struct responder *responder)
{
	const struct response_job *job = responder->jobs;

	if (job->kind == JOB_READ && !job->is_again) {
		patience_pass(&responder->lending);
		comp_cntr_count(qp, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ, true, job->length);
	}
	responder->job_count--;
	memmove(responder->jobs, responder->jobs + 1,
		responder->job_count * sizeof(*responder->jobs));
}

/* Responses that are all as long as the first. */
static uint32_t run_packets(const struct qp *qp)
{
	return packets_of_run(BTH_BYTES + AETH_BYTES + qp->mtu + ICRC_BYTES);
}

static uint32_t packets_left(const struct responder *responder)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < responder->job_count; i++)
		count += psn_into(responder->jobs[i].last_psn, responder->jobs[i].psn) + 1;
	return count;
}

/*
 * Whole segmented sends, as each costs nearly the same whatever it carries. What is left waits for
 * the next turn: by then more may be asked for, whose responses go on with the same send.
 */
static uint32_t turn_packets(const struct qp *qp)
{
	uint32_t run = run_packets(qp), left;

	if (!qp->av.carrier_max) /* whose responses are of several lengths */
		return TURN_RUNS * run;
	left = packets_left(qp->responder);
	if (left >= TURN_RUNS * run)
		return TURN_RUNS * run;
	return left < run ? left : left - left % run;
}

bool responder_has_rest(const struct qp *qp)
{
	return qp->av.carrier_max && qp->responder->job_count &&
	       packets_left(qp->responder) < run_packets(qp);
}

/* Answers owed, a turn's worth. True: wants another turn. */
bool responder_run(struct qp *qp, uint64_t now, struct outbox *outbox)
{
	struct responder *responder = qp->responder;
	struct response_job *job = responder->jobs;
	uint32_t turn = responder->job_count ? turn_packets(qp) : 0, psn, count;

	if (responder->is_reporting) {
		if (!response_gaps(qp, outbox))
			return true;
		responder->is_reporting = false;
	}
	qp->av.lends = 0;
	if (qp->av.carrier_max && patience_is_over(&responder->lending))
		qp->av.lends = WINDOW_WIDEST;
	while (responder->job_count) {
		if (!turn)
			return true;
		count = burst_respond(qp, job, turn, outbox);
		if (count) {
			turn -= count;
			if (qp->ledger)
				ledger_note(qp, qp->ledger);
			continue;
		}
		psn = job->psn;
		switch (response_send(qp, job, outbox)) {
		case RESPONSE_FULL:
			return true;
		case RESPONSE_FAULT:
			read_failed(qp, psn);
			break;
		case RESPONSE_SENT:
			turn--;
			if (psn == job->last_psn)
				job_done(qp, responder);
			if (qp->ledger)
				ledger_note(qp, qp->ledger);
			break;
		}
	}
	return !answer(qp, now, outbox);
}

/* Twice, for on a path that loses one packet in a hundred this leaves one failure in a million. */
void responder_part(struct qp *qp, struct outbox *outbox)
{
	struct responder *responder = qp->responder;

	for (int i = 0; i < 2 && responder->has_acknowledged && !responder->job_count; i++)
		response_acknowledge(qp, AETH_ACK | AETH_CREDIT_NONE, psn_add(responder->psn, -1),
				     outbox);
}
