/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw packet QPs on a network of the process's own: frames from one QP to another by flows, over
 * work queues by their hash, counted; and the refusal without the privilege.
 */
#define _GNU_SOURCE
#include <linux/capability.h>
#include <sys/syscall.h>

#include "live.h"

enum { FRAME = 100 };

static const uint8_t header[14] = {0x01, 0x50, 0x56, 0x19, 0x20, 0xa7, 0x24,
				   0x8a, 0x07, 0xa5, 0x28, 0xc8, 0x88, 0xb5};

static bool is_raw_allowed;

static int open_raw(void **state)
{
	struct ibv_qp_init_attr attr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	if (live_open(state))
		return -1;
	cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	attr = end_qp_attr(cq, IBV_QPT_RAW_PACKET);
	qp = ibv_create_qp(pd, &attr);
	is_raw_allowed = qp && is_own_network;
	if (qp)
		ibv_destroy_qp(qp);
	return ibv_destroy_cq(cq);
}

/* All frames of the type that ours have. */
static struct ibv_flow *create_flow(struct ibv_qp *qp, struct ibv_counters *counters)
{
	struct ibv_flow_spec_eth eth = {.type = IBV_FLOW_SPEC_ETH,
					.size = sizeof(eth),
					.val.ether_type = htobe16(0x88b5),
					.mask.ether_type = 0xffff};
	struct ibv_flow_spec_counter_action count = {
	    .type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof(count), .counters = counters};
	struct {
		struct ibv_flow_attr attr;
		char specs[sizeof(eth) + sizeof(count)]; /* without gaps */
	} rule = {
	    .attr = {.type = IBV_FLOW_ATTR_NORMAL,
		     .size = sizeof(rule),
		     .num_of_specs = counters ? 2 : 1,
		     .port = 1},
	};

	memcpy(rule.specs, &eth, sizeof(eth));
	memcpy(rule.specs + sizeof(eth), &count, sizeof(count));
	return ibv_create_flow(qp, &rule.attr);
}

static void send_frame(struct end *from)
{
	struct ibv_sge sge = end_sge(from, 0, FRAME);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &sge);

	memcpy(from->buffer, header, sizeof(header));
	strcpy(from->buffer + sizeof(header), "a frame");
	post_send_wr(from, &wr);
	assert_wc(next_wc(from->cq), 0x5e4d, IBV_WC_SUCCESS);
}

static void a_frame_finds_its_flow(void **state)
{
	struct ibv_counters_init_attr none = {0};
	struct ibv_counter_attach_attr packets = {.counter_desc = IBV_COUNTER_PACKETS};
	struct ibv_counters *counters;
	struct ibv_flow *flow;
	struct end a, b;
	struct ibv_wc wc;
	uint64_t value = 0;

	if (!is_raw_allowed)
		skip();
	counters = ibv_create_counters(context, &none);
	assert_non_null(counters);
	assert_int_equal(ibv_attach_counters_point_flow(counters, &packets, NULL), 0);
	end_create(&a, IBV_QPT_RAW_PACKET);
	end_create(&b, IBV_QPT_RAW_PACKET);
	qp_raw_to_rts(a.qp);
	qp_raw_to_rts(b.qp);
	flow = create_flow(b.qp, counters);
	assert_non_null(flow);
	assert_int_equal(post_recv(&b, 7, 200), 0);
	send_frame(&a);
	wc = next_wc(b.cq);
	assert_wc(wc, 7, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, FRAME);
	assert_int_equal(wc.qp_num, b.qp->qp_num);
	assert_memory_equal(b.buffer, a.buffer, FRAME);
	assert_int_equal(ibv_read_counters(counters, &value, 1, 0), 0);
	assert_int_equal(value, 1);
	assert_refused(ibv_destroy_qp(b.qp), EBUSY, REASON_QP_FLOWS, "1 flows");
	assert_refused(ibv_destroy_counters(counters), EBUSY, REASON_COUNTERS_BUSY, "1 flows");
	assert_int_equal(ibv_destroy_flow(flow), 0);
	assert_int_equal(ibv_destroy_counters(counters), 0);
	pair_destroy(&a, &b);
}

