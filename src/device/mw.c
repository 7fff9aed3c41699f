/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows: their life, binding and invalidation (10.6.7), and access through them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "device/adapter.h"
#include "device/mr.h"
#include "device/mw.h"
#include "device/pd.h"
#include "device/qp.h"

enum {
	INDEX_SHIFT = 12,
	INDEX_MASK = MAX_MW - 1,
	BINDING_MASK = 0xff, /* the bits that change with each binding */
	CHANCE_MASK = 0xf00,

	/* LOCAL_WRITE says nothing of a window, but programs set it; peers need no right of the
	   owner's. */
	ACCESS_KNOWN = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_FLUSH_GLOBAL |
		       IBV_ACCESS_FLUSH_PERSISTENT | IBV_ACCESS_OPTIONAL_RANGE,
	ACCESS_WRITES = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
};

/* Peers without pause must not keep a binding waiting: it waits under its lane's lock. */
#ifdef PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#define WRITERS_FIRST PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#else
#define WRITERS_FIRST PTHREAD_RWLOCK_INITIALIZER
#endif

static uint32_t index_of(uint32_t rkey)
{
	return rkey >> INDEX_SHIFT & INDEX_MASK;
}

uint32_t mw_next_rkey(struct mw *mw)
{
	uint32_t rkey;

	pthread_rwlock_rdlock(&mw->lock);
	rkey = ibv_inc_rkey(mw->ibv.rkey);
	pthread_rwlock_unlock(&mw->lock);
	return rkey;
}

void mw_set_rkey(struct mw *mw, uint32_t rkey)
{
	pthread_rwlock_wrlock(&mw->lock);
	mw->ibv.rkey = rkey;
	pthread_rwlock_unlock(&mw->lock);
}

/* ---- life ---- */

int mw_create(struct pd *pd, enum ibv_mw_type type, struct mw **mw)
{
	struct adapter *adapter = pd->adapter;
	struct mw *new;
	int ret;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return refuse(REASON_MW_TYPE, "type is %d", type);
	new = calloc(1, sizeof(*new));
	if (!new)
		return refuse(REASON_NO_MEMORY, "for a memory window");
	new->adapter = adapter;
	new->pd = pd;
	new->ibv.pd = &pd->ibv;
	new->ibv.type = type;
	new->lock = (pthread_rwlock_t)WRITERS_FIRST;
	ret = table_add(&adapter->mws, 1, 0, new, &new->index);
	if (ret) {
		pthread_rwlock_destroy(&new->lock);
		free(new);
		return ret == -ENOSPC ? refuse(REASON_TOO_MANY_MWS, "%s has %u windows already",
					       adapter->name, MAX_MW - 1)
				      : refuse(REASON_NO_MEMORY, "for the table of windows");
	}
	new->ibv.handle = new->index;
	new->key = MW_KEY | new->index << INDEX_SHIFT |
		   (adapter->host->random(adapter) & (CHANCE_MASK | BINDING_MASK));
	mw_set_rkey(new, new->key);
	atomic_fetch_add(&pd->users, 1);
	*mw = new;
	return 0;
}

/* The caller holds mw->lock. */
static void unbind(struct mw *mw)
{
	if (mw->mr)
		atomic_fetch_sub(&mw->mr->windows, 1);
	mw->mr = NULL;
}

int mw_destroy(struct mw *mw)
{
	struct adapter *adapter = mw->adapter;

	table_remove(&adapter->mws, mw->index);
	if (adapter->host->quiesce)
		adapter->host->quiesce(adapter);
	unbind(mw);
	pthread_rwlock_destroy(&mw->lock);
	atomic_fetch_sub(&mw->pd->users, 1);
	free(mw);
	return 0;
}

void mw_describe(struct mw *mw, struct verbatim_mw_attr *attr)
{
	*attr = (struct verbatim_mw_attr){.pd = &mw->pd->ibv, .type = mw->ibv.type};
	pthread_rwlock_rdlock(&mw->lock);
	if (mw->mr) {
		attr->is_bound = 1;
		attr->rkey = mw->rkey;
		attr->lkey = mw->mr->lkey;
		attr->qp_num = mw->qpn;
		attr->addr = mw->iova;
		attr->length = mw->length;
		attr->access = mw->access;
	}
	pthread_rwlock_unlock(&mw->lock);
}

/* ---- posting ---- */

int mw_fill_bind(const struct qp *qp, struct send_wqe *wqe, struct ibv_mw *ibv, uint32_t rkey,
		 const struct ibv_mw_bind_info *info, bool is_verb)
{
	const struct mw *mw = mw_of(ibv);

	if (!mw)
		return refuse(REASON_BIND_NO_MW, "QP %#x, wr_id %#llx", qp->number,
			      (unsigned long long)wqe->wr_id);
	if (is_verb != (ibv->type == IBV_MW_TYPE_1))
		return refuse(REASON_BIND_TYPE, "QP %#x, wr_id %#llx: window %u is of type %d",
			      qp->number, (unsigned long long)wqe->wr_id, mw->index, ibv->type);
	if (!pd_is_same(mw->pd, qp->pd))
		return refuse(REASON_BIND_PD, "QP %#x is of PD %u, window %u of PD %u", qp->number,
			      qp->pd->ibv.handle, mw->index, mw->pd->ibv.handle);
	if (!info->mr && (info->addr || info->length))
		return refuse(REASON_BIND_NO_MR, "QP %#x: %llu bytes at %#llx", qp->number,
			      (unsigned long long)info->length, (unsigned long long)info->addr);
	wqe->bind = (struct mw_bind){
	    .index = mw->index,
	    .rkey = rkey,
	    .lkey = info->mr ? info->mr->lkey : 0,
	    .access = info->mw_access_flags,
	    .addr = info->addr,
	    .length = info->length,
	};
	return 0;
}

