/* SPDX-License-Identifier: BSD-2-Clause */
/* QP states as the transport lives them: what is taken, sent, kept, flushed and told in each. */
#include "transport_case.h"

static void the_error_state_flushes_both_queues_in_order(void **state)
{
	struct pair *pair = *state;

	for (int i = 0; i < 3; i++) {
		side_post_recv(&pair->a, 10 + i, 0, 8);
		side_request(&pair->a, IBV_WR_RDMA_WRITE, i, 0, 8);
	}
	assert_int_equal(side_modify(&pair->a, IBV_QPS_ERR), 0);
	for (int i = 0; i < 3; i++)
		side_expect(&pair->a, i, IBV_WC_WR_FLUSH_ERR);
	for (int i = 0; i < 3; i++)
		side_expect(&pair->a, 10 + i, IBV_WC_WR_FLUSH_ERR);
	side_expect_none(&pair->a);
	pair_expect_trace(pair, "");
}

static void what_is_posted_in_the_error_state_is_flushed(void **state)
{
	struct pair *pair = *state;

	side_modify(&pair->a, IBV_QPS_ERR);
	side_post_recv(&pair->a, 7, 0, 8);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 8);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_WR_FLUSH_ERR);
	side_expect(&pair->a, 7, IBV_WC_WR_FLUSH_ERR);
	side_expect_none(&pair->a);
}

static void flushed_requests_complete_even_if_unsignaled(void **state)
{
	struct pair *pair;

	options.sq_sig_all = false;
	pair = pair_connected(&options);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 8);
	side_modify(&pair->a, IBV_QPS_ERR);
	side_expect(&pair->a, 1, IBV_WC_WR_FLUSH_ERR);
	pair_free(pair);
}

static void a_qp_on_an_srq_leaves_its_receives_and_tells_the_last(void **state)
{
	struct pair *pair;

	options.has_srq = true;
	pair = pair_connected(&options);
	for (int i = 0; i < 3; i++)
		side_post_recv(&pair->b, i, 0, 4000);
	/* the first is taken by half a message */
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 4000);
	side_turn(&pair->a);
	pair->count = 2;
	pair_deliver(pair);
	side_modify(&pair->b, IBV_QPS_ERR);
	side_expect(&pair->b, 0, IBV_WC_WR_FLUSH_ERR);
	side_expect_none(&pair->b);
	assert_true(side_had_event(&pair->b, IBV_EVENT_QP_LAST_WQE_REACHED));
	assert_int_equal(pair->b.srq->queue.tail - pair->b.srq->queue.head, 2);
	pair_free(pair);
}

static void sqd_finishes_what_is_begun_and_tells(void **state)
{
	struct pair *pair = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_qp_init_attr init;

	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 3000);
	pair->room = 2;
	side_turn(&pair->a);
	pair->room = UINT32_MAX;
	assert_int_equal(transport_modify_qp(pair->a.qp, &attr,
					     IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY, pair->now),
			 0);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 0, 8);
	transport_query_qp(pair->a.qp, &attr, &init);
	assert_int_equal(attr.sq_draining, 1);
	assert_false(side_had_event(&pair->a, IBV_EVENT_SQ_DRAINED));
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
	assert_true(side_had_event(&pair->a, IBV_EVENT_SQ_DRAINED));
	transport_query_qp(pair->a.qp, &attr, &init);
	assert_int_equal(attr.sq_draining, 0);
	assert_int_equal(side_modify(&pair->a, IBV_QPS_RTS), 0);
	pair_run(pair);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
}

static void a_deeper_read_queue_keeps_what_is_in_it(void **state)
{
	struct pair *pair = *state;
	struct ibv_qp_attr attr = {.max_dest_rd_atomic = 64};

	fill(pair->b.memory, 8000, 1);
	*(uint64_t *)(void *)pair->b.memory = 5;
	side_atomic(&pair->a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 0, 1, 0);
	side_request(&pair->a, IBV_WR_RDMA_READ, 2, 1000, 7000);
	side_turn(&pair->a);
	pair_deliver(pair);
	side_modify(&pair->b, IBV_QPS_SQD);
	assert_int_equal(
	    transport_modify_qp(pair->b.qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC, pair->now), 0);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	assert_memory_equal(pair->a.memory + 1000, pair->b.memory + 1000, 7000);
}

static void sqd_still_receives(void **state)
{
	struct pair *pair = *state;

	side_modify(&pair->b, IBV_QPS_SQD);
	side_post_recv(&pair->b, 7, 0, 100);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 10);
	pair_run(pair);
	side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

