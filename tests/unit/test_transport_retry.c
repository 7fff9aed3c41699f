/* SPDX-License-Identifier: BSD-2-Clause */
/* RC when packets are lost, doubled and late, and when the peer is not ready: what is sent again
 * and how often. */
#include "transport/requester.h"
#include "transport_case.h"
#include "wire/timers.h"

static int lose_first(struct pair *pair, struct side *from, struct flying *packet)
{
	return pair->passed == 0 ? 0 : 1;
}

static int lose_second(struct pair *pair, struct side *from, struct flying *packet)
{
	return pair->passed == 1 ? 0 : 1;
}

static int lose_from_b_once(struct pair *pair, struct side *from, struct flying *packet)
{
	static const struct pair *done;

	if (from->name != 'B' || done == pair)
		return 1;
	done = pair;
	return 0;
}

/* A peer that knows only this kind of FLUSH; no peer answers the other kind. */
static bool knows_twice;

static int lose_other_flushes(struct pair *pair, struct side *from, struct flying *packet)
{
	return from->name != 'A' || bth_is_twice(packet->bytes) == knows_twice;
}

static void a_gap_is_told_by_one_nak_and_filled_at_once(void **state)
{
	struct pair *pair = *state;
	uint64_t before = pair->now;

	fill(pair->a.memory, 5000, 1);
	pair->are_strangers = true;
	pair->meddle = lose_second;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 5000);
	pair_run(pair);
	pair_expect_trace(pair, "A WRITE_FIRST 0\n"
				"A WRITE_MIDDLE 1\n"
				"A WRITE_MIDDLE 2\n"
				"A WRITE_MIDDLE 3\n"
				"A WRITE_LAST 4 ack\n"
				"B NAK0 1\n"
				"A WRITE_MIDDLE 1\n"
				"A WRITE_MIDDLE 2\n"
				"A WRITE_MIDDLE 3\n"
				"A WRITE_LAST 4 ack\n"
				"B ACK 4\n");
	assert_memory_equal(pair->a.memory, pair->b.memory, 5000);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_int_equal(pair->now, before);
	assert_int_equal(transport_counters(pair->a.qp)->sequence_naks_received, 1);
	assert_int_equal(transport_counters(pair->a.qp)->resent, 4);
	assert_int_equal(transport_counters(pair->b.qp)->out_of_order, 3);
}

static void a_lost_ack_is_asked_for_after_the_timeout(void **state)
{
	struct pair *pair = *state;
	uint64_t before = pair->now;

	side_post_recv(&pair->b, 7, 0, 100);
	pair->meddle = lose_from_b_once;
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 10);
	pair_run(pair);
	assert_true(pair_wait(pair));
	assert_int_equal(pair->now - before, ack_timeout_ns(14));
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\n"
				"B ACK 0\n"
				"A SEND_ONLY 0 ack\n"
				"B ACK 0\n");
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	side_expect_none(&pair->b);
	assert_int_equal(transport_counters(pair->a.qp)->timeouts, 1);
	assert_int_equal(transport_counters(pair->b.qp)->duplicates, 1);
}

static void retry_cnt_is_the_number_of_times_it_is_sent_again(void **state)
{
	struct pair *pair;

	for (int retries = 0; retries <= 7; retries++) {
		options.retry_cnt = retries;
		pair = pair_connected(&options);
		pair->meddle = pair_lose_all;
		side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 10);
		side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 0, 10);
		pair_run_out(pair);
		assert_int_equal(transport_counters(pair->a.qp)->timeouts, retries + 1);
		/* the window is one packet after a timeout */
		assert_int_equal(transport_counters(pair->a.qp)->sent_packets, 2 + retries);
		assert_int_equal(side_expect(&pair->a, 1, IBV_WC_RETRY_EXC_ERR).vendor_err,
				 REASON_RETRY_EXCEEDED);
		side_expect(&pair->a, 2, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(pair->a.qp->state, IBV_QPS_ERR);
		pair_free(pair);
	}
}

static bool says_gone(struct adapter *adapter, const struct qp *qp)
{
	return true;
}

static void a_peer_whose_process_has_ended_is_not_asked_again(void **state)
{
	struct adapter_host host = pair_host;
	struct pair *pair;

	host.is_peer_gone = says_gone;
	options.retry_cnt = 7;
	pair = pair_connected(&options);
	pair->a.adapter.host = &host;
	/* one that answers is not asked about */
	side_post_recv(&pair->b, 7, 0, 10);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 10);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	pair->meddle = pair_lose_all;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 0, 10);
	pair_run_out(pair);
	assert_int_equal(transport_counters(pair->a.qp)->timeouts, 1);
	assert_int_equal(side_expect(&pair->a, 2, IBV_WC_RETRY_EXC_ERR).vendor_err,
			 REASON_RETRY_EXCEEDED);
	assert_int_equal(pair->a.qp->state, IBV_QPS_ERR);
	pair_free(pair);
}

