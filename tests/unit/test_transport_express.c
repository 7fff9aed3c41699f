/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The express path's sending end: what goes by it, and each reason not to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "express_pair.h"

/* ---- what goes by it ---- */

static void a_send_is_a_record(void **state)
{
	struct pair *pair = *state;

	receive(pair, 1);
	pair_run(pair);
	send(pair, 2);
	pair_expect_trace(pair, "A express 0\n");
	pair_run(pair);
	pair_expect_trace(pair, "B ACK 0\n");
	expect_message(pair, 1, 2);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	expect_coherent(pair);
	assert_int_equal(pair->glances, 1);
	assert_int_equal(pair->b.qp->responder->msn, 1);
}

static void the_reply_brings_the_ack_and_the_request_completes_first(void **state)
{
	struct pair *pair = *state;
	struct ibv_wc wc;

	receive(pair, 1);
	side_post_recv(&pair->a, 7, 2048, 100);
	pair_run(pair);
	send(pair, 2);
	pair_deliver(pair);
	expect_message(pair, 1, 2);
	side_request(&pair->b, IBV_WR_SEND_WITH_IMM, 3, 0, 10);
	pair_expect_trace(pair, "A express 0\nB express 0 ACK 0\n");
	pair_deliver(pair);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	wc = side_expect(&pair->a, 7, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(be32toh(wc.imm_data), 0x12345678);
	assert_int_equal(pair->glances, 2);
	pair_run(pair);
	pair_expect_trace(pair, "A ACK 0\n");
	side_expect(&pair->b, 3, IBV_WC_SUCCESS);
}

static void an_ack_alone_is_a_record_too(void **state)
{
	struct pair *pair = *state;

	receive(pair, 1);
	receive(pair, 2);
	pair_run(pair);
	send(pair, 1);
	send(pair, 2);
	pair_deliver(pair);
	assert_true(transport_is_late(pair->b.qp));
	assert_true(express_acknowledge(pair->b.qp, &pair->b.outbox));
	assert_false(express_acknowledge(pair->b.qp, &pair->b.outbox)); /* nothing is owed */
	assert_false(transport_is_late(pair->b.qp));
	pair_deliver(pair);
	pair_expect_trace(pair, "A express 0\nA express 1\nB express ACK 1\n");
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	assert_int_equal(pair->glances, 3);
	expect_coherent(pair);
}

static void several_elements_at_both_ends(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge from[3] = {side_sge(&pair->a, 100, 10), side_sge(&pair->a, 300, 0),
				  side_sge(&pair->a, 200, 30)};
	struct ibv_sge to[3] = {side_sge(&pair->b, 0, 25), side_sge(&pair->b, 64, 0),
				side_sge(&pair->b, 128, 25)};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = from, .num_sge = 3, .opcode = IBV_WR_SEND};
	struct ibv_recv_wr recv = {.wr_id = 2, .sg_list = to, .num_sge = 3}, *bad;
	char whole[40];

	fill(pair->a.memory, 512, 3);
	memcpy(whole, pair->a.memory + 100, 10);
	memcpy(whole + 10, pair->a.memory + 200, 30);
	assert_int_equal(qp_post_recv(pair->b.qp, &recv, &bad), 0);
	side_post(&pair->a, &wr);
	pair_run(pair);
	pair_expect_trace(pair, "A express 0\nB ACK 0\n");
	assert_int_equal(side_expect(&pair->b, 2, IBV_WC_SUCCESS).byte_len, 40);
	assert_int_equal(pair->glances, 1);
	assert_memory_equal(pair->b.memory, whole, 25);
	assert_memory_equal(pair->b.memory + 128, whole + 25, 15);
}

