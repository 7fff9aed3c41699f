/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs on UC and UD QPs that leave as they are posted: the packets and completions of the general
 * path, each reason to leave one to it, and what waits for its receiver.
 */
#include "transport/unreliable.h"
#include "transport_pair.h"

enum { QKEY = 0x11111111, BYTES = 61, GRH_AREA = 40, ROOM = 2048, AT = 8192 };

static struct pair_options options;
static struct pair *pair;
static struct ah *ah;

static void begin(enum ibv_qp_type type, uint32_t cqe)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 33}};

	options = default_options;
	options.type = type;
	options.has_express = true;
	options.cqe = cqe ? cqe : default_options.cqe;
	pair = pair_connected(&options);
	attr.grh.dgid = pair->b.gid;
	assert_int_equal(ah_create(pair->a.pd, &attr, &ah), 0);
	pair->a.is_scheduled = false;
}

static int end(void **state)
{
	ah_destroy(ah);
	pair_free(pair);
	return 0;
}

static int set_up_ud(void **state)
{
	begin(IBV_QPT_UD, 0);
	return 0;
}

static int set_up_uc(void **state)
{
	begin(IBV_QPT_UC, 0);
	return 0;
}

static bool is_datagram(void)
{
	return options.type == IBV_QPT_UD;
}

static struct ibv_send_wr make(uint64_t wr_id, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};

	*sge = side_sge(&pair->a, wr_id * BYTES, BYTES);
	fill(pair->a.memory + wr_id * BYTES, BYTES, (unsigned int)wr_id);
	if (is_datagram()) {
		wr.wr.ud.ah = &ah->ibv;
		wr.wr.ud.remote_qpn = pair->b.qp->number;
		wr.wr.ud.remote_qkey = QKEY;
	}
	return wr;
}

/* False: it is left for the general path. */
static bool post(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *left = unreliable_post(pair->a.qp, wr, &pair->a.outbox, pair->now);

	assert_true(!left || left == wr);
	return !left;
}

static bool post_send(uint64_t wr_id)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = make(wr_id, &sge);

	return post(&wr);
}

static void receive(uint64_t wr_id)
{
	side_post_recv(&pair->b, wr_id, AT + wr_id % 16 * ROOM, ROOM);
}

static void expect_message(uint64_t recv_id, uint64_t send_id)
{
	struct ibv_wc wc = side_expect(&pair->b, recv_id, IBV_WC_SUCCESS);
	size_t before = is_datagram() ? GRH_AREA : 0;

	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, before + BYTES);
	assert_int_equal(wc.src_qp, pair->a.qp->number);
	assert_memory_equal(pair->b.memory + AT + recv_id % 16 * ROOM + before,
			    pair->a.memory + send_id * BYTES, BYTES);
}

/* ---- what leaves at once ---- */

static void a_send_needs_no_turn(void **state)
{
	struct ibv_wc wc;

	receive(7);
	assert_true(post_send(1));
	pair_expect_trace(pair, "A SEND_ONLY 0\n");
	assert_false(pair->a.is_scheduled);
	wc = side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	pair_run(pair);
	expect_message(7, 1);
	assert_int_equal(transport_counters(pair->a.qp)->sent_packets, 1);
	assert_int_equal(transport_counters(pair->b.qp)->received_packets, 1);
}

static void what_nobody_asked_to_hear_of_completes_in_silence(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = make(1, &sge);

	receive(7);
	receive(8);
	pair->a.qp->sq_sig_all = false;
	wr.send_flags = 0;
	assert_true(post(&wr));
	side_expect_none(&pair->a);
	assert_int_equal(sq_head(pair->a.qp), 1);
	assert_true(post_send(2));
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	pair_run(pair);
	expect_message(7, 1);
	expect_message(8, 2);
}

static void immediate_and_solicited_go_along(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = make(1, &sge);
	struct ibv_wc wc;

	receive(7);
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = htobe32(0x1234);
	wr.send_flags = IBV_SEND_SOLICITED | IBV_SEND_SIGNALED;
	assert_true(post(&wr));
	assert_true(pair->packets[pair->first].bytes[1] & 0x80); /* solicited (9.2.3) */
	pair_expect_trace(pair, "A SEND_ONLY_IMM 0\n");
	pair_run(pair);
	wc = side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	assert_true(wc.wc_flags & IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, htobe32(0x1234));
}

