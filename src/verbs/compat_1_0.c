// SPDX-License-Identifier: BSD-2-Clause
/*
 * The versions @IBVERBS_1.0 of the verbs, and one name of 1.1 that is gone: thin wrappers that go
 * from the old structs to the real objects and back. An object points to its wrapper through its
 * own context pointer (cq_context, ...), so what comes out of events and queries finds the way.
 *
 * ibv_create_comp_channel has one version only, so it takes today's context: a program of 1.0
 * cannot have channels. (rdma-core has the same gap.)
 */
#include <stdlib.h>
#include "verbs/compat_1_0.h"

#undef ibv_reg_mr

/* Declares and defines NAME@IBVERBS_1.0. */
#define COMPAT_1_0(type, name, ...)                                                                \
	__asm__(".symver " #name "_1_0, " #name "@IBVERBS_1.0");                                   \
	type name##_1_0(__VA_ARGS__);                                                              \
	type name##_1_0(__VA_ARGS__)

/* ---- devices and contexts ---- */

static void device_get(struct device_1_0 *device)
{
	__atomic_fetch_add(&device->refs, 1, __ATOMIC_RELAXED);
}

static void device_put(struct device_1_0 *device)
{
	if (!__atomic_sub_fetch(&device->refs, 1, __ATOMIC_ACQ_REL))
		free(device);
}

/* list[-1] keeps the real list. */
COMPAT_1_0(struct device_1_0 **, ibv_get_device_list, int *num_devices)
{
	struct device_1_0 **list = NULL;
	struct ibv_device **real;
	int n;

	real = ibv_get_device_list(&n);
	if (!real)
		return NULL;
	list = calloc((size_t)n + 2, sizeof(*list));
	if (!list)
		goto free_real;
	list[0] = (struct device_1_0 *)real;
	for (int i = 0; i < n; i++) {
		list[i + 1] = calloc(1, sizeof(*list[i + 1]));
		if (!list[i + 1])
			goto free_list;
		list[i + 1]->real = real[i];
		list[i + 1]->refs = 1;
	}
	if (num_devices)
		*num_devices = n;
	return list + 1;

free_list:
	for (int i = 0; i < n; i++)
		free(list[i + 1]);
	free(list);
free_real:
	ibv_free_device_list(real);
	errno = ENOMEM;
	return NULL;
}

COMPAT_1_0(void, ibv_free_device_list, struct device_1_0 **list)
{
	for (struct device_1_0 **device = list; *device; device++)
		device_put(*device);
	ibv_free_device_list((struct ibv_device **)list[-1]);
	free(list - 1);
}

COMPAT_1_0(const char *, ibv_get_device_name, struct device_1_0 *device)
{
	return ibv_get_device_name(device->real);
}

COMPAT_1_0(__be64, ibv_get_device_guid, struct device_1_0 *device)
{
	return ibv_get_device_guid(device->real);
}

static int poll_cq_1_0(struct cq_1_0 *cq, int num_entries, struct ibv_wc *wc)
{
	return ibv_poll_cq(cq->real, num_entries, wc);
}

static int req_notify_cq_1_0(struct cq_1_0 *cq, int solicited_only)
{
	return ibv_req_notify_cq(cq->real, solicited_only);
}

static struct ibv_recv_wr recv_wr_of(const struct recv_wr_1_0 *wr)
{
	return (struct ibv_recv_wr){
	    .wr_id = wr->wr_id, .sg_list = wr->sg_list, .num_sge = wr->num_sge};
}

/* One at a time: in order, and up to the first that is refused, as a list would be. */
static int post_srq_recv_1_0(struct srq_1_0 *srq, struct recv_wr_1_0 *wr,
			     struct recv_wr_1_0 **bad_wr)
{
	for (; wr; wr = wr->next) {
		struct ibv_recv_wr real = recv_wr_of(wr), *bad;
		int ret = ibv_post_srq_recv(srq->real, &real, &bad);

		if (ret) {
			*bad_wr = wr;
			return ret;
		}
	}
	return 0;
}

static int post_recv_1_0(struct qp_1_0 *qp, struct recv_wr_1_0 *wr, struct recv_wr_1_0 **bad_wr)
{
	for (; wr; wr = wr->next) {
		struct ibv_recv_wr real = recv_wr_of(wr), *bad;
		int ret = ibv_post_recv(qp->real, &real, &bad);

		if (ret) {
			*bad_wr = wr;
			return ret;
		}
	}
	return 0;
}

static struct ibv_send_wr send_wr_of(const struct qp_1_0 *qp, const struct send_wr_1_0 *wr)
{
	struct ibv_send_wr real = {
	    .wr_id = wr->wr_id,
	    .sg_list = wr->sg_list,
	    .num_sge = wr->num_sge,
	    .opcode = wr->opcode,
	    .send_flags = (unsigned int)wr->send_flags,
	    .imm_data = wr->imm_data,
	};

	_Static_assert(sizeof(real.wr) == sizeof(wr->wr), "the union has kept its shape");
	memcpy(&real.wr, &wr->wr, sizeof(real.wr));
	if (qp->qp_type == IBV_QPT_UD)
		real.wr.ud.ah = wr->wr.ud.ah->real;
	return real;
}

static int post_send_1_0(struct qp_1_0 *qp, struct send_wr_1_0 *wr, struct send_wr_1_0 **bad_wr)
{
	for (; wr; wr = wr->next) {
		struct ibv_send_wr real = send_wr_of(qp, wr), *bad;
		int ret = ibv_post_send(qp->real, &real, &bad);

		if (ret) {
			*bad_wr = wr;
			return ret;
		}
	}
	return 0;
}

COMPAT_1_0(struct context_1_0 *, ibv_open_device, struct device_1_0 *device)
{
	struct context_1_0 *context = calloc(1, sizeof(*context));

	if (!context)
		return NULL;
	context->real = ibv_open_device(device->real);
	if (!context->real) {
		free(context);
		return NULL;
	}
	device_get(device);
	context->device = device;
	context->cmd_fd = context->real->cmd_fd;
	context->async_fd = context->real->async_fd;
	context->num_comp_vectors = context->real->num_comp_vectors;
	context->ops.poll_cq = poll_cq_1_0;
	context->ops.req_notify_cq = req_notify_cq_1_0;
	context->ops.post_srq_recv = post_srq_recv_1_0;
	context->ops.post_send = post_send_1_0;
	context->ops.post_recv = post_recv_1_0;
	return context;
}

COMPAT_1_0(int, ibv_close_device, struct context_1_0 *context)
{
	int ret = ibv_close_device(context->real);

	if (ret)
		return ret;
	device_put(context->device);
	free(context);
	return 0;
}

COMPAT_1_0(int, ibv_query_device, struct context_1_0 *context, struct ibv_device_attr *attr)
{
	return ibv_query_device(context->real, attr);
}

/* The struct ended before port_cap_flags2 then, so this is the function, not the macro. */
COMPAT_1_0(int, ibv_query_port, struct context_1_0 *context, uint8_t port_num,
	   struct _compat_ibv_port_attr *attr)
{
	return (ibv_query_port)(context->real, port_num, attr);
}

COMPAT_1_0(int, ibv_query_gid, struct context_1_0 *context, uint8_t port_num, int index,
	   union ibv_gid *gid)
{
	return ibv_query_gid(context->real, port_num, index, gid);
}

COMPAT_1_0(int, ibv_query_pkey, struct context_1_0 *context, uint8_t port_num, int index,
	   __be16 *pkey)
{
	return ibv_query_pkey(context->real, port_num, index, pkey);
}

/* ---- asynchronous events ---- */

enum element { ELEMENT_PORT, ELEMENT_CQ, ELEMENT_QP, ELEMENT_SRQ };

/* What of the element's union an event has. */
static enum element element_of(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		return ELEMENT_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return ELEMENT_QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return ELEMENT_SRQ;
	default:
		return ELEMENT_PORT;
	}
}