static void frames_reach_work_queues(void **state)
{
	uint8_t key[40] = {1};
	struct ibv_cq *cq = ibv_create_cq(context, CQE, NULL, NULL, 0);
	struct ibv_wq_init_attr wq_attr = {
	    .wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = pd, .cq = cq};
	struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct ibv_wq *wq = ibv_create_wq(context, &wq_attr);
	struct ibv_rwq_ind_table_init_attr table_attr = {.ind_tbl = &wq};
	struct ibv_rwq_ind_table *table = ibv_create_rwq_ind_table(context, &table_attr);
	struct ibv_qp_init_attr_ex attr = {
	    .qp_type = IBV_QPT_RAW_PACKET,
	    .comp_mask =
		IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
	    .pd = pd,
	    .rwq_ind_tbl = table,
	    .rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
			     .rx_hash_key_len = sizeof(key),
			     .rx_hash_key = key,
			     .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4}};
	struct ibv_recv_wr wr = {.wr_id = 9, .num_sge = 1}, *bad;
	struct ibv_flow *flow;
	struct ibv_sge sge;
	struct ibv_qp *qp;
	struct end a;

	assert_non_null(wq);
	assert_non_null(table);
	assert_refused(ibv_destroy_wq(wq), EBUSY, REASON_WQ_BUSY, "1 places");
	assert_int_equal(ibv_modify_wq(wq, &ready), 0);
	if (is_raw_allowed) {
		qp = ibv_create_qp_ex(context, &attr);
		assert_non_null(qp);
		assert_refused(ibv_destroy_rwq_ind_table(table), EBUSY, REASON_WQ_TABLE_BUSY,
			       "1 QPs");
		flow = create_flow(qp, NULL);
		end_create(&a, IBV_QPT_RAW_PACKET);
		qp_raw_to_rts(a.qp);
		sge = end_sge(&a, 1000, 200);
		wr.sg_list = &sge;
		assert_int_equal(ibv_post_wq_recv(wq, &wr, &bad), 0);
		send_frame(&a);
		assert_wc(next_wc(cq), 9, IBV_WC_SUCCESS);
		assert_memory_equal(a.buffer + 1000, a.buffer, FRAME);
		assert_int_equal(ibv_destroy_flow(flow), 0);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		end_destroy(&a);
	}
	assert_int_equal(ibv_destroy_rwq_ind_table(table), 0);
	assert_int_equal(ibv_destroy_wq(wq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* CAP_NET_RAW taken from this thread, and given back. */
static bool set_raw_capability(bool on)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data))
		return false;
	if (on)
		data[0].effective |= 1u << CAP_NET_RAW;
	else
		data[0].effective &= ~(1u << CAP_NET_RAW);
	return !syscall(SYS_capset, &head, data);
}

static void without_the_privilege_it_is_refused(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = end_qp_attr(cq, IBV_QPT_RAW_PACKET);

	assert_true(set_raw_capability(false));
	assert_refused_null(ibv_create_qp(pd, &attr), EPERM, REASON_RAW_PRIVILEGE, "lo");
	set_raw_capability(true);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void ipsec_is_not_there(void **state)
{
	assert_refused_null(ibv_create_flow_action_esp(context, NULL), EOPNOTSUPP, REASON_FLOW_ESP,
			    "rxe");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_frame_finds_its_flow),
	    cmocka_unit_test(frames_reach_work_queues),
	    cmocka_unit_test(without_the_privilege_it_is_refused),
	    cmocka_unit_test(ipsec_is_not_there),
	};

	return cmocka_run_group_tests(tests, open_raw, live_close);
}
