/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plain messages of the express path between two processes: who may have such, what is one, and
 * that both ends are left as by any record.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <cmocka.h>

#include "express_pair.h"
#include "faults.h"

/* From A, as B sees it. */
static struct packet from_a(const struct pair *pair)
{
	return (struct packet){.sgid = pair->a.gid, .dgid = pair->b.gid};
}

static bool may_arrive(struct pair *pair)
{
	struct packet packet = from_a(pair);

	return express_may_arrive(pair->b.qp, &packet);
}

/* ---- the same by either way ---- */

/* What an exchange of a message and its reply, then one with immediate data, leaves. */
struct left {
	uint32_t psn, end, una, msn, head, tail;
	struct transport_counters counters;
	struct ibv_wc wc[3];
};

static void note_left(const struct side *side, struct left *left)
{
	const struct requester *requester = side->qp->requester;

	left->psn = side->qp->responder->psn;
	left->msn = side->qp->responder->msn;
	left->end = requester->end;
	left->una = requester->una;
	left->head = sq_head(side->qp);
	left->tail = sq_tail(side->qp);
	left->counters = requester->counters;
}

static void exchange(bool is_general, bool has_srq, struct left *a, struct left *b)
{
	struct pair_options options = *express_options();
	struct pair *pair;

	options.has_srq = has_srq;
	pair = acquainted(&options);
	memset(a, 0, sizeof(*a));
	memset(b, 0, sizeof(*b));
	pair->is_general = is_general;
	receive(pair, 1);
	receive(pair, 2);
	side_post_recv(&pair->a, 7, 2048, 100);
	pair_run(pair);
	send(pair, 1);
	pair_deliver(pair);
	b->wc[0] = side_expect(&pair->b, 1, IBV_WC_SUCCESS);
	side_request(&pair->b, IBV_WR_SEND_WITH_IMM, 3, 0, 10);
	pair_deliver(pair);
	a->wc[0] = side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	a->wc[1] = side_expect(&pair->a, 7, IBV_WC_SUCCESS);
	send(pair, 2);
	pair_run_out(pair);
	b->wc[1] = side_expect(&pair->b, 3, IBV_WC_SUCCESS);
	b->wc[2] = side_expect(&pair->b, 2, IBV_WC_SUCCESS);
	a->wc[2] = side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	assert_int_equal(pair->arrivals, is_general ? 0 : pair->glances);
	expect_coherent(pair);
	note_left(&pair->a, a);
	note_left(&pair->b, b);
	pair_free(pair);
}

static void expect_same(const struct left *left, const struct left *right)
{
	assert_int_equal(left->psn, right->psn);
	assert_int_equal(left->msn, right->msn);
	assert_int_equal(left->end, right->end);
	assert_int_equal(left->una, right->una);
	assert_int_equal(left->head, right->head);
	assert_int_equal(left->tail, right->tail);
	assert_memory_equal(&left->counters, &right->counters, sizeof(left->counters));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(left->wc[i].opcode, right->wc[i].opcode);
		assert_int_equal(left->wc[i].byte_len, right->wc[i].byte_len);
		assert_int_equal(left->wc[i].wc_flags, right->wc[i].wc_flags);
		assert_int_equal(left->wc[i].imm_data, right->wc[i].imm_data);
		assert_int_equal(left->wc[i].src_qp, right->wc[i].src_qp);
		assert_int_equal(left->wc[i].pkey_index, right->wc[i].pkey_index);
		assert_int_equal(left->wc[i].sl, right->wc[i].sl);
	}
}

static void expect_left_alike(bool has_srq)
{
	struct left plain[2], general[2];

	exchange(false, has_srq, &plain[0], &plain[1]);
	exchange(true, has_srq, &general[0], &general[1]);
	expect_same(&plain[0], &general[0]);
	expect_same(&plain[1], &general[1]);
	assert_true(plain[0].counters.expressed == 2);
}

static void both_ends_are_left_as_by_any_record(void **state)
{
	(void)state;
	expect_left_alike(false);
}

static void and_where_receives_are_shared(void **state)
{
	(void)state;
	expect_left_alike(true);
}

/* ---- who may ---- */

