/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows as programs use them: type 1 by its verb, type 2 by work requests of both kinds,
 * and what becomes of a peer that comes too late.
 */
#define _GNU_SOURCE
#include "live.h"

enum { AT = 4096, LENGTH = 256 };

static struct end a, b;
static struct ibv_mr *closed; /* b's buffer; only windows let in */
static struct ibv_mw *mw;

static int setup(void **state)
{
	pair_create(&a, &b, IBV_QPT_RC);
	closed = ibv_reg_mr(pd, b.buffer, BUFFER, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	strcpy(a.buffer, "through the window");
	return closed ? 0 : -1;
}

static int teardown(void **state)
{
	if (mw)
		assert_int_equal(ibv_dealloc_mw(mw), 0);
	mw = NULL;
	assert_int_equal(ibv_dereg_mr(closed), 0);
	pair_destroy(&a, &b);
	return 0;
}

#define MW_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static struct ibv_mw_bind_info info_of(struct ibv_mr *mr, unsigned int access)
{
	struct ibv_mw_bind_info info = {.mr = mr,
					.addr = (uintptr_t)b.buffer + AT,
					.length = LENGTH,
					.mw_access_flags = access};

	return info;
}

static struct ibv_mw *alloc(enum ibv_mw_type type)
{
	mw = ibv_alloc_mw(pd, type);
	assert_non_null(mw);
	assert_ptr_equal(mw->context, context);
	assert_ptr_equal(mw->pd, pd);
	assert_int_equal(mw->type, type);
	return mw;
}

static struct ibv_wc peer_writes(uint32_t rkey, uint64_t addr)
{
	struct ibv_sge sge = end_sge(&a, 0, 32);
	struct ibv_send_wr wr = make_send(IBV_WR_RDMA_WRITE, &sge);

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	post_send_wr(&a, &wr);
	return next_wc(a.cq);
}

static struct ibv_send_wr bind_wr(uint32_t rkey, unsigned int access)
{
	struct ibv_send_wr wr = make_send(IBV_WR_BIND_MW, NULL);

	wr.num_sge = 0;
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = info_of(closed, access);
	return wr;
}

static uint32_t bind_type_2(void)
{
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr wr = bind_wr(rkey, IBV_ACCESS_REMOTE_WRITE);
	struct ibv_wc wc;

	post_send_wr(&b, &wr);
	wc = next_wc(b.cq);
	assert_wc(wc, wr.wr_id, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
	return rkey;
}

static void lets_in(uint32_t rkey)
{
	memset(b.buffer + AT, 0, LENGTH);
	assert_wc(peer_writes(rkey, (uintptr_t)b.buffer + AT), 0x5e4d, IBV_WC_SUCCESS);
	assert_string_equal(b.buffer + AT, "through the window");
}

static void keeps_out(uint32_t rkey, uint64_t addr)
{
	struct ibv_async_event event;

	assert_int_equal(post_recv(&b, 77, 8), 0);
	assert_failed(peer_writes(rkey, addr), 0x5e4d, IBV_WC_REM_ACCESS_ERR,
		      REASON_PEER_REFUSED_ACCESS);
	assert_wc(next_wc(b.cq), 77, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
	ibv_ack_async_event(&event);
}

static void type_1_is_bound_and_unbound_by_its_verb(void **state)
{
	struct ibv_mw_bind bind = {.wr_id = 5,
				   .send_flags = IBV_SEND_SIGNALED,
				   .bind_info = info_of(closed, IBV_ACCESS_REMOTE_WRITE)};
	uint32_t before = alloc(IBV_MW_TYPE_1)->rkey, first;

	assert_int_equal(ibv_bind_mw(b.qp, mw, &bind), 0);
	assert_int_not_equal(mw->rkey, before);
	first = mw->rkey;
	assert_wc(next_wc(b.cq), 5, IBV_WC_SUCCESS);
	lets_in(first);
	assert_refused(ibv_dereg_mr(closed), EBUSY, REASON_MR_HAS_WINDOWS, "1 windows");
	bind.bind_info = (struct ibv_mw_bind_info){.mr = NULL};
	assert_int_equal(ibv_bind_mw(b.qp, mw, &bind), 0);
	assert_wc(next_wc(b.cq), 5, IBV_WC_SUCCESS);
	keeps_out(first, (uintptr_t)b.buffer + AT);
}

static void type_2_is_bound_and_invalidated_by_work_requests(void **state)
{
	struct ibv_send_wr wr = make_send(IBV_WR_LOCAL_INV, NULL);
	uint32_t rkey;
	struct ibv_wc wc;

	alloc(IBV_MW_TYPE_2);
	rkey = bind_type_2();
	lets_in(rkey);
	wr.num_sge = 0;
	wr.invalidate_rkey = rkey;
	post_send_wr(&b, &wr);
	wc = next_wc(b.cq);
	assert_wc(wc, wr.wr_id, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_LOCAL_INV);
	rkey = ibv_inc_rkey(rkey);
	wr = bind_wr(rkey, IBV_ACCESS_REMOTE_WRITE);
	post_send_wr(&b, &wr);
	assert_wc(next_wc(b.cq), wr.wr_id, IBV_WC_SUCCESS);
	lets_in(rkey);
	keeps_out(ibv_inc_rkey(mw->rkey), (uintptr_t)b.buffer + AT);
}

static void the_peer_invalidates_what_it_is_done_with(void **state)
{
	struct ibv_sge sge = end_sge(&a, 0, 32);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND_WITH_INV, &sge);
	uint32_t rkey;
	struct ibv_wc wc;

	alloc(IBV_MW_TYPE_2);
	rkey = bind_type_2();
	assert_int_equal(post_recv(&b, 3, 64), 0);
	wr.invalidate_rkey = rkey;
	post_send_wr(&a, &wr);
	assert_wc(next_wc(a.cq), wr.wr_id, IBV_WC_SUCCESS);
	wc = next_wc(b.cq);
	assert_wc(wc, 3, IBV_WC_SUCCESS);
	assert_true(wc.wc_flags & IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, rkey);
	keeps_out(rkey, (uintptr_t)b.buffer + AT);
}

static void a_deallocated_window_keeps_out(void **state)
{
	uint32_t rkey;

	alloc(IBV_MW_TYPE_2);
	rkey = bind_type_2();
	lets_in(rkey);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	mw = NULL;
	keeps_out(rkey, (uintptr_t)b.buffer + AT);
}

static void a_window_keeps_out_who_reaches_past_it(void **state)
{
	uint32_t rkey;

	alloc(IBV_MW_TYPE_2);
	rkey = bind_type_2();
	keeps_out(rkey, (uintptr_t)b.buffer + AT + LENGTH - 31);
}

/* The builder: a binding and the message that tells of it, in one batch. */
static void a_binding_and_its_announcement_in_one_batch(void **state)
{
	struct ibv_qp_init_attr plain = end_qp_attr(b.cq, IBV_QPT_RC);
	struct ibv_qp_init_attr_ex attr = {
	    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	    .pd = pd,
	    .send_ops_flags =
		IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV,
	};
	struct ibv_mw_bind_info info = info_of(closed, IBV_ACCESS_REMOTE_WRITE);
	struct end c = b;
	struct ibv_qp_ex *ex;
	uint32_t rkey, told;

	memcpy(&attr, &plain, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
	assert_int_equal(ibv_destroy_qp(a.qp), 0);
	a.qp = ibv_create_qp(
	    pd, &(struct ibv_qp_init_attr){
		    .send_cq = a.cq, .recv_cq = a.cq, .cap = plain.cap, .qp_type = IBV_QPT_RC});
	c.qp = ibv_create_qp_ex(context, &attr);
	assert_non_null(c.qp);
	qp_init(a.qp, live_access);
	qp_init(c.qp, live_access);
	qp_connect(a.qp, c.qp->qp_num);
	qp_connect(c.qp, a.qp->qp_num);
	ex = ibv_qp_to_qp_ex(c.qp);
	rkey = ibv_inc_rkey(alloc(IBV_MW_TYPE_2)->rkey);

	assert_int_equal(post_recv_sge(a.qp, 1, end_sge(&a, 8192, 8)), 0);
	ibv_wr_start(ex);
	ex->wr_id = 21;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(ex, mw, rkey, &info);
	ex->wr_id = 22;
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, &rkey, sizeof(rkey));
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_wc(next_wc(c.cq), 21, IBV_WC_SUCCESS);
	assert_wc(next_wc(c.cq), 22, IBV_WC_SUCCESS);
	assert_wc(next_wc(a.cq), 1, IBV_WC_SUCCESS);
	memcpy(&told, a.buffer + 8192, sizeof(told));
	assert_int_equal(told, rkey);
	lets_in(told);

	ibv_wr_start(ex);
	ex->wr_id = 23;
	ibv_wr_local_inv(ex, rkey);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_wc(next_wc(c.cq), 23, IBV_WC_SUCCESS);
	ibv_wr_start(ex);
	ibv_wr_bind_mw(ex, NULL, rkey, &info);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(reason_last(&(const char *){NULL}), REASON_BIND_NO_MW);
	assert_int_equal(ibv_destroy_qp(c.qp), 0);
}

static void wrong_windows_are_refused_at_once(void **state)
{
	struct ibv_mw_bind bind = {.bind_info = info_of(closed, 0)};
	struct ibv_send_wr wr, *bad;
	struct ibv_pd *far = ibv_alloc_pd(context);
	struct ibv_mw *there = ibv_alloc_mw(far, IBV_MW_TYPE_1);

	assert_refused_null(ibv_alloc_mw(pd, 3), EINVAL, REASON_MW_TYPE, "3");
	alloc(IBV_MW_TYPE_1);
	wr = bind_wr(mw->rkey, 0);
	assert_refused(ibv_post_send(b.qp, &wr, &bad), EINVAL, REASON_BIND_TYPE, "type 1");
	assert_ptr_equal(bad, &wr);
	assert_refused(ibv_dealloc_pd(far), EBUSY, REASON_PD_BUSY, "1");
	bind.bind_info = (struct ibv_mw_bind_info){.mr = NULL};
	assert_refused(ibv_bind_mw(b.qp, there, &bind), EPERM, REASON_BIND_PD, "PD");
	bind.send_flags = 1 << 9;
	assert_refused(ibv_bind_mw(b.qp, mw, &bind), EINVAL, REASON_SEND_FLAGS, "0x200");
	assert_int_equal(ibv_dealloc_mw(there), 0);
	assert_int_equal(ibv_dealloc_pd(far), 0);
}

static void a_full_queue_leaves_the_window_as_it_is(void **state)
{
	struct ibv_mw_bind bind = {.bind_info = {.mr = NULL}};
	uint32_t before;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};
	int ret, posted = 0;

	alloc(IBV_MW_TYPE_1);
	assert_int_equal(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	do {
		before = mw->rkey;
		ret = ibv_bind_mw(b.qp, mw, &bind);
	} while (!ret && ++posted < 1000);
	assert_int_equal(ret, ENOMEM);
	assert_int_equal(posted, 16);
	assert_int_equal(mw->rkey, before);
}

static void a_binding_that_cannot_be_fails_in_its_turn(void **state)
{
	struct ibv_send_wr wr;

	alloc(IBV_MW_TYPE_2);
	wr = bind_wr(mw->rkey ^ 0x4000, 0);
	post_send_wr(&b, &wr);
	assert_failed(next_wc(b.cq), wr.wr_id, IBV_WC_MW_BIND_ERR, REASON_BIND_KEY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    MW_TEST(type_1_is_bound_and_unbound_by_its_verb),
	    MW_TEST(type_2_is_bound_and_invalidated_by_work_requests),
	    MW_TEST(the_peer_invalidates_what_it_is_done_with),
	    MW_TEST(a_deallocated_window_keeps_out),
	    MW_TEST(a_window_keeps_out_who_reaches_past_it),
	    MW_TEST(a_binding_and_its_announcement_in_one_batch),
	    MW_TEST(wrong_windows_are_refused_at_once),
	    MW_TEST(a_full_queue_leaves_the_window_as_it_is),
	    MW_TEST(a_binding_that_cannot_be_fails_in_its_turn),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
