/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Paths, connected sockets for sending: who gets most is sent to by one, whose ICRCs are as right
 * as any, and which is read by a terse socket as well.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdlib.h>

#include "udp_stream.h"

enum { PAYLOAD = 8 };

/* To port 4791, or to the near port of DEST_QP. */
static void open_at(struct pair *pair, const union ibv_gid *from, const union ibv_gid *to,
		    bool is_near)
{
	stream_open(pair, from, to);
	if (!is_near)
		return;
	close(pair->fd);
	pair->fd = udp_socket_bind_near(to, loopback, udp_near_port(DEST_QP));
	assert_true(pair->fd >= 0);
	udp_link_set_near(pair->a, to);
}

static void stage_one(struct pair *pair, uint32_t qpn)
{
	stage(pair, qpn, PAYLOAD);
}

/* Packets that leave and arrive one by one. */
static void send_many(struct pair *pair, uint32_t qpn, int count)
{
	while (count--) {
		stage_one(pair, qpn);
		pass(pair);
	}
}

static void who_gets_most(const union ibv_gid *from, const union ibv_gid *to)
{
	struct pair pair;
	uint16_t port;

	stream_open(&pair, from, to);
	send_many(&pair, DEST_QP, PATH_HOT - 1);
	assert_false(udp_is_path_port(pair.taken.port));
	send_many(&pair, DEST_QP, 1);
	assert_true(udp_is_path_port(pair.taken.port));
	port = pair.taken.port;
	/* another QP of that lane takes it as well, what is for other lanes does not */
	send_many(&pair, DEST_QP + NEAR_PORTS, 1);
	assert_int_equal(pair.taken.port, port);
	send_many(&pair, DEST_QP + 1, 1);
	assert_false(udp_is_path_port(pair.taken.port));
	/* nobody gets one who has little */
	for (int i = 0; i < 3 * PATH_WINDOW; i++)
		send_many(&pair, i % 16 ? DEST_QP : OTHER_QP, 1);
	assert_int_equal(pair.taken.port, port);
	send_many(&pair, OTHER_QP, 1);
	assert_false(udp_is_path_port(pair.taken.port));
	/* and who has little loses his */
	send_many(&pair, OTHER_QP, 3 * PATH_WINDOW);
	assert_true(udp_is_path_port(pair.taken.port));
	send_many(&pair, DEST_QP, 1);
	assert_false(udp_is_path_port(pair.taken.port));
	assert_int_equal(counters_of(pair.a).send_drops, 0);
	assert_int_equal(counters_of(pair.b).bad_icrc, 0);
	pair_close(&pair);
}

static void test_who_gets_most_has_a_path(void **state)
{
	who_gets_most(&ipv4_a, &ipv4_b);
	who_gets_most(&ipv6, &ipv6);
}

static uint32_t paths_of(const struct pair *pair)
{
	uint32_t count = 0;

	for (int i = 0; i < PATHS_MAX; i++)
		count += pair->a->paths.paths[i].to.from != NULL;
	return count;
}

static void near_path(const union ibv_gid *from, const union ibv_gid *to)
{
	struct pair pair;

	open_at(&pair, from, to, true);
	send_many(&pair, DEST_QP, PATH_HOT - 1);
	assert_false(udp_is_path_port(pair.taken.port));
	send_many(&pair, DEST_QP, PATH_WINDOW);
	assert_true(udp_is_path_port(pair.taken.port));
	send_many(&pair, DEST_QP + NEAR_PORTS, 1);
	assert_true(udp_is_path_port(pair.taken.port));
	assert_int_equal(counters_of(pair.b).bad_icrc, 0);
	pair_close(&pair);
}

static void test_who_is_on_this_host_has_a_path_to_his_near_port(void **state)
{
	near_path(&ipv4_a, &ipv4_b);
	near_path(&ipv4_a, &ipv4_a);
	near_path(&ipv6, &ipv6);
}

