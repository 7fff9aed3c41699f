/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two UDP links exchange packets over loopback, IPv4 and IPv6; a plain socket looks at what is on
 * the wire and sends what should not be there.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include "udp_pair.h"

static bool find_link_local(const char *interface, union ibv_gid *gid)
{
	struct ifaddrs *all, *i;
	bool is_found = false;

	assert_int_equal(getifaddrs(&all), 0);
	for (i = all; i; i = i->ifa_next) {
		struct sockaddr_in6 *address = (struct sockaddr_in6 *)i->ifa_addr;

		if (!address || address->sin6_family != AF_INET6 || strcmp(i->ifa_name, interface))
			continue;
		memcpy(gid->raw, &address->sin6_addr, 16);
		is_found |= gid_is_link_local(gid);
	}
	freeifaddrs(all);
	return is_found;
}

/* It is listed before it may be used, as long as the kernel has not settled that nobody else has
 * it. */
static bool is_usable(const char *interface, const union ibv_gid *gid)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6,
				       .sin6_scope_id = if_nametoindex(interface)};
	int fd = socket(AF_INET6, SOCK_DGRAM, 0), result;

	memcpy(&address.sin6_addr, gid, sizeof(address.sin6_addr));
	result = bind(fd, (struct sockaddr *)&address, sizeof(address));
	close(fd);
	return result == 0;
}

/* The kernel makes the address when it has seen the carrier, a moment after it came up. */
static union ibv_gid link_local_of(const char *interface)
{
	union ibv_gid gid = {0};

	for (int ms = 0; !find_link_local(interface, &gid) || !is_usable(interface, &gid); ms++) {
		assert_true(ms < WAIT_MS);
		poll(NULL, 0, 1);
	}
	return gid;
}

static void one_packet(const union ibv_gid *from, const union ibv_gid *to)
{
	struct pair pair;
	const struct packet *p = &kept[0].packet;

	pair_open(&pair, from, to);
	assert_int_equal(udp_receive(pair.b, pair.fd, to, keep, &(int){0}), 0);
	assert_true(put(pair.a, &pair.av, DEST_QP, 42, 101));
	assert_true(udp_link_flush(pair.a));
	receive(pair.b, pair.fd, to, 1);
	assert_kept(0, 42, 101);
	assert_memory_equal(&p->sgid, from, sizeof(*from));
	assert_memory_equal(&p->dgid, to, sizeof(*to));
	assert_true(p->source_port >= 49152);
	assert_int_equal(p->hop_limit, 64);
	assert_int_equal(p->traffic_class, 0);
	assert_int_equal(p->lane, LANE);
	assert_int_equal(counters_of(pair.a).sent_packets, 1);
	assert_int_equal(counters_of(pair.a).sent_bytes, 12 + 104 + 4);
	assert_int_equal(counters_of(pair.b).received_packets, 1);
	pair_close(&pair);
}

static void test_one_packet_over_ipv4(void **state)
{
	one_packet(&ipv4_a, &ipv4_b);
}

static void test_one_packet_over_ipv6(void **state)
{
	one_packet(&ipv6, &ipv6);
}

/* Takes in what has come so far, so that more can be sent than a stock kernel's receive buffer
 * holds. The number. */
static int drain(struct pair *pair)
{
	int taken = 0, delivered = 0, n;

	while ((n = udp_receive(pair->b, pair->fd, &pair->to, keep, &delivered)) > 0)
		taken += n;
	return taken;
}

/* More packets than one segmented send takes, and than one stage holds: all arrive, in order, with
 * few system calls. */
