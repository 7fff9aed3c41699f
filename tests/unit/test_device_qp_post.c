/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting: what a WQE holds afterwards, a list that stops at its first bad one, and each refusal.
 */
#include "fixture.h"

static struct objects o;
static struct ah *ah;
static struct ibv_sge sge[MAX_SGE + 1];
static char text[] = "sixteen bytes...";

static int setup(void **state)
{
	struct ibv_ah_attr attr = fixture_address();

	if (fixture_setup(state))
		return -1;
	o = objects_create();
	for (int i = 0; i <= MAX_SGE; i++)
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)text, .length = 8, .lkey = 77};
	return ah_create(o.pd, &attr, &ah);
}

static int teardown(void **state)
{
	ah_destroy(ah);
	objects_destroy(&o);
	return fixture_teardown(state);
}

#define POST_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static struct qp *qp_ready(enum ibv_qp_type type)
{
	struct qp *qp = qp_new(&o, type);

	qp_bring_to(qp, IBV_QPS_RTS);
	return qp;
}

static struct ibv_send_wr send_wr(enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr wr = {.wr_id = 0x1d, .opcode = opcode, .sg_list = sge, .num_sge = 1};

	return wr;
}

static int post(struct qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int ret = qp_post_send(qp, wr, &bad);

	assert_ptr_equal(bad, ret ? wr : NULL);
	return ret;
}

static const struct send_wqe *last_wqe(const struct qp *qp)
{
	return sq_wqe(&qp->sq, qp->sq.tail - 1);
}

/* ---- what is kept ---- */

static void a_write_is_kept_as_it_was_posted(void **state)
{
	struct qp *qp = qp_ready(IBV_QPT_RC);
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE_WITH_IMM);

	wr.num_sge = 2;
	wr.send_flags = IBV_SEND_FENCE;
	wr.imm_data = 0x01020304;
	wr.wr.rdma.remote_addr = 0x1000;
	wr.wr.rdma.rkey = 0x99;
	assert_int_equal(post(qp, &wr), 0);
	assert_int_equal(qp->sq.tail - qp->sq.head, 1);
	assert_int_equal(last_wqe(qp)->wr_id, 0x1d);
	assert_int_equal(last_wqe(qp)->opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(last_wqe(qp)->flags, IBV_SEND_FENCE);
	assert_int_equal(last_wqe(qp)->length, 16);
	assert_int_equal(last_wqe(qp)->num_sge, 2);
	assert_int_equal(last_wqe(qp)->imm_data, 0x01020304);
	assert_int_equal(last_wqe(qp)->remote_addr, 0x1000);
	assert_int_equal(last_wqe(qp)->rkey, 0x99);
	assert_memory_equal(last_wqe(qp)->sge, sge, 2 * sizeof(sge[0]));
	qp_end(qp);
}

static void an_atomic_is_kept_as_it_was_posted(void **state)
{
	struct qp *qp = qp_ready(IBV_QPT_RC);
	struct ibv_send_wr wr = send_wr(IBV_WR_ATOMIC_CMP_AND_SWP);

	wr.wr.atomic.remote_addr = 0x2000;
	wr.wr.atomic.rkey = 0x98;
	wr.wr.atomic.compare_add = 1;
	wr.wr.atomic.swap = 2;
	assert_int_equal(post(qp, &wr), 0);
	assert_int_equal(last_wqe(qp)->remote_addr, 0x2000);
	assert_int_equal(last_wqe(qp)->rkey, 0x98);
	assert_int_equal(last_wqe(qp)->atomic.compare_add, 1);
	assert_int_equal(last_wqe(qp)->atomic.swap, 2);
	qp_end(qp);
}

static void a_datagram_is_kept_with_its_resolved_address(void **state)
{
	struct qp *qp = qp_ready(IBV_QPT_UD);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND);

	wr.wr.ud.ah = &ah->ibv;
	wr.wr.ud.remote_qpn = 0x123456;
	wr.wr.ud.remote_qkey = 0x11;
	assert_int_equal(post(qp, &wr), 0);
	assert_memory_equal(&last_wqe(qp)->ud.av.dgid, &peer_ipv4, sizeof(peer_ipv4));
	assert_int_equal(last_wqe(qp)->ud.qpn, 0x123456);
	assert_int_equal(last_wqe(qp)->ud.qkey, 0x11);
	qp_end(qp);
}

