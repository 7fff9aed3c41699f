// SPDX-License-Identifier: BSD-2-Clause
/*
 * The matrix of verbs: queue pairs but for their work, address handles, multicast, flows.
 */
#include <errno.h>
#include <string.h>

#include "matrix.h"

static struct ibv_qp_init_attr plain(struct set *set, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = set->cq,
	    .recv_cq = set->cq,
	    .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = type,
	};

	return attr;
}

static void qp_life(struct set *set)
{
	struct ibv_qp_init_attr attr = plain(set, IBV_QPT_RC);
	struct ibv_qp *qp = ibv_create_qp(set->rig.pd, &attr);

	CHECK(qp && qp->qp_num != set->from->qp_num && qp->qp_num != set->to->qp_num);
	rig_init(qp);
	rig_connect(&set->rig, qp, qp->qp_num);
	CHECK(!ibv_destroy_qp(qp));
}

static void qp_ex_life(struct set *set)
{
	struct ibv_qp_init_attr_ex attr = {
	    .send_cq = set->cq,
	    .recv_cq = set->cq,
	    .srq = set->srq,
	    .cap = {.max_send_wr = 2, .max_send_sge = 1},
	    .qp_type = IBV_QPT_UD,
	    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	    .pd = set->parent,
	    .send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(set->rig.context, &attr);

	CHECK(qp && ibv_qp_to_qp_ex(qp) && !ibv_destroy_qp(qp));
}

static void qp_open(struct set *set)
{
	struct ibv_qp_open_attr attr = {
	    .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
	    .qp_num = set->xrc_recv->qp_num,
	    .xrcd = set->xrcd,
	    .qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_qp *qp = ibv_open_qp(set->rig.context, &attr);

	CHECK(qp && qp->qp_num == set->xrc_recv->qp_num && !ibv_destroy_qp(qp));
}

static void qp_busy(struct set *set)
{
	CHECK(ibv_destroy_qp(set->ud) == EBUSY); /* attached to a group */
}

static void qp_modify(struct set *set)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .min_rnr_timer = 2};

	CHECK(!ibv_modify_qp(set->from, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER));
	CHECK(!ibv_modify_qp(set->to, &attr, IBV_QP_MIN_RNR_TIMER));
}

/* Whoever else drains it meanwhile, the last one takes it back. */
static void qp_drain(struct set *set)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};
	int ret = ibv_modify_qp(set->from, &attr, IBV_QP_STATE);

	CHECK(!ret || ret == EINVAL);
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(set->from, &attr, IBV_QP_STATE));
}

static void qp_query(struct set *set)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(set->from, &attr, IBV_QP_STATE, &init));
	CHECK(attr.qp_state == IBV_QPS_RTS || attr.qp_state == IBV_QPS_SQD);
	CHECK(!ibv_query_qp(set->to, &attr, IBV_QP_STATE, &init) && init.srq == set->srq);
}

static void qp_options(struct set *set)
{
	struct ibv_ece ece = {0};

	CHECK(!ibv_query_ece(set->still, &ece) && !ibv_set_ece(set->still, &ece));
	CHECK(ibv_query_qp_data_in_order(set->from, IBV_WR_RDMA_WRITE, 0) >= 0);
}

static void qp_rate(struct set *set)
{
	struct ibv_qp_rate_limit_attr limit = {0};

	CHECK(!ibv_modify_qp_rate_limit(set->to, &limit));
}

/* ---- completion counters ---- */

static void counter_life(struct set *set)
{
	struct ibv_comp_cntr_init_attr attr = {.type = IBV_COMP_CNTR_TYPE_BYTES};
	struct ibv_qp_attach_comp_cntr_attr ops = {.op_mask = IBV_QP_ATTACH_COMP_CNTR_OP_RECV};
	struct ibv_qp_init_attr qp_attr = plain(set, IBV_QPT_RC);
	struct ibv_comp_cntr *cntr = ibv_create_comp_cntr(set->rig.context, &attr);
	struct ibv_qp *qp = ibv_create_qp(set->rig.pd, &qp_attr);
	struct ibv_comp_cntr_caps caps;

	CHECK(!ibv_query_comp_cntr_caps(set->rig.context, &caps) && caps.max_counters);
	CHECK(cntr && qp && !ibv_qp_attach_comp_cntr(qp, cntr, &ops));
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_comp_cntr(cntr));
}

static void counter_busy(struct set *set)
{
	CHECK(ibv_destroy_comp_cntr(set->cntr) == EBUSY);
}

static void counter_use(struct set *set)
{
	uint64_t value;

	CHECK(!ibv_set_comp_cntr(set->cntr, 5) && !ibv_set_err_comp_cntr(set->cntr, 5));
	CHECK(!ibv_inc_comp_cntr(set->cntr, 1) && !ibv_inc_err_comp_cntr(set->cntr, 1));
	CHECK(!ibv_read_comp_cntr(set->cntr, &value) && value >= 5);
	CHECK(!ibv_read_err_comp_cntr(set->cntr, &value) && value >= 5);
}

/* ---- address handles and groups ---- */