COMPAT_1_0(int, ibv_get_async_event, struct context_1_0 *context, struct ibv_async_event *event)
{
	int ret = ibv_get_async_event(context->real, event);

	if (ret)
		return ret;
	switch (element_of(event->event_type)) {
	case ELEMENT_CQ:
		event->element.cq = event->element.cq->cq_context;
		break;
	case ELEMENT_QP:
		event->element.qp = event->element.qp->qp_context;
		break;
	case ELEMENT_SRQ:
		event->element.srq = event->element.srq->srq_context;
		break;
	case ELEMENT_PORT:
		break;
	}
	return 0;
}

COMPAT_1_0(void, ibv_ack_async_event, struct ibv_async_event *event)
{
	struct ibv_async_event real = *event;

	switch (element_of(event->event_type)) {
	case ELEMENT_CQ:
		real.element.cq = ((struct cq_1_0 *)event->element.cq)->real;
		break;
	case ELEMENT_QP:
		real.element.qp = ((struct qp_1_0 *)event->element.qp)->real;
		break;
	case ELEMENT_SRQ:
		real.element.srq = ((struct srq_1_0 *)event->element.srq)->real;
		break;
	case ELEMENT_PORT:
		break;
	}
	ibv_ack_async_event(&real);
}

/* ---- protection domains, memory regions, address handles ---- */

