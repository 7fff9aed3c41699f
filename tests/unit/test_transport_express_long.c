/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of messages that are longer than a path MTU: one stands for several packets, takes their
 * PSNs, and comes to what they would come to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "express_pair.h"
#include "wire/mtu.h"

enum { LONG = 3000, AT = 65536, TO = 131072, EACH = 16384 }; /* three packets of 1024 */

static void receive_long(struct pair *pair, uint64_t wr_id, uint32_t length)
{
	side_post_recv(&pair->b, wr_id, TO + wr_id * EACH, length);
}

static void send_long(struct pair *pair, enum ibv_wr_opcode opcode, uint64_t wr_id, uint32_t length)
{
	fill(pair->a.memory + AT + wr_id * EACH, length, (unsigned int)wr_id);
	side_request(&pair->a, opcode, wr_id, AT + wr_id * EACH, length);
}

static struct ibv_wc expect_long(struct pair *pair, uint64_t wr_id, uint32_t length)
{
	struct ibv_wc wc = side_expect(&pair->b, wr_id, IBV_WC_SUCCESS);

	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, length);
	assert_memory_equal(pair->b.memory + TO + wr_id * EACH, pair->a.memory + AT + wr_id * EACH,
			    length);
	return wc;
}

/* ---- one record, several PSNs ---- */

static void it_takes_the_psns_of_its_packets(void **state)
{
	struct pair *pair = *state;
	const struct transport_counters *sent = transport_counters(pair->a.qp);
	const struct transport_counters *received = transport_counters(pair->b.qp);
	struct ibv_wc wc;

	receive_long(pair, 1, LONG);
	receive(pair, 2);
	pair_run(pair);
	send_long(pair, IBV_WR_SEND_WITH_IMM, 1, LONG);
	send(pair, 2);
	pair_run(pair);
	pair_expect_trace(pair, "A express 0\nA express 3\nB ACK 3\n");
	wc = expect_long(pair, 1, LONG);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(be32toh(wc.imm_data), 0x12345678);
	expect_message(pair, 2, 2);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	assert_int_equal(pair->glances, 2);
	assert_int_equal(pair->b.qp->responder->msn, 2);
	assert_int_equal(sent->expressed, 2);
	assert_int_equal(sent->sent_packets, 4);
	assert_int_equal(received->received_packets, 4);
	assert_int_equal(sent->sent_bytes, 4 * BTH_BYTES + 4 + LONG + BYTES);
	assert_int_equal(received->received_bytes, sent->sent_bytes);
	expect_coherent(pair);
}

/* What the counters and PSNs say is what packets come to, of each length around whole packets. */
static void as_packets_at_each_path_mtu(void **state)
{
	(void)state;
	for (int code = 1; code <= 5; code++) {
		uint32_t mtu = mtu_bytes(code);
		const uint32_t lengths[] = {0, mtu - 1, mtu, mtu + 1, 2 * mtu, 4 * mtu - 1};

		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			struct transport_counters counters[2][2];
			uint32_t end[2];

			for (int by_packets = 0; by_packets < 2; by_packets++) {
				struct pair_options options = *express_options();
				struct pair *pair;

				options.mtu = (enum ibv_mtu)code;
				options.has_express = !by_packets;
				pair = acquainted(&options);
				receive_long(pair, 1, EACH);
				pair_run(pair);
				send_long(pair, IBV_WR_SEND, 1, lengths[i]);
				pair_run(pair);
				expect_long(pair, 1, lengths[i]);
				side_expect(&pair->a, 1, IBV_WC_SUCCESS);
				expect_coherent(pair);
				assert_int_equal(pair->glances, !by_packets);
				counters[by_packets][0] = *transport_counters(pair->a.qp);
				counters[by_packets][1] = *transport_counters(pair->b.qp);
				end[by_packets] = pair->a.qp->requester->end;
				pair_free(pair);
			}
			assert_int_equal(end[0], end[1]);
			assert_int_equal(counters[0][0].sent_packets, counters[1][0].sent_packets);
			assert_int_equal(counters[0][0].sent_bytes, counters[1][0].sent_bytes);
			assert_int_equal(counters[0][1].received_packets,
					 counters[1][1].received_packets);
			assert_int_equal(counters[0][1].received_bytes,
					 counters[1][1].received_bytes);
		}
	}
}

