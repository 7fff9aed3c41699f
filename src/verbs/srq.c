/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues of the basic type.
 */
#include <stdlib.h>

#include "device/pd.h"
#include "verbs/face.h"

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct face_srq *face = calloc(1, sizeof(*face));
	struct srq *srq;
	int ret;

	if (!face) {
		errno = refuse(REASON_NO_MEMORY, "for an SRQ");
		return NULL;
	}
	ret = srq_create(pd_of(pd), attr, &srq);
	if (ret) {
		free(face);
		errno = ret;
		return NULL;
	}
	srq->face = face;
	srq->ibv.context = pd->context;
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	return &srq->ibv;
}

/* The inline function in the header has taken what ibv_create_srq() can do. */
static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type != IBV_SRQT_BASIC)
		errno = refuse(REASON_SRQ_TYPE, "srq_type is %d", attr->srq_type);
	else if (attr->comp_mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD))
		errno = refuse(REASON_SRQ_TYPE, "comp_mask is %#x", attr->comp_mask);
	else if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD))
		errno = refuse(REASON_SRQ_NO_PD, "comp_mask is %#x", attr->comp_mask);
	else
		return ibv_create_srq(attr->pd, (struct ibv_srq_init_attr *)attr);
	return NULL;
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

void context_set_srq_ops(struct verbs_context *verbs)
{
	verbs->context.ops.post_srq_recv = post_srq_recv;
	verbs->create_srq_ex = create_srq_ex;
}
