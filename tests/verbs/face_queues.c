/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What queues can do beyond the plain: moderated CQs, tag matching SRQs, QPs of a limited rate,
 * with completion counters and options.
 */
#define _GNU_SOURCE
#include <poll.h>

#include <infiniband/tm_types.h>

#include "live.h"

/* ---- moderation ---- */

static bool has_event(struct ibv_comp_channel *channel, int timeout_ms)
{
	struct pollfd readable = {.fd = channel->fd, .events = POLLIN};

	return poll(&readable, 1, timeout_ms) == 1;
}

static void take_event(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *data;

	assert_int_equal(ibv_get_cq_event(channel, &cq, &data), 0);
	ibv_ack_cq_events(cq, 1);
}

static int moderate(struct ibv_cq *cq, uint16_t count, uint16_t period)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {.cq_count = count, .cq_period = period}};

	return ibv_modify_cq(cq, &attr);
}

/* Writes of B's to A's memory; they complete in B's CQ, which has the channel. */
static void write_some(struct end *from, const struct end *to, int count)
{
	struct ibv_sge sge = end_sge(from, 0, 8);
	struct ibv_send_wr wr = make_send(IBV_WR_RDMA_WRITE, &sge);

	wr.wr.rdma.remote_addr = (uintptr_t)to->buffer;
	wr.wr.rdma.rkey = to->mr->rkey;
	for (int i = 0; i < count; i++)
		post_send_wr(from, &wr);
}

static void a_moderated_cq_gathers_events(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, CQE, NULL, channel, 0);
	struct ibv_qp_init_attr attr = end_qp_attr(cq, IBV_QPT_RC);
	struct end a, b = {.cq = cq};
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	double start;

	end_create(&a, IBV_QPT_RC);
	end_make_buffer(&b);
	b.qp = ibv_create_qp(pd, &attr);
	qp_init(a.qp, live_access);
	qp_init(b.qp, live_access);
	qp_connect(a.qp, b.qp->qp_num);
	qp_connect(b.qp, a.qp->qp_num);

	assert_int_equal(moderate(cq, 3, 0), 0);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	write_some(&b, &a, 2);
	assert_false(has_event(channel, 100));
	write_some(&b, &a, 1);
	assert_true(has_event(channel, PATIENCE_S * 1000));
	take_event(channel);

	assert_int_equal(moderate(cq, 1000, 60000), 0); /* 60 ms */
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	start = seconds();
	write_some(&b, &a, 1);
	assert_true(has_event(channel, PATIENCE_S * 1000));
	assert_true(seconds() - start > 0.05);
	take_event(channel);

	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(post_recv(&b, 1, 8), 0);
	sge = end_sge(&a, 0, 8);
	wr = make_send(IBV_WR_SEND, &sge);
	start = seconds();
	post_send_wr(&a, &wr);
	assert_true(has_event(channel, PATIENCE_S * 1000));
	assert_true(seconds() - start > 0.05);
	take_event(channel);

	assert_int_equal(moderate(cq, 0, 0), 0);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	write_some(&b, &a, 1);
	assert_true(has_event(channel, PATIENCE_S * 1000));
	take_event(channel);
	pair_destroy(&a, &b);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void what_cannot_be_modified_of_a_cq_is_refused(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_modify_cq_attr attr = {.attr_mask = 0};

	assert_refused(ibv_modify_cq(cq, &attr), EINVAL, REASON_CQ_MODIFY_MASK, "0");
	attr.attr_mask = IBV_CQ_ATTR_RESERVED | IBV_CQ_ATTR_MODERATE;
	assert_refused(ibv_modify_cq(cq, &attr), EINVAL, REASON_CQ_MODIFY_MASK, "0x3");
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* ---- tag matching ---- */

static struct ibv_srq *create_tag_srq(struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex attr = {
	    .attr = {.max_wr = 8, .max_sge = 1},
	    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			 IBV_SRQ_INIT_ATTR_TM,
	    .srq_type = IBV_SRQT_TM,
	    .pd = pd,
	    .cq = cq,
	    .tm_cap = {.max_num_tags = 8, .max_ops = 8},
	};

	return ibv_create_srq_ex(context, &attr);
}

static void next_ex(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = {0};
	double end = seconds() + PATIENCE_S;
	int ret;

	do {
		ret = ibv_start_poll(cq, &attr);
	} while (ret == ENOENT && seconds() < end);
	assert_int_equal(ret, 0);
	assert_int_equal(cq->status, IBV_WC_SUCCESS);
}

static void a_tagged_message_finds_its_buffer(void **state)
{
	struct ibv_cq_init_attr_ex cq_attr = {
	    .cqe = CQE, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &cq_attr);
	struct end a, b = {.cq = ibv_cq_ex_to_cq(cq)};
	struct ibv_srq *srq = create_tag_srq(b.cq);
	struct ibv_qp_init_attr attr = end_qp_attr(b.cq, IBV_QPT_RC);
	struct ibv_tmh header = {.opcode = IBV_TMH_EAGER, .tag = htobe64(0x1234)};
	struct ibv_device_attr_ex device;
	struct ibv_wc_tm_info info;
	struct ibv_ops_wr op = {.wr_id = 5, .opcode = IBV_WR_TAG_ADD, .flags = IBV_OPS_SIGNALED};
	struct ibv_ops_wr *bad;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	assert_int_equal(ibv_query_device_ex(context, NULL, &device), 0);
	assert_true(device.tm_caps.flags & IBV_TM_CAP_RC);
	assert_non_null(srq);
	end_create(&a, IBV_QPT_RC);
	end_make_buffer(&b);
	attr.srq = srq;
	b.qp = ibv_create_qp(pd, &attr);
	assert_non_null(b.qp);
	qp_init(a.qp, live_access);
	qp_init(b.qp, live_access);
	qp_connect(a.qp, b.qp->qp_num);
	qp_connect(b.qp, a.qp->qp_num);

	sge = end_sge(&b, 100, 50);
	op.tm.add.recv_wr_id = 77;
	op.tm.add.sg_list = &sge;
	op.tm.add.num_sge = 1;
	op.tm.add.tag = 0x1234;
	op.tm.add.mask = UINT64_MAX;
	assert_int_equal(ibv_post_srq_ops(srq, &op, &bad), 0);
	next_ex(cq);
	assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_TM_ADD);
	assert_int_equal(cq->wr_id, 5);
	ibv_end_poll(cq);

	memcpy(a.buffer, &header, sizeof(header));
	strcpy(a.buffer + sizeof(header), "tagged");
	sge = end_sge(&a, 0, sizeof(header) + 7);
	wr = make_send(IBV_WR_SEND, &sge);
	post_send_wr(&a, &wr);
	next_ex(cq);
	assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_TM_RECV);
	assert_int_equal(cq->wr_id, 77);
	assert_int_equal(ibv_wc_read_byte_len(cq), 7);
	ibv_wc_read_tm_info(cq, &info);
	assert_int_equal(info.tag, 0x1234);
	ibv_end_poll(cq);
	assert_string_equal(b.buffer + 100, "tagged");
	assert_wc(next_wc(a.cq), 0x5e4d, IBV_WC_SUCCESS);

	end_destroy(&a);
	assert_int_equal(ibv_destroy_qp(b.qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(b.cq), 0);
	assert_int_equal(ibv_dereg_mr(b.mr), 0);
	free(b.buffer);
}