static void what_nobody_is_told_of_is_gone_past(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->a, 0, BYTES);
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	pair->a.qp->sq_sig_all = false;
	for (uint64_t i = 1; i <= 6; i++) {
		receive(pair, i);
		wr.wr_id = i;
		wr.send_flags = i == 4 ? IBV_SEND_SIGNALED : 0;
		side_post(&pair->a, &wr);
	}
	assert_int_equal(sq_head(pair->a.qp), 0);
	pair_run(pair);
	side_expect(&pair->a, 4, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
	assert_false(pair->a.qp->requester->was_told);
	assert_int_equal(sq_head(pair->a.qp), 6);
	expect_coherent(pair);
}

/* Of three the ACK of two arrives: the third goes again, and fails with its own wr_id. */
static void what_is_not_acknowledged_stays(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->a, 0, BYTES);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	pair->a.qp->sq_sig_all = false;
	receive(pair, 1);
	receive(pair, 2);
	for (wr.wr_id = 1; wr.wr_id <= 2; wr.wr_id++)
		side_post(&pair->a, &wr);
	pair_deliver(pair);
	assert_true(express_acknowledge(pair->b.qp, &pair->b.outbox));
	side_post(&pair->a, &wr);
	pair_deliver(pair);
	assert_int_equal(sq_head(pair->a.qp), 2);
	assert_int_equal(psn_into(pair->a.qp->requester->end, pair->a.qp->requester->una), 1);
	assert_int_equal(side_modify(&pair->a, IBV_QPS_ERR), 0);
	side_expect(&pair->a, 3, IBV_WC_WR_FLUSH_ERR);
	side_expect_none(&pair->a);
}

/* The program may use its memory again at once; the message may have to go again. */
static void inline_data_are_kept_for_another_time(void **state)
{
	struct pair *pair = *state;
	char data[16] = "inline, it says";
	struct ibv_sge sge = {(uintptr_t)data, sizeof(data), 0};
	struct ibv_send_wr wr = {.wr_id = 1,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE};

	receive(pair, 1);
	side_post(&pair->a, &wr);
	memset(data, 'x', sizeof(data));
	pair->count = 0; /* lost */
	pair_run_out(pair);
	pair_expect_trace(pair, "A express 0\nA SEND_ONLY 0 ack\nB ACK 0\n");
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
	assert_string_equal(pair->b.memory + OFFSET + 512, "inline, it says");
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	expect_coherent(pair);
}

static void nothing_at_all_is_a_message(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND};

	receive(pair, 1);
	side_post(&pair->a, &wr);
	pair_run(pair);
	pair_expect_trace(pair, "A express 0\nB ACK 0\n");
	assert_int_equal(side_expect(&pair->b, 1, IBV_WC_SUCCESS).byte_len, 0);
}

