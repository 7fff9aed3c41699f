/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Misuse that only a completion can tell: each gives the documented status on its side, with the
 * reason's number as vendor_err, puts the QP into its error state, and flushes what was behind.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "live.h"

static struct end a, b;

static int connect_rc(void **state)
{
	pair_create(&a, &b, IBV_QPT_RC);
	return 0;
}

static int disconnect(void **state)
{
	pair_destroy(&a, &b);
	return 0;
}

#define RC_TEST(name) cmocka_unit_test_setup_teardown(name, connect_rc, disconnect)

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/* One bad request, and one behind it that is flushed. */
static void fails(struct ibv_send_wr wr, enum ibv_wc_status status, enum reason reason)
{
	struct ibv_sge sge = end_sge(&a, 0, 8);
	struct ibv_send_wr behind = make_send(IBV_WR_RDMA_WRITE, &sge);

	wr.wr_id = 1;
	wr.next = &behind;
	behind.wr_id = 2;
	behind.wr.rdma.remote_addr = (uintptr_t)b.buffer;
	behind.wr.rdma.rkey = b.mr->rkey;
	post_send_wr(&a, &wr);
	assert_failed(next_wc(a.cq), 1, status, reason);
	assert_failed(next_wc(a.cq), 2, IBV_WC_WR_FLUSH_ERR, REASON_SEND_FLUSHED);
	assert_int_equal(state_of(a.qp), IBV_QPS_ERR);
}

static struct ibv_send_wr rdma(enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint64_t addr,
			       uint32_t rkey)
{
	struct ibv_send_wr wr = make_send(opcode, sge);

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	return wr;
}

/* ---- it works at all ---- */

