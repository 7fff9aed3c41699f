/* SPDX-License-Identifier: BSD-2-Clause */
/* The ACK of a peer's message leaves behind the long WRITE that answers it, and does not wait for
 * ever. */
#include "transport/requester.h"
#include "transport_pair.h"

enum { LONG = 3072, LONGER = 256 << 10, WHILE_NS = 400000 };

static struct pair_options options;

/* A message each way: then both know each other, or don't. */
static struct pair *meet(void **state, bool are_strangers)
{
	struct pair *pair;

	options = default_options;
	pair = *state = pair_connected(&options);
	pair->are_strangers = are_strangers;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 99, 0, 8);
	pair_run(pair);
	side_request(&pair->b, IBV_WR_RDMA_WRITE, 99, 0, 8);
	pair_run(pair);
	side_expect(&pair->a, 99, IBV_WC_SUCCESS);
	side_expect(&pair->b, 99, IBV_WC_SUCCESS);
	pair->trace[0] = '\0';
	return pair;
}

static int set_up(void **state)
{
	assert_true(meet(state, false)->b.qp->requester->is_peer_ours);
	return 0;
}

static int set_up_strangers(void **state)
{
	assert_false(meet(state, true)->b.qp->requester->is_peer_ours);
	return 0;
}

static int tear_down(void **state)
{
	pair_free(*state);
	return 0;
}

/* A's message has arrived, and B owes its ACK. */
static void hear(struct pair *pair)
{
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 8);
	side_turn(&pair->a);
	pair_deliver(pair);
	pair_expect_trace(pair, "A WRITE_ONLY 1 ack\n");
}

static bool has_acked(const struct pair *pair)
{
	return strstr(pair->trace, "B ACK");
}

static void a_long_write_goes_before_the_ack(void **state)
{
	struct pair *pair = *state;

	hear(pair);
	side_request(&pair->b, IBV_WR_RDMA_WRITE, 2, 0, LONG);
	pair_run(pair);
	pair_expect_trace(pair, "B WRITE_FIRST 1\n"
				"B WRITE_MIDDLE 2\n"
				"B WRITE_LAST 3 ack\n"
				"B ACK 1\n"
				"A ACK 3\n");
	assert_true(transport_deadline(pair->b.qp) == NO_DEADLINE);
}

/* The link makes one packet of both. */
static void a_short_write_goes_behind_the_ack(void **state)
{
	struct pair *pair = *state;

	hear(pair);
	side_request(&pair->b, IBV_WR_RDMA_WRITE, 2, 0, 1024);
	pair_run(pair);
	pair_expect_trace(pair, "B ACK 1\n"
				"B WRITE_ONLY 1 ack\n"
				"A ACK 1\n");
}

/* Who gets it polls, and its completion must not come before that of its request. */
static void other_messages_go_behind_the_ack(void **state)
{
	struct pair *pair = *state;

	side_post_recv(&pair->a, 3, 0, LONG);
	hear(pair);
	side_request(&pair->b, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 0, LONG);
	pair_run(pair);
	assert_true(strncmp(pair->trace, "B ACK 1\n", 8) == 0);
}

static void towards_another_make_the_ack_goes_first(void **state)
{
	struct pair *pair = *state;

	hear(pair);
	side_request(&pair->b, IBV_WR_RDMA_WRITE, 2, 0, LONG);
	pair_run(pair);
	assert_true(strncmp(pair->trace, "B ACK 1\n", 8) == 0);
}

static void in_a_stream_the_ack_goes_first(void **state)
{
	struct pair *pair = *state;

	side_request(&pair->b, IBV_WR_RDMA_WRITE, 2, 0, LONG);
	side_turn(&pair->b);
	pair->trace[0] = '\0';
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 8);
	side_turn(&pair->a);
	pair_deliver(pair);
	side_request(&pair->b, IBV_WR_RDMA_WRITE, 3, 0, LONG);
	pair->trace[0] = '\0';
	side_turn(&pair->b);
	assert_true(strncmp(pair->trace, "B ACK 1\n", 8) == 0);
}

/* What is longer than the window comes in parts, and A polls for the ACK all the time. */
static void a_message_beyond_the_window_goes_before_it_too(void **state)
{
	struct pair *pair = *state;

	hear(pair);
	side_request(&pair->b, IBV_WR_RDMA_WRITE, 2, 0, LONGER);
	side_turn(&pair->b);
	assert_false(has_acked(pair));
	pair_run(pair);
	assert_true(has_acked(pair));
	assert_null(strstr(strstr(pair->trace, "B ACK"), "B WRITE"));
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->b, 2, IBV_WC_SUCCESS);
}

static int lose_writes(struct pair *pair, struct side *from, struct flying *packet)
{
	return from == &pair->b && packet->bytes[0] != (TRANSPORT_RC | OP_ACKNOWLEDGE) ? 0 : 1;
}

static void it_waits_no_longer_than_a_while(void **state)
{
	struct pair *pair = *state;
	uint64_t start = pair->now;

	hear(pair);
	pair->meddle = lose_writes;
	side_request(&pair->b, IBV_WR_RDMA_WRITE, 2, 0, LONGER);
	pair_run(pair);
	assert_false(has_acked(pair));
	while (!has_acked(pair) && pair_wait(pair))
		continue;
	assert_true(has_acked(pair));
	assert_int_equal(pair->now - start, WHILE_NS);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	pair->meddle = NULL;
	pair_run_out(pair);
	side_expect(&pair->b, 2, IBV_WC_SUCCESS);
}

/* Its timer may be short. */
static void who_asks_again_has_it_at_once(void **state)
{
	struct pair *pair = *state;
	uint64_t start = pair->now;

	hear(pair);
	pair->meddle = lose_writes;
	side_request(&pair->b, IBV_WR_RDMA_WRITE, 2, 0, LONGER);
	pair_run(pair);
	assert_false(has_acked(pair));
	pair->a.qp->requester->ack_deadline = pair->now;
	pair->a.is_scheduled = true;
	pair_run(pair);
	assert_true(has_acked(pair));
	assert_int_equal(pair->now, start);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(a_long_write_goes_before_the_ack),
	    CASE(a_short_write_goes_behind_the_ack),
	    CASE(other_messages_go_behind_the_ack),
	    cmocka_unit_test_setup_teardown(towards_another_make_the_ack_goes_first,
					    set_up_strangers, tear_down),
	    CASE(in_a_stream_the_ack_goes_first),
	    CASE(a_message_beyond_the_window_goes_before_it_too),
	    CASE(it_waits_no_longer_than_a_while),
	    CASE(who_asks_again_has_it_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
