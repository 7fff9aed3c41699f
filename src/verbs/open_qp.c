/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC_RECV QPs belong to their XRC domain, not to who created them: others open them by number, and
 * each has a handle of its own, gets its events and may modify it. The QP ends with the last
 * handle; when that is not its creator's, the creator's struct stays as its body. So it is when
 * the others are other processes: there the handle's QP is one that stands for it (engine).
 *
 * Lock order: open_lock, then a context's async_lock. The engine is not called with it held, but
 * calls shared_qp_event() with a lane's lock.
 */
#include <stdlib.h>

#include "device/xrcd.h"
#include "verbs/face.h"

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static CDS_LIST_HEAD(handles); /* of all XRC_RECV QPs, creators' too; under open_lock */

void shared_qp_hold(void)
{
	pthread_mutex_lock(&open_lock);
}

void shared_qp_release(void)
{
	pthread_mutex_unlock(&open_lock);
}

void shared_qp_add(struct qp *qp)
{
	struct face_qp *face = face_of_qp(qp);

	face->self = qp;
	pthread_mutex_lock(&open_lock);
	cds_list_add_tail(&face->node, &handles);
	pthread_mutex_unlock(&open_lock);
}

void shared_qp_event(const struct ibv_async_event *event,
		     void (*tell)(const struct ibv_async_event *event))
{
	struct ibv_async_event own = *event;
	struct face_qp *face;

	pthread_mutex_lock(&open_lock);
	cds_list_for_each_entry (face, &handles, node) {
		if (real_qp(&face->self->ibv) != qp_of(event->element.qp))
			continue;
		own.element.qp = &face->self->ibv;
		tell(&own);
	}
	pthread_mutex_unlock(&open_lock);
}

/* With the lock held. */
static struct qp *find(const struct xrcd *xrcd, uint32_t number)
{
	struct face_qp *face;

	cds_list_for_each_entry (face, &handles, node) {
		struct qp *real = real_qp(&face->self->ibv);

		if (real->adapter == xrcd->adapter && real->number == number &&
		    real->domain == xrcd->domain)
			return real;
	}
	return NULL;
}

static int check(struct ibv_context *context, const struct ibv_qp_open_attr *attr)
{
	const uint32_t needed =
	    IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;

	if ((attr->comp_mask & needed) != needed || attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED ||
	    !attr->xrcd)
		return refuse(REASON_QP_OPEN_MASK, "comp_mask is %#x", attr->comp_mask);
	if (attr->qp_type != IBV_QPT_XRC_RECV)
		return refuse(REASON_QP_OPEN_TYPE, "qp_type is %d", attr->qp_type);
	if (attr->xrcd->context != context)
		return refuse(REASON_QP_OTHER_DEVICE, "the XRCD is of another context of %s",
			      attr->xrcd->context->device->name);
	return 0;
}

static void fill(struct qp *handle, struct ibv_context *context,
		 const struct ibv_qp_open_attr *attr, struct qp *real)
{
	face_of_qp(handle)->real = real;
	face_of_qp(handle)->self = handle;
	handle->type = IBV_QPT_XRC_RECV;
	handle->number = real->number;
	handle->adapter = real->adapter;
	handle->xrcd = xrcd_of(attr->xrcd);
	handle->ibv.context = context;
	handle->ibv.qp_context =
	    attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL;
	handle->ibv.handle = real->number;
	handle->ibv.qp_num = real->number;
	handle->ibv.state = atomic_load(&real->state);
	handle->ibv.qp_type = IBV_QPT_XRC_RECV;
	qp_init_sync(&handle->ibv);
}

/* A QP that another process created: what stands for it here ends with its handles. */
static int open_remote(const struct ibv_qp_open_attr *attr, struct qp **real)
{
	const struct xrcd *xrcd = xrcd_of(attr->xrcd);
	struct face_qp *face = calloc(1, sizeof(*face));
	int ret;

	if (!face)
		return refuse(REASON_NO_MEMORY, "for a QP");
	ret = engine_open_qp(xrcd->adapter, xrcd->domain, attr->qp_num, real);
	if (ret) {
		free(face);
		return ret;
	}
	face->self = *real;
	face->is_gone = true;
	(*real)->face = face;
	return 0;
}

