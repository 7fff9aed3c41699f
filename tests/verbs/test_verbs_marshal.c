// SPDX-License-Identifier: BSD-2-Clause
/*
 * The conversions between the kernel's structs and those of the verbs take every member along, and
 * touch nothing else.
 */
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "verbs/marshal.h"

/* Different bytes everywhere, so that a member in the wrong place shows. */
static void fill(void *bytes, size_t length, unsigned int seed)
{
	for (size_t i = 0; i < length; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(seed + i * 37 + (i >> 8));
}

static void same_ah(const struct ibv_ah_attr *ah, const struct ib_uverbs_ah_attr *kernel)
{
	assert_memory_equal(ah->grh.dgid.raw, kernel->grh.dgid, 16);
	assert_int_equal(ah->grh.flow_label, kernel->grh.flow_label);
	assert_int_equal(ah->grh.sgid_index, kernel->grh.sgid_index);
	assert_int_equal(ah->grh.hop_limit, kernel->grh.hop_limit);
	assert_int_equal(ah->grh.traffic_class, kernel->grh.traffic_class);
	assert_int_equal(ah->dlid, kernel->dlid);
	assert_int_equal(ah->sl, kernel->sl);
	assert_int_equal(ah->src_path_bits, kernel->src_path_bits);
	assert_int_equal(ah->static_rate, kernel->static_rate);
	assert_int_equal(ah->is_global, kernel->is_global);
	assert_int_equal(ah->port_num, kernel->port_num);
}

static void an_address_is_taken_over_whole(void **state)
{
	struct ib_uverbs_ah_attr kernel;
	struct ibv_ah_attr ah;

	fill(&kernel, sizeof(kernel), 1);
	fill(&ah, sizeof(ah), 99);
	ibv_copy_ah_attr_from_kern(&ah, &kernel);
	same_ah(&ah, &kernel);
}

static void qp_attributes_are_taken_over_but_not_the_next_state(void **state)
{
	struct ib_uverbs_qp_attr k;
	struct ibv_qp_attr attr;

	fill(&k, sizeof(k), 3);
	fill(&attr, sizeof(attr), 77);
	attr.qp_state = IBV_QPS_SQD;
	attr.rate_limit = 12345;
	ibv_copy_qp_attr_from_kern(&attr, &k);
	assert_int_equal(attr.qp_state, IBV_QPS_SQD);
	assert_int_equal(attr.rate_limit, 12345);
	assert_int_equal(attr.cur_qp_state, k.cur_qp_state);
	assert_int_equal(attr.path_mtu, k.path_mtu);
	assert_int_equal(attr.path_mig_state, k.path_mig_state);
	assert_int_equal(attr.qkey, k.qkey);
	assert_int_equal(attr.rq_psn, k.rq_psn);
	assert_int_equal(attr.sq_psn, k.sq_psn);
	assert_int_equal(attr.dest_qp_num, k.dest_qp_num);
	assert_int_equal(attr.qp_access_flags, k.qp_access_flags);
	assert_int_equal(attr.cap.max_send_wr, k.max_send_wr);
	assert_int_equal(attr.cap.max_recv_wr, k.max_recv_wr);
	assert_int_equal(attr.cap.max_send_sge, k.max_send_sge);
	assert_int_equal(attr.cap.max_recv_sge, k.max_recv_sge);
	assert_int_equal(attr.cap.max_inline_data, k.max_inline_data);
	same_ah(&attr.ah_attr, &k.ah_attr);
	same_ah(&attr.alt_ah_attr, &k.alt_ah_attr);
	assert_int_equal(attr.pkey_index, k.pkey_index);
	assert_int_equal(attr.alt_pkey_index, k.alt_pkey_index);
	assert_int_equal(attr.en_sqd_async_notify, k.en_sqd_async_notify);
	assert_int_equal(attr.sq_draining, k.sq_draining);
	assert_int_equal(attr.max_rd_atomic, k.max_rd_atomic);
	assert_int_equal(attr.max_dest_rd_atomic, k.max_dest_rd_atomic);
	assert_int_equal(attr.min_rnr_timer, k.min_rnr_timer);
	assert_int_equal(attr.port_num, k.port_num);
	assert_int_equal(attr.timeout, k.timeout);
	assert_int_equal(attr.retry_cnt, k.retry_cnt);
	assert_int_equal(attr.rnr_retry, k.rnr_retry);
	assert_int_equal(attr.alt_port_num, k.alt_port_num);
	assert_int_equal(attr.alt_timeout, k.alt_timeout);
}

/* raw_traffic, reversible and mtu are wider in one of the structs: values that fit both. */
static void a_path_goes_to_the_kernel_and_back(void **state)
{
	struct ibv_sa_path_rec path, back;
	struct ib_user_path_rec kernel;

	memset(&path, 0, sizeof(path));
	fill(path.dgid.raw, 16, 5);
	fill(path.sgid.raw, 16, 6);
	path.dlid = 0x1122;
	path.slid = 0x3344;
	path.raw_traffic = 1;
	path.flow_label = 0x55667788;
	path.hop_limit = 9;
	path.traffic_class = 10;
	path.reversible = 11;
	path.numb_path = 12;
	path.pkey = 0x1314;
	path.sl = 15;
	path.mtu_selector = 16;
	path.mtu = 17;
	path.rate_selector = 18;
	path.rate = 19;
	path.packet_life_time_selector = 20;
	path.packet_life_time = 21;
	path.preference = 22;
	memset(&kernel, 0, sizeof(kernel));
	memset(&back, 0, sizeof(back));
	ibv_copy_path_rec_to_kern(&kernel, &path);
	assert_int_equal(kernel.mtu, 17);
	assert_int_equal(kernel.dlid, 0x1122);
	assert_memory_equal(kernel.sgid, path.sgid.raw, 16);
	assert_int_equal(kernel.preference, 22);
	ibv_copy_path_rec_from_kern(&back, &kernel);
	assert_memory_equal(&back, &path, sizeof(path));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_address_is_taken_over_whole),
	    cmocka_unit_test(qp_attributes_are_taken_over_but_not_the_next_state),
	    cmocka_unit_test(a_path_goes_to_the_kernel_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
