// SPDX-License-Identifier: BSD-2-Clause
/*
 * Exported functions that this version does not implement: each refuses by name. When the real one
 * is written, its stand-in here goes.
 */
#include "verbs/unsupported.h"

/* ---- import and export of objects between processes ---- */

struct ibv_context *ibv_import_device(int cmd_fd)
{
	return NOT_IMPLEMENTED_NULL();
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	return NOT_IMPLEMENTED_NULL();
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	NOT_IMPLEMENTED();
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	return NOT_IMPLEMENTED_NULL();
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	NOT_IMPLEMENTED();
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	return NOT_IMPLEMENTED_NULL();
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	NOT_IMPLEMENTED();
}

/* ---- completion counters ---- */

int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
			      size_t caps_size)
{
	return NOT_IMPLEMENTED();
}

struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
					   struct ibv_comp_cntr_init_attr *cc_attr)
{
	return NOT_IMPLEMENTED_NULL();
}

int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr)
{
	return NOT_IMPLEMENTED();
}

int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value)
{
	return NOT_IMPLEMENTED();
}

int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value)
{
	return NOT_IMPLEMENTED();
}

int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount)
{
	return NOT_IMPLEMENTED();
}

int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount)
{
	return NOT_IMPLEMENTED();
}

int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value)
{
	return NOT_IMPLEMENTED();
}

int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value)
{
	return NOT_IMPLEMENTED();
}

int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
			    struct ibv_qp_attach_comp_cntr_attr *attr)
{
	return NOT_IMPLEMENTED();
}

/* ---- the rest ---- */

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return NOT_IMPLEMENTED();
}

/* vendor_id 0 tells a peer that there is nothing to agree upon. */
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	*ece = (struct ibv_ece){0};
	return NOT_IMPLEMENTED();
}

int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	return NOT_IMPLEMENTED();
}

/* An answer, not a refusal: no order is promised for any operation, which 0 says. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return 0;
}
