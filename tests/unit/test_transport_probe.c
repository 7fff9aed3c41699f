/* SPDX-License-Identifier: BSD-2-Clause */
/* A lost tail is looked for after some two round trips, and what is not a lost tail is not. */
#include "transport/requester.h"
#include "transport_case.h"
#include "wire/timers.h"

static const uint64_t SOON = 5000000; /* ns; the ACK timeout is 67 ms */

static uint64_t to_lose; /* bit i: the packet that passes as the i-th */
static uint64_t started;

static int lose_some(struct pair *pair, struct side *from, struct flying *packet)
{
	return pair->passed < 64 && to_lose >> pair->passed & 1 ? 0 : 1;
}

static int set_up_strangers(void **state)
{
	struct pair *pair;

	set_up(state);
	pair = *state;
	pair->are_strangers = true;
	return 0;
}

/* A message, by which the round trip is known; then those of `lost` are. */
static void begin(struct pair *pair, uint64_t lost)
{
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 99, 0, 8);
	pair_run(pair);
	side_expect(&pair->a, 99, IBV_WC_SUCCESS);
	assert_true(transport_deadline(pair->a.qp) == NO_DEADLINE);
	pair->trace[0] = '\0';
	pair->passed = 0;
	pair->meddle = lose_some;
	to_lose = lost;
	started = pair->now;
}

/* Done, and no retry was taken. */
static void expect_soon(struct pair *pair, uint32_t count)
{
	for (int i = 0; i < 20 && pair->a.cq->count < count; i++)
		assert_true(pair_wait(pair));
	for (uint32_t i = 1; i <= count; i++)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	assert_true(pair->now - started < SOON);
	assert_int_equal(transport_counters(pair->a.qp)->timeouts, 0);
	assert_true(transport_deadline(pair->a.qp) == NO_DEADLINE);
}

static void the_end_of_a_message_goes_again(void **state)
{
	struct pair *pair = *state;

	begin(pair, 1 << 1 | 1 << 2 | 1 << 3);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 4096);
	pair_run(pair);
	expect_soon(pair, 1);
	pair_expect_trace(pair, "A WRITE_FIRST 1\n"
				"A WRITE_MIDDLE 2\n"
				"A WRITE_MIDDLE 3\n"
				"A WRITE_LAST 4 ack\n"
				"A WRITE_LAST 4 ack\n"
				"B GAPS 2\n"
				"A WRITE_MIDDLE 2 ack\n"
				"A WRITE_MIDDLE 3 ack\n"
				"B ACK 4\n");
}

/* They are told by a sequence NAK, and go back. */
static void so_it_does_to_another_make(void **state)
{
	struct pair *pair = *state;

	begin(pair, 1 << 1 | 1 << 2 | 1 << 3);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 4096);
	pair_run(pair);
	expect_soon(pair, 1);
	pair_expect_trace(pair, "A WRITE_FIRST 1\n"
				"A WRITE_MIDDLE 2\n"
				"A WRITE_MIDDLE 3\n"
				"A WRITE_LAST 4 ack\n"
				"A WRITE_LAST 4 ack\n"
				"B NAK0 2\n"
				"A WRITE_MIDDLE 2\n"
				"A WRITE_MIDDLE 3\n"
				"A WRITE_LAST 4 ack\n"
				"B ACK 4\n");
}

/* Either end sends otherwise, if its link can, until there is an answer (udp_path.c). */
static void the_way_is_doubted_until_something_new_arrives(void **state)
{
	struct pair *pair = *state;

	begin(pair, 1 << 1);
	assert_false(pair->a.qp->av.is_doubted);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 8);
	pair_run(pair); /* the ACK is lost */
	pair->meddle = pair_lose_all;
	assert_true(pair_wait(pair));
	assert_true(pair->a.qp->av.is_doubted);
	assert_false(pair->b.qp->av.is_doubted);
	pair->meddle = NULL;
	expect_soon(pair, 1);
	assert_false(pair->a.qp->av.is_doubted);
	assert_true(pair->b.qp->av.is_doubted);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 0, 8);
	pair_run(pair);
	assert_false(pair->b.qp->av.is_doubted);
}

/* Such a SEND has a shorter way in (express.h). */
static void a_new_send_ends_doubts_as_well(void **state)
{
	struct pair *pair = *state;

	begin(pair, 0);
	pair->b.qp->av.is_doubted = true;
	side_post_recv(&pair->b, 1, 0, 4096);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 8);
	pair_run(pair);
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
	assert_false(pair->b.qp->av.is_doubted);
}

/* A thread that polls looks at the clock before it has the lane's lock; if another has sent
 * meanwhile, the ACK comes in before the message has left. That is no round trip. */