static void each_operation_completes(void **state)
{
	struct ibv_sge sge = end_sge(&a, 0, 64), word = end_sge(&a, 128, 8);
	struct ibv_send_wr wr;
	struct ibv_wc wc;

	strcpy(a.buffer, "hello");
	assert_int_equal(post_recv(&b, 9, 100), 0);
	wr = make_send(IBV_WR_SEND_WITH_IMM, &sge);
	wr.imm_data = 0x44332211;
	post_send_wr(&a, &wr);
	assert_wc(next_wc(a.cq), 0x5e4d, IBV_WC_SUCCESS);
	wc = next_wc(b.cq);
	assert_wc(wc, 9, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 64);
	assert_int_equal(wc.imm_data, 0x44332211);
	assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
	assert_int_equal(wc.qp_num, b.qp->qp_num);
	assert_string_equal(b.buffer, "hello");

	strcpy(a.buffer, "written");
	wr = rdma(IBV_WR_RDMA_WRITE, &sge, (uintptr_t)b.buffer + 1000, b.mr->rkey);
	post_send_wr(&a, &wr);
	wc = next_wc(a.cq);
	assert_wc(wc, 0x5e4d, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
	assert_string_equal(b.buffer + 1000, "written");

	strcpy(b.buffer + 2000, "read");
	wr = rdma(IBV_WR_RDMA_READ, &sge, (uintptr_t)b.buffer + 2000, b.mr->rkey);
	post_send_wr(&a, &wr);
	assert_wc(next_wc(a.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_string_equal(a.buffer, "read");

	*(uint64_t *)(void *)(b.buffer + 3000) = 40;
	wr = make_send(IBV_WR_ATOMIC_FETCH_AND_ADD, &word);
	wr.wr.atomic.remote_addr = (uintptr_t)b.buffer + 3000;
	wr.wr.atomic.rkey = b.mr->rkey;
	wr.wr.atomic.compare_add = 2;
	post_send_wr(&a, &wr);
	assert_wc(next_wc(a.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)(void *)(a.buffer + 128), 40);
	assert_int_equal(*(uint64_t *)(void *)(b.buffer + 3000), 42);
}

/* ---- the local side ---- */

static void an_unknown_lkey(void **state)
{
	struct ibv_sge sge = end_sge(&a, 0, 8);

	sge.lkey = 0xfff00000;
	fails(make_send(IBV_WR_SEND, &sge), IBV_WC_LOC_PROT_ERR, REASON_LKEY_UNKNOWN);
}

static void an_rkey_for_an_lkey(void **state)
{
	struct ibv_sge sge = end_sge(&a, 0, 8);

	sge.lkey = a.mr->rkey;
	fails(make_send(IBV_WR_SEND, &sge), IBV_WC_LOC_PROT_ERR, REASON_LKEY_IS_RKEY);
}

static void an_element_past_the_region(void **state)
{
	struct ibv_sge sge = end_sge(&a, BUFFER - 4, 8);

	fails(make_send(IBV_WR_SEND, &sge), IBV_WC_LOC_PROT_ERR, REASON_LKEY_RANGE);
}

static void a_region_of_another_pd(void **state)
{
	struct ibv_pd *other = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(other, a.buffer, BUFFER, live_access);
	struct ibv_sge sge = end_sge(&a, 0, 8);

	sge.lkey = mr->lkey;
	fails(make_send(IBV_WR_SEND, &sge), IBV_WC_LOC_PROT_ERR, REASON_LKEY_PD);
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(other);
}

static void a_read_into_a_region_without_local_write(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, a.buffer, BUFFER, 0);
	struct ibv_sge sge = end_sge(&a, 0, 8);

	sge.lkey = mr->lkey;
	fails(rdma(IBV_WR_RDMA_READ, &sge, (uintptr_t)b.buffer, b.mr->rkey), IBV_WC_LOC_PROT_ERR,
	      REASON_LKEY_ACCESS);
	ibv_dereg_mr(mr);
}

static void a_message_of_more_than_2_gib(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = {.addr = 0x10000, .length = 0x80000001, .lkey = mr->lkey};

	fails(make_send(IBV_WR_SEND, &sge), IBV_WC_LOC_LEN_ERR, REASON_MESSAGE_TOO_LONG);
	ibv_dereg_mr(mr);
}

static void an_invalidation_of_a_plain_region(void **state)
{
	struct ibv_send_wr wr = make_send(IBV_WR_LOCAL_INV, NULL);

	wr.num_sge = 0;
	wr.invalidate_rkey = a.mr->rkey;
	fails(wr, IBV_WC_MW_BIND_ERR, REASON_INVALIDATE_MR);
}

/* ---- the remote side ---- */

static void refused_by_the_peer(struct ibv_send_wr wr)
{
	struct ibv_async_event event;

	fails(wr, IBV_WC_REM_ACCESS_ERR, REASON_PEER_REFUSED_ACCESS);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
	assert_ptr_equal(event.element.qp, b.qp);
	ibv_ack_async_event(&event);
	assert_int_equal(state_of(b.qp), IBV_QPS_ERR);
}

static void an_unknown_rkey(void **state)
{
	struct ibv_sge sge = end_sge(&a, 0, 8);

	refused_by_the_peer(rdma(IBV_WR_RDMA_WRITE, &sge, (uintptr_t)b.buffer, b.mr->rkey ^ 0x500));
}

static void an_lkey_for_an_rkey(void **state)
{
	struct ibv_sge sge = end_sge(&a, 0, 8);

	refused_by_the_peer(rdma(IBV_WR_RDMA_READ, &sge, (uintptr_t)b.buffer, b.mr->lkey));
}

static void a_write_one_byte_past_the_region(void **state)
{
	struct ibv_sge sge = end_sge(&a, 0, 8);

	refused_by_the_peer(
	    rdma(IBV_WR_RDMA_WRITE, &sge, (uintptr_t)b.buffer + BUFFER - 7, b.mr->rkey));
}

static void a_key_of_a_region_that_is_gone(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, b.buffer, BUFFER, live_access);
	struct ibv_sge sge = end_sge(&a, 0, 8);
	uint32_t rkey = mr->rkey;

	ibv_dereg_mr(mr);
	refused_by_the_peer(rdma(IBV_WR_RDMA_WRITE, &sge, (uintptr_t)b.buffer, rkey));
}

static void a_write_without_the_right(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, b.buffer, BUFFER, IBV_ACCESS_REMOTE_READ);
	struct ibv_sge sge = end_sge(&a, 0, 8);

	refused_by_the_peer(rdma(IBV_WR_RDMA_WRITE, &sge, (uintptr_t)b.buffer, mr->rkey));
	ibv_dereg_mr(mr);
}

