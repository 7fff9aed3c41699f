/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which go together, and which of those are there.
 */
#include "link/bundle.h"
#include "link/reach.h"

static bool is_middling(uint64_t bytes)
{
	return bytes >= BUNDLE_LEAST && bytes < BUNDLE_LESS;
}

bool bundle_may(const struct reach_op *op)
{
	return op->behind && op->count == 1 && op->offset == 0 && is_middling(op->bytes);
}

/* Elsewhere, or in one and the same place. */
static bool keep_order(const char *a, uint64_t length, const char *b, uint64_t other)
{
	return a + length <= b || b + other <= a || (a == b && length == other);
}

/* As this one does with all that come before it. */
static bool fits(const struct bundle *bundle, const struct reach_op *op,
		 const struct reach_behind *next)
{
	bool does = keep_order(op->pieces[0].iov_base, op->bytes, next->here, next->length);

	for (uint32_t i = 0; i < bundle->count; i++) {
		const struct bundled *other = &bundle->others[i];

		does &= keep_order(other->here, other->question.length, next->here, next->length);
	}
	return does && is_middling(next->length) &&
	       bundle_bytes(bundle, op) + next->length <= BUNDLE_BYTES;
}

static bool add(struct bundle *bundle, struct reach *reach,
		const struct directory_question *question, const struct reach_behind *next)
{
	struct bundled *other = &bundle->others[bundle->count];

	*other = (struct bundled){.question = *question, .here = next->here, .psn = next->psn};
	other->question.rkey = next->rkey;
	other->question.addr = next->remote_addr;
	other->question.length = next->length;
	if (!reach_asks(reach, &other->question, &other->place))
		return false;
	bundle->count++;
	return true;
}

bool bundle_gather(struct bundle *bundle, struct reach *reach,
		   const struct directory_question *question, const struct reach_op *op)
{
	struct reach_behind found[BUNDLE_OTHERS];
	uint32_t count = op->behind(op, found, BUNDLE_OTHERS);

	bundle->count = bundle->next = bundle->done = 0;
	for (uint32_t i = 0; i < count; i++)
		if (!fits(bundle, op, &found[i]) || !add(bundle, reach, question, &found[i]))
			break;
	return bundle->count > 0;
}

uint64_t bundle_bytes(const struct bundle *bundle, const struct reach_op *op)
{
	uint64_t bytes = op->bytes;

	for (uint32_t i = 0; i < bundle->count; i++)
		bytes += bundle->others[i].question.length;
	return bytes;
}

void bundle_is_done(struct bundle *bundle, struct reach *reach)
{
	for (bundle->next = bundle->done = 0; bundle->done < bundle->count; bundle->done++)
		if (reach_is_withdrawn(reach, &bundle->others[bundle->done].question))
			break;
	bundle->count = 0;
}

static bool is_this(const struct bundled *other, const struct directory_question *question,
		    const struct reach_op *op)
{
	return other->psn == op->psn && other->question.qpn == question->qpn &&
	       other->question.rkey == question->rkey && other->question.addr == question->addr &&
	       other->question.length == op->bytes && op->offset == 0 && op->count == 1 &&
	       other->here == op->pieces[0].iov_base;
}

void bundle_forget(struct bundle *bundle, uint32_t qpn)
{
	if (bundle->next < bundle->done && bundle->others[bundle->next].question.qpn == qpn)
		bundle->next = bundle->done;
}

/* A queue pair's come in order: where another one does, the rest went some other way. */
bool bundle_has(struct bundle *bundle, const struct directory_question *question,
		const struct reach_op *op)
{
	if (bundle->next == bundle->done || !op->is_fetch)
		return false;
	if (!is_this(&bundle->others[bundle->next], question, op)) {
		bundle_forget(bundle, question->qpn);
		return false;
	}
	bundle->next++;
	return true;
}
