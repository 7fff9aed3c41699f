/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC: each request names the SRQ that it is for, and meets that one's receives, PD and CQ; what
 * goes over the wire is RC's, with four bytes more in requests.
 */
#include "transport_pair.h"

static struct pair_options options;

static int set_up(void **state)
{
	options = default_options;
	options.type = IBV_QPT_XRC_SEND;
	*state = pair_connected(&options);
	return 0;
}

static int tear_down(void **state)
{
	pair_free(*state);
	return 0;
}

#define XRC_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* A SEND of 4 bytes to an SRQ of this number. */
static void send_to(struct pair *pair, uint64_t wr_id, uint32_t srqn)
{
	struct ibv_sge sge = side_sge(&pair->a, 0, 4);
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .opcode = IBV_WR_SEND,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .qp_type.xrc.remote_srqn = srqn};

	side_post(&pair->a, &wr);
}

static int note_packet(struct pair *pair, struct side *from, struct flying *packet)
{
	if (from == &pair->a)
		assert_int_equal(packet->bytes[0] & TRANSPORT_MASK, TRANSPORT_XRC);
	pair_note(pair, "%u bytes\n", (unsigned int)packet->size);
	return 1;
}

static void a_send_completes_in_the_cq_of_the_srq_it_names(void **state)
{
	struct pair *pair = *state;
	struct ibv_wc wc;

	pair->meddle = note_packet;
	strcpy(pair->a.memory, "abc");
	side_post_recv(&pair->b, 7, 1000, 100);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 4);
	pair_run(pair);
	/* BTH, XRCETH, 4 bytes; BTH and AETH */
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\n20 bytes\n"
				"B ACK 0\n16 bytes\n");
	assert_string_equal(pair->b.memory + 1000, "abc");
	wc = side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 4);
	assert_int_equal(wc.qp_num, pair->b.qp->number);
	assert_int_equal(wc.src_qp, pair->a.qp->number);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

static void every_operation_works_over_xrc(void **state)
{
	struct pair *pair = *state;
	uint64_t *word = (uint64_t *)(void *)(pair->b.memory + 8192);

	fill(pair->a.memory, 5000, 3);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 5000);
	pair_run(pair);
	assert_memory_equal(pair->a.memory, pair->b.memory, 5000);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);

	fill(pair->b.memory, 5000, 4);
	side_request(&pair->a, IBV_WR_RDMA_READ, 2, 0, 5000);
	pair_run(pair);
	assert_memory_equal(pair->a.memory, pair->b.memory, 5000);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);

	*word = 40;
	side_atomic(&pair->a, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 64, 8192, 2, 0);
	side_atomic(&pair->a, IBV_WR_ATOMIC_CMP_AND_SWP, 4, 72, 8192, 42, 9);
	pair_run(pair);
	side_expect(&pair->a, 3, IBV_WC_SUCCESS);
	side_expect(&pair->a, 4, IBV_WC_SUCCESS);
	assert_int_equal(*word, 9);
	assert_int_equal(*(uint64_t *)(void *)(pair->a.memory + 72), 42);

	side_post_recv(&pair->b, 8, 0, 0);
	side_request(&pair->a, IBV_WR_RDMA_WRITE_WITH_IMM, 5, 100, 50);
	pair_run(pair);
	assert_int_equal(side_expect(&pair->b, 8, IBV_WC_SUCCESS).opcode,
			 IBV_WC_RECV_RDMA_WITH_IMM);
	side_expect(&pair->a, 5, IBV_WC_SUCCESS);
}

static void one_connection_serves_several_srqs(void **state)
{
	struct pair *pair = *state;
	struct side *b = &pair->b;
	struct srq *first = b->srq, *second = side_create_xrc_srq(b);

	side_post_recv(b, 10, 0, 100);
	b->srq = second;
	side_post_recv(b, 20, 100, 100);
	send_to(pair, 1, srq_wire_number(second));
	send_to(pair, 2, srq_wire_number(first));
	pair_run(pair);
	side_expect(b, 20, IBV_WC_SUCCESS);
	side_expect(b, 10, IBV_WC_SUCCESS);
	b->srq = first;
	assert_int_equal(srq_destroy(second), 0);
}

