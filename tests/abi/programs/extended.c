// SPDX-License-Identifier: BSD-2-Clause
/*
 * A program that uses what the API grew later: extended CQ and QP, device memory, windows, domains,
 * SRQs of all kinds, work queues, flows and counters. Compiled, not run.
 */
#include <infiniband/sa.h>
#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>

static int poll_one(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = {0};
	uint64_t sum = 0;

	if (ibv_start_poll(cq, &attr))
		return -1;
	do {
		struct ibv_wc_tm_info tm;

		sum += ibv_wc_read_opcode(cq) + ibv_wc_read_byte_len(cq) + ibv_wc_read_imm_data(cq);
		sum += ibv_wc_read_qp_num(cq) + ibv_wc_read_src_qp(cq) + ibv_wc_read_wc_flags(cq);
		sum += ibv_wc_read_slid(cq) + ibv_wc_read_sl(cq) + ibv_wc_read_dlid_path_bits(cq);
		sum += ibv_wc_read_completion_ts(cq) + ibv_wc_read_completion_wallclock_ns(cq);
		sum += ibv_wc_read_cvlan(cq) + ibv_wc_read_flow_tag(cq);
		sum += ibv_wc_read_invalidated_rkey(cq) + ibv_wc_read_vendor_err(cq);
		ibv_wc_read_tm_info(cq, &tm);
		sum += tm.tag + cq->wr_id + cq->status;
	} while (!ibv_next_poll(cq));
	ibv_end_poll(cq);
	return sum != 0;
}

static int post_all(struct ibv_qp *base, struct ibv_mw *mw, struct ibv_mr *mr, struct ibv_ah *ah)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(base);
	struct ibv_mw_bind_info info = {.mr = mr, .length = 8};
	struct ibv_data_buf buf = {&info, 8};
	struct ibv_sge sge = {0, 8, mr->lkey};

	qp->wr_id = 1;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_ud_addr(qp, ah, 1, 2);
	ibv_wr_set_sge(qp, mr->lkey, 0, 8);
	ibv_wr_send_imm(qp, 1);
	ibv_wr_set_sge_list(qp, 1, &sge);
	ibv_wr_send_inv(qp, 1);
	ibv_wr_set_inline_data(qp, &info, 8);
	ibv_wr_rdma_write(qp, 1, 2);
	ibv_wr_set_inline_data_list(qp, 1, &buf);
	ibv_wr_rdma_write_imm(qp, 1, 2, 3);
	ibv_wr_rdma_read(qp, 1, 2);
	ibv_wr_atomic_cmp_swp(qp, 1, 2, 3, 4);
	ibv_wr_atomic_fetch_add(qp, 1, 2, 3);
	ibv_wr_atomic_write(qp, 1, 2, &sge);
	ibv_wr_bind_mw(qp, mw, ibv_inc_rkey(mw->rkey), &info);
	ibv_wr_local_inv(qp, 1);
	ibv_wr_set_xrc_srqn(qp, 1);
	ibv_wr_send_tso(qp, &info, 8, 8);
	if (ibv_wr_complete(qp))
		ibv_wr_abort(qp);
	return 0;
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(list[0]);
	struct ibv_xrcd_init_attr xrcd_attr = {.fd = -1};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &xrcd_attr);
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_td *td = ibv_alloc_td(context, &td_attr);
	struct ibv_parent_domain_init_attr domain = {.pd = ibv_alloc_pd(context), .td = td};
	struct ibv_pd *pd = ibv_alloc_parent_domain(context, &domain);
	struct ibv_alloc_dm_attr dm_attr = {.length = 64};
	struct ibv_dm *dm = ibv_alloc_dm(context, &dm_attr);
	struct ibv_mr *mr = ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 1, .wc_flags = IBV_CREATE_CQ_SUP_WC_FLAGS};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &cq_attr);
	struct ibv_srq_init_attr_ex srq_attr = {.comp_mask = IBV_SRQ_INIT_ATTR_XRCD, .xrcd = xrcd};
	struct ibv_srq *srq = ibv_create_srq_ex(context, &srq_attr);
	struct ibv_wq_init_attr wq_attr = {.pd = pd, .cq = ibv_cq_ex_to_cq(cq)};
	struct ibv_wq *wq = ibv_create_wq(context, &wq_attr);
	struct ibv_rwq_ind_table_init_attr table_attr = {.ind_tbl = &wq};
	struct ibv_rwq_ind_table *table = ibv_create_rwq_ind_table(context, &table_attr);
	struct ibv_qp_init_attr_ex qp_attr = {.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					      .rwq_ind_tbl = table};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &qp_attr);
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} rule = {.attr = {.num_of_specs = 1}};
	struct ibv_flow *flow = ibv_create_flow(qp, &rule.attr);
	struct ibv_counters_init_attr counters_attr = {0};
	struct ibv_counters *counters = ibv_create_counters(context, &counters_attr);
	struct ibv_flow_action_esp_attr esp = {.esn = 1};
	struct ibv_flow_action *action = ibv_create_flow_action_esp(context, &esp);
	struct ibv_qp_rate_limit_attr rate = {.rate_limit = 1};
	struct ibv_moderate_cq moderate = {1, 1};
	struct ibv_modify_cq_attr modify = {IBV_CQ_ATTR_MODERATE, moderate};
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct ibv_gid_entry gids[4];
	struct ibv_sge sge = {0, 1, mr->lkey};
	struct ibv_tmh header = {.opcode = IBV_TMH_EAGER};
	struct ibv_path_record path = {.reserved = {0}};
	struct ibv_ece ece;
	struct ibv_mw_bind bind = {.bind_info = {.mr = mr}};
	uint64_t value;
	uint32_t number;

	return poll_one(cq) + post_all(qp, mw, mr, NULL) + ibv_bind_mw(qp, mw, &bind) +
	       ibv_query_gid_ex(context, 1, 0, gids, 0) +
	       (int)ibv_query_gid_table(context, gids, 4, 0) +
	       ibv_query_rt_values_ex(context, &values) + ibv_modify_qp_rate_limit(qp, &rate) +
	       ibv_modify_cq(ibv_cq_ex_to_cq(cq), &modify) + ibv_get_srq_num(srq, &number) +
	       ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1) +
	       ibv_memcpy_to_dm(dm, 0, &value, 8) + ibv_memcpy_from_dm(&value, dm, 0, 8) +
	       ibv_read_counters(counters, &value, 1, 0) + ibv_destroy_flow_action(action) +
	       ibv_destroy_flow(flow) + ibv_destroy_counters(counters) + ibv_destroy_wq(wq) +
	       ibv_destroy_rwq_ind_table(table) + ibv_dealloc_mw(mw) + ibv_free_dm(dm) +
	       ibv_dealloc_td(td) + ibv_close_xrcd(xrcd) + ibv_set_ece(qp, &ece) +
	       ibv_query_ece(qp, &ece) + (int)ibv_flow_label_to_udp_sport(1) +
	       ibv_is_qpt_supported(1, IBV_QPT_RC) + header.opcode + path.mtu +
	       (ibv_alloc_null_mr(pd) != NULL) + ibv_query_qp_data_in_order(qp, IBV_WR_SEND, 0);
}
