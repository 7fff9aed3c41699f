/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tag matching: eager messages into the buffers of their tags, rendezvous that the adapter does by
 * itself, and what is left to the program. A sends, B has the tag matching SRQ.
 */
#include <infiniband/tm_types.h>

#include "transport_pair.h"

enum { TMH = sizeof(struct ibv_tmh), RVH = sizeof(struct ibv_rvh), AT = 100000 };

static struct pair_options options;

static int set_up(void **state)
{
	options = default_options;
	options.has_tags = true;
	*state = pair_connected(&options);
	return 0;
}

static int tear_down(void **state)
{
	pair_free(*state);
	return 0;
}

#define TAG_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void add(struct pair *pair, uint64_t wr_id, uint64_t tag, size_t offset, uint32_t length)
{
	struct ibv_sge sge = side_sge(&pair->b, offset, length);
	struct ibv_ops_wr op = {
	    .opcode = IBV_WR_TAG_ADD,
	    .tm.add = {.recv_wr_id = wr_id,
		       .sg_list = &sge,
		       .num_sge = 1,
		       .tag = tag,
		       .mask = UINT64_MAX},
	};
	struct ibv_ops_wr *bad;

	assert_int_equal(tag_post(pair->b.srq, &op, &bad, pair->now), 0);
}

/* A message with its header, `length` bytes behind that. */
static void send_tagged(struct pair *pair, uint64_t wr_id, uint8_t opcode, uint64_t tag,
			uint32_t length)
{
	struct ibv_tmh header = {.opcode = opcode, .app_ctx = htobe32(0x77), .tag = htobe64(tag)};

	memcpy(pair->a.memory, &header, sizeof(header));
	side_request(&pair->a, IBV_WR_SEND, wr_id, 0, TMH + length);
}

/* The message lies at AT in A's memory. */
static void send_rendezvous(struct pair *pair, uint64_t wr_id, uint64_t tag, uint32_t length)
{
	struct ibv_rvh header = {
	    .va = htobe64((uintptr_t)pair->a.memory + AT),
	    .rkey = htobe32(pair->a.mr->rkey),
	    .len = htobe32(length),
	};

	memcpy(pair->a.memory + TMH, &header, sizeof(header));
	send_tagged(pair, wr_id, IBV_TMH_RNDV, tag, RVH);
}

static struct cqe expect(struct side *side, uint64_t wr_id, enum ibv_wc_opcode opcode,
			 unsigned int flags)
{
	struct cqe cqe;

	assert_int_equal(cq_poll_one(side->cq, &cqe), 0);
	assert_int_equal(cqe.wc.status, IBV_WC_SUCCESS);
	assert_int_equal(cqe.wc.wr_id, wr_id);
	assert_int_equal(cqe.wc.opcode, opcode);
	assert_int_equal(cqe.wc.wc_flags, flags);
	return cqe;
}

