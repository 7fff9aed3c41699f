/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extended ways: QPs with the ibv_wr_* builder, CQs with a cursor and timestamps; and
 * datagrams, answered by an address handle from their completion.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "live.h"

enum {
	OPS = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
	      IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
	      IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
	      IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_FLUSH,
	FLUSH_ACCESS = IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT,
};

static struct end a, b;
static struct ibv_qp_ex *ex;

static void create_extended(struct end *end, uint64_t ops)
{
	struct ibv_qp_init_attr plain;
	struct ibv_qp_init_attr_ex attr = {
	    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	    .pd = pd,
	    .send_ops_flags = ops,
	};

	end->buffer = aligned_alloc(4096, BUFFER);
	memset(end->buffer, 0, BUFFER);
	end->mr = ibv_reg_mr(pd, end->buffer, BUFFER, live_access | FLUSH_ACCESS);
	assert_non_null(end->mr);
	end->cq = ibv_create_cq(context, CQE, end, NULL, 0);
	plain = end_qp_attr(end->cq, IBV_QPT_RC);
	/* up to comp_mask, which lies where the plain one has padding */
	memcpy(&attr, &plain, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
	end->qp = ibv_create_qp_ex(context, &attr);
	assert_non_null(end->qp);
}

static int setup(void **state)
{
	create_extended(&a, OPS);
	create_extended(&b, OPS);
	qp_init(a.qp, live_access | FLUSH_ACCESS);
	qp_init(b.qp, live_access | FLUSH_ACCESS);
	qp_connect(a.qp, b.qp->qp_num);
	qp_connect(b.qp, a.qp->qp_num);
	ex = ibv_qp_to_qp_ex(a.qp);
	return ex ? 0 : -1;
}

static int teardown(void **state)
{
	pair_destroy(&a, &b);
	return 0;
}

#define EX_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void start(uint64_t wr_id)
{
	ibv_wr_start(ex);
	ex->wr_id = wr_id;
	ex->wr_flags = IBV_SEND_SIGNALED;
}

static void complete_and_expect(uint64_t wr_id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_wr_complete(ex), 0);
	wc = next_wc(a.cq);
	assert_wc(wc, wr_id, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, opcode);
}

/* ---- the builder ---- */

static void a_plain_qp_has_no_builder(void **state)
{
	struct end plain;

	end_create(&plain, IBV_QPT_RC);
	assert_null(ibv_qp_to_qp_ex(plain.qp));
	end_destroy(&plain);
}

