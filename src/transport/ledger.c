/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ledger's fields, one way and the other. Who reads it believes nothing but that it is memory:
 * the other process may have been killed anywhere, or be wrong.
 */
#include "transport/ledger.h"

static uint32_t unanswered(const struct responder *responder)
{
	for (uint32_t i = 0; i < responder->job_count; i++)
		if (!responder->jobs[i].is_again)
			return responder->jobs[i].psn;
	return responder->psn;
}

/* The PSN goes last: it says that everything before it is done. */
static void write_position(const struct responder *responder, struct ledger *ledger)
{
	ledger->msn = responder->msn;
	ledger->message = responder->message;
	ledger->srqn = responder->srqn;
	ledger->write_rkey = responder->write_rkey;
	ledger->received = responder->received;
	ledger->write_va = responder->write_va;
	ledger->write_length = responder->write_length;
	ledger->has_told = responder->has_told;
	ledger->has_acknowledged = responder->has_acknowledged;
	atomic_store_explicit(&ledger->unanswered, unanswered(responder), memory_order_release);
	atomic_store_explicit(&ledger->psn, responder->psn, memory_order_release);
}

static void write_saved(const struct responder *responder, struct ledger *ledger)
{
	uint32_t room =
	    responder->saved_room < MAX_RD_ATOMIC ? responder->saved_room : MAX_RD_ATOMIC;

	for (uint32_t i = 0; i < room; i++)
		ledger->saved[i] = responder->saved[i];
	ledger->saved_next = responder->saved_next;
	ledger->saved_room = room;
}

void ledger_write(const struct qp *qp, struct ledger *ledger)
{
	write_saved(qp->responder, ledger);
	write_position(qp->responder, ledger);
}

/* The newest result alone: that of the request just executed, if it has one. */
void ledger_note(const struct qp *qp, struct ledger *ledger)
{
	const struct responder *responder = qp->responder;

	if (responder->saved_room && responder->saved_next != ledger->saved_next) {
		uint32_t newest =
		    (responder->saved_next ? responder->saved_next : responder->saved_room) - 1;

		if (newest < MAX_RD_ATOMIC)
			ledger->saved[newest] = responder->saved[newest];
		ledger->saved_next = responder->saved_next;
	}
	write_position(responder, ledger);
}

static void read_saved(struct responder *responder, const struct ledger *ledger)
{
	uint32_t room = ledger->saved_room;

	if (room > MAX_RD_ATOMIC || room != responder->saved_room)
		room = 0;
	for (uint32_t i = 0; i < responder->saved_room; i++)
		responder->saved[i] = i < room ? ledger->saved[i] : (struct saved_result){0};
	responder->saved_next = room ? ledger->saved_next % room : 0;
}

void ledger_read(struct qp *qp, const struct ledger *ledger, bool is_left)
{
	struct responder *responder = qp->responder;
	uint32_t psn = atomic_load_explicit(&ledger->psn, memory_order_acquire) & PSN_MASK;
	uint32_t oldest =
	    atomic_load_explicit(&ledger->unanswered, memory_order_acquire) & PSN_MASK;
	uint32_t message = ledger->message;
	uint64_t received = ledger->received;

	read_saved(responder, ledger);
	responder->psn = is_left && psn_compare(oldest, psn) < 0 ? oldest : psn;
	responder->msn = ledger->msn & PSN_MASK;
	responder->message = message <= MESSAGE_WRITE ? message : MESSAGE_NONE;
	responder->srqn = ledger->srqn;
	responder->write_rkey = ledger->write_rkey;
	responder->write_va = ledger->write_va;
	responder->write_length = ledger->write_length;
	responder->received = received <= MAX_MESSAGE_SIZE ? received : 0;
	responder->has_told = ledger->has_told;
	responder->has_acknowledged = ledger->has_acknowledged;
	responder->is_owed = responder->is_fatal = false;
	responder->job_count = 0;
	cursor_reset(&responder->scatter);
}

void ledger_write_terms(const struct qp *qp, struct ledger *ledger)
{
	unsigned int next = !atomic_load(&ledger->terms_at);

	transport_get_terms(qp, &ledger->terms[next]);
	atomic_store(&ledger->terms_at, next);
}

bool ledger_read_terms(struct qp *qp, const struct ledger *ledger)
{
	const struct qp_terms *terms = &ledger->terms[atomic_load(&ledger->terms_at) & 1];

	return transport_take_terms(qp, terms);
}