static void inline_data_is_copied_at_once(void **state)
{
	struct qp *qp = qp_ready(IBV_QPT_RC);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND);
	char data[8] = "abcdefg", more[3] = "hi";
	struct ibv_sge pieces[] = {{.addr = (uintptr_t)data, .length = 7},
				   {.addr = (uintptr_t)more, .length = 2}};

	wr.sg_list = pieces;
	wr.num_sge = 2;
	wr.send_flags = IBV_SEND_INLINE;
	assert_int_equal(post(qp, &wr), 0);
	memset(data, 0, sizeof(data));
	assert_true(last_wqe(qp)->is_inline);
	assert_int_equal(last_wqe(qp)->num_sge, 0);
	assert_int_equal(last_wqe(qp)->length, 9);
	assert_memory_equal(last_wqe(qp)->data, "abcdefghi", 9);
	qp_end(qp);
}

static void sq_sig_all_signals_everything(void **state)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(&o, IBV_QPT_RC);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND);
	struct qp *qp;

	attr.sq_sig_all = 1;
	assert_int_equal(qp_create(o.pd, &attr, &qp), 0);
	qp_bring_to(qp, IBV_QPS_RTS);
	assert_int_equal(post(qp, &wr), 0);
	assert_int_equal(last_wqe(qp)->flags, IBV_SEND_SIGNALED);
	qp_end(qp);
}

static void a_list_stops_at_its_first_bad_one(void **state)
{
	struct qp *qp = qp_ready(IBV_QPT_RC);
	struct ibv_send_wr third = send_wr(IBV_WR_SEND), second = third, first = third, *bad = NULL;

	first.next = &second;
	second.next = &third;
	second.num_sge = 3;
	assert_refused(qp_post_send(qp, &first, &bad), EINVAL, REASON_SEND_TOO_MANY_SGE,
		       "3 elements, it takes 2");
	assert_ptr_equal(bad, &second);
	assert_int_equal(qp->sq.tail - qp->sq.head, 1);
	assert_int_equal(post(qp, &third), 0);
	assert_int_equal(qp->sq.tail - qp->sq.head, 2);
	qp_end(qp);
}

static void a_message_of_no_bytes_is_posted(void **state)
{
	struct qp *qp = qp_ready(IBV_QPT_RC);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND);

	wr.sg_list = NULL;
	wr.num_sge = 0;
	assert_int_equal(post(qp, &wr), 0);
	assert_int_equal(last_wqe(qp)->length, 0);
	qp_end(qp);
}

/* ---- the steps of the builders ---- */

static void nothing_of_an_aborted_batch_is_posted(void **state)
{
	struct qp *qp = qp_ready(IBV_QPT_RC);

	sq_begin(qp);
	assert_non_null(sq_next(qp));
	assert_non_null(sq_next(qp));
	sq_abort(qp);
	assert_int_equal(qp->sq.tail, qp->sq.head);
	sq_begin(qp);
	for (int i = 0; i < 4; i++)
		assert_non_null(sq_next(qp));
	assert_null(sq_next(qp));
	assert_int_equal(reason_last(NULL), REASON_SEND_QUEUE_FULL);
	sq_commit(qp);
	assert_int_equal(qp->sq.tail - qp->sq.head, 4);
	qp_end(qp);
}

/* Who waits for each message touches the same memory for each; and while something is left, all
 * stand apart, wherever the queue began. */
static void a_queue_that_has_run_empty_begins_at_its_first_place(void **state)
{
	struct qp *qp = qp_ready(IBV_QPT_RC);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND);

	for (uint64_t i = 0; i < 9; i++) {
		wr.wr_id = i;
		assert_int_equal(post(qp, &wr), 0);
		assert_ptr_equal(last_wqe(qp), qp->sq.ring);
		assert_ptr_equal(sq_next_wqe(&qp->sq), qp->sq.ring);
		qp->sq.head++;
	}
	for (uint64_t i = 9; i < 40; i++) {
		wr.wr_id = i;
		assert_int_equal(post(qp, &wr), 0);
		for (uint32_t at = qp->sq.head; at != qp->sq.tail; at++)
			assert_int_equal(sq_wqe(&qp->sq, at)->wr_id, at);
		if (qp->sq.tail - qp->sq.head == 4)
			qp->sq.head += i % 4 + 1;
	}
	qp_end(qp);
}

/* ---- refusals ---- */

static void a_full_queue_refuses(void **state)
{
	struct qp *qp = qp_ready(IBV_QPT_RC);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND);

	for (int i = 0; i < 4; i++)
		assert_int_equal(post(qp, &wr), 0);
	assert_refused(post(qp, &wr), ENOMEM, REASON_SEND_QUEUE_FULL, "4 work requests");
	qp->sq.head++;
	assert_int_equal(post(qp, &wr), 0);
	qp_end(qp);
}