static void a_list_goes_as_far_as_it_is_fit(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->a, 0, BYTES), large = side_sge(&pair->a, 8192, 3000);
	struct ibv_send_wr third = {
	    .wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_send_wr second = {
	    .wr_id = 2,
	    .next = &third,
	    .sg_list = &large,
	    .num_sge = 1,
	    .opcode = IBV_WR_RDMA_WRITE,
	    .wr.rdma = {.remote_addr = (uintptr_t)pair->b.memory + 8192, .rkey = pair->b.mr->rkey},
	};
	struct ibv_send_wr first = {
	    .wr_id = 1, .next = &second, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	receive(pair, 1);
	receive(pair, 3);
	pair_run(pair);
	side_post(&pair->a, &first);
	pair_run(pair);
	pair_expect_trace(pair,
			  "A express 0\nA WRITE_FIRST 1\nA WRITE_MIDDLE 2\nA WRITE_LAST 3 ack\n"
			  "A express 4\nB ACK 4\n");
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
	side_expect(&pair->b, 3, IBV_WC_SUCCESS);
	for (uint64_t i = 1; i < 4; i++)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	expect_coherent(pair);
}

/* ---- what does not ---- */

static void expect_packet(struct pair *pair, struct ibv_send_wr *wr)
{
	assert_ptr_equal(express_post(pair->a.qp, wr, &pair->a.outbox), wr);
	assert_int_equal(pair->count, 0);
	assert_int_equal(sq_head(pair->a.qp), sq_tail(pair->a.qp));
}

static void what_is_not_fit_is_left_alone(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge[6];
	struct ibv_send_wr good = {.wr_id = 1, .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_send_wr wr;

	for (int i = 0; i < 6; i++)
		sge[i] = side_sge(&pair->a, 0, 8);
	wr = good;
	wr.opcode = IBV_WR_RDMA_WRITE;
	expect_packet(pair, &wr);
	wr = good;
	wr.opcode = IBV_WR_SEND_WITH_INV;
	expect_packet(pair, &wr);
	wr = good;
	wr.send_flags = 1u << 20; /* refused by the general path */
	expect_packet(pair, &wr);
	wr = good;
	wr.num_sge = EXPRESS_SGE + 1;
	expect_packet(pair, &wr);
	wr = good;
	wr.num_sge = -1;
	expect_packet(pair, &wr);
	sge[0].length = EXPRESS_BYTES + 1;
	expect_packet(pair, &good);
	sge[0].length = UINT32_MAX;
	sge[1].length = 9; /* 8 in all, to 32 bits */
	wr = good;
	wr.num_sge = 2;
	expect_packet(pair, &wr);
	sge[0] = side_sge(&pair->a, PAIR_MEMORY - 4, 8);
	expect_packet(pair, &good);
	sge[0] = side_sge(&pair->a, 0, 8);
	sge[0].lkey ^= 1;
	expect_packet(pair, &good);
	sge[0].lkey = pair->a.mr->rkey;
	expect_packet(pair, &good);
	sge[0] = side_sge(&pair->a, 0, 8);
	assert_null(express_post(pair->a.qp, &good, &pair->a.outbox));
}

static void what_finds_a_full_outbox_is_a_record_later(void **state)
{
	struct pair *pair = *state;

	receive(pair, 1);
	pair_run(pair);
	pair->room = 0;
	send(pair, 1);
	pair_expect_trace(pair, "");
	pair->room = UINT32_MAX;
	pair_run(pair);
	pair_expect_trace(pair, "A express 0\nB ACK 0\n");
}

static void a_full_send_queue_is_refused_as_ever(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	uint32_t posted = 0;

	while (!express_post(pair->a.qp, &wr, &pair->a.outbox))
		posted++;
	assert_int_equal(posted, pair->a.qp->sq.max_wr);
	assert_int_equal(qp_post_send(pair->a.qp, &wr, &bad), ENOMEM);
}

static void what_was_posted_before_goes_first(void **state)
{
	struct pair *pair = *state;

	for (uint64_t i = 1; i < 4; i++)
		receive(pair, i);
	pair_run(pair);
	pair->room = 0;
	send(pair, 1);
	side_turn(&pair->a);
	pair->room = UINT32_MAX;
	send(pair, 2);
	pair_expect_trace(pair, "A express 0\nA express 1\n");
	send(pair, 3);
	pair_run(pair);
	pair_expect_trace(pair, "A express 2\nB ACK 2\n");
	for (uint64_t i = 1; i < 4; i++) {
		expect_message(pair, i, i);
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	}
}

/* ---- what waits for room ---- */

/* One is in flight and fills the outbox. */
static void fill_outbox(struct pair *pair)
{
	pair->room = 1;
	send(pair, 1);
	pair_expect_trace(pair, "A express 0\n");
}

static void make_room(struct pair *pair)
{
	pair->room = UINT32_MAX;
}

static void behind_what_is_in_flight_it_waits_for_room(void **state)
{
	struct pair *pair = *state;

	for (uint64_t i = 1; i < 5; i++)
		receive(pair, i);
	pair_run(pair);
	fill_outbox(pair);
	for (uint64_t i = 2; i < 4; i++) {
		struct ibv_sge sge = side_sge(&pair->a, i * 512, BYTES);
		struct ibv_send_wr wr = {
		    .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

		fill(pair->a.memory + i * 512, BYTES, (unsigned int)i + 1);
		assert_null(express_post(pair->a.qp, &wr, &pair->a.outbox));
	}
	assert_true(transport_waits(pair->a.qp));
	assert_true(transport_is_late(pair->a.qp));
	assert_true(express_advance(pair->a.qp, &pair->a.outbox)); /* no turn would help */
	pair_expect_trace(pair, "");
	make_room(pair);
	assert_true(express_advance(pair->a.qp, &pair->a.outbox));
	assert_false(transport_waits(pair->a.qp));
	send(pair, 4);
	pair_run(pair);
	pair_expect_trace(pair, "A express 1\nA express 2\nA express 3\nB ACK 3\n");
	for (uint64_t i = 1; i < 5; i++) {
		expect_message(pair, i, i);
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	}
	expect_coherent(pair);
}

/* The next to be posted takes it along. */
static void the_next_one_goes_behind_it(void **state)
{
	struct pair *pair = *state;

	for (uint64_t i = 1; i < 4; i++)
		receive(pair, i);
	pair_run(pair);
	fill_outbox(pair);
	send(pair, 2);
	make_room(pair);
	send(pair, 3);
	pair_run(pair);
	pair_expect_trace(pair, "A express 1\nA express 2\nB ACK 2\n");
	for (uint64_t i = 1; i < 4; i++) {
		expect_message(pair, i, i);
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	}
}

static void inline_data_are_kept_while_they_wait(void **state)
{
	struct pair *pair = *state;
	char data[16] = "inline, it says";
	struct ibv_sge sge = {(uintptr_t)data, sizeof(data), 0};
	struct ibv_send_wr wr = {.wr_id = 2,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE};

	receive(pair, 1);
	receive(pair, 2);
	pair_run(pair);
	fill_outbox(pair);
	side_post(&pair->a, &wr);
	memset(data, 'x', sizeof(data));
	make_room(pair);
	assert_true(express_advance(pair->a.qp, &pair->a.outbox));
	pair_run(pair);
	pair_expect_trace(pair, "A express 1\nB ACK 1\n");
	expect_message(pair, 1, 1);
	side_expect(&pair->b, 2, IBV_WC_SUCCESS);
	assert_string_equal(pair->b.memory + OFFSET + 2 * 512, "inline, it says");
}

/* Nothing would come back that makes room. */
static void alone_it_is_the_general_paths(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND};

	pair->room = 0;
	expect_packet(pair, &wr);
	side_post(&pair->a, &wr);
	assert_false(express_advance(pair->a.qp, &pair->a.outbox));
}

static void what_waits_and_is_not_fit_needs_a_turn(void **state)
{
	struct pair *pair = *state;

	receive(pair, 1);
	receive(pair, 3);
	pair_run(pair);
	fill_outbox(pair);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 0, 2000);
	make_room(pair);
	assert_false(express_advance(pair->a.qp, &pair->a.outbox));
	send(pair, 3); /* not before it */
	pair_expect_trace(pair, "");
	pair_run(pair);
	pair_expect_trace(pair, "A WRITE_FIRST 1\nA WRITE_LAST 2 ack\nA express 3\nB ACK 3\n");
}

/* Its key is looked at when it leaves; then it is as ever, and what was before it completes. */
static void a_wrong_key_of_what_waits(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->a, 0, 8);
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	sge.lkey ^= 1;
	receive(pair, 1);
	pair_run(pair);
	fill_outbox(pair);
	side_post(&pair->a, &wr);
	make_room(pair);
	assert_false(express_advance(pair->a.qp, &pair->a.outbox));
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(atomic_load(&pair->a.qp->state), IBV_QPS_ERR);
}

