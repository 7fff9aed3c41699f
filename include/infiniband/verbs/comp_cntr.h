/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters: how many operations of a QP are done, and how many ended in error, without
 * an entry in a CQ for each. A counter may serve several QPs; it is attached while a QP is in RESET
 * or INIT and let go when the QP is destroyed.
 */
#ifndef INFINIBAND_VERBS_COMP_CNTR_H
#define INFINIBAND_VERBS_COMP_CNTR_H

#include <infiniband/verbs/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is counted; REMOTE_ are operations that the peer began. */
enum ibv_qp_attach_comp_cntr_op {
	IBV_QP_ATTACH_COMP_CNTR_OP_SEND = 1 << 0,
	IBV_QP_ATTACH_COMP_CNTR_OP_RECV = 1 << 1,
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ = 1 << 2,
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ = 1 << 3,
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE = 1 << 4,
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5,
};

struct ibv_comp_cntr_caps {
	uint64_t max_value; /* after which a counter wraps */
	uint32_t max_counters;
	uint32_t supported_qp_attach_ops; /* enum ibv_qp_attach_comp_cntr_op */
};

struct ibv_comp_cntr {
	struct ibv_context *context;
	uint32_t handle;
};

enum ibv_comp_cntr_type {
	IBV_COMP_CNTR_TYPE_WRS, /* counts work requests */
	IBV_COMP_CNTR_TYPE_BYTES,
};

struct ibv_comp_cntr_init_attr {
	uint32_t comp_mask; /* 0 */
	enum ibv_comp_cntr_type type;
	uint32_t flags; /* 0 */
};

struct ibv_qp_attach_comp_cntr_attr {
	uint32_t comp_mask; /* 0 */
	uint32_t op_mask;   /* enum ibv_qp_attach_comp_cntr_op */
};

int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
			      size_t caps_size);

/* Man: ibv_query_comp_cntr_caps(3). */
static inline int ibv_query_comp_cntr_caps(struct ibv_context *context,
					   struct ibv_comp_cntr_caps *caps)
{
	return _ibv_query_comp_cntr_caps(context, caps, sizeof(*caps));
}

/* Both counts begin at 0. Man: ibv_create_comp_cntr(3). */
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
					   struct ibv_comp_cntr_init_attr *cc_attr);

/* EBUSY while a QP uses it. Man: ibv_create_comp_cntr(3). */
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr);

/* Sets, adds to, and reads the count of successes and that of errors. */
int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);
int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);

/*
 * Lets the QP count what op_mask says. EINVAL: the QP is past INIT; ENOTSUP: an operation that the
 * device cannot count; EBUSY: another counter has one of them. Man: ibv_qp_attach_comp_cntr(3).
 */
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
			    struct ibv_qp_attach_comp_cntr_attr *attr);

#ifdef __cplusplus
}
#endif

#endif
