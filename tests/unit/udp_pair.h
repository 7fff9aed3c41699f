/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two UDP links on loopback, IPv4 and IPv6, and what the second one delivered. Include cmocka.h
 * first.
 */
#ifndef TESTS_UDP_PAIR_H
#define TESTS_UDP_PAIR_H

#include <arpa/inet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "link/udp_link.h"
#include "loopback.h"
#include "wire/icrc.h"
#include "wire/parse.h"

enum { KEPT_MAX = 1024, DEST_QP = 0x050011, LANE = 3, WAIT_MS = 2000 };

static union ibv_gid ipv4_group, ipv6_group;

/* What udp_receive() delivered. */
static struct kept {
	struct packet packet;
	uint8_t bytes[PACKET_BYTES_MAX];
} kept[KEPT_MAX];
static int kept_count;

static inline void keep(const struct packet *packet, void *data)
{
	struct kept *k = kept + kept_count;
	struct packet rest = *packet, ack;
	uint8_t room[ACK_BYTES];

	if (packet->ack) {
		ack = packet_part_ack(&rest, room);
		keep(&ack, data);
		keep(&rest, data);
		return;
	}

	assert_true(kept_count < KEPT_MAX);
	assert_true(packet->length <= PACKET_BYTES_MAX);
	k->packet = *packet;
	memcpy(k->bytes, packet->bth, packet->length);
	kept_count++;
	(*(int *)data)++;
}

/* Receives until `count` packets have been taken in, or fails. */
static inline void receive(struct udp_link *link, int fd, const union ibv_gid *dgid, int count)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	int taken = 0, delivered = 0;

	while (taken < count) {
		int n = udp_receive(link, fd, dgid, keep, &delivered);

		if (n == 0)
			assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
		taken += n;
	}
	assert_int_equal(taken, count);
	assert_int_equal(udp_receive(link, fd, dgid, keep, &delivered), 0);
}

static inline struct av av_between(const union ibv_gid *from, const union ibv_gid *to)
{
	return (struct av){.sgid = *from, .dgid = *to, .hop_limit = HOP_LIMIT_DEFAULT};
}

/* Bytes that rise, from one that tells the PSN: looked at one by one they take longer under
 * ThreadSanitizer than all else. */
static inline const uint8_t *payload_of(uint32_t psn, uint32_t length)
{
	static uint8_t rising[256 + PACKET_BYTES_MAX];

	assert_true(length <= PACKET_BYTES_MAX);
	if (!rising[1])
		for (size_t i = 0; i < sizeof(rising); i++)
			rising[i] = (uint8_t)i;
	return rising + (uint8_t)(psn * 7 + BTH_BYTES);
}

/* A SEND ONLY with a payload that tells its PSN and place. */
static inline void write_packet(uint8_t *bytes, uint32_t qpn, uint32_t psn, uint32_t payload)
{
	struct wire_packet p = {
	    .bth = {.opcode = TRANSPORT_UC | OP_SEND_ONLY, .dest_qp = qpn, .psn = psn},
	    .payload_length = payload,
	};

	wire_pack(bytes, &p);
	memcpy(bytes + BTH_BYTES, payload_of(psn, payload), payload);
	memset(bytes + BTH_BYTES + payload, 0, wire_pad(payload));
}

static inline bool put(struct udp_link *link, const struct av *av, uint32_t qpn, uint32_t psn,
		       uint32_t payload)
{
	struct outbox *outbox = udp_link_outbox(link);
	size_t size = BTH_BYTES + payload + wire_pad(payload);
	uint8_t *bytes = outbox->reserve(outbox, av, qpn, size);

	if (!bytes)
		return false;
	write_packet(bytes, qpn, psn, payload);
	outbox->commit(outbox, size);
	return true;
}

static inline void assert_payload(const struct wire_packet *p)
{
	const uint8_t *sent = payload_of(p->bth.psn, p->payload_length);

	if (!memcmp(p->payload, sent, p->payload_length))
		return;
	for (uint32_t i = 0; i < p->payload_length; i++)
		if (p->payload[i] != sent[i])
			fail_msg("packet %u differs at byte %u", p->bth.psn, i);
}

static inline void assert_kept(int index, uint32_t psn, uint32_t payload)
{
	struct wire_packet p;

	assert_true(index < kept_count);
	assert_int_equal(wire_parse(&p, kept[index].bytes, kept[index].packet.length), PARSE_OK);
	assert_int_equal(p.bth.psn, psn);
	assert_int_equal(p.payload_length, payload);
	assert_payload(&p);
}

/* What has been taken in of a stream (udp_stream.h). */
struct taken {
	uint32_t count, psn; /* and the next that is expected */
	bool is_sparse;	     /* some may be missing */
	uint16_t port;	     /* of the last */
	uint8_t traffic_class;
};

struct pair {
	struct udp_link *a, *b;
	union ibv_gid from, to;
	struct av av;
	int fd;	       /* b's */
	uint32_t sent; /* packets of a stream */
	struct taken taken;
};

static inline void pair_open_on(struct pair *pair, const union ibv_gid *from,
				const union ibv_gid *to, uint32_t ifindex)
{
	kept_count = 0;
	*pair = (struct pair){.from = *from, .to = *to, .av = av_between(from, to)};
	assert_int_equal(udp_link_open(LANE - 1, &pair->a), 0);
	assert_int_equal(udp_link_open(LANE, &pair->b), 0);
	pair->fd = udp_socket_bind(to, ifindex, false);
	assert_true(pair->fd >= 0);
}

static inline void pair_open(struct pair *pair, const union ibv_gid *from, const union ibv_gid *to)
{
	pair_open_on(pair, from, to, loopback);
}

static inline void pair_close(struct pair *pair)
{
	close(pair->fd);
	udp_link_close(pair->a);
	udp_link_close(pair->b);
}

static inline struct udp_counters counters_of(const struct udp_link *link)
{
	struct udp_counters counters;

	udp_link_counters(link, &counters);
	return counters;
}

/* False if there is no network to be had. */
static inline bool pair_network(void)
{
	if (!loopback_network())
		return false;
	ipv4_group = gid_of("::ffff:239.1.2.3");
	ipv6_group = gid_of("ff02::4791");
	return true;
}

enum { ALONE = TRANSPORT_UC | OP_SEND_ONLY };

/* A run of packets of `payload` bytes, which may go on with one. How many of `count` there was room
 * for.
 */
static inline uint32_t put_run(struct pair *pair, uint32_t payload, uint32_t count, bool is_summed)
{
	struct outbox *outbox = udp_link_outbox(pair->a);
	uint32_t stride = 0, room;
	uint8_t *at;

	room = outbox->reserve_run(outbox, &pair->av, DEST_QP, ALONE, BTH_BYTES + payload, count,
				   &at, &stride);
	for (uint32_t i = 0; i < room; i++, at += stride) {
		write_packet(at, DEST_QP, i + 1, payload);
		if (is_summed)
			put_le32(at + BTH_BYTES + payload, icrc_sum(0, at + BTH_BYTES, payload));
	}
	if (room)
		outbox->commit_run(outbox, BTH_BYTES + payload, room, is_summed);
	return room;
}

#endif