static void an_ack_of_before_it_left_says_nothing_about_the_time(void **state)
{
	struct pair *pair = *state;
	const struct rtt *rtt = &pair->a.qp->requester->probe.rtt;
	uint64_t smoothed, variation, now;
	uint32_t samples;

	begin(pair, 0);
	now = pair->now;
	samples = rtt->samples;
	smoothed = rtt->smoothed;
	variation = rtt->variation;
	pair->now += 1000;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 8);
	side_turn(&pair->a);
	pair->now = now;
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_int_equal(rtt->samples, samples);
	assert_int_equal(rtt->smoothed, smoothed);
	assert_int_equal(rtt->variation, variation);
	assert_int_equal(rtt->timed_count, 0);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 0, 8);
	pair_run(pair);
	assert_int_equal(rtt->samples, samples + 1);
}

static void write_alone(struct pair *pair, uint32_t count)
{
	while (count--) {
		side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 8);
		pair_run(pair);
		side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	}
}

static void of_what_goes_alone_one_in_eight_is_timed_once_the_round_trip_is_known(void **state)
{
	struct pair *pair = *state;
	const struct rtt *rtt = &pair->a.qp->requester->probe.rtt;

	write_alone(pair, 64);
	assert_int_equal(rtt->samples, 64);
	write_alone(pair, 80);
	assert_int_equal(rtt->samples, 64 + 10);
	/* and always of two */
	for (uint32_t i = 1; i <= 8; i++) {
		side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 2048);
		pair_run(pair);
		side_expect(&pair->a, 1, IBV_WC_SUCCESS);
		assert_int_equal(rtt->samples, 64 + 10 + i);
	}
}

/* What left while the one before was still to be answered, or while the way was doubted, is
 * answered in a round that began then. */
static void a_round_ends_when_all_before_it_is_answered(void **state)
{
	struct pair *pair = *state;
	const struct av *av = &pair->a.qp->av;
	uint16_t rounds;

	begin(pair, 0);
	rounds = av->rounds;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 8);
	side_turn(&pair->a);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 0, 8);
	pair_run(pair);
	expect_soon(pair, 2);
	assert_in_range((uint16_t)(av->rounds - rounds), 1, 2);
	rounds = av->rounds;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 3, 0, 8);
	pair_run(pair);
	assert_int_equal((uint16_t)(av->rounds - rounds), 1);
	side_expect(&pair->a, 3, IBV_WC_SUCCESS);
	/* what went again ends the round without being one */
	begin(pair, 1 << 0);
	rounds = av->rounds;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 8);
	pair_run(pair);
	expect_soon(pair, 1);
	assert_int_equal(av->rounds, rounds);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 0, 8);
	pair_run(pair);
	assert_int_equal((uint16_t)(av->rounds - rounds), 1);
}

/* Its NAK is lost, and it gives one only for a gap. */
static void the_oldest_goes_next(void **state)
{
	struct pair *pair = *state;

	begin(pair, 1 << 0 | 1 << 2);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 2048);
	pair_run(pair);
	expect_soon(pair, 1);
	pair_expect_trace(pair, "A WRITE_FIRST 1\n"
				"A WRITE_LAST 2 ack\n"
				"B NAK0 1\n"
				"A WRITE_LAST 2 ack\n"
				"A WRITE_FIRST 1 ack\n"
				"B ACK 1\n"
				"A WRITE_LAST 2 ack\n"
				"B ACK 2\n");
}

static void a_lost_ack_is_asked_for(void **state)
{
	struct pair *pair = *state;

	begin(pair, 1 << 1);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 8);
	pair_run(pair);
	expect_soon(pair, 1);
	pair_expect_trace(pair, "A WRITE_ONLY 1 ack\n"
				"B ACK 1\n"
				"A WRITE_ONLY 1 ack\n"
				"B ACK 1\n");
}

/* Of a READ the last response shows what is missing, and one packet brings it. */
static void the_last_response_is_asked_for(void **state)
{
	struct pair *pair = *state;

	begin(pair, 1 << 3 | 1 << 4);
	fill(pair->b.memory, 4096, 3);
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 0, 4096);
	pair_run(pair);
	expect_soon(pair, 1);
	pair_expect_trace(pair, "A READ_REQUEST 1 ack\n"
				"B READ_RESPONSE_FIRST 1\n"
				"B READ_RESPONSE_MIDDLE 2\n"
				"B READ_RESPONSE_MIDDLE 3\n"
				"B READ_RESPONSE_LAST 4\n"
				"A READ_REQUEST 4 ack\n"
				"B READ_RESPONSE_ONLY 4\n"
				"A READ_REQUEST 3 ack\n"
				"B READ_RESPONSE_ONLY 3\n");
	assert_memory_equal(pair->a.memory, pair->b.memory, 4096);
}

/* Soft-RoCE takes a READ of the end for one that replaces all. */
static void of_another_make_responses_are_waited_for(void **state)
{
	struct pair *pair = *state;

	begin(pair, 1 << 4);
	fill(pair->b.memory, 4096, 3);
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 0, 4096);
	pair_run_out(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_memory_equal(pair->a.memory, pair->b.memory, 4096);
	assert_int_equal(transport_counters(pair->a.qp)->probes, 0);
	assert_int_equal(transport_counters(pair->a.qp)->timeouts, 1);
}

