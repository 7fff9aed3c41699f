/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of exchange.h.
 */
#include "engine/exchange.h"

enum {
	DOUBT = 4, /* for each batch that is no turn */
	DOUBT_MAX = 2 * DOUBT,
	OTHERS_PART = 16, /* of a window may be of another kind */
};

bool exchange_goes_on(struct exchange *e, bool is_turn)
{
	if (is_turn) {
		e->turns++;
		e->doubt -= e->doubt > 0;
	} else if (e->doubt < DOUBT_MAX) {
		e->doubt += DOUBT;
	}
	return e->doubt < DOUBT_MAX;
}

bool exchange_review(struct exchange *e, uint32_t batches, bool has_lasted)
{
	bool was_one = e->turns >= batches - batches / OTHERS_PART;

	e->turns = 0;
	if (has_lasted)
		patience_worked(&e->patience);
	if (!was_one)
		return false;
	if (!patience_is_over(&e->patience)) {
		patience_pass(&e->patience);
		return false;
	}
	e->doubt = 0;
	return true;
}

void exchange_ended(struct exchange *e)
{
	patience_failed(&e->patience);
}