/* The owner of the address has near ports from now on. */
static void test_a_path_leads_to_one_port(void **state)
{
	struct pair pair;

	stream_open(&pair, &ipv4_a, &ipv4_b);
	send_many(&pair, DEST_QP, PATH_HOT);
	assert_true(udp_is_path_port(pair.taken.port));
	close(pair.fd);
	pair.fd = udp_socket_bind_near(&pair.to, loopback, udp_near_port(DEST_QP));
	udp_link_set_near(pair.a, &pair.to);
	send_many(&pair, DEST_QP, 1);
	assert_false(udp_is_path_port(pair.taken.port));
	send_many(&pair, DEST_QP, 2 * PATH_WINDOW);
	assert_true(udp_is_path_port(pair.taken.port));
	assert_int_equal(counters_of(pair.b).bad_icrc, 0);
	pair_close(&pair);
}

/* Of so many slots, each is sent to so often in a row. */
static void send_around(struct pair *pair, uint32_t slots, int in_a_row, int count)
{
	for (int i = 0; i < count; i++)
		send_many(pair, DEST_QP + (i / in_a_row % slots << QPN_SLOT_SHIFT), 1);
}

static void test_of_ten_who_are_sent_to_equally_none_has_a_path(void **state)
{
	struct pair pair;

	stream_open(&pair, &ipv4_a, &ipv4_b);
	for (int i = 0; i < 4 * PATH_WINDOW; i += 10) {
		send_around(&pair, 10, 1, 10);
		assert_int_equal(paths_of(&pair), 0);
	}
	pair_close(&pair);
}

/* However many have much of it for a while. */
static void test_one_path_opens_in_a_window(void **state)
{
	struct pair pair;
	uint16_t port;

	stream_open(&pair, &ipv4_a, &ipv4_b);
	send_around(&pair, 4, PATH_HOT, PATH_WINDOW - 1);
	assert_int_equal(paths_of(&pair), 1);
	/* who goes on with it has his next */
	send_many(&pair, OTHER_QP, PATH_HOT);
	assert_int_equal(paths_of(&pair), 2);
	port = pair.taken.port;
	assert_true(udp_is_path_port(port));
	send_many(&pair, DEST_QP, 1);
	assert_true(udp_is_path_port(pair.taken.port));
	assert_int_not_equal(pair.taken.port, port);
	pair_close(&pair);
}

/* Two that share a place in the table, of which the one that is counted may have no path. */
static void test_nobody_gets_a_path_by_what_others_sent(void **state)
{
	const uint32_t alike = DEST_QP + (PATH_CANDIDATES << QPN_SLOT_SHIFT);
	struct pair pair;

	stream_open(&pair, &ipv4_a, &ipv4_b);
	send_many(&pair, DEST_QP, PATH_HOT);
	pair.av.is_doubted = true;
	send_many(&pair, DEST_QP, 1);
	pair.av.is_doubted = false;
	send_many(&pair, DEST_QP, PATH_WINDOW + PATH_HOT);
	assert_int_equal(paths_of(&pair), 0);
	send_many(&pair, alike, PATH_HOT / 2);
	assert_int_equal(paths_of(&pair), 0);
	pair_close(&pair);
}

/* Nobody knows whether what has no answer is lost on the way there. */
static void test_no_path_opens_for_what_goes_again(void **state)
{
	struct pair pair;

	stream_open(&pair, &ipv4_a, &ipv4_b);
	send_many(&pair, DEST_QP, PATH_HOT - 1);
	pair.av.is_doubted = true;
	send_many(&pair, DEST_QP, 10);
	assert_int_equal(paths_of(&pair), 0);
	pair.av.is_doubted = false;
	send_many(&pair, DEST_QP, 1);
	assert_true(udp_is_path_port(pair.taken.port));
	pair_close(&pair);
}

