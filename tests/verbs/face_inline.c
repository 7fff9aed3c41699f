/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the headers' inline functions do and how they refuse, where no other test is about them: the
 * builder's operations and the errors that ibv_wr_complete() gives of them, fields of extended
 * completions, flows, counters, work queues. tests/tree/exercised says of each which test is about
 * it.
 */
#define _GNU_SOURCE
#include <infiniband/verbatim.h>

#include "live.h"

enum { QKEY = 0x1234567, FRAME = 100 };

static struct end a, b;
static struct ibv_qp_ex *ex; /* of a */
static struct ibv_cq_ex *cursor;

/* ---- a, whose sends are built, and b, whose completions are read by a cursor ---- */

static void create_built(enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr plain;
	struct ibv_qp_init_attr_ex attr = {
	    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	    .pd = pd,
	    .send_ops_flags = ops,
	};

	end_make_buffer(&a);
	a.cq = ibv_create_cq(context, CQE, NULL, NULL, 0);
	assert_non_null(a.cq);
	plain = end_qp_attr(a.cq, type);
	/* up to comp_mask, which lies where the plain one has padding */
	memcpy(&attr, &plain, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
	a.qp = ibv_create_qp_ex(context, &attr);
	assert_non_null(a.qp);
	ex = ibv_qp_to_qp_ex(a.qp);
	assert_non_null(ex);
}

static void create_cursor(uint64_t fields)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = CQE, .wc_flags = fields};

	cursor = ibv_create_cq_ex(context, &attr);
	assert_non_null(cursor);
}

static void create_read(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr;

	end_make_buffer(&b);
	create_cursor(IBV_WC_STANDARD_FLAGS);
	b.cq = ibv_cq_ex_to_cq(cursor);
	attr = end_qp_attr(b.cq, type);
	b.qp = ibv_create_qp(pd, &attr);
	assert_non_null(b.qp);
}

static void create_pair(enum ibv_qp_type type, uint64_t ops)
{
	create_built(type, ops);
	create_read(type);
	qp_init(a.qp, live_access);
	qp_init(b.qp, live_access);
	qp_connect(a.qp, b.qp->qp_num);
	qp_connect(b.qp, a.qp->qp_num);
}

static struct ibv_ah *address_of_us(void)
{
	struct ibv_ah_attr attr = {
	    .is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = (uint8_t)gid_index}};
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);

	assert_non_null(ah);
	return ah;
}

static void start(uint64_t wr_id)
{
	reason_clear();
	ibv_wr_start(ex);
	ex->wr_id = wr_id;
	ex->wr_flags = IBV_SEND_SIGNALED;
}

/* The batch is refused as a whole, for what an operation or a set call of it noted. */
static void batch_refused(int error, enum reason reason)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_wr_complete(ex), error);
	assert_int_equal(reason_last(NULL), reason);
	assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
}

static void batch_goes(uint64_t wr_id)
{
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_wc(next_wc(a.cq), wr_id, IBV_WC_SUCCESS);
}

/* Puts the cursor on the next completion, which is a success; ibv_end_poll() is the caller's. */
static void cursor_on(uint64_t wr_id)
{
	double end = seconds() + PATIENCE_S;
	int ret;

	do {
		ret = ibv_start_poll(cursor, NULL);
	} while (ret == ENOENT && seconds() < end);
	assert_int_equal(ret, 0);
	assert_int_equal(cursor->status, IBV_WC_SUCCESS);
	assert_int_equal(cursor->wr_id, wr_id);
}

/* ---- what is computed ---- */

static void a_flow_label_gives_a_source_port(void **state)
{
	assert_int_equal(ibv_flow_label_to_udp_sport(0), 0xc000);
	assert_int_equal(ibv_flow_label_to_udp_sport(0x3fff), 0xffff);
	assert_int_equal(ibv_flow_label_to_udp_sport(0xfc000), 0xc03f);
	assert_int_equal(ibv_flow_label_to_udp_sport(0xfffff), 0xffc0);
	assert_int_equal(ibv_flow_label_to_udp_sport(0x54321), 0xc334);
	assert_int_equal(ibv_flow_label_to_udp_sport(0xfff00001), 0xc001); /* 20 bits count */
}

/* ---- what is built, and read by a cursor ---- */

