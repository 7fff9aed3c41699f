/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who waits for an event may look for it itself before it sleeps (engine/lookout.h). That shows in
 * nothing but time: each event is taken once, however the waiting went, whoever else waits, and
 * however the program waits next. The tests say so of a channel that looks whenever it can.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>

/* before live.h, whose `gid` its inline functions do not know */
#include "verbs/face.h"

#include "live.h"

enum { ROUNDS = 400, WAIT_MS = 20000 };

static struct ibv_comp_channel *channel;
static struct end a, b;

static void connect_patiently(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr rts = rts_attr();

	rts.timeout = 18; /* a busy machine is none that loses */
	rts.retry_cnt = 7;
	qp_init(qp, live_access);
	qp_connect_as(qp, peer->qp_num, rts);
}

/* b's CQ has a channel. */
static int setup(void **state)
{
	struct ibv_qp_init_attr attr;

	channel = ibv_create_comp_channel(context);
	end_create(&a, IBV_QPT_RC);
	end_make_buffer(&b);
	b.cq = ibv_create_cq(context, CQE, &b, channel, 0);
	attr = end_qp_attr(b.cq, IBV_QPT_RC);
	b.qp = ibv_create_qp(pd, &attr);
	if (!channel || !b.qp)
		return -1;
	connect_patiently(a.qp, b.qp);
	connect_patiently(b.qp, a.qp);
	return 0;
}

static int teardown(void **state)
{
	pair_destroy(&a, &b);
	return ibv_destroy_comp_channel(channel);
}

/* Events came quickly to this thread so far, as far as the channel knows. */
static void look_from_now_on(void)
{
	struct channel *inner = (struct channel *)channel;

	pthread_mutex_lock(&inner->lock);
	inner->waiter = pthread_self();
	inner->lookout = (struct lookout){0};
	while (!lookout_may(&inner->lookout))
		lookout_slept(&inner->lookout, 0);
	pthread_mutex_unlock(&inner->lock);
}

static bool is_readable(int timeout_ms)
{
	struct pollfd pollfd = {.fd = channel->fd, .events = POLLIN};

	return poll(&pollfd, 1, timeout_ms) == 1;
}

static void take_event(void)
{
	struct ibv_cq *cq;
	void *cq_context;

	assert_int_equal(ibv_get_cq_event(channel, &cq, &cq_context), 0);
	ibv_ack_cq_events(cq, 1);
}

struct sender {
	pthread_t thread;
	useconds_t delay; /* before each message */
	int count;
};

static void *send_later(void *data)
{
	struct sender *sender = data;
	struct ibv_sge sge = end_sge(&a, 0, 8);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &sge);

	for (int i = 0; i < sender->count; i++) {
		usleep(sender->delay);
		post_send_wr(&a, &wr);
		assert_wc(next_wc_within(a.cq, 20), 0x5e4d, IBV_WC_SUCCESS);
	}
	return NULL;
}

static void start(struct sender *sender)
{
	assert_int_equal(pthread_create(&sender->thread, NULL, send_later, sender), 0);
}

/* Soon enough, and too late. */
static void each_event_is_taken_once(void **state)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct sender sender = {.delay = (useconds_t)(i % 10) * 10, .count = 1};

		assert_int_equal(post_recv(&b, (uint64_t)i, 8), 0);
		look_from_now_on();
		assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
		start(&sender);
		take_event();
		assert_wc(next_wc(b.cq), (uint64_t)i, IBV_WC_SUCCESS);
		assert_false(is_readable(0));
		pthread_join(sender.thread, NULL);
	}
}

/* After it was a poller, whom the lane's thread leaves the sockets to, and said nothing when it
 * armed the CQ. */
static void who_waits_at_the_descriptor_next_is_woken(void **state)
{
	struct ibv_wc wc;

	for (int i = 0; i < 20; i++) {
		struct sender sender = {.delay = 2000, .count = 1};
		double end = seconds() + 0.001;

		assert_int_equal(post_recv(&b, (uint64_t)i, 8), 0);
		while (seconds() < end)
			assert_int_equal(ibv_poll_cq(b.cq, 1, &wc), 0);
		look_from_now_on();
		assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
		start(&sender);
		assert_true(is_readable(WAIT_MS));
		take_event();
		assert_false(is_readable(0));
		assert_wc(next_wc(b.cq), (uint64_t)i, IBV_WC_SUCCESS);
		pthread_join(sender.thread, NULL);
	}
}

/* The descriptor is not raised while somebody looks, but when he leaves it is right. */
static void an_event_that_is_left_makes_the_descriptor_readable(void **state)
{
	struct ibv_cq *second = ibv_create_cq(context, CQE, NULL, channel, 0);

	for (int i = 0; i < ROUNDS / 4; i++) {
		struct sender sender = {.delay = (useconds_t)(i % 4) * 10, .count = 1};
		struct ibv_qp_init_attr init = end_qp_attr(second, IBV_QPT_UC);
		struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
		struct ibv_qp *qp = ibv_create_qp(pd, &init);
		struct ibv_wc wc;

		assert_int_equal(post_recv(&b, (uint64_t)i, 8), 0);
		qp_init(qp, 0);
		assert_int_equal(post_recv_sge(qp, 5, end_sge(&b, 0, 8)), 0);
		look_from_now_on();
		assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
		assert_int_equal(ibv_req_notify_cq(second, 0), 0);
		start(&sender);
		take_event();
		assert_wc(next_wc(b.cq), (uint64_t)i, IBV_WC_SUCCESS);
		assert_int_equal(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
		assert_true(is_readable(WAIT_MS));
		take_event();
		assert_false(is_readable(0));
		assert_int_equal(ibv_poll_cq(second, 1, &wc), 1);
		pthread_join(sender.thread, NULL);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
	assert_int_equal(ibv_destroy_cq(second), 0);
}

static void *take_one(void *data)
{
	take_event();
	return NULL;
}

/* One of them looks, at most. */
static void two_that_wait_get_an_event_each(void **state)
{
	struct ibv_wc wc;

	for (int i = 0; i < ROUNDS / 4; i++) {
		struct sender sender = {.delay = (useconds_t)(i % 10) * 10, .count = 1};
		pthread_t other;

		assert_int_equal(post_recv(&b, 1, 8), 0);
		assert_int_equal(post_recv(&b, 2, 8), 0);
		assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
		assert_int_equal(pthread_create(&other, NULL, take_one, NULL), 0);
		look_from_now_on();
		start(&sender);
		/* one of the two has it; for the other there is another one */
		while (ibv_poll_cq(b.cq, 1, &wc) == 0)
			;
		assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
		pthread_join(sender.thread, NULL);
		start(&sender);
		take_event();
		pthread_join(other, NULL);
		pthread_join(sender.thread, NULL);
		assert_wc(next_wc(b.cq), 2, IBV_WC_SUCCESS);
		assert_false(is_readable(0));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(each_event_is_taken_once, setup, teardown),
	    cmocka_unit_test_setup_teardown(who_waits_at_the_descriptor_next_is_woken, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(an_event_that_is_left_makes_the_descriptor_readable,
					    setup, teardown),
	    cmocka_unit_test_setup_teardown(two_that_wait_get_an_event_each, setup, teardown),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
