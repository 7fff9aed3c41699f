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
 * Takes the next asynchronous event of a context, waiting for one unless async_fd is O_NONBLOCK. An
 * object's events come to the context that it was made from, a port's to all. Each has to be
 * acknowledged.
 * Returns 0, or -1 with errno set.
 * Errors: EAGAIN: none, on an O_NONBLOCK descriptor; EINTR: a signal came while it waited.
 * Threads: several threads may wait: each event goes to one of them. A thread that waits may be
 * cancelled.
 * Man: ibv_get_async_event(3).
 */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);

/*
 * Acknowledges an asynchronous event. Destroying its CQ, QP, SRQ or WQ waits for this: so
 * acknowledge before, in a thread that does both. After it the object may be gone.
 * Errors: None.
 * Man: ibv_get_async_event(3).
 */
void ibv_ack_async_event(struct ibv_async_event *event);

/*
 * Gives a few words for an asynchronous event, such as "SRQ limit reached".
 * Returns a string that is never NULL nor to be freed: "unknown" for other values.
 * Errors: None.
 * Man: ibv_event_type_str(3).
 */
const char *ibv_event_type_str(enum ibv_event_type event);

#ifdef __cplusplus
}
#endif

#endif