static void the_timer_runs_for_one_to_four_times_the_timeout(void **state)
{
	const unsigned int times[] = {1, 2, 4, 4, 4};
	struct pair *pair = *state;
	uint64_t before;

	pair->meddle = pair_lose_all;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 10);
	pair_run(pair);
	for (int i = 0; i < 5; i++) {
		before = pair->now;
		pair_wait(pair);
		assert_int_equal(pair->now - before, times[i] * ack_timeout_ns(14));
	}
	pair->meddle = NULL;
	pair_run_out(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 0, 10);
	side_turn(&pair->a);
	assert_int_equal(pair->a.qp->requester->ack_deadline - pair->now, ack_timeout_ns(14));
}

static void post_flush(struct pair *pair)
{
	struct send_wqe *wqe;

	sq_begin(pair->a.qp);
	wqe = sq_next(pair->a.qp);
	wqe->opcode = IBV_WR_FLUSH;
	wqe->flags = IBV_SEND_SIGNALED;
	wqe->remote_addr = (uintptr_t)pair->b.memory;
	wqe->rkey = pair->b.mr->rkey;
	wqe->length = 8;
	wqe->flush.type = IBV_FLUSH_GLOBAL;
	wqe->flush.level = IBV_FLUSH_RANGE;
	sq_commit(pair->a.qp);
	pair_schedule(&pair->a.adapter, pair->a.qp);
	pair_run_out(pair);
	assert_int_equal(side_expect(&pair->a, 0, IBV_WC_SUCCESS).opcode, IBV_WC_FLUSH);
}

/* Soft-RoCE wants an ICRC of its own for it (icrc.h); what was answered is kept to. */
static void a_flush_without_answer_goes_with_the_other_icrc(void **state)
{
	struct pair *pair = *state;
	const struct transport_counters *counters = transport_counters(pair->a.qp);

	pair->meddle = lose_other_flushes;
	knows_twice = false;
	post_flush(pair);
	assert_int_equal(counters->timeouts, 0);
	knows_twice = true;
	post_flush(pair);
	assert_int_equal(counters->timeouts, 1);
	post_flush(pair);
	assert_int_equal(counters->timeouts, 1);
	knows_twice = false;
	post_flush(pair);
	assert_int_equal(counters->timeouts, 2);
}

static void timeout_zero_waits_for_ever(void **state)
{
	struct pair *pair;

	options.timeout = 0;
	pair = pair_connected(&options);
	pair->meddle = pair_lose_all;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 10);
	pair_run(pair);
	assert_false(pair_wait(pair));
	side_expect_none(&pair->a);
	pair_free(pair);
}

static void progress_fills_the_retry_counter_again(void **state)
{
	struct pair *pair;

	options.retry_cnt = 1;
	pair = pair_connected(&options);
	for (int i = 0; i < 10; i++) {
		pair->passed = 0;
		pair->meddle = lose_first;
		side_request(&pair->a, IBV_WR_RDMA_WRITE, i, 0, 10);
		pair_run_out(pair);
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	}
	pair_free(pair);
}

static void a_lost_read_response_is_asked_for_from_where_it_is_missing(void **state)
{
	struct pair *pair = *state;

	fill(pair->b.memory, 4096, 2);
	pair->are_strangers = true;
	pair->meddle = lose_second;
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 0, 4096);
	pair->passed = -1; /* the second response */
	pair_run(pair);
	pair_expect_trace(pair, "A READ_REQUEST 0 ack\n"
				"B READ_RESPONSE_FIRST 0\n"
				"B READ_RESPONSE_MIDDLE 1\n"
				"B READ_RESPONSE_MIDDLE 2\n"
				"B READ_RESPONSE_LAST 3\n"
				"A READ_REQUEST 1 ack\n"
				"B READ_RESPONSE_FIRST 1\n"
				"B READ_RESPONSE_MIDDLE 2\n"
				"B READ_RESPONSE_LAST 3\n");
	assert_memory_equal(pair->a.memory, pair->b.memory, 4096);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_int_equal(transport_counters(pair->a.qp)->implied_naks, 2);
}

