/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: one pool of receives for many QPs; and its relatives for XRC and tag
 * matching.
 */
#ifndef INFINIBAND_VERBS_SRQ_H
#define INFINIBAND_VERBS_SRQ_H

#include <infiniband/verbs/context.h>
#include <infiniband/verbs/post.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ibv_srq_attr_mask {
	IBV_SRQ_MAX_WR = 1 << 0,
	IBV_SRQ_LIMIT = 1 << 1,
};

struct ibv_srq_attr {
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t srq_limit; /* fewer receives than this: one IBV_EVENT_SRQ_LIMIT_REACHED; 0 none */
};

struct ibv_srq_init_attr {
	void *srq_context;
	struct ibv_srq_attr attr;
};

enum ibv_srq_type {
	IBV_SRQT_BASIC,
	IBV_SRQT_XRC,
	IBV_SRQT_TM,
};

enum ibv_srq_init_attr_mask {
	IBV_SRQ_INIT_ATTR_TYPE = 1 << 0,
	IBV_SRQ_INIT_ATTR_PD = 1 << 1,
	IBV_SRQ_INIT_ATTR_XRCD = 1 << 2,
	IBV_SRQ_INIT_ATTR_CQ = 1 << 3,
	IBV_SRQ_INIT_ATTR_TM = 1 << 4,
	IBV_SRQ_INIT_ATTR_RESERVED = 1 << 5,
};

struct ibv_tm_cap {
	uint32_t max_num_tags;
	uint32_t max_ops;
};

struct ibv_srq_init_attr_ex {
	/* As struct ibv_srq_init_attr. */
	void *srq_context;
	struct ibv_srq_attr attr;

	uint32_t comp_mask; /* enum ibv_srq_init_attr_mask: of those below */
	enum ibv_srq_type srq_type;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd; /* XRC */
	struct ibv_cq *cq;     /* XRC and TM */
	struct ibv_tm_cap tm_cap;
};

struct ibv_srq {
	struct ibv_context *context;
	void *srq_context;
	struct ibv_pd *pd;
	uint32_t handle;

	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

/*
 * Creates an SRQ: receives for any number of QPs. attr.max_wr and max_sge: at least what was asked
 * for, and on return what there is. srq_limit is not looked at: see ibv_modify_srq().
 * Returns the SRQ, or NULL with errno set.
 * Errors: EINVAL: max_wr is 0 or above max_srq_wr, or max_sge above max_srq_sge; ENOMEM: max_srq,
 * or memory.
 * Man: ibv_create_srq(3).
 */
struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr);

/*
 * Creates an SRQ of any kind. pd, with its bit in comp_mask, is always needed. XRC: for XRC
 * senders, who name it by ibv_get_srq_num(); it needs xrcd and a cq of its own. TM: tag matching
 * over RC; it needs tm_cap, with 1 or more of both, and a cq.
 * Returns the SRQ, or NULL with errno set.
 * Errors: EINVAL: a size as ibv_create_srq() refuses it, what the kind needs is missing, or is of
 * another context; EOPNOTSUPP: another kind, or an unknown bit in comp_mask; ENOMEM: max_srq, or
 * memory.
 * Man: ibv_create_srq_ex(3); A14.
 */
static inline struct ibv_srq *ibv_create_srq_ex(struct ibv_context *context,
						struct ibv_srq_init_attr_ex *srq_init_attr_ex)
{
	uint32_t mask = srq_init_attr_ex->comp_mask;
	struct verbs_context *vctx;

	/* What an ordinary SRQ can be needs no extended entry point. */
	if ((mask & IBV_SRQ_INIT_ATTR_PD) &&
	    !(mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE)) &&
	    (!(mask & IBV_SRQ_INIT_ATTR_TYPE) || srq_init_attr_ex->srq_type == IBV_SRQT_BASIC))
		return ibv_create_srq(srq_init_attr_ex->pd,
				      (struct ibv_srq_init_attr *)srq_init_attr_ex);
	vctx = verbs_get_ctx_op(context, create_srq_ex);
	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->create_srq_ex(context, srq_init_attr_ex);
}

