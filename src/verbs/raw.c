/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What goes with raw packet QPs: flows and their counters, receive work queues and their tables.
 */
#include <stdlib.h>

#include "device/flow.h"
#include "device/pd.h"
#include "device/wq.h"
#include "verbs/face.h"

/* ---- flows ---- */

static struct ibv_flow *create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	struct flow *flow;
	int ret = flow_create(qp_of(qp), attr, &flow);

	if (ret) {
		errno = ret;
		return NULL;
	}
	flow->ibv.context = qp->context;
	return &flow->ibv;
}

static int destroy_flow(struct ibv_flow *flow)
{
	flow_destroy(flow_of(flow));
	return 0;
}

/* IPsec is no adapter's business that has no keys. */
static struct ibv_flow_action *create_flow_action_esp(struct ibv_context *context,
						      struct ibv_flow_action_esp_attr *attr)
{
	errno = refuse(REASON_FLOW_ESP, "%s", context->device->name);
	return NULL;
}

static int modify_flow_action_esp(struct ibv_flow_action *action,
				  struct ibv_flow_action_esp_attr *attr)
{
	return verb_result(refuse(REASON_FLOW_ESP, "%s", action->context->device->name));
}

static int destroy_flow_action(struct ibv_flow_action *action)
{
	return verb_result(refuse(REASON_FLOW_ESP, "%s", action->context->device->name));
}

/* ---- counters ---- */

static struct ibv_counters *create_counters(struct ibv_context *ibv,
					    struct ibv_counters_init_attr *attr)
{
	struct context *context = context_of(ibv);
	struct counters *counters;
	int ret = counters_create(context->adapter, attr, &counters);

	if (ret) {
		errno = ret;
		return NULL;
	}
	counters->ibv.context = ibv;
	atomic_fetch_add(&context->objects, 1);
	return &counters->ibv;
}

static int destroy_counters(struct ibv_counters *counters)
{
	struct context *context = context_of(counters->context);
	int ret = counters_destroy(counters_of(counters));

	if (!ret)
		atomic_fetch_sub(&context->objects, 1);
	return verb_result(ret);
}

static int attach_counters(struct ibv_counters *counters, struct ibv_counter_attach_attr *attr,
			   struct ibv_flow *flow)
{
	return verb_result(
	    counters_attach(counters_of(counters), attr, flow ? flow_of(flow) : NULL));
}

static int read_counters(struct ibv_counters *counters, uint64_t *values, uint32_t count,
			 uint32_t flags)
{
	return verb_result(counters_read(counters_of(counters), values, count, flags));
}

/* ---- work queues ---- */

static int post_wq_recv(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return verb_result(wq_post(wq_of(wq), wr, bad));
}

static int check_wq(struct ibv_context *context, const struct ibv_wq_init_attr *attr)
{
	if (!attr->pd || attr->pd->context != context || !attr->cq || attr->cq->context != context)
		return refuse(REASON_WQ_CQ, "pd and cq have to be of this context of %s",
			      context->device->name);
	return 0;
}

/* Its mutex and condition are made by the inline function in the header. */
static struct ibv_wq *create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr)
{
	struct face_wq *face = calloc(1, sizeof(*face));
	struct wq *wq;
	int ret;

	if (!face) {
		errno = refuse(REASON_NO_MEMORY, "for a WQ");
		return NULL;
	}
	ret = check_wq(context, attr);
	if (!ret)
		ret = wq_create(pd_of(attr->pd), attr, &wq);
	if (ret) {
		free(face);
		errno = ret;
		return NULL;
	}
	wq->face = face;
	wq->ibv.context = context;
	wq->ibv.post_recv = post_wq_recv;
	engine_tie_cq(wq->cq);
	return &wq->ibv;
}

static int modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr)
{
	UNCANCELLED;

	return verb_result(wq_modify(wq_of(wq), attr, engine_now()));
}

static int destroy_wq(struct ibv_wq *ibv)
{
	UNCANCELLED;
	struct wq *wq = wq_of(ibv);
	struct face_wq *face = wq->face;
	int ret = wq_check_idle(wq);

	if (ret)
		return verb_result(ret);
	async_retire(context_of(ibv->context), ibv, &face->async, &ibv->mutex, &ibv->cond,
		     &ibv->events_completed);
	pthread_cond_destroy(&ibv->cond);
	pthread_mutex_destroy(&ibv->mutex);
	wq_destroy(wq);
	free(face);
	return 0;
}

static struct ibv_rwq_ind_table *create_table(struct ibv_context *ibv,
					      struct ibv_rwq_ind_table_init_attr *attr)
{
	struct context *context = context_of(ibv);
	struct wq_table *table;
	int ret = wq_table_create(context->adapter, attr, &table);

	if (ret) {
		errno = ret;
		return NULL;
	}
	table->ibv.context = ibv;
	atomic_fetch_add(&context->objects, 1);
	return &table->ibv;
}

static int destroy_table(struct ibv_rwq_ind_table *table)
{
	struct context *context = context_of(table->context);
	int ret = wq_table_destroy(wq_table_of(table));

	if (!ret)
		atomic_fetch_sub(&context->objects, 1);
	return verb_result(ret);
}

void context_set_raw_ops(struct verbs_context *verbs)
{
	verbs->ibv_create_flow = create_flow;
	verbs->ibv_destroy_flow = destroy_flow;
	verbs->create_flow_action_esp = create_flow_action_esp;
	verbs->modify_flow_action_esp = modify_flow_action_esp;
	verbs->destroy_flow_action = destroy_flow_action;
	verbs->create_counters = create_counters;
	verbs->destroy_counters = destroy_counters;
	verbs->attach_counters_point_flow = attach_counters;
	verbs->read_counters = read_counters;
	verbs->create_wq = create_wq;
	verbs->modify_wq = modify_wq;
	verbs->destroy_wq = destroy_wq;
	verbs->create_rwq_ind_table = create_table;
	verbs->destroy_rwq_ind_table = destroy_table;
}
