/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues: their life, plain polling and arming. Who finds a queue empty makes progress
 * itself.
 */
#include <stdlib.h>

#include "base/hot.h"
#include "verbs/face.h"

static int check(struct context *context, struct ibv_comp_channel *channel, uint32_t comp_vector)
{
	const struct ibv_context *ibv = &context->verbs.context;

	if (comp_vector >= (uint32_t)ibv->num_comp_vectors)
		return refuse(REASON_COMP_VECTOR, "comp_vector is %d, %s has 0 to %d",
			      (int)comp_vector, ibv->device->name, ibv->num_comp_vectors - 1);
	if (channel && channel->context != ibv)
		return refuse(REASON_CHANNEL_CONTEXT, "the channel is of another context of %s",
			      channel->context->device->name);
	return 0;
}

static struct face_cq *face_create(struct ibv_comp_channel *channel)
{
	struct face_cq *face = calloc(1, sizeof(*face));

	if (!face)
		return NULL;
	face->channel = (struct channel *)channel;
	pthread_mutex_init(&face->poll_lock, NULL);
	return face;
}

static void face_destroy(struct face_cq *face)
{
	pthread_mutex_destroy(&face->poll_lock);
	free(face);
}

struct cq *face_create_cq(struct context *context, struct pd *pd, uint32_t cqe, void *cq_context,
			  struct ibv_comp_channel *channel, uint32_t comp_vector)
{
	struct face_cq *face;
	struct cq *cq = NULL;
	int ret = check(context, channel, comp_vector);

	if (ret)
		goto fail;
	face = face_create(channel);
	if (!face) {
		ret = refuse(REASON_NO_MEMORY, "for a CQ");
		goto fail;
	}
	ret = pd ? cq_create_in(pd, cqe, &cq) : cq_create(context->adapter, cqe, &cq);
	if (ret) {
		face_destroy(face);
		goto fail;
	}
	face->cq = cq;
	cq->face = face;
	cq->ibv.context = &context->verbs.context;
	cq->ibv.channel = channel;
	cq->ibv.cq_context = cq_context;
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	if (channel)
		channel_tie(face);
	atomic_fetch_add(&context->objects, 1);
	return cq;

fail:
	errno = ret;
	return NULL;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	/* A negative number is too large, either way. */
	struct cq *cq = face_create_cq(context_of(context), NULL, (uint32_t)cqe, cq_context,
				       channel, (uint32_t)comp_vector);

	return cq ? &cq->ibv : NULL;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	return verb_result(cq_resize(cq_of(cq), (uint32_t)cqe));
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
	UNCANCELLED;
	struct context *context = context_of(ibv->context);
	struct cq *cq = cq_of(ibv);
	struct face_cq *face = face_of_cq(cq);
	int ret = cq_check_idle(cq);

	if (ret)
		return verb_result(ret);
	if (face->channel)
		channel_cut(face);
	async_retire(context, ibv, &face->async, &ibv->mutex, &ibv->cond,
		     &ibv->async_events_completed);
	pthread_cond_destroy(&ibv->cond);
	pthread_mutex_destroy(&ibv->mutex);
	ret = cq_destroy(cq);
	if (ret)
		return verb_result(ret);
	face_destroy(face);
	atomic_fetch_sub(&context->objects, 1);
	return 0;
}

APART static int poll_empty(struct cq *cq, int num_entries, struct ibv_wc *wc)
{
	struct cq_taking taking;
	int count;

	cq_take_begin(&taking, cq, num_entries, wc);
	if (!engine_glance(cq, &taking) && !taking.count) {
		cq_take_share(&taking);
		progress(cq);
	}
	count = cq_take_end(&taking);
	return count || cq_is_empty(cq) ? count : cq_poll(cq, num_entries, wc);
}

/* What was there may be another thread's by the time that it is looked at: then it is as empty. */
static int poll_cq(struct ibv_cq *ibv, int num_entries, struct ibv_wc *wc)
{
	struct cq *cq = cq_of(ibv);

	return cq_is_empty(cq) ? poll_empty(cq, num_entries, wc) : cq_poll(cq, num_entries, wc);
}

static int req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	UNCANCELLED;
	struct cq *cq = cq_of(ibv);

	cq_arm(cq, solicited_only);
	channel_armed(cq);
	return 0;
}

static int modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	UNCANCELLED;

	if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
		return verb_result(
		    refuse(REASON_CQ_MODIFY_MASK, "attr_mask is %#x", attr->attr_mask));
	cq_moderate(cq_of(cq), attr->moderate.cq_count, attr->moderate.cq_period);
	return 0;
}

void context_set_cq_ops(struct verbs_context *verbs)
{
	verbs->context.ops.poll_cq = poll_cq;
	verbs->context.ops.req_notify_cq = req_notify_cq;
	verbs->modify_cq = modify_cq;
}