static void a_fence_waits_for_the_read(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->a, 0, 8);
	struct ibv_send_wr wr = {.wr_id = 2,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_FENCE};

	receive(pair, 1);
	pair_run(pair);
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 1024, 8);
	side_turn(&pair->a);
	side_post(&pair->a, &wr);
	pair_expect_trace(pair, "A READ_REQUEST 0 ack\n");
	pair_run(pair);
	pair_expect_trace(pair, "B READ_RESPONSE_ONLY 0\nA express 1\nB ACK 1\n");
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	side_post_recv(&pair->b, 3, 0, 8);
	side_post(&pair->a, &wr); /* nothing to wait for */
	pair_expect_trace(pair, "A express 2\n");
}

static void behind_a_read_completions_keep_their_order(void **state)
{
	struct pair *pair = *state;

	receive(pair, 1);
	pair_run(pair);
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 1024, 8);
	side_turn(&pair->a);
	send(pair, 2);
	pair_expect_trace(pair, "A READ_REQUEST 0 ack\nA express 1\n");
	pair_deliver(pair);
	/* its ACK may not overtake the READ's answer */
	assert_false(express_acknowledge(pair->b.qp, &pair->b.outbox));
	pair_run(pair);
	pair_expect_trace(pair, "B READ_RESPONSE_ONLY 0\nB ACK 1\n");
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	expect_coherent(pair);
}

