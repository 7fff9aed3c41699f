/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast. The LID of a group is InfiniBand's and not looked at.
 */
#include "verbs/face.h"

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	UNCANCELLED;

	return verb_result(engine_attach_mcast(qp_of(qp), gid));
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	UNCANCELLED;

	return verb_result(engine_detach_mcast(qp_of(qp), gid));
}
