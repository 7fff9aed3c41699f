/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels and asynchronous events: descriptors that poll, epoll and O_NONBLOCK work on,
 * acknowledgements that destruction waits for, solicited events, and what goes with an object.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>

#include "live.h"

static struct ibv_comp_channel *channel;
static struct end a, b;

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
	qp_init(a.qp, live_access);
	qp_init(b.qp, live_access);
	qp_connect(a.qp, b.qp->qp_num);
	qp_connect(b.qp, a.qp->qp_num);
	return 0;
}

static int teardown(void **state)
{
	pair_destroy(&a, &b);
	return ibv_destroy_comp_channel(channel);
}

#define EVENT_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLIN};

	return poll(&pollfd, 1, timeout_ms) == 1;
}

static void send_to_b(int flags)
{
	struct ibv_sge sge = end_sge(&a, 0, 8);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &sge);

	assert_int_equal(post_recv(&b, 1, 8), 0);
	wr.send_flags |= (unsigned int)flags;
	post_send_wr(&a, &wr);
	assert_wc(next_wc(a.cq), 0x5e4d, IBV_WC_SUCCESS);
}

static void take_event(void)
{
	struct ibv_cq *cq;
	void *cq_context;

	assert_int_equal(ibv_get_cq_event(channel, &cq, &cq_context), 0);
	assert_ptr_equal(cq, b.cq);
	assert_ptr_equal(cq_context, &b);
}

/* ---- completion channels ---- */

static void an_event_makes_the_descriptor_readable_until_it_is_taken(void **state)
{
	assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
	assert_false(is_readable(channel->fd, 0));
	send_to_b(0);
	assert_true(is_readable(channel->fd, PATIENCE_S * 1000));
	take_event();
	assert_false(is_readable(channel->fd, 0));
	ibv_ack_cq_events(b.cq, 1);
}

static void without_arming_there_is_no_event(void **state)
{
	send_to_b(0);
	assert_wc(next_wc(b.cq), 1, IBV_WC_SUCCESS);
	assert_false(is_readable(channel->fd, 20));
	ibv_req_notify_cq(b.cq, 0);
	assert_false(is_readable(channel->fd, 20));
}

static void one_arming_is_one_event(void **state)
{
	ibv_req_notify_cq(b.cq, 0);
	send_to_b(0);
	send_to_b(0);
	take_event();
	assert_false(is_readable(channel->fd, 20));
	ibv_ack_cq_events(b.cq, 1);
}

static void armed_for_solicited_ones_only_these_wake(void **state)
{
	ibv_req_notify_cq(b.cq, 1);
	send_to_b(0);
	assert_false(is_readable(channel->fd, 20));
	send_to_b(IBV_SEND_SOLICITED);
	assert_true(is_readable(channel->fd, PATIENCE_S * 1000));
	take_event();
	ibv_ack_cq_events(b.cq, 1);
}

static void a_nonblocking_channel_says_eagain(void **state)
{
	struct ibv_cq *cq;
	void *cq_context;

	assert_int_equal(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
	errno = 0;
	assert_int_equal(ibv_get_cq_event(channel, &cq, &cq_context), -1);
	assert_int_equal(errno, EAGAIN);
	ibv_req_notify_cq(b.cq, 0);
	send_to_b(0);
	assert_true(is_readable(channel->fd, PATIENCE_S * 1000));
	take_event();
	assert_int_equal(ibv_get_cq_event(channel, &cq, &cq_context), -1);
	assert_int_equal(errno, EAGAIN);
	ibv_ack_cq_events(b.cq, 1);
}

static void edge_triggered_epoll_sees_each_event(void **state)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	int epoll_fd = epoll_create1(0);

	assert_int_equal(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, channel->fd, &event), 0);
	for (int i = 0; i < 3; i++) {
		ibv_req_notify_cq(b.cq, 0);
		send_to_b(0);
		assert_int_equal(epoll_wait(epoll_fd, &event, 1, PATIENCE_S * 1000), 1);
	}
	for (int i = 0; i < 3; i++)
		take_event();
	ibv_ack_cq_events(b.cq, 3);
	close(epoll_fd);
}

static void *wait_for_event(void *data)
{
	struct ibv_cq *cq;
	void *cq_context;

	return (void *)(intptr_t)ibv_get_cq_event(channel, &cq, &cq_context);
}

