/* SPDX-License-Identifier: BSD-2-Clause */
/* Which packets of a stream ask for an ACK. */
#include "transport/requester.h"
#include "transport_case.h"

enum { LENGTH = 3000, WRITES = 3 }; /* of three packets each */

static void write_many(struct pair *pair)
{
	for (int i = 0; i < WRITES; i++)
		side_request(&pair->a, IBV_WR_RDMA_WRITE, i, 0, LENGTH);
	pair_run(pair);
	for (int i = 0; i < WRITES; i++)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
}

static void the_last_message_of_a_turn_asks(void **state)
{
	struct pair *pair = *state;

	pair_meet(pair);
	write_many(pair);
	pair_expect_trace(pair, "A WRITE_FIRST 1\nA WRITE_MIDDLE 2\nA WRITE_LAST 3\n"
				"A WRITE_FIRST 4\nA WRITE_MIDDLE 5\nA WRITE_LAST 6\n"
				"A WRITE_FIRST 7\nA WRITE_MIDDLE 8\nA WRITE_LAST 9 ack\n"
				"B ACK 9\n");
}

static void a_message_that_is_alone_asks(void **state)
{
	struct pair *pair = *state;

	pair_meet(pair);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, LENGTH);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	pair_expect_trace(pair, "A WRITE_FIRST 1\nA WRITE_MIDDLE 2\nA WRITE_LAST 3 ack\n"
				"B ACK 3\n");
}

/* They may take an ACK for each message for granted. */
static void each_message_to_another_make_asks(void **state)
{
	struct pair *pair = *state;

	pair->are_strangers = true;
	pair_meet(pair);
	write_many(pair);
	pair_expect_trace(pair, "A WRITE_FIRST 1\nA WRITE_MIDDLE 2\nA WRITE_LAST 3 ack\n"
				"A WRITE_FIRST 4\nA WRITE_MIDDLE 5\nA WRITE_LAST 6 ack\n"
				"A WRITE_FIRST 7\nA WRITE_MIDDLE 8\nA WRITE_LAST 9 ack\n"
				"B ACK 9\n");
}

static int losing_left;

static int lose_first(struct pair *pair, struct side *from, struct flying *packet)
{
	(void)pair, (void)from, (void)packet;
	return losing_left-- > 0 ? 0 : 1;
}

/* The one that asks for all may be lost as well. */
static void each_message_asks_where_packets_are_lost(void **state)
{
	struct pair *pair = *state;

	pair_meet(pair);
	pair->meddle = lose_first;
	losing_left = 1;
	write_many(pair);
	assert_null(pair->a.qp->requester->recovery);
	pair->trace[0] = '\0';
	write_many(pair);
	pair_expect_trace(pair, "A WRITE_FIRST 10\nA WRITE_MIDDLE 11\nA WRITE_LAST 12 ack\n"
				"A WRITE_FIRST 13\nA WRITE_MIDDLE 14\nA WRITE_LAST 15 ack\n"
				"A WRITE_FIRST 16\nA WRITE_MIDDLE 17\nA WRITE_LAST 18 ack\n"
				"B ACK 18\n");
}

/* A READ goes when it may, and says nothing of when. */
static void a_message_before_a_read_asks(void **state)
{
	struct pair *pair = *state;

	pair_meet(pair);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, LENGTH);
	side_request(&pair->a, IBV_WR_RDMA_READ, 2, 8192, 8);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	pair_expect_trace(pair, "A WRITE_FIRST 1\nA WRITE_MIDDLE 2\nA WRITE_LAST 3 ack\n"
				"A READ_REQUEST 4 ack\n"
				"B READ_RESPONSE_ONLY 4\n");
}

static void write_from_nowhere(struct side *side, uint64_t wr_id)
{
	const struct side *peer = &side->pair->b;
	struct ibv_sge sge = side_sge(side, 0, LENGTH);
	struct ibv_send_wr wr = {
	    .wr_id = wr_id,
	    .opcode = IBV_WR_RDMA_WRITE,
	    .sg_list = &sge,
	    .num_sge = 1,
	    .wr.rdma = {.remote_addr = (uintptr_t)peer->memory, .rkey = peer->mr->rkey},
	};

	sge.lkey ^= 1;
	side_post(side, &wr);
}

/* The failed one completes behind the other, which needs its ACK for that; so its end goes again.
 */