static void an_srq_without_receives_is_not_ready(void **state)
{
	struct pair *pair = *state;

	side_request(&pair->a, IBV_WR_SEND, 1, 0, 4);
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\nB RNR 0\n");
	side_post_recv(&pair->b, 7, 0, 100);
	assert_true(pair_wait(pair));
	side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

static void expect_no_such_srq(struct pair *pair, uint32_t srqn)
{
	struct ibv_wc wc;

	send_to(pair, 1, srqn);
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\nB NAK1 0\n");
	wc = side_expect(&pair->a, 1, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(wc.vendor_err, REASON_PEER_INVALID_REQUEST);
	assert_true(side_had_event(&pair->b, IBV_EVENT_QP_REQ_ERR));
	assert_int_equal(reason_last(NULL), REASON_PEER_INVALID_REQUEST);
}

static void an_srq_number_that_nobody_has_is_refused(void **state)
{
	struct pair *pair = *state;

	expect_no_such_srq(pair, srq_wire_number(pair->b.srq) + 1);
}

static void an_srq_number_of_another_process_is_refused(void **state)
{
	struct pair *pair = *state;

	expect_no_such_srq(pair, srq_wire_number(pair->b.srq) ^ 1u << QPN_SLOT_SHIFT);
}

/* It exists, but in another domain. */
static void an_srq_of_another_domain_is_refused(void **state)
{
	struct pair *pair = *state;
	struct side *b = &pair->b;
	struct xrcd *own = b->xrcd, *other;
	struct srq *srq;

	assert_int_equal(xrcd_open(&b->adapter, NULL, XRCD_CREATE, &other), 0);
	b->xrcd = other;
	srq = side_create_xrc_srq(b);
	b->xrcd = own;
	expect_no_such_srq(pair, srq_wire_number(srq));
	assert_int_equal(srq_destroy(srq), 0);
	assert_int_equal(xrcd_close(other), 0);
}

static void a_basic_srq_is_no_xrc_srq(void **state)
{
	struct pair *pair = *state;
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct srq *basic;

	assert_int_equal(srq_create(pair->b.pd, &attr, &basic), 0);
	expect_no_such_srq(pair, srq_wire_number(basic));
	assert_int_equal(srq_destroy(basic), 0);
}

/* Keys are those of the SRQ's PD, whatever the QP. */
static void the_pd_of_the_srq_guards_memory(void **state)
{
	struct pair *pair = *state;
	struct side *b = &pair->b;
	struct pd *own = b->pd, *other;
	struct srq *first = b->srq;

	assert_int_equal(pd_create(&b->adapter, &other), 0);
	b->pd = other;
	b->srq = side_create_xrc_srq(b);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 100);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(srq_destroy(b->srq), 0);
	b->srq = first;
	b->pd = own;
	assert_int_equal(pd_destroy(other), 0);
}

static int change_srq_number(struct pair *pair, struct side *from, struct flying *packet)
{
	if (from == &pair->a && pair->passed == 1)
		packet->bytes[BTH_BYTES + 3] ^= 1;
	return 1;
}

static void a_message_goes_to_one_srq(void **state)
{
	struct pair *pair = *state;
	struct srq *second = side_create_xrc_srq(&pair->b);

	/* their numbers differ in the lowest bits, or the second packet names none: both are wrong
	 */
	pair->meddle = change_srq_number;
	side_post_recv(&pair->b, 7, 0, 4000);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 3000);
	pair_run(pair);
	side_expect(&pair->b, 7, IBV_WC_REM_INV_REQ_ERR);
	side_expect(&pair->a, 1, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(srq_destroy(second), 0);
}

static int destroy_srq(struct pair *pair, struct side *from, struct flying *packet)
{
	if (from == &pair->a && pair->passed == 2) {
		assert_int_equal(srq_destroy(pair->b.srq), 0);
		pair->b.srq = NULL;
	}
	return 1;
}

/* Before its last packet arrives. Nobody is left to be told at the target. */
static void an_srq_may_go_in_the_middle_of_a_message(void **state)
{
	struct pair *pair = *state;

	side_post_recv(&pair->b, 7, 0, 4000);
	pair->room = 1;
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 3000);
	side_turn(&pair->a);
	pair_deliver(pair);
	pair->room = UINT32_MAX;
	pair->passed = 2;
	pair->meddle = destroy_srq;
	pair->a.is_scheduled = true;
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_REM_INV_REQ_ERR);
	side_expect_none(&pair->b);
}

