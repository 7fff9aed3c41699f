/* SPDX-License-Identifier: BSD-2-Clause */
/* Work requests that make no packet: they are done in their turn and complete in their turn, once,
 * whatever happens to the packets around them. */
#include "transport_pair.h"
#include "device/mw.h"

enum { WINDOW_AT = 4096, WINDOW = 4096 };

static struct pair_options options;
static struct mw *mw; /* of type 2, of side B's */

static struct pair *start(void)
{
	struct pair *pair = pair_connected(&options);

	assert_int_equal(mw_create(pair->b.pd, IBV_MW_TYPE_2, &mw), 0);
	return pair;
}

static int set_up(void **state)
{
	options = default_options;
	options.access |= IBV_ACCESS_MW_BIND;
	*state = start();
	return 0;
}

static int tear_down(void **state)
{
	mw_destroy(mw);
	pair_free(*state);
	return 0;
}

static void bind(struct pair *pair, uint64_t wr_id)
{
	struct ibv_send_wr wr = {
	    .wr_id = wr_id,
	    .opcode = IBV_WR_BIND_MW,
	    .bind_mw = {.mw = &mw->ibv,
			.rkey = ibv_inc_rkey(mw->ibv.rkey),
			.bind_info = {.mr = &pair->b.mr->ibv,
				      .addr = (uintptr_t)pair->b.memory + WINDOW_AT,
				      .length = WINDOW,
				      .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}},
	};

	side_post(&pair->b, &wr);
}

static void invalidate(struct pair *pair, uint64_t wr_id, unsigned int flags)
{
	struct ibv_send_wr wr = {.wr_id = wr_id, .opcode = IBV_WR_LOCAL_INV, .send_flags = flags};

	wr.invalidate_rkey = ibv_inc_rkey(mw->ibv.rkey);
	side_post(&pair->b, &wr);
}

/* A writes into B's window. */
static void write_window(struct pair *pair, uint64_t wr_id, uint32_t length)
{
	struct ibv_sge sge = side_sge(&pair->a, WINDOW_AT, length);
	struct ibv_send_wr wr = {
	    .wr_id = wr_id,
	    .opcode = IBV_WR_RDMA_WRITE,
	    .sg_list = &sge,
	    .num_sge = 1,
	    .wr.rdma = {.remote_addr = (uintptr_t)pair->b.memory + WINDOW_AT,
			.rkey = ibv_inc_rkey(mw->ibv.rkey)},
	};

	side_post(&pair->a, &wr);
}

static int lose_next;

static int lose_some(struct pair *pair, struct side *from, struct flying *packet)
{
	return lose_next && lose_next-- ? 0 : 1;
}