/* The peer's program counts on its READ having completed when the reply is there. */
static void a_reply_does_not_overtake_answers(void **state)
{
	struct pair *pair = *state;

	receive(pair, 1);
	side_post_recv(&pair->a, 7, 2048, 100);
	pair_run(pair);
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 1024, 8);
	side_turn(&pair->a);
	send(pair, 2);
	pair_deliver(pair);
	side_request(&pair->b, IBV_WR_SEND, 3, 0, 10);
	pair_run(pair);
	pair_expect_trace(pair, "A READ_REQUEST 0 ack\nA express 1\nB READ_RESPONSE_ONLY 0\n"
				"B ACK 1\nB express 0\nA ACK 0\n");
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	side_expect(&pair->a, 7, IBV_WC_SUCCESS);
}

static void not_in_other_states(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

	assert_int_equal(side_modify(&pair->a, IBV_QPS_SQD), 0);
	expect_packet(pair, &wr);
	assert_int_equal(side_modify(&pair->a, IBV_QPS_ERR), 0);
	expect_packet(pair, &wr);
	assert_int_equal(side_modify(&pair->a, IBV_QPS_RESET), 0);
	expect_packet(pair, &wr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    express_test(a_send_is_a_record),
	    express_test(the_reply_brings_the_ack_and_the_request_completes_first),
	    express_test(an_ack_alone_is_a_record_too),
	    express_test(several_elements_at_both_ends),
	    express_test(what_nobody_is_told_of_is_gone_past),
	    express_test(what_is_not_acknowledged_stays),
	    express_test(inline_data_are_kept_for_another_time),
	    express_test(nothing_at_all_is_a_message),
	    express_test(a_list_goes_as_far_as_it_is_fit),
	    express_test(what_is_not_fit_is_left_alone),
	    express_test(what_finds_a_full_outbox_is_a_record_later),
	    express_test(a_full_send_queue_is_refused_as_ever),
	    express_test(what_was_posted_before_goes_first),
	    express_test(behind_what_is_in_flight_it_waits_for_room),
	    express_test(the_next_one_goes_behind_it),
	    express_test(inline_data_are_kept_while_they_wait),
	    express_test(alone_it_is_the_general_paths),
	    express_test(what_waits_and_is_not_fit_needs_a_turn),
	    express_test(a_wrong_key_of_what_waits),
	    express_test(a_fence_waits_for_the_read),
	    express_test(behind_a_read_completions_keep_their_order),
	    express_test(a_reply_does_not_overtake_answers),
	    express_test(not_in_other_states),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
