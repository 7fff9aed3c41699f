/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows: a part of a region under an rkey of its own, which can be given and taken back
 * quickly, by the queue itself.
 */
#ifndef INFINIBAND_VERBS_MW_H
#define INFINIBAND_VERBS_MW_H

#include <infiniband/verbs/context.h>
#include <infiniband/verbs/mr.h>
#include <infiniband/verbs/pd.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_mw {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t rkey; /* type 1: the current one; type 2: its upper 24 bits stay */
	uint32_t handle;
	enum ibv_mw_type type;
};

struct ibv_mw_bind_info {
	struct ibv_mr *mr; /* registered with IBV_ACCESS_MW_BIND */
	uint64_t addr;
	uint64_t length; /* 0 takes the window away */
	unsigned int mw_access_flags;
};

struct ibv_mw_bind {
	uint64_t wr_id;
	unsigned int send_flags; /* enum ibv_send_flags */
	struct ibv_mw_bind_info bind_info;
};

/*
 * Allocates a memory window of a type, not bound to anything. Type 1 is bound by ibv_bind_mw() and
 * serves all QPs of its PD; type 2 by a work request, IBV_WR_BIND_MW or ibv_wr_bind_mw(), and
 * serves the QP that bound it.
 * Returns the window, or NULL with errno set.
 * Errors: EINVAL: no such type; ENOMEM: max_mw, or memory.
 * Man: ibv_alloc_mw(3).
 */
static inline struct ibv_mw *ibv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	if (!pd->context->ops.alloc_mw) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return pd->context->ops.alloc_mw(pd, type);
}

/*
 * Frees a window, bound or not. Once it has returned nobody uses it any more.
 * Errors: None: it gives 0.
 * Man: ibv_alloc_mw(3).
 */
static inline int ibv_dealloc_mw(struct ibv_mw *mw)
{
	return mw->context->ops.dealloc_mw(mw);
}

/*
 * Computes the next rkey for a window of type 2: the low 8 bits, which are the program's, plus one.
 * Give it to the binding, then to the peer.
 * Returns the key.
 * Errors: None.
 * Man: ibv_bind_mw(3); 10.6.7.2.2.
 */
static inline uint32_t ibv_inc_rkey(uint32_t rkey)
{
	return (rkey & ~(uint32_t)0xff) | ((rkey + 1) & 0xff);
}

/*
 * Posts the binding of a window of type 1 to the QP's send queue; mw->rkey is the new key at once,
 * the old one ends when the binding is done. A length of 0 takes the window away.
 * Errors: EINVAL: a window of type 2, a range without a region, the QP's type or state takes no
 * binding, or an unknown flag; EPERM: window and region, or window and QP, are of different PDs;
 * ENOMEM: the send queue is full. Whether range, access and region are fit shows in the completion:
 * IBV_WC_MW_BIND_ERR.
 * Man: ibv_bind_mw(3); C10-72 to C10-75.
 */
static inline int ibv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind)
{
	const struct ibv_mw_bind_info *info = &mw_bind->bind_info;

	if (mw->type != IBV_MW_TYPE_1)
		return EINVAL;
	if (!info->mr && (info->addr || info->length))
		return EINVAL;
	if (info->mr && info->mr->pd != mw->pd)
		return EPERM;
	return mw->context->ops.bind_mw(qp, mw, mw_bind);
}

#ifdef __cplusplus
}
#endif

#endif