static void a_binding_lets_the_peer_in_until_it_is_invalidated(void **state)
{
	struct pair *pair = *state;

	fill(pair->a.memory, PAIR_MEMORY, 1);
	bind(pair, 1);
	pair_run(pair);
	pair_expect_trace(pair, "");
	assert_int_equal(side_expect(&pair->b, 1, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
	write_window(pair, 2, WINDOW);
	pair_run(pair);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	assert_memory_equal(pair->b.memory + WINDOW_AT, pair->a.memory + WINDOW_AT, WINDOW);
	invalidate(pair, 3, 0);
	pair_run(pair);
	assert_int_equal(side_expect(&pair->b, 3, IBV_WC_SUCCESS).opcode, IBV_WC_LOCAL_INV);
	write_window(pair, 4, 1);
	pair_run(pair);
	side_expect(&pair->a, 4, IBV_WC_REM_ACCESS_ERR);
}

static void a_peer_invalidates_by_a_send(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->a, 0, 3000);
	struct ibv_send_wr wr = {
	    .wr_id = 2, .opcode = IBV_WR_SEND_WITH_INV, .sg_list = &sge, .num_sge = 1};
	struct ibv_wc wc;

	bind(pair, 1);
	side_post_recv(&pair->b, 9, 0, 3000);
	pair_run(pair);
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
	wr.invalidate_rkey = mw->rkey;
	side_post(&pair->a, &wr);
	pair_run(pair);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	wc = side_expect(&pair->b, 9, IBV_WC_SUCCESS);
	assert_true(wc.wc_flags & IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, mw->rkey);
	assert_int_equal(pair->b.mr->windows, 0);
	write_window(pair, 3, 1);
	pair_run(pair);
	side_expect(&pair->a, 3, IBV_WC_REM_ACCESS_ERR);
}

static void it_completes_behind_what_was_posted_before(void **state)
{
	struct pair *pair = *state;

	pair->meddle = lose_some;
	lose_next = 1;
	side_request(&pair->b, IBV_WR_RDMA_WRITE, 1, 0, 8);
	bind(pair, 2);
	invalidate(pair, 3, 0);
	bind(pair, 4);
	side_request(&pair->b, IBV_WR_RDMA_WRITE, 5, 0, 8);
	pair_run(pair); /* the first packet is lost, so none of them completes yet */
	assert_int_equal(pair->b.mr->windows, 1);
	pair_run_out(pair);
	for (uint64_t id = 1; id <= 5; id++)
		side_expect(&pair->b, id, IBV_WC_SUCCESS);
	side_expect_none(&pair->b);
}

/* Going back passes over it: bound a second time it would be refused. */
static void sending_again_does_not_bind_again(void **state)
{
	struct pair *pair = *state;

	pair->meddle = lose_some;
	side_request(&pair->b, IBV_WR_RDMA_WRITE, 1, 0, 5000);
	lose_next = 5; /* all of it */
	bind(pair, 2);
	pair_run(pair);
	side_expect_none(&pair->b);
	side_request(&pair->b, IBV_WR_RDMA_WRITE, 3, 0, 5000);
	pair_run_out(pair);
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
	side_expect(&pair->b, 2, IBV_WC_SUCCESS);
	side_expect(&pair->b, 3, IBV_WC_SUCCESS);
	assert_true(transport_counters(pair->b.qp)->resent > 0);
}

/* The ACK of what goes again comes late, when sending has gone back before the binding. */
static void a_late_ack_covers_it(void **state)
{
	struct pair *pair = *state;

	pair->meddle = lose_some;
	side_request(&pair->b, IBV_WR_RDMA_WRITE, 1, 0, 8);
	bind(pair, 2);
	side_request(&pair->b, IBV_WR_RDMA_WRITE, 3, 0, 8);
	side_turn(&pair->b);
	pair_deliver(pair); /* both arrive */
	pair->room = 0;
	pair->now += 1000000000; /* and B's timer runs out before it hears of it */
	side_turn(&pair->b);
	pair->room = UINT32_MAX;
	side_turn(&pair->a);
	pair_deliver(pair);
	pair_run_out(pair);
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
	side_expect(&pair->b, 2, IBV_WC_SUCCESS);
	side_expect(&pair->b, 3, IBV_WC_SUCCESS);
	side_expect_none(&pair->b);
}

static void a_fence_holds_it_back(void **state)
{
	struct pair *pair = *state;

	bind(pair, 1);
	pair_run(pair);
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
	side_request(&pair->b, IBV_WR_RDMA_READ, 2, 0, 8);
	invalidate(pair, 3, IBV_SEND_FENCE);
	side_turn(&pair->b);
	assert_int_equal(pair->b.mr->windows, 1);
	pair_run(pair);
	assert_int_equal(pair->b.mr->windows, 0);
	side_expect(&pair->b, 2, IBV_WC_SUCCESS);
	side_expect(&pair->b, 3, IBV_WC_SUCCESS);
}

static void a_drained_queue_binds_nothing(void **state)
{
	struct pair *pair = *state;

	assert_int_equal(side_modify(&pair->b, IBV_QPS_SQD), 0);
	bind(pair, 1);
	pair_run(pair);
	side_expect_none(&pair->b);
	assert_int_equal(pair->b.mr->windows, 0);
	assert_int_equal(side_modify(&pair->b, IBV_QPS_RTS), 0);
	pair_run(pair);
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
}

static void a_binding_that_fails_ends_the_queue(void **state)
{
	struct pair *pair = *state;

	bind(pair, 1);
	bind(pair, 2);
	side_request(&pair->b, IBV_WR_RDMA_WRITE, 3, 0, 8);
	pair_run(pair);
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
	assert_int_equal(side_expect(&pair->b, 2, IBV_WC_MW_BIND_ERR).vendor_err,
			 REASON_BIND_IS_BOUND);
	side_expect(&pair->b, 3, IBV_WC_WR_FLUSH_ERR);
}

static void unsignaled_ones_only_make_room(void **state)
{
	struct pair *pair;

	options.sq_sig_all = false;
	mw_destroy(mw);
	pair_free(*state);
	*state = pair = start();
	for (int i = 0; i < 200; i++) {
		bind(pair, 2 * i);
		pair_run(pair);
		invalidate(pair, 2 * i + 1, 0);
		pair_run(pair);
	}
	side_expect_none(&pair->b);
	assert_int_equal(pair->b.qp->sq.head, 400);
}

static void a_uc_queue_binds_too(void **state)
{
	struct pair *pair;

	options.type = IBV_QPT_UC;
	mw_destroy(mw);
	pair_free(*state);
	*state = pair = start();
	fill(pair->a.memory, PAIR_MEMORY, 2);
	side_request(&pair->b, IBV_WR_RDMA_WRITE, 1, 0, 8);
	bind(pair, 2);
	pair_run(pair);
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
	side_expect(&pair->b, 2, IBV_WC_SUCCESS);
	write_window(pair, 3, WINDOW);
	pair_run(pair);
	side_expect(&pair->a, 3, IBV_WC_SUCCESS);
	assert_memory_equal(pair->b.memory + WINDOW_AT, pair->a.memory + WINDOW_AT, WINDOW);
}

#define MW_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    MW_TEST(a_binding_lets_the_peer_in_until_it_is_invalidated),
	    MW_TEST(a_peer_invalidates_by_a_send),
	    MW_TEST(it_completes_behind_what_was_posted_before),
	    MW_TEST(sending_again_does_not_bind_again),
	    MW_TEST(a_late_ack_covers_it),
	    MW_TEST(a_fence_holds_it_back),
	    MW_TEST(a_drained_queue_binds_nothing),
	    MW_TEST(a_binding_that_fails_ends_the_queue),
	    MW_TEST(unsignaled_ones_only_make_room),
	    MW_TEST(a_uc_queue_binds_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