static void the_first_packet_in_rtr_is_told(void **state)
{
	struct pair *pair = pair_new(&options);

	side_to_init(&pair->a, &options);
	side_to_init(&pair->b, &options);
	side_post_recv(&pair->b, 7, 0, 100);
	side_to_rtr(&pair->a, &pair->b, &options);
	side_to_rtr(&pair->b, &pair->a, &options);
	side_to_rts(&pair->a, &options);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 10);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	assert_int_equal(pair->b.event_count, 1);
	assert_int_equal(pair->b.events[0], IBV_EVENT_COMM_EST);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 0, 10);
	pair_run(pair);
	assert_int_equal(pair->b.event_count, 1);
	pair_free(pair);
}

static void packets_before_rtr_are_lost_and_sent_again(void **state)
{
	struct pair *pair = pair_new(&options);

	side_to_init(&pair->a, &options);
	side_to_init(&pair->b, &options);
	side_to_rtr(&pair->a, &pair->b, &options);
	side_to_rts(&pair->a, &options);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 10);
	pair_run(pair);
	assert_int_equal(transport_counters(pair->b.qp)->dropped, 1);
	side_to_rtr(&pair->b, &pair->a, &options);
	pair_wait(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	pair_free(pair);
}

/* Its number is known to whoever guesses it, as soon as it is in the table. */
static void a_packet_for_a_qp_in_the_making_is_dropped(void **state)
{
	struct pair *pair = pair_new(&options);
	struct ibv_qp_init_attr_ex init = {
	    .send_cq = &pair->b.cq->ibv,
	    .recv_cq = &pair->b.cq->ibv,
	    .qp_type = IBV_QPT_RC,
	};
	struct qp *made = pair->b.qp;

	assert_int_equal(qp_create(pair->b.pd, &init, &pair->b.qp), 0);
	side_to_init(&pair->a, &options);
	side_to_rtr(&pair->a, &pair->b, &options);
	side_to_rts(&pair->a, &options);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 10);
	pair_run(pair);
	assert_int_equal(atomic_load(&pair->b.adapter.no_qp), 1);
	qp_unlist(pair->b.qp);
	qp_free(pair->b.qp);
	pair->b.qp = made;
	pair_free(pair);
}

static void reset_forgets_all_and_the_qp_lives_again(void **state)
{
	struct pair *pair = *state;

	for (int life = 0; life < 3; life++) {
		side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 5000);
		side_request(&pair->a, IBV_WR_RDMA_READ, 2, 0, 5000);
		side_post_recv(&pair->b, 7, 0, 100);
		side_turn(&pair->a);
		pair_deliver(pair);
		assert_int_equal(side_modify(&pair->a, IBV_QPS_RESET), 0);
		assert_int_equal(side_modify(&pair->b, IBV_QPS_RESET), 0);
		pair_run(pair);
		side_expect_none(&pair->a);
		side_expect_none(&pair->b);
		assert_int_equal(transport_deadline(pair->a.qp), NO_DEADLINE);
		pair_connect(pair, &options);
		side_post_recv(&pair->b, 8, 0, 100);
		side_request(&pair->a, IBV_WR_SEND, 3, 0, 100);
		pair_run(pair);
		side_expect(&pair->a, 3, IBV_WC_SUCCESS);
		side_expect(&pair->b, 8, IBV_WC_SUCCESS);
		side_modify(&pair->a, IBV_QPS_RESET);
		side_modify(&pair->b, IBV_QPS_RESET);
		pair_connect(pair, &options);
	}
}

static void a_query_tells_the_psns(void **state)
{
	struct pair *pair = *state;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 5000);
	pair_run(pair);
	transport_query_qp(pair->a.qp, &attr, &init);
	assert_int_equal(attr.sq_psn, 105);
	assert_int_equal(attr.rq_psn, 200);
	transport_query_qp(pair->b.qp, &attr, &init);
	assert_int_equal(attr.rq_psn, 105);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(the_error_state_flushes_both_queues_in_order),
	    TEST(what_is_posted_in_the_error_state_is_flushed),
	    TEST(flushed_requests_complete_even_if_unsignaled),
	    TEST(a_qp_on_an_srq_leaves_its_receives_and_tells_the_last),
	    TEST(sqd_finishes_what_is_begun_and_tells),
	    TEST(a_deeper_read_queue_keeps_what_is_in_it),
	    TEST(sqd_still_receives),
	    TEST(the_first_packet_in_rtr_is_told),
	    TEST(packets_before_rtr_are_lost_and_sent_again),
	    TEST(a_packet_for_a_qp_in_the_making_is_dropped),
	    TEST(reset_forgets_all_and_the_qp_lives_again),
	    TEST(a_query_tells_the_psns),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
