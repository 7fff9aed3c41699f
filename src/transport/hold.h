/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that came before their turn, held until what is missing has come: of a responder
 * requests, of a requester responses. There is nothing until the first is held, and again nothing
 * once the last is taken. Bounded for each QP and for the adapter, in whose pool it stands; what
 * finds no room is as good as lost.
 *
 * Under the lane's lock, but for the adapter's count.
 */
#ifndef TRANSPORT_HOLD_H
#define TRANSPORT_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct adapter;

enum {
	HOLD_PACKETS = 4096, /* how far ahead of its turn a packet may be; a power of two */
	HOLD_BYTES = 16 << 20,
	HOLD_BYTES_ADAPTER = 30 << 20, /* of the adapter's pool */
};

struct held {
	uint32_t psn;
	uint32_t length;
	uint8_t bth[]; /* to the end of the pad */
};

struct hold {
	struct held *slots[HOLD_PACKETS]; /* by PSN */
	uint32_t count, bytes;
	uint32_t last; /* the highest PSN there */
};

/* The packet with this PSN, which is behind `turn`. False: it can't be held. True also if it was
 * there before. */
bool hold_put(struct adapter *adapter, struct hold **hold, uint32_t turn, uint32_t psn,
	      const uint8_t *bth, size_t length);

static inline bool hold_has(const struct hold *hold, uint32_t psn)
{
	const struct held *held = hold ? hold->slots[psn % HOLD_PACKETS] : NULL;

	return held && held->psn == psn;
}

/* Takes it out, NULL if it is not there; then it is the caller's, to be freed. */
struct held *hold_take(struct adapter *adapter, struct hold *hold, uint32_t psn);
void hold_free(struct adapter *adapter, struct held *held);

/* It is `turn`'s turn: lets the memory go if nothing behind it is held. */
void hold_trim(struct adapter *adapter, struct hold **hold, uint32_t turn);
void hold_drop(struct adapter *adapter, struct hold **hold);

#endif