static void states_before_rts_take_no_sends_and_reset_no_receives(void **state)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						   IBV_QPS_RTS,	  IBV_QPS_SQD,	IBV_QPS_SQE,
						   IBV_QPS_ERR};

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		struct qp *qp = qp_new(&o, IBV_QPT_UC);
		struct ibv_send_wr wr = send_wr(IBV_WR_SEND);
		struct ibv_recv_wr recv = {.wr_id = 1}, *bad;

		if (states[i] != IBV_QPS_RESET)
			qp_bring_to(qp, states[i]);
		if (states[i] < IBV_QPS_RTS)
			assert_refused(post(qp, &wr), EINVAL, REASON_SEND_STATE,
				       qp_state_name(states[i]));
		else
			assert_int_equal(post(qp, &wr), 0);
		if (states[i] == IBV_QPS_RESET)
			assert_refused(qp_post_recv(qp, &recv, &bad), EINVAL, REASON_RECV_STATE,
				       "RESET");
		else
			assert_int_equal(qp_post_recv(qp, &recv, &bad), 0);
		qp_end(qp);
	}
}

static void each_type_takes_its_opcodes_and_no_others(void **state)
{
	enum { RC = 1, UC = 2, UD = 4 };
	static const struct {
		enum ibv_wr_opcode opcode;
		int types;
	} table[] = {
	    {IBV_WR_RDMA_WRITE, RC | UC},
	    {IBV_WR_RDMA_WRITE_WITH_IMM, RC | UC},
	    {IBV_WR_SEND, RC | UC | UD},
	    {IBV_WR_SEND_WITH_IMM, RC | UC | UD},
	    {IBV_WR_RDMA_READ, RC},
	    {IBV_WR_ATOMIC_CMP_AND_SWP, RC},
	    {IBV_WR_ATOMIC_FETCH_AND_ADD, RC},
	    {IBV_WR_LOCAL_INV, RC | UC},
	    {IBV_WR_SEND_WITH_INV, RC},
	};
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

	for (int t = 0; t < 3; t++)
		for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
			struct qp *qp = qp_ready(types[t]);
			struct ibv_send_wr wr = send_wr(table[i].opcode);

			if (types[t] == IBV_QPT_UD)
				wr.wr.ud.ah = &ah->ibv;
			if (table[i].types & 1 << t)
				assert_int_equal(post(qp, &wr), 0);
			else
				assert_refused(post(qp, &wr), EINVAL, REASON_SEND_OPCODE_TYPE,
					       "on type U");
			qp_end(qp);
		}
}

static void opcodes_that_are_none_are_refused(void **state)
{
	static const int opcodes[] = {IBV_WR_TSO, IBV_WR_DRIVER1, 16, 1000, -1};
	struct qp *qp = qp_ready(IBV_QPT_RC);

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		struct ibv_send_wr wr = send_wr((enum ibv_wr_opcode)opcodes[i]);

		assert_refused(post(qp, &wr), EINVAL, REASON_SEND_OPCODE, "opcode is");
	}
	qp_end(qp);
}

static void refuse_wr_of(struct qp *qp, struct ibv_send_wr wr, int error, enum reason reason,
			 const char *word)
{
	uint32_t tail = qp->sq.tail;

	assert_refused(post(qp, &wr), error, reason, word);
	assert_int_equal(qp->sq.tail, tail);
}

static void every_bad_work_request_is_refused(void **state)
{
	struct qp *qp = qp_ready(IBV_QPT_RC);
	struct ibv_send_wr wr;

	wr = send_wr(IBV_WR_SEND);
	wr.num_sge = -1;
	refuse_wr_of(qp, wr, EINVAL, REASON_SEND_TOO_MANY_SGE, "-1");
	wr = send_wr(IBV_WR_SEND);
	wr.send_flags = 1 << 7;
	refuse_wr_of(qp, wr, EINVAL, REASON_SEND_FLAGS, "0x80");
	wr = send_wr(IBV_WR_RDMA_READ);
	wr.send_flags = IBV_SEND_INLINE;
	refuse_wr_of(qp, wr, EINVAL, REASON_SEND_INLINE_OPCODE, "RDMA_READ");
	wr = send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD);
	wr.num_sge = 2;
	refuse_wr_of(qp, wr, EINVAL, REASON_SEND_ATOMIC_SIZE, "16 bytes");
	wr = send_wr(IBV_WR_ATOMIC_CMP_AND_SWP);
	wr.num_sge = 0;
	refuse_wr_of(qp, wr, EINVAL, REASON_SEND_ATOMIC_SIZE, "0 bytes");
	wr = send_wr(IBV_WR_ATOMIC_WRITE);
	refuse_wr_of(qp, wr, EINVAL, REASON_SEND_ATOMIC_WRITE_INLINE, "wr_id 0x1d");
	wr.num_sge = 2;
	wr.send_flags = IBV_SEND_INLINE;
	refuse_wr_of(qp, wr, EINVAL, REASON_SEND_ATOMIC_WRITE_SIZE, "16 bytes");
	wr = send_wr(IBV_WR_FLUSH);
	refuse_wr_of(qp, wr, EINVAL, REASON_SEND_FLUSH, "wr_id 0x1d");
	qp_end(qp);
}

