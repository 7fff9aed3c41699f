/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exported calls that this version does not implement: each refuses by name. When the real one is
 * written, its stand-in here goes.
 */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "rdmacm/unsupported.h"

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
{
	return CM_NOT_IMPLEMENTED();
}
