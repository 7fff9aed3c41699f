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

/*
 * Asks how many completion counters there may be, when they wrap, and which operations they count.
 * Errors: None: it gives 0.
 * Man: ibv_query_comp_cntr_caps(3).
 */
static inline int ibv_query_comp_cntr_caps(struct ibv_context *context,
					   struct ibv_comp_cntr_caps *caps)
{
	return _ibv_query_comp_cntr_caps(context, caps, sizeof(*caps));
}

/*
 * Makes a completion counter: two counts, of successes and of errors, which begin at 0. By type it
 * counts work requests or their bytes.
 * Returns the counter, or NULL with errno set.
 * Errors: EINVAL: comp_mask or flags is not 0, or the type is unknown; ENOMEM: max_counters, or
 * memory.
 * Man: ibv_create_comp_cntr(3).
 */
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
					   struct ibv_comp_cntr_init_attr *cc_attr);

/*
 * Destroys a completion counter. The QPs that it is attached to have to be destroyed first.
 * Errors: EBUSY: a QP uses it.
 * Man: ibv_create_comp_cntr(3).
 */
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr);

/*
 * Sets the count of successes. Atomic towards the adapter's counting; what is under way counts on
 * from there.
 * Errors: None: it gives 0.
 * Man: ibv_create_comp_cntr(3).
 */
int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);

/*
 * Sets the count of errors, as ibv_set_comp_cntr() does that of successes.
 * Errors: None: it gives 0.
 * Man: ibv_create_comp_cntr(3).
 */
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);

/*
 * Adds to the count of successes, atomically; it wraps at 2^64.
 * Errors: None: it gives 0.
 * Man: ibv_create_comp_cntr(3).
 */
int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);

/*
 * Adds to the count of errors, as ibv_inc_comp_cntr() does to that of successes.
 * Errors: None: it gives 0.
 * Man: ibv_create_comp_cntr(3).
 */
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);

/*
 * Reads the count of successes. It makes no progress of its own: the adapter's threads do. What was
 * counted is visible in memory once its count is.
 * Errors: None: it gives 0.
 * Man: ibv_create_comp_cntr(3).
 */
int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);

/*
 * Reads the count of errors, as ibv_read_comp_cntr() does that of successes. Work requests that are
 * flushed count as well.
 * Errors: None: it gives 0.
 * Man: ibv_create_comp_cntr(3).
 */
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);

/*
 * Lets a counter count the operations of op_mask on a QP, until the QP is destroyed. Several QPs
 * may have the same counter; one QP has at most one for each kind of operation.
 * Errors: EINVAL: the QP is past INIT or of another device, op_mask is 0, or comp_mask is not;
 * ENOTSUP: an operation that cannot be counted, see supported_qp_attach_ops; EBUSY: the QP has
 * another counter for one of them; EIO: in the child of a fork().
 * Man: ibv_qp_attach_comp_cntr(3).
 */
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
			    struct ibv_qp_attach_comp_cntr_attr *attr);

#ifdef __cplusplus
}
#endif

#endif