static void inline_data_beyond_the_limit_is_refused(void **state)
{
	struct qp *qp = qp_ready(IBV_QPT_RC);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND);
	char large[MAX_INLINE + 1] = {0};
	struct ibv_sge pieces[] = {{.addr = (uintptr_t)large, .length = qp->sq.max_inline},
				   {.addr = (uintptr_t)large, .length = 1}};
	struct ibv_sge wrapping[] = {{.addr = (uintptr_t)large, .length = 1},
				     {.addr = (uintptr_t)large, .length = UINT32_MAX}};

	wr.sg_list = pieces;
	wr.send_flags = IBV_SEND_INLINE;
	assert_int_equal(post(qp, &wr), 0);
	wr.num_sge = 2;
	refuse_wr_of(qp, wr, EINVAL, REASON_SEND_INLINE_SIZE, "longer than the 64 bytes");
	wr.sg_list = wrapping;
	refuse_wr_of(qp, wr, EINVAL, REASON_SEND_INLINE_SIZE, "longer than");
	qp_end(qp);
}

static void a_datagram_needs_its_destination(void **state)
{
	struct qp *qp = qp_ready(IBV_QPT_UD);
	struct ibv_ah_attr attr = fixture_address();
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND);
	struct pd *other;
	struct ah *others;

	refuse_wr_of(qp, wr, EINVAL, REASON_SEND_NO_AH, "wr.ud.ah");
	wr.wr.ud.ah = &ah->ibv;
	wr.wr.ud.remote_qpn = 1 << 24;
	refuse_wr_of(qp, wr, EINVAL, REASON_SEND_REMOTE_QPN, "0x1000000");
	assert_int_equal(pd_create(&adapter, &other), 0);
	assert_int_equal(ah_create(other, &attr, &others), 0);
	wr.wr.ud.remote_qpn = 1;
	wr.wr.ud.ah = &others->ibv;
	refuse_wr_of(qp, wr, EINVAL, REASON_SEND_AH_PD, "of PD");
	ah_destroy(others);
	pd_destroy(other);
	qp_end(qp);
}

static void receives_of_a_qp_with_an_srq_are_refused(void **state)
{
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr_ex attr = qp_attr(&o, IBV_QPT_RC);
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad = NULL;
	struct srq *srq;
	struct qp *qp;

	assert_int_equal(srq_create(o.pd, &srq_attr, &srq), 0);
	attr.srq = &srq->ibv;
	assert_int_equal(qp_create(o.pd, &attr, &qp), 0);
	assert_int_equal(attr.cap.max_recv_wr, 0);
	qp_bring_to(qp, IBV_QPS_INIT);
	assert_refused(qp_post_recv(qp, &recv, &bad), EINVAL, REASON_RECV_HAS_SRQ, "SRQ");
	assert_ptr_equal(bad, &recv);
	assert_refused(srq_destroy(srq), EBUSY, REASON_SRQ_BUSY, "1 QP");
	qp_end(qp);
	assert_int_equal(srq_destroy(srq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    POST_TEST(a_write_is_kept_as_it_was_posted),
	    POST_TEST(an_atomic_is_kept_as_it_was_posted),
	    POST_TEST(a_datagram_is_kept_with_its_resolved_address),
	    POST_TEST(inline_data_is_copied_at_once),
	    POST_TEST(sq_sig_all_signals_everything),
	    POST_TEST(a_list_stops_at_its_first_bad_one),
	    POST_TEST(a_message_of_no_bytes_is_posted),
	    POST_TEST(nothing_of_an_aborted_batch_is_posted),
	    POST_TEST(a_queue_that_has_run_empty_begins_at_its_first_place),
	    POST_TEST(a_full_queue_refuses),
	    POST_TEST(states_before_rts_take_no_sends_and_reset_no_receives),
	    POST_TEST(each_type_takes_its_opcodes_and_no_others),
	    POST_TEST(opcodes_that_are_none_are_refused),
	    POST_TEST(every_bad_work_request_is_refused),
	    POST_TEST(inline_data_beyond_the_limit_is_refused),
	    POST_TEST(a_datagram_needs_its_destination),
	    POST_TEST(receives_of_a_qp_with_an_srq_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