static void its_psns_wrap(void **state)
{
	struct pair_options options = *express_options();
	struct pair *pair;

	(void)state;
	options.psn_a = PSN_MASK - 1; /* the third packet's is 0 */
	pair = acquainted(&options);
	for (uint64_t i = 1; i < 4; i++) {
		receive_long(pair, i, LONG);
		pair_run(pair);
		send_long(pair, IBV_WR_SEND, i, LONG);
		pair_run(pair);
		expect_long(pair, i, LONG);
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	}
	assert_int_equal(pair->a.qp->requester->end, 7);
	assert_int_equal(pair->glances, 3);
	expect_coherent(pair);
	pair_free(pair);
}

static void a_reply_brings_the_ack_of_all_of_it(void **state)
{
	struct pair *pair = *state;

	receive_long(pair, 1, LONG);
	side_post_recv(&pair->a, 7, 2048, 100);
	pair_run(pair);
	send_long(pair, IBV_WR_SEND, 1, LONG);
	pair_deliver(pair);
	side_request(&pair->b, IBV_WR_SEND, 3, 0, 10);
	pair_deliver(pair);
	pair_expect_trace(pair, "A express 0\nB express 0 ACK 2\n");
	expect_long(pair, 1, LONG);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 7, IBV_WC_SUCCESS);
	pair_run(pair);
	expect_coherent(pair);
}

/* Of several that nobody is told of, an ACK that ends within one leaves that one where it is. */
static void an_ack_within_it_is_of_those_before(void **state)
{
	struct pair *pair = *state;
	struct wire_packet ack;
	struct express express;

	pair->a.qp->sq_sig_all = false;
	for (uint64_t i = 1; i < 4; i++)
		send_long(pair, IBV_WR_SEND, i, LONG);
	pair->count = 0;
	express = (struct express){.to = pair->a.qp->number | EXPRESS_ACK << 24,
				   .ack = psn_add(pair->a.psn, 4),
				   .pkey = pair->a.qp->pkey};
	assert_true(express_ack_packet(&express, &ack));
	completer_receive(pair->a.qp, &ack, pair->now);
	assert_int_equal(sq_head(pair->a.qp), 1);
	assert_int_equal(psn_into(pair->a.qp->requester->una, pair->a.psn), 5);
	assert_int_equal(side_modify(&pair->a, IBV_QPS_ERR), 0);
	side_expect(&pair->a, 2, IBV_WC_WR_FLUSH_ERR);
	side_expect(&pair->a, 3, IBV_WC_WR_FLUSH_ERR);
	side_expect_none(&pair->a);
}

/* More than that could not be held behind one that is lost. */
static void so_many_psns_are_in_flight_at_most(void **state)
{
	struct pair_options options = *express_options();
	struct pair *pair;
	uint32_t posted = 0;

	(void)state;
	options.mtu = IBV_MTU_256;
	pair = acquainted(&options);
	for (; !transport_waits(pair->a.qp); posted++)
		send_long(pair, IBV_WR_SEND, posted % 4, 64 * 256);
	assert_int_equal(posted, EXPRESS_PSNS / 64 + 1);
	assert_int_equal(psn_into(pair->a.qp->requester->end, pair->a.qp->requester->una),
			 EXPRESS_PSNS);
	for (uint32_t i = 0; i < posted; i++)
		receive_long(pair, i % 4, EACH);
	pair_run(pair);
	for (uint32_t i = 0; i < posted; i++)
		side_expect(&pair->a, i % 4, IBV_WC_SUCCESS);
	expect_coherent(pair);
	pair_free(pair);
}

/* ---- what is not as it should be ---- */

