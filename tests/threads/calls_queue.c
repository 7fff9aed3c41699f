// SPDX-License-Identifier: BSD-2-Clause
/*
 * The matrix of verbs: completion queues and channels, SRQs, work queues.
 */
#include <errno.h>

#include "matrix.h"

/* ---- completion queues ---- */

static void cq_life(struct set *set)
{
	struct ibv_cq_init_attr_ex attr = {
	    .cqe = 8, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = set->parent};
	struct ibv_cq *cq = ibv_create_cq(set->rig.context, 8, NULL, set->channel, 0);
	struct ibv_cq_ex *ex = ibv_create_cq_ex(set->rig.context, &attr);

	CHECK(cq && ex && !ibv_destroy_cq(cq) && !ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
}

static void cq_busy(struct set *set)
{
	CHECK(ibv_destroy_cq(set->cq) == EBUSY);
}

static void cq_resize(struct set *set)
{
	CHECK(!ibv_resize_cq(set->cq, SET_CQE + 1));
	CHECK(!ibv_resize_cq(set->cq, SET_CQE));
}

static void cq_moderate(struct set *set)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {.cq_count = 2, .cq_period = 10}};

	CHECK(!ibv_modify_cq(set->cq, &attr));
}

static void cq_query(struct set *set)
{
	struct verbatim_cq_attr attr;

	CHECK(!verbatim_query_cq(set->cq, &attr) && attr.entries >= SET_CQE && attr.users);
}

static void cq_poll(struct set *set)
{
	struct ibv_wc wc[2];
	int count = ibv_poll_cq(set->cq, 2, wc);

	CHECK(count >= 0);
	for (int i = 0; i < count; i++)
		set_completed(set, wc[i].status, wc[i].opcode, wc[i].qp_num);
}

static void read_all(struct set *set)
{
	struct ibv_cq_ex *cq = set->cq_ex;
	struct ibv_wc_tm_info info;

	ibv_wc_read_vendor_err(cq);
	ibv_wc_read_byte_len(cq);
	ibv_wc_read_imm_data(cq);
	ibv_wc_read_invalidated_rkey(cq);
	ibv_wc_read_src_qp(cq);
	ibv_wc_read_wc_flags(cq);
	ibv_wc_read_slid(cq);
	ibv_wc_read_sl(cq);
	ibv_wc_read_dlid_path_bits(cq);
	ibv_wc_read_completion_ts(cq);
	ibv_wc_read_completion_wallclock_ns(cq);
	ibv_wc_read_cvlan(cq);
	ibv_wc_read_flow_tag(cq);
	ibv_wc_read_tm_info(cq, &info);
}

static void cq_walk(struct set *set)
{
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_cq_ex *cq = set->cq_ex;
	int ret = ibv_start_poll(cq, &attr);

	CHECK(!ret || ret == ENOENT);
	if (ret)
		return;
	do {
		read_all(set);
		set_completed(set, cq->status, ibv_wc_read_opcode(cq), ibv_wc_read_qp_num(cq));
	} while (!ibv_next_poll(cq));
	ibv_end_poll(cq);
}

static void cq_arm(struct set *set)
{
	CHECK(!ibv_req_notify_cq(set->cq, 0));
	CHECK(!ibv_req_notify_cq(set->cq, 1));
}

static void cq_event(struct set *set)
{
	struct ibv_cq *cq;
	void *which;

	if (!ibv_get_cq_event(set->channel, &cq, &which)) {
		CHECK(cq == set->cq);
		ibv_ack_cq_events(cq, 1);
	} else {
		CHECK(errno == EAGAIN);
	}
}

static void channel_life(struct set *set)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(set->rig.context);

	CHECK(channel && !ibv_destroy_comp_channel(channel));
}

static void channel_busy(struct set *set)
{
	CHECK(ibv_destroy_comp_channel(set->channel) == EBUSY);
}

/* ---- SRQs ---- */

static void srq_life(struct set *set)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(set->parent, &attr);

	CHECK(srq && !ibv_destroy_srq(srq));
}