static void a_misaligned_atomic(void **state)
{
	struct ibv_sge sge = end_sge(&a, 0, 8);
	struct ibv_send_wr wr = make_send(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);

	wr.wr.atomic.remote_addr = (uintptr_t)b.buffer + 4;
	wr.wr.atomic.rkey = b.mr->rkey;
	fails(wr, IBV_WC_REM_INV_REQ_ERR, REASON_PEER_INVALID_REQUEST);
}

static void an_operation_that_the_qp_does_not_allow(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .qp_access_flags = 0};
	struct ibv_sge sge = end_sge(&a, 0, 8);

	assert_int_equal(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS), 0);
	fails(rdma(IBV_WR_RDMA_WRITE, &sge, (uintptr_t)b.buffer, b.mr->rkey),
	      IBV_WC_REM_INV_REQ_ERR, REASON_PEER_INVALID_REQUEST);
}

static void a_message_larger_than_its_receive(void **state)
{
	struct ibv_sge sge = end_sge(&a, 0, 64);

	assert_int_equal(post_recv(&b, 3, 63), 0);
	assert_int_equal(post_recv(&b, 4, 63), 0);
	fails(make_send(IBV_WR_SEND, &sge), IBV_WC_REM_INV_REQ_ERR, REASON_PEER_INVALID_REQUEST);
	assert_failed(next_wc(b.cq), 3, IBV_WC_LOC_LEN_ERR, REASON_RECEIVE_TOO_SMALL);
	assert_failed(next_wc(b.cq), 4, IBV_WC_WR_FLUSH_ERR, REASON_RECV_FLUSHED);
}

static void a_receive_with_a_bad_lkey(void **state)
{
	struct ibv_sge sge = end_sge(&a, 0, 64), bad = end_sge(&b, 0, 64);

	bad.lkey ^= 0x1000000;
	assert_int_equal(post_recv_sge(b.qp, 3, bad), 0);
	fails(make_send(IBV_WR_SEND, &sge), IBV_WC_REM_OP_ERR, REASON_PEER_FAILED);
	assert_failed(next_wc(b.cq), 3, IBV_WC_LOC_PROT_ERR, REASON_LKEY_UNKNOWN);
}

static void no_receive_for_longer_than_the_retries(void **state)
{
	struct ibv_sge sge = end_sge(&a, 0, 64);

	fails(make_send(IBV_WR_SEND, &sge), IBV_WC_RNR_RETRY_EXC_ERR, REASON_RNR_RETRY_EXCEEDED);
}

static void a_peer_that_is_gone(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct ibv_sge sge = end_sge(&a, 0, 64);

	assert_int_equal(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	fails(make_send(IBV_WR_SEND, &sge), IBV_WC_RETRY_EXC_ERR, REASON_RETRY_EXCEEDED);
}

/* ---- flushing ---- */

static void everything_is_accounted_for_in_the_error_state(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_sge sge = end_sge(&a, 0, 8);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &sge);

	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(post_recv(&a, i, 8), 0);
	assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	for (uint64_t i = 0; i < 5; i++)
		assert_failed(next_wc(a.cq), i, IBV_WC_WR_FLUSH_ERR, REASON_RECV_FLUSHED);
	/* and what is posted afterwards, unsignaled sends as well */
	wr.send_flags = 0;
	post_send_wr(&a, &wr);
	assert_failed(next_wc(a.cq), 0x5e4d, IBV_WC_WR_FLUSH_ERR, REASON_SEND_FLUSHED);
	assert_int_equal(post_recv(&a, 77, 8), 0);
	assert_failed(next_wc(a.cq), 77, IBV_WC_WR_FLUSH_ERR, REASON_RECV_FLUSHED);
}

