/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a lane looks for packets: in a stream first where much came from, but not there alone, and
 * before a deadline is acted upon.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/intake.h"
#include "engine/progress.h"
#include "link/samehost.h"
#include "link/udp_link.h"
#include "loopback.h"
#include "transport/requester.h"
#include "transport/responder.h"

enum { BATCH = 8, BYTES = 64, LOOKS = 8 };

struct intake_test {
	struct lane *lane;
	struct source busy, other;
	int to_busy, to_other;
};

static void add(struct lane *lane, struct source *source, const union ibv_gid *gid)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};

	source->gid = *gid;
	source->fd = udp_socket_bind(gid, loopback, false);
	assert_true(source->fd >= 0);
	assert_int_equal(epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, source->fd, &event), 0);
	cds_list_add_tail(&source->node, &lane->sources);
}

static int sender_to(const union ibv_gid *gid)
{
	union udp_sockaddr to;
	socklen_t length = udp_sockaddr_of(&to, gid, ROCE_PORT, loopback);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, &to.any, length), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){BYTES}, sizeof(int)), 0);
	return fd;
}

static void open_test(struct intake_test *t)
{
	memset(t, 0, sizeof(*t));
	t->lane = aligned_alloc(LANE_ALIGNMENT, sizeof(*t->lane));
	memset(t->lane, 0, sizeof(*t->lane));
	CDS_INIT_LIST_HEAD(&t->lane->sources);
	CDS_INIT_LIST_HEAD(&t->lane->dead_lines);
	t->lane->inlet.is_off = true;
	t->lane->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert_int_equal(udp_link_open(0, &t->lane->link), 0);
	add(t->lane, &t->busy, &ipv4_a);
	add(t->lane, &t->other, &ipv4_b);
	t->to_busy = sender_to(&ipv4_a);
	t->to_other = sender_to(&ipv4_b);
}

static void close_test(struct intake_test *t)
{
	close(t->to_busy);
	close(t->to_other);
	close(t->busy.fd);
	close(t->other.fd);
	close(t->lane->epoll_fd);
	udp_link_close(t->lane->link);
	free(t->lane);
}

/* None of them is sound, so nobody is to take them. */
static void send_batch(int fd)
{
	static const char packets[BATCH * BYTES];

	assert_int_equal(send(fd, packets, sizeof(packets), 0), sizeof(packets));
}

static bool has(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

static void begin_stream(struct intake_test *t)
{
	send_batch(t->to_busy);
	assert_int_equal(intake_turn(t->lane, 1, true), BATCH);
	assert_true(t->lane->is_flowing);
	assert_ptr_equal(t->lane->hot, &t->busy);
}

static void the_next_batch_is_looked_for_where_the_last_one_was(void **state)
{
	struct intake_test t;

	open_test(&t);
	begin_stream(&t);
	t.lane->looks = 1;
	send_batch(t.to_other);
	for (int i = 1; i < LOOKS; i++) {
		send_batch(t.to_busy);
		assert_int_equal(intake_turn(t.lane, 1, true), BATCH);
		assert_true(has(t.other.fd));
	}
	close_test(&t);
}

/* Of READs, of which the other side asks for a few at a time. */
static void so_is_it_for_one_packet(void **state)
{
	static const char packet[BYTES];
	struct intake_test t;

	open_test(&t);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(send(t.to_busy, packet, BYTES, 0), BYTES);
		assert_int_equal(intake_turn(t.lane, 1, true), 1);
		assert_int_equal(has(t.other.fd), i);
		if (i == 0)
			send_batch(t.to_other);
		t.lane->looks = 1;
	}
	close_test(&t);
}

static void a_stream_keeps_nobody_out(void **state)
{
	struct intake_test t;
	int looks = 0;

	open_test(&t);
	begin_stream(&t);
	send_batch(t.to_other);
	for (; has(t.other.fd); looks++) {
		send_batch(t.to_busy);
		intake_turn(t.lane, 1, true);
	}
	assert_in_range(looks, 1, LOOKS);
	close_test(&t);
}

static void where_it_has_nothing_more_all_are_looked_at(void **state)
{
	struct intake_test t;

	open_test(&t);
	begin_stream(&t);
	t.lane->looks = 1;
	send_batch(t.to_other);
	assert_int_equal(intake_turn(t.lane, 1, true), BATCH);
	assert_false(has(t.other.fd));
	assert_int_equal(intake_turn(t.lane, 1, true), 0);
	assert_false(t.lane->is_flowing);
	close_test(&t);
}

/* A program's turn, as any that has to see all that has come. */
static void who_is_not_the_thread_looks_at_all(void **state)
{
	struct intake_test t;

	open_test(&t);
	begin_stream(&t);
	t.lane->looks = 1;
	send_batch(t.to_busy);
	send_batch(t.to_other);
	assert_int_equal(intake_turn(t.lane, 1, false), 2 * BATCH);
	close_test(&t);
}

/* Polls until what is there is taken, with more for the other socket before each if there is one.
 */
static int polls_until_taken(struct intake_test *t, int fd, int more_by)
{
	unsigned int spent = 0;
	int polls = 0;

	for (; has(fd); polls++) {
		if (more_by >= 0)
			send_batch(more_by);
		intake_look(t->lane, 1, &spent);
	}
	return polls;
}