static void operations_on_a_basic_srq_are_refused(void **state)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *basic = ibv_create_srq(pd, &attr);
	struct ibv_ops_wr op = {.opcode = IBV_WR_TAG_SYNC}, *bad = NULL;

	assert_refused(ibv_post_srq_ops(basic, &op, &bad), EINVAL, REASON_SRQ_NOT_TM, "SRQ");
	assert_ptr_equal(bad, &op);
	assert_int_equal(ibv_destroy_srq(basic), 0);
}

/* ---- QPs ---- */

static void a_limited_rate_takes_its_time(void **state)
{
	struct ibv_qp_rate_limit_attr limit = {.rate_limit = 800,
					       .max_burst_sz = 1000}; /* 100 B/ms */
	struct ibv_device_attr_ex device;
	struct end a, b;
	double start;

	assert_int_equal(ibv_query_device_ex(context, NULL, &device), 0);
	assert_true(ibv_is_qpt_supported(device.packet_pacing_caps.supported_qpts, IBV_QPT_RC));
	pair_create(&a, &b, IBV_QPT_RC);
	assert_int_equal(ibv_modify_qp_rate_limit(a.qp, &limit), 0);
	start = seconds();
	for (int i = 0; i < 10; i++) {
		struct ibv_sge sge = end_sge(&a, 0, 1000);
		struct ibv_send_wr wr = make_send(IBV_WR_RDMA_WRITE, &sge);

		wr.wr.rdma.remote_addr = (uintptr_t)b.buffer;
		wr.wr.rdma.rkey = b.mr->rkey;
		post_send_wr(&a, &wr);
	}
	for (int i = 0; i < 10; i++)
		assert_wc(next_wc(a.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_true(seconds() - start > 0.08); /* 10 KB less a burst, at 100 B/ms */
	limit.comp_mask = 1;
	assert_refused(ibv_modify_qp_rate_limit(a.qp, &limit), EINVAL, REASON_COMP_MASK, "0x1");
	pair_destroy(&a, &b);
}

static void a_rate_before_rts_is_refused(void **state)
{
	struct ibv_qp_rate_limit_attr limit = {.rate_limit = 800};
	struct end end;

	end_create(&end, IBV_QPT_RC);
	assert_refused(ibv_modify_qp_rate_limit(end.qp, &limit), EINVAL, REASON_RATE_STATE,
		       "RESET");
	end_destroy(&end);
}

static void a_counter_counts_what_it_is_attached_to(void **state)
{
	struct ibv_comp_cntr_init_attr attr = {.type = IBV_COMP_CNTR_TYPE_BYTES};
	struct ibv_qp_attach_comp_cntr_attr ops = {
	    .op_mask = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE | IBV_QP_ATTACH_COMP_CNTR_OP_SEND};
	struct ibv_comp_cntr *cntr = ibv_create_comp_cntr(context, &attr);
	struct ibv_comp_cntr_caps caps;
	uint64_t value;
	struct end a, b;

	assert_non_null(cntr);
	assert_int_equal(ibv_query_comp_cntr_caps(context, &caps), 0);
	assert_int_equal(caps.supported_qp_attach_ops & ops.op_mask, ops.op_mask);
	end_create(&a, IBV_QPT_RC);
	end_create(&b, IBV_QPT_RC);
	assert_int_equal(ibv_qp_attach_comp_cntr(a.qp, cntr, &ops), 0);
	assert_refused(ibv_destroy_comp_cntr(cntr), EBUSY, REASON_COMP_CNTR_BUSY, "2 QPs");
	qp_init(a.qp, live_access);
	qp_init(b.qp, live_access);
	qp_connect(a.qp, b.qp->qp_num);
	qp_connect(b.qp, a.qp->qp_num);
	assert_refused(ibv_qp_attach_comp_cntr(a.qp, cntr, &ops), EINVAL, REASON_COMP_CNTR_STATE,
		       "RTS");
	assert_int_equal(ibv_set_comp_cntr(cntr, 1000), 0);
	write_some(&a, &b, 3);
	for (int i = 0; i < 3; i++)
		assert_wc(next_wc(a.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_int_equal(ibv_read_comp_cntr(cntr, &value), 0);
	assert_int_equal(value, 1024);
	assert_int_equal(ibv_inc_comp_cntr(cntr, 6), 0);
	assert_int_equal(ibv_read_comp_cntr(cntr, &value), 0);
	assert_int_equal(value, 1030);
	assert_int_equal(ibv_set_err_comp_cntr(cntr, 7), 0);
	assert_int_equal(ibv_inc_err_comp_cntr(cntr, 1), 0);
	assert_int_equal(ibv_read_err_comp_cntr(cntr, &value), 0);
	assert_int_equal(value, 8);
	pair_destroy(&a, &b);
	assert_int_equal(ibv_destroy_comp_cntr(cntr), 0);
	attr.flags = 1;
	assert_refused_null(ibv_create_comp_cntr(context, &attr), EINVAL, REASON_COMP_CNTR_ATTR,
			    "flags 0x1");
}

static void there_are_no_options_to_agree_upon(void **state)
{
	struct ibv_ece ece = {.vendor_id = 0x15b3, .options = 2};
	struct end end;

	end_create(&end, IBV_QPT_RC);
	assert_int_equal(ibv_query_ece(end.qp, &ece), 0);
	assert_int_equal(ece.vendor_id, device_attr.vendor_id);
	assert_int_equal(ece.options, 0);
	ece = (struct ibv_ece){.vendor_id = 0x15b3, .options = 2};
	assert_int_equal(ibv_set_ece(end.qp, &ece), 0);
	assert_int_equal(ece.options, 0);
	ece.comp_mask = 4;
	assert_refused(ibv_set_ece(end.qp, &ece), EINVAL, REASON_COMP_MASK, "0x4");
	ece.comp_mask = 0;
	qp_init(end.qp, 0);
	qp_connect(end.qp, end.qp->qp_num);
	assert_refused(ibv_set_ece(end.qp, &ece), EINVAL, REASON_ECE_STATE, "RTS");
	end_destroy(&end);
}

/* Of a peer on another host, or one that seems so: who is on this one copies by itself. */
static void writes_from_another_host_come_in_order(void **state)
{
	const uint32_t caps = IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS;
	const union ibv_gid own = gid;
	struct end near, far;
#ifdef __x86_64__
	const int whole =
	    IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG | IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES;
#else
	const int whole = 0;
#endif

	end_create(&near, IBV_QPT_RC);
	end_create(&far, IBV_QPT_RC);
	assert_int_equal(ibv_query_qp_data_in_order(far.qp, IBV_WR_RDMA_WRITE, 0), 0);
	qp_init(near.qp, 0);
	qp_init(far.qp, 0);
	qp_connect(near.qp, near.qp->qp_num);
	gid.raw[14] = 9; /* 127.0.9.1 */
	qp_connect(far.qp, 0x123456);
	gid = own;
	assert_int_equal(ibv_query_qp_data_in_order(far.qp, IBV_WR_RDMA_WRITE, 0), whole != 0);
	assert_int_equal(ibv_query_qp_data_in_order(far.qp, IBV_WR_RDMA_WRITE, caps), whole);
	assert_int_equal(ibv_query_qp_data_in_order(near.qp, IBV_WR_RDMA_WRITE, caps), 0);
	assert_int_equal(ibv_query_qp_data_in_order(far.qp, IBV_WR_SEND, caps), 0);
	assert_int_equal(ibv_query_qp_data_in_order(far.qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 0), 0);
	assert_int_equal(ibv_query_qp_data_in_order(far.qp, IBV_WR_RDMA_WRITE, 1 << 9), 0);
	end_destroy(&near);
	end_destroy(&far);
}

/* ---- neighbours ---- */

static void ethernet_addresses_are_resolved(void **state)
{
	struct ibv_ah_attr attr = {
	    .is_global = 1,
	    .port_num = 1,
	    .grh = {.dgid = gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 1}};
	static const uint8_t none[6], group[6] = {0x01, 0x00, 0x5e, 0x01, 0x02, 0x03};
	uint8_t mac[6] = {1};
	uint16_t vlan = 5;

	assert_int_equal(ibv_resolve_eth_l2_from_gid(context, &attr, mac, &vlan), 0);
	assert_memory_equal(mac, none, 6); /* the loopback has none */
	assert_int_equal(vlan, 0xffff);
	memcpy(attr.grh.dgid.raw + 12, (const uint8_t[]){239, 0x81, 2, 3}, 4);
	assert_int_equal(ibv_resolve_eth_l2_from_gid(context, &attr, mac, &vlan), 0);
	assert_memory_equal(mac, group, 6);
	attr.is_global = 0;
	assert_refused(ibv_resolve_eth_l2_from_gid(context, &attr, mac, &vlan), EINVAL,
		       REASON_AV_NO_GRH, "");
}

static void who_does_not_answer_is_not_resolved(void **state)
{
	struct ibv_ah_attr attr = {
	    .is_global = 1,
	    .port_num = 1,
	    .grh = {.dgid = gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 1}};
	uint8_t mac[6];
	uint16_t vlan;

	if (!is_own_network)
		skip();
	memcpy(attr.grh.dgid.raw + 12, (const uint8_t[]){192, 0, 2, 77}, 4);
	assert_refused(ibv_resolve_eth_l2_from_gid(context, &attr, mac, &vlan), EHOSTUNREACH,
		       REASON_NO_NEIGHBOUR, "192.0.2.77");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_moderated_cq_gathers_events),
	    cmocka_unit_test(what_cannot_be_modified_of_a_cq_is_refused),
	    cmocka_unit_test(a_tagged_message_finds_its_buffer),
	    cmocka_unit_test(operations_on_a_basic_srq_are_refused),
	    cmocka_unit_test(a_limited_rate_takes_its_time),
	    cmocka_unit_test(a_rate_before_rts_is_refused),
	    cmocka_unit_test(a_counter_counts_what_it_is_attached_to),
	    cmocka_unit_test(there_are_no_options_to_agree_upon),
	    cmocka_unit_test(writes_from_another_host_come_in_order),
	    cmocka_unit_test(ethernet_addresses_are_resolved),
	    cmocka_unit_test(who_does_not_answer_is_not_resolved),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