static void an_eager_message_goes_to_its_tag_without_header(void **state)
{
	struct pair *pair = *state;
	struct cqe cqe;

	side_post_recv(&pair->b, 99, 50000, 8000);
	add(pair, 5, 0x55, 1000, 5000);
	fill(pair->a.memory, TMH + 4000, 1);
	send_tagged(pair, 1, IBV_TMH_EAGER, 0x55, 4000);
	pair_run(pair);
	cqe = expect(&pair->b, 5, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
	assert_int_equal(cqe.wc.byte_len, 4000);
	assert_int_equal(cqe.tm_tag, 0x55);
	assert_int_equal(cqe.tm_priv, 0x77);
	assert_memory_equal(pair->b.memory + 1000, pair->a.memory + TMH, 4000);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_int_equal(pair->b.srq->queue.tail - pair->b.srq->queue.head,
			 1); /* the ordinary one is still there */
}

static void an_eager_message_of_no_bytes_is_one(void **state)
{
	struct pair *pair = *state;

	add(pair, 5, 0x55, 1000, 0);
	send_tagged(pair, 1, IBV_TMH_EAGER, 0x55, 0);
	pair_run(pair);
	assert_int_equal(
	    expect(&pair->b, 5, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID).wc.byte_len,
	    0);
}

static void an_unexpected_message_comes_whole(void **state)
{
	struct pair *pair = *state;
	struct cqe cqe;

	side_post_recv(&pair->b, 99, 50000, 8000);
	send_tagged(pair, 1, IBV_TMH_EAGER, 0x55, 100);
	pair_run(pair);
	cqe = expect(&pair->b, 99, IBV_WC_TM_RECV, 0);
	assert_int_equal(cqe.wc.byte_len, TMH + 100);
	assert_memory_equal(pair->b.memory + 50000, pair->a.memory, TMH + 100);
	assert_int_equal(pair->b.srq->tags.unexpected, 1);
}

static void messages_without_tag_are_not_counted(void **state)
{
	struct pair *pair = *state;

	add(pair, 5, 0x55, 1000, 5000);
	side_post_recv(&pair->b, 98, 50000, 8000);
	side_post_recv(&pair->b, 99, 50000, 8000);
	send_tagged(pair, 1, IBV_TMH_NO_TAG, 0x55, 100);
	send_tagged(pair, 2, IBV_TMH_FIN, 0x55, 0);
	pair_run(pair);
	expect(&pair->b, 98, IBV_WC_TM_NO_TAG, 0);
	expect(&pair->b, 99, IBV_WC_TM_NO_TAG, 0);
	assert_int_equal(pair->b.srq->tags.unexpected, 0);
}

static void without_a_receive_it_comes_again_and_counts_once(void **state)
{
	struct pair *pair = *state;

	send_tagged(pair, 1, IBV_TMH_EAGER, 0x55, 100);
	pair_run(pair);
	assert_int_equal(pair->b.srq->tags.unexpected, 0);
	side_post_recv(&pair->b, 99, 50000, 8000);
	assert_true(pair_wait(pair));
	expect(&pair->b, 99, IBV_WC_TM_RECV, 0);
	assert_int_equal(pair->b.srq->tags.unexpected, 1);
}

static void a_rendezvous_is_read_and_told(void **state)
{
	struct pair *pair = *state;
	struct cqe cqe;

	side_post_recv(&pair->a, 70, 500, 100); /* for the FIN */
	add(pair, 5, 0x55, 1000, 5000);
	fill(pair->a.memory + AT, 3000, 9);
	send_rendezvous(pair, 1, 0x55, 3000);
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\n"
				"B ACK 0\n"
				"B READ_REQUEST 0 ack\n"
				"A READ_RESPONSE_FIRST 0\n"
				"A READ_RESPONSE_MIDDLE 1\n"
				"A READ_RESPONSE_LAST 2\n"
				"B SEND_ONLY 3 ack\n"
				"A ACK 3\n");
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	cqe = expect(&pair->b, 5, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
	assert_int_equal(cqe.tm_tag, 0x55);
	cqe = expect(&pair->b, 5, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID);
	assert_int_equal(cqe.wc.byte_len, 3000);
	side_expect_none(&pair->b);
	assert_memory_equal(pair->b.memory + 1000, pair->a.memory + AT, 3000);
	assert_int_equal(side_expect(&pair->a, 70, IBV_WC_SUCCESS).byte_len, TMH);
	assert_int_equal(pair->a.memory[500], IBV_TMH_FIN);
	assert_memory_equal(pair->a.memory + 500 + 4, pair->a.memory + 4, TMH - 4);
}

static int lose_some(struct pair *pair, struct side *from, struct flying *packet)
{
	return pair->passed % 5 == 2 ? 0 : 1;
}

static void rendezvous_survive_loss(void **state)
{
	struct pair *pair = *state;

	pair->meddle = lose_some;
	fill(pair->a.memory + AT, 30000, 9);
	for (uint64_t i = 0; i < 4; i++) {
		side_post_recv(&pair->a, 70 + i, 500, 100);
		add(pair, 5 + i, i, 200000 + 40000 * i, 30000);
		send_rendezvous(pair, i, i, 30000);
		pair_run_out(pair);
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
		side_expect(&pair->a, 70 + i, IBV_WC_SUCCESS);
		expect(&pair->b, 5 + i, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
		expect(&pair->b, 5 + i, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID);
		assert_memory_equal(pair->b.memory + 200000 + 40000 * i, pair->a.memory + AT,
				    30000);
	}
}

static void a_rendezvous_of_an_unknown_tag_is_the_programs(void **state)
{
	struct pair *pair = *state;

	side_post_recv(&pair->b, 99, 50000, 8000);
	send_rendezvous(pair, 1, 0x55, 3000);
	pair_run(pair);
	assert_int_equal(expect(&pair->b, 99, IBV_WC_TM_RECV, 0).wc.byte_len, TMH + RVH);
	assert_memory_equal(pair->b.memory + 50000, pair->a.memory, TMH + RVH);
}

/* The request lies in the tagged buffer, as far as there is room. */
static void what_does_not_fit_is_the_programs_to_finish(void **state)
{
	struct pair *pair = *state;
	struct ibv_wc wc;

	add(pair, 5, 0x55, 1000, 20);
	send_rendezvous(pair, 1, 0x55, 3000);
	pair_run(pair);
	wc = side_expect(&pair->b, 5, IBV_WC_TM_RNDV_INCOMPLETE);
	assert_int_equal(wc.vendor_err, REASON_TAG_RNDV_LOCAL);
	assert_int_equal(wc.opcode, IBV_WC_TM_RECV);
	assert_memory_equal(pair->b.memory + 1000, pair->a.memory, 20);
	assert_int_equal(pair->b.memory[1020], 0);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_int_equal(pair->b.qp->state, IBV_QPS_RTS);
}

static void an_rkey_that_does_not_fit_fails_the_rendezvous(void **state)
{
	struct pair *pair = *state;

	side_post_recv(&pair->a, 70, 500, 100);
	add(pair, 5, 0x55, 1000, 5000);
	send_rendezvous(pair, 1, 0x55, 3000);
	((struct ibv_rvh *)(void *)(pair->a.memory + TMH))->rkey ^= 0x100;
	pair_run(pair);
	expect(&pair->b, 5, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
	assert_int_equal(side_expect(&pair->b, 5, IBV_WC_REM_ACCESS_ERR).opcode, IBV_WC_TM_RECV);
	side_expect_none(&pair->b); /* nothing of the FIN */
	assert_int_equal(pair->b.qp->state, IBV_QPS_ERR);
}

/* The program is between ibv_wr_start() and ibv_wr_complete(), perhaps in this very thread. */
static void a_rendezvous_waits_for_who_is_posting(void **state)
{
	struct pair *pair = *state;

	side_post_recv(&pair->a, 70, 500, 100);
	side_post_recv(&pair->a, 71, 500, 100);
	add(pair, 5, 0x55, 1000, 5000);
	add(pair, 6, 0x56, 1000, 5000);
	sq_begin(pair->b.qp);
	send_rendezvous(pair, 1, 0x55, 100);
	pair_run(pair);
	send_rendezvous(pair, 2, 0x56, 100);
	pair_run(pair);
	expect(&pair->b, 5, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
	expect(&pair->b, 6, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
	side_expect_none(&pair->b);
	sq_commit(pair->b.qp);
	pair_schedule(&pair->b.adapter, pair->b.qp); /* the doorbell */
	pair_run(pair);
	expect(&pair->b, 5, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID);
	expect(&pair->b, 6, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID);
}

static void what_waits_is_flushed(void **state)
{
	struct pair *pair = *state;

	add(pair, 5, 0x55, 1000, 5000);
	sq_begin(pair->b.qp);
	send_rendezvous(pair, 1, 0x55, 100);
	pair_run(pair);
	expect(&pair->b, 5, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
	sq_commit(pair->b.qp);
	assert_int_equal(side_modify(&pair->b, IBV_QPS_ERR), 0);
	side_expect(&pair->b, 5, IBV_WC_WR_FLUSH_ERR);
	side_expect_none(&pair->b);
}

/* The program's own work requests have all the places that they were promised. */
static void the_adapters_own_work_takes_no_place_of_the_programs(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE}, *bad;

	side_post_recv(&pair->a, 70, 500, 100);
	add(pair, 5, 0x55, 1000, 5000);
	send_rendezvous(pair, 1, 0x55, 100);
	side_turn(&pair->a);
	pair_deliver(pair); /* posted, not yet run */
	assert_int_equal(pair->b.qp->sq.own, 2);
	for (int i = 0; i < 64; i++)
		assert_int_equal(qp_post_send(pair->b.qp, &wr, &bad), 0);
	assert_int_equal(qp_post_send(pair->b.qp, &wr, &bad), ENOMEM);
	pair_run(pair);
	assert_int_equal(pair->b.qp->sq.own, 0);
}

static void a_message_without_header_is_refused(void **state)
{
	struct pair *pair = *state;

	side_post_recv(&pair->b, 99, 50000, 8000);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, TMH - 1);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_REM_INV_REQ_ERR);
	assert_true(side_had_event(&pair->b, IBV_EVENT_QP_REQ_ERR));
}

static void a_rendezvous_without_its_header_is_refused(void **state)
{
	struct pair *pair = *state;

	add(pair, 5, 0x55, 1000, 5000);
	side_post_recv(&pair->b, 99, 50000, 8000);
	send_tagged(pair, 1, IBV_TMH_RNDV, 0x55, RVH - 1);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_REM_INV_REQ_ERR);
}

static void an_eager_message_that_does_not_fit_ends_the_connection(void **state)
{
	struct pair *pair = *state;

	add(pair, 5, 0x55, 1000, 99);
	send_tagged(pair, 1, IBV_TMH_EAGER, 0x55, 100);
	pair_run(pair);
	assert_int_equal(side_expect(&pair->b, 5, IBV_WC_LOC_LEN_ERR).opcode, IBV_WC_TM_RECV);
	side_expect(&pair->a, 1, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(pair->b.memory[1000], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TAG_TEST(an_eager_message_goes_to_its_tag_without_header),
	    TAG_TEST(an_eager_message_of_no_bytes_is_one),
	    TAG_TEST(an_unexpected_message_comes_whole),
	    TAG_TEST(messages_without_tag_are_not_counted),
	    TAG_TEST(without_a_receive_it_comes_again_and_counts_once),
	    TAG_TEST(a_rendezvous_is_read_and_told),
	    TAG_TEST(rendezvous_survive_loss),
	    TAG_TEST(a_rendezvous_of_an_unknown_tag_is_the_programs),
	    TAG_TEST(what_does_not_fit_is_the_programs_to_finish),
	    TAG_TEST(an_rkey_that_does_not_fit_fails_the_rendezvous),
	    TAG_TEST(a_rendezvous_waits_for_who_is_posting),
	    TAG_TEST(what_waits_is_flushed),
	    TAG_TEST(the_adapters_own_work_takes_no_place_of_the_programs),
	    TAG_TEST(a_message_without_header_is_refused),
	    TAG_TEST(a_rendezvous_without_its_header_is_refused),
	    TAG_TEST(an_eager_message_that_does_not_fit_ends_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