static void an_atomic_is_done_once(void **state)
{
	struct pair *pair = *state;
	uint64_t *word = (uint64_t *)(void *)(pair->b.memory + 64);

	*word = 5;
	begin(pair, 1 << 1);
	side_atomic(&pair->a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 64, 7, 0);
	pair_run(pair);
	expect_soon(pair, 1);
	assert_int_equal(*word, 12);
}

/* The repair of the one gap is lost, with nothing behind it. */
static void a_lost_repair_is_looked_for(void **state)
{
	struct pair *pair = *state;

	begin(pair, 1 << 0 | 1 << 3);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 2048);
	pair_run(pair);
	expect_soon(pair, 1);
	pair_expect_trace(pair, "A WRITE_FIRST 1\n"
				"A WRITE_LAST 2 ack\n"
				"B GAPS 1\n"
				"A WRITE_FIRST 1 ack\n"
				"A WRITE_FIRST 1 ack\n"
				"B ACK 2\n");
}

/* It may be asleep, or gone: two, and the ACK timeout is what it ever was. */
static void a_silent_peer_gets_two(void **state)
{
	struct pair *pair = *state;

	begin(pair, 0);
	pair->meddle = pair_lose_all;
	side_request(&pair->a, pair->are_strangers ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, 1, 0,
		     4096);
	pair_run(pair);
	while (!transport_counters(pair->a.qp)->timeouts)
		assert_true(pair_wait(pair));
	assert_int_equal(pair->now - started, ack_timeout_ns(14));
	assert_int_equal(transport_counters(pair->a.qp)->probes, 2);
	while (!pair->a.cq->count)
		assert_true(pair_wait(pair));
	side_expect(&pair->a, 1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(transport_counters(pair->a.qp)->probes, 2);
	assert_int_equal(transport_counters(pair->a.qp)->timeouts, options.retry_cnt + 1);
}

/* Longer than the longest round trip was: measured, not guessed. */
static void the_round_trip_says_when(void **state)
{
	const uint64_t trip = 30000000;
	struct pair *pair = *state;

	begin(pair, 0);
	for (int i = 0; i < 30; i++) {
		side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 8);
		side_turn(&pair->a);
		pair->now += trip;
		pair_run(pair);
		side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	}
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 8);
	side_turn(&pair->a);
	assert_in_range(pair->a.qp->requester->probe.deadline - pair->now, 3 * trip / 2, 3 * trip);
}

static void who_is_not_ready_is_left_alone(void **state)
{
	struct pair *pair = *state;

	begin(pair, 0);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 8);
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_ONLY 1 ack\n"
				"B RNR 1\n");
	assert_true(pair->a.qp->requester->probe.deadline == NO_DEADLINE);
	assert_int_equal(transport_deadline(pair->a.qp) - pair->now, rnr_timer_ns(12));
}

static void a_limited_rate_is_kept(void **state)
{
	struct ibv_qp_rate_limit_attr attr = {.rate_limit = 8000, .max_burst_sz = 1100};
	struct pair *pair = *state;

	begin(pair, 0);
	assert_int_equal(qp_limit_rate(pair->a.qp, &attr), 0);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 100000);
	pair_run(pair);
	while (!pair->a.cq->count)
		assert_true(pair_wait(pair));
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_int_equal(transport_counters(pair->a.qp)->probes, 0);
	assert_int_equal(transport_counters(pair->a.qp)->resent, 0);
}

/* Within an address nothing is lost, and who does not answer does not run. */
static void nobody_near_is_probed(void **state)
{
	struct pair *pair = *state;

	pair->a.qp->requester->probe.is_far = false;
	begin(pair, 1 << 0);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 8);
	pair_run(pair);
	assert_int_equal(transport_deadline(pair->a.qp) - pair->now, ack_timeout_ns(14));
}

#define TEST(name)		cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_OF_STRANGERS(name) cmocka_unit_test_setup_teardown(name, set_up_strangers, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(the_end_of_a_message_goes_again),
	    TEST_OF_STRANGERS(so_it_does_to_another_make),
	    TEST_OF_STRANGERS(the_oldest_goes_next),
	    TEST(the_way_is_doubted_until_something_new_arrives),
	    TEST(a_new_send_ends_doubts_as_well),
	    TEST(an_ack_of_before_it_left_says_nothing_about_the_time),
	    TEST(of_what_goes_alone_one_in_eight_is_timed_once_the_round_trip_is_known),
	    TEST(a_round_ends_when_all_before_it_is_answered),
	    TEST(a_lost_ack_is_asked_for),
	    TEST_OF_STRANGERS(a_lost_ack_is_asked_for),
	    TEST(the_last_response_is_asked_for),
	    TEST_OF_STRANGERS(of_another_make_responses_are_waited_for),
	    TEST(an_atomic_is_done_once),
	    TEST(a_lost_repair_is_looked_for),
	    TEST(a_silent_peer_gets_two),
	    TEST_OF_STRANGERS(a_silent_peer_gets_two),
	    TEST(the_round_trip_says_when),
	    TEST(who_is_not_ready_is_left_alone),
	    TEST(a_limited_rate_is_kept),
	    TEST(nobody_near_is_probed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
