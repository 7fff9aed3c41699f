/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that reach a pair's transports many at once, as a link has them in one batch: those that
 * follow each other and are alike come together. */
#ifndef TRAINS_H
#define TRAINS_H

#include "transport_pair.h"
#include "wire/icrc.h"
#include "wire/opcode.h"

enum { TRAIN_MOST = 60 };

static uint32_t longest = TRAIN_MOST; /* so many at once */
static uint32_t together;	      /* packets that came behind another one */

static inline bool goes_on(const struct flying *last, const struct flying *next)
{
	return opcode_comes_in_rows(last->bytes[0]) && next->size == last->size &&
	       !memcmp(&next->av, &last->av, sizeof(last->av)) &&
	       !memcmp(next->bytes, last->bytes, BTH_PSN_AT) &&
	       bth_psn(next->bytes) == psn_next(bth_psn(last->bytes));
}

static inline const struct flying *take(struct pair *pair)
{
	const struct flying *first = &pair->packets[pair->first];

	pair->first = (pair->first + 1) % PAIR_PACKETS;
	pair->count--;
	return first;
}

static inline void deliver_together(struct pair *pair)
{
	static uint8_t bytes[TRAIN_MOST][PAIR_BYTES];
	uint32_t batch = pair->count;

	while (batch--) {
		const struct flying *last = take(pair);
		bool is_to_a = !memcmp(&last->av.dgid, &pair->a.gid, sizeof(pair->a.gid));
		struct side *to = is_to_a ? &pair->a : &pair->b;
		struct packet packet = {.bth = bytes[0],
					.length = last->size,
					.sgid = last->av.sgid,
					.dgid = last->av.dgid,
					.traffic_class = last->av.traffic_class | last->av.ecn,
					.hop_limit = 64,
					.stride = PAIR_BYTES};

		memcpy(bytes[0], last->bytes, last->size);
		for (; batch && packet.more < longest - 1 &&
		       goes_on(last, &pair->packets[pair->first]);
		     batch--) {
			last = take(pair);
			memcpy(bytes[++packet.more], last->bytes, last->size);
		}
		together += packet.more;
		transport_receive(&to->adapter, &packet, pair->now, &to->outbox);
	}
}

static bool are_together;

static inline void run(struct pair *pair)
{
	while (pair->a.is_scheduled || pair->b.is_scheduled || pair->count) {
		if (pair->a.is_scheduled)
			side_turn(&pair->a);
		else if (pair->b.is_scheduled)
			side_turn(&pair->b);
		else if (are_together)
			deliver_together(pair);
		else
			pair_deliver(pair);
	}
}

#endif
