/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues.
 */
#include <stdlib.h>

#include "device/pd.h"
#include "verbs/face.h"

static struct ibv_srq *create(struct ibv_pd *pd, struct ibv_srq_init_attr_ex *attr)
{
	struct face_srq *face = calloc(1, sizeof(*face));
	struct srq *srq;
	int ret;

	if (!face) {
		errno = refuse(REASON_NO_MEMORY, "for an SRQ");
		return NULL;
	}
	ret = srq_create_ex(pd_of(pd), attr, &srq);
	if (ret) {
		free(face);
		errno = ret;
		return NULL;
	}
	srq->face = face;
	srq->ibv.context = pd->context;
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	if (srq->cq)
		engine_tie_cq(srq->cq);
	return &srq->ibv;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = {
	    .srq_context = attr->srq_context,
	    .attr = attr->attr,
	    .srq_type = IBV_SRQT_BASIC,
	};
	struct ibv_srq *srq = create(pd, &ex);

	if (srq)
		attr->attr = ex.attr;
	return srq;
}

/* All that the SRQ is made of has to be of one context: the kernel knows it by that. */
static int check_contexts(struct ibv_context *context, const struct ibv_srq_init_attr_ex *attr)
{
	if (attr->pd->context != context ||
	    (attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD && attr->xrcd &&
	     attr->xrcd->context != context) ||
	    (attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ && attr->cq && attr->cq->context != context))
		return refuse(REASON_SRQ_OTHER_DEVICE, "not all of them are of this context of %s",
			      context->device->name);
	return 0;
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq_init_attr_ex full = *attr;
	struct ibv_srq *srq;
	int ret = 0;

	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		full.srq_type = IBV_SRQT_BASIC;
	if (attr->comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED)
		ret = refuse(REASON_SRQ_TYPE, "comp_mask is %#x", attr->comp_mask);
	else if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd)
		ret = refuse(REASON_SRQ_NO_PD, "comp_mask is %#x", attr->comp_mask);
	else
		ret = check_contexts(context, attr);
	if (ret || !attr->pd) {
		errno = ret;
		return NULL;
	}
	srq = create(attr->pd, &full);
	if (srq)
		attr->attr = full.attr;
	return srq;
}

static int get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
{
	if (srq_of(srq)->type != IBV_SRQT_XRC)
		return verb_result(refuse(REASON_SRQ_NO_NUMBER, "SRQ %u", srq->handle));
	*srq_num = srq_wire_number(srq_of(srq));
	return 0;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	return verb_result(srq_modify(srq_of(srq), attr, mask));
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	return verb_result(srq_query(srq_of(srq), attr));
}

int ibv_destroy_srq(struct ibv_srq *ibv)
{
	UNCANCELLED;
	struct context *context = context_of(ibv->context);
	struct srq *srq = srq_of(ibv);
	struct face_srq *face = srq->face;
	int ret = srq_check_idle(srq);

	if (ret)
		return verb_result(ret);
	async_retire(context, ibv, &face->async, &ibv->mutex, &ibv->cond, &ibv->events_completed);
	pthread_cond_destroy(&ibv->cond);
	pthread_mutex_destroy(&ibv->mutex);
	ret = srq_destroy(srq);
	if (!ret)
		free(face);
	return verb_result(ret);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return recv_queue_post(&srq_of(srq)->queue, wr, bad);
}

static int post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad)
{
	UNCANCELLED;

	return verb_result(tag_post(srq_of(srq), op, bad, engine_now()));
}

void context_set_srq_ops(struct verbs_context *verbs)
{
	verbs->context.ops.post_srq_recv = post_srq_recv;
	verbs->create_srq_ex = create_srq_ex;
	verbs->get_srq_num = get_srq_num;
	verbs->post_srq_ops = post_srq_ops;
}
