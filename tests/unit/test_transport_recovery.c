/* SPDX-License-Identifier: BSD-2-Clause */
/* Selective recovery: what two ends of ours show each other, and what goes again. */
#include "transport/hold.h"
#include "transport/recovery.h"
#include "transport/requester.h"
#include "transport_case.h"
#include "wire/gaps.h"
#include "wire/timers.h"

enum { FECN = 0x80, BECN = 0x40, GENERATION = 7 << 3, OWN = GENERATION_OWN << 3 };

static int tear_down_empty(void **state)
{
	struct pair *pair = *state;

	assert_int_equal(pair->a.adapter.held_bytes, 0);
	pair_free(pair);
	return 0;
}

static uint64_t to_lose; /* bit i: the packet that passes as the i-th */

static int lose_some(struct pair *pair, struct side *from, struct flying *packet)
{
	return to_lose >> pair->passed & 1 ? 0 : 1;
}

static void meet(struct pair *pair)
{
	pair_meet(pair);
	pair->passed = 0;
	pair->meddle = lose_some;
}

static int signs[2]; /* of A, of B */
static int others;   /* packets that a stranger would not know */

static int look_for_signs(struct pair *pair, struct side *from, struct flying *packet)
{
	signs[from->name == 'B'] += packet->bytes[4] != 0;
	others += packet->bytes[0] >= TRANSPORT_MAKER;
	if (packet->bytes[4])
		assert_int_equal(packet->bytes[4], (from->name == 'A' ? FECN : BECN) | OWN);
	assert_int_equal(packet->bytes[8] & 0x7f, 0);
	return 1;
}

static void ends_ask_until_they_know(void **state)
{
	struct pair *pair = *state;

	signs[0] = signs[1] = 0;
	pair->meddle = look_for_signs;
	for (int i = 0; i < 50; i++) {
		side_request(&pair->a, i & 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, i, 0, 100);
		pair_run(pair);
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	}
	assert_int_equal(signs[0], 1);
	assert_int_equal(signs[1], 1);
}

/* It ignores the question, and after a few sees nothing any more. */
static int is_other_make(struct pair *pair, struct side *from, struct flying *packet)
{
	look_for_signs(pair, from, packet);
	packet->bytes[4] = 0;
	return from->name == 'A' && pair->passed % 7 == 6 ? 0 : 1;
}

static int make_b_older(struct pair *pair, struct side *from, struct flying *packet)
{
	if (from->name == 'B')
		packet->bytes[4] &= ~GENERATION;
	return 1;
}

/* It recovers, but does not know packets that came later. */
static void one_that_is_older_gets_what_it_knows(void **state)
{
	struct pair *pair = *state;

	pair->meddle = make_b_older;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 99, 0, 8);
	pair_run(pair);
	side_expect(&pair->a, 99, IBV_WC_SUCCESS);
	assert_true(pair->a.qp->requester->is_peer_ours);
	assert_int_equal(pair->a.qp->av.carrier_max, 0);
	assert_true(pair->b.qp->requester->is_peer_ours);
	assert_true(pair->b.qp->av.carrier_max > 0);
}

static void another_make_sees_one_bit_at_most(void **state)
{
	struct pair *pair = *state;

	signs[0] = signs[1] = others = 0;
	pair->meddle = is_other_make;
	for (int i = 0; i < 100; i++) {
		side_request(&pair->a, IBV_WR_RDMA_WRITE, i, 0, 5000);
		pair_run(pair);
		for (int wait = 0; wait < 10 && !pair->a.cq->count; wait++)
			pair_wait(pair);
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
		pair->trace[0] = '\0';
	}
	assert_in_range(signs[0], 1, 32);
	assert_int_equal(signs[1], 0);
	assert_int_equal(others, 0);
}

static void only_what_is_missing_goes_again(void **state)
{
	struct pair *pair = *state;
	uint64_t before = pair->now;

	meet(pair);
	fill(pair->a.memory, 9000, 1);
	to_lose = 1 << 1 | 1 << 4 | 1 << 5;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 9000);
	pair_run(pair);
	pair_expect_trace(pair, "A WRITE_FIRST 1\n"
				"A WRITE_MIDDLE 2\n"
				"A WRITE_MIDDLE 3\n"
				"A WRITE_MIDDLE 4\n"
				"A WRITE_MIDDLE 5\n"
				"A WRITE_MIDDLE 6\n"
				"A WRITE_MIDDLE 7\n"
				"A WRITE_MIDDLE 8\n"
				"A WRITE_LAST 9 ack\n"
				"B GAPS 2\n"
				"A WRITE_MIDDLE 2 ack\n"
				"A WRITE_MIDDLE 5 ack\n"
				"A WRITE_MIDDLE 6 ack\n"
				"B ACK 9\n");
	assert_memory_equal(pair->a.memory, pair->b.memory, 9000);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_int_equal(pair->now, before);
	assert_int_equal(transport_counters(pair->a.qp)->resent, 3);
	assert_int_equal(pair->b.adapter.held_bytes, 0);
}