static void a_built_datagram_tells_where_it_is_from(void **state)
{
	struct ibv_ah *ah = address_of_us();

	create_pair(IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
	assert_int_equal(post_recv(&b, 5, 200), 0);
	start(1);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, b.qp->qp_num, QKEY);
	ibv_wr_set_inline_data(ex, "addressed", 10);
	batch_goes(1);
	cursor_on(5);
	assert_int_equal(ibv_wc_read_src_qp(cursor), a.qp->qp_num);
	assert_int_equal(ibv_wc_read_byte_len(cursor), 40 + 10);
	assert_int_equal(ibv_wc_read_wc_flags(cursor), IBV_WC_GRH);
	assert_int_equal(ibv_wc_read_sl(cursor), 8 | 2); /* it came over IPv4 */
	assert_int_equal(ibv_wc_read_slid(cursor), 0);
	assert_int_equal(ibv_wc_read_dlid_path_bits(cursor), 0);
	ibv_end_poll(cursor);
	assert_string_equal(b.buffer + 40, "addressed");
	pair_destroy(&a, &b);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void a_built_write_with_immediate_is_told_of(void **state)
{
	create_pair(IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
	assert_int_equal(post_recv(&b, 6, 8), 0);
	start(2);
	ibv_wr_rdma_write_imm(ex, b.mr->rkey, (uintptr_t)b.buffer + 300, htobe32(0xabcd));
	ibv_wr_set_inline_data(ex, "with a word", 12);
	batch_goes(2);
	cursor_on(6);
	assert_int_equal(ibv_wc_read_opcode(cursor), IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(ibv_wc_read_wc_flags(cursor), IBV_WC_WITH_IMM);
	assert_int_equal(ibv_wc_read_imm_data(cursor), htobe32(0xabcd));
	assert_int_equal(ibv_wc_read_byte_len(cursor), 12);
	ibv_end_poll(cursor);
	assert_string_equal(b.buffer + 300, "with a word");
	pair_destroy(&a, &b);
}

static void bind_window(struct ibv_mw *mw, struct ibv_mr *mr, uint32_t rkey)
{
	struct ibv_send_wr wr = make_send(IBV_WR_BIND_MW, NULL);

	wr.num_sge = 0;
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info =
	    (struct ibv_mw_bind_info){.mr = mr,
				      .addr = (uintptr_t)b.buffer,
				      .length = 64,
				      .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	post_send_wr(&b, &wr);
	cursor_on(wr.wr_id);
	assert_int_equal(ibv_wc_read_opcode(cursor), IBV_WC_BIND_MW);
	ibv_end_poll(cursor);
}

static void a_built_message_invalidates_a_window(void **state)
{
	struct verbatim_mw_attr window;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	uint32_t rkey;

	create_pair(IBV_QPT_RC, IBV_QP_EX_WITH_SEND_WITH_INV);
	mr = ibv_reg_mr(pd, b.buffer, BUFFER, live_access | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	assert_non_null(mr);
	assert_non_null(mw);
	rkey = ibv_inc_rkey(mw->rkey);
	bind_window(mw, mr, rkey);
	assert_int_equal(verbatim_query_mw(mw, &window), 0);
	assert_int_equal(window.is_bound, 1);
	assert_int_equal(window.rkey, rkey);

	assert_int_equal(post_recv(&b, 7, 64), 0);
	start(3);
	ibv_wr_send_inv(ex, rkey);
	ibv_wr_set_inline_data(ex, "done", 5);
	batch_goes(3);
	cursor_on(7);
	assert_int_equal(ibv_wc_read_opcode(cursor), IBV_WC_RECV);
	assert_int_equal(ibv_wc_read_wc_flags(cursor), IBV_WC_WITH_INV);
	assert_int_equal(ibv_wc_read_invalidated_rkey(cursor), rkey);
	ibv_end_poll(cursor);
	assert_int_equal(verbatim_query_mw(mw, &window), 0);
	assert_int_equal(window.is_bound, 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_destroy(&a, &b);
}

static void a_cursor_finds_nothing_or_a_bit_unknown(void **state)
{
	struct ibv_poll_cq_attr attr = {.comp_mask = 1 << 3};

	create_cursor(0);
	assert_refused(ibv_start_poll(cursor, &attr), EINVAL, REASON_COMP_MASK, "0x8");
	assert_int_equal(ibv_start_poll(cursor, NULL), ENOENT);
	attr.comp_mask = 0;
	assert_int_equal(ibv_start_poll(cursor, &attr), ENOENT);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cursor)), 0);
}

/* ---- what cannot be built ---- */

static void operations_that_were_not_asked_for(void **state)
{
	uint64_t value = 1;

	create_pair(IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE);
	start(1);
	ibv_wr_send(ex);
	batch_refused(EINVAL, REASON_SEND_NOT_ASKED);
	start(1);
	ibv_wr_send_imm(ex, 5);
	batch_refused(EINVAL, REASON_SEND_NOT_ASKED);
	start(1);
	ibv_wr_send_inv(ex, 5);
	batch_refused(EINVAL, REASON_SEND_NOT_ASKED);
	start(1);
	ibv_wr_rdma_write_imm(ex, b.mr->rkey, (uintptr_t)b.buffer, 5);
	batch_refused(EINVAL, REASON_SEND_NOT_ASKED);
	start(1);
	ibv_wr_rdma_read(ex, b.mr->rkey, (uintptr_t)b.buffer);
	batch_refused(EINVAL, REASON_SEND_NOT_ASKED);
	start(1);
	ibv_wr_atomic_cmp_swp(ex, b.mr->rkey, (uintptr_t)b.buffer, 0, 1);
	batch_refused(EINVAL, REASON_SEND_NOT_ASKED);
	start(1);
	ibv_wr_atomic_fetch_add(ex, b.mr->rkey, (uintptr_t)b.buffer, 1);
	batch_refused(EINVAL, REASON_SEND_NOT_ASKED);
	start(1);
	ibv_wr_atomic_write(ex, b.mr->rkey, (uintptr_t)b.buffer, &value);
	batch_refused(EINVAL, REASON_SEND_NOT_ASKED);
	start(1);
	ibv_wr_flush(ex, b.mr->rkey, (uintptr_t)b.buffer, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	batch_refused(EINVAL, REASON_SEND_NOT_ASKED);
	start(1);
	ibv_wr_bind_mw(ex, NULL, 5, &(struct ibv_mw_bind_info){.length = 0});
	batch_refused(EINVAL, REASON_SEND_NOT_ASKED);
	start(1);
	ibv_wr_local_inv(ex, 5);
	batch_refused(EINVAL, REASON_SEND_NOT_ASKED);
	/* nothing of it was posted, and what was asked for still goes */
	start(2);
	ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buffer + 8);
	ibv_wr_set_inline_data(ex, "asked for", 10);
	batch_goes(2);
	assert_string_equal(b.buffer + 8, "asked for");
	assert_int_equal(*b.buffer, 0);
	pair_destroy(&a, &b);
}

static void writes_that_were_not_asked_for(void **state)
{
	create_pair(IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
	start(1);
	ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_inline_data(ex, "x", 1); /* no error of its own hides the first */
	batch_refused(EINVAL, REASON_SEND_NOT_ASKED);
	assert_int_equal(*b.buffer, 0);
	pair_destroy(&a, &b);
}

static void data_that_the_queue_does_not_take(void **state)
{
	char large[4096] = {0};
	struct ibv_data_buf pieces[2] = {{.addr = large, .length = 8}, {.addr = large}};
	struct ibv_sge sges[64] = {{0}};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint32_t most;

	create_pair(IBV_QPT_RC, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE);
	assert_int_equal(ibv_query_qp(a.qp, &attr, IBV_QP_CAP, &init), 0);
	most = init.cap.max_inline_data;
	assert_in_range(most, 64, sizeof(large) - 1);
	assert_in_range(init.cap.max_send_sge, 4, 63);
	start(1);
	ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_inline_data(ex, large, most + 1);
	batch_refused(EINVAL, REASON_SEND_INLINE_SIZE);
	pieces[1].length = most - 7;
	start(1);
	ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_inline_data_list(ex, 2, pieces);
	batch_refused(EINVAL, REASON_SEND_INLINE_SIZE);
	start(1);
	ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_sge_list(ex, init.cap.max_send_sge + 1, sges);
	batch_refused(EINVAL, REASON_SEND_TOO_MANY_SGE);
	start(1);
	ibv_wr_set_sge(ex, a.mr->lkey, (uintptr_t)a.buffer, 8);
	batch_refused(EINVAL, REASON_SEND_NO_REQUEST);
	/* all that fits goes */
	pieces[1].length--;
	memset(large, 'y', sizeof(large));
	start(2);
	ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_inline_data_list(ex, 2, pieces);
	batch_goes(2);
	assert_memory_equal(b.buffer, large, most);
	assert_int_equal(b.buffer[most], 0);
	pair_destroy(&a, &b);
}

static void more_than_the_queue_has_room_for(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	create_pair(IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE);
	assert_int_equal(ibv_query_qp(a.qp, &attr, IBV_QP_CAP, &init), 0);
	start(1);
	for (uint32_t i = 0; i <= init.cap.max_send_wr; i++) {
		ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buffer);
		ibv_wr_set_inline_data(ex, "x", 1);
	}
	batch_refused(ENOMEM, REASON_SEND_QUEUE_FULL);
	assert_int_equal(*b.buffer, 0);
	start(2);
	for (uint32_t i = 0; i < init.cap.max_send_wr; i++) {
		ex->wr_flags = i + 1 == init.cap.max_send_wr ? IBV_SEND_SIGNALED : 0;
		ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buffer + i);
		ibv_wr_set_inline_data(ex, "z", 1);
	}
	batch_goes(2);
	assert_int_equal(b.buffer[init.cap.max_send_wr - 1], 'z');
	pair_destroy(&a, &b);
}

static void addresses_that_lead_nowhere(void **state)
{
	struct ibv_pd *far = ibv_alloc_pd(context), *near = pd;
	struct ibv_ah *ah = address_of_us(), *others;

	pd = far;
	others = address_of_us();
	pd = near;
	create_pair(IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
	start(1);
	ibv_wr_send(ex);
	batch_refused(EINVAL, REASON_SEND_NO_AH);
	start(1);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, NULL, b.qp->qp_num, QKEY);
	batch_refused(EINVAL, REASON_SEND_NO_AH);
	start(1);
	ibv_wr_send_imm(ex, 5);
	ibv_wr_set_ud_addr(ex, ah, 1 << 24, QKEY);
	batch_refused(EINVAL, REASON_SEND_REMOTE_QPN);
	start(1);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, others, b.qp->qp_num, QKEY);
	batch_refused(EINVAL, REASON_SEND_AH_PD);
	start(1);
	ibv_wr_set_ud_addr(ex, ah, b.qp->qp_num, QKEY);
	batch_refused(EINVAL, REASON_SEND_NO_REQUEST);
	pair_destroy(&a, &b);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_destroy_ah(others), 0);
	assert_int_equal(ibv_dealloc_pd(far), 0);
}