static void test_there_are_no_paths_to_strangers(void **state)
{
	struct pair pair;

	stream_open(&pair, &ipv4_a, &ipv4_b);
	pair.av.carrier_max = 0;
	send_many(&pair, DEST_QP, 3 * PATH_WINDOW);
	assert_false(udp_is_path_port(pair.taken.port));
	udp_link_without_paths(pair.a);
	pair.av.carrier_max = 999;
	send_many(&pair, DEST_QP, 3 * PATH_WINDOW);
	assert_false(udp_is_path_port(pair.taken.port));
	pair_close(&pair);
}

/* The loopback interface's packets, as they are on the wire. */
static int tap_open(void)
{
	struct sockaddr_ll lo = {
	    .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = loopback};
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&lo, sizeof(lo)), 0);
	return fd;
}

/* The first packet of each send of a path: its ICRC is that of the identification that it has. The
 * number of sends. */
static uint32_t check_identifications(int tap, uint32_t segment)
{
	struct sockaddr_ll from;
	socklen_t length = sizeof(from);
	uint8_t bytes[65536];
	uint32_t sends = 0;
	ssize_t got;

	while ((got = recvfrom(tap, bytes, sizeof(bytes), 0, (struct sockaddr *)&from, &length)) >
	       0) {
		const uint8_t *packet = bytes + sizeof(struct iphdr) + sizeof(struct udphdr);
		struct icrc_flow flow;
		struct udphdr udp;
		struct iphdr ip;
		uint16_t id = 0;

		memcpy(&ip, bytes, sizeof(ip));
		memcpy(&udp, bytes + sizeof(ip), sizeof(udp));
		if (from.sll_pkttype == PACKET_OUTGOING || ntohs(udp.dest) != ROCE_PORT ||
		    !udp_is_path_port(ntohs(udp.source)))
			continue;
		assert_true(ip.frag_off & htons(IP_DF));
		icrc_flow_ipv4(&flow, ipv4_a.raw + 12, ipv4_b.raw + 12, ntohs(udp.source),
			       ROCE_PORT);
		assert_true(icrc_is_right(&flow, packet, segment, &id));
		assert_int_equal(id, ntohs(ip.id));
		sends++;
	}
	return sends;
}

static void test_icrcs_of_a_path_are_right_for_its_identifications(void **state)
{
	enum { SENDS = 100 };
	uint32_t sends = 0, size = BTH_BYTES + PAYLOAD + ICRC_BYTES;
	struct pair pair;
	int tap;

	stream_open(&pair, &ipv4_a, &ipv4_b);
	send_many(&pair, DEST_QP, PATH_WINDOW + 1);
	tap = tap_open();
	assert_true(tap >= 0);
	/* single packets, segmented ones, and several runs by one call */
	for (uint32_t i = 0; i < SENDS; i++) {
		for (uint32_t k = 0; k <= i % 5; k++)
			stage_one(&pair, DEST_QP);
		stage_one(&pair, DEST_QP + NEAR_PORTS);
		assert_true(udp_link_flush(pair.a));
		take_all(&pair);
		sends += check_identifications(tap, size);
	}
	assert_true(udp_is_path_port(pair.taken.port));
	assert_int_equal(sends, 2 * SENDS);
	close(tap);
	pair_close(&pair);
}

static void stage_run(struct pair *pair, uint32_t count, uint32_t payload)
{
	while (count--)
		stage(pair, DEST_QP, payload);
}

static void send_run(struct pair *pair, uint32_t count, uint32_t payload)
{
	stage_run(pair, count, payload);
	pass(pair);
	assert_true(udp_is_path_port(pair->taken.port));
	assert_int_equal(counters_of(pair->b).bad_icrc, 0);
	assert_int_equal(counters_of(pair->b).malformed, 0);
}

static uint16_t cut_by(const struct pair *pair)
{
	return pair->a->paths.latest->way.segment;
}

