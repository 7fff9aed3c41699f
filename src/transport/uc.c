/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UC responder (9.8.2): nothing is answered. A message that misses a packet, or fails a check,
 * is dropped as a whole, its receive work request waits for the next one, and the first packet of a
 * message sets the PSN anew.
 */
#include "transport/completion.h"
#include "transport/requester.h"
#include "transport/responder.h"

static enum verdict execute(struct arrival *arrival)
{
	return arrival->wire->op->flags & OPF_SEND ? execute_send(arrival) : execute_write(arrival);
}

static enum verdict validate_and_execute(struct arrival *arrival)
{
	static enum verdict (*const pipeline[])(struct arrival *) = {
	    check_sequence, /* 9.8.2.2.2 */
	    check_enabled,  /* 9.8.2.2.3 */
	    check_length,   /* 9.8.2.2.6 */
	    check_key,	    /* 9.8.2.2.5 */
	    check_receive,  /* 9.8.2.2.4 */
	    execute,
	};
	enum verdict verdict = PASS;

	for (size_t i = 0; i < sizeof(pipeline) / sizeof(pipeline[0]) && verdict == PASS; i++)
		verdict = pipeline[i](arrival);
	return verdict;
}

/* An error of the receive work request itself, a buffer too small or gone, is no loss: it completes
 * in error. */
static bool is_local(const struct arrival *arrival)
{
	return arrival->qp->responder->has_recv &&
	       (arrival->status == IBV_WC_LOC_LEN_ERR || arrival->status == IBV_WC_LOC_PROT_ERR);
}

void uc_receive(struct arrival *arrival)
{
	struct qp *qp = arrival->qp;
	struct responder *responder = qp->responder;
	const struct wire_packet *wire = arrival->wire;
	enum verdict verdict = DROP;

	/* a first packet begins anew whatever came before, the others must follow on */
	if (message_starts(wire))
		responder->message = MESSAGE_NONE;
	if (message_starts(wire) || wire->bth.psn == responder->psn)
		verdict = validate_and_execute(arrival);
	responder->psn = psn_next(wire->bth.psn);
	if (verdict == PASS) {
		if (message_ends(wire))
			execute_end_of_message(arrival);
		return;
	}
	responder->message = MESSAGE_NONE;
	qp->requester->counters.dropped++;
	if (verdict == REFUSED && is_local(arrival)) {
		recv_complete_error(qp, arrival->status, arrival->reason, arrival->now);
		qp_enter_error(qp, arrival->now);
	}
}
