/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Misuse that the call itself refuses: the documented errno, as a return value or with NULL or -1,
 * and the reason with what was wrong in its live values. What the device alone decides is in
 * unit/test_device_*; here are the face's own checks, and one of the device's for each call, as a
 * proof that it gets out.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include <infiniband/verbatim.h>

#include "live.h"

/* ---- devices, ports ---- */

static void a_port_that_is_none(void **state)
{
	struct ibv_port_attr attr;
	union ibv_gid some;
	__be16 pkey;

	assert_refused(ibv_query_port(context, 2, &attr), EINVAL, REASON_PORT_NUMBER, "is 2");
	assert_refused(ibv_query_port(context, 0, &attr), EINVAL, REASON_PORT_NUMBER, "is 0");
	assert_refused_minus_1(ibv_query_gid(context, 2, 0, &some), EINVAL, REASON_PORT_NUMBER,
			       "2");
	assert_refused_minus_1(ibv_query_pkey(context, 2, 0, &pkey), EINVAL, REASON_PORT_NUMBER,
			       "2");
	assert_refused_minus_1(ibv_get_pkey_index(context, 2, pkey), EINVAL, REASON_PORT_NUMBER,
			       "2");
}

static void a_speed_that_loopback_does_not_have(void **state)
{
	uint64_t speed;

	assert_refused(ibv_query_port_speed(context, 1, &speed), EOPNOTSUPP, REASON_PORT_SPEED,
		       "rxe");
	assert_refused(ibv_query_port_speed(context, 9, &speed), EINVAL, REASON_PORT_NUMBER, "9");
}

static void indices_past_the_tables(void **state)
{
	struct ibv_gid_entry entry;
	union ibv_gid some;
	__be16 pkey;

	assert_refused_minus_1(ibv_query_gid(context, 1, 256, &some), EINVAL, REASON_GID_INDEX,
			       "256");
	assert_refused_minus_1(ibv_query_gid(context, 1, -1, &some), EINVAL, REASON_GID_INDEX,
			       "index");
	assert_refused(ibv_query_gid_ex(context, 1, 999, &entry, 0), EINVAL, REASON_GID_INDEX,
		       "999");
	assert_refused_minus_1(ibv_query_pkey(context, 1, 64, &pkey), EINVAL, REASON_PKEY_INDEX,
			       "64");
	assert_refused_minus_1(ibv_get_pkey_index(context, 1, htobe16(0x1234)), EINVAL,
			       REASON_PKEY_NONE, "0x1234");
}

static void empty_gid_entries_are_no_refusal(void **state)
{
	static const union ibv_gid zero;
	struct ibv_gid_entry entry;
	union ibv_gid some;

	assert_int_equal(ibv_query_gid(context, 1, 255, &some), 0);
	assert_memory_equal(&some, &zero, sizeof(some));
	assert_int_equal(ibv_query_gid_ex(context, 1, 255, &entry, 0), ENODATA);
}

static void the_gid_table_is_told_whole_or_refused(void **state)
{
	struct ibv_gid_entry entries[256];
	ssize_t count = ibv_query_gid_table(context, entries, 256, 0);

	assert_true(count >= 1);
	for (ssize_t i = 0; i < count; i++) {
		assert_int_equal(entries[i].gid_type, IBV_GID_TYPE_ROCE_V2);
		assert_int_equal(entries[i].port_num, 1);
		assert_true(entries[i].ndev_ifindex > 0);
	}
	assert_refused(ibv_query_gid_table(context, entries, 0, 0), -EINVAL, REASON_GID_TABLE_ROOM,
		       "0 entries");
	assert_refused(ibv_query_gid_table(context, entries, 256, 1), -EOPNOTSUPP, REASON_GID_FLAGS,
		       "1");
}

