/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events: what happens to ports, queues and the device without a work request to
 * blame.
 */
#ifndef INFINIBAND_VERBS_EVENT_H
#define INFINIBAND_VERBS_EVENT_H

#include <infiniband/verbs/context.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ibv_event_type {
	IBV_EVENT_CQ_ERR,
	IBV_EVENT_QP_FATAL,
	IBV_EVENT_QP_REQ_ERR,
	IBV_EVENT_QP_ACCESS_ERR,
	IBV_EVENT_COMM_EST, /* a packet came in RTR: go to RTS */
	IBV_EVENT_SQ_DRAINED,
	IBV_EVENT_PATH_MIG,
	IBV_EVENT_PATH_MIG_ERR,
	IBV_EVENT_DEVICE_FATAL,
	IBV_EVENT_PORT_ACTIVE,
	IBV_EVENT_PORT_ERR,
	IBV_EVENT_LID_CHANGE,
	IBV_EVENT_PKEY_CHANGE,
	IBV_EVENT_SM_CHANGE,
	IBV_EVENT_SRQ_ERR,
	IBV_EVENT_SRQ_LIMIT_REACHED,
	IBV_EVENT_QP_LAST_WQE_REACHED, /* a QP in ERR takes no more from its SRQ */
	IBV_EVENT_CLIENT_REREGISTER,
	IBV_EVENT_GID_CHANGE,
	IBV_EVENT_WQ_FATAL,
	IBV_EVENT_DEVICE_SPEED_CHANGE,
};

struct ibv_async_event {
	union {
		struct ibv_cq *cq;
		struct ibv_qp *qp;
		struct ibv_srq *srq;
		struct ibv_wq *wq;
		int port_num;
	} element; /* which one goes by the type: CQ_, QP_, SRQ_, WQ_, PORT_ ... */
	enum ibv_event_type event_type;
};

/*
 * Waits for the next event (context->async_fd becomes readable). 0, or -1 with errno (EAGAIN on an
 * O_NONBLOCK fd without one). Each is to be acknowledged. Man: ibv_get_async_event(3).
 */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);

/*
 * Acknowledges it. Destroying a CQ, QP, SRQ or WQ waits for this: do not destroy before, in the
 * thread that acknowledges. Man: ibv_get_async_event(3).
 */
void ibv_ack_async_event(struct ibv_async_event *event);

/* A few words on the event; never NULL. Man: ibv_event_type_str(3). */
const char *ibv_event_type_str(enum ibv_event_type event);

#ifdef __cplusplus
}
#endif

#endif
