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