static void every_operation_can_be_built(void **state)
{
	uint64_t remote = (uintptr_t)b.buffer, *word = (uint64_t *)(void *)b.buffer;
	uint64_t value = 0x1122334455667788, *result = (uint64_t *)(void *)(a.buffer + 512);
	struct ibv_wc wc;

	assert_int_equal(post_recv(&b, 1, 100), 0);
	strcpy(a.buffer, "sent");
	start(10);
	ibv_wr_send_imm(ex, 0x55);
	ibv_wr_set_sge(ex, a.mr->lkey, (uintptr_t)a.buffer, 5);
	complete_and_expect(10, IBV_WC_SEND);
	wc = next_wc(b.cq);
	assert_wc(wc, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.imm_data, 0x55);
	assert_string_equal(b.buffer, "sent");

	start(11);
	ibv_wr_rdma_write(ex, b.mr->rkey, remote + 100);
	ibv_wr_set_inline_data(ex, "inline", 7);
	complete_and_expect(11, IBV_WC_RDMA_WRITE);
	assert_string_equal(b.buffer + 100, "inline");

	start(12);
	ibv_wr_rdma_read(ex, b.mr->rkey, remote + 100);
	ibv_wr_set_sge(ex, a.mr->lkey, (uintptr_t)a.buffer + 200, 7);
	complete_and_expect(12, IBV_WC_RDMA_READ);
	assert_string_equal(a.buffer + 200, "inline");

	*word = 5;
	start(13);
	ibv_wr_atomic_fetch_add(ex, b.mr->rkey, remote, 3);
	ibv_wr_set_sge(ex, a.mr->lkey, (uintptr_t)result, 8);
	complete_and_expect(13, IBV_WC_FETCH_ADD);
	assert_int_equal(*result, 5);
	assert_int_equal(*word, 8);

	start(14);
	ibv_wr_atomic_cmp_swp(ex, b.mr->rkey, remote, 8, 77);
	ibv_wr_set_sge(ex, a.mr->lkey, (uintptr_t)result, 8);
	complete_and_expect(14, IBV_WC_COMP_SWAP);
	assert_int_equal(*result, 8);
	assert_int_equal(*word, 77);

	start(15);
	ibv_wr_atomic_write(ex, b.mr->rkey, remote, &value);
	complete_and_expect(15, IBV_WC_ATOMIC_WRITE);
	assert_int_equal(*word, value);

	start(16);
	ibv_wr_flush(ex, b.mr->rkey, remote, 64, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	complete_and_expect(16, IBV_WC_FLUSH);
}

static void lists_of_elements_and_of_inline_pieces(void **state)
{
	struct ibv_data_buf pieces[] = {{.addr = (void *)"ab", .length = 2},
					{.addr = (void *)"cde", .length = 4}};
	struct ibv_sge sges[2];

	start(20);
	ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_inline_data_list(ex, 2, pieces);
	complete_and_expect(20, IBV_WC_RDMA_WRITE);
	assert_string_equal(b.buffer, "abcde");
	strcpy(a.buffer, "12");
	strcpy(a.buffer + 50, "345");
	sges[0] = end_sge(&a, 0, 2);
	sges[1] = end_sge(&a, 50, 4);
	start(21);
	ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_sge_list(ex, 2, sges);
	complete_and_expect(21, IBV_WC_RDMA_WRITE);
	assert_string_equal(b.buffer, "12345");
}

static void a_batch_goes_out_together_and_in_order(void **state)
{
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(post_recv(&b, i, 100), 0);
	ibv_wr_start(ex);
	for (uint64_t i = 0; i < 4; i++) {
		ex->wr_id = 100 + i;
		ex->wr_flags = i == 3 ? IBV_SEND_SIGNALED : 0;
		ibv_wr_send(ex);
		ibv_wr_set_sge(ex, a.mr->lkey, (uintptr_t)a.buffer, 10);
	}
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_wc(next_wc(a.cq), 103, IBV_WC_SUCCESS);
	for (uint64_t i = 0; i < 4; i++)
		assert_wc(next_wc(b.cq), i, IBV_WC_SUCCESS);
}

static void an_aborted_batch_leaves_no_trace(void **state)
{
	struct ibv_wc wc;

	start(1);
	ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_inline_data(ex, "gone", 5);
	ibv_wr_abort(ex);
	assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
	start(2);
	ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_inline_data(ex, "here", 5);
	complete_and_expect(2, IBV_WC_RDMA_WRITE);
	assert_string_equal(b.buffer, "here");
}

/* One bad request among good ones: nothing is posted, and the first error is what complete returns.
 */
static void a_bad_request_refuses_its_whole_batch(void **state)
{
	char large[2000] = {0};
	struct ibv_wc wc;

	start(1);
	ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_inline_data(ex, "good", 5);
	ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_inline_data(ex, large, sizeof(large));
	ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_inline_data(ex, "good", 5);
	assert_refused(ibv_wr_complete(ex), EINVAL, REASON_NONE, "");
	assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
	start(2);
	ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_inline_data(ex, "well", 5);
	complete_and_expect(2, IBV_WC_RDMA_WRITE);
}

/* What was refused, whichever call noticed it. */
static void refused(int error, enum reason reason)
{
	assert_int_equal(ibv_wr_complete(ex), error);
	assert_int_equal(reason_last(NULL), reason);
}

static void every_misuse_of_the_builder_is_refused(void **state)
{
	struct ibv_sge sges[9] = {{0}};
	uint64_t value = 1;

	start(1);
	ibv_wr_set_sge(ex, a.mr->lkey, (uintptr_t)a.buffer, 8);
	refused(EINVAL, REASON_SEND_NO_REQUEST);
	start(1);
	ibv_wr_local_inv(ex, 1);
	refused(EINVAL, REASON_SEND_NOT_ASKED);
	start(1);
	ibv_wr_send(ex);
	ibv_wr_set_sge_list(ex, 9, sges);
	refused(EINVAL, REASON_SEND_TOO_MANY_SGE);
	start(1);
	ibv_wr_rdma_read(ex, b.mr->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_inline_data(ex, "x", 1);
	refused(EINVAL, REASON_SEND_INLINE_OPCODE);
	start(1);
	ibv_wr_atomic_fetch_add(ex, b.mr->rkey, (uintptr_t)b.buffer, 1);
	ibv_wr_set_sge(ex, a.mr->lkey, (uintptr_t)a.buffer, 4);
	refused(EINVAL, REASON_SEND_ATOMIC_SIZE);
	start(1);
	ibv_wr_set_xrc_srqn(ex, 1);
	refused(EINVAL, REASON_SEND_NO_REQUEST);
	start(1);
	ibv_wr_send_tso(ex, a.buffer, 54, 1000);
	refused(EOPNOTSUPP, REASON_SEND_TSO);
	ibv_wr_start(ex);
	for (int i = 0; i < 17; i++)
		ibv_wr_atomic_write(ex, b.mr->rkey, (uintptr_t)b.buffer, &value);
	refused(ENOMEM, REASON_SEND_QUEUE_FULL);
}

/* ---- the cursor ---- */

static struct ibv_cq_ex *cq_ex_new(uint64_t wc_flags, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16,
					   .wc_flags = wc_flags,
					   .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					   .flags = flags};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);

	assert_non_null(cq);
	return cq;
}