static void many_packets(const union ibv_gid *from, const union ibv_gid *to, uint32_t payload,
			 uint64_t most_sends)
{
	enum { COUNT = 300 };
	struct pair pair;
	int taken = 0;

	pair_open(&pair, from, to);
	for (int i = 0; i < COUNT; i++) {
		assert_true(put(pair.a, &pair.av, DEST_QP, i, payload));
		taken += drain(&pair);
	}
	assert_true(udp_link_flush(pair.a));
	receive(pair.b, pair.fd, to, COUNT - taken);
	for (int i = 0; i < COUNT; i++)
		assert_kept(i, i, payload);
	assert_int_equal(counters_of(pair.a).sent_packets, COUNT);
	assert_true(counters_of(pair.a).sends <= most_sends);
	assert_int_equal(counters_of(pair.b).bad_icrc + counters_of(pair.b).malformed, 0);
	pair_close(&pair);
}

static void test_batches_of_small_packets(void **state)
{
	many_packets(&ipv4_a, &ipv4_b, 64, 6);
	many_packets(&ipv6, &ipv6, 64, 6);
}

static void test_batches_of_1024_bytes(void **state)
{
	many_packets(&ipv4_a, &ipv4_b, 1024, 6);
	many_packets(&ipv6, &ipv6, 1024, 6);
}

static void test_batches_of_4096_bytes(void **state)
{
	many_packets(&ipv4_a, &ipv4_b, 4096, 25);
	many_packets(&ipv6, &ipv6, 4096, 25);
}

static void test_mixed_sizes_and_queue_pairs_keep_their_order(void **state)
{
	enum { COUNT = 500 };
	struct pair pair;
	uint32_t random = 7, sizes[COUNT];
	int taken = 0;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	for (int i = 0; i < COUNT; i++) {
		random = random * 1664525 + 1013904223;
		sizes[i] = random >> 30 ? 256 : (random >> 16) % 1500;
		assert_true(put(pair.a, &pair.av, DEST_QP + (random >> 8 & 1), i, sizes[i]));
		if ((random >> 20) % 100 == 0)
			assert_true(udp_link_flush(pair.a));
		taken += drain(&pair);
	}
	assert_true(udp_link_flush(pair.a));
	receive(pair.b, pair.fd, &ipv4_b, COUNT - taken);
	for (int i = 0; i < COUNT; i++)
		assert_kept(i, i, sizes[i]);
	pair_close(&pair);
}

/* How many messages are asked for at once: one while there is never a second, more in a stream. */
static void test_a_ping_pong_is_taken_one_message_at_a_time(void **state)
{
	struct pair pair;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	for (int i = 0, multiple = 0; i < 64; i++) {
		assert_true(put(pair.a, &pair.av, DEST_QP, i, 8));
		assert_true(udp_link_flush(pair.a));
		multiple += pair.b->receiver.batch > 1;
		receive(pair.b, pair.fd, &ipv4_b, 1);
		assert_true(multiple <= 2 + i / 8);
	}
	kept_count = 0;
	for (int i = 0; i < 64; i++) {
		assert_true(put(pair.a, &pair.av, DEST_QP + i % 2, i, 8));
		assert_true(udp_link_flush(pair.a));
	}
	receive(pair.b, pair.fd, &ipv4_b, 64);
	assert_in_range(counters_of(pair.b).receives, 65, 64 + 32);
	pair_close(&pair);
}

static void test_an_open_reservation_is_taken_back(void **state)
{
	struct pair pair;
	struct outbox *outbox;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	outbox = udp_link_outbox(pair.a);
	assert_non_null(outbox->reserve(outbox, &pair.av, DEST_QP, 1000));
	assert_true(put(pair.a, &pair.av, DEST_QP, 1, 8));
	assert_non_null(outbox->reserve(outbox, &pair.av, DEST_QP, 1000));
	assert_true(udp_link_flush(pair.a));
	receive(pair.b, pair.fd, &ipv4_b, 1);
	assert_kept(0, 1, 8);
	assert_null(outbox->reserve(outbox, &pair.av, DEST_QP, PACKET_BYTES_MAX + 1));
	assert_null(outbox->reserve(outbox, &pair.av, DEST_QP, BTH_BYTES - 1));
	outbox->commit(outbox, 100);
	assert_true(udp_link_flush(pair.a));
	assert_int_equal(counters_of(pair.a).sent_packets, 1);
	pair_close(&pair);
}