/* Each message is delivered once and in order, whatever stood behind the gap. */
static void held_messages_are_received_in_their_order(void **state)
{
	struct pair *pair = *state;
	uint64_t *word = (uint64_t *)(void *)(pair->b.memory + 8192);

	meet(pair);
	to_lose = 1 << 0;
	*word = 5;
	side_post_recv(&pair->b, 7, 0, 100);
	side_post_recv(&pair->b, 8, 0, 100);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 50);
	side_request(&pair->a, IBV_WR_SEND, 2, 0, 60);
	side_atomic(&pair->a, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 16384, 8192, 1, 0);
	side_request(&pair->a, IBV_WR_RDMA_READ, 4, 0, 2000);
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_ONLY 1 ack\n"
				"A SEND_ONLY 2 ack\n"
				"A FETCH_ADD 3 ack\n"
				"A READ_REQUEST 4 ack\n"
				"B GAPS 1\n"
				"A SEND_ONLY 1 ack\n"
				"B ATOMIC_ACKNOWLEDGE 3\n"
				"B READ_RESPONSE_FIRST 4\n"
				"B READ_RESPONSE_LAST 5\n");
	for (int i = 1; i <= 4; i++)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	side_expect(&pair->b, 8, IBV_WC_SUCCESS);
	assert_int_equal(*word, 6);
}

static void only_missing_responses_are_asked_for_again(void **state)
{
	struct pair *pair = *state;

	meet(pair);
	fill(pair->b.memory, 8192, 2);
	to_lose = 1 << 2 | 1 << 4 | 1 << 5;
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 0, 8192);
	pair_run(pair);
	pair_expect_trace(pair, "A READ_REQUEST 1 ack\n"
				"B READ_RESPONSE_FIRST 1\n"
				"B READ_RESPONSE_MIDDLE 2\n"
				"B READ_RESPONSE_MIDDLE 3\n"
				"B READ_RESPONSE_MIDDLE 4\n"
				"B READ_RESPONSE_MIDDLE 5\n"
				"B READ_RESPONSE_MIDDLE 6\n"
				"B READ_RESPONSE_MIDDLE 7\n"
				"B READ_RESPONSE_LAST 8\n"
				"A READ_REQUEST 2 ack\n"
				"A READ_REQUEST 4 ack\n"
				"B READ_RESPONSE_ONLY 2\n"
				"B READ_RESPONSE_FIRST 4\n"
				"B READ_RESPONSE_LAST 5\n");
	assert_memory_equal(pair->a.memory, pair->b.memory, 8192);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

/* The ACK behind the lost response stands: the WRITE does not go again. */
static void an_ack_behind_a_lost_response_is_kept(void **state)
{
	struct pair *pair = *state;

	meet(pair);
	to_lose = 1 << 3;
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 0, 2048);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 4000, 8);
	pair_run(pair);
	pair_expect_trace(pair, "A READ_REQUEST 1 ack\n"
				"A WRITE_ONLY 3 ack\n"
				"B READ_RESPONSE_FIRST 1\n"
				"B READ_RESPONSE_LAST 2\n"
				"B ACK 3\n"
				"A READ_REQUEST 2 ack\n"
				"B READ_RESPONSE_ONLY 2\n");
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
}

/* What left later and arrived shows that the repair is lost too. */
static void a_lost_repair_is_repaired(void **state)
{
	struct pair *pair = *state;

	meet(pair);
	to_lose = 1 << 0 | 1 << 3;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 8);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 0, 8);
	pair_run(pair);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 3, 0, 8);
	pair_run(pair);
	pair_expect_trace(pair, "A WRITE_ONLY 1 ack\n"
				"A WRITE_ONLY 2 ack\n"
				"B GAPS 1\n"
				"A WRITE_ONLY 1 ack\n"
				"A WRITE_ONLY 3 ack\n"
				"B GAPS 1\n"
				"A WRITE_ONLY 1 ack\n"
				"B ACK 3\n");
	for (int i = 1; i <= 3; i++)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
}

static int lose_first_write(struct pair *pair, struct side *from, struct flying *packet)
{
	return from->name == 'A' && bth_psn(packet->bytes) == options.psn_a + 1 ? 0 : 1;
}

