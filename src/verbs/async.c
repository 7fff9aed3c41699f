/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events. An object's events go to the context that it was made from, the port's to
 * every context that is open on the adapter. An event that was taken has to be acknowledged before
 * its object can go; one that nobody took goes with it. A poll may raise some, so they stand in the
 * adapter's pool.
 */
#include <unistd.h>

#include "device/wq.h"
#include "verbs/face.h"

enum { UNTAKEN_MAX = 65536 }; /* of a context: a fourth of the pool, which packets need as well */

struct queued_event {
	struct cds_list_head node;
	struct ibv_async_event event;
};

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static CDS_LIST_HEAD(contexts); /* under contexts_lock */

void async_hold(void)
{
	pthread_mutex_lock(&contexts_lock);
}

void async_release(void)
{
	pthread_mutex_unlock(&contexts_lock);
}

int async_open(struct context *context)
{
	int fd = event_fd_open();

	if (fd < 0)
		return refuse(REASON_NO_EVENT_FD, "%s", strerror(-fd));
	context->verbs.context.async_fd = fd;
	pthread_mutex_init(&context->async_lock, NULL);
	CDS_INIT_LIST_HEAD(&context->async_events);
	pthread_mutex_lock(&contexts_lock);
	cds_list_add_tail(&context->node, &contexts);
	pthread_mutex_unlock(&contexts_lock);
	return 0;
}

void async_close(struct context *context)
{
	struct queued_event *queued, *next;

	pthread_mutex_lock(&contexts_lock);
	cds_list_del(&context->node);
	pthread_mutex_unlock(&contexts_lock);
	cds_list_for_each_entry_safe (queued, next, &context->async_events, node)
		pool_give(&context->adapter->pool, queued);
	pthread_mutex_destroy(&context->async_lock);
	close(context->verbs.context.async_fd);
}

/* ---- whom an event is about ---- */

enum subject_kind { SUBJECT_PORT, SUBJECT_CQ, SUBJECT_QP, SUBJECT_SRQ, SUBJECT_WQ };

struct subject {
	enum subject_kind kind;
	struct ibv_context *context; /* NULL: a port of the adapter */
	const void *element;
	struct async_target *target;
	pthread_mutex_t *mutex;
	pthread_cond_t *cond;
	uint32_t *acknowledged;
};

static struct subject subject_cq(struct ibv_cq *cq)
{
	return (struct subject){SUBJECT_CQ,
				cq->context,
				cq,
				&face_of_cq(cq_of(cq))->async,
				&cq->mutex,
				&cq->cond,
				&cq->async_events_completed};
}

static struct subject subject_qp(struct ibv_qp *qp)
{
	return (struct subject){
	    SUBJECT_QP, qp->context,	      qp, &face_of_qp(qp_of(qp))->async, &qp->mutex,
	    &qp->cond,	&qp->events_completed};
}

static struct subject subject_srq(struct ibv_srq *srq)
{
	struct face_srq *face = srq_of(srq)->face;

	return (struct subject){SUBJECT_SRQ, srq->context,	    srq, &face->async, &srq->mutex,
				&srq->cond,  &srq->events_completed};
}

static struct subject subject_wq(struct ibv_wq *wq)
{
	struct face_wq *face = wq_of(wq)->face;

	return (struct subject){SUBJECT_WQ, wq->context,	  wq, &face->async, &wq->mutex,
				&wq->cond,  &wq->events_completed};
}

static struct subject subject_of(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return subject_cq(event->element.cq);
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return subject_qp(event->element.qp);
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return subject_srq(event->element.srq);
	case IBV_EVENT_WQ_FATAL:
		return subject_wq(event->element.wq);
	default:
		return (struct subject){.kind = SUBJECT_PORT};
	}
}

static bool is_of_port(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_DEVICE_SPEED_CHANGE:
		return true;
	default:
		return false;
	}
}

static bool is_of_object(enum ibv_event_type type)
{
	return !is_of_port(type) && type != IBV_EVENT_DEVICE_FATAL;
}

/* ---- raising ---- */

/* Under async_lock. NULL: no room. */
static struct queued_event *add_queued(struct context *context)
{
	struct queued_event *queued = NULL;

	if (context->async_count < UNTAKEN_MAX)
		queued = pool_take(&context->adapter->pool, sizeof(*queued));
	if (queued) {
		cds_list_add_tail(&queued->node, &context->async_events);
		context->async_count++;
	}
	return queued;
}

static void remove_queued(struct context *context, struct queued_event *queued)
{
	cds_list_del(&queued->node);
	pool_give(&context->adapter->pool, queued);
	if (--context->async_count == 0)
		event_fd_clear(context->verbs.context.async_fd);
}