static int start_poll(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = {0};
	double end = seconds() + PATIENCE_S;
	int ret;

	do {
		ret = ibv_start_poll(cq, &attr);
	} while (ret == ENOENT && seconds() < end);
	return ret;
}

static void the_cursor_reads_each_part(void **state)
{
	struct ibv_cq_ex *cq =
	    cq_ex_new(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
		      0);
	struct ibv_qp_init_attr attr = end_qp_attr(ibv_cq_ex_to_cq(cq), IBV_QPT_RC);
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct ibv_qp *x = ibv_create_qp(pd, &attr), *y = ibv_create_qp(pd, &attr);
	struct ibv_sge sge = end_sge(&a, 0, 30);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND_WITH_IMM, &sge), *bad;
	struct timespec wall;
	uint64_t before;
	int received = 0, sent = 0, ret;

	qp_init(x, live_access);
	qp_init(y, live_access);
	qp_connect(x, y->qp_num);
	qp_connect(y, x->qp_num);
	assert_int_equal(ibv_query_rt_values_ex(context, &values), 0);
	before = (uint64_t)values.raw_clock.tv_nsec;
	assert_int_equal(post_recv_sge(y, 70, end_sge(&b, 0, 100)), 0);
	wr.imm_data = 0x99;
	assert_int_equal(ibv_post_send(x, &wr, &bad), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(start_poll(cq), 0);
		assert_int_equal(cq->status, IBV_WC_SUCCESS);
		assert_int_equal(ibv_wc_read_vendor_err(cq), 0);
		assert_true(ibv_wc_read_completion_ts(cq) >= before);
		clock_gettime(CLOCK_REALTIME, &wall);
		assert_true(llabs((int64_t)(ibv_wc_read_completion_wallclock_ns(cq) / 1000000000) -
				  wall.tv_sec) < 30);
		if (ibv_wc_read_opcode(cq) == IBV_WC_RECV) {
			received++;
			assert_int_equal(cq->wr_id, 70);
			assert_int_equal(ibv_wc_read_qp_num(cq), y->qp_num);
			assert_int_equal(ibv_wc_read_byte_len(cq), 30);
			assert_int_equal(ibv_wc_read_imm_data(cq), 0x99);
			assert_int_equal(ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM,
					 IBV_WC_WITH_IMM);
		} else {
			sent++;
			assert_int_equal(cq->wr_id, 0x5e4d);
			assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_SEND);
			assert_int_equal(ibv_wc_read_qp_num(cq), x->qp_num);
		}
		ibv_end_poll(cq);
	}
	assert_int_equal(received, 1);
	assert_int_equal(sent, 1);
	ret = ibv_start_poll(cq, NULL);
	assert_int_equal(ret, ENOENT);
	assert_int_equal(ibv_destroy_qp(x), 0);
	assert_int_equal(ibv_destroy_qp(y), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static void the_cursor_goes_on_to_the_end(void **state)
{
	struct ibv_cq_ex *cq = cq_ex_new(IBV_WC_STANDARD_FLAGS, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	struct ibv_qp_init_attr attr = end_qp_attr(ibv_cq_ex_to_cq(cq), IBV_QPT_UC);
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	qp_init(qp, 0);
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(post_recv_sge(qp, i, end_sge(&a, 0, 8)), 0);
	assert_int_equal(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
	assert_int_equal(start_poll(cq), 0);
	for (uint64_t i = 0; i < 5; i++) {
		assert_int_equal(cq->wr_id, i);
		assert_int_equal(cq->status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(ibv_wc_read_vendor_err(cq), REASON_RECV_FLUSHED);
		assert_int_equal(ibv_next_poll(cq), i < 4 ? 0 : ENOENT);
	}
	ibv_end_poll(cq);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

/* The newest are there, and the CQ goes on: no event, no error. */
static void an_overrun_that_is_ignored_loses_the_oldest(void **state)
{
	struct ibv_cq_init_attr_ex init = {
	    .cqe = 4,
	    .wc_flags = IBV_WC_STANDARD_FLAGS,
	    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
	    .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &init);
	struct ibv_qp_init_attr attr = end_qp_attr(ibv_cq_ex_to_cq(cq), IBV_QPT_UC);
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	uint64_t depth = (uint64_t)cq->cqe;
	struct ibv_qp *qp;

	attr.cap.max_recv_wr = (uint32_t)depth + 3;
	qp = ibv_create_qp(pd, &attr);
	assert_non_null(qp);
	qp_init(qp, 0);
	for (uint64_t i = 0; i < depth + 3; i++)
		assert_int_equal(post_recv_sge(qp, i, end_sge(&a, 0, 8)), 0);
	assert_int_equal(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
	assert_int_equal(start_poll(cq), 0);
	for (uint64_t i = 3; i < depth + 3; i++) {
		assert_int_equal(cq->wr_id, i);
		assert_int_equal(ibv_next_poll(cq), i < depth + 2 ? 0 : ENOENT);
	}
	ibv_end_poll(cq);
	assert_int_equal(post_recv_sge(qp, 99, end_sge(&a, 0, 8)), 0);
	assert_int_equal(start_poll(cq), 0);
	assert_int_equal(cq->wr_id, 99);
	ibv_end_poll(cq);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

/* ---- datagrams ---- */

static void a_datagram_is_answered_by_its_completion(void **state)
{
	struct ibv_ah_attr attr = {
	    .is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = (uint8_t)gid_index}};
	struct ibv_ah *ah = ibv_create_ah(pd, &attr), *back;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct end x, y;
	struct ibv_wc wc;

	pair_create(&x, &y, IBV_QPT_UD);
	assert_non_null(ah);
	assert_int_equal(post_recv(&y, 1, 200), 0);
	assert_int_equal(post_recv(&x, 2, 200), 0);
	strcpy(x.buffer + 1000, "question");
	sge = end_sge(&x, 1000, 9);
	wr = make_send(IBV_WR_SEND, &sge);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = y.qp->qp_num;
	wr.wr.ud.remote_qkey = 0x1234567;
	post_send_wr(&x, &wr);
	assert_wc(next_wc(x.cq), 0x5e4d, IBV_WC_SUCCESS);
	wc = next_wc(y.cq);
	assert_wc(wc, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 40 + 9);
	assert_int_equal(wc.src_qp, x.qp->qp_num);
	assert_int_equal(wc.wc_flags & IBV_WC_GRH, IBV_WC_GRH);
	assert_string_equal(y.buffer + 40, "question");

	back = ibv_create_ah_from_wc(pd, &wc, (struct ibv_grh *)(void *)y.buffer, 1);
	assert_non_null(back);
	strcpy(y.buffer + 1000, "answer");
	sge = end_sge(&y, 1000, 7);
	wr.wr.ud.ah = back;
	wr.wr.ud.remote_qpn = wc.src_qp;
	post_send_wr(&y, &wr);
	assert_wc(next_wc(y.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_wc(next_wc(x.cq), 2, IBV_WC_SUCCESS);
	assert_string_equal(x.buffer + 40, "answer");
	assert_int_equal(ibv_destroy_ah(back), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	pair_destroy(&x, &y);
}

static void a_wrong_qkey_is_not_delivered_but_counted(void **state)
{
	struct ibv_ah_attr attr = {
	    .is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = (uint8_t)gid_index}};
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	struct ibv_port_attr before, after;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct end x, y;
	struct ibv_wc wc;
	double end = seconds() + PATIENCE_S;

	pair_create(&x, &y, IBV_QPT_UD);
	assert_int_equal(ibv_query_port(context, 1, &before), 0);
	assert_int_equal(post_recv(&y, 1, 200), 0);
	sge = end_sge(&x, 0, 9);
	wr = make_send(IBV_WR_SEND, &sge);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = y.qp->qp_num;
	wr.wr.ud.remote_qkey = 0x7654321;
	post_send_wr(&x, &wr);
	assert_wc(next_wc(x.cq), 0x5e4d, IBV_WC_SUCCESS);
	do {
		assert_int_equal(ibv_poll_cq(y.cq, 1, &wc), 0);
		assert_int_equal(ibv_query_port(context, 1, &after), 0);
	} while (after.qkey_viol_cntr == before.qkey_viol_cntr && seconds() < end);
	assert_int_equal(after.qkey_viol_cntr, before.qkey_viol_cntr + 1);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	pair_destroy(&x, &y);
}

/* ---- to itself, and to a group ---- */

static void post_datagram(struct end *end, struct ibv_ah *ah, uint32_t qpn)
{
	struct ibv_sge sge = end_sge(end, 1000, 20);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &sge);

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = 0x1234567;
	post_send_wr(end, &wr);
}

static void a_qp_sends_to_itself(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC};

	for (int i = 0; i < 2; i++) {
		struct end end;
		struct ibv_sge sge;
		struct ibv_send_wr wr;
		int received = 0;

		end_create(&end, types[i]);
		qp_init(end.qp, live_access);
		qp_connect(end.qp, end.qp->qp_num);
		strcpy(end.buffer + 1000, "to myself");
		assert_int_equal(post_recv(&end, 1, 5000), 0);
		sge = end_sge(&end, 1000, 4000);
		wr = make_send(IBV_WR_SEND, &sge);
		post_send_wr(&end, &wr);
		for (int n = 0; n < 2; n++) {
			struct ibv_wc wc = next_wc(end.cq);

			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			received += wc.opcode == IBV_WC_RECV;
		}
		assert_int_equal(received, 1);
		assert_string_equal(end.buffer, "to myself");
		end_destroy(&end);
	}
}

static void a_datagram_to_a_group_reaches_each_member(void **state)
{
	union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 239, 7, 8, 9}};
	struct ibv_ah_attr attr = {
	    .is_global = 1,
	    .port_num = 1,
	    .grh = {.dgid = group, .sgid_index = (uint8_t)gid_index, .hop_limit = 1}};
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	struct end x, y, z;

	assert_non_null(ah);
	pair_create(&x, &y, IBV_QPT_UD);
	end_create(&z, IBV_QPT_UD);
	qp_init(z.qp, 0);
	qp_connect(z.qp, 0);
	assert_int_equal(ibv_attach_mcast(y.qp, &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(z.qp, &group, 0), 0);
	assert_int_equal(post_recv(&y, 1, 200), 0);
	assert_int_equal(post_recv(&z, 2, 200), 0);
	strcpy(x.buffer + 1000, "to all");
	post_datagram(&x, ah, 0xffffff);
	assert_wc(next_wc(x.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_wc(next_wc(y.cq), 1, IBV_WC_SUCCESS);
	assert_wc(next_wc(z.cq), 2, IBV_WC_SUCCESS);
	assert_string_equal(y.buffer + 40, "to all");
	assert_string_equal(z.buffer + 40, "to all");
	assert_int_equal(ibv_detach_mcast(y.qp, &group, 0), 0);
	assert_int_equal(ibv_detach_mcast(z.qp, &group, 0), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	end_destroy(&z);
	pair_destroy(&x, &y);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_plain_qp_has_no_builder),
	    EX_TEST(every_operation_can_be_built),
	    EX_TEST(lists_of_elements_and_of_inline_pieces),
	    EX_TEST(a_batch_goes_out_together_and_in_order),
	    EX_TEST(an_aborted_batch_leaves_no_trace),
	    EX_TEST(a_bad_request_refuses_its_whole_batch),
	    EX_TEST(every_misuse_of_the_builder_is_refused),
	    EX_TEST(the_cursor_reads_each_part),
	    EX_TEST(the_cursor_goes_on_to_the_end),
	    EX_TEST(an_overrun_that_is_ignored_loses_the_oldest),
	    cmocka_unit_test(a_datagram_is_answered_by_its_completion),
	    cmocka_unit_test(a_wrong_qkey_is_not_delivered_but_counted),
	    cmocka_unit_test(a_qp_sends_to_itself),
	    cmocka_unit_test(a_datagram_to_a_group_reaches_each_member),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
