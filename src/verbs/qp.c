/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: their life and states, and plain posting. The builder of ibv_wr_* is in wr.c.
 */
#include <stdlib.h>

#include "base/hot.h"
#include "device/pd.h"
#include "verbs/face.h"

/* PD, CQs and SRQ have to be of one context: the kernel knows them by it. */
static int check_contexts(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
	bool is_xrc_recv = attr->qp_type == IBV_QPT_XRC_RECV;

	if ((attr->pd && attr->pd->context != context) ||
	    (is_xrc_recv && attr->comp_mask & IBV_QP_INIT_ATTR_XRCD && attr->xrcd &&
	     attr->xrcd->context != context) ||
	    (attr->send_cq && attr->send_cq->context != context) ||
	    (attr->recv_cq && attr->recv_cq->context != context) ||
	    (attr->srq && attr->srq->context != context))
		return refuse(REASON_QP_OTHER_DEVICE, "not all of them are of this context of %s",
			      context->device->name);
	return 0;
}

void qp_init_sync(struct ibv_qp *qp)
{
	pthread_mutex_init(&qp->mutex, NULL);
	pthread_cond_init(&qp->cond, NULL);
}

void qp_destroy_sync(struct ibv_qp *qp)
{
	pthread_cond_destroy(&qp->cond);
	pthread_mutex_destroy(&qp->mutex);
}

static struct ibv_qp *create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	UNCANCELLED;
	struct face_qp *face = calloc(1, sizeof(*face));
	struct qp *qp;
	int ret;

	if (!face) {
		errno = refuse(REASON_NO_MEMORY, "for a QP");
		return NULL;
	}
	ret = check_contexts(context, attr);
	if (!ret)
		ret = engine_create_qp(attr->pd ? pd_of(attr->pd) : NULL, attr, &qp);
	if (ret) {
		free(face);
		errno = ret;
		return NULL;
	}
	qp->face = face;
	qp->ibv.context = context;
	qp_init_sync(&qp->ibv);
	if (qp->type == IBV_QPT_XRC_RECV)
		shared_qp_add(qp);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		face->ops = attr->send_ops_flags;
		wr_set_ops(&qp->ibv_ex);
	}
	return &qp->ibv;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
	    .qp_context = attr->qp_context,
	    .send_cq = attr->send_cq,
	    .recv_cq = attr->recv_cq,
	    .srq = attr->srq,
	    .cap = attr->cap,
	    .qp_type = attr->qp_type,
	    .sq_sig_all = attr->sq_sig_all,
	    .comp_mask = IBV_QP_INIT_ATTR_PD,
	    .pd = pd,
	};
	struct ibv_qp *qp = create(pd->context, &ex);

	if (qp)
		attr->cap = ex.cap;
	return qp;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr_ex full = *attr;
	struct ibv_qp *qp;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || attr->qp_type == IBV_QPT_XRC_RECV)
		full.pd = NULL;
	qp = create(context, &full);
	if (qp)
		attr->cap = full.cap;
	return qp;
}

/* NULL for a QP that was not created with send_ops_flags. */
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibv)
{
	struct qp *qp = qp_of(ibv);

	return qp->ibv_ex.wr_start ? &qp->ibv_ex : NULL;
}

/* In the program's struct, which several threads may come to bring up to date. */
static void tell_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	__atomic_store_n(&qp->state, state, __ATOMIC_RELAXED);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	UNCANCELLED;
	int ret = engine_modify_qp(real_qp(qp), attr, attr_mask);

	if (!ret && attr_mask & IBV_QP_STATE)
		tell_state(qp, attr->qp_state);
	return verb_result(ret);
}

/* All is told, whatever the mask asks for. */
int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		 struct ibv_qp_init_attr *init_attr)
{
	UNCANCELLED;
	int ret = engine_query_qp(real_qp(qp), attr, init_attr);

	if (!ret) {
		tell_state(qp, attr->qp_state);
		init_attr->qp_context = qp->qp_context;
	}
	return verb_result(ret);
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	UNCANCELLED;
	struct context *context = context_of(ibv->context);
	struct qp *qp = qp_of(ibv);
	struct face_qp *face = face_of_qp(qp);
	int ret;

	if (qp->type == IBV_QPT_XRC_RECV)
		return verb_result(shared_qp_destroy(qp));
	ret = qp_check_idle(qp); /* before anything ends: others may use it still */
	if (ret)
		return verb_result(ret);
	async_retire(context, ibv, &face->async, &ibv->mutex, &ibv->cond, &ibv->events_completed);
	qp_destroy_sync(ibv);
	ret = engine_destroy_qp(qp);
	if (ret) {
		qp_init_sync(ibv);
		async_revive(context, &face->async);
		return verb_result(ret);
	}
	free(face);
	return 0;
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct qp *qp = qp_of(ibv);
	bool needs_doorbell;
	int ret = 0;

	wr = engine_post(qp, wr, &needs_doorbell);
	if (wr)
		ret = qp_post_send(qp, wr, bad);
	if (needs_doorbell && (!ret || *bad != wr))
		doorbell(qp);
	return ret;
}

ASIDE static void flush_receive(struct qp *qp)
{
	doorbell(qp);
}

/* A receive needs nobody's turn, but in the error state it has to be flushed. */
static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct qp *qp = qp_of(ibv);
	int ret = qp_post_recv(qp, wr, bad);

	if (atomic_load_explicit(&qp->state, memory_order_acquire) == IBV_QPS_ERR)
		flush_receive(qp);
	return ret;
}

void context_set_qp_ops(struct verbs_context *verbs)
{
	verbs->context.ops.post_send = post_send;
	verbs->context.ops.post_recv = post_recv;
	verbs->create_qp_ex = create_qp_ex;
}