/*
 * Resizes an SRQ (IBV_SRQ_MAX_WR), or arms its limit for one IBV_EVENT_SRQ_LIMIT_REACHED
 * (IBV_SRQ_LIMIT): the event comes when fewer receives than srq_limit are left; 0 disarms it.
 * Errors: EINVAL: an unknown bit in srq_attr_mask, a limit above the size, or a size that is 0,
 * above max_srq_wr or below what is posted; ENOMEM.
 * Man: ibv_modify_srq(3).
 */
int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask);

/*
 * Asks for an SRQ's size, and for its limit: 0 once that is no longer armed.
 * Errors: None: it gives 0.
 * Man: ibv_query_srq(3).
 */
int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr);

/*
 * Asks for the number that an XRC sender names this SRQ by, in remote_srqn.
 * Errors: EINVAL: it is no XRC SRQ.
 * Man: ibv_get_srq_num(3).
 */
static inline int ibv_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
{
	struct verbs_context *vctx = verbs_get_ctx_op(srq->context, get_srq_num);

	return vctx ? vctx->get_srq_num(srq, srq_num) : EOPNOTSUPP;
}

/*
 * Destroys an SRQ; receives still in it are dropped without completions. Waits until its events are
 * acknowledged.
 * Errors: EBUSY: a QP receives from it.
 * Man: ibv_create_srq(3).
 */
int ibv_destroy_srq(struct ibv_srq *srq);

/*
 * Posts a list of receives, in order. On failure *bad_recv_wr is the first that was not taken;
 * those before it are posted. They complete in the CQ of the QP that takes them.
 * Errors: EINVAL: too many elements; ENOMEM: the SRQ is full.
 * Man: ibv_post_srq_recv(3).
 */
static inline int ibv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr,
				    struct ibv_recv_wr **bad_recv_wr)
{
	return srq->context->ops.post_srq_recv(srq, recv_wr, bad_recv_wr);
}

enum ibv_ops_wr_opcode {
	IBV_WR_TAG_ADD,
	IBV_WR_TAG_DEL,
	IBV_WR_TAG_SYNC,
};

enum ibv_ops_flags {
	IBV_OPS_SIGNALED = 1 << 0,
	IBV_OPS_TM_SYNC = 1 << 1,
};

/* A change of a tag matching SRQ's list. */
struct ibv_ops_wr {
	uint64_t wr_id;
	struct ibv_ops_wr *next;
	enum ibv_ops_wr_opcode opcode;
	int flags; /* enum ibv_ops_flags */
	struct {
		uint32_t unexpected_cnt; /* unexpected messages that the program has seen */
		uint32_t handle;	 /* out of ADD, into DEL */
		struct {
			uint64_t recv_wr_id;
			struct ibv_sge *sg_list;
			int num_sge;
			uint64_t tag;
			uint64_t mask; /* bits of the tag that count */
		} add;
	} tm;
};

/*
 * Changes the list of a tag matching SRQ. ADD adds a tagged buffer and gives its handle in
 * tm.handle; DEL takes one out; SYNC, or any with IBV_OPS_TM_SYNC, says by unexpected_cnt which
 * messages the program has seen. All are done when it returns; with IBV_OPS_SIGNALED each completes
 * in the SRQ's CQ. On failure *bad_op is the first that was not done.
 * Errors: EINVAL: not a tag matching SRQ, an unknown opcode or flag, or too many elements; ENOMEM:
 * the list is full. In the completion: TM_ERR, a tag to be deleted is not in the list any more.
 * Man: ibv_post_srq_ops(3).
 */
static inline int ibv_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op,
				   struct ibv_ops_wr **bad_op)
{
	struct verbs_context *vctx = verbs_get_ctx_op(srq->context, post_srq_ops);

	if (!vctx) {
		*bad_op = op;
		return EOPNOTSUPP;
	}
	return vctx->post_srq_ops(srq, op, bad_op);
}

#ifdef __cplusplus
}
#endif

#endif