static void traffic_class_and_hop_limit(const union ibv_gid *from, const union ibv_gid *to)
{
	struct pair pair;

	pair_open(&pair, from, to);
	pair.av.traffic_class = 0x68;
	pair.av.hop_limit = 7;
	for (int i = 0; i < 3; i++)
		assert_true(put(pair.a, &pair.av, DEST_QP, i, 32));
	pair.av.traffic_class = 0;
	pair.av.hop_limit = 255;
	assert_true(put(pair.a, &pair.av, DEST_QP, 3, 32));
	assert_true(udp_link_flush(pair.a));
	receive(pair.b, pair.fd, to, 4);
	for (int i = 0; i < 4; i++) {
		assert_kept(i, i, 32);
		assert_int_equal(kept[i].packet.traffic_class, i < 3 ? 0x68 : 0);
		assert_int_equal(kept[i].packet.hop_limit, i < 3 ? 7 : 255);
	}
	pair_close(&pair);
}

static void test_traffic_class_and_hop_limit_travel(void **state)
{
	traffic_class_and_hop_limit(&ipv4_a, &ipv4_b);
	traffic_class_and_hop_limit(&ipv6, &ipv6);
}

/* CRC-32 bit by bit: nothing of the code under test. */
static uint32_t plain_crc(uint32_t crc, const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return crc;
}

/* The ICRC of an IPv4 packet with the given identification, from the drawing of the header. */
static uint32_t plain_icrc(const uint8_t *bytes, uint16_t udp_payload, uint16_t sport, uint16_t id)
{
	uint16_t ip = 28 + udp_payload, udp = 8 + udp_payload;
	uint8_t head[48] = {
	    0xff, 0xff,	      0xff,  0xff,	0xff,	     0xff,     0xff, 0xff, 0x45,
	    0xff, ip >> 8,    ip,    id >> 8,	id,	     0x40,     0,    0xff, 17,
	    0xff, 0xff,	      127,   0,		0,	     1,	       127,  0,	   0,
	    2,	  sport >> 8, sport, 4791 >> 8, 4791 & 0xff, udp >> 8, udp,  0xff, 0xff};

	memcpy(head + 36, bytes, 12);
	head[40] = 0xff;
	return ~plain_crc(plain_crc(~0u, head, 48), bytes + 12, udp_payload - 16);
}

static void test_icrcs_are_right_for_the_identifications_of_segments(void **state)
{
	enum { COUNT = 70, BYTES = 12 + 200 + 4 };
	static uint8_t bytes[65536];
	struct pair pair;
	struct sockaddr_in from;
	uint32_t wrong_for_zero = 0;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	for (int i = 0; i < COUNT; i++)
		assert_true(put(pair.a, &pair.av, DEST_QP, i, 200));
	assert_true(udp_link_flush(pair.a));
	assert_int_equal(counters_of(pair.a).sends, 1);
	assert_int_equal(recvfrom(pair.fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&from,
				  &(socklen_t){sizeof(from)}),
			 COUNT * BYTES);
	for (int i = 0; i < COUNT; i++) {
		const uint8_t *p = bytes + (size_t)i * BYTES;
		uint16_t sport = ntohs(from.sin_port);

		assert_int_equal(get_le32(p + BYTES - 4), plain_icrc(p, BYTES, sport, i));
		wrong_for_zero += get_le32(p + BYTES - 4) != plain_icrc(p, BYTES, sport, 0);
	}
	assert_int_equal(wrong_for_zero, COUNT - 1);
	pair_close(&pair);
}

/* A packet as any stranger may send it, from a socket of its own. */
static void send_raw(int fd, const uint8_t *bytes, size_t length)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(4791)};

	inet_pton(AF_INET, "127.0.0.2", &to.sin_addr);
	assert_int_equal(sendto(fd, bytes, length, 0, (struct sockaddr *)&to, sizeof(to)), length);
}