static void queue_event(struct context *context, const struct ibv_async_event *event,
			const struct async_target *target)
{
	UNCANCELLED;
	struct queued_event *queued = NULL;
	bool is_late;

	pthread_mutex_lock(&context->async_lock);
	is_late = target && target->is_dying;
	if (!is_late)
		queued = add_queued(context);
	if (queued) {
		queued->event = *event;
		event_fd_raise(context->verbs.context.async_fd);
	}
	pthread_mutex_unlock(&context->async_lock);
	if (!queued && !is_late)
		refuse(REASON_NO_MEMORY, "for an asynchronous event: %s is lost",
		       ibv_event_type_str(event->event_type));
}

static void tell_subject(const struct ibv_async_event *event)
{
	struct subject subject = subject_of(event);

	queue_event(context_of(subject.context), event, subject.target);
}

void async_event(struct adapter *adapter, const struct ibv_async_event *event)
{
	struct subject subject = subject_of(event);
	struct context *context;

	if (subject.kind == SUBJECT_QP && event->element.qp->qp_type == IBV_QPT_XRC_RECV) {
		shared_qp_event(event, tell_subject);
		return;
	}
	if (subject.context) {
		tell_subject(event);
		return;
	}
	pthread_mutex_lock(&contexts_lock);
	cds_list_for_each_entry (context, &contexts, node) {
		if (context->adapter == adapter)
			queue_event(context, event, NULL);
	}
	pthread_mutex_unlock(&contexts_lock);
}

int async_raise(struct context *context, const struct ibv_async_event *event)
{
	struct subject subject;

	if ((unsigned int)event->event_type > IBV_EVENT_DEVICE_SPEED_CHANGE)
		return refuse(REASON_EVENT_TYPE, "event_type is %d", event->event_type);
	if (is_of_port(event->event_type) && event->element.port_num != PORT_NUMBER)
		return refuse(REASON_PORT_NUMBER, "element.port_num is %d, %s has port %u",
			      event->element.port_num, context->adapter->name, PORT_NUMBER);
	subject = is_of_object(event->event_type) && event->element.qp
		      ? subject_of(event)
		      : (struct subject){.kind = SUBJECT_PORT};
	if (is_of_object(event->event_type) && subject.context != &context->verbs.context)
		return refuse(REASON_EVENT_ELEMENT, "%s", ibv_event_type_str(event->event_type));
	async_event(context->adapter, event);
	return 0;
}

/* ---- taking ---- */

static bool take(struct context *context, struct ibv_async_event *event)
{
	struct queued_event *queued;
	struct subject subject;

	if (cds_list_empty(&context->async_events))
		return false;
	queued = cds_list_first_entry(&context->async_events, struct queued_event, node);
	*event = queued->event;
	remove_queued(context, queued);
	subject = subject_of(event);
	if (subject.target)
		subject.target->delivered++;
	return true;
}

static bool take_locked(struct context *context, struct ibv_async_event *event)
{
	UNCANCELLED;
	bool is_taken;

	pthread_mutex_lock(&context->async_lock);
	is_taken = take(context, event);
	pthread_mutex_unlock(&context->async_lock);
	return is_taken;
}

int ibv_get_async_event(struct ibv_context *ibv, struct ibv_async_event *event)
{
	struct context *context = context_of(ibv);

	for (;;) {
		if (take_locked(context, event))
			return 0;
		if (event_fd_wait(ibv->async_fd))
			return -1;
	}
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct subject subject = subject_of(event);

	if (!subject.context)
		return;
	pthread_mutex_lock(subject.mutex);
	(*subject.acknowledged)++;
	pthread_cond_signal(subject.cond);
	pthread_mutex_unlock(subject.mutex);
}

/* ---- the end of an object ---- */

static void drop_queued(struct context *context, const void *element)
{
	struct queued_event *queued, *next;

	cds_list_for_each_entry_safe (queued, next, &context->async_events, node)
		if (subject_of(&queued->event).element == element)
			remove_queued(context, queued);
}

void async_retire(struct context *context, const void *element, struct async_target *target,
		  pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *acknowledged)
{
	UNCANCELLED;
	unsigned int delivered;

	pthread_mutex_lock(&context->async_lock);
	target->is_dying = true;
	drop_queued(context, element);
	delivered = target->delivered;
	pthread_mutex_unlock(&context->async_lock);

	pthread_mutex_lock(mutex);
	while (*acknowledged != delivered)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

void async_revive(struct context *context, struct async_target *target)
{
	pthread_mutex_lock(&context->async_lock);
	target->is_dying = false;
	pthread_mutex_unlock(&context->async_lock);
}