static void who_sleeps_is_woken(void **state)
{
	pthread_t thread;
	void *result;

	ibv_req_notify_cq(b.cq, 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_event, NULL), 0);
	usleep(20000);
	send_to_b(0);
	pthread_join(thread, &result);
	assert_null(result);
	ibv_ack_cq_events(b.cq, 1);
}

static void one_channel_serves_several_cqs(void **state)
{
	struct ibv_cq *second = ibv_create_cq(context, CQE, NULL, channel, 0), *cq;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init = end_qp_attr(second, IBV_QPT_UC);
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	bool has_b = false, has_second = false;
	void *cq_context;

	qp_init(qp, 0);
	assert_int_equal(post_recv_sge(qp, 5, end_sge(&b, 0, 8)), 0);
	ibv_req_notify_cq(second, 1);
	ibv_req_notify_cq(b.cq, 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	send_to_b(0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_get_cq_event(channel, &cq, &cq_context), 0);
		has_b |= cq == b.cq;
		has_second |= cq == second;
		ibv_ack_cq_events(cq, 1);
	}
	assert_true(has_b && has_second);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(second), 0);
}

/* As programs have it: wait, acknowledge, arm again, poll; ended by pthread_cancel() wherever it
 * is. */
static void *serve(void *data)
{
	for (;;) {
		struct ibv_cq *cq;
		void *cq_context;
		struct ibv_wc wc;

		if (ibv_get_cq_event(channel, &cq, &cq_context))
			return NULL;
		ibv_ack_cq_events(cq, 1);
		if (ibv_req_notify_cq(cq, 0))
			return NULL;
		while (ibv_poll_cq(cq, 1, &wc) > 0)
			post_recv(&b, 1, 8);
	}
}

static void a_cancelled_thread_leaves_nothing_locked(void **state)
{
	struct ibv_wc wc[CQE];

	for (int i = 0; i < 8; i++)
		assert_int_equal(post_recv(&b, 1, 8), 0);
	for (int round = 0; round < 100; round++) {
		struct ibv_sge sge = end_sge(&a, 0, 8);
		struct ibv_send_wr wr = make_send(IBV_WR_SEND, &sge);
		pthread_t thread;
		void *result;

		ibv_req_notify_cq(b.cq, 0);
		assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
		for (int i = 0; i < 3; i++)
			post_send_wr(&a, &wr);
		usleep((useconds_t)(round % 10) * 30);
		assert_int_equal(pthread_cancel(thread), 0);
		pthread_join(thread, &result);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		for (int i = 0; i < 3; i++)
			assert_wc(next_wc(a.cq), 0x5e4d, IBV_WC_SUCCESS);
		/* what it left half done */
		while (is_readable(channel->fd, 0)) {
			take_event();
			ibv_ack_cq_events(b.cq, 1);
		}
		for (int n = ibv_poll_cq(b.cq, CQE, wc); n > 0; n--)
			assert_int_equal(post_recv(&b, 1, 8), 0);
	}
	/* between an event's arrival and its acknowledgement there is no cancellation point */
}

/* ---- acknowledgements ---- */

struct late {
	void (*acknowledge)(void);
	double at;
};

static void *acknowledge_later(void *data)
{
	struct late *late = data;

	usleep(50000);
	late->at = seconds();
	late->acknowledge();
	return NULL;
}

/* `destroy` returns after the acknowledgement that another thread gives 50 ms from now. */
static void waits_for(void (*acknowledge)(void), int (*destroy)(void))
{
	struct late late = {.acknowledge = acknowledge};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, acknowledge_later, &late), 0);
	assert_int_equal(destroy(), 0);
	assert_true(late.at > 0 && seconds() >= late.at);
	pthread_join(thread, NULL);
}

static struct ibv_cq *doomed_cq;
static struct ibv_qp *doomed_qp;
static struct ibv_async_event taken;

static void acknowledge_cq(void)
{
	ibv_ack_cq_events(doomed_cq, 1);
}

static int destroy_cq(void)
{
	return ibv_destroy_cq(doomed_cq);
}

static void acknowledge_async(void)
{
	ibv_ack_async_event(&taken);
}

static int destroy_qp(void)
{
	return ibv_destroy_qp(doomed_qp);
}