/* It is told once, and not with each send; what is of another size leaves in its own. */
static void what_is_cut_alike(const union ibv_gid *from, const union ibv_gid *to)
{
	enum { SHORT = 8, MIDDLE = 100, LONG = 200, HEAD = BTH_BYTES + ICRC_BYTES };
	static const uint32_t payloads[] = {SHORT, MIDDLE, LONG};
	struct pair pair;

	stream_open(&pair, from, to);
	send_many(&pair, DEST_QP, PATH_WINDOW + 1);
	send_run(&pair, 3, MIDDLE);
	assert_int_equal(cut_by(&pair), 0);
	send_run(&pair, 5, MIDDLE);
	assert_int_equal(cut_by(&pair), HEAD + MIDDLE);
	send_run(&pair, 1, SHORT);
	send_run(&pair, 1, MIDDLE);
	send_run(&pair, 4, LONG);
	send_run(&pair, 4, SHORT);
	send_run(&pair, 2, MIDDLE);
	assert_int_equal(cut_by(&pair), HEAD + MIDDLE);
	send_run(&pair, 1, LONG);
	assert_int_equal(cut_by(&pair), 0);
	srand(7);
	for (int i = 0; i < 500; i++)
		send_run(&pair, 1 + (uint32_t)rand() % 4, payloads[rand() / 8 % 3]);
	pair_close(&pair);
}

static void test_a_path_cuts_by_itself_what_is_cut_alike(void **state)
{
	what_is_cut_alike(&ipv4_a, &ipv4_b);
	what_is_cut_alike(&ipv6, &ipv6);
}

/* Until nothing of several packets has left for long. */
static void test_a_path_that_sends_single_packets_does_not_cut(void **state)
{
	enum { CUT = BTH_BYTES + 100 + ICRC_BYTES };
	struct pair pair;

	stream_open(&pair, &ipv4_a, &ipv4_b);
	send_many(&pair, DEST_QP, PATH_WINDOW + 1);
	for (int round = 0; round < 2; round++) {
		send_run(&pair, 3, 100);
		send_run(&pair, 3, 100);
		for (int i = 1; i < SINGLES_UNCUT; i++)
			send_run(&pair, 1, 8);
		send_run(&pair, 3, 100);
		for (int i = 1; i < SINGLES_UNCUT; i++)
			send_run(&pair, 1, 8);
		assert_int_equal(cut_by(&pair), CUT);
		send_run(&pair, 1, 8);
		assert_int_equal(cut_by(&pair), 0);
	}
	pair_close(&pair);
}

static uint64_t calls_to_pass(struct pair *pair)
{
	uint64_t before = udp_link_sends(pair->a);

	send_run(pair, 0, 0);
	return udp_link_sends(pair->a) - before;
}

/* But one that its socket would cut does not go with those that it is to cut. */
static void test_several_runs_leave_by_one_call(void **state)
{
	enum { PAYLOAD_LONG = 1000, RUN = RUN_BYTES_MAX / (BTH_BYTES + PAYLOAD_LONG + ICRC_BYTES) };
	struct pair pair;

	stream_open(&pair, &ipv4_a, &ipv4_b);
	send_many(&pair, DEST_QP, PATH_WINDOW + 1);
	send_run(&pair, RUN, PAYLOAD_LONG);
	send_run(&pair, RUN, PAYLOAD_LONG);
	assert_int_equal(cut_by(&pair), BTH_BYTES + PAYLOAD_LONG + ICRC_BYTES);
	stage_run(&pair, 2 * RUN, PAYLOAD_LONG);
	assert_int_equal(calls_to_pass(&pair), 1);
	stage_run(&pair, RUN + 2, PAYLOAD_LONG);
	stage_run(&pair, 3, PAYLOAD_LONG / 2);
	stage_run(&pair, 1, PAYLOAD_LONG / 4);
	assert_int_equal(calls_to_pass(&pair), 1);
	assert_int_equal(cut_by(&pair), BTH_BYTES + PAYLOAD_LONG + ICRC_BYTES);
	stage_run(&pair, RUN + 2, PAYLOAD_LONG);
	stage_run(&pair, 1, 2 * PAYLOAD_LONG);
	stage_run(&pair, 3, PAYLOAD_LONG);
	stage_run(&pair, 1, 2 * PAYLOAD_LONG);
	assert_int_equal(calls_to_pass(&pair), 2);
	assert_int_equal(cut_by(&pair), 0);
	pair_close(&pair);
}