static void test_bad_packets_are_dropped_and_counted(void **state)
{
	struct sockaddr_in local = {.sin_family = AF_INET};
	uint8_t bytes[64] = {TRANSPORT_UC | OP_SEND_ONLY, 0, 0xff, 0xff, 0, 0, 0, 0x11};
	struct pair pair;
	int fd = socket(AF_INET, SOCK_DGRAM, 0), bad = 0;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	inet_pton(AF_INET, "127.0.0.1", &local.sin_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&local, sizeof(local)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&local, &(socklen_t){sizeof(local)}),
			 0);
	put_le32(bytes + 60, plain_icrc(bytes, 64, ntohs(local.sin_port), 0xbeef));
	send_raw(fd, bytes, 64); /* right for some identification: taken */
	bytes[30] ^= 1;
	send_raw(fd, bytes, 64);
	bytes[30] ^= 1;
	send_raw(fd, bytes, 60); /* cut */
	send_raw(fd, bytes, 63); /* not a multiple of four */
	send_raw(fd, bytes, 12);
	send_raw(fd, bytes, 0);
	bytes[0] = OPCODE_FILLED;
	for (int fill = 0; fill < 256; fill = fill ? 2 * fill + 3 : 3) { /* as nobody does */
		bytes[59] = fill;
		put_le32(bytes + 60, plain_icrc(bytes, 64, ntohs(local.sin_port), 0xbeef));
		send_raw(fd, bytes, 64);
		bad++;
	}
	receive(pair.b, pair.fd, &ipv4_b, 6 + bad);
	assert_int_equal(kept_count, 1);
	assert_int_equal(counters_of(pair.b).received_packets, 1);
	assert_int_equal(counters_of(pair.b).bad_icrc, 2);
	assert_int_equal(counters_of(pair.b).malformed, 3 + bad);
	close(fd);
	pair_close(&pair);
}

static void test_ways_that_refuse_segments_get_single_packets(void **state)
{
	enum { COUNT = 90 };
	struct pair pair;
	int fd;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	/* Without checksums the kernel takes no segmented send (EINVAL or EIO), as with a device
	 * that has no offload. */
	assert_true(put(pair.a, &pair.av, DEST_QP, 0, 100));
	assert_true(udp_link_flush(pair.a));
	fd = pair.a->addresses->way.fd;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &(int){1}, sizeof(int)), 0);
	for (int i = 1; i < COUNT; i++)
		assert_true(put(pair.a, &pair.av, DEST_QP, i, 100));
	assert_true(udp_link_flush(pair.a));
	receive(pair.b, pair.fd, &ipv4_b, COUNT);
	for (int i = 0; i < COUNT; i++)
		assert_kept(i, i, 100);
	assert_true(pair.a->addresses->no_gso);
	assert_int_equal(counters_of(pair.b).bad_icrc, 0);
	/* It is remembered: single packets, many to a call. */
	kept_count = 0;
	for (int i = 0; i < 60; i++)
		assert_true(put(pair.a, &pair.av, DEST_QP, i, 100));
	assert_int_equal(pair.a->run_count, 60);
	assert_true(udp_link_flush(pair.a));
	receive(pair.b, pair.fd, &ipv4_b, 60);
	assert_int_equal(counters_of(pair.a).send_drops, 0);
	pair_close(&pair);
}