static void in_which_states(void **state)
{
	struct pair *pair = *state;
	const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
					    IBV_QPS_SQD,   IBV_QPS_SQE,	 IBV_QPS_ERR};

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		pair->b.qp->state = states[i];
		assert_int_equal(express_may_leave(pair->b.qp), states[i] == IBV_QPS_RTS);
		assert_int_equal(may_arrive(pair),
				 states[i] == IBV_QPS_RTS || states[i] == IBV_QPS_RTR);
	}
	pair->b.qp->state = IBV_QPS_RTS;
}

static void from_the_peer_alone(void **state)
{
	struct pair *pair = *state;
	struct packet packet = from_a(pair);

	assert_true(express_may_arrive(pair->b.qp, &packet));
	packet.sgid.raw[15] ^= 1;
	assert_false(express_may_arrive(pair->b.qp, &packet));
	packet = from_a(pair);
	packet.dgid.raw[15] ^= 1;
	assert_false(express_may_arrive(pair->b.qp, &packet));
}

/* Two limited members do not hear each other, nor does one itself. */
static void not_with_a_limited_membership(void **state)
{
	struct pair *pair = *state;

	pair->b.qp->pkey &= 0x7fff;
	assert_false(may_arrive(pair));
}

static void not_before_the_first_packet(void **state)
{
	struct pair *pair = *state;

	pair->b.qp->has_communicated = false;
	assert_false(may_arrive(pair));
}

static void not_what_is_counted_or_limited(void **state)
{
	struct pair *pair = *state;

	pair->b.qp->counted = IBV_QP_ATTACH_COMP_CNTR_OP_RECV;
	assert_false(may_arrive(pair));
	pair->b.qp->counted = IBV_QP_ATTACH_COMP_CNTR_OP_SEND;
	assert_false(may_arrive(pair));
	pair->b.qp->counted = 0;
	assert_true(may_arrive(pair));
	pair->a.qp->attr.rate_limit = 1000;
	assert_false(express_may_leave(pair->a.qp));
}

static void not_where_tags_are_matched(void **state)
{
	struct pair_options options = *express_options();
	struct pair *pair;

	(void)state;
	options.has_tags = true;
	pair = acquainted(&options);
	assert_false(may_arrive(pair));
	pair_free(pair);
}

/* ---- into a shared queue ---- */

static int set_up_shared(void **state)
{
	struct pair_options options = *express_options();

	options.has_srq = true;
	*state = acquainted(&options);
	return 0;
}

static void each_message_takes_one(void **state)
{
	struct pair *pair = *state;

	assert_true(may_arrive(pair));
	receive(pair, 1);
	receive(pair, 2);
	pair_run(pair);
	send(pair, 1);
	pair_run(pair);
	assert_int_equal(pair->arrivals, 1);
	expect_message(pair, 1, 1);
	side_expect_none(&pair->b);
	assert_int_equal(recv_queue_count(&pair->b.srq->queue), 1);
	assert_false(pair->b.qp->responder->has_recv);
	send(pair, 2);
	pair_run_out(pair);
	expect_message(pair, 2, 2);
	assert_int_equal(pair->arrivals, 2);
	expect_coherent(pair);
}

/* Its sender hears that the receiver is not ready, and sends it again. */
static void an_empty_one_is_waited_for(void **state)
{
	struct pair *pair = *state;

	send(pair, 1);
	pair_run(pair);
	assert_int_equal(pair->arrivals, 0);
	side_expect_none(&pair->b);
	receive(pair, 1);
	pair_run_out(pair);
	expect_message(pair, 1, 1);
	expect_coherent(pair);
}

static void post_pieces(struct pair *pair, uint64_t wr_id)
{
	struct ibv_sge sge[2] = {side_sge(&pair->b, OFFSET + wr_id * 512, 10),
				 side_sge(&pair->b, OFFSET + wr_id * 512 + 10, 502)};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = sge, .num_sge = 2}, *bad;

	assert_int_equal(recv_queue_post(&pair->b.srq->queue, &wr, &bad), 0);
}

static void a_receive_in_pieces_is_left(void **state)
{
	struct pair *pair = *state;

	post_pieces(pair, 1);
	pair_run(pair);
	send(pair, 1);
	pair_deliver(pair);
	assert_int_equal(pair->arrivals, 0);
	assert_int_equal(pair->glances, 1);
	expect_message(pair, 1, 1);
	pair_run_out(pair);
	expect_coherent(pair);
}

