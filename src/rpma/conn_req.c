/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests: connections before they are connected, of both sides.
 *
 * Whether both sides flush by the FLUSH operation nobody can tell from descriptors, and one that
 * the other side does not expect breaks the connection. So this library says that it does by the
 * flow control bit of the CM's messages, which it leaves clear and the original, like nearly
 * everybody, sets; librdmacm hands it on and no adapter looks at it. VERBATIM_RPMA_FLUSH=native
 * says that all others do too, VERBATIM_RPMA_FLUSH=read that none does.
 */
#include <string.h>

#include "rpma/face.h"

bool conn_req_says_flush(const struct rdma_cm_event *event)
{
	const char *setting = getenv("VERBATIM_RPMA_FLUSH");

	if (setting && !strcmp(setting, "native"))
		return true;
	return event->param.conn.flow_control == 0 && !(setting && !strcmp(setting, "read"));
}

static int req_new(struct rpma_peer *peer, struct rdma_cm_id *id, const struct rpma_conn_cfg *cfg,
		   struct rpma_conn_req **req_ptr)
{
	struct rpma_conn_req *req = FAULT_NULL(calloc(1, sizeof(*req)));
	int code;

	if (!req)
		return REFUSE(RPMA_MEMORY, "a connection request");
	req->peer = peer;
	code = queues_new(peer, id, cfg ? cfg : conn_cfg_default(), &req->queues);
	if (code)
		free(req);
	else
		*req_ptr = req;
	return code;
}

int rpma_conn_req_new(struct rpma_peer *peer, const char *addr, const char *port,
		      const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req_ptr)
{
	struct rdma_cm_id *id;
	int timeout_ms, code;

	if (!peer || !addr || !port || !req_ptr)
		return REFUSE_NULL();
	timeout_ms = atomic_load(cfg ? &cfg->timeout_ms : &conn_cfg_default()->timeout_ms);
	if (FAULT_MINUS(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP)))
		return REFUSE(RPMA_PROVIDER, "rdma_create_id()");
	code = address_resolve(id, addr, port, timeout_ms);
	if (!code && FAULT_MINUS(rdma_resolve_route(id, timeout_ms)))
		code = REFUSE(RPMA_PROVIDER, "rdma_resolve_route(%s, %d ms)", addr, timeout_ms);
	if (!code)
		code = req_new(peer, id, cfg, req_ptr);
	if (code)
		rdma_destroy_id(id);
	return code;
}

/* Nobody will want this one: the other side is told, and it is forgotten. */
static void turn_away(struct rdma_cm_id *id)
{
	rdma_reject(id, NULL, 0);
	rdma_destroy_id(id);
}

int rpma_ep_next_conn_req(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg,
			  struct rpma_conn_req **req_ptr)
{
	struct rpma_conn_req *req = NULL;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	int code;

	if (!ep || !req_ptr)
		return REFUSE_NULL();
	if (FAULT_MINUS(rdma_get_cm_event(ep->events, &event)))
		return errno == EAGAIN || errno == ENODATA
			   ? RPMA_E_NO_EVENT
			   : REFUSE(RPMA_PROVIDER, "rdma_get_cm_event()");
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		code = REFUSE(RPMA_NO_REQUEST, "%s", rdma_event_str(event->event));
		rdma_ack_cm_event(event);
		return code;
	}
	id = event->id;
	code = req_new(ep->peer, id, cfg, &req);
	if (!code) {
		req->is_passive = true;
		req->peer_has_flush = conn_req_says_flush(event);
		code = private_data_take(event, &req->data);
	}
	if (FAULT_END(rdma_ack_cm_event(event)))
		code = code ?: REFUSE(RPMA_PROVIDER, "rdma_ack_cm_event()");
	if (!code)
		*req_ptr = req;
	else if (req)
		rpma_conn_req_delete(&req);
	else
		turn_away(id);
	return code;
}

int rpma_conn_req_delete(struct rpma_conn_req **req_ptr)
{
	struct rpma_conn_req *req;
	int code = 0;

	if (!req_ptr)
		return REFUSE_NULL();
	req = __atomic_exchange_n(req_ptr, NULL, __ATOMIC_ACQ_REL);
	if (!req)
		return 0;
	if (req->is_passive && FAULT_END(rdma_reject(req->queues.id, NULL, 0)))
		code = REFUSE(RPMA_PROVIDER, "rdma_reject()");
	code = queues_delete(&req->queues) ?: code;
	free(req->data.ptr);
	free(req);
	return code;
}

/* The connection takes what the request has: it is there before the first event can be. */
static int become(struct rpma_conn_req *req, const struct rpma_conn_private_data *pdata,
		  struct rpma_conn **conn_ptr)
{
	struct rdma_conn_param param = {
	    .private_data = pdata ? pdata->ptr : NULL,
	    .private_data_len = pdata ? pdata->len : 0,
	    .responder_resources = RDMA_MAX_RESP_RES,
	    .initiator_depth = RDMA_MAX_INIT_DEPTH,
	    .flow_control = !req->queues.has_flush,
	    .retry_count = 7,
	    .rnr_retry_count = 7, /* for ever */
	};
	struct rdma_cm_id *id = req->queues.id;
	bool is_passive = req->is_passive;
	struct rpma_conn *conn;
	int error, code = conn_new(req, &conn);

	if (code) {
		rpma_conn_req_delete(&req);
		return code;
	}
	free(req);
	error = FAULT_MINUS(is_passive ? rdma_accept(id, &param) : rdma_connect(id, &param));
	if (!error) {
		*conn_ptr = conn;
		return 0;
	}
	code = REFUSE(RPMA_PROVIDER, "%s", is_passive ? "rdma_accept()" : "rdma_connect()");
	if (is_passive)
		rdma_reject(id, NULL, 0);
	rpma_conn_delete(&conn);
	return code;
}

int rpma_conn_req_connect(struct rpma_conn_req **req_ptr,
			  const struct rpma_conn_private_data *pdata, struct rpma_conn **conn_ptr)
{
	struct rpma_conn_req *req;
	int code = 0;

	if (!req_ptr)
		return REFUSE_NULL();
	req = __atomic_exchange_n(req_ptr, NULL, __ATOMIC_ACQ_REL);
	if (!req)
		return REFUSE_NULL();
	if (!conn_ptr || (pdata && !pdata->ptr))
		code = REFUSE_NULL();
	else if (pdata && pdata->len == 0)
		code = REFUSE(RPMA_VALUE, "private data of 0 bytes");
	if (!code)
		return become(req, pdata, conn_ptr);
	rpma_conn_req_delete(&req);
	return code;
}

int rpma_conn_req_recv(struct rpma_conn_req *req, struct rpma_mr_local *dst, size_t offset,
		       size_t len, const void *op_context)
{
	if (!req || !dst)
		return REFUSE_NULL();
	return post_recv(req->queues.id->qp, NULL, dst, offset, len, op_context);
}

int rpma_conn_req_get_private_data(const struct rpma_conn_req *req,
				   struct rpma_conn_private_data *pdata)
{
	if (!req || !pdata)
		return REFUSE_NULL();
	*pdata = req->data;
	return 0;
}