static void unknown_bits_of_extended_queries(void **state)
{
	struct ibv_query_device_ex_input input = {.comp_mask = 0};
	struct ibv_values_ex values = {.comp_mask = 1 << 5};
	struct ibv_device_attr_ex attr;

	assert_int_equal(ibv_query_device_ex(context, &input, &attr), 0);
	assert_memory_equal(&attr.orig_attr, &device_attr, sizeof(device_attr));
	assert_refused(ibv_query_rt_values_ex(context, &values), EINVAL, REASON_COMP_MASK, "0x20");
	values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	assert_int_equal(ibv_query_rt_values_ex(context, &values), 0);
	assert_true(values.raw_clock.tv_nsec > 0);
}

static void a_context_with_objects_closes_and_leaves_them_alone(void **state)
{
	struct ibv_context *second = open_loopback();
	struct ibv_pd *left = ibv_alloc_pd(second);

	assert_refused(ibv_close_device(second), 0, REASON_CLOSE_WITH_OBJECTS, "1 PDs");
	assert_int_equal(ibv_dealloc_pd(left), 0);
	assert_int_equal(ibv_close_device(second), 0);
}

/* ---- PD, MR, AH ---- */

static void a_range_that_is_not_mapped(void **state)
{
	char *pages = lonely_pages(3 * 4096);
	struct ibv_mr *mr;

	munmap(pages + 4096, 4096);
	assert_refused_null(ibv_reg_mr(pd, pages, 3 * 4096, live_access), EFAULT,
			    REASON_MR_UNMAPPED, "12288 bytes");
	assert_refused_null(ibv_reg_mr(pd, NULL, 8, live_access), EFAULT, REASON_MR_UNMAPPED,
			    "8 bytes");
	mr = ibv_reg_mr(pd, pages, 3 * 4096, live_access | IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	mr = ibv_reg_mr(pd, pages + 1, 4095, live_access);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(pages, 3 * 4096);
}

static void access_that_makes_no_sense(void **state)
{
	static char memory[64];
	int access = IBV_ACCESS_REMOTE_WRITE;

	assert_refused_null(ibv_reg_mr(pd, memory, 64, access), EINVAL, REASON_MR_NEEDS_LOCAL_WRITE,
			    "REMOTE_WRITE");
	assert_refused_null(ibv_reg_mr_iova(pd, memory, 64, 0x1000, 1 << 14), EINVAL,
			    REASON_MR_ACCESS_UNKNOWN, "0x4000");
	assert_refused_null(ibv_reg_mr_iova2(pd, memory, 64, UINT64_MAX, IBV_ACCESS_LOCAL_WRITE),
			    EINVAL, REASON_MR_RANGE, "iova");
}

static void a_pd_in_use(void **state)
{
	static char memory[64];
	struct ibv_pd *used = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(used, memory, 64, 0);

	assert_refused(ibv_dealloc_pd(used), EBUSY, REASON_PD_BUSY, "1 MR");
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(used), 0);
}

static void an_address_handle_to_nowhere(void **state)
{
	struct ibv_ah_attr attr = {.port_num = 1, .dlid = 17};
	struct ibv_wc wc = {.wc_flags = 0};
	struct ibv_grh grh = {.version_tclass_flow = htobe32(6u << 28), .dgid.raw = {0x20, 1}};

	assert_refused_null(ibv_create_ah(pd, &attr), EINVAL, REASON_AV_NO_GRH, "dlid is 17");
	assert_refused_minus_1(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr), EINVAL,
			       REASON_AH_NO_GRH, "wc_flags");
	wc.wc_flags = IBV_WC_GRH;
	assert_refused_null(ibv_create_ah_from_wc(pd, &wc, &grh, 1), EINVAL, REASON_AH_NOT_OURS,
			    "GID table");
}

/* ---- CQs, channels, SRQs ---- */