COMPAT_1_0(struct pd_1_0 *, ibv_alloc_pd, struct context_1_0 *context)
{
	struct pd_1_0 *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->real = ibv_alloc_pd(context->real);
	if (!pd->real) {
		free(pd);
		return NULL;
	}
	pd->context = context;
	pd->handle = pd->real->handle;
	return pd;
}

COMPAT_1_0(int, ibv_dealloc_pd, struct pd_1_0 *pd)
{
	int ret = ibv_dealloc_pd(pd->real);

	if (!ret)
		free(pd);
	return ret;
}

COMPAT_1_0(struct mr_1_0 *, ibv_reg_mr, struct pd_1_0 *pd, void *addr, size_t length, int access)
{
	struct mr_1_0 *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->real = ibv_reg_mr(pd->real, addr, length, access);
	if (!mr->real) {
		free(mr);
		return NULL;
	}
	mr->context = pd->context;
	mr->pd = pd;
	mr->handle = mr->real->handle;
	mr->lkey = mr->real->lkey;
	mr->rkey = mr->real->rkey;
	return mr;
}

COMPAT_1_0(int, ibv_dereg_mr, struct mr_1_0 *mr)
{
	int ret = ibv_dereg_mr(mr->real);

	if (!ret)
		free(mr);
	return ret;
}

COMPAT_1_0(struct ah_1_0 *, ibv_create_ah, struct pd_1_0 *pd, struct ibv_ah_attr *attr)
{
	struct ah_1_0 *ah = calloc(1, sizeof(*ah));

	if (!ah)
		return NULL;
	ah->real = ibv_create_ah(pd->real, attr);
	if (!ah->real) {
		free(ah);
		return NULL;
	}
	ah->context = pd->context;
	ah->pd = pd;
	ah->handle = ah->real->handle;
	return ah;
}

COMPAT_1_0(int, ibv_destroy_ah, struct ah_1_0 *ah)
{
	int ret = ibv_destroy_ah(ah->real);

	if (!ret)
		free(ah);
	return ret;
}

/* ---- completion queues ---- */

COMPAT_1_0(struct cq_1_0 *, ibv_create_cq, struct context_1_0 *context, int cqe, void *cq_context,
	   struct ibv_comp_channel *channel, int comp_vector)
{
	struct cq_1_0 *cq = calloc(1, sizeof(*cq));

	if (!cq)
		return NULL;
	cq->real = ibv_create_cq(context->real, cqe, cq, channel, comp_vector);
	if (!cq->real) {
		free(cq);
		return NULL;
	}
	cq->context = context;
	cq->cq_context = cq_context;
	cq->handle = cq->real->handle;
	cq->cqe = cq->real->cqe;
	return cq;
}

COMPAT_1_0(int, ibv_resize_cq, struct cq_1_0 *cq, int cqe)
{
	int ret = ibv_resize_cq(cq->real, cqe);

	cq->cqe = cq->real->cqe;
	return ret;
}

COMPAT_1_0(int, ibv_destroy_cq, struct cq_1_0 *cq)
{
	int ret = ibv_destroy_cq(cq->real);

	if (!ret)
		free(cq);
	return ret;
}

COMPAT_1_0(int, ibv_get_cq_event, struct ibv_comp_channel *channel, struct cq_1_0 **cq,
	   void **cq_context)
{
	struct ibv_cq *real;
	void *wrapper;
	int ret = ibv_get_cq_event(channel, &real, &wrapper);

	if (ret)
		return ret;
	*cq = wrapper;
	*cq_context = (*cq)->cq_context;
	return 0;
}

COMPAT_1_0(void, ibv_ack_cq_events, struct cq_1_0 *cq, unsigned int nevents)
{
	ibv_ack_cq_events(cq->real, nevents);
}

/* ---- shared receive queues ---- */