/* With the lock held. */
static void add_handle(struct ibv_context *context, const struct ibv_qp_open_attr *attr,
		       struct qp *handle, struct qp *real)
{
	fill(handle, context, attr, real);
	atomic_fetch_add(&handle->xrcd->users, 1);
	face_of_qp(real)->openers++;
	cds_list_add_tail(&face_of_qp(handle)->node, &handles);
}

static int open_handle(struct ibv_context *context, const struct ibv_qp_open_attr *attr,
		       struct qp *handle)
{
	struct qp *real;
	int ret;

	pthread_mutex_lock(&open_lock);
	real = find(xrcd_of(attr->xrcd), attr->qp_num);
	if (real)
		add_handle(context, attr, handle, real);
	pthread_mutex_unlock(&open_lock);
	if (real)
		return 0;
	ret = open_remote(attr, &real);
	if (ret)
		return ret;
	pthread_mutex_lock(&open_lock);
	add_handle(context, attr, handle, real);
	pthread_mutex_unlock(&open_lock);
	engine_follow_qp(real);
	return 0;
}

static struct ibv_qp *open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	UNCANCELLED;
	struct qp *handle = calloc(1, sizeof(*handle));
	struct face_qp *face = calloc(1, sizeof(*face));
	int ret;

	if (!handle || !face) {
		ret = refuse(REASON_NO_MEMORY, "for a QP");
	} else {
		handle->face = face;
		ret = check(context, attr);
		if (!ret)
			ret = open_handle(context, attr, handle);
		if (!ret)
			return &handle->ibv;
	}
	free(face);
	free(handle);
	errno = ret;
	return NULL;
}

static void unlist(struct face_qp *face)
{
	pthread_mutex_lock(&open_lock);
	cds_list_del(&face->node);
	pthread_mutex_unlock(&open_lock);
}

/* What is to be destroyed with the handle, or NULL: then it may go any moment, by who has it open.
 */
static struct qp *leave(struct qp *handle)
{
	struct face_qp *face = face_of_qp(handle);
	struct qp *real = real_qp(&handle->ibv);
	bool is_last;

	pthread_mutex_lock(&open_lock);
	if (face->real)
		face_of_qp(real)->openers--;
	else
		face->is_gone = true;
	is_last = face_of_qp(real)->is_gone && !face_of_qp(real)->openers;
	pthread_mutex_unlock(&open_lock);
	return is_last ? real : NULL;
}

int shared_qp_destroy(struct qp *handle)
{
	struct face_qp *face = face_of_qp(handle), *last_face;
	struct ibv_qp *ibv = &handle->ibv;
	bool is_opened = face->real;
	struct qp *last;
	int ret = 0;

	unlist(face);
	async_retire(context_of(ibv->context), ibv, &face->async, &ibv->mutex, &ibv->cond,
		     &ibv->events_completed);
	qp_destroy_sync(ibv);
	qp_leave_xrcd(handle);
	last = leave(handle);
	last_face = last ? face_of_qp(last) : NULL;
	if (last)
		ret = engine_destroy_qp(last);
	if (!ret)
		free(last_face);
	if (is_opened) {
		free(face);
		free(handle);
	}
	return ret;
}

bool shared_qp_visit(struct qp *qp)
{
	struct face_qp *face = face_of_qp(qp);
	bool is_there;

	pthread_mutex_lock(&open_lock);
	is_there = face && !(face->is_gone && !face->openers);
	if (is_there)
		face->openers++;
	pthread_mutex_unlock(&open_lock);
	return is_there;
}

void shared_qp_leave(struct qp *qp)
{
	struct face_qp *face = face_of_qp(qp);
	bool is_last;

	pthread_mutex_lock(&open_lock);
	is_last = --face->openers == 0 && face->is_gone;
	pthread_mutex_unlock(&open_lock);
	if (is_last && engine_destroy_qp(qp) == 0)
		free(face);
}

void context_set_open_qp_ops(struct verbs_context *verbs)
{
	verbs->open_qp = open_qp;
}
