/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A place for each PSN ahead. A packet whose turn has passed by another copy of it stays until its
 * place is wanted, or until nothing is held that is still to come.
 */
#include <string.h>

#include "device/adapter.h"
#include "transport/hold.h"
#include "wire/psn.h"

static struct held *take_from(struct adapter *adapter, struct hold *hold, struct held **slot)
{
	struct held *held = *slot;

	*slot = NULL;
	hold->count--;
	hold->bytes -= held->length;
	atomic_fetch_sub_explicit(&adapter->held_bytes, held->length, memory_order_relaxed);
	return held;
}

static bool has_room(const struct adapter *adapter, const struct hold *hold, size_t length)
{
	return hold->bytes + length <= HOLD_BYTES &&
	       atomic_load_explicit(&adapter->held_bytes, memory_order_relaxed) + length <=
		   HOLD_BYTES_ADAPTER;
}

static struct hold *make(struct adapter *adapter)
{
	struct hold *hold = pool_take(&adapter->pool, sizeof(*hold));

	return hold ? memset(hold, 0, sizeof(*hold)) : NULL;
}

bool hold_put(struct adapter *adapter, struct hold **hold, uint32_t turn, uint32_t psn,
	      const uint8_t *bth, size_t length)
{
	struct held **slot, *held;

	if (psn_into(psn, turn) >= HOLD_PACKETS)
		return false;
	if (hold_has(*hold, psn))
		return true;
	if (!*hold)
		*hold = make(adapter);
	if (!*hold || !has_room(adapter, *hold, length))
		return false;
	held = pool_take(&adapter->pool, sizeof(*held) + length);
	if (!held)
		return false;
	held->psn = psn;
	held->length = length;
	memcpy(held->bth, bth, length);
	slot = &(*hold)->slots[psn % HOLD_PACKETS];
	if (*slot)
		hold_free(adapter, take_from(adapter, *hold, slot));
	if (!(*hold)->count || psn_compare(psn, (*hold)->last) > 0)
		(*hold)->last = psn;
	*slot = held;
	(*hold)->count++;
	(*hold)->bytes += length;
	atomic_fetch_add_explicit(&adapter->held_bytes, length, memory_order_relaxed);
	return true;
}

struct held *hold_take(struct adapter *adapter, struct hold *hold, uint32_t psn)
{
	return hold_has(hold, psn) ? take_from(adapter, hold, &hold->slots[psn % HOLD_PACKETS])
				   : NULL;
}

void hold_free(struct adapter *adapter, struct held *held)
{
	pool_give(&adapter->pool, held);
}

void hold_trim(struct adapter *adapter, struct hold **hold, uint32_t turn)
{
	if (*hold && (!(*hold)->count || psn_compare(turn, (*hold)->last) > 0))
		hold_drop(adapter, hold);
}

void hold_drop(struct adapter *adapter, struct hold **hold)
{
	if (!*hold)
		return;
	for (uint32_t i = 0; i < HOLD_PACKETS && (*hold)->count; i++)
		if ((*hold)->slots[i])
			hold_free(adapter, take_from(adapter, *hold, &(*hold)->slots[i]));
	pool_give(&adapter->pool, *hold);
	*hold = NULL;
}