static void each_repair_of_the_oldest_takes_a_retry(void **state)
{
	struct pair *pair = *state;
	int posted;

	meet(pair);
	pair->meddle = lose_first_write;
	for (posted = 1; posted < 40 && pair->a.qp->state == IBV_QPS_RTS; posted++) {
		side_request(&pair->a, IBV_WR_RDMA_WRITE, posted, 0, 8);
		pair_run(pair);
		pair->now += 2000000;
	}
	side_expect(&pair->a, 1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(posted, 2 + options.retry_cnt + 1);
	for (int i = 2; i < posted; i++)
		side_expect(&pair->a, i, IBV_WC_WR_FLUSH_ERR);
}

/* A way that mixes up what it carries makes one that is late look lost over and over. */
static void one_that_is_only_late_is_not_given_up(void **state)
{
	struct pair *pair = *state;
	int posted;

	meet(pair);
	pair->meddle = lose_first_write;
	for (posted = 1; posted <= 20; posted++) {
		side_request(&pair->a, IBV_WR_RDMA_WRITE, posted, 0, 8);
		pair_run(pair);
		pair->now += 20000;
	}
	pair->meddle = NULL;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, posted, 0, 8);
	pair_run(pair);
	for (int i = 1; i <= posted; i++)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	assert_int_equal(transport_counters(pair->a.qp)->timeouts, 0);
}

/* A packet that is lost several times in a row is no reason to send all of a long way again. */
static void a_repair_of_the_oldest_has_its_time(void **state)
{
	struct pair *pair = *state;

	meet(pair);
	pair->meddle = lose_first_write;
	for (int i = 1; i <= 4; i++) {
		side_request(&pair->a, IBV_WR_RDMA_WRITE, i, 0, 8);
		pair_run(pair);
		pair->now += ack_timeout_ns(options.timeout) * 3 / 4;
	}
	assert_int_equal(transport_counters(pair->a.qp)->timeouts, 0);
	pair->now += ack_timeout_ns(options.timeout);
	pair->meddle = NULL;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 5, 0, 8);
	pair_run(pair);
	assert_int_equal(transport_counters(pair->a.qp)->timeouts, 1);
	for (int i = 1; i <= 5; i++)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
}

static void what_is_held_is_bounded(void **state)
{
	static uint8_t packet[4096];
	struct pair *pair = *state;
	struct adapter *adapter = &pair->a.adapter;
	struct hold *hold = NULL;
	uint32_t count = 0;

	assert_false(hold_put(adapter, &hold, 0xffffff, HOLD_PACKETS - 1, packet, 100));
	assert_true(hold_put(adapter, &hold, 0xffffff, HOLD_PACKETS - 2, packet, 100));
	assert_true(hold_has(hold, HOLD_PACKETS - 2));
	assert_false(hold_has(hold, 2 * HOLD_PACKETS - 2));
	hold_trim(adapter, &hold, HOLD_PACKETS - 2);
	assert_non_null(hold);
	hold_trim(adapter, &hold, HOLD_PACKETS - 1);
	assert_null(hold);
	adapter->held_bytes = HOLD_BYTES_ADAPTER - 2 * sizeof(packet);
	while (hold_put(adapter, &hold, 0, count, packet, sizeof(packet)))
		count++;
	assert_int_equal(count, 2);
	hold_free(adapter, hold_take(adapter, hold, 0));
	assert_true(hold_put(adapter, &hold, 1, 5, packet, 10));
	hold_drop(adapter, &hold);
	assert_null(hold);
	assert_int_equal(adapter->held_bytes, HOLD_BYTES_ADAPTER - 2 * sizeof(packet));
	adapter->held_bytes = 0;
}

/* A report that makes no sense is none. */
static void gaps_of_another_kind_are_not_believed(void **state)
{
	uint8_t payload[GAPS_HEAD_BYTES + GAPS_MAP_BYTES + 4];

	gaps_init(payload, gaps_size(33));
	assert_int_equal(gaps_size(33), GAPS_HEAD_BYTES + 8);
	gaps_set(payload, 31);
	gaps_set(payload, 33);
	assert_int_equal(payload[GAPS_HEAD_BYTES + 3], 0x80);
	assert_int_equal(payload[GAPS_HEAD_BYTES + 4], 0x02);
	assert_true(gaps_get(payload, 33));
	assert_false(gaps_get(payload, 32));
	assert_int_equal(gaps_psns(payload, GAPS_HEAD_BYTES + 8), 64);
	assert_int_equal(gaps_psns(payload, GAPS_HEAD_BYTES - 1), 0);
	assert_int_equal(gaps_psns(payload, sizeof(payload)), 0);
	payload[0]++;
	assert_int_equal(gaps_psns(payload, GAPS_HEAD_BYTES + 8), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down_empty)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(ends_ask_until_they_know),
	    TEST(one_that_is_older_gets_what_it_knows),
	    TEST(another_make_sees_one_bit_at_most),
	    TEST(only_what_is_missing_goes_again),
	    TEST(held_messages_are_received_in_their_order),
	    TEST(only_missing_responses_are_asked_for_again),
	    TEST(an_ack_behind_a_lost_response_is_kept),
	    TEST(a_lost_repair_is_repaired),
	    TEST(each_repair_of_the_oldest_takes_a_retry),
	    TEST(one_that_is_only_late_is_not_given_up),
	    TEST(a_repair_of_the_oldest_has_its_time),
	    TEST(what_is_held_is_bounded),
	    TEST(gaps_of_another_kind_are_not_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