static void srq_ex_life(struct set *set)
{
	struct ibv_srq_init_attr_ex attr = {
	    .attr = {.max_wr = 8, .max_sge = 1},
	    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			 IBV_SRQ_INIT_ATTR_XRCD,
	    .srq_type = IBV_SRQT_XRC,
	    .pd = set->rig.pd,
	    .cq = set->cq,
	    .xrcd = set->xrcd,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(set->rig.context, &attr);
	uint32_t own, other;

	CHECK(srq && !ibv_get_srq_num(srq, &own));
	CHECK(!ibv_get_srq_num(set->xrc_srq, &other) && own != other);
	CHECK(!ibv_destroy_srq(srq));
}

static void srq_busy(struct set *set)
{
	CHECK(ibv_destroy_srq(set->srq) == EBUSY);
}

static void srq_modify(struct set *set)
{
	struct ibv_srq_attr attr = {.max_wr = 4 * SET_WRS, .srq_limit = 2};

	CHECK(!ibv_modify_srq(set->srq, &attr, IBV_SRQ_LIMIT));
	CHECK(!ibv_query_srq(set->srq, &attr) && attr.max_sge >= 1);
}

static void srq_post(struct set *set)
{
	struct ibv_sge sge = {(uintptr_t)set->bytes, 64, set->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	int ret = ibv_post_srq_recv(set->tag_srq, &wr, &bad);

	CHECK(!ret || ret == ENOMEM);
}

/* A tag is added, and taken off the list again. */
static void srq_tag(struct set *set)
{
	struct ibv_sge sge = {(uintptr_t)set->bytes, 64, set->mr->lkey};
	struct ibv_ops_wr op = {.opcode = IBV_WR_TAG_ADD}, *bad;
	uint32_t handle;
	int ret;

	op.tm.add.sg_list = &sge;
	op.tm.add.num_sge = 1;
	op.tm.add.mask = UINT64_MAX;
	ret = ibv_post_srq_ops(set->tag_srq, &op, &bad);
	CHECK(!ret || ret == ENOMEM);
	if (ret)
		return;
	handle = op.tm.handle;
	op = (struct ibv_ops_wr){.opcode = IBV_WR_TAG_DEL};
	op.tm.handle = handle;
	CHECK(!ibv_post_srq_ops(set->tag_srq, &op, &bad));
}

/* ---- work queues ---- */

static void wq_life(struct set *set)
{
	struct ibv_wq_init_attr attr = {
	    .wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = set->rig.pd, .cq = set->cq};
	struct ibv_wq *wq = ibv_create_wq(set->rig.context, &attr);
	struct ibv_rwq_ind_table_init_attr table_attr = {.ind_tbl = &set->wq};
	struct ibv_rwq_ind_table *table = ibv_create_rwq_ind_table(set->rig.context, &table_attr);

	CHECK(wq && table && !ibv_destroy_rwq_ind_table(table) && !ibv_destroy_wq(wq));
}

static void wq_busy(struct set *set)
{
	CHECK(ibv_destroy_wq(set->wq) == EBUSY);
}

static void wq_modify(struct set *set)
{
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_FLAGS,
				   .wq_state = IBV_WQS_RESET,
				   .flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING};

	CHECK(!ibv_modify_wq(set->wq, &attr));
	attr.wq_state = IBV_WQS_RDY;
	CHECK(!ibv_modify_wq(set->wq, &attr));
}

static void wq_post(struct set *set)
{
	struct ibv_sge sge = {(uintptr_t)set->bytes, 64, set->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	int ret = ibv_post_wq_recv(set->wq, &wr, &bad);

	CHECK(!ret || ret == ENOMEM || ret == EINVAL); /* full, or reset just now */
}

const struct verb calls_queue[] = {
    {"ibv_create_cq ibv_create_cq_ex ibv_cq_ex_to_cq ibv_destroy_cq", cq_life},
    {"ibv_destroy_cq", cq_busy},
    {"ibv_resize_cq", cq_resize},
    {"ibv_modify_cq", cq_moderate},
    {"verbatim_query_cq", cq_query},
    {"ibv_poll_cq", cq_poll},
    {"ibv_start_poll ibv_next_poll ibv_end_poll ibv_wc_read_opcode ibv_wc_read_vendor_err "
     "ibv_wc_read_byte_len ibv_wc_read_imm_data ibv_wc_read_invalidated_rkey ibv_wc_read_qp_num "
     "ibv_wc_read_src_qp ibv_wc_read_wc_flags ibv_wc_read_slid ibv_wc_read_sl "
     "ibv_wc_read_dlid_path_bits ibv_wc_read_completion_ts ibv_wc_read_completion_wallclock_ns "
     "ibv_wc_read_cvlan ibv_wc_read_flow_tag ibv_wc_read_tm_info",
     cq_walk},
    {"ibv_req_notify_cq", cq_arm},
    {"ibv_get_cq_event ibv_ack_cq_events", cq_event},
    {"ibv_create_comp_channel ibv_destroy_comp_channel", channel_life},
    {"ibv_destroy_comp_channel", channel_busy},
    {"ibv_create_srq ibv_destroy_srq", srq_life},
    {"ibv_create_srq_ex ibv_get_srq_num", srq_ex_life},
    {"ibv_destroy_srq", srq_busy},
    {"ibv_modify_srq ibv_query_srq", srq_modify},
    {"ibv_post_srq_recv", srq_post},
    {"ibv_post_srq_ops", srq_tag},
    {"ibv_create_wq ibv_destroy_wq ibv_create_rwq_ind_table ibv_destroy_rwq_ind_table", wq_life},
    {"ibv_destroy_wq", wq_busy},
    {"ibv_modify_wq", wq_modify},
    {"ibv_post_wq_recv", wq_post},
    {NULL, NULL},
};