static void destroying_a_cq_waits_for_its_acknowledgements(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp;
	void *cq_context;
	struct ibv_cq *cq;

	doomed_cq = ibv_create_cq(context, CQE, NULL, channel, 0);
	init = end_qp_attr(doomed_cq, IBV_QPT_UC);
	qp = ibv_create_qp(pd, &init);
	qp_init(qp, 0);
	assert_int_equal(post_recv_sge(qp, 5, end_sge(&b, 0, 8)), 0);
	ibv_req_notify_cq(doomed_cq, 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(ibv_get_cq_event(channel, &cq, &cq_context), 0);
	assert_ptr_equal(cq, doomed_cq);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	waits_for(acknowledge_cq, destroy_cq);
}

static void an_event_that_nobody_took_goes_with_its_cq(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, CQE, NULL, channel, 0);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init = end_qp_attr(cq, IBV_QPT_UC);
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	qp_init(qp, 0);
	assert_int_equal(post_recv_sge(qp, 5, end_sge(&b, 0, 8)), 0);
	ibv_req_notify_cq(cq, 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	assert_true(is_readable(channel->fd, PATIENCE_S * 1000));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_false(is_readable(channel->fd, 0));
}

/* ---- asynchronous events ---- */

/* A QP on its way to RTR hears from its peer: IBV_EVENT_COMM_EST. Here: b refuses what a may not.
 */
static void provoke_access_error(void)
{
	struct ibv_sge sge = end_sge(&a, 0, 8);
	struct ibv_send_wr wr = make_send(IBV_WR_RDMA_WRITE, &sge);

	wr.wr.rdma.remote_addr = (uintptr_t)b.buffer;
	wr.wr.rdma.rkey = b.mr->rkey ^ 0x10;
	post_send_wr(&a, &wr);
	assert_wc(next_wc(a.cq), 0x5e4d, IBV_WC_REM_ACCESS_ERR);
}

static void an_async_event_names_its_qp(void **state)
{
	struct ibv_async_event event;

	assert_false(is_readable(context->async_fd, 0));
	provoke_access_error();
	assert_true(is_readable(context->async_fd, PATIENCE_S * 1000));
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
	assert_ptr_equal(event.element.qp, b.qp);
	assert_false(is_readable(context->async_fd, 0));
	ibv_ack_async_event(&event);
}

static void a_nonblocking_async_descriptor_says_eagain(void **state)
{
	struct ibv_async_event event;
	int flags = fcntl(context->async_fd, F_GETFL);

	fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK);
	errno = 0;
	assert_int_equal(ibv_get_async_event(context, &event), -1);
	assert_int_equal(errno, EAGAIN);
	fcntl(context->async_fd, F_SETFL, flags);
}

static void destroying_a_qp_waits_for_its_acknowledgement(void **state)
{
	struct ibv_qp_init_attr attr = end_qp_attr(b.cq, IBV_QPT_RC);

	provoke_access_error();
	assert_int_equal(ibv_get_async_event(context, &taken), 0);
	doomed_qp = b.qp;
	waits_for(acknowledge_async, destroy_qp);
	b.qp = ibv_create_qp(pd, &attr); /* for the teardown */
	assert_non_null(b.qp);
}

static void an_async_event_that_nobody_took_goes_with_its_qp(void **state)
{
	struct ibv_qp_init_attr attr = end_qp_attr(b.cq, IBV_QPT_RC);

	provoke_access_error();
	assert_true(is_readable(context->async_fd, PATIENCE_S * 1000));
	assert_int_equal(ibv_destroy_qp(b.qp), 0);
	assert_false(is_readable(context->async_fd, 0));
	b.qp = ibv_create_qp(pd, &attr);
	assert_non_null(b.qp);
}

static void port_event(enum ibv_event_type type)
{
	struct ibv_async_event event;

	assert_true(is_readable(context->async_fd, PATIENCE_S * 1000));
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, type);
	assert_int_equal(event.element.port_num, 1);
	ibv_ack_async_event(&event);
}

static bool has_gid(const union ibv_gid *wanted)
{
	union ibv_gid some;

	for (int i = 0; i < 16; i++)
		if (!ibv_query_gid(context, 1, i, &some) && !memcmp(&some, wanted, sizeof(some)))
			return true;
	return false;
}