/* ---- binding (10.6.7.2) ---- */

static enum reason check_window(const struct qp *qp, const struct mw *mw,
				const struct mw_bind *bind)
{
	bool is_type_2 = mw->ibv.type == IBV_MW_TYPE_2;

	if (!pd_is_same(mw->pd, qp->pd)) /* another one at this index */
		return REASON_BIND_MW_GONE;
	if (bind->access & ~(unsigned int)ACCESS_KNOWN)
		return REASON_BIND_ACCESS;
	if (!is_type_2)
		return bind->access & IBV_ACCESS_ZERO_BASED ? REASON_BIND_ACCESS : REASON_NONE;
	if ((bind->rkey ^ mw->key) & ~(uint32_t)BINDING_MASK)
		return REASON_BIND_KEY;
	if (mw->mr)
		return REASON_BIND_IS_BOUND;
	return bind->lkey && bind->length ? REASON_NONE : REASON_BIND_NOTHING;
}

/* C10-72 to C10-75. */
static enum reason check_region(const struct mw *mw, const struct mr *mr,
				const struct mw_bind *bind)
{
	if (!pd_is_same(mr->pd, mw->pd))
		return REASON_BIND_MR_PD;
	if (!(mr->access & IBV_ACCESS_MW_BIND))
		return REASON_BIND_NOT_ALLOWED;
	if (bind->access & ACCESS_WRITES && !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		return REASON_BIND_NEEDS_LOCAL_WRITE;
	return mr_holds(mr, bind->addr, bind->length) ? REASON_NONE : REASON_BIND_RANGE;
}

/* The caller holds mw->lock. */
static void take_binding(struct mw *mw, struct mr *mr, const struct mw_bind *bind)
{
	atomic_fetch_add(&mr->windows, 1);
	unbind(mw);
	mw->mr = mr;
	mw->base = mr->base + (bind->addr - mr->iova);
	mw->iova = bind->access & IBV_ACCESS_ZERO_BASED ? 0 : bind->addr;
	mw->length = bind->length;
	mw->access = bind->access;
}

enum reason mw_bind(const struct qp *qp, const struct mw_bind *bind)
{
	struct mw *mw = table_find(&qp->adapter->mws, bind->index);
	struct mr *mr = NULL;
	enum reason reason;

	if (!mw)
		return REASON_BIND_MW_GONE;
	pthread_rwlock_wrlock(&mw->lock);
	reason = check_window(qp, mw, bind);
	if (!reason && bind->lkey && bind->length) {
		mr = mr_find(qp->adapter, bind->lkey);
		reason = mr ? check_region(mw, mr, bind) : REASON_BIND_MR_GONE;
	}
	if (!reason) {
		if (mr)
			take_binding(mw, mr, bind);
		else
			unbind(mw);
		mw->rkey = bind->rkey;
		mw->qpn = qp->number;
	}
	pthread_rwlock_unlock(&mw->lock);
	return reason;
}

/* ---- the end of a binding, and access ---- */

/* Whether the rkey is the window's present one, for this QP. The caller holds mw->lock. */
static enum reason check_key(const struct qp *qp, const struct pd *pd, const struct mw *mw,
			     uint32_t rkey)
{
	if (mw->rkey != rkey)
		return REASON_MW_STALE;
	if (!mw->mr)
		return REASON_MW_NOT_BOUND;
	if (!pd_is_same(mw->pd, pd))
		return REASON_MW_PD;
	if (mw->ibv.type == IBV_MW_TYPE_2 && mw->qpn != qp->number)
		return REASON_MW_QP;
	return REASON_NONE;
}

enum reason mw_invalidate(const struct qp *qp, const struct pd *pd, uint32_t rkey)
{
	struct mw *mw = table_find(&qp->adapter->mws, index_of(rkey));
	enum reason reason;

	if (!mw)
		return REASON_MW_UNKNOWN;
	if (mw->ibv.type == IBV_MW_TYPE_1)
		return REASON_INVALIDATE_TYPE_1;
	pthread_rwlock_wrlock(&mw->lock);
	reason = check_key(qp, pd, mw, rkey);
	if (!reason)
		unbind(mw);
	pthread_rwlock_unlock(&mw->lock);
	return reason;
}

enum reason mw_acquire(const struct qp *qp, const struct pd *pd, uint32_t rkey, struct mw **mw)
{
	struct mw *found = table_find(&qp->adapter->mws, index_of(rkey));
	enum reason reason;

	*mw = NULL;
	if (!found)
		return REASON_MW_UNKNOWN;
	pthread_rwlock_rdlock(&found->lock);
	reason = check_key(qp, pd, found, rkey);
	if (reason)
		pthread_rwlock_unlock(&found->lock);
	else
		*mw = found;
	return reason;
}

enum reason mw_locate(const struct mw *mw, uint64_t addr, uint64_t length, unsigned int need,
		      char **place)
{
	if (addr < mw->iova || length > mw->length || addr - mw->iova > mw->length - length)
		return REASON_MW_RANGE;
	if (need & ~mw->access)
		return REASON_MW_ACCESS;
	*place = mw->base + (addr - mw->iova);
	return REASON_NONE;
}

void mw_release(struct mw *mw)
{
	pthread_rwlock_unlock(&mw->lock);
}
