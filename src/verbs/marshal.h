/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exported conversions between the kernel's structs and those of the verbs, which librdmacm uses.
 * Members that the kernel's struct lacks stay as they are.
 */
#ifndef VERBS_MARSHAL_H
#define VERBS_MARSHAL_H

#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>

void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

#endif