/* ---- memory that the program has unmapped ---- */

static char *gone_at(struct ibv_mr **mr)
{
	char *pages = lonely_pages(4096);

	*mr = ibv_reg_mr(pd, pages, 4096, live_access);
	assert_non_null(*mr);
	munmap(pages, 4096);
	/* cppcheck-suppress deallocret ; that it is gone is what the caller wants */
	return pages;
}

#ifdef __x86_64__
static void a_send_from_memory_that_is_gone(void **state)
{
	struct ibv_mr *mr;
	struct ibv_sge sge = {.addr = (uintptr_t)gone_at(&mr), .length = 8, .lkey = mr->lkey};

	fails(make_send(IBV_WR_SEND, &sge), IBV_WC_LOC_PROT_ERR, REASON_LOCAL_MEMORY_GONE);
	ibv_dereg_mr(mr);
}

static void a_write_to_memory_that_is_gone(void **state)
{
	struct ibv_sge sge = end_sge(&a, 0, 8);
	struct ibv_mr *mr;
	char *gone = gone_at(&mr);

	refused_by_the_peer(rdma(IBV_WR_RDMA_WRITE, &sge, (uintptr_t)gone, mr->rkey));
	ibv_dereg_mr(mr);
}

static void a_read_of_memory_that_is_gone(void **state)
{
	struct ibv_sge sge = end_sge(&a, 0, 8);
	struct ibv_mr *mr;
	char *gone = gone_at(&mr);

	refused_by_the_peer(rdma(IBV_WR_RDMA_READ, &sge, (uintptr_t)gone, mr->rkey));
	ibv_dereg_mr(mr);
}

static void a_receive_into_memory_that_is_gone(void **state)
{
	struct ibv_sge sge = end_sge(&a, 0, 8), into;
	struct ibv_mr *mr;
	char *gone = gone_at(&mr);

	into = (struct ibv_sge){.addr = (uintptr_t)gone, .length = 8, .lkey = mr->lkey};
	assert_int_equal(post_recv_sge(b.qp, 3, into), 0);
	fails(make_send(IBV_WR_SEND, &sge), IBV_WC_REM_OP_ERR, REASON_PEER_FAILED);
	assert_failed(next_wc(b.cq), 3, IBV_WC_LOC_PROT_ERR, REASON_LOCAL_MEMORY_GONE);
	ibv_dereg_mr(mr);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
	    RC_TEST(each_operation_completes),
	    RC_TEST(an_unknown_lkey),
	    RC_TEST(an_rkey_for_an_lkey),
	    RC_TEST(an_element_past_the_region),
	    RC_TEST(a_region_of_another_pd),
	    RC_TEST(a_read_into_a_region_without_local_write),
	    RC_TEST(a_message_of_more_than_2_gib),
	    RC_TEST(an_invalidation_of_a_plain_region),
	    RC_TEST(an_unknown_rkey),
	    RC_TEST(an_lkey_for_an_rkey),
	    RC_TEST(a_write_one_byte_past_the_region),
	    RC_TEST(a_key_of_a_region_that_is_gone),
	    RC_TEST(a_write_without_the_right),
	    RC_TEST(a_misaligned_atomic),
	    RC_TEST(an_operation_that_the_qp_does_not_allow),
	    RC_TEST(a_message_larger_than_its_receive),
	    RC_TEST(a_receive_with_a_bad_lkey),
	    RC_TEST(no_receive_for_longer_than_the_retries),
	    RC_TEST(a_peer_that_is_gone),
	    RC_TEST(everything_is_accounted_for_in_the_error_state),
#ifdef __x86_64__
	    RC_TEST(a_send_from_memory_that_is_gone),
	    RC_TEST(a_write_to_memory_that_is_gone),
	    RC_TEST(a_read_of_memory_that_is_gone),
	    RC_TEST(a_receive_into_memory_that_is_gone),
#endif
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
