/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams leave in whole segmented sends; of responses to READs what is less than one waits a turn.
 */
#include "transport/requester.h"
#include "transport_case.h"

/* Of path MTU 1024: what a segmented send takes. */
enum { RUN = 62, WRITE_RUN = 61, PACKETS = 64, LENGTH = PACKETS * 1024, READS = 4 /* a window */ };

static int set_up_mtu_1024(void **state)
{
	options = default_options;
	options.mtu = IBV_MTU_1024;
	*state = pair_connected(&options);
	pair_meet(*state);
	return 0;
}

static int set_up_strangers(void **state)
{
	struct pair *pair;

	options = default_options;
	options.mtu = IBV_MTU_1024;
	pair = *state = pair_connected(&options);
	pair->are_strangers = true;
	pair_meet(pair);
	return 0;
}

static int set_up_deep(void **state, bool are_strangers)
{
	struct pair *pair;

	options = default_options;
	options.mtu = IBV_MTU_1024;
	options.max_rd = options.max_dest_rd = WINDOW_WIDEST * READS;
	pair = *state = pair_connected(&options);
	pair->are_strangers = are_strangers;
	pair_meet(pair);
	return 0;
}

static int set_up_many(void **state)
{
	return set_up_deep(state, false);
}

static int set_up_many_strangers(void **state)
{
	return set_up_deep(state, true);
}

/* A asks, and B has heard of it. */
static void ask(struct pair *pair, int wr_id, uint32_t length)
{
	pair->a.qp->requester->window.packets = 5 * PACKETS;
	side_request(&pair->a, IBV_WR_RDMA_READ, wr_id, 0, length);
	side_turn(&pair->a);
	pair_deliver(pair);
}

/* How many packets leave in B's next turn. They arrive later. */
static uint32_t turn_of(struct side *side)
{
	uint64_t before = transport_counters(side->qp)->sent_packets;

	side_turn(side);
	return transport_counters(side->qp)->sent_packets - before;
}