static void test_what_cannot_be_sent_is_dropped_and_counted(void **state)
{
	union ibv_gid not_ours = gid_of("::ffff:203.0.113.9"), unreachable = gid_of("2001:db8::1");
	struct pair pair;
	struct av av;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	av = av_between(&not_ours, &ipv4_b);
	assert_true(put(pair.a, &av, DEST_QP, 0, 8));
	av = av_between(&ipv4_a, &ipv6); /* one family to the other */
	assert_true(put(pair.a, &av, DEST_QP, 0, 8));
	av = av_between(&ipv6, &unreachable);
	assert_true(put(pair.a, &av, DEST_QP, 0, 8));
	assert_true(put(pair.a, &av, DEST_QP, 1, 8));
	assert_true(put(pair.a, &pair.av, DEST_QP, 5, 8));
	assert_true(udp_link_flush(pair.a));
	assert_int_equal(counters_of(pair.a).send_drops, 4);
	receive(pair.b, pair.fd, &ipv4_b, 1);
	assert_kept(0, 5, 8);
	pair_close(&pair);
}

/* A full send buffer: what is staged waits, then the outbox has no room, and all goes out in order
 * once there is room. */
static void test_a_full_socket_holds_packets_back(void **state)
{
	enum { FIT = STAGE_BYTES / (BTH_BYTES + 4096 + ICRC_BYTES) };
	struct pair pair;
	struct udp_address *from;
	int fd, ends[2];

	pair_open(&pair, &ipv4_a, &ipv4_b);
	assert_true(put(pair.a, &pair.av, DEST_QP, 0, 8));
	assert_true(udp_link_flush(pair.a));
	from = pair.a->addresses;
	/* In place of the UDP socket a Unix one, which ignores addresses and whose peer does not
	 * read. */
	fd = from->way.fd;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
	while (send(ends[0], "", 1, 0) == 1)
		;
	from->way.fd = ends[0];
	for (int i = 1; i <= FIT; i++)
		assert_true(put(pair.a, &pair.av, DEST_QP, i, 4096));
	assert_false(udp_link_flush(pair.a));
	assert_false(put(pair.a, &pair.av, DEST_QP, FIT + 1, 4096));
	assert_true(put(pair.a, &pair.av, DEST_QP, FIT + 1, 16));
	assert_int_equal(counters_of(pair.a).send_drops, 0);
	from->way.fd = fd;
	assert_true(udp_link_flush(pair.a));
	receive(pair.b, pair.fd, &ipv4_b, FIT + 2);
	assert_true(put(pair.a, &pair.av, DEST_QP, FIT + 2, 4096));
	assert_true(udp_link_flush(pair.a));
	receive(pair.b, pair.fd, &ipv4_b, 1);
	for (int i = 0; i <= FIT + 2; i++)
		assert_kept(i, i, i == 0 ? 8 : i == FIT + 1 ? 16 : 4096);
	close(ends[0]);
	close(ends[1]);
	pair_close(&pair);
}

static void multicast(const union ibv_gid *from, const union ibv_gid *group, uint32_t ifindex)
{
	struct udp_link *link, *other;
	struct av av = av_between(from, group);
	int first = udp_socket_join(group, ifindex), second = udp_socket_join(group, ifindex);

	kept_count = 0;
	assert_true(first >= 0 && second >= 0);
	assert_int_equal(udp_link_open(0, &link), 0);
	assert_int_equal(udp_link_open(1, &other), 0);
	udp_link_set_interface(link, from, ifindex);
	assert_true(put(link, &av, 0xffffff, 1, 64));
	assert_true(put(link, &av, 0xffffff, 2, 64));
	assert_true(udp_link_flush(link));
	assert_int_equal(counters_of(link).send_drops, 0);
	receive(link, first, group, 2);
	receive(other, second, group, 2);
	for (int i = 0; i < 4; i++) {
		assert_kept(i, i % 2 + 1, 64);
		assert_memory_equal(&kept[i].packet.dgid, group, sizeof(*group));
		assert_memory_equal(&kept[i].packet.sgid, from, sizeof(*from));
	}
	close(first);
	close(second);
	udp_link_close(link);
	udp_link_close(other);
}

static void test_every_member_of_a_group_gets_its_packets(void **state)
{
	multicast(&ipv4_a, &ipv4_group, loopback);
}