static void cq_attributes_out_of_range(void **state)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 8};

	assert_refused_null(ibv_create_cq(context, 0, NULL, NULL, 0), EINVAL, REASON_CQ_SIZE, "0");
	assert_refused_null(ibv_create_cq(context, -1, NULL, NULL, 0), EINVAL, REASON_CQ_SIZE,
			    "cqe");
	assert_refused_null(ibv_create_cq(context, 8, NULL, NULL, 999), EINVAL, REASON_COMP_VECTOR,
			    "999");
	assert_refused_null(ibv_create_cq(context, 8, NULL, NULL, -1), EINVAL, REASON_COMP_VECTOR,
			    "-1");
	attr.wc_flags = 1 << 20;
	assert_refused_null(ibv_create_cq_ex(context, &attr), EOPNOTSUPP, REASON_CQ_EXTENSION,
			    "0x100000");
	attr.wc_flags = 0;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = 1 << 9;
	assert_refused_null(ibv_create_cq_ex(context, &attr), EOPNOTSUPP, REASON_CQ_EXTENSION,
			    "0x200");
}

static void a_channel_in_use_or_of_another_context(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, channel, 0);
	struct ibv_context *second = open_loopback();

	assert_int_equal(channel->refcnt, 1);
	assert_refused(ibv_destroy_comp_channel(channel), EBUSY, REASON_CHANNEL_BUSY, "1 CQs");
	assert_refused_null(ibv_create_cq(second, 8, NULL, channel, 0), EINVAL,
			    REASON_CHANNEL_CONTEXT, "another context");
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	assert_int_equal(ibv_close_device(second), 0);
}

static void a_cq_in_use(void **state)
{
	struct end end;

	end_create(&end, IBV_QPT_RC);
	assert_refused(ibv_destroy_cq(end.cq), EBUSY, REASON_CQ_BUSY, "2 queues");
	end_destroy(&end);
}

static void srq_attributes_out_of_range(void **state)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 0, .max_sge = 1}};
	struct ibv_srq_init_attr_ex ex = {.attr = {.max_wr = 4, .max_sge = 1},
					  .comp_mask =
					      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					  .srq_type = (enum ibv_srq_type)9,
					  .pd = pd};
	struct ibv_srq *srq;

	assert_refused_null(ibv_create_srq(pd, &attr), EINVAL, REASON_SRQ_SIZE, "max_wr is 0");
	assert_refused_null(ibv_create_srq_ex(context, &ex), EOPNOTSUPP, REASON_SRQ_TYPE, "9");
	ex.comp_mask = 0;
	assert_refused_null(ibv_create_srq_ex(context, &ex), EINVAL, REASON_SRQ_NO_PD, "comp_mask");
	attr.attr.max_wr = 4;
	srq = ibv_create_srq(pd, &attr);
	assert_refused(ibv_modify_srq(srq, &(struct ibv_srq_attr){.srq_limit = 99}, IBV_SRQ_LIMIT),
		       EINVAL, REASON_SRQ_LIMIT, "99");
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* ---- QPs ---- */

static void qp_attributes_that_cannot_be(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_context *second = open_loopback();
	struct ibv_cq *others = ibv_create_cq(second, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = end_qp_attr(cq, IBV_QPT_DRIVER);
	struct ibv_qp_init_attr_ex ex = {.qp_type = IBV_QPT_RC, .comp_mask = 0};

	assert_refused_null(ibv_create_qp(pd, &attr), EOPNOTSUPP, REASON_QP_TYPE, "255");
	attr = end_qp_attr(cq, IBV_QPT_RC);
	attr.cap.max_send_wr = 1 << 20;
	assert_refused_null(ibv_create_qp(pd, &attr), EINVAL, REASON_QP_SIZE, "1048576");
	attr = end_qp_attr(cq, IBV_QPT_RC);
	attr.recv_cq = others;
	assert_refused_null(ibv_create_qp(pd, &attr), EINVAL, REASON_QP_OTHER_DEVICE,
			    "this context");
	assert_refused_null(ibv_create_qp_ex(context, &ex), EINVAL, REASON_QP_NO_PD, "comp_mask");
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_cq(others), 0);
	assert_int_equal(ibv_close_device(second), 0);
}

static void a_transition_that_is_none_keeps_the_state(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	struct end end;

	end_create(&end, IBV_QPT_RC);
	assert_refused(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE), EINVAL, REASON_QP_TRANSITION,
		       "from RESET to RTS");
	assert_int_equal(end.qp->state, IBV_QPS_RESET);
	attr.qp_state = IBV_QPS_INIT;
	assert_refused(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE | IBV_QP_PORT), EINVAL,
		       REASON_QP_ATTR_MISSING, "lacks IBV_QP_ACCESS_FLAGS IBV_QP_PKEY_INDEX");
	end_destroy(&end);
}