static void a_rest_waits_for_the_next_turn(void **state)
{
	struct pair *pair = *state;

	assert_false(transport_has_responses(pair->b.qp));
	ask(pair, 1, LENGTH);
	assert_true(transport_has_responses(pair->b.qp));
	assert_false(transport_has_rest(pair->b.qp));
	assert_int_equal(turn_of(&pair->b), RUN);
	assert_true(transport_has_responses(pair->b.qp));
	assert_true(transport_has_rest(pair->b.qp));
	assert_true(pair->b.is_scheduled);
	assert_int_equal(turn_of(&pair->b), PACKETS - RUN);
	assert_false(transport_has_responses(pair->b.qp));
	assert_false(transport_has_rest(pair->b.qp));
	assert_false(pair->b.is_scheduled);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

static void a_rest_goes_with_what_was_asked_for_meanwhile(void **state)
{
	struct pair *pair = *state;

	ask(pair, 1, LENGTH);
	assert_int_equal(turn_of(&pair->b), RUN);
	ask(pair, 2, LENGTH);
	assert_false(transport_has_rest(pair->b.qp));
	assert_int_equal(turn_of(&pair->b), RUN);
	assert_int_equal(turn_of(&pair->b), 2 * (PACKETS - RUN));
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
}

/* What A's first turn sends of a stream of messages, with all of its window. */
static uint32_t first_turn_of(struct pair *pair, enum ibv_wr_opcode opcode)
{
	struct requester *requester = pair->a.qp->requester;

	requester->window.packets = requester->window.threshold = requester->window.max;
	for (int i = 0; i < READS; i++) {
		side_post_recv(&pair->b, i, 0, LENGTH);
		side_request(&pair->a, opcode, i, 0, LENGTH);
	}
	return turn_of(&pair->a);
}

static void a_turn_of_sends_is_whole_segmented_sends(void **state)
{
	assert_int_equal(first_turn_of(*state, IBV_WR_SEND), TURN_RUNS * RUN);
}

/* Whose packets are all as long as the first, which has one header more. */
static void a_turn_of_writes_is_whole_segmented_sends(void **state)
{
	assert_int_equal(first_turn_of(*state, IBV_WR_RDMA_WRITE), TURN_RUNS * WRITE_RUN);
}

/* A full window's worth of READs and more: how many packets are asked for. */
static uint32_t asked_for(struct pair *pair)
{
	struct requester *requester = pair->a.qp->requester;

	requester->window.packets = requester->window.threshold = requester->window.max;
	for (int i = 0; i < WINDOW_WIDEST * READS; i++)
		side_request(&pair->a, IBV_WR_RDMA_READ, i, 0, LENGTH);
	side_turn(&pair->a);
	return requester_in_flight(requester);
}

static void reads_ask_for_two_windows_where_the_own_socket_holds_them(void **state)
{
	struct pair *pair = *state;

	pair->a.adapter.socket_bytes = WINDOW_WIDE_SOCKET;
	assert_int_equal(asked_for(pair), WINDOW_WIDE * READS * PACKETS);
}

static void and_for_four_where_it_holds_those_of_many(void **state)
{
	struct pair *pair = *state;

	pair->a.adapter.socket_bytes = WINDOW_WIDEST_SOCKET;
	assert_int_equal(asked_for(pair), WINDOW_WIDEST * READS * PACKETS);
}

/* The same of WRITEs: what leaves, but for less than a segmented send, which waits for room. */
static void expect_window(struct pair *pair, uint32_t packets)
{
	struct requester *requester = pair->a.qp->requester;

	requester->window.packets = requester->window.threshold = requester->window.max;
	for (int i = 0; i < (WINDOW_WIDEST + 1) * READS; i++)
		side_request(&pair->a, IBV_WR_RDMA_WRITE, i, 0, LENGTH);
	for (int i = 0; i < (WINDOW_WIDEST + 1) * READS; i++)
		side_turn(&pair->a);
	assert_in_range(requester_in_flight(requester), packets - RUN, packets);
}

static void writes_have_two_windows_where_sockets_hold_them(void **state)
{
	struct pair *pair = *state;

	pair->a.adapter.socket_bytes = WINDOW_WIDE_SOCKET;
	expect_window(pair, WINDOW_WIDE * READS * PACKETS);
}

static void and_four_where_they_hold_those_of_many(void **state)
{
	struct pair *pair = *state;

	pair->a.adapter.socket_bytes = WINDOW_WIDEST_SOCKET;
	expect_window(pair, WINDOW_WIDEST * READS * PACKETS);
}

static void writes_have_one_window_with_a_small_socket(void **state)
{
	struct pair *pair = *state;

	pair->a.adapter.socket_bytes = WINDOW_WIDE_SOCKET - 1;
	expect_window(pair, READS * PACKETS);
}

static void a_small_socket_is_asked_for_one(void **state)
{
	struct pair *pair = *state;

	pair->a.adapter.socket_bytes = WINDOW_WIDE_SOCKET - 1;
	assert_int_equal(asked_for(pair), READS * PACKETS);
}

static void strangers_are_asked_for_one(void **state)
{
	struct pair *pair = *state;

	pair->a.adapter.socket_bytes = WINDOW_WIDE_SOCKET;
	assert_int_equal(asked_for(pair), READS * PACKETS);
}

static void a_turn_is_as_many_sends_as_leave_by_one_call(void **state)
{
	struct pair *pair = *state;

	ask(pair, 1, 5 * LENGTH);
	assert_int_equal(turn_of(&pair->b), TURN_RUNS * RUN);
	assert_int_equal(turn_of(&pair->b), (5 - TURN_RUNS) * RUN);
	assert_int_equal(turn_of(&pair->b), 5 * (PACKETS - RUN));
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

static void with_fewer_it_is_all_that_are_whole(void **state)
{
	struct pair *pair = *state;

	ask(pair, 1, 3 * LENGTH);
	assert_int_equal(turn_of(&pair->b), 3 * RUN);
	assert_int_equal(turn_of(&pair->b), 3 * (PACKETS - RUN));
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

static void what_is_less_than_a_send_leaves_at_once(void **state)
{
	struct pair *pair = *state;

	ask(pair, 1, 20 * 1024);
	assert_true(transport_has_rest(pair->b.qp));
	assert_int_equal(turn_of(&pair->b), 20);
	assert_false(transport_has_rest(pair->b.qp));
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

/* Theirs are of several lengths, and so several sends. */
static void towards_another_make_nothing_waits(void **state)
{
	struct pair *pair = *state;

	ask(pair, 1, LENGTH);
	assert_int_equal(turn_of(&pair->b), PACKETS);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_rest_waits_for_the_next_turn, set_up_mtu_1024,
					    tear_down),
	    cmocka_unit_test_setup_teardown(a_rest_goes_with_what_was_asked_for_meanwhile,
					    set_up_mtu_1024, tear_down),
	    cmocka_unit_test_setup_teardown(a_turn_is_as_many_sends_as_leave_by_one_call,
					    set_up_mtu_1024, tear_down),
	    cmocka_unit_test_setup_teardown(with_fewer_it_is_all_that_are_whole, set_up_mtu_1024,
					    tear_down),
	    cmocka_unit_test_setup_teardown(a_turn_of_sends_is_whole_segmented_sends,
					    set_up_mtu_1024, tear_down),
	    cmocka_unit_test_setup_teardown(a_turn_of_writes_is_whole_segmented_sends,
					    set_up_mtu_1024, tear_down),
	    cmocka_unit_test_setup_teardown(what_is_less_than_a_send_leaves_at_once,
					    set_up_mtu_1024, tear_down),
	    cmocka_unit_test_setup_teardown(
		reads_ask_for_two_windows_where_the_own_socket_holds_them, set_up_many, tear_down),
	    cmocka_unit_test_setup_teardown(and_for_four_where_it_holds_those_of_many, set_up_many,
					    tear_down),
	    cmocka_unit_test_setup_teardown(and_four_where_they_hold_those_of_many, set_up_many,
					    tear_down),
	    cmocka_unit_test_setup_teardown(a_small_socket_is_asked_for_one, set_up_many,
					    tear_down),
	    cmocka_unit_test_setup_teardown(writes_have_two_windows_where_sockets_hold_them,
					    set_up_many, tear_down),
	    cmocka_unit_test_setup_teardown(writes_have_one_window_with_a_small_socket, set_up_many,
					    tear_down),
	    cmocka_unit_test_setup_teardown(strangers_are_asked_for_one, set_up_many_strangers,
					    tear_down),
	    cmocka_unit_test_setup_teardown(towards_another_make_nothing_waits, set_up_strangers,
					    tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