static void test_every_member_of_an_ipv6_group_gets_its_packets(void **state)
{
	union ibv_gid local;
	uint32_t ifindex;

	assert_true(own_cable()); /* loopback has no IPv6 multicast */
	ifindex = if_nametoindex("veth0");
	local = link_local_of("veth0");
	multicast(&local, &ipv6_group, ifindex);
}

/* Towards a link-local address the interface is part of the address. */
static void test_link_local_addresses_have_an_interface(void **state)
{
	union ibv_gid near, far;
	struct pair pair;

	near = link_local_of("veth0");
	far = link_local_of("veth1");
	pair_open_on(&pair, &near, &far, if_nametoindex("veth1"));
	udp_link_set_interface(pair.a, &near, if_nametoindex("veth0"));
	for (int i = 0; i < 3; i++)
		assert_true(put(pair.a, &pair.av, DEST_QP, i, 256));
	assert_true(udp_link_flush(pair.a));
	assert_int_equal(counters_of(pair.a).send_drops, 0);
	receive(pair.b, pair.fd, &far, 3);
	for (int i = 0; i < 3; i++)
		assert_kept(i, i, 256);
	assert_memory_equal(&kept[0].packet.sgid, &near, sizeof(near));
	pair_close(&pair);
}

static void test_joining_what_is_no_group_is_refused(void **state)
{
	assert_int_equal(udp_socket_join(&ipv4_a, loopback), -EINVAL);
	assert_int_equal(udp_socket_join(&ipv6, loopback), -EINVAL);
}

static void test_the_port_has_one_owner_unless_shared(void **state)
{
	int fd = udp_socket_bind(&ipv4_a, loopback, false), other;

	assert_true(fd >= 0);
	assert_int_equal(udp_socket_bind(&ipv4_a, loopback, false), -EADDRINUSE);
	close(fd);
	fd = udp_socket_bind(&ipv4_a, loopback, true);
	other = udp_socket_bind(&ipv4_a, loopback, true);
	assert_true(fd >= 0 && other >= 0);
	close(fd);
	close(other);
}

static void test_the_granted_buffer_is_told(void **state)
{
	int fd = udp_socket_bind(&ipv4_a, loopback, false), small = 65536;

	assert_true(udp_socket_buffer(fd) >= 100000);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	assert_int_equal(udp_socket_buffer(fd), small);
	assert_int_equal(udp_socket_buffer(-1), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_one_packet_over_ipv4),
	    cmocka_unit_test(test_one_packet_over_ipv6),
	    cmocka_unit_test(test_batches_of_small_packets),
	    cmocka_unit_test(test_batches_of_1024_bytes),
	    cmocka_unit_test(test_batches_of_4096_bytes),
	    cmocka_unit_test(test_mixed_sizes_and_queue_pairs_keep_their_order),
	    cmocka_unit_test(test_a_ping_pong_is_taken_one_message_at_a_time),
	    cmocka_unit_test(test_an_open_reservation_is_taken_back),
	    cmocka_unit_test(test_traffic_class_and_hop_limit_travel),
	    cmocka_unit_test(test_icrcs_are_right_for_the_identifications_of_segments),
	    cmocka_unit_test(test_bad_packets_are_dropped_and_counted),
	    cmocka_unit_test(test_ways_that_refuse_segments_get_single_packets),
	    cmocka_unit_test(test_what_cannot_be_sent_is_dropped_and_counted),
	    cmocka_unit_test(test_a_full_socket_holds_packets_back),
	    cmocka_unit_test(test_every_member_of_a_group_gets_its_packets),
	    cmocka_unit_test(test_every_member_of_an_ipv6_group_gets_its_packets),
	    cmocka_unit_test(test_link_local_addresses_have_an_interface),
	    cmocka_unit_test(test_joining_what_is_no_group_is_refused),
	    cmocka_unit_test(test_the_port_has_one_owner_unless_shared),
	    cmocka_unit_test(test_the_granted_buffer_is_told),
	};

	if (!pair_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