static void posting_in_the_wrong_state_or_too_much(void **state)
{
	struct end end;
	struct ibv_sge sge;
	struct ibv_send_wr wr, *bad_send;
	struct ibv_recv_wr recv = {.num_sge = 99}, *bad_recv;

	end_create(&end, IBV_QPT_RC);
	sge = end_sge(&end, 0, 8);
	wr = make_send(IBV_WR_SEND, &sge);
	assert_refused(ibv_post_send(end.qp, &wr, &bad_send), EINVAL, REASON_SEND_STATE, "RESET");
	assert_ptr_equal(bad_send, &wr);
	assert_refused(ibv_post_recv(end.qp, &recv, &bad_recv), EINVAL, REASON_RECV_STATE, "RESET");
	assert_ptr_equal(bad_recv, &recv);
	qp_init(end.qp, live_access);
	assert_refused(ibv_post_recv(end.qp, &recv, &bad_recv), EINVAL, REASON_RECV_TOO_MANY_SGE,
		       "99 elements");
	end_destroy(&end);
}

static void multicast_misuse(void **state)
{
	union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 239, 1, 1, 1}};
	struct ibv_async_event event = {.event_type = IBV_EVENT_QP_LAST_WQE_REACHED};
	struct end rc, ud;

	end_create(&rc, IBV_QPT_RC);
	end_create(&ud, IBV_QPT_UD);
	event.element.qp = ud.qp;
	assert_refused(ibv_attach_mcast(rc.qp, &group, 0), EINVAL, REASON_MCAST_NOT_UD, "UD");
	assert_refused(ibv_attach_mcast(ud.qp, &gid, 0), EINVAL, REASON_MCAST_GID, "127.0.0.1");
	assert_refused(ibv_detach_mcast(ud.qp, &group, 0), EINVAL, REASON_MCAST_NOT_ATTACHED,
		       "239.1.1.1");
	assert_int_equal(ibv_attach_mcast(ud.qp, &group, 0), 0);
	assert_refused(ibv_destroy_qp(ud.qp), EBUSY, REASON_QP_ATTACHED, "1 groups");
	/* at once, whatever else its end would have waited for */
	assert_int_equal(verbatim_raise_event(context, &event), 0);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_refused(ibv_destroy_qp(ud.qp), EBUSY, REASON_QP_ATTACHED, "1 groups");
	ibv_ack_async_event(&event);
	assert_int_equal(ibv_detach_mcast(ud.qp, &group, 0), 0);
	end_destroy(&rc);
	end_destroy(&ud);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_port_that_is_none),
	    cmocka_unit_test(a_speed_that_loopback_does_not_have),
	    cmocka_unit_test(indices_past_the_tables),
	    cmocka_unit_test(empty_gid_entries_are_no_refusal),
	    cmocka_unit_test(the_gid_table_is_told_whole_or_refused),
	    cmocka_unit_test(unknown_bits_of_extended_queries),
	    cmocka_unit_test(a_context_with_objects_closes_and_leaves_them_alone),
	    cmocka_unit_test(a_range_that_is_not_mapped),
	    cmocka_unit_test(access_that_makes_no_sense),
	    cmocka_unit_test(a_pd_in_use),
	    cmocka_unit_test(an_address_handle_to_nowhere),
	    cmocka_unit_test(cq_attributes_out_of_range),
	    cmocka_unit_test(a_channel_in_use_or_of_another_context),
	    cmocka_unit_test(a_cq_in_use),
	    cmocka_unit_test(srq_attributes_out_of_range),
	    cmocka_unit_test(qp_attributes_that_cannot_be),
	    cmocka_unit_test(a_transition_that_is_none_keeps_the_state),
	    cmocka_unit_test(posting_in_the_wrong_state_or_too_much),
	    cmocka_unit_test(multicast_misuse),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