/* Of each message but the first: none has to be found. */
static void test_a_receiver_expects_the_next_identification_of_a_path(void **state)
{
	struct pair pair;
	const struct udp_receiver *receiver;
	uint16_t before;

	stream_open(&pair, &ipv4_a, &ipv4_b);
	receiver = &pair.b->receiver;
	send_many(&pair, DEST_QP, 2);
	assert_int_equal(receiver->id, 0);
	send_many(&pair, DEST_QP, PATH_WINDOW + 1);
	for (uint32_t i = 0; i < 10; i++) {
		before = receiver->id;
		stage_one(&pair, DEST_QP);
		stage_one(&pair, DEST_QP);
		assert_true(udp_link_flush(pair.a));
		take_all(&pair);
		assert_int_equal(receiver->id_port, pair.taken.port);
		assert_int_equal(receiver->id, (uint16_t)(before + 1));
		assert_int_equal(receiver->id, (uint16_t)(pair.a->paths.latest->way.id - 1));
	}
	pair_close(&pair);
}

/* An error leaves nobody knows which identification: the rest goes as if there were no path. */
static void test_a_path_that_fails_is_given_up_and_nothing_is_lost(void **state)
{
	struct pair pair;

	stream_open(&pair, &ipv4_a, &ipv4_b);
	send_many(&pair, DEST_QP, PATH_WINDOW + 1);
	assert_true(udp_is_path_port(pair.taken.port));
	close(pair.fd);
	stage_one(&pair, DEST_QP); /* nobody there, and the path is told so */
	assert_true(udp_link_flush(pair.a));
	pair.taken.psn = pair.sent;
	pair.taken.count++;
	pair.fd = udp_socket_bind(&pair.to, loopback, false);
	assert_true(pair.fd >= 0);
	send_many(&pair, DEST_QP, 1);
	assert_false(udp_is_path_port(pair.taken.port));
	assert_int_equal(counters_of(pair.a).send_drops, 0);
	send_many(&pair, DEST_QP, 2 * PATH_WINDOW);
	assert_true(udp_is_path_port(pair.taken.port));
	assert_int_equal(counters_of(pair.b).bad_icrc, 0);
	pair_close(&pair);
}

/* As who has had no answer tells: what follows does not go there. */
static void send_doubted(struct pair *pair)
{
	pair->av.is_doubted = true;
	send_many(pair, DEST_QP, 1);
	assert_false(udp_is_path_port(pair->taken.port));
	pair->av.is_doubted = false;
	send_many(pair, DEST_QP, 1);
	assert_false(udp_is_path_port(pair->taken.port));
}

static void send_until_path(struct pair *pair)
{
	int count = 0;

	do {
		assert_true(count++ < PATH_WINDOW + PATH_HOT);
		send_many(pair, DEST_QP, 1);
	} while (!udp_is_path_port(pair->taken.port));
}

static void test_a_path_that_is_doubted_at_first_is_tried_ever_more_seldom(void **state)
{
	struct pair pair;

	stream_open(&pair, &ipv4_a, &ipv4_b);
	send_until_path(&pair);
	for (int windows = PATH_DOUBT; windows <= 256; windows *= PATH_DOUBT_AGAIN) {
		send_doubted(&pair);
		send_many(&pair, DEST_QP, (windows - 1) * PATH_WINDOW);
		assert_false(udp_is_path_port(pair.taken.port));
		send_until_path(&pair);
		send_many(&pair, DEST_QP, PATH_RUNS / 2);
	}
	pair_close(&pair);
}

/* So many runs in a row are doubted, the others not. */
static void set_back(struct pair *pair, int runs)
{
	pair->av.is_doubted = true;
	send_many(pair, DEST_QP, runs);
	assert_false(udp_is_path_port(pair->taken.port));
	pair->av.is_doubted = false;
	send_many(pair, DEST_QP, 1);
	assert_true(udp_is_path_port(pair->taken.port));
}