COMPAT_1_0(struct srq_1_0 *, ibv_create_srq, struct pd_1_0 *pd, struct ibv_srq_init_attr *attr)
{
	struct srq_1_0 *srq = calloc(1, sizeof(*srq));
	struct ibv_srq_init_attr real_attr = *attr;

	if (!srq)
		return NULL;
	real_attr.srq_context = srq;
	srq->real = ibv_create_srq(pd->real, &real_attr);
	if (!srq->real) {
		free(srq);
		return NULL;
	}
	attr->attr = real_attr.attr;
	srq->context = pd->context;
	srq->srq_context = attr->srq_context;
	srq->pd = pd;
	srq->handle = srq->real->handle;
	return srq;
}

COMPAT_1_0(int, ibv_modify_srq, struct srq_1_0 *srq, struct ibv_srq_attr *attr, int attr_mask)
{
	return ibv_modify_srq(srq->real, attr, attr_mask);
}

COMPAT_1_0(int, ibv_query_srq, struct srq_1_0 *srq, struct ibv_srq_attr *attr)
{
	return ibv_query_srq(srq->real, attr);
}

COMPAT_1_0(int, ibv_destroy_srq, struct srq_1_0 *srq)
{
	int ret = ibv_destroy_srq(srq->real);

	if (!ret)
		free(srq);
	return ret;
}

/* ---- queue pairs ---- */

COMPAT_1_0(struct qp_1_0 *, ibv_create_qp, struct pd_1_0 *pd, struct qp_init_attr_1_0 *attr)
{
	struct qp_1_0 *qp = calloc(1, sizeof(*qp));
	struct ibv_qp_init_attr real_attr = {
	    .qp_context = qp,
	    .send_cq = attr->send_cq ? attr->send_cq->real : NULL,
	    .recv_cq = attr->recv_cq ? attr->recv_cq->real : NULL,
	    .srq = attr->srq ? attr->srq->real : NULL,
	    .cap = attr->cap,
	    .qp_type = attr->qp_type,
	    .sq_sig_all = attr->sq_sig_all,
	};

	if (!qp)
		return NULL;
	qp->real = ibv_create_qp(pd->real, &real_attr);
	if (!qp->real) {
		free(qp);
		return NULL;
	}
	attr->cap = real_attr.cap;
	qp->context = pd->context;
	qp->qp_context = attr->qp_context;
	qp->pd = pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->srq = attr->srq;
	qp->handle = qp->real->handle;
	qp->qp_num = qp->real->qp_num;
	qp->state = qp->real->state;
	qp->qp_type = attr->qp_type;
	return qp;
}

COMPAT_1_0(int, ibv_query_qp, struct qp_1_0 *qp, struct ibv_qp_attr *attr, int attr_mask,
	   struct qp_init_attr_1_0 *init_attr)
{
	struct ibv_qp_init_attr real_attr;
	int ret = ibv_query_qp(qp->real, attr, attr_mask, &real_attr);

	if (ret)
		return ret;
	*init_attr = (struct qp_init_attr_1_0){
	    .qp_context = qp->qp_context,
	    .send_cq = qp->send_cq,
	    .recv_cq = qp->recv_cq,
	    .srq = qp->srq,
	    .cap = real_attr.cap,
	    .qp_type = real_attr.qp_type,
	    .sq_sig_all = real_attr.sq_sig_all,
	};
	qp->state = qp->real->state;
	return 0;
}

COMPAT_1_0(int, ibv_modify_qp, struct qp_1_0 *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	int ret = ibv_modify_qp(qp->real, attr, attr_mask);

	qp->state = qp->real->state;
	return ret;
}

COMPAT_1_0(int, ibv_destroy_qp, struct qp_1_0 *qp)
{
	int ret = ibv_destroy_qp(qp->real);

	if (!ret)
		free(qp);
	return ret;
}

COMPAT_1_0(int, ibv_attach_mcast, struct qp_1_0 *qp, union ibv_gid *gid, uint16_t lid)
{
	return ibv_attach_mcast(qp->real, gid, lid);
}

COMPAT_1_0(int, ibv_detach_mcast, struct qp_1_0 *qp, union ibv_gid *gid, uint16_t lid)
{
	return ibv_detach_mcast(qp->real, gid, lid);
}

/* ---- gone in 1.1 ---- */

/* Old usNIC plugins of libfabric register a driver to keep an old library quiet. */
void ibv_register_driver_1_1(const char *name, void *init);
__asm__(".symver ibv_register_driver_1_1, ibv_register_driver@IBVERBS_1.1");
void ibv_register_driver_1_1(const char *name, void *init)
{
}
