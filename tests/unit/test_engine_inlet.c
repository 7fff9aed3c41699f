/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving sockets that are connected: they leave the group in its order, and who nearly all of a
 * lane's packets come from has one, its inlet, which takes that and nothing else.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/inlet.h"
#include "engine/lane.h"
#include "engine/steer.h"
#include "link/udp_link.h"
#include "loopback.h"

enum { SLOTS = 3 };

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

static void send_to(int fd, const union ibv_gid *gid, uint16_t port, uint32_t slot)
{
	union udp_sockaddr to;
	socklen_t length = udp_sockaddr_of(&to, gid, port, loopback);
	uint8_t packet[BTH_BYTES + ICRC_BYTES] = {0};

	bth_pack(packet, &(struct bth){.dest_qp = slot << QPN_SLOT_SHIFT | 0x10});
	assert_int_equal(sendto(fd, packet, sizeof(packet), 0, &to.any, length), sizeof(packet));
}

static void send_to_slot(int fd, const struct host *host, uint32_t slot)
{
	send_to(fd, &host->gid, ROCE_PORT, slot);
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
	fd = udp_socket_connect(gid, loopback, ROCE_PORT, peer, PATH_PORT_BASE + 5, false);
	assert_true(fd >= 0);
	assert_comes_to(&host, hot, fd);
	assert_in_order(&host, other);
	assert_false(has_come(fd));
	host_add(&host); /* a slot that comes meanwhile has its place */
	assert_in_order(&host, other);
	second = udp_socket_connect(gid, loopback, ROCE_PORT, peer, PATH_PORT_BASE + 6, true);
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
	assert_int_equal(
	    udp_socket_connect(&ipv4_b, loopback, ROCE_PORT, &ipv4_a, PATH_PORT_BASE, false),
	    -EADDRNOTAVAIL);
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

/* The lane listens at its place in the group, or at a near port. */
static void inlet_open_at(struct inlet_test *t, uint16_t near_port)
{
	*t = (struct inlet_test){.host = {.gid = ipv4_a},
				 .caller = {.gid = ipv4_b, .port = PATH_PORT_BASE + 9}};
	while (t->host.count < 1 + SLOTS)
		host_add(&t->host);
	t->lane = aligned_alloc(LANE_ALIGNMENT, sizeof(*t->lane));
	assert_non_null(t->lane);
	memset(t->lane, 0, sizeof(*t->lane));
	t->lane->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	t->lane->call_fd = -1;
	CDS_INIT_LIST_HEAD(&t->lane->sources);
	assert_int_equal(udp_link_open(0, &t->lane->link), 0);
	t->source = (struct source){
	    .fd = near_port ? udp_socket_bind_near(&t->host.gid, loopback, near_port)
			    : t->host.group[1],
	    .gid = t->host.gid,
	    .near_port = near_port,
	};
	assert_int_equal(lane_add_source(t->lane, &t->source), 0);
	t->peer = sender_on(&t->caller.gid, t->caller.port);
}

static void inlet_open(struct inlet_test *t)
{
	inlet_open_at(t, 0);
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
	if (t->source.near_port)
		close(t->source.fd);
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

enum { INLET_LOOK = 128, INLET_WINDOW = 1024, INLET_POLLED = 64 };

static void test_who_nearly_all_comes_from_has_the_inlet(void **state)
{
	struct inlet_test t;

	if (!steer_is_wanted())
		skip();
	inlet_open(&t);
	mind(&t, INLET_WINDOW, 2);
	mind(&t, INLET_WINDOW, 4);
	assert_false(is_open(&t));
	mind(&t, INLET_LOOK - 1, 0);
	assert_false(is_open(&t));
	send_to_slot(t.peer, &t.host, 0);
	assert_int_equal(mind(&t, 1, 0), 1); /* what waits comes first */
	assert_true(is_open(&t));
	assert_comes_to(&t.host, t.peer, t.lane->inlet.source.fd);
	/* others for a while, or half of the time */
	mind(&t, INLET_WINDOW / 2, 1);
	mind(&t, INLET_WINDOW / 2, 0);
	mind(&t, 4 * INLET_WINDOW, 2);
	assert_true(is_open(&t));
	send_to_slot(t.peer, &t.host, 0);
	assert_int_equal(mind(&t, INLET_WINDOW, 1), 1); /* nothing is left in it */
	assert_false(is_open(&t));
	assert_in_order(&t.host, t.peer);
	inlet_end(&t);
}

enum { NEAR_PORT = NEAR_PORT_BASE + 8 };

/* Not even for who shares ports: a slot that is taken again has it alone. */
static void assert_taken(const union ibv_gid *gid)
{
	const int options[] = {SO_REUSEADDR, SO_REUSEPORT};
	union udp_sockaddr at;
	socklen_t length = udp_sockaddr_of(&at, gid, NEAR_PORT, loopback);

	for (int i = 0; i < 2; i++) {
		int fd = socket(at.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1;

		assert_int_equal(setsockopt(fd, SOL_SOCKET, options[i], &one, sizeof(one)), 0);
		assert_int_equal(bind(fd, &at.any, length), -1);
		assert_int_equal(errno, EADDRINUSE);
		close(fd);
	}
}

/* One that another address of the host has as well. */
static void test_a_near_port_has_its_inlet(void **state)
{
	struct source other = {.gid = ipv4_b, .near_port = NEAR_PORT};
	int stranger = sender_on(&ipv4_b, PATH_PORT_BASE + 1);
	struct inlet_test t;

	if (!steer_is_wanted())
		skip();
	inlet_open_at(&t, NEAR_PORT);
	other.fd = udp_socket_bind_near(&other.gid, loopback, NEAR_PORT);
	assert_int_equal(lane_add_source(t.lane, &other), 0);
	mind(&t, INLET_LOOK - 1, 0);
	assert_false(is_open(&t));
	send_to(t.peer, &t.host.gid, NEAR_PORT, 0);
	assert_int_equal(mind(&t, 1, 0), 1);
	assert_true(is_open(&t));
	for (int round = 0; round < 3; round++) {
		send_to(t.peer, &t.host.gid, NEAR_PORT, 0);
		assert_true(has_come(t.lane->inlet.source.fd));
		assert_false(has_come(t.source.fd));
		send_to(stranger, &t.host.gid, NEAR_PORT, 0);
		assert_true(has_come(t.source.fd));
		send_to(t.peer, &other.gid, NEAR_PORT, 0);
		assert_true(has_come(other.fd));
		assert_false(has_come(t.lane->inlet.source.fd));
	}
	assert_taken(&t.host.gid);
	assert_taken(&other.gid);
	assert_in_order(&t.host, t.peer);
	mind(&t, INLET_WINDOW, 1);
	assert_false(is_open(&t));
	send_to(t.peer, &t.host.gid, NEAR_PORT, 0);
	assert_true(has_come(t.source.fd));
	lane_remove_source(t.lane, &other);
	close(other.fd);
	close(stranger);
	inlet_end(&t);
}

/* Two processes each of which gets what is the other's, as chance may have it without the steering
 * program, would otherwise do so for ever. */
static void test_what_is_for_other_processes_does_not_count(void **state)
{
	const struct batch others = {.is_misled = true, .is_others = true};
	struct inlet_test t;

	if (!steer_is_wanted())
		skip();
	inlet_open(&t);
	for (int i = 0; i < INLET_LOOK; i++) {
		assert_false(is_open(&t));
		inlet_mind(t.lane, &t.source, &others, deliver, NULL);
		mind(&t, 1, 0);
	}
	assert_true(is_open(&t));
	for (int i = 0; i < 2 * INLET_WINDOW; i++)
		inlet_mind(t.lane, &t.source, &others, deliver, NULL);
	assert_true(is_open(&t));
	inlet_end(&t);
}

static void test_an_inlet_that_went_soon_is_tried_ever_later(void **state)
{
	struct inlet_test t;

	if (!steer_is_wanted())
		skip();
	inlet_open(&t);
	for (int looks = 0; looks < 100; looks = 2 * looks + 1) {
		mind(&t, looks * INLET_LOOK, 0);
		assert_false(is_open(&t));
		mind(&t, INLET_LOOK, 0);
		assert_true(is_open(&t));
		mind(&t, INLET_WINDOW, 1);
		assert_false(is_open(&t));
	}
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
	mind(&t, INLET_LOOK, 0);
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
	mind(&t, INLET_LOOK, 0);
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
	mind(&t, INLET_LOOK - 2, 0);
	t.has_turns = true;
	mind(&t, 2 * INLET_LOOK - 1, 0);
	assert_terse(&t, false);
	send_to_slot(t.peer, &t.host, 0);
	assert_int_equal(mind(&t, 1, 0), 1);
	assert_false(is_open(&t));
	mind(&t, INLET_LOOK, 0);
	assert_terse(&t, true);
	inlet_end(&t);
}

static void test_an_inlet_goes_with_the_address(void **state)
{
	struct inlet_test t;

	inlet_open(&t);
	mind(&t, INLET_LOOK, 0);
	assert_true(is_open(&t));
	inlet_end(&t);
	inlet_open(&t);
	t.lane->inlet.is_off = true;
	mind(&t, 2 * INLET_WINDOW, 0);
	assert_false(is_open(&t));
	inlet_end(&t);
}

/* A packet for the inlet would wake who sleeps on the lane's sockets. It is taken. */
static bool is_slept_on(const struct inlet_test *t)
{
	struct epoll_event event;
	int count;

	send_to_slot(t->peer, &t->host, 0);
	count = epoll_wait(t->lane->epoll_fd, &event, 1, 0);
	if (count)
		assert_ptr_equal(event.data.ptr, &t->lane->inlet.source);
	assert_true(has_come(t->lane->inlet.source.fd));
	return count;
}

static void poll_it(struct inlet_test *t, int times)
{
	while (times--)
		inlet_was_polled(t->lane);
}

static void test_who_goes_on_polling_an_inlet_has_it_alone(void **state)
{
	struct inlet_test t;

	if (!steer_is_wanted())
		skip();
	inlet_open(&t);
	poll_it(&t, INLET_POLLED); /* none is open yet */
	mind(&t, INLET_LOOK, 0);
	for (int round = 0; round < 2; round++) {
		assert_true(is_slept_on(&t));
		poll_it(&t, INLET_POLLED - 1);
		assert_true(is_slept_on(&t));
		assert_true(inlet_rejoin(t.lane)); /* it did not go on */
		poll_it(&t, INLET_POLLED - 1);
		assert_true(is_slept_on(&t));
		poll_it(&t, 1);
		assert_false(is_slept_on(&t));
		poll_it(&t, 2 * INLET_POLLED);
		assert_false(is_slept_on(&t));
		assert_true(inlet_rejoin(t.lane));
	}
	poll_it(&t, INLET_POLLED);
	mind(&t, 2 * INLET_WINDOW, 1);
	assert_false(is_open(&t));
	mind(&t, 2 * INLET_WINDOW, 0); /* the next one is another one */
	assert_true(is_open(&t));
	assert_true(is_slept_on(&t));
	poll_it(&t, INLET_POLLED);
	inlet_end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_connected_receiver_takes_its_peers_packets_and_no_place),
	    cmocka_unit_test(test_an_address_that_the_host_would_not_send_from_is_not_connected),
	    cmocka_unit_test(test_who_nearly_all_comes_from_has_the_inlet),
	    cmocka_unit_test(test_a_near_port_has_its_inlet),
	    cmocka_unit_test(test_what_is_for_other_processes_does_not_count),
	    cmocka_unit_test(test_an_inlet_that_went_soon_is_tried_ever_later),
	    cmocka_unit_test(test_an_inlet_that_is_misled_is_given_up_for_good),
	    cmocka_unit_test(test_an_inlet_is_terse_as_long_as_there_is_an_exchange),
	    cmocka_unit_test(test_an_inlet_goes_with_the_address),
	    cmocka_unit_test(test_who_goes_on_polling_an_inlet_has_it_alone),
	};

	if (!loopback_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