/* Both ways by turns: each PSN once, each in order. */
static void the_general_path_goes_on_behind_it(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	for (uint64_t i = 0; i < 6; i++) {
		receive(i);
		if (i % 2) {
			assert_true(post_send(i));
		} else {
			wr = make(i, &sge);
			side_post(&pair->a, &wr);
			pair_run(pair);
		}
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	}
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_ONLY 0\nA SEND_ONLY 1\nA SEND_ONLY 2\nA SEND_ONLY 3\n"
				"A SEND_ONLY 4\nA SEND_ONLY 5\n");
	for (uint64_t i = 0; i < 6; i++)
		expect_message(i, i);
}

static void of_a_list_it_takes_what_is_plain(void **state)
{
	struct ibv_sge sge[3];
	struct ibv_send_wr wr[3];

	for (uint64_t i = 0; i < 3; i++) {
		receive(i);
		wr[i] = make(i, &sge[i]);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[2].opcode = IBV_WR_RDMA_READ;
	assert_ptr_equal(unreliable_post(pair->a.qp, wr, &pair->a.outbox, pair->now), &wr[2]);
	pair_run(pair);
	expect_message(0, 0);
	expect_message(1, 1);
}

/* ---- what does not ---- */

static void expect_left(struct ibv_send_wr *wr)
{
	uint32_t psn = pair->a.qp->requester->psn;

	assert_false(post(wr));
	assert_int_equal(pair->a.qp->requester->psn, psn);
	assert_int_equal(sq_head(pair->a.qp), sq_tail(pair->a.qp));
	side_expect_none(&pair->a);
	pair_expect_trace(pair, "");
}

static void what_is_not_plain_is_left(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = make(1, &sge);

	wr.opcode = IBV_WR_RDMA_WRITE;
	expect_left(&wr);
	wr = make(1, &sge);
	sge.lkey ^= 1;
	expect_left(&wr);
	wr = make(1, &sge);
	sge.length = (uint32_t)pair->a.qp->mtu + 1;
	expect_left(&wr);
	wr = make(1, &sge);
	wr.num_sge = 100;
	expect_left(&wr);
	wr = make(1, &sge);
	wr.send_flags |= IBV_SEND_IP_CSUM;
	expect_left(&wr);
	if (!is_datagram())
		return;
	wr = make(1, &sge);
	wr.wr.ud.ah = NULL;
	expect_left(&wr);
	wr = make(1, &sge);
	wr.wr.ud.remote_qpn = 1 << 24;
	expect_left(&wr);
}

static void nor_from_a_qp_that_is_not_free(void **state)
{
	struct qp *qp = pair->a.qp;
	struct ibv_sge sge;
	struct ibv_send_wr wr = make(1, &sge);

	qp->attr.rate_limit = 1;
	expect_left(&wr);
	qp->attr.rate_limit = 0;
	qp->counted = IBV_QP_ATTACH_COMP_CNTR_OP_SEND;
	expect_left(&wr);
	qp->counted = 0;
	assert_true(sq_try_begin(qp)); /* somebody posts */
	expect_left(&wr);
	sq_abort(qp);
	atomic_store(&qp->state, IBV_QPS_SQD);
	expect_left(&wr);
	atomic_store(&qp->state, IBV_QPS_RTS);
	pair->a.outbox.has_records = NULL;
	expect_left(&wr);
}

static bool has_none(const struct outbox *outbox, const struct av *av, uint32_t dest_qp)
{
	(void)outbox, (void)av;
	assert_int_equal(dest_qp, pair->b.qp->number);
	return false;
}

static void nor_to_another_host(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = make(1, &sge);

	pair->a.outbox.has_records = has_none;
	expect_left(&wr);
}

/* Alone it leaves for there as well, where its caller flushes the outbox then. */
static void to_another_host_one_leaves_by_itself(void **state)
{
	struct outbox *outbox = &pair->a.outbox;
	struct ibv_sge sge;
	struct ibv_send_wr wr = make(1, &sge);

	pair->a.outbox.has_records = NULL;
	receive(7);
	assert_true(unreliable_post_far(pair->a.qp, &wr, outbox, pair->now));
	pair_expect_trace(pair, "A SEND_ONLY 0\n");
	assert_false(pair->a.is_scheduled);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	pair_run(pair);
	expect_message(7, 1);
	pair->trace[0] = '\0';
	wr.opcode = IBV_WR_RDMA_WRITE;
	assert_false(unreliable_post_far(pair->a.qp, &wr, outbox, pair->now));
	wr = make(2, &sge);
	assert_true(sq_try_begin(pair->a.qp)); /* somebody posts */
	assert_false(unreliable_post_far(pair->a.qp, &wr, outbox, pair->now));
	sq_abort(pair->a.qp);
	pair->room = 0;
	assert_false(unreliable_post_far(pair->a.qp, &wr, outbox, pair->now));
	pair->room = UINT32_MAX;
	pair_expect_trace(pair, "");
	side_expect_none(&pair->a);
}

/* As far ahead as any. */
static void at_the_pace(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = make(1, &sge);
	uint32_t count = 0;

	pair->a.outbox.has_records = NULL;
	while (count < 100 && unreliable_post_far(pair->a.qp, &wr, &pair->a.outbox, pair->now))
		count++;
	assert_int_equal(count, pair->a.qp->requester->pace.window);
}

static void nor_where_its_completion_has_no_room(void **state)
{
	uint32_t count = 0, room;

	end(state);
	begin(options.type, 4);
	room = (uint32_t)pair->a.cq->ibv.cqe;
	assert_true(room < pair->a.qp->requester->pace.window);
	while (count < 100 && post_send(count))
		count++;
	assert_int_equal(count, room);
	side_expect(&pair->a, 0, IBV_WC_SUCCESS);
	assert_true(post_send(count));
	assert_false(post_send(count));
}

/* ---- the pace ---- */

/* The receiver is to answer; what is posted meanwhile waits in the queue, as it came. */
static void what_waits_for_its_receiver_is_queued(void **state)
{
	uint32_t window = pair->a.qp->requester->pace.window, first = pair->a.qp->requester->psn;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	uint64_t i;

	for (i = 0; i < window; i++) {
		assert_true(post_send(i));
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	}
	assert_false(post_send(i)); /* whose turn will find that it has to wait */
	wr = make(i++, &sge);
	side_post(&pair->a, &wr);
	side_turn(&pair->a);
	assert_int_not_equal(transport_deadline(pair->a.qp), NO_DEADLINE);
	for (; i < window + 4; i++) {
		pair->a.is_scheduled = false;
		assert_true(post_send(i));
		assert_false(pair->a.is_scheduled);
	}
	side_expect_none(&pair->a);
	for (uint64_t n = 0; n < 8; n++)
		receive(n);
	pair_run(pair);
	for (i = window; i < window + 4; i++)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	assert_int_equal(transport_deadline(pair->a.qp), NO_DEADLINE);
	for (uint64_t n = 0; n < 8; n++)
		expect_message(n, n);
	assert_int_equal(pair->a.qp->requester->psn, first + window + 4);
}

/* Nothing is queued behind the end of the QP, nor where there is no room. */
static void but_only_where_there_is_a_queue(void **state)
{
	uint32_t window = pair->a.qp->requester->pace.window;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	uint64_t i, queued = 0;

	for (i = 0; i < window; i++) {
		assert_true(post_send(i));
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	}
	wr = make(i, &sge);
	side_post(&pair->a, &wr);
	side_turn(&pair->a);
	while (post_send(i) && queued < 1000)
		queued++;
	assert_int_equal(queued, pair->a.qp->sq.max_wr - 1);
	assert_int_equal(side_modify(&pair->a, IBV_QPS_ERR), 0);
	assert_false(post_send(i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name)                                                                                 \
	cmocka_unit_test_setup_teardown(name, set_up_ud, end),                                     \
	    cmocka_unit_test_setup_teardown(name, set_up_uc, end)
	    TEST(a_send_needs_no_turn),
	    TEST(what_nobody_asked_to_hear_of_completes_in_silence),
	    TEST(immediate_and_solicited_go_along),
	    TEST(the_general_path_goes_on_behind_it),
	    TEST(of_a_list_it_takes_what_is_plain),
	    TEST(what_is_not_plain_is_left),
	    TEST(nor_from_a_qp_that_is_not_free),
	    TEST(nor_to_another_host),
	    TEST(to_another_host_one_leaves_by_itself),
	    TEST(at_the_pace),
	    TEST(nor_where_its_completion_has_no_room),
	    TEST(what_waits_for_its_receiver_is_queued),
	    TEST(but_only_where_there_is_a_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
