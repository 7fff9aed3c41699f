/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connected sockets: who gets most is sent to by a path, whose ICRCs are as right as any; who most
 * comes from has a lane's inlet, which takes that and nothing else, and leaves the group of
 * receiving sockets in its order.
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
#include <stdlib.h>
#include <sys/epoll.h>

#include "engine/inlet.h"
#include "engine/lane.h"
#include "engine/steer.h"
#include "link/udp_link.h"
#include "own_network.h"
#include "wire/parse.h"

enum { DEST_QP = 0x050010, OTHER_QP = 0x060010, PAYLOAD = 8, SLOTS = 3, WAIT_MS = 2000 };

static union ibv_gid ipv4_a, ipv4_b, ipv6;
static uint32_t loopback;

static union ibv_gid gid_of(const char *text)
{
	union ibv_gid gid = {0};

	if (inet_pton(AF_INET6, text, gid.raw) != 1)
		abort();
	return gid;
}

/* What has been taken in. */
struct taken {
	uint32_t count, psn; /* and the next that is expected */
	uint16_t port;	     /* of the last */
	uint8_t traffic_class;
};

static void take(const struct packet *packet, void *data)
{
	struct taken *taken = data;
	struct wire_packet p;

	assert_int_equal(wire_parse(&p, packet->bth, packet->length), PARSE_OK);
	assert_int_equal(p.bth.psn, taken->psn++);
	taken->port = packet->source_port;
	taken->traffic_class = packet->traffic_class;
	taken->count++;
}

struct pair {
	struct udp_link *a, *b;
	union ibv_gid to;
	struct av av;
	int fd; /* b's */
	uint32_t sent;
	struct taken taken;
};

static void pair_open(struct pair *pair, const union ibv_gid *from, const union ibv_gid *to)
{
	*pair = (struct pair){
	    .to = *to,
	    .av = {.sgid = *from, .dgid = *to, .hop_limit = HOP_LIMIT_DEFAULT, .carrier_max = 999}};
	assert_int_equal(udp_link_open(0, &pair->a), 0);
	assert_int_equal(udp_link_open(0, &pair->b), 0);
	pair->fd = udp_socket_bind(to, loopback, false);
	assert_true(pair->fd >= 0);
}

static void pair_close(struct pair *pair)
{
	close(pair->fd);
	udp_link_close(pair->a);
	udp_link_close(pair->b);
}

static void stage(struct pair *pair, uint32_t qpn)
{
	struct outbox *outbox = udp_link_outbox(pair->a);
	uint8_t payload[PAYLOAD] = {0};
	struct wire_packet p = {
	    .bth = {.opcode = TRANSPORT_UC | OP_SEND_ONLY, .dest_qp = qpn, .psn = pair->sent++},
	    .payload_length = PAYLOAD,
	};
	uint8_t *bytes = outbox->reserve(outbox, &pair->av, qpn, BTH_BYTES + PAYLOAD);

	assert_non_null(bytes);
	wire_pack(bytes, &p);
	memcpy(bytes + BTH_BYTES, payload, PAYLOAD);
	outbox->commit(outbox, BTH_BYTES + PAYLOAD);
}

static void drain(struct pair *pair)
{
	while (udp_receive(pair->b, pair->fd, &pair->to, take, &pair->taken))
		;
}

/* Packets that leave and arrive one by one. */
static void send_many(struct pair *pair, uint32_t qpn, int count)
{
	while (count--) {
		stage(pair, qpn);
		assert_true(udp_link_flush(pair->a));
		drain(pair);
	}
	assert_int_equal(pair->taken.count, pair->sent);
}

static struct udp_counters counters_of(const struct udp_link *link)
{
	struct udp_counters counters;

	udp_link_counters(link, &counters);
	return counters;
}

