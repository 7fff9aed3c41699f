/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream over a pair of UDP links: numbered packets, whose order and payload are looked at as
 * they arrive. Include cmocka.h first.
 */
#ifndef TESTS_UDP_STREAM_H
#define TESTS_UDP_STREAM_H

#include "udp_pair.h"

enum { OTHER_QP = DEST_QP + (1 << QPN_SLOT_SHIFT) }; /* of another process */

/* To a peer of ours. */
static inline void stream_open(struct pair *pair, const union ibv_gid *from,
			       const union ibv_gid *to)
{
	pair_open(pair, from, to);
	pair->av.carrier_max = 999;
}

static inline void take(const struct packet *packet, void *data)
{
	struct taken *taken = data;
	struct wire_packet p;

	assert_int_equal(wire_parse(&p, packet->bth, packet->length), PARSE_OK);
	if (!taken->is_sparse)
		assert_int_equal(p.bth.psn, taken->psn);
	assert_payload(&p);
	taken->psn = p.bth.psn + 1;
	taken->port = packet->source_port;
	taken->traffic_class = packet->traffic_class;
	taken->count++;
}

static inline void stage(struct pair *pair, uint32_t qpn, uint32_t payload)
{
	assert_true(put(pair->a, &pair->av, qpn, pair->sent++, payload));
}

static inline void take_all(struct pair *pair)
{
	while (udp_receive(pair->b, pair->fd, &pair->to, take, &pair->taken))
		;
}

/* What is staged leaves and arrives. */
static inline void pass(struct pair *pair)
{
	assert_true(udp_link_flush(pair->a));
	take_all(pair);
	if (!pair->taken.is_sparse)
		assert_int_equal(pair->taken.count, pair->sent);
}

#endif
