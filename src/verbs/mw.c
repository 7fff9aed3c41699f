/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows. Type 1 is bound by a verb, which is a work request all the same.
 */
#include "device/mw.h"
#include "device/pd.h"
#include "verbs/face.h"

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct mw *mw;
	int ret = mw_create(pd_of(pd), type, &mw);

	if (ret) {
		errno = ret;
		return NULL;
	}
	mw->ibv.context = pd->context;
	return &mw->ibv;
}

static int dealloc_mw(struct ibv_mw *mw)
{
	UNCANCELLED;

	return verb_result(mw_destroy(mw_of(mw)));
}

/* Holds the send queue's lock: a WQE, filled. */
static int fill_bind(struct qp *qp, struct ibv_mw *mw, const struct ibv_mw_bind *bind,
		     uint32_t rkey)
{
	struct send_wqe *wqe = sq_next(qp);
	int ret;

	if (!wqe)
		return ENOMEM;
	wqe->wr_id = bind->wr_id;
	wqe->opcode = IBV_WR_BIND_MW;
	wqe->flags = bind->send_flags;
	if (qp->sq_sig_all)
		wqe->flags |= IBV_SEND_SIGNALED;
	ret = qp_check_send(qp, wqe);
	return ret ? ret : mw_fill_bind(qp, wqe, mw, rkey, &bind->bind_info, true);
}

/* The header has checked type and region. mw->rkey is the new one as soon as it is posted. */
static int bind_mw(struct ibv_qp *ibv, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct qp *qp = qp_of(ibv);
	uint32_t rkey = mw_next_rkey(mw_of(mw));
	int ret;

	sq_begin(qp);
	ret = fill_bind(qp, mw, bind, rkey);
	if (ret) {
		sq_abort(qp);
		return verb_result(ret);
	}
	mw_set_rkey(mw_of(mw), rkey);
	sq_commit(qp);
	doorbell(qp);
	return 0;
}

int verbatim_query_mw(struct ibv_mw *mw, struct verbatim_mw_attr *attr)
{
	mw_describe(mw_of(mw), attr);
	return 0;
}

void context_set_mw_ops(struct verbs_context *verbs)
{
	verbs->context.ops.alloc_mw = alloc_mw;
	verbs->context.ops.bind_mw = bind_mw;
	verbs->context.ops.dealloc_mw = dealloc_mw;
}