static void what_was_to_ask_and_can_not_leave_is_replaced(void **state)
{
	struct pair *pair = *state;

	pair_meet(pair);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, LENGTH);
	write_from_nowhere(&pair->a, 2);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_LOC_PROT_ERR);
	pair_expect_trace(pair, "A WRITE_FIRST 1\nA WRITE_MIDDLE 2\nA WRITE_LAST 3\n"
				"A WRITE_LAST 3 ack\n"
				"B ACK 3\n");
}

/* Nor is it forgotten while the outbox is full. */
static void a_full_outbox_only_puts_it_off(void **state)
{
	struct pair *pair = *state;

	pair_meet(pair);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, LENGTH);
	write_from_nowhere(&pair->a, 2);
	for (pair->room = 3; pair->room;)
		side_turn(&pair->a);
	side_turn(&pair->a);
	assert_true(pair->a.is_scheduled);
	pair->room = UINT32_MAX;
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_LOC_PROT_ERR);
	pair_expect_trace(pair, "A WRITE_FIRST 1\nA WRITE_MIDDLE 2\nA WRITE_LAST 3\n"
				"A WRITE_LAST 3 ack\n"
				"B ACK 3\n");
}

enum { LONG = 64 << 10, LONGS = 60, SETTLED = 32 * LONG / 1024 /* packets */, RUN = 61 };

static int sent, asked; /* packets of A's, and since it has settled those that want an ACK */

static int count_asking(struct pair *pair, struct side *from, struct flying *packet)
{
	if (from != &pair->a)
		return 1;
	if (++sent > SETTLED)
		asked += packet->bytes[8] >> 7;
	return 1;
}

/* Each packet arrives by itself and is answered at once, if it is: no two ACKs come together. */
static void run_one_by_one(struct pair *pair)
{
	uint32_t behind;

	while (pair->a.is_scheduled || pair->b.is_scheduled || pair->count) {
		if (pair->b.is_scheduled) {
			side_turn(&pair->b);
		} else if (pair->a.is_scheduled) {
			side_turn(&pair->a);
		} else {
			behind = pair->count - 1;
			pair->count = 1;
			pair_deliver(pair);
			pair->count += behind;
		}
	}
}

static void write_stream(struct pair *pair, int count, uint32_t length)
{
	sent = asked = 0;
	pair->meddle = count_asking;
	for (int i = 0; i < count; i++)
		side_request(&pair->a, IBV_WR_RDMA_WRITE, i, 0, length);
	run_one_by_one(pair);
	for (int i = 0; i < count; i++)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
}

/* While the window opens segmented sends leave one by one; each has its ACK, which would make room
 * for one again. */
static void a_stream_comes_to_ask_twice_a_window(void **state)
{
	struct pair *pair = *state;

	pair_meet(pair);
	write_stream(pair, LONGS, LONG);
	assert_int_equal(sent, LONGS * LONG / 1024);
	assert_in_range(asked, 1, (sent - SETTLED) / (2 * RUN) + 2);
}

static void with_two_windows_it_asks_once_a_turn(void **state)
{
	struct pair *pair = *state;

	pair_meet(pair);
	pair->a.adapter.socket_bytes = WINDOW_WIDE_SOCKET;
	write_stream(pair, LONGS, LONG);
	assert_int_equal(sent, LONGS * LONG / 1024);
	assert_in_range(asked, 1, (sent - SETTLED) / (TURN_RUNS * RUN) + 2);
}

/* What is left when there is too little for a turn waits for no room that it does not need. */
static void a_stream_of_any_length_comes_to_its_end(void **state)
{
	struct pair *pair = *state;

	pair_meet(pair);
	for (int count = 1; count <= 12; count++)
		write_stream(pair, count, LONG + 1024 * count);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(the_last_message_of_a_turn_asks),
	    TEST(a_message_that_is_alone_asks),
	    TEST(each_message_to_another_make_asks),
	    TEST(each_message_asks_where_packets_are_lost),
	    TEST(a_message_before_a_read_asks),
	    TEST(what_was_to_ask_and_can_not_leave_is_replaced),
	    TEST(a_full_outbox_only_puts_it_off),
	    TEST(a_stream_comes_to_ask_twice_a_window),
	    TEST(with_two_windows_it_asks_once_a_turn),
	    TEST(a_stream_of_any_length_comes_to_its_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