static int lose_some(struct pair *pair, struct side *from, struct flying *packet)
{
	return pair->passed % 7 == 3 ? 0 : 1;
}

static void what_is_lost_is_sent_again(void **state)
{
	struct pair *pair = *state;

	pair->meddle = lose_some;
	fill(pair->a.memory, 40000, 5);
	side_post_recv(&pair->b, 7, 50000, 40000);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 40000);
	side_request(&pair->a, IBV_WR_RDMA_READ, 2, 100000, 40000);
	side_atomic(&pair->a, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 200000, 300000, 1, 0);
	pair_run_out(pair);
	side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	for (uint64_t i = 1; i <= 3; i++)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	assert_memory_equal(pair->a.memory, pair->b.memory + 50000, 40000);
	assert_int_equal(*(uint64_t *)(void *)(pair->b.memory + 300000), 1);
}

static int make_rc(struct pair *pair, struct side *from, struct flying *packet)
{
	packet->bytes[0] &= ~TRANSPORT_MASK;
	return 1;
}

static void packets_of_rc_are_not_for_xrc(void **state)
{
	struct pair *pair = *state;

	pair->meddle = make_rc;
	side_post_recv(&pair->b, 7, 0, 100);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 4);
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\n");
	assert_int_equal(transport_counters(pair->b.qp)->dropped, 1);
}

static void each_half_posts_what_it_has(void **state)
{
	struct pair *pair = *state;
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
	struct ibv_send_wr send = {.wr_id = 1, .opcode = IBV_WR_SEND}, *bad_send;

	assert_int_equal(qp_post_recv(pair->a.qp, &recv, &bad_recv), EINVAL);
	assert_int_equal(reason_last(NULL), REASON_XRC_RECEIVES);
	assert_int_equal(qp_post_recv(pair->b.qp, &recv, &bad_recv), EINVAL);
	assert_int_equal(reason_last(NULL), REASON_XRC_RECEIVES);
	assert_ptr_equal(bad_recv, &recv);
	assert_int_equal(qp_post_send(pair->b.qp, &send, &bad_send), EINVAL);
	assert_int_equal(reason_last(NULL), REASON_XRC_RECV_SENDS);
	assert_ptr_equal(bad_send, &send);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    XRC_TEST(a_send_completes_in_the_cq_of_the_srq_it_names),
	    XRC_TEST(every_operation_works_over_xrc),
	    XRC_TEST(one_connection_serves_several_srqs),
	    XRC_TEST(an_srq_without_receives_is_not_ready),
	    XRC_TEST(an_srq_number_that_nobody_has_is_refused),
	    XRC_TEST(an_srq_number_of_another_process_is_refused),
	    XRC_TEST(an_srq_of_another_domain_is_refused),
	    XRC_TEST(a_basic_srq_is_no_xrc_srq),
	    XRC_TEST(the_pd_of_the_srq_guards_memory),
	    XRC_TEST(a_message_goes_to_one_srq),
	    XRC_TEST(an_srq_may_go_in_the_middle_of_a_message),
	    XRC_TEST(what_is_lost_is_sent_again),
	    XRC_TEST(packets_of_rc_are_not_for_xrc),
	    XRC_TEST(each_half_posts_what_it_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