/* It has taken in one half of an exchange, and answers before it looks elsewhere. */
static void who_polls_looks_around_where_it_finds_nothing(void **state)
{
	struct intake_test t;

	open_test(&t);
	t.lane->samehost = samehost_open(udp_link_outbox(t.lane->link), true, false, 0);
	begin_stream(&t);
	for (int round = 0; round < 3; round++) {
		send_batch(t.to_other);
		assert_int_equal(polls_until_taken(&t, t.other.fd, t.to_busy), 4 * LOOKS);
		send_batch(t.to_busy); /* which is not where the last ones came from */
		assert_int_equal(polls_until_taken(&t, t.busy.fd, -1), LOOKS);
	}
	samehost_close(t.lane->samehost);
	close_test(&t);
}

/* Its QP has its turn already. */
/* The busy one is an inlet that its poller has alone. */
static void set_apart(struct intake_test *t)
{
	assert_int_equal(epoll_ctl(t->lane->epoll_fd, EPOLL_CTL_DEL, t->busy.fd, NULL), 0);
	t->lane->inlet.source = (struct source){.fd = t->busy.fd, .gid = t->busy.gid};
	t->lane->inlet.parent = &t->busy;
	t->lane->inlet.is_apart = true;
}

static void an_inlet_that_nobody_sleeps_on_is_looked_at_wherever_all_are(void **state)
{
	struct intake_test t;

	open_test(&t);
	t.lane->samehost = samehost_open(udp_link_outbox(t.lane->link), true, false, 0);
	set_apart(&t);
	send_batch(t.to_busy);
	send_batch(t.to_other);
	assert_int_equal(intake_everywhere(t.lane, 1, false), 2 * BATCH);
	send_batch(t.to_busy);
	assert_int_equal(intake_turn(t.lane, 1, true), BATCH);
	t.lane->hot = &t.other;
	t.lane->is_flowing = false;
	send_batch(t.to_busy);
	assert_in_range(polls_until_taken(&t, t.busy.fd, -1), 1, LOOKS);
	assert_ptr_equal(t.lane->hot, &t.lane->inlet.source);
	send_batch(t.to_other);
	assert_in_range(polls_until_taken(&t, t.other.fd, -1), 1, LOOKS);
	samehost_close(t.lane->samehost);
	close_test(&t);
}

static void have_deadline(struct intake_test *t, struct seat *seat, uint64_t deadline)
{
	atomic_init(&seat->is_queued, true);
	t->lane->samehost = samehost_open(udp_link_outbox(t->lane->link), true, false, 0);
	t->lane->ready_end = &t->lane->ready;
	timer_queue_init(&t->lane->timers);
	assert_int_equal(timer_queue_reserve(&t->lane->timers, 1), 0);
	timer_set(&t->lane->timers, &seat->timer, deadline);
}

static void forget_deadline(struct intake_test *t)
{
	timer_queue_fini(&t->lane->timers);
	samehost_close(t->lane->samehost);
}

/* As a verb that posts does. */
static void a_deadline_comes_after_what_has_come_in(void **state)
{
	struct intake_test t;
	struct seat seat = {0};

	open_test(&t);
	have_deadline(&t, &seat, 10);
	send_batch(t.to_busy);
	lane_run(t.lane, 9);
	assert_true(has(t.busy.fd));
	lane_run(t.lane, 10);
	assert_false(has(t.busy.fd));
	assert_int_equal(timer_first(&t.lane->timers), UINT64_MAX);
	forget_deadline(&t);
	close_test(&t);
}

/*
 * One that has moved on is nobody's. To look for packets then would be to answer them at once, by
 * an ACK alone, where it could go with the program's reply.
 */
static void what_has_moved_on_is_no_deadline(void **state)
{
	struct requester requester = {
	    .ack_deadline = 20,
	    .rnr_deadline = NO_DEADLINE,
	    .rate_deadline = NO_DEADLINE,
	    .probe.deadline = NO_DEADLINE,
	};
	struct responder responder = {0};
	struct seat seat = {0};
	struct qp qp = {.requester = &requester, .responder = &responder, .seat = &seat};
	struct intake_test t;

	seat.qp = &qp;
	open_test(&t);
	have_deadline(&t, &seat, 10);
	atomic_store(&seat.is_queued, false);
	send_batch(t.to_busy);
	lane_run(t.lane, 10);
	assert_true(has(t.busy.fd));
	assert_false(atomic_load(&seat.is_queued));
	assert_int_equal(timer_first(&t.lane->timers), 20);
	atomic_store(&seat.is_queued, true);
	lane_run(t.lane, 20);
	assert_false(has(t.busy.fd));
	forget_deadline(&t);
	close_test(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_next_batch_is_looked_for_where_the_last_one_was),
	    cmocka_unit_test(so_is_it_for_one_packet),
	    cmocka_unit_test(a_stream_keeps_nobody_out),
	    cmocka_unit_test(where_it_has_nothing_more_all_are_looked_at),
	    cmocka_unit_test(who_is_not_the_thread_looks_at_all),
	    cmocka_unit_test(who_polls_looks_around_where_it_finds_nothing),
	    cmocka_unit_test(an_inlet_that_nobody_sleeps_on_is_looked_at_wherever_all_are),
	    cmocka_unit_test(a_deadline_comes_after_what_has_come_in),
	    cmocka_unit_test(what_has_moved_on_is_no_deadline),
	};

	if (!loopback_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