static struct ibv_ah_attr path(const struct set *set)
{
	struct ibv_ah_attr attr = {
	    .grh = {.dgid = set->rig.gid, .sgid_index = set->rig.gid_index, .hop_limit = 1},
	    .is_global = 1,
	    .port_num = 1};

	return attr;
}

static void ah_life(struct set *set)
{
	struct ibv_ah_attr attr = path(set);
	struct ibv_ah *ah = ibv_create_ah(set->rig.pd, &attr);

	CHECK(ah && !ibv_destroy_ah(ah));
}

/* From a completion of a datagram from this host to itself. */
static void ah_from_wc(struct set *set)
{
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH, .src_qp = set->ud->qp_num};
	struct ibv_ah_attr attr;
	struct ibv_grh grh = {.version_tclass_flow = htobe32(6u << 28), .hop_limit = 1};
	struct ibv_ah *ah;

	grh.sgid = set->rig.gid;
	grh.dgid = set->rig.gid;
	CHECK(!ibv_init_ah_from_wc(set->rig.context, 1, &wc, &grh, &attr));
	ah = ibv_create_ah_from_wc(set->rig.pd, &wc, &grh, 1);
	CHECK(ah && !ibv_destroy_ah(ah));
}

static void ah_modify(struct set *set)
{
	struct ibv_ah_attr attr = path(set);

	attr.sl = 1;
	CHECK(!verbatim_modify_ah(set->ah, &attr));
}

static void ah_query(struct set *set)
{
	struct ibv_ah_attr attr;

	CHECK(!verbatim_query_ah(set->ah, &attr) && attr.is_global);
}

static void resolve(struct set *set)
{
	struct ibv_ah_attr attr = path(set);
	uint8_t mac[6];
	uint16_t vlan;

	CHECK(!ibv_resolve_eth_l2_from_gid(set->rig.context, &attr, mac, &vlan));
}

static void join(struct set *set)
{
	struct ibv_qp_init_attr attr = plain(set, IBV_QPT_UD);
	struct ibv_qp *qp = ibv_create_qp(set->rig.pd, &attr);

	CHECK(qp && !ibv_attach_mcast(qp, &set_group, 0) && !ibv_detach_mcast(qp, &set_group, 0));
	CHECK(!ibv_destroy_qp(qp));
}

/* ---- flows ---- */

static void flow_life(struct set *set)
{
	struct ibv_counters_init_attr none = {0};
	struct ibv_counter_attach_attr packets = {.counter_desc = IBV_COUNTER_PACKETS};
	struct ibv_counters *counters = ibv_create_counters(set->rig.context, &none);
	struct ibv_flow_spec_eth eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(eth)};
	struct ibv_flow_spec_counter_action count = {
	    .type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof(count), .counters = counters};
	struct {
		struct ibv_flow_attr attr;
		char specs[sizeof(eth) + sizeof(count)];
	} rule = {.attr = {.size = sizeof(rule), .num_of_specs = 2, .port = 1}};
	struct ibv_flow *flow;
	uint64_t value;

	CHECK(counters && !ibv_attach_counters_point_flow(counters, &packets, NULL));
	memcpy(rule.specs, &eth, sizeof(eth));
	memcpy(rule.specs + sizeof(eth), &count, sizeof(count));
	if (set->raw) {
		flow = ibv_create_flow(set->raw, &rule.attr);
		CHECK(flow && ibv_destroy_counters(counters) == EBUSY);
		CHECK(!ibv_read_counters(counters, &value, 1, 0) && !ibv_destroy_flow(flow));
	}
	CHECK(!ibv_destroy_counters(counters));
}

const struct verb calls_qp[] = {
    {"ibv_create_qp ibv_destroy_qp ibv_modify_qp", qp_life},
    {"ibv_create_qp_ex ibv_qp_to_qp_ex", qp_ex_life},
    {"ibv_open_qp", qp_open},
    {"ibv_destroy_qp", qp_busy},
    {"ibv_modify_qp", qp_modify},
    {"ibv_modify_qp", qp_drain},
    {"ibv_query_qp", qp_query},
    {"ibv_query_ece ibv_set_ece ibv_query_qp_data_in_order", qp_options},
    {"ibv_modify_qp_rate_limit", qp_rate},
    {"ibv_create_comp_cntr ibv_qp_attach_comp_cntr ibv_destroy_comp_cntr "
     "ibv_query_comp_cntr_caps",
     counter_life},
    {"ibv_destroy_comp_cntr", counter_busy},
    {"ibv_set_comp_cntr ibv_set_err_comp_cntr ibv_inc_comp_cntr ibv_inc_err_comp_cntr "
     "ibv_read_comp_cntr ibv_read_err_comp_cntr",
     counter_use},
    {"ibv_create_ah ibv_destroy_ah", ah_life},
    {"ibv_create_ah_from_wc ibv_init_ah_from_wc", ah_from_wc},
    {"verbatim_modify_ah", ah_modify},
    {"verbatim_query_ah", ah_query},
    {"ibv_resolve_eth_l2_from_gid", resolve},
    {"ibv_attach_mcast ibv_detach_mcast", join},
    {"ibv_create_counters ibv_attach_counters_point_flow ibv_create_flow ibv_read_counters "
     "ibv_destroy_flow ibv_destroy_counters",
     flow_life},
    {NULL, NULL},
};