static void a_wrong_key_spends_that_one(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->b, OFFSET, 512);
	struct ibv_recv_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1}, *bad;

	sge.lkey ^= 1;
	assert_int_equal(recv_queue_post(&pair->b.srq->queue, &wr, &bad), 0);
	receive(pair, 1);
	pair_run(pair);
	send(pair, 1);
	pair_run(pair);
	assert_int_equal(pair->arrivals, 0);
	side_expect(&pair->b, 7, IBV_WC_LOC_PROT_ERR);
	side_expect_none(&pair->b);
	assert_int_equal(recv_queue_count(&pair->b.srq->queue), 1);
}

static void where_it_lies_is_asked_of_its_own_pd(void **state)
{
	struct pair *pair = *state;
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct srq *own = pair->b.srq, *other;
	struct pd *pd;

	assert_int_equal(pd_create(&pair->b.adapter, &pd), 0);
	assert_int_equal(srq_create(pd, &init, &other), 0);
	pair->b.srq = pair->b.qp->srq = other;
	receive(pair, 1);
	pair_run(pair);
	send(pair, 1);
	pair_run(pair);
	assert_int_equal(pair->arrivals, 0);
	side_expect(&pair->b, 1, IBV_WC_LOC_PROT_ERR); /* the region is the QP's PD's */
	pair->b.srq = pair->b.qp->srq = own;
	assert_int_equal(srq_destroy(other), 0);
	assert_int_equal(pd_destroy(pd), 0);
}

/* By the general way of a record, or by the plain one. */
static void expect_short_one_spent(bool is_general)
{
	struct pair_options options = *express_options();
	struct pair *pair;

	options.has_srq = true;
	pair = acquainted(&options);
	pair->is_general = is_general;
	receive(pair, 1);
	side_post_recv(&pair->b, 2, 0, BYTES - 1);
	pair_run(pair);
	send(pair, 1);
	pair_run(pair);
	expect_message(pair, 1, 1);
	pair_expect_trace(pair, "A express 0\nB ACK 0\n");
	assert_int_equal(pair->glances, 1);
	send(pair, 2); /* too long for what is there: that one, and no other, is spent */
	pair_run(pair);
	side_expect(&pair->b, 2, IBV_WC_LOC_LEN_ERR);
	assert_true(side_had_event(&pair->b, IBV_EVENT_QP_LAST_WQE_REACHED));
	pair_free(pair);
}

static void one_too_short_is_spent(void **state)
{
	(void)state;
	expect_short_one_spent(true);
	expect_short_one_spent(false);
}

#ifdef FAULTS_ARE_FOUND
/* It is found when the receive is taken from the queue already. */
static void expect_one_without_memory_spent(bool is_general)
{
	struct pair_options options = *express_options();
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_sge sge = {(uintptr_t)page, BYTES, 0};
	struct ibv_recv_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1}, *bad;
	struct pair *pair;
	struct mr *mr;

	assert_ptr_not_equal(page, MAP_FAILED);
	options.has_srq = true;
	pair = acquainted(&options);
	pair->is_general = is_general;
	assert_int_equal(mr_create(pair->b.pd, page, 4096, sge.addr, IBV_ACCESS_LOCAL_WRITE, &mr),
			 0);
	sge.lkey = mr->lkey;
	assert_int_equal(recv_queue_post(&pair->b.srq->queue, &wr, &bad), 0);
	receive(pair, 1);
	pair_run(pair);
	assert_int_equal(munmap(page, 4096), 0);
	guard_faults();
	send(pair, 1);
	pair_run(pair);
	assert_int_equal(pair->glances, 0);
	side_expect(&pair->b, 7, IBV_WC_LOC_PROT_ERR); /* and not 1, which is there for others */
	side_expect_none(&pair->b);
	mr_destroy(mr);
	pair_free(pair);
}

static void one_whose_memory_is_gone_is_spent(void **state)
{
	(void)state;
	expect_one_without_memory_spent(true);
	expect_one_without_memory_spent(false);
}
#endif

/* ---- what is plain ---- */

static void expect_size(struct pair *pair, const struct ibv_send_wr *wr, size_t size)
{
	assert_true(express_begin_plain(pair->a.qp));
	assert_int_equal(express_plain_size(pair->a.qp, wr), size);
	sq_abort(pair->a.qp);
}

