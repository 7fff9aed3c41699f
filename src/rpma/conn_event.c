/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What happens to connections, and what can be asked of them.
 */
#include <string.h>

#include "rpma/face.h"

static enum rpma_conn_event event_of(enum rdma_cm_event_type type)
{
	switch (type) {
	case RDMA_CM_EVENT_ESTABLISHED:
		return RPMA_CONN_ESTABLISHED;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return RPMA_CONN_LOST;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return RPMA_CONN_CLOSED;
	case RDMA_CM_EVENT_REJECTED:
		return RPMA_CONN_REJECTED;
	case RDMA_CM_EVENT_UNREACHABLE:
		return RPMA_CONN_UNREACHABLE;
	default:
		return RPMA_CONN_UNDEFINED;
	}
}

/* A client learns with this what the server said, and how it flushes. */
static int established(struct rpma_conn *conn, const struct rdma_cm_event *event)
{
	int code = 0;

	if (conn->is_passive)
		return 0;
	atomic_store(&conn->peer_has_flush, conn_req_says_flush(event));
	pthread_mutex_lock(&conn->data_lock);
	if (!conn->data.ptr)
		code = private_data_take(event, &conn->data);
	pthread_mutex_unlock(&conn->data_lock);
	return code;
}

int rpma_conn_next_event(struct rpma_conn *conn, enum rpma_conn_event *event)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_event *told;
	int code = 0;

	if (!conn || !event)
		return REFUSE_NULL();
	if (FAULT_MINUS(rdma_get_cm_event(conn->events, &told)))
		return errno == EAGAIN || errno == ENODATA
			   ? RPMA_E_NO_EVENT
			   : REFUSE(RPMA_PROVIDER, "rdma_get_cm_event()");
	type = told->event;
	if (type == RDMA_CM_EVENT_ESTABLISHED)
		code = established(conn, told);
	if (FAULT_END(rdma_ack_cm_event(told)))
		code = code ?: REFUSE(RPMA_PROVIDER, "rdma_ack_cm_event()");
	if (code)
		return code;
	if (event_of(type) == RPMA_CONN_UNDEFINED)
		return REFUSE(RPMA_EVENT, "%s", rdma_event_str(type));
	*event = event_of(type);
	LOG(NOTICE, rpma_utils_conn_event_2str(*event));
	return 0;
}

int rpma_conn_disconnect(struct rpma_conn *conn)
{
	if (!conn)
		return REFUSE_NULL();
	if (FAULT_MINUS(rdma_disconnect(conn->queues.id)))
		return REFUSE(RPMA_PROVIDER, "rdma_disconnect()");
	LOG(NOTICE, "disconnecting");
	return 0;
}

int rpma_conn_wait(struct rpma_conn *conn, int flags, struct rpma_cq **cq, bool *is_rcq)
{
	struct ibv_cq *woken;
	void *context;
	bool is_receive;
	int code;

	if (!conn || !cq)
		return REFUSE_NULL();
	if (!conn->queues.channel)
		return REFUSE(RPMA_OWN_CHANNEL, "rpma_conn_wait()");
	if (FAULT_MINUS(ibv_get_cq_event(conn->queues.channel, &woken, &context)))
		return RPMA_E_NO_COMPLETION;
	ibv_ack_cq_events(woken, 1);
	code = cq_arm(woken);
	if (code)
		return code;
	is_receive = conn->queues.rcq && conn->queues.rcq->cq == woken;
	*cq = is_receive ? conn->queues.rcq : conn->queues.cq;
	if (is_rcq)
		*is_rcq = is_receive;
	return 0;
}

int rpma_conn_get_compl_fd(const struct rpma_conn *conn, int *fd)
{
	if (!conn || !fd)
		return REFUSE_NULL();
	if (!conn->queues.channel)
		return REFUSE(RPMA_OWN_CHANNEL, "rpma_conn_get_compl_fd()");
	*fd = conn->queues.channel->fd;
	return 0;
}

int rpma_conn_get_event_fd(const struct rpma_conn *conn, int *fd)
{
	if (!conn || !fd)
		return REFUSE_NULL();
	*fd = conn->events->fd;
	return 0;
}

int rpma_conn_get_private_data(const struct rpma_conn *conn, struct rpma_conn_private_data *pdata)
{
	pthread_mutex_t *lock;

	if (!conn || !pdata)
		return REFUSE_NULL();
	lock = (pthread_mutex_t *)&conn->data_lock;
	pthread_mutex_lock(lock);
	*pdata = conn->data;
	pthread_mutex_unlock(lock);
	return 0;
}

int rpma_conn_apply_remote_peer_cfg(struct rpma_conn *conn, const struct rpma_peer_cfg *pcfg)
{
	if (!conn || !pcfg)
		return REFUSE_NULL();
	atomic_store(&conn->peer_direct_write_to_pmem, atomic_load(&pcfg->direct_write_to_pmem));
	return 0;
}

int rpma_conn_get_qp_num(const struct rpma_conn *conn, uint32_t *qp_num)
{
	if (!conn || !qp_num)
		return REFUSE_NULL();
	*qp_num = conn->queues.id->qp->qp_num;
	return 0;
}

int rpma_conn_get_cq(const struct rpma_conn *conn, struct rpma_cq **cq_ptr)
{
	if (!conn || !cq_ptr)
		return REFUSE_NULL();
	*cq_ptr = conn->queues.cq;
	return 0;
}

int rpma_conn_get_rcq(const struct rpma_conn *conn, struct rpma_cq **rcq_ptr)
{
	if (!conn || !rcq_ptr)
		return REFUSE_NULL();
	*rcq_ptr = conn->queues.rcq;
	return 0;
}
