/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of exchange.h.
 */
#include "engine/exchange.h"

enum {
	DOUBT = 4, /* for each batch that is no turn */
	DOUBT_MAX = 2 * DOUBT,
	OTHERS_PART = 16, /* of a window may be of another kind */
	PATIENCE_MAX = 1 << 16,
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
		e->failures = 0;
	if (!was_one)
		return false;
	if (e->patience) {
		e->patience--;
		return false;
	}
	e->doubt = 0;
	return true;
}

void exchange_ended(struct exchange *e)
{
	e->failures = 2 * e->failures + 1;
	if (e->failures > PATIENCE_MAX)
		e->failures = PATIENCE_MAX;
	e->patience = e->failures;
}