static void who_gets_most(const union ibv_gid *from, const union ibv_gid *to)
{
	struct pair pair;
	uint16_t port;

	pair_open(&pair, from, to);
	send_many(&pair, DEST_QP, PATH_WINDOW - 1);
	assert_false(udp_is_path_port(pair.taken.port));
	send_many(&pair, DEST_QP, 2);
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

static void test_there_are_no_paths_to_strangers(void **state)
{
	struct pair pair;

	pair_open(&pair, &ipv4_a, &ipv4_b);
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

	pair_open(&pair, &ipv4_a, &ipv4_b);
	send_many(&pair, DEST_QP, PATH_WINDOW + 1);
	tap = tap_open();
	assert_true(tap >= 0);
	/* single packets, segmented ones, and several runs by one call */
	for (uint32_t i = 0; i < SENDS; i++) {
		for (uint32_t k = 0; k <= i % 5; k++)
			stage(&pair, DEST_QP);
		stage(&pair, DEST_QP + NEAR_PORTS);
		assert_true(udp_link_flush(pair.a));
		drain(&pair);
		sends += check_identifications(tap, size);
	}
	assert_true(udp_is_path_port(pair.taken.port));
	assert_int_equal(sends, 2 * SENDS);
	close(tap);
	pair_close(&pair);
}

/* Of each message but the first: none has to be found. */
static void test_a_receiver_expects_the_next_identification_of_a_path(void **state)
{
	struct pair pair;
	const struct udp_receiver *receiver;
	uint16_t before;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	receiver = &pair.b->receiver;
	send_many(&pair, DEST_QP, 2);
	assert_int_equal(receiver->id, 0);
	send_many(&pair, DEST_QP, PATH_WINDOW + 1);
	for (uint32_t i = 0; i < 10; i++) {
		before = receiver->id;
		stage(&pair, DEST_QP);
		stage(&pair, DEST_QP);
		assert_true(udp_link_flush(pair.a));
		drain(&pair);
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

	pair_open(&pair, &ipv4_a, &ipv4_b);
	send_many(&pair, DEST_QP, PATH_WINDOW + 1);
	assert_true(udp_is_path_port(pair.taken.port));
	close(pair.fd);
	stage(&pair, DEST_QP); /* nobody there, and the path is told so */
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

static void test_a_path_that_is_doubted_at_first_is_tried_ever_more_seldom(void **state)
{
	struct pair pair;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	send_many(&pair, DEST_QP, PATH_WINDOW + 1);
	assert_true(udp_is_path_port(pair.taken.port));
	for (int windows = PATH_DOUBT; windows <= 256; windows *= PATH_DOUBT_AGAIN) {
		send_doubted(&pair);
		send_many(&pair, DEST_QP, (windows - 1) * PATH_WINDOW);
		assert_false(udp_is_path_port(pair.taken.port));
		send_many(&pair, DEST_QP, 2 * PATH_WINDOW - PATH_RUNS / 2);
		assert_true(udp_is_path_port(pair.taken.port));
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

	pair_open(&pair, &ipv4_a, &ipv4_b);
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

	pair_open(&pair, &ipv4_a, &ipv4_b);
	send_many(&pair, DEST_QP, PATH_WINDOW + 1);
	for (int i = 0; i < 100; i++) {
		for (int k = 0; k <= PATH_ANSWERS; k++, pair.av.answers++)
			send_many(&pair, DEST_QP, 1);
		set_back(&pair, 1);
	}
	set_back(&pair, 1);
	for (int k = 0; k < PATH_ANSWERS; k++, pair.av.answers++)
		send_many(&pair, DEST_QP, 1);
	/* another QP's: its peer may have had them before */
	pair.av.answers += 1000;
	send_many(&pair, DEST_QP + 4 * NEAR_PORTS, PATH_ANSWERS);
	send_doubted(&pair);
	pair_close(&pair);
}

static void test_a_path_that_has_worked_is_left_and_tried_again_soon(void **state)
{
	struct pair pair;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	send_many(&pair, DEST_QP, PATH_WINDOW);
	for (int i = 0; i < 3; i++) {
		send_many(&pair, DEST_QP, 2 * PATH_WINDOW);
		assert_true(udp_is_path_port(pair.taken.port));
		for (int k = 1; k < PATH_SETBACKS; k++)
			set_back(&pair, 1);
		send_doubted(&pair);
		send_many(&pair, DEST_QP, (PATH_DOUBT_OLD - 1) * PATH_WINDOW);
		assert_false(udp_is_path_port(pair.taken.port));
	}
	pair_close(&pair);
}

/* ---- receiving ---- */

/* A host's group: QP 1's socket, then one a slot, one lane each. */
struct host {
	union ibv_gid gid;
	int group[1 + SLOTS + 1], count;
};

static void host_add(struct host *host)
{
	int fd = udp_socket_bind(&host->gid, loopback, true);

	assert_true(fd >= 0);
	host->group[host->count++] = fd;
	if (host->count == 1)
		assert_int_equal(steer_attach(fd, 1), 0);
}

static int sender_on(const union ibv_gid *gid, uint16_t port)
{
	union udp_sockaddr address;
	socklen_t length = udp_sockaddr_of(&address, gid, port, loopback);
	int fd = socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, &address.any, length), 0);
	return fd;
}

static void send_to_slot(int fd, const struct host *host, uint32_t slot)
{
	union udp_sockaddr to;
	socklen_t length = udp_sockaddr_of(&to, &host->gid, ROCE_PORT, loopback);
	uint8_t packet[BTH_BYTES + ICRC_BYTES] = {0};

	bth_pack(packet, &(struct bth){.dest_qp = slot << QPN_SLOT_SHIFT | 0x10});
	assert_int_equal(sendto(fd, packet, sizeof(packet), 0, &to.any, length), sizeof(packet));
}

static bool has_come(int fd)
{
	uint8_t packet[64];

	return recv(fd, packet, sizeof(packet), MSG_DONTWAIT) > 0;
}

/* What is for each slot comes to its socket. */
static void assert_in_order(const struct host *host, int from)
{
	for (int slot = 0; slot < host->count - 1; slot++) {
		send_to_slot(from, host, slot);
		for (int i = 0; i < host->count; i++)
			assert_int_equal(has_come(host->group[i]), i == slot + 1);
	}
}

static void assert_comes_to(const struct host *host, int from, int fd)
{
	for (int slot = 0; slot < host->count - 1; slot++) {
		send_to_slot(from, host, slot);
		for (int i = 0; i < host->count; i++)
			assert_false(has_come(host->group[i]));
		assert_true(has_come(fd));
	}
}

static void connected_receiver(const union ibv_gid *peer, const union ibv_gid *gid)
{
	struct host host = {.gid = *gid};
	int hot = sender_on(peer, PATH_PORT_BASE + 5), other = sender_on(peer, PATH_PORT_BASE + 6);
	int fd, second;

	while (host.count < 1 + SLOTS)
		host_add(&host);
	assert_in_order(&host, hot);
	fd = udp_socket_connect(gid, loopback, peer, PATH_PORT_BASE + 5, false);
	assert_true(fd >= 0);
	assert_comes_to(&host, hot, fd);
	assert_in_order(&host, other);
	assert_false(has_come(fd));
	host_add(&host); /* a slot that comes meanwhile has its place */
	assert_in_order(&host, other);
	second = udp_socket_connect(gid, loopback, peer, PATH_PORT_BASE + 6, true);
	assert_true(second >= 0);
	assert_comes_to(&host, other, second);
	assert_comes_to(&host, hot, fd);
	close(second);
	assert_in_order(&host, other);
	send_to_slot(hot, &host, 1);
	udp_socket_disconnect(fd);
	assert_in_order(&host, hot);
	assert_true(has_come(fd)); /* what had come before is not lost */
	assert_false(has_come(fd));
	close(fd);
	assert_in_order(&host, hot);
	while (host.count)
		close(host.group[--host.count]);
	close(hot);
	close(other);
}

static void test_a_connected_receiver_takes_its_peers_packets_and_no_place(void **state)
{
	if (!steer_is_wanted())
		skip();
	connected_receiver(&ipv4_b, &ipv4_a);
	connected_receiver(&ipv6, &ipv6);
}

/* The kernel chooses it by the route. */
static void test_an_address_that_the_host_would_not_send_from_is_not_connected(void **state)
{
	assert_int_equal(udp_socket_connect(&ipv4_b, loopback, &ipv4_a, PATH_PORT_BASE, false),
			 -EADDRNOTAVAIL);
}

/* Single packets, and several by one send, which are not merged, and then are. */
static void terse_receiver(const union ibv_gid *from, const union ibv_gid *to)
{
	enum { PACKETS = 20 };
	struct pair pair;
	int terse;

	pair_open(&pair, from, to);
	close(pair.fd);
	pair.fd = udp_socket_bind(to, loopback, true);
	assert_true(pair.fd >= 0);
	send_many(&pair, DEST_QP, PATH_WINDOW + 1);
	terse = udp_socket_connect(to, loopback, from, pair.taken.port, true);
	assert_true(terse >= 0);
	pair.av.ecn = IPTOS_ECN_CE;
	for (int sends = 1; sends <= PACKETS; sends++) {
		for (int i = 0; i < sends; i++)
			stage(&pair, DEST_QP);
		assert_true(udp_link_flush(pair.a));
		drain(&pair);
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
			stage(&pair, DEST_QP);
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

/* A lane without a thread, and a peer. */
struct inlet_test {
	struct lane *lane;
	struct host host;
	struct source source;
	struct caller caller;
	int peer;
	bool has_turns; /* what comes are turns */
};

static void inlet_open(struct inlet_test *t)
{
	*t = (struct inlet_test){.host = {.gid = ipv4_a},
				 .caller = {.gid = ipv4_b, .port = PATH_PORT_BASE + 9}};
	while (t->host.count < 1 + SLOTS)
		host_add(&t->host);
	t->lane = aligned_alloc(LANE_ALIGNMENT, sizeof(*t->lane));
	assert_non_null(t->lane);
	memset(t->lane, 0, sizeof(*t->lane));
	t->lane->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	atomic_init(&t->lane->call_fd, -1);
	CDS_INIT_LIST_HEAD(&t->lane->sources);
	assert_int_equal(udp_link_open(0, &t->lane->link), 0);
	t->source = (struct source){.fd = t->host.group[1], .gid = t->host.gid};
	assert_int_equal(lane_add_source(t->lane, &t->source), 0);
	t->peer = sender_on(&t->caller.gid, t->caller.port);
}

static void inlet_end(struct inlet_test *t)
{
	lane_remove_source(t->lane, &t->source);
	assert_null(t->lane->inlet.parent);
	assert_true(cds_list_empty(&t->lane->sources));
	udp_link_close(t->lane->link);
	close(t->lane->epoll_fd);
	free(t->lane);
	close(t->peer);
	while (t->host.count)
		close(t->host.group[--t->host.count]);
}

static void deliver(const struct packet *packet, void *data)
{
	abort(); /* nothing here has an ICRC */
}

/* So many batches came in, of which one in `of` is somebody else's. The packets taken in by the
 * way. */
static int mind(struct inlet_test *t, int batches, int of)
{
	const struct batch theirs = {.caller = {.gid = ipv6, .port = PATH_PORT_BASE + 1}};
	const struct batch batch = {.caller = t->caller, .is_turn = t->has_turns};
	int taken = 0;

	for (int i = 0; i < batches; i++) {
		bool is_others = of && i % of == 0;
		bool is_by_inlet = t->lane->inlet.parent && !is_others;

		taken += inlet_mind(t->lane, is_by_inlet ? &t->lane->inlet.source : &t->source,
				    is_others ? &theirs : &batch, deliver, NULL);
	}
	return taken;
}

static bool is_open(const struct inlet_test *t)
{
	return t->lane->inlet.parent;
}

enum { INLET_WINDOW = 1024 };

static void test_who_most_comes_from_has_the_inlet(void **state)
{
	struct inlet_test t;

	if (!steer_is_wanted())
		skip();
	inlet_open(&t);
	mind(&t, 4 * INLET_WINDOW, 2);
	assert_false(is_open(&t));
	mind(&t, INLET_WINDOW - 1, 0);
	assert_false(is_open(&t));
	send_to_slot(t.peer, &t.host, 0);
	assert_int_equal(mind(&t, 1, 0), 1); /* what waits comes first */
	assert_true(is_open(&t));
	assert_comes_to(&t.host, t.peer, t.lane->inlet.source.fd);
	mind(&t, 4 * INLET_WINDOW, 2);
	assert_true(is_open(&t));
	send_to_slot(t.peer, &t.host, 0);
	assert_int_equal(mind(&t, 2 * INLET_WINDOW, 1), 1); /* nothing is left in it */
	assert_false(is_open(&t));
	assert_in_order(&t.host, t.peer);
	inlet_end(&t);
}

/* The peer's port serves several lanes or processes after all. */
static void test_an_inlet_that_is_misled_is_given_up_for_good(void **state)
{
	struct batch misled = {.is_misled = true};
	struct inlet_test t;

	if (!steer_is_wanted())
		skip();
	inlet_open(&t);
	misled.caller = t.caller;
	mind(&t, INLET_WINDOW, 0);
	assert_true(is_open(&t));
	send_to_slot(t.peer, &t.host, 2);
	assert_int_equal(inlet_mind(t.lane, &t.lane->inlet.source, &misled, deliver, NULL), 1);
	assert_false(is_open(&t));
	assert_in_order(&t.host, t.peer);
	mind(&t, 8 * INLET_WINDOW, 0);
	assert_false(is_open(&t));
	inlet_end(&t);
}

static int option_of(const struct inlet_test *t, int level, int name)
{
	socklen_t length = sizeof(int);
	int value = -1;

	assert_int_equal(getsockopt(t->lane->inlet.source.fd, level, name, &value, &length), 0);
	return value;
}

static void assert_terse(const struct inlet_test *t, bool is_terse)
{
	assert_true(is_open(t));
	assert_int_equal(t->lane->inlet.is_terse, is_terse);
	assert_int_equal(option_of(t, IPPROTO_IP, IP_RECVTOS), !is_terse);
	assert_int_equal(option_of(t, IPPROTO_UDP, UDP_GRO), !is_terse);
}

static void test_an_inlet_is_terse_as_long_as_there_is_an_exchange(void **state)
{
	struct inlet_test t;

	if (!steer_is_wanted())
		skip();
	inlet_open(&t);
	t.has_turns = true;
	mind(&t, INLET_WINDOW, 0);
	assert_terse(&t, true);
	send_to_slot(t.peer, &t.host, 0);
	assert_int_equal(inlet_receive(t.lane, deliver, NULL), 1);
	mind(&t, 2 * INLET_WINDOW, 0);
	assert_terse(&t, true);
	/* a stream: two batches of it */
	t.has_turns = false;
	mind(&t, 1, 0);
	assert_terse(&t, true);
	mind(&t, 1, 0);
	assert_terse(&t, false);
	send_to_slot(t.peer, &t.host, 0);
	assert_int_equal(inlet_receive(t.lane, deliver, NULL), 1);
	/* another exchange, by another socket; what has come is not lost */
	mind(&t, 2 * INLET_WINDOW, 0);
	t.has_turns = true;
	mind(&t, 2 * INLET_WINDOW - 3, 0);
	assert_terse(&t, false);
	send_to_slot(t.peer, &t.host, 0);
	assert_int_equal(mind(&t, 1, 0), 1);
	assert_false(is_open(&t));
	mind(&t, INLET_WINDOW, 0);
	assert_terse(&t, true);
	inlet_end(&t);
}

static void test_an_inlet_goes_with_the_address(void **state)
{
	struct inlet_test t;

	inlet_open(&t);
	mind(&t, INLET_WINDOW, 0);
	assert_true(is_open(&t));
	inlet_end(&t);
	inlet_open(&t);
	t.lane->inlet.is_off = true;
	mind(&t, 2 * INLET_WINDOW, 0);
	assert_false(is_open(&t));
	inlet_end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_who_gets_most_has_a_path),
	    cmocka_unit_test(test_there_are_no_paths_to_strangers),
	    cmocka_unit_test(test_icrcs_of_a_path_are_right_for_its_identifications),
	    cmocka_unit_test(test_a_receiver_expects_the_next_identification_of_a_path),
	    cmocka_unit_test(test_a_path_that_fails_is_given_up_and_nothing_is_lost),
	    cmocka_unit_test(test_a_path_that_is_doubted_at_first_is_tried_ever_more_seldom),
	    cmocka_unit_test(test_a_path_that_has_worked_endures_what_is_lost_now_and_then),
	    cmocka_unit_test(test_a_path_endures_answers_that_come_late),
	    cmocka_unit_test(test_a_path_that_has_worked_is_left_and_tried_again_soon),
	    cmocka_unit_test(test_a_connected_receiver_takes_its_peers_packets_and_no_place),
	    cmocka_unit_test(test_an_address_that_the_host_would_not_send_from_is_not_connected),
	    cmocka_unit_test(test_a_terse_receiver_takes_whatever_a_path_sends),
	    cmocka_unit_test(test_who_most_comes_from_has_the_inlet),
	    cmocka_unit_test(test_an_inlet_that_is_misled_is_given_up_for_good),
	    cmocka_unit_test(test_an_inlet_is_terse_as_long_as_there_is_an_exchange),
	    cmocka_unit_test(test_an_inlet_goes_with_the_address),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	if (interface_up("lo") < 0)
		perror("loopback up");
	loopback = if_nametoindex("lo");
	ipv4_a = gid_of("::ffff:127.0.0.1");
	ipv4_b = gid_of("::ffff:127.0.0.2");
	ipv6 = gid_of("::1");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
