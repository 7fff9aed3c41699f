/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that reach a pair's transports many at once, as a link has them in one batch: those that
 * follow each other and are alike come together. */
#ifndef TRAINS_H
#define TRAINS_H

#include "device/memory.h"
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

/* Rows are offered under a seal first, of which so many have been opened; the one that comes after
 * so many of them is not sound. */
static bool are_sealed;
static uint32_t opened, sound = UINT32_MAX;

/* As the link does: what was copied tells whether it is. */
static inline bool open_one(struct seal *seal, const uint8_t *payload, char *to, uint32_t length)
{
	if (memory_move(to, (const char *)payload, length))
		return false;
	if (sound != UINT32_MAX && !sound--) {
		memset(to, 0xee, length);
		return false;
	}
	return true;
}

/* What is not sound is dropped by its link. */
static inline uint32_t offer(struct side *to, const struct packet *row, uint64_t now)
{
	struct seal seal = {.open = open_one};
	struct packet packet = *row;
	bool was_sound = sound == UINT32_MAX;

	packet.seal = &seal;
	transport_open(&to->adapter, &packet, now);
	opened += seal.opened;
	return seal.opened + (!was_sound && sound == UINT32_MAX);
}

/* What is not opened comes checked, and those behind it are offered anew. */
static inline void deliver_sealed(struct side *to, struct packet *packet, uint64_t now)
{
	uint32_t done;

	do {
		struct packet single = packet_single(packet);

		done = offer(to, packet, now);
		if (!done)
			transport_receive(&to->adapter, &single, now, &to->outbox);
	} while (packet_pass(packet, done ? done : 1));
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
		if (are_sealed && opcode_may_be_sealed(packet.bth[0]))
			deliver_sealed(to, &packet, pair->now);
		else
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