static void test_a_path_that_has_worked_endures_what_is_lost_now_and_then(void **state)
{
	struct pair pair;
	uint16_t port;

	stream_open(&pair, &ipv4_a, &ipv4_b);
	send_many(&pair, DEST_QP, 3 * PATH_WINDOW);
	port = pair.taken.port;
	for (int i = 0; i < 10; i++) {
		set_back(&pair, 1 + i);
		send_many(&pair, DEST_QP, PATH_WINDOW);
		assert_int_equal(pair.taken.port, port);
	}
	assert_int_equal(counters_of(pair.b).bad_icrc, 0);
	pair_close(&pair);
}

/* So it is where more processes than cores run. */
static void test_a_path_endures_answers_that_come_late(void **state)
{
	struct pair pair;

	stream_open(&pair, &ipv4_a, &ipv4_b);
	send_many(&pair, DEST_QP, PATH_WINDOW + 1);
	for (int i = 0; i < 100; i++) {
		for (int k = 0; k <= PATH_ROUNDS; k++, pair.av.rounds++)
			send_many(&pair, DEST_QP, 1);
		set_back(&pair, 1);
	}
	set_back(&pair, 1);
	for (int k = 0; k < PATH_ROUNDS; k++, pair.av.rounds++)
		send_many(&pair, DEST_QP, 1);
	/* another QP's: its peer may have had them before */
	pair.av.rounds += 1000;
	send_many(&pair, DEST_QP + 4 * NEAR_PORTS, PATH_ROUNDS);
	send_doubted(&pair);
	pair_close(&pair);
}

static void test_a_path_that_has_worked_is_left_and_tried_again_soon(void **state)
{
	struct pair pair;

	stream_open(&pair, &ipv4_a, &ipv4_b);
	send_many(&pair, DEST_QP, PATH_WINDOW);
	for (int i = 0; i < 3; i++) {
		send_many(&pair, DEST_QP, 3 * PATH_WINDOW);
		assert_true(udp_is_path_port(pair.taken.port));
		for (int k = 1; k < PATH_SETBACKS; k++)
			set_back(&pair, 1);
		send_doubted(&pair);
		send_many(&pair, DEST_QP, (PATH_DOUBT_OLD - 1) * PATH_WINDOW);
		assert_false(udp_is_path_port(pair.taken.port));
	}
	pair_close(&pair);
}

/* Single packets, and several by one send, which are not merged, and then are. */
static void terse_receiver(const union ibv_gid *from, const union ibv_gid *to)
{
	enum { PACKETS = 20 };
	struct pair pair;
	int terse;

	stream_open(&pair, from, to);
	close(pair.fd);
	pair.fd = udp_socket_bind(to, loopback, true);
	assert_true(pair.fd >= 0);
	send_many(&pair, DEST_QP, PATH_WINDOW + 1);
	terse = udp_socket_connect(to, loopback, ROCE_PORT, from, pair.taken.port, true);
	assert_true(terse >= 0);
	pair.av.ecn = IPTOS_ECN_CE;
	for (int sends = 1; sends <= PACKETS; sends++) {
		for (int i = 0; i < sends; i++)
			stage_one(&pair, DEST_QP);
		assert_true(udp_link_flush(pair.a));
		take_all(&pair);
		for (int i = 0; i < sends; i++)
			assert_int_equal(udp_receive_terse(pair.b, terse, to, from, pair.taken.port,
							   take, &pair.taken),
					 1);
		assert_int_equal(
		    udp_receive_terse(pair.b, terse, to, from, pair.taken.port, take, &pair.taken),
		    0);
		assert_int_equal(pair.taken.traffic_class, 0);
	}
	/* what waits when it becomes as the others, and what follows */
	for (int sends = 0; sends < 2; sends++) {
		for (int i = 0; i < PACKETS; i++)
			stage_one(&pair, DEST_QP);
		assert_true(udp_link_flush(pair.a));
		if (sends == 0)
			udp_socket_tell(terse, to);
	}
	assert_int_equal(pair.taken.count, pair.sent - 2 * PACKETS);
	while (udp_receive(pair.b, terse, to, take, &pair.taken))
		;
	assert_int_equal(pair.taken.count, pair.sent);
	assert_int_equal(pair.taken.traffic_class, IPTOS_ECN_CE);
	assert_int_equal(counters_of(pair.b).bad_icrc + counters_of(pair.b).malformed, 0);
	close(terse);
	pair_close(&pair);
}