static void an_atomic_is_done_once_however_often_it_comes(void **state)
{
	struct pair *pair = *state;
	uint64_t *word = (uint64_t *)(void *)pair->b.memory;

	*word = 10;
	pair->meddle = pair_double;
	for (int i = 0; i < 3; i++)
		side_atomic(&pair->a, IBV_WR_ATOMIC_FETCH_AND_ADD, i, 8 * i, 0, 1, 0);
	pair_run(pair);
	assert_int_equal(*word, 13);
	for (int i = 0; i < 3; i++) {
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
		assert_int_equal(((uint64_t *)(void *)pair->a.memory)[i], 10 + i);
	}
	side_expect_none(&pair->a);
}

static void the_answer_of_a_lost_atomic_answer_is_the_old_one(void **state)
{
	struct pair *pair = *state;
	uint64_t *word = (uint64_t *)(void *)pair->b.memory;

	*word = 10;
	pair->meddle = lose_from_b_once;
	side_atomic(&pair->a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 0, 5, 0);
	pair_run_out(pair);
	assert_int_equal(*word, 15);
	assert_int_equal(*(uint64_t *)(void *)pair->a.memory, 10);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

static void doubled_packets_change_nothing(void **state)
{
	struct pair *pair = *state;

	fill(pair->a.memory, 10000, 3);
	pair->meddle = pair_double;
	side_post_recv(&pair->b, 7, 20000, 10000);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 10000);
	side_request(&pair->a, IBV_WR_RDMA_READ, 2, 40000, 10000);
	pair_run(pair);
	assert_memory_equal(pair->a.memory, pair->b.memory + 20000, 10000);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
	side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	side_expect_none(&pair->b);
}

static void rnr_waits_the_time_that_the_peer_says(void **state)
{
	struct pair *pair = *state;
	uint64_t before = pair->now;

	side_request(&pair->a, IBV_WR_SEND, 1, 0, 10);
	side_request(&pair->a, IBV_WR_SEND, 2, 0, 10);
	pair_run(pair);
	assert_int_equal(transport_deadline(pair->a.qp), before + rnr_timer_ns(12));
	side_post_recv(&pair->b, 7, 0, 10);
	side_post_recv(&pair->b, 8, 0, 10);
	pair_run(pair);
	side_expect_none(&pair->a);
	pair_wait(pair);
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\n"
				"A SEND_ONLY 1 ack\n"
				"B RNR 0\n"
				"A SEND_ONLY 0 ack\n"
				"A SEND_ONLY 1 ack\n"
				"B ACK 1\n");
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
}

static void rnr_retry_is_the_number_of_times_it_is_sent_again(void **state)
{
	struct pair *pair;

	for (int retries = 0; retries < 7; retries++) {
		options.rnr_retry = retries;
		pair = pair_connected(&options);
		side_request(&pair->a, IBV_WR_SEND, 1, 0, 10);
		pair_run_out(pair);
		assert_int_equal(transport_counters(pair->a.qp)->rnr_naks_received, retries + 1);
		assert_int_equal(side_expect(&pair->a, 1, IBV_WC_RNR_RETRY_EXC_ERR).vendor_err,
				 REASON_RNR_RETRY_EXCEEDED);
		pair_free(pair);
	}
}

static void rnr_retry_seven_is_for_ever(void **state)
{
	struct pair *pair = *state;

	side_request(&pair->a, IBV_WR_SEND, 1, 0, 10);
	pair_run(pair);
	for (int i = 0; i < 100; i++)
		assert_true(pair_wait(pair));
	side_post_recv(&pair->b, 7, 0, 10);
	pair_wait(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

static int late_ack_of_read(struct pair *pair, struct side *from, struct flying *packet)
{
	struct wire_packet wire;

	/* the last response of the READ is lost, the ACK behind it is not */
	wire_parse(&wire, packet->bytes, packet->size);
	return pair->passed < 5 && (wire.op->flags & OPF_READ_RESPONSE) &&
		       (wire.op->flags & OPF_END)
		   ? 0
		   : 1;
}

static void an_ack_behind_a_lost_answer_is_a_nak_of_it(void **state)
{
	struct pair *pair = *state;

	fill(pair->b.memory, 2048, 4);
	pair->are_strangers = true;
	pair->meddle = late_ack_of_read;
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 0, 2048);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 4000, 8);
	pair_run(pair);
	pair_expect_trace(pair, "A READ_REQUEST 0 ack\n"
				"A WRITE_ONLY 2 ack\n"
				"B READ_RESPONSE_FIRST 0\n"
				"B READ_RESPONSE_LAST 1\n"
				"B ACK 2\n"
				"A READ_REQUEST 1 ack\n"
				"A WRITE_ONLY 2 ack\n"
				"B READ_RESPONSE_ONLY 1\n"
				"B ACK 2\n");
	assert_memory_equal(pair->a.memory, pair->b.memory, 2048);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
}

