/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive work queues outside of a QP, and the table that spreads packets over several of them by a
 * hash (receive side scaling of raw packets).
 */
#ifndef INFINIBAND_VERBS_WQ_H
#define INFINIBAND_VERBS_WQ_H

#include <infiniband/verbs/context.h>
#include <infiniband/verbs/post.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ibv_wq_type {
	IBV_WQT_RQ,
};

enum ibv_wq_init_attr_mask {
	IBV_WQ_INIT_ATTR_FLAGS = 1 << 0,
	IBV_WQ_INIT_ATTR_RESERVED = 1 << 1,
};

enum ibv_wq_flags {
	IBV_WQ_FLAGS_CVLAN_STRIPPING = 1 << 0,
	IBV_WQ_FLAGS_SCATTER_FCS = 1 << 1,
	IBV_WQ_FLAGS_DELAY_DROP = 1 << 2,
	IBV_WQ_FLAGS_PCI_WRITE_END_PADDING = 1 << 3,
	IBV_WQ_FLAGS_RESERVED = 1 << 4,
};

struct ibv_wq_init_attr {
	void *wq_context;
	enum ibv_wq_type wq_type;
	uint32_t max_wr;
	uint32_t max_sge;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint32_t comp_mask;    /* enum ibv_wq_init_attr_mask */
	uint32_t create_flags; /* enum ibv_wq_flags */
};

enum ibv_wq_state {
	IBV_WQS_RESET,
	IBV_WQS_RDY,
	IBV_WQS_ERR,
	IBV_WQS_UNKNOWN,
};

enum ibv_wq_attr_mask {
	IBV_WQ_ATTR_STATE = 1 << 0,
	IBV_WQ_ATTR_CURR_STATE = 1 << 1,
	IBV_WQ_ATTR_FLAGS = 1 << 2,
	IBV_WQ_ATTR_RESERVED = 1 << 3,
};

struct ibv_wq_attr {
	uint32_t attr_mask;		 /* enum ibv_wq_attr_mask */
	enum ibv_wq_state wq_state;	 /* to go to */
	enum ibv_wq_state curr_wq_state; /* to go only if it is in this one */
	uint32_t flags;			 /* enum ibv_wq_flags */
	uint32_t flags_mask;		 /* which of them change */
};

struct ibv_wq {
	struct ibv_context *context;
	void *wq_context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint32_t wq_num;
	uint32_t handle;
	enum ibv_wq_state state;
	enum ibv_wq_type wq_type;
	int (*post_recv)(struct ibv_wq *current, struct ibv_recv_wr *recv_wr,
			 struct ibv_recv_wr **bad_recv_wr);
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
	uint32_t comp_mask;
};

struct ibv_rwq_ind_table {
	struct ibv_context *context;
	int ind_tbl_handle;
	int ind_tbl_num;
	uint32_t comp_mask;
};

enum ibv_ind_table_init_attr_mask {
	IBV_CREATE_IND_TABLE_RESERVED = (1 << 0),
};

struct ibv_rwq_ind_table_init_attr {
	uint32_t log_ind_tbl_size; /* 2^n entries */
	struct ibv_wq **ind_tbl;
	uint32_t comp_mask; /* 0 */
};

/*
 * Creates a receive work queue, in RESET, for an indirection table. max_wr and max_sge: at least
 * what was asked for, on return what there is. Of create_flags there is CVLAN_STRIPPING.
 * Returns the WQ, or NULL with errno set.
 * Errors: EINVAL: a type other than RQ, an unknown bit in comp_mask or create_flags, pd or cq
 * missing or of another context, max_wr 0 or above max_qp_wr, or max_sge above the device's;
 * ENOMEM.
 * Man: ibv_create_wq(3).
 */
static inline struct ibv_wq *ibv_create_wq(struct ibv_context *context,
					   struct ibv_wq_init_attr *wq_init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, create_wq);
	struct ibv_wq *wq;

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	wq = vctx->create_wq(context, wq_init_attr);
	if (wq) {
		wq->wq_context = wq_init_attr->wq_context;
		wq->events_completed = 0;
		pthread_mutex_init(&wq->mutex, NULL);
		pthread_cond_init(&wq->cond, NULL);
	}
	return wq;
}

/*
 * Takes a WQ to another state, RESET to RDY to ERR, and to RESET from all, or sets its flags, as
 * attr_mask says. ERR flushes the receives in it, RESET drops them.
 * Errors: EINVAL: attr_mask is 0 or has an unknown bit, no such way, a curr_wq_state that it is not
 * in, or a flag other than CVLAN_STRIPPING.
 * Man: ibv_modify_wq(3).
 */
static inline int ibv_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(wq->context, modify_wq);

	return vctx ? vctx->modify_wq(wq, wq_attr) : EOPNOTSUPP;
}

/*
 * Destroys a WQ; receives still in it are dropped without completions. Waits until its events are
 * acknowledged.
 * Errors: EBUSY: it is in an indirection table.
 * Man: ibv_create_wq(3).
 */
static inline int ibv_destroy_wq(struct ibv_wq *wq)
{
	struct verbs_context *vctx = verbs_get_ctx_op(wq->context, destroy_wq);

	return vctx ? vctx->destroy_wq(wq) : EOPNOTSUPP;
}

/*
 * Posts a list of receives, in order. On failure *bad_recv_wr is the first that was not taken;
 * those before it are posted.
 * Errors: EINVAL: the WQ is not in RDY, or too many elements; ENOMEM: it is full.
 * Man: ibv_create_wq(3).
 */
static inline int ibv_post_wq_recv(struct ibv_wq *wq, struct ibv_recv_wr *recv_wr,
				   struct ibv_recv_wr **bad_recv_wr)
{
	return wq->post_recv(wq, recv_wr, bad_recv_wr);
}

/*
 * Makes an indirection table of 2^log_ind_tbl_size WQs, by which a raw packet QP spreads what it
 * receives: the low bits of a packet's hash are the index. One WQ may be there several times.
 * Returns the table, or NULL with errno set.
 * Errors: EINVAL: comp_mask is not 0, log_ind_tbl_size is above 10, or an entry is NULL or of
 * another device; ENOMEM.
 * Man: ibv_create_rwq_ind_table(3).
 */
static inline struct ibv_rwq_ind_table *
ibv_create_rwq_ind_table(struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, create_rwq_ind_table);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->create_rwq_ind_table(context, init_attr);
}

/*
 * Destroys an indirection table.
 * Errors: EBUSY: a QP uses it.
 * Man: ibv_create_rwq_ind_table(3).
 */
static inline int ibv_destroy_rwq_ind_table(struct ibv_rwq_ind_table *rwq_ind_table)
{
	struct verbs_context *vctx =
	    verbs_get_ctx_op(rwq_ind_table->context, destroy_rwq_ind_table);

	return vctx ? vctx->destroy_rwq_ind_table(rwq_ind_table) : EOPNOTSUPP;
}

#ifdef __cplusplus
}
#endif

#endif