static void test_a_terse_receiver_takes_whatever_a_path_sends(void **state)
{
	terse_receiver(&ipv4_b, &ipv4_a);
	terse_receiver(&ipv6, &ipv6);
}

struct exchange {
	struct pair *pair;
	int terse;
	bool is_over;
};

/* Of a thread that is to end where it next may. */
static void *exchange(void *data)
{
	struct exchange *exchange = data;
	struct pair *pair = exchange->pair;

	pthread_cancel(pthread_self());
	stage(pair, DEST_QP, PAYLOAD);
	udp_link_flush(pair->a);
	udp_receive_terse(pair->b, exchange->terse, &pair->to, &pair->av.sgid, pair->taken.port,
			  take, &pair->taken);
	exchange->is_over = true;
	pthread_testcancel();
	return NULL;
}

/* A verb is no cancellation point, and what it need not switch off and on it does not pay for. */
static void test_an_exchange_has_no_cancellation_point(void **state)
{
	struct pair pair;
	struct exchange one = {&pair, .is_over = false};
	pthread_t thread;
	void *result;

#ifdef __SANITIZE_THREAD__
	skip(); /* link/syscalls.h */
#endif
	stream_open(&pair, &ipv4_b, &ipv4_a);
	close(pair.fd);
	pair.fd = udp_socket_bind(&ipv4_a, loopback, true);
	send_many(&pair, DEST_QP, PATH_WINDOW + 1);
	one.terse =
	    udp_socket_connect(&ipv4_a, loopback, ROCE_PORT, &ipv4_b, pair.taken.port, true);
	assert_true(one.terse >= 0);
	assert_int_equal(pthread_create(&thread, NULL, exchange, &one), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_true(one.is_over);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(pair.taken.count, pair.sent);
	close(one.terse);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_who_gets_most_has_a_path),
	    cmocka_unit_test(test_who_is_on_this_host_has_a_path_to_his_near_port),
	    cmocka_unit_test(test_a_path_leads_to_one_port),
	    cmocka_unit_test(test_of_ten_who_are_sent_to_equally_none_has_a_path),
	    cmocka_unit_test(test_one_path_opens_in_a_window),
	    cmocka_unit_test(test_nobody_gets_a_path_by_what_others_sent),
	    cmocka_unit_test(test_no_path_opens_for_what_goes_again),
	    cmocka_unit_test(test_there_are_no_paths_to_strangers),
	    cmocka_unit_test(test_icrcs_of_a_path_are_right_for_its_identifications),
	    cmocka_unit_test(test_a_path_cuts_by_itself_what_is_cut_alike),
	    cmocka_unit_test(test_a_path_that_sends_single_packets_does_not_cut),
	    cmocka_unit_test(test_several_runs_leave_by_one_call),
	    cmocka_unit_test(test_a_receiver_expects_the_next_identification_of_a_path),
	    cmocka_unit_test(test_a_path_that_fails_is_given_up_and_nothing_is_lost),
	    cmocka_unit_test(test_a_path_that_is_doubted_at_first_is_tried_ever_more_seldom),
	    cmocka_unit_test(test_a_path_that_has_worked_endures_what_is_lost_now_and_then),
	    cmocka_unit_test(test_a_path_endures_answers_that_come_late),
	    cmocka_unit_test(test_a_path_that_has_worked_is_left_and_tried_again_soon),
	    cmocka_unit_test(test_a_terse_receiver_takes_whatever_a_path_sends),
	    cmocka_unit_test(test_an_exchange_has_no_cancellation_point),
	};

	if (!loopback_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