static void answers_to_nothing_are_ignored(void **state)
{
	struct pair *pair = *state;
	static struct flying ack;

	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 8);
	side_turn(&pair->a);
	pair_deliver(pair);
	side_turn(&pair->b);
	ack = pair->packets[pair->first];
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 0, 8);
	side_turn(&pair->a);
	side_receive(&pair->a, &ack); /* an old one */
	ack.bytes[9] ^= 0x10;	      /* one for what was never sent */
	side_receive(&pair->a, &ack);
	side_expect_none(&pair->a);
	assert_int_equal(transport_counters(pair->a.qp)->ghosts, 2);
	pair_run(pair);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
}

/* Makes all of B's ACKs say that it has `credits` receive work requests. */
static uint8_t credits;

static int with_credits(struct pair *pair, struct side *from, struct flying *packet)
{
	if (from->name == 'B' && packet->bytes[0] == OP_ACKNOWLEDGE)
		packet->bytes[12] = AETH_ACK | aeth_credit_code(credits);
	return 1;
}

static void credits_bound_what_is_sent_and_one_packet_asks_for_more(void **state)
{
	struct pair *pair = *state;

	pair->meddle = with_credits;
	credits = 2;
	for (int i = 0; i < 6; i++)
		side_post_recv(&pair->b, i, 0, 4000);
	side_request(&pair->a, IBV_WR_SEND, 0, 0, 10);
	pair_run(pair);
	pair->trace[0] = '\0';
	for (int i = 1; i < 5; i++)
		side_request(&pair->a, IBV_WR_SEND, i, 0, 10);
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_ONLY 1 ack\n"
				"A SEND_ONLY 2 ack\n"
				"B ACK 2\n"
				"A SEND_ONLY 3 ack\n"
				"A SEND_ONLY 4 ack\n"
				"B ACK 4\n");
	credits = 0;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 5, 0, 10); /* its ACK leaves none */
	pair_run(pair);
	pair->trace[0] = '\0';
	side_request(&pair->a, IBV_WR_SEND, 6, 0, 2000);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 7, 0, 10);
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_FIRST 6 ack\n"
				"B ACK 6\n"
				"A SEND_LAST 7 ack\n"
				"A WRITE_ONLY 8 ack\n"
				"B ACK 8\n");
}

static void a_qp_that_goes_repeats_its_last_ack(void **state)
{
	struct pair *pair = *state;

	side_post_recv(&pair->b, 7, 0, 100);
	pair->meddle = lose_from_b_once;
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 10);
	pair_run(pair);
	side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	transport_part(pair->b.qp, &pair->b.outbox);
	transport_part(pair->a.qp, &pair->a.outbox); /* has nothing to say */
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\n"
				"B ACK 0\n"
				"B ACK 0\n"
				"B ACK 0\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(a_gap_is_told_by_one_nak_and_filled_at_once),
	    TEST(a_lost_ack_is_asked_for_after_the_timeout),
	    TEST(retry_cnt_is_the_number_of_times_it_is_sent_again),
	    TEST(a_peer_whose_process_has_ended_is_not_asked_again),
	    TEST(the_timer_runs_for_one_to_four_times_the_timeout),
	    TEST(timeout_zero_waits_for_ever),
	    TEST(a_flush_without_answer_goes_with_the_other_icrc),
	    TEST(progress_fills_the_retry_counter_again),
	    TEST(a_lost_read_response_is_asked_for_from_where_it_is_missing),
	    TEST(an_atomic_is_done_once_however_often_it_comes),
	    TEST(the_answer_of_a_lost_atomic_answer_is_the_old_one),
	    TEST(doubled_packets_change_nothing),
	    TEST(rnr_waits_the_time_that_the_peer_says),
	    TEST(rnr_retry_is_the_number_of_times_it_is_sent_again),
	    TEST(rnr_retry_seven_is_for_ever),
	    TEST(an_ack_behind_a_lost_answer_is_a_nak_of_it),
	    TEST(answers_to_nothing_are_ignored),
	    TEST(a_qp_that_goes_repeats_its_last_ack),
	    TEST(credits_bound_what_is_sent_and_one_packet_asks_for_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