static void without_a_receive_it_comes_again_as_packets(void **state)
{
	struct pair *pair = *state;

	send_long(pair, IBV_WR_SEND, 1, LONG);
	send_long(pair, IBV_WR_SEND_WITH_IMM, 2, LONG);
	pair_run(pair);
	pair_expect_trace(pair, "A express 0\nA express 3\nB RNR 0\n");
	receive_long(pair, 1, LONG);
	receive_long(pair, 2, LONG);
	pair_run_out(pair);
	pair_expect_trace(pair,
			  "A SEND_FIRST 0\nA SEND_MIDDLE 1\nA SEND_LAST 2 ack\n"
			  "A SEND_FIRST 3\nA SEND_MIDDLE 4\nA SEND_LAST_IMM 5 ack\nB ACK 5\n");
	for (uint64_t i = 1; i < 3; i++) {
		expect_long(pair, i, LONG);
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	}
	expect_coherent(pair);
	receive_long(pair, 3, LONG);
	send_long(pair, IBV_WR_SEND, 3, LONG);
	pair_expect_trace(pair, "A express 6\n");
}

static void nobody_ever_posts_a_receive(void **state)
{
	struct pair_options options = *express_options();
	struct pair *pair;

	(void)state;
	options.rnr_retry = 2;
	pair = acquainted(&options);
	send_long(pair, IBV_WR_SEND, 1, LONG);
	send(pair, 2);
	pair_run_out(pair);
	side_expect(&pair->a, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	side_expect(&pair->a, 2, IBV_WC_WR_FLUSH_ERR);
	pair_free(pair);
}

static void nobody_ever_answers(void **state)
{
	struct pair *pair = *state;

	pair->meddle = pair_lose_all;
	send_long(pair, IBV_WR_SEND, 1, LONG);
	pair_run_out(pair);
	side_expect(&pair->a, 1, IBV_WC_RETRY_EXC_ERR);
}

static void a_receive_that_is_too_small(void **state)
{
	struct pair *pair = *state;

	receive_long(pair, 1, 2 * 1024);
	send_long(pair, IBV_WR_SEND, 1, LONG);
	pair_run(pair);
	pair_expect_trace(pair, "A express 0\nB NAK1 2\n"); /* of its third packet */
	side_expect(&pair->b, 1, IBV_WC_LOC_LEN_ERR);
	side_expect(&pair->a, 1, IBV_WC_REM_INV_REQ_ERR);
}

static void a_lost_one_goes_again_as_packets(void **state)
{
	struct pair *pair = *state;

	pair->are_strangers = true;
	for (uint64_t i = 1; i < 3; i++)
		receive_long(pair, i, LONG);
	pair_run(pair);
	send_long(pair, IBV_WR_SEND, 1, LONG);
	pair->count = 0;
	send_long(pair, IBV_WR_SEND, 2, LONG);
	pair_run(pair);
	pair_expect_trace(pair, "A express 0\nA express 3\nB NAK0 0\n"
				"A SEND_FIRST 0\nA SEND_MIDDLE 1\nA SEND_LAST 2 ack\n"
				"A SEND_FIRST 3\nA SEND_MIDDLE 4\nA SEND_LAST 5 ack\nB ACK 5\n");
	for (uint64_t i = 1; i < 3; i++) {
		expect_long(pair, i, LONG);
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	}
	expect_coherent(pair);
}

static void what_is_behind_a_lost_one_is_held(void **state)
{
	struct pair *pair = *state;

	pair->a.qp->requester->is_peer_ours = pair->b.qp->requester->is_peer_ours = true;
	for (uint64_t i = 1; i < 4; i++)
		receive_long(pair, i, LONG);
	pair_run(pair);
	send_long(pair, IBV_WR_SEND, 1, LONG);
	pair->count = 0;
	send_long(pair, IBV_WR_SEND, 2, LONG);
	send_long(pair, IBV_WR_SEND, 3, LONG);
	pair_run_out(pair);
	for (uint64_t i = 1; i < 4; i++) {
		expect_long(pair, i, LONG);
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	}
	assert_int_equal(pair->a.qp->requester->counters.resent, 3);
	expect_coherent(pair);
}

static void its_lost_ack_is_asked_for(void **state)
{
	struct pair *pair = *state;

	receive_long(pair, 1, LONG);
	pair_run(pair);
	send_long(pair, IBV_WR_SEND, 1, LONG);
	pair_deliver(pair);
	assert_true(express_acknowledge(pair->b.qp, &pair->b.outbox));
	pair->count = 0;
	pair_run_out(pair);
	expect_long(pair, 1, LONG);
	side_expect_none(&pair->b); /* once */
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	expect_coherent(pair);
}

/* It has no path MTU then. */
static void a_queue_pair_before_rtr_takes_none(void **state)
{
	struct pair *pair = *state;
	uint32_t mtu = pair->b.qp->mtu;

	receive_long(pair, 1, LONG);
	pair_run(pair);
	atomic_store(&pair->b.qp->state, IBV_QPS_INIT);
	pair->b.qp->mtu = 0;
	send_long(pair, IBV_WR_SEND, 1, LONG);
	pair_run(pair);
	side_expect_none(&pair->b);
	atomic_store(&pair->b.qp->state, IBV_QPS_RTS);
	pair->b.qp->mtu = mtu;
	pair_run_out(pair);
	expect_long(pair, 1, LONG);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

static void what_comes_twice_is_received_once(void **state)
{
	struct pair *pair = *state;

	receive_long(pair, 1, LONG);
	receive_long(pair, 2, LONG);
	pair_run(pair);
	pair->meddle = pair_double;
	send_long(pair, IBV_WR_SEND, 1, LONG);
	pair_run(pair);
	expect_long(pair, 1, LONG);
	side_expect_none(&pair->b);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
	expect_coherent(pair);
}

static void receive_three(struct pair *pair)
{
	for (uint64_t i = 1; i < 4; i++)
		receive_long(pair, i, LONG);
	pair_run(pair);
}

static void expect_three(struct pair *pair)
{
	for (uint64_t i = 1; i < 4; i++) {
		expect_long(pair, i, LONG);
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	}
	expect_coherent(pair);
}

/* Begun by packets, as nobody polled then, of which there was no room for the last: what is behind
 * it goes as records all the same, whatever the window cuts in two. */
static void the_general_path_ends_what_it_began(void **state)
{
	struct pair *pair = *state;
	void *reserve = pair->a.outbox.reserve_express;

	receive_three(pair);
	pair->a.outbox.reserve_express = NULL;
	send_long(pair, IBV_WR_SEND, 1, LONG);
	pair->room = 2;
	side_turn(&pair->a);
	pair_expect_trace(pair, "A SEND_FIRST 0\nA SEND_MIDDLE 1\n");
	pair->a.outbox.reserve_express = reserve;
	pair->room = UINT32_MAX;
	send_long(pair, IBV_WR_SEND, 2, LONG); /* not before it */
	send_long(pair, IBV_WR_SEND, 3, LONG);
	pair_expect_trace(pair, "");
	side_turn(&pair->a);
	pair_expect_trace(pair, "A SEND_LAST 2 ack\nA express 3\nA express 6\n");
	assert_true(transport_deadline(pair->a.qp) != NO_DEADLINE);
	pair_run(pair);
	pair_expect_trace(pair, "B ACK 8\n");
	expect_three(pair);
}

/* And waits for what is under way where that fills the ring, instead of going by packets. */
static void the_general_path_waits_for_room(void **state)
{
	struct pair *pair = *state;
	void *reserve = pair->a.outbox.reserve_express;

	receive_three(pair);
	pair->a.outbox.reserve_express = NULL;
	send_long(pair, IBV_WR_SEND, 1, LONG);
	send_long(pair, IBV_WR_SEND, 2, LONG);
	send_long(pair, IBV_WR_SEND, 3, LONG);
	pair->a.outbox.reserve_express = reserve;
	pair->room = 1;
	side_turn(&pair->a);
	pair_expect_trace(pair, "A express 0\n");
	pair->room = 0;
	side_turn(&pair->a);
	pair_expect_trace(pair, "");
	pair->room = UINT32_MAX;
	pair_run(pair);
	pair_expect_trace(pair, "B ACK 2\nA express 3\nA express 6\nB ACK 8\n");
	expect_three(pair);
}

static void of_a_shared_queue_it_takes_one(void **state)
{
	struct pair_options options = *express_options();
	struct pair *pair;

	(void)state;
	options.has_srq = true;
	pair = acquainted(&options);
	receive_long(pair, 1, LONG);
	receive_long(pair, 2, LONG - 1);
	pair_run(pair);
	send_long(pair, IBV_WR_SEND, 1, LONG);
	pair_run(pair);
	expect_long(pair, 1, LONG);
	pair_expect_trace(pair, "A express 0\nB ACK 2\n");
	send_long(pair, IBV_WR_SEND, 2, LONG); /* too long for what is there */
	pair_run(pair);
	side_expect(&pair->b, 2, IBV_WC_LOC_LEN_ERR);
	assert_true(side_had_event(&pair->b, IBV_EVENT_QP_LAST_WQE_REACHED));
	pair_free(pair);
}

/* ---- who does not agree on packets ---- */

static struct pair *of_two_path_mtus(enum ibv_mtu a, enum ibv_mtu b)
{
	struct pair_options options_a = *express_options(), options_b = *express_options();
	struct pair *pair = pair_new(&options_a);

	options_a.mtu = a;
	options_b.mtu = b;
	side_to_init(&pair->a, &options_a);
	side_to_init(&pair->b, &options_b);
	side_to_rtr(&pair->a, &pair->b, &options_a);
	side_to_rtr(&pair->b, &pair->a, &options_b);
	side_to_rts(&pair->a, &options_a);
	side_to_rts(&pair->b, &options_b);
	pair->a.qp->has_communicated = pair->b.qp->has_communicated = true;
	return pair;
}

/* As by packets: what is one to both is a message, what is not is an invalid request. */
static void two_path_mtus_are_found_out(void **state)
{
	(void)state;
	for (int sooner = 0; sooner < 2; sooner++) {
		struct pair *pair = of_two_path_mtus(sooner ? IBV_MTU_512 : IBV_MTU_4096,
						     sooner ? IBV_MTU_4096 : IBV_MTU_512);

		receive_long(pair, 1, EACH);
		receive_long(pair, 2, EACH);
		pair_run(pair);
		send_long(pair, IBV_WR_SEND, 1, 512);
		pair_run(pair);
		expect_long(pair, 1, 512);
		side_expect(&pair->a, 1, IBV_WC_SUCCESS);
		assert_int_equal(pair->glances, 1);
		send_long(pair, IBV_WR_SEND, 2, LONG);
		pair_run(pair);
		side_expect(&pair->a, 2, IBV_WC_REM_INV_REQ_ERR);
		assert_int_equal(pair->glances, 1);
		pair_free(pair);
	}
}

static int of_no_path_mtu(struct pair *pair, struct side *from, struct flying *packet)
{
	struct express *express = (struct express *)packet->bytes;

	(void)from;
	if (packet->is_express)
		express->mtu = pair->passed % 2 ? 0 : 1000;
	return 1;
}

/* Nobody who keeps to the rules says so. */
static void nonsense_for_a_path_mtu_is_no_message(void **state)
{
	struct pair *pair = *state;

	receive_long(pair, 1, LONG);
	pair_run(pair);
	pair->meddle = of_no_path_mtu;
	for (uint64_t i = 1; i < 3; i++) {
		send_long(pair, IBV_WR_SEND, i, LONG);
		pair_deliver(pair);
	}
	assert_int_equal(pair->glances, 0);
	side_expect_none(&pair->b);
	assert_int_equal(pair->b.qp->responder->psn, pair->a.psn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    express_test(it_takes_the_psns_of_its_packets),
	    cmocka_unit_test(as_packets_at_each_path_mtu),
	    cmocka_unit_test(its_psns_wrap),
	    express_test(a_reply_brings_the_ack_of_all_of_it),
	    express_test(an_ack_within_it_is_of_those_before),
	    cmocka_unit_test(so_many_psns_are_in_flight_at_most),
	    express_test(without_a_receive_it_comes_again_as_packets),
	    cmocka_unit_test(nobody_ever_posts_a_receive),
	    express_test(nobody_ever_answers),
	    express_test(a_receive_that_is_too_small),
	    express_test(a_lost_one_goes_again_as_packets),
	    express_test(what_is_behind_a_lost_one_is_held),
	    express_test(its_lost_ack_is_asked_for),
	    express_test(a_queue_pair_before_rtr_takes_none),
	    express_test(what_comes_twice_is_received_once),
	    express_test(the_general_path_ends_what_it_began),
	    express_test(the_general_path_waits_for_room),
	    cmocka_unit_test(of_a_shared_queue_it_takes_one),
	    cmocka_unit_test(two_path_mtus_are_found_out),
	    express_test(nonsense_for_a_path_mtu_is_no_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