/* An atomic's operands lie where a datagram's address would. */
static void a_connected_qp_takes_no_address(void **state)
{
	struct ibv_ah *ah = address_of_us();

	create_pair(IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
	start(1);
	ibv_wr_atomic_fetch_add(ex, b.mr->rkey, (uintptr_t)b.buffer, 3);
	ibv_wr_set_ud_addr(ex, ah, b.qp->qp_num, QKEY);
	ibv_wr_set_sge(ex, a.mr->lkey, (uintptr_t)a.buffer, 8);
	batch_refused(EINVAL, REASON_WR_NOT_UD);
	start(2);
	ibv_wr_atomic_fetch_add(ex, b.mr->rkey, (uintptr_t)b.buffer, 3);
	ibv_wr_set_sge(ex, a.mr->lkey, (uintptr_t)a.buffer, 8);
	batch_goes(2);
	assert_int_equal(*b.buffer, 3);
	pair_destroy(&a, &b);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* ---- the device, memory ---- */

static void unknown_bits_of_a_query(void **state)
{
	struct ibv_query_device_ex_input input = {.comp_mask = 1};
	struct ibv_device_attr_ex attr;

	assert_int_equal(ibv_query_device_ex(context, &input, &attr), EINVAL);
	assert_int_equal(ibv_query_device_ex(context, NULL, &attr), 0);
}

/* ---- receives ---- */

static void receives_that_an_srq_does_not_take(void **state)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 2}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_sge sges[33] = {{0}};
	struct ibv_recv_wr wide = {.wr_id = 8, .sg_list = sges, .num_sge = 33};
	struct ibv_recv_wr first = {.wr_id = 7, .next = &wide}, one = {.wr_id = 9}, *bad = NULL;

	assert_non_null(srq);
	assert_in_range(init.attr.max_sge, 2, 32);
	assert_refused(ibv_post_srq_recv(srq, &first, &bad), EINVAL, REASON_RECV_TOO_MANY_SGE,
		       "0x8 has 33");
	assert_ptr_equal(bad, &wide);
	for (uint32_t i = 1; i < init.attr.max_wr; i++) /* the one before it is in */
		assert_int_equal(ibv_post_srq_recv(srq, &one, &bad), 0);
	assert_refused(ibv_post_srq_recv(srq, &one, &bad), ENOMEM, REASON_RECV_QUEUE_FULL, "0x9");
	assert_ptr_equal(bad, &one);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static struct ibv_wq_init_attr wq_attr(struct ibv_cq *cq)
{
	struct ibv_wq_init_attr attr = {
	    .wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = pd, .cq = cq};

	return attr;
}

static void work_queues_that_cannot_be(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, CQE, NULL, NULL, 0);
	struct ibv_context *second = open_loopback();
	struct ibv_wq_init_attr attr = wq_attr(cq);

	attr.wq_type = (enum ibv_wq_type)5;
	assert_refused_null(ibv_create_wq(context, &attr), EINVAL, REASON_WQ_ATTR, "wq_type 5");
	attr = wq_attr(cq);
	attr.comp_mask = 1 << 7;
	assert_refused_null(ibv_create_wq(context, &attr), EINVAL, REASON_WQ_ATTR, "0x80");
	attr = wq_attr(cq);
	attr.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
	attr.create_flags = IBV_WQ_FLAGS_SCATTER_FCS;
	assert_refused_null(ibv_create_wq(context, &attr), EINVAL, REASON_WQ_ATTR, "create_flags");
	attr = wq_attr(NULL);
	assert_refused_null(ibv_create_wq(context, &attr), EINVAL, REASON_WQ_CQ, "cq");
	attr = wq_attr(cq);
	attr.pd = NULL;
	assert_refused_null(ibv_create_wq(context, &attr), EINVAL, REASON_WQ_CQ, "pd");
	attr = wq_attr(cq);
	assert_refused_null(ibv_create_wq(second, &attr), EINVAL, REASON_WQ_CQ, "this context");
	attr.max_wr = 0;
	assert_refused_null(ibv_create_wq(context, &attr), EINVAL, REASON_WQ_SIZE, "max_wr 0");
	attr.max_wr = (uint32_t)device_attr.max_qp_wr + 1;
	assert_refused_null(ibv_create_wq(context, &attr), EINVAL, REASON_WQ_SIZE, "max_wr");
	attr = wq_attr(cq);
	attr.max_sge = (uint32_t)device_attr.max_sge + 1;
	assert_refused_null(ibv_create_wq(context, &attr), EINVAL, REASON_WQ_SIZE, "max_sge");
	assert_int_equal(ibv_close_device(second), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void states_that_a_work_queue_does_not_reach(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, CQE, NULL, NULL, 0);
	struct ibv_wq_init_attr init = wq_attr(cq);
	struct ibv_wq *wq = ibv_create_wq(context, &init);
	struct ibv_wq_attr attr = {.wq_state = IBV_WQS_ERR};

	assert_non_null(wq);
	assert_refused(ibv_modify_wq(wq, &attr), EINVAL, REASON_WQ_ATTR, "attr_mask 0");
	attr.attr_mask = 1 << 6;
	assert_refused(ibv_modify_wq(wq, &attr), EINVAL, REASON_WQ_ATTR, "0x40");
	attr.attr_mask = IBV_WQ_ATTR_STATE;
	assert_refused(ibv_modify_wq(wq, &attr), EINVAL, REASON_WQ_STATE, "from state 0 to 2");
	attr.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE;
	attr.wq_state = attr.curr_wq_state = IBV_WQS_RDY;
	assert_refused(ibv_modify_wq(wq, &attr), EINVAL, REASON_WQ_STATE, "curr_wq_state");
	assert_int_equal(wq->state, IBV_WQS_RESET);
	attr.attr_mask = IBV_WQ_ATTR_FLAGS;
	attr.flags = attr.flags_mask = IBV_WQ_FLAGS_DELAY_DROP;
	assert_refused(ibv_modify_wq(wq, &attr), EINVAL, REASON_WQ_ATTR, "flags");
	attr.attr_mask = IBV_WQ_ATTR_STATE;
	assert_int_equal(ibv_modify_wq(wq, &attr), 0);
	assert_int_equal(wq->state, IBV_WQS_RDY);
	assert_int_equal(ibv_destroy_wq(wq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void receives_that_a_work_queue_does_not_take(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, CQE, NULL, NULL, 0);
	struct ibv_wq_init_attr init = wq_attr(cq);
	struct ibv_wq *wq = ibv_create_wq(context, &init);
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct ibv_sge sges[33] = {{0}};
	struct ibv_recv_wr wide = {.wr_id = 8, .sg_list = sges, .num_sge = 33}, one = {.wr_id = 9};
	struct ibv_recv_wr *bad = NULL;

	assert_non_null(wq);
	assert_refused(ibv_post_wq_recv(wq, &one, &bad), EINVAL, REASON_WQ_STATE, "in state 0");
	assert_ptr_equal(bad, &one);
	assert_int_equal(ibv_modify_wq(wq, &attr), 0);
	assert_refused(ibv_post_wq_recv(wq, &wide, &bad), EINVAL, REASON_RECV_TOO_MANY_SGE, "0x8");
	assert_ptr_equal(bad, &wide);
	for (uint32_t i = 0; i < init.max_wr; i++)
		assert_int_equal(ibv_post_wq_recv(wq, &one, &bad), 0);
	assert_refused(ibv_post_wq_recv(wq, &one, &bad), ENOMEM, REASON_RECV_QUEUE_FULL, "0x9");
	/* they are flushed, each, when the queue fails */
	attr.wq_state = IBV_WQS_ERR;
	assert_int_equal(ibv_modify_wq(wq, &attr), 0);
	for (uint32_t i = 0; i < init.max_wr; i++)
		assert_failed(next_wc(cq), 9, IBV_WC_WR_FLUSH_ERR, REASON_RECV_FLUSHED);
	assert_int_equal(ibv_destroy_wq(wq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void tables_that_lead_nowhere(void **state)
{
	struct ibv_wq *none = NULL;
	struct ibv_rwq_ind_table_init_attr attr = {.ind_tbl = &none, .comp_mask = 2};

	assert_refused_null(ibv_create_rwq_ind_table(context, &attr), EINVAL, REASON_WQ_TABLE,
			    "0x2");
	attr.comp_mask = 0;
	attr.log_ind_tbl_size = 11;
	assert_refused_null(ibv_create_rwq_ind_table(context, &attr), EINVAL, REASON_WQ_TABLE,
			    "log_ind_tbl_size 11");
	attr.log_ind_tbl_size = 0;
	assert_refused_null(ibv_create_rwq_ind_table(context, &attr), EINVAL, REASON_WQ_TABLE,
			    "entry 0");
}

/* ---- flows and counters ---- */

static struct ibv_qp *create_raw(struct ibv_cq *cq, uint32_t create_flags)
{
	struct ibv_qp_init_attr plain = end_qp_attr(cq, IBV_QPT_RAW_PACKET);
	struct ibv_qp_init_attr_ex attr = {.comp_mask =
					       IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
					   .pd = pd,
					   .create_flags = create_flags};

	memcpy(&attr, &plain, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	return is_own_network ? ibv_create_qp_ex(context, &attr)
			      : NULL; /* or without CAP_NET_RAW */
}

static const uint8_t address[6] = {0x02, 0x50, 0x56, 0x19, 0x20, 0xa7};

/* Frames to `address`, with a tag for their completions. */
struct rule {
	struct ibv_flow_attr attr;
	char specs[sizeof(struct ibv_flow_spec_eth) +
		   sizeof(struct ibv_flow_spec_action_tag)]; /* without gaps */
};

static struct rule rule_with_tag(uint32_t tag)
{
	struct ibv_flow_spec_eth eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(eth)};
	struct ibv_flow_spec_action_tag action = {
	    .type = IBV_FLOW_SPEC_ACTION_TAG, .size = sizeof(action), .tag_id = tag};
	struct rule rule = {
	    .attr = {
		.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(rule), .num_of_specs = 2, .port = 1}};

	memcpy(eth.val.dst_mac, address, sizeof(address));
	memset(eth.mask.dst_mac, 0xff, sizeof(address));
	memcpy(rule.specs, &eth, sizeof(eth));
	memcpy(rule.specs + sizeof(eth), &action, sizeof(action));
	return rule;
}

static void a_frame_tells_its_flow_and_its_vlan(void **state)
{
	const uint16_t head[] = {htobe16(0x8100), htobe16(0xa123), htobe16(0x88b5)};
	struct rule rule = rule_with_tag(0x4711);
	struct ibv_send_wr wr;
	struct ibv_flow *flow;
	struct ibv_sge sge;

	create_cursor(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG);
	b.cq = ibv_cq_ex_to_cq(cursor);
	b.qp = create_raw(b.cq, IBV_QP_CREATE_CVLAN_STRIPPING);
	if (!b.qp) {
		assert_int_equal(ibv_destroy_cq(b.cq), 0);
		skip();
	}
	end_make_buffer(&b);
	end_create(&a, IBV_QPT_RAW_PACKET);
	qp_raw_to_rts(a.qp);
	qp_raw_to_rts(b.qp);
	flow = ibv_create_flow(b.qp, &rule.attr);
	assert_non_null(flow);
	assert_int_equal(post_recv(&b, 8, 200), 0);
	memcpy(a.buffer, address, sizeof(address));
	memcpy(a.buffer + 12, head, sizeof(head));
	sge = end_sge(&a, 0, FRAME);
	wr = make_send(IBV_WR_SEND, &sge);
	post_send_wr(&a, &wr);
	assert_wc(next_wc(a.cq), wr.wr_id, IBV_WC_SUCCESS);
	cursor_on(8);
	assert_int_equal(ibv_wc_read_flow_tag(cursor), 0x4711);
	assert_int_equal(ibv_wc_read_cvlan(cursor), 0xa123);
	assert_int_equal(ibv_wc_read_byte_len(cursor), FRAME - 4);
	ibv_end_poll(cursor);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	pair_destroy(&a, &b);
}

static void flows_that_cannot_be(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr init = end_qp_attr(cq, IBV_QPT_RC);
	struct ibv_qp *rc = ibv_create_qp(pd, &init), *raw = create_raw(cq, 0);
	struct rule rule = rule_with_tag(1);
	uint16_t *size =
	    (uint16_t *)(void *)(rule.specs + offsetof(struct ibv_flow_spec_eth, size));
	const enum ibv_flow_spec_type unknown = IBV_FLOW_SPEC_MPLS;

	assert_refused_null(ibv_create_flow(rc, &rule.attr), EINVAL, REASON_FLOW_QP, "QP");
	if (raw) {
		rule.attr.port = 2;
		assert_refused_null(ibv_create_flow(raw, &rule.attr), EINVAL, REASON_PORT_NUMBER,
				    "2");
		rule.attr.port = 1;
		rule.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
		assert_refused_null(ibv_create_flow(raw, &rule.attr), EINVAL, REASON_FLOW_ATTR,
				    "flags 0x4");
		rule.attr.flags = 0;
		rule.attr.type = IBV_FLOW_ATTR_SNIFFER;
		assert_refused_null(ibv_create_flow(raw, &rule.attr), EINVAL, REASON_FLOW_ATTR,
				    "2 specs");
		rule.attr.type = IBV_FLOW_ATTR_NORMAL;
		rule.attr.num_of_specs = 17;
		assert_refused_null(ibv_create_flow(raw, &rule.attr), EINVAL, REASON_FLOW_SPECS,
				    "17");
		rule.attr.num_of_specs = 2;
		++*size;
		assert_refused_null(ibv_create_flow(raw, &rule.attr), EINVAL, REASON_FLOW_SPEC_SIZE,
				    "spec 0");
		--*size;
		memcpy(rule.specs, &unknown, sizeof(unknown));
		assert_refused_null(ibv_create_flow(raw, &rule.attr), EOPNOTSUPP,
				    REASON_FLOW_SPEC_TYPE, "0x60");
		assert_int_equal(ibv_destroy_qp(raw), 0);
	}
	assert_int_equal(ibv_destroy_qp(rc), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void counters_that_cannot_be(void **state)
{
	struct ibv_counters_init_attr init = {.comp_mask = 1};
	struct ibv_counter_attach_attr attr = {.counter_desc = (enum ibv_counter_description)7};
	uint64_t values[65];
	struct ibv_counters *counters;

	assert_refused_null(ibv_create_counters(context, &init), EINVAL, REASON_COMP_MASK, "0x1");
	init.comp_mask = 0;
	counters = ibv_create_counters(context, &init);
	assert_non_null(counters);
	assert_refused(ibv_attach_counters_point_flow(counters, &attr, NULL), EINVAL,
		       REASON_COUNTERS_ATTR, "counter_desc 7");
	attr = (struct ibv_counter_attach_attr){.index = 64};
	assert_refused(ibv_attach_counters_point_flow(counters, &attr, NULL), EINVAL,
		       REASON_COUNTERS_ATTR, "index 64");
	attr = (struct ibv_counter_attach_attr){.comp_mask = 2};
	assert_refused(ibv_attach_counters_point_flow(counters, &attr, NULL), EINVAL,
		       REASON_COUNTERS_ATTR, "comp_mask 0x2");
	assert_refused(ibv_read_counters(counters, values, 65, 0), EINVAL, REASON_COUNTERS_ATTR,
		       "65 counters");
	assert_refused(ibv_read_counters(counters, values, 1, 1 << 5), EINVAL, REASON_COUNTERS_ATTR,
		       "flags 0x20");
	values[63] = 5;
	assert_int_equal(
	    ibv_read_counters(counters, values, 64, IBV_READ_COUNTERS_ATTR_PREFER_CACHED), 0);
	assert_int_equal(values[63], 0); /* it counts nothing */
	assert_int_equal(ibv_destroy_counters(counters), 0);
}

static void a_flow_counts_in_one_set(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_qp *raw = create_raw(cq, 0);
	struct ibv_counters_init_attr init = {0};
	struct ibv_counter_attach_attr attr = {.counter_desc = IBV_COUNTER_BYTES};
	struct ibv_counters *first = ibv_create_counters(context, &init);
	struct ibv_counters *second = ibv_create_counters(context, &init);
	struct rule rule = rule_with_tag(1);
	struct ibv_flow *flow;

	if (raw) {
		flow = ibv_create_flow(raw, &rule.attr);
		assert_non_null(flow);
		assert_int_equal(ibv_attach_counters_point_flow(first, &attr, flow), 0);
		assert_refused(ibv_attach_counters_point_flow(second, &attr, flow), EBUSY,
			       REASON_COUNTERS_TAKEN, "flow");
		assert_int_equal(ibv_destroy_flow(flow), 0);
		assert_int_equal(ibv_destroy_qp(raw), 0);
	}
	assert_int_equal(ibv_destroy_counters(first), 0);
	assert_int_equal(ibv_destroy_counters(second), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* No call gives an action: it can only be another adapter's. */
static void there_are_no_flow_actions(void **state)
{
	struct ibv_flow_action_esp_attr attr = {.comp_mask = 0};
	struct ibv_flow_action action = {.context = context};

	assert_refused_null(ibv_create_flow_action_esp(context, &attr), EOPNOTSUPP, REASON_FLOW_ESP,
			    "rxe");
	assert_refused(ibv_modify_flow_action_esp(&action, &attr), EOPNOTSUPP, REASON_FLOW_ESP,
		       "rxe");
	assert_refused(ibv_destroy_flow_action(&action), EOPNOTSUPP, REASON_FLOW_ESP, "rxe");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_flow_label_gives_a_source_port),
	    cmocka_unit_test(a_built_datagram_tells_where_it_is_from),
	    cmocka_unit_test(a_built_write_with_immediate_is_told_of),
	    cmocka_unit_test(a_built_message_invalidates_a_window),
	    cmocka_unit_test(a_cursor_finds_nothing_or_a_bit_unknown),
	    cmocka_unit_test(operations_that_were_not_asked_for),
	    cmocka_unit_test(writes_that_were_not_asked_for),
	    cmocka_unit_test(data_that_the_queue_does_not_take),
	    cmocka_unit_test(more_than_the_queue_has_room_for),
	    cmocka_unit_test(addresses_that_lead_nowhere),
	    cmocka_unit_test(a_connected_qp_takes_no_address),
	    cmocka_unit_test(unknown_bits_of_a_query),
	    cmocka_unit_test(receives_that_an_srq_does_not_take),
	    cmocka_unit_test(work_queues_that_cannot_be),
	    cmocka_unit_test(states_that_a_work_queue_does_not_reach),
	    cmocka_unit_test(receives_that_a_work_queue_does_not_take),
	    cmocka_unit_test(tables_that_lead_nowhere),
	    cmocka_unit_test(a_frame_tells_its_flow_and_its_vlan),
	    cmocka_unit_test(flows_that_cannot_be),
	    cmocka_unit_test(counters_that_cannot_be),
	    cmocka_unit_test(a_flow_counts_in_one_set),
	    cmocka_unit_test(there_are_no_flow_actions),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
