/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ACKs where all that is in flight left as records: taken in by fewer steps, which neither the
 * window nor the probe have part in. As soon as a packet is among it, all is as for packets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "express_pair.h"

static bool acknowledge(struct pair *pair, uint32_t psn)
{
	struct packet packet = {.sgid = pair->b.gid, .dgid = pair->a.gid};

	return express_take_ack(pair->a.qp, &packet, pair->a.qp->pkey, psn, NULL, pair->now);
}

static uint32_t window_of(const struct pair *pair)
{
	return pair->a.qp->requester->window.packets;
}

static void send_by_packets(struct pair *pair, uint64_t wr_id)
{
	void *reserve = pair->a.outbox.reserve_express;

	pair->a.outbox.reserve_express = NULL;
	send(pair, wr_id);
	side_turn(&pair->a);
	pair->a.outbox.reserve_express = reserve;
}

static void the_window_grows_by_packets_alone(void **state)
{
	struct pair *pair = *state;
	uint32_t window = window_of(pair);

	send(pair, 1);
	assert_true(acknowledge(pair, pair->a.psn));
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_int_equal(window_of(pair), window);
	send_by_packets(pair, 2);
	assert_true(acknowledge(pair, pair->a.psn + 1));
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	assert_int_equal(window_of(pair), window + 1);
	send(pair, 3);
	assert_true(acknowledge(pair, pair->a.psn + 2));
	side_expect(&pair->a, 3, IBV_WC_SUCCESS);
	assert_int_equal(window_of(pair), window + 1);
}

static void a_record_behind_a_packet_is_acknowledged_with_it(void **state)
{
	struct pair *pair = *state;
	uint32_t window = window_of(pair);

	send_by_packets(pair, 1);
	send(pair, 2);
	assert_true(acknowledge(pair, pair->a.psn + 1));
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	assert_int_equal(window_of(pair), window + 2);
	assert_int_equal(transport_deadline(pair->a.qp), NO_DEADLINE);
}

static void what_is_left_behind_it_has_its_timer_started(void **state)
{
	struct pair *pair = *state;

	send(pair, 1);
	send(pair, 2);
	transport_time(pair->a.qp, pair->now);
	assert_int_not_equal(transport_deadline(pair->a.qp), NO_DEADLINE);
	assert_true(acknowledge(pair, pair->a.psn));
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
	assert_int_equal(transport_deadline(pair->a.qp), NO_DEADLINE);
	assert_true(transport_is_untimed(pair->a.qp));
	assert_true(acknowledge(pair, pair->a.psn + 1));
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	assert_false(transport_is_untimed(pair->a.qp));
}

static void one_with_immediate_among_others(void **state)
{
	struct pair *pair = *state;
	struct ibv_wc wc;

	send(pair, 1);
	side_request(&pair->a, IBV_WR_SEND_WITH_IMM, 2, 0, 10);
	send(pair, 3);
	assert_true(acknowledge(pair, pair->a.psn + 2));
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	wc = side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	side_expect(&pair->a, 3, IBV_WC_SUCCESS);
	assert_int_equal(pair->a.qp->requester->counters.acks_received, 1);
	assert_int_equal(pair->a.qp->requester->una, pair->a.qp->requester->end);
}

/* The first packets of it arrived as such. */
static void part_of_a_long_message_completes_nothing(void **state)
{
	struct pair *pair = *state;
	uint32_t mtu = pair->a.qp->mtu;

	send(pair, 1);
	side_request(&pair->a, IBV_WR_SEND, 2, 0, 3 * mtu);
	assert_true(acknowledge(pair, pair->a.psn + 2));
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
	assert_int_equal(pair->a.qp->requester->una, pair->a.psn + 3);
	assert_true(acknowledge(pair, pair->a.psn + 3));
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
}

static void what_is_not_in_flight_is_not_acknowledged(void **state)
{
	struct pair *pair = *state;

	send(pair, 1);
	assert_false(acknowledge(pair, pair->a.psn + 1));
	assert_false(acknowledge(pair, pair->a.psn - 1));
	side_expect_none(&pair->a);
	assert_true(acknowledge(pair, pair->a.psn));
	assert_false(acknowledge(pair, pair->a.psn));
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
}

/* After half of all PSNs a mark that stays would seem to lie ahead. */
static void the_mark_behind_packets_goes_on(void **state)
{
	struct pair *pair = *state;
	struct requester *requester = pair->a.qp->requester;

	send(pair, 1);
	assert_true(acknowledge(pair, pair->a.psn));
	assert_int_equal(requester->packets_end, requester->una);
	side_request(&pair->a, IBV_WR_SEND_WITH_IMM, 2, 0, 10);
	assert_true(acknowledge(pair, pair->a.psn + 1));
	assert_int_equal(requester->packets_end, requester->una);
}