static void changes_of_the_interface_are_told(void **state)
{
	static const union ibv_gid added = {.raw = {[10] = 0xff, 0xff, 10, 9, 8, 7}};
	struct ibv_port_attr attr;

	if (!is_own_network)
		skip(); /* the machine's loopback is not ours to change */
	assert_int_equal(system("ip address add 10.9.8.7/32 dev lo"), 0);
	port_event(IBV_EVENT_GID_CHANGE);
	assert_true(has_gid(&added));
	assert_int_equal(system("ip address del 10.9.8.7/32 dev lo"), 0);
	port_event(IBV_EVENT_GID_CHANGE);
	assert_false(has_gid(&added));
	assert_int_equal(system("ip link set lo down"), 0);
	port_event(IBV_EVENT_PORT_ERR);
	assert_int_equal(ibv_query_port(context, 1, &attr), 0);
	assert_int_equal(attr.state, IBV_PORT_DOWN);
	assert_int_equal(system("ip link set lo up"), 0);
	while (attr.state != IBV_PORT_ACTIVE) {
		struct ibv_async_event event;

		assert_true(is_readable(context->async_fd, PATIENCE_S * 1000));
		assert_int_equal(ibv_get_async_event(context, &event), 0);
		ibv_ack_async_event(&event);
		assert_int_equal(ibv_query_port(context, 1, &attr), 0);
	}
	while (is_readable(context->async_fd, 200)) {
		struct ibv_async_event event;

		assert_int_equal(ibv_get_async_event(context, &event), 0);
		ibv_ack_async_event(&event);
	}
	assert_true(find_ipv4());
}

static void an_overrun_is_told(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init = end_qp_attr(cq, IBV_QPT_UC);
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_async_event event;
	bool has_cq_error = false;
	struct ibv_wc wc[4];

	qp_init(qp, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(post_recv_sge(qp, 5, end_sge(&b, 0, 8)), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	while (is_readable(context->async_fd, 50)) {
		assert_int_equal(ibv_get_async_event(context, &event), 0);
		if (event.event_type == IBV_EVENT_CQ_ERR) {
			assert_ptr_equal(event.element.cq, cq);
			has_cq_error = true;
		}
		ibv_ack_async_event(&event);
	}
	assert_true(has_cq_error);
	assert_int_equal(ibv_poll_cq(cq, 4, wc), 1);
	assert_int_equal(ibv_poll_cq(cq, 4, wc), -EOVERFLOW);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void srq_limit_events_come_once(void **state)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);
	struct ibv_qp_init_attr init = end_qp_attr(b.cq, IBV_QPT_RC);
	struct ibv_sge sge = end_sge(&b, 0, 8);
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_srq_attr limit = {.srq_limit = 2};
	struct ibv_async_event event;
	struct ibv_qp *x, *y;

	init.srq = srq;
	x = ibv_create_qp(pd, &init);
	y = ibv_create_qp(pd, &init);
	qp_init(x, live_access);
	qp_init(y, live_access);
	qp_connect(x, y->qp_num);
	qp_connect(y, x->qp_num);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_send_wr send = make_send(IBV_WR_SEND, &sge), *bad_send;

		assert_false(is_readable(context->async_fd, 10));
		assert_int_equal(ibv_post_send(x, &send, &bad_send), 0);
		assert_int_equal(next_wc(b.cq).status, IBV_WC_SUCCESS);
		assert_int_equal(next_wc(b.cq).status, IBV_WC_SUCCESS);
	}
	assert_true(is_readable(context->async_fd, PATIENCE_S * 1000));
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(event.element.srq, srq);
	ibv_ack_async_event(&event);
	assert_int_equal(ibv_destroy_qp(x), 0);
	assert_int_equal(ibv_destroy_qp(y), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    EVENT_TEST(an_event_makes_the_descriptor_readable_until_it_is_taken),
	    EVENT_TEST(without_arming_there_is_no_event),
	    EVENT_TEST(one_arming_is_one_event),
	    EVENT_TEST(armed_for_solicited_ones_only_these_wake),
	    EVENT_TEST(a_nonblocking_channel_says_eagain),
	    EVENT_TEST(edge_triggered_epoll_sees_each_event),
	    EVENT_TEST(who_sleeps_is_woken),
	    EVENT_TEST(one_channel_serves_several_cqs),
	    EVENT_TEST(a_cancelled_thread_leaves_nothing_locked),
	    EVENT_TEST(destroying_a_cq_waits_for_its_acknowledgements),
	    EVENT_TEST(an_event_that_nobody_took_goes_with_its_cq),
	    EVENT_TEST(an_async_event_names_its_qp),
	    EVENT_TEST(a_nonblocking_async_descriptor_says_eagain),
	    EVENT_TEST(destroying_a_qp_waits_for_its_acknowledgement),
	    EVENT_TEST(an_async_event_that_nobody_took_goes_with_its_qp),
	    EVENT_TEST(an_overrun_is_told),
	    EVENT_TEST(srq_limit_events_come_once),
	    cmocka_unit_test(changes_of_the_interface_are_told),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