static void one_element_and_one_packet(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge[2] = {side_sge(&pair->a, 0, 8), side_sge(&pair->a, 8, 8)};
	struct ibv_send_wr good = {.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 1}, wr = good;

	expect_size(pair, &wr, sizeof(struct express) + 8);
	wr.num_sge = 2;
	expect_size(pair, &wr, 0);
	wr.num_sge = 0;
	expect_size(pair, &wr, 0);
	wr = good;
	wr.opcode = IBV_WR_RDMA_WRITE;
	expect_size(pair, &wr, 0);
	wr = good;
	wr.send_flags = IBV_SEND_FENCE;
	expect_size(pair, &wr, 0);
	wr.send_flags = IBV_SEND_IP_CSUM;
	expect_size(pair, &wr, 0);
	wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
	expect_size(pair, &wr, sizeof(struct express) + 8);
	sge[0].length = pair->a.qp->sq.max_inline + 1;
	expect_size(pair, &wr, 0);
	wr.send_flags = 0;
	sge[0].length = pair->a.qp->mtu;
	expect_size(pair, &wr, sizeof(struct express) + pair->a.qp->mtu);
	sge[0].length++;
	expect_size(pair, &wr, 0);
	sge[0].length = 0;
	expect_size(pair, &wr, 0);
}

static void a_wrong_key_changes_nothing(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->a, 0, 8);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
	const struct requester *requester = pair->a.qp->requester;
	uint32_t end = requester->end, tail = sq_tail(pair->a.qp);

	sge.lkey ^= 1;
	assert_ptr_equal(post_plain(pair->a.qp, &wr, &pair->a.outbox), &wr);
	assert_int_equal(requester->end, end);
	assert_int_equal(sq_tail(pair->a.qp), tail);
	pair_expect_trace(pair, "");
}

static void not_in_front_of_what_waits(void **state)
{
	struct pair *pair = *state;
	struct responder *responder = pair->a.qp->responder;

	pair->a.qp->requester->current--;
	assert_false(express_begin_plain(pair->a.qp));
	pair->a.qp->requester->current++;
	responder->is_owed = true;
	responder->syndrome = AETH_RNR_NAK;
	assert_false(express_begin_plain(pair->a.qp));
	responder->is_owed = false;
	pair->a.qp->requester->has_failed = true;
	assert_false(express_begin_plain(pair->a.qp));
	pair->a.qp->requester->has_failed = false;
	assert_true(express_begin_plain(pair->a.qp));
	assert_false(express_begin_plain(pair->a.qp)); /* somebody posts */
	sq_abort(pair->a.qp);
}

static void no_more_than_the_window(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->a, 0, 8);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
	uint32_t sent = 0, most = pair->a.qp->sq.max_wr;

	while (!post_plain(pair->a.qp, &wr, &pair->a.outbox))
		sent++;
	assert_int_equal(sent, most < EXPRESS_WINDOW ? most : EXPRESS_WINDOW);
}

#define TEST(name)   express_test(name)
#define SHARED(name) cmocka_unit_test_setup_teardown(name, set_up_shared, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(both_ends_are_left_as_by_any_record),
	    cmocka_unit_test(and_where_receives_are_shared),
	    TEST(in_which_states),
	    TEST(from_the_peer_alone),
	    TEST(not_with_a_limited_membership),
	    TEST(not_before_the_first_packet),
	    TEST(not_what_is_counted_or_limited),
	    cmocka_unit_test(not_where_tags_are_matched),
	    SHARED(each_message_takes_one),
	    SHARED(an_empty_one_is_waited_for),
	    SHARED(a_receive_in_pieces_is_left),
	    SHARED(a_wrong_key_spends_that_one),
	    SHARED(where_it_lies_is_asked_of_its_own_pd),
	    cmocka_unit_test(one_too_short_is_spent),
#ifdef FAULTS_ARE_FOUND
	    cmocka_unit_test(one_whose_memory_is_gone_is_spent),
#endif
	    TEST(one_element_and_one_packet),
	    TEST(a_wrong_key_changes_nothing),
	    TEST(not_in_front_of_what_waits),
	    TEST(no_more_than_the_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