/* Nobody answered in time: the first goes again, and its ACK is for the general path. */
static void what_goes_again_are_packets(void **state)
{
	struct pair *pair = *state;
	struct requester *requester = pair->a.qp->requester;

	send(pair, 1);
	send(pair, 2);
	pair->count = 0; /* lost */
	transport_time(pair->a.qp, pair->now);
	pair->now = transport_deadline(pair->a.qp);
	side_turn(&pair->a);
	assert_int_equal(requester->packets_end, requester->end);
	assert_true(requester->retries_left < pair->a.qp->attr.retry_cnt);
	assert_false(acknowledge(pair, pair->a.psn));
	side_expect_none(&pair->a);
	receive(pair, 1);
	receive(pair, 2);
	pair_run(pair);
	expect_message(pair, 1, 1);
	expect_message(pair, 2, 2);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	assert_int_equal(requester->retries_left, pair->a.qp->attr.retry_cnt);
	assert_int_equal(requester->packets_end, requester->una);
}

/* ---- the oldest message alone ---- */

static bool acknowledge_single(struct pair *pair, uint32_t psn)
{
	return completer_acknowledge_single(pair->a.qp, psn, NULL, pair->now);
}

static void it_leaves_what_any_ack_does(void **state)
{
	struct pair *pair = *state, *other = acquainted(express_options());
	const struct requester *left = pair->a.qp->requester, *right = other->a.qp->requester;

	for (uint64_t i = 1; i <= 3; i++) {
		send(pair, i);
		send(other, i);
	}
	for (uint64_t i = 1; i <= 3; i++) {
		uint32_t psn = pair->a.psn + (uint32_t)i - 1;

		assert_true(acknowledge_single(pair, psn));
		assert_true(express_can_acknowledge(other->a.qp, psn));
		express_acknowledged(other->a.qp, psn, NULL, other->now);
		assert_memory_equal(left, right, offsetof(struct requester, rate_next));
		assert_int_equal(sq_head(pair->a.qp), sq_head(other->a.qp));
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
		side_expect(&other->a, i, IBV_WC_SUCCESS);
	}
	pair_free(other);
}

static void expect_left_alone(struct pair *pair, uint32_t psn)
{
	uint32_t una = pair->a.qp->requester->una;

	assert_false(acknowledge_single(pair, psn));
	assert_int_equal(pair->a.qp->requester->una, una);
	side_expect_none(&pair->a);
}

static void what_is_none_is_left_alone(void **state)
{
	struct pair *pair = *state;

	expect_left_alone(pair, pair->a.psn); /* nothing is in flight */
	send(pair, 1);
	send(pair, 2);
	expect_left_alone(pair, pair->a.psn + 1);
	pair->a.qp->counted = IBV_QP_ATTACH_COMP_CNTR_OP_SEND;
	expect_left_alone(pair, pair->a.psn);
	pair->a.qp->counted = 0;
	assert_true(acknowledge(pair, pair->a.psn + 1));
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	side_request(&pair->a, IBV_WR_SEND_WITH_IMM, 3, 0, 10);
	expect_left_alone(pair, pair->a.psn + 2);
	assert_true(acknowledge(pair, pair->a.psn + 2));
	side_expect(&pair->a, 3, IBV_WC_SUCCESS);
	side_request(&pair->a, IBV_WR_SEND, 4, 0, 3 * pair->a.qp->mtu);
	expect_left_alone(pair, pair->a.psn + 3);
}

static void nor_is_a_packet_one(void **state)
{
	struct pair *pair = *state;

	send_by_packets(pair, 1);
	expect_left_alone(pair, pair->a.psn);
}

static void nor_one_whose_completion_has_no_room(void **state)
{
	struct pair_options options = *express_options();
	struct pair *pair;

	(void)state;
	options.cqe = 1;
	pair = acquainted(&options);
	send(pair, 1);
	send(pair, 2);
	assert_true(acknowledge_single(pair, pair->a.psn));
	assert_false(acknowledge_single(pair, pair->a.psn + 1));
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_true(acknowledge_single(pair, pair->a.psn + 1));
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	pair_free(pair);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    express_test(the_window_grows_by_packets_alone),
	    express_test(a_record_behind_a_packet_is_acknowledged_with_it),
	    express_test(what_is_left_behind_it_has_its_timer_started),
	    express_test(one_with_immediate_among_others),
	    express_test(part_of_a_long_message_completes_nothing),
	    express_test(what_is_not_in_flight_is_not_acknowledged),
	    express_test(the_mark_behind_packets_goes_on),
	    express_test(what_goes_again_are_packets),
	    express_test(it_leaves_what_any_ack_does),
	    express_test(what_is_none_is_left_alone),
	    express_test(nor_is_a_packet_one),
	    cmocka_unit_test(nor_one_whose_completion_has_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
