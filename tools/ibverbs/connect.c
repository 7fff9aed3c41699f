/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From INIT to RTS: connected QPs towards one remote QP each, datagrams with an address handle.
 */
#include <stdio.h>

#include "pingpong.h"

struct ibv_ah_attr pp_path_to(const struct pingpong *pp, const struct pp_address *remote)
{
	struct ibv_ah_attr attr = {
	    .dlid = (uint16_t)remote->lid,
	    .sl = (uint8_t)pp->options.sl,
	    .port_num = (uint8_t)pp->options.ib_port,
	};

	if (remote->gid.global.interface_id) {
		attr.is_global = 1;
		attr.grh.dgid = remote->gid;
		attr.grh.sgid_index =
		    (uint8_t)(pp->options.gid_index < 0 ? 0 : pp->options.gid_index);
		attr.grh.hop_limit = 64;
	}
	return attr;
}

static int connect_one(struct pingpong *pp, struct ibv_qp *qp, const struct pp_address *remote,
		       uint32_t psn)
{
	const bool is_rc = pp->kind->type == IBV_QPT_RC;
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = pp->options.mtu,
	    .dest_qp_num = remote->qpn,
	    .rq_psn = remote->psn,
	    .max_dest_rd_atomic = 1,
	    .min_rnr_timer = 12,
	    .ah_attr = pp_path_to(pp, remote),
	};

	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			      IBV_QP_RQ_PSN |
			      (is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0))) {
		fprintf(stderr, "Failed to modify QP to RTR\n");
		return 1;
	}
	attr = (struct ibv_qp_attr){
	    .qp_state = IBV_QPS_RTS,
	    .timeout = 14,
	    .retry_cnt = 7,
	    .rnr_retry = 7,
	    .sq_psn = psn,
	    .max_rd_atomic = 1,
	};
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_SQ_PSN |
			      (is_rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					   IBV_QP_MAX_QP_RD_ATOMIC
				     : 0))) {
		fprintf(stderr, "Failed to modify QP to RTS\n");
		return 1;
	}
	return 0;
}

static int address_datagrams(struct pingpong *pp, const struct pp_address *remote)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct ibv_ah_attr path = pp_path_to(pp, remote);

	if (ibv_modify_qp(pp->qps[0], &attr, IBV_QP_STATE)) {
		fprintf(stderr, "Failed to modify QP to RTR\n");
		return 1;
	}
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = pp->local[0].psn;
	if (ibv_modify_qp(pp->qps[0], &attr, IBV_QP_STATE | IBV_QP_SQ_PSN)) {
		fprintf(stderr, "Failed to modify QP to RTS\n");
		return 1;
	}
	pp->ah = ibv_create_ah(pp->pd, &path);
	if (!pp->ah)
		fprintf(stderr, "Failed to create AH\n");
	return !pp->ah;
}

int pp_connect_qps(struct pingpong *pp, const struct pp_address *remote)
{
	if (pp->kind->type == IBV_QPT_UD)
		return address_datagrams(pp, remote);
	for (int i = 0; i < pp->options.num_qp; i++)
		if (connect_one(pp, pp->qps[i], &remote[i], pp->local[i].psn))
			return 1;
	return 0;
}
