/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections: what programs ask for, and what the connection manager tells of them.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/face.h"

enum {
	IP_ROOM = REQ_ROOM - IP_CM_BYTES,
	SIDR_IP_ROOM = SIDR_REQ_ROOM - IP_CM_BYTES,
	MAX_RETRIES = 7, /* programs ask for more */
};

static const struct rdma_conn_param default_param = {
    .responder_resources = RDMA_MAX_RESP_RES,
    .initiator_depth = RDMA_MAX_INIT_DEPTH,
    .retry_count = 7,
    .rnr_retry_count = 7,
};

static uint8_t at_most(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/* What the device can do at most. */
static void limit_depths(struct id *id)
{
	struct ibv_device_attr attr;

	if (ibv_query_device(id->cm.verbs, &attr))
		return;
	if (id->responder_resources > attr.max_qp_rd_atom)
		id->responder_resources = (uint8_t)attr.max_qp_rd_atom;
	if (id->initiator_depth > attr.max_qp_init_rd_atom)
		id->initiator_depth = (uint8_t)attr.max_qp_init_rd_atom;
}

static void set_param(struct id *id, const struct rdma_conn_param *param)
{
	id->retry_count = at_most(param->retry_count, MAX_RETRIES);
	id->rnr_retry_count = at_most(param->rnr_retry_count, MAX_RETRIES);
	id->qpn = id->cm.qp ? id->cm.qp->qp_num : param->qp_num;
	id->srq = id->cm.qp ? id->cm.qp->srq != NULL : param->srq != 0;
}

static struct cm_path path_of(const struct id *id)
{
	return (struct cm_path){.sgid = id->sgid,
				.dgid = id->dgid,
				.traffic_class = id->tos,
				.hop_limit = 64,
				.is_here = device_find(&id->dgid, NULL) != NULL,
				.port = id->cm.verbs};
}

/* The RDMA-CM header and the program's private data behind it; the length of both. */
static size_t fill_data(struct id *id, const void *data, size_t length, uint8_t *bytes)
{
	struct sockaddr *from = &id->cm.route.addr.src_addr;
	struct ip_cm ip = {.ip_version = from->sa_family == AF_INET ? 4 : 6,
			   .source_port = ntohs(*address_port(from))};

	if (ip.ip_version == 4) {
		memcpy(ip.source + 12, id->sgid.raw + 12, 4);
		memcpy(ip.destination + 12, id->dgid.raw + 12, 4);
	} else {
		memcpy(ip.source, id->sgid.raw, 16);
		memcpy(ip.destination, id->dgid.raw, 16);
	}
	ip_cm_pack(bytes, &ip);
	if (length)
		memcpy(bytes + IP_CM_BYTES, data, length);
	return IP_CM_BYTES + length;
}

/* ---- active ---- */

static int lookup_service(struct id *id, const struct rdma_conn_param *param)
{
	uint8_t data[SIDR_REQ_ROOM];
	struct cm_mad mad = {
	    .sidr_req = {.pkey = 0xffff,
			 .service_id = service_id_of(id, ntohs(rdma_get_dst_port(&id->cm)))},
	    .private_data = data,
	};

	if (param->private_data_len > SIDR_IP_ROOM)
		return refuse(REASON_CM_PRIVATE_DATA, "%u bytes, room for %u",
			      param->private_data_len, SIDR_IP_ROOM);
	mad.private_length = fill_data(id, param->private_data, param->private_data_len, data);
	return -cm_sidr_request(manager_cm(), id->conn, &mad, manager_now());
}

static int request(struct id *id, const struct rdma_conn_param *param)
{
	uint8_t data[REQ_ROOM];
	struct cm_mad mad = {.private_data = data};
	struct cm_req *req = &mad.req;

	if (param->private_data_len > IP_ROOM)
		return refuse(REASON_CM_PRIVATE_DATA, "%u bytes, room for %u",
			      param->private_data_len, IP_ROOM);
	id->responder_resources = param->responder_resources;
	id->initiator_depth = param->initiator_depth;
	limit_depths(id);
	set_param(id, param);
	req->service_id = service_id_of(id, ntohs(rdma_get_dst_port(&id->cm)));
	req->ca_guid = be64toh(ibv_get_device_guid(id->cm.verbs->device));
	req->qpn = id->qpn;
	req->psn = id->psn;
	req->responder_resources = id->responder_resources;
	req->initiator_depth = id->initiator_depth;
	req->transport = id->cm.qp_type == IBV_QPT_UC	      ? 1
			 : id->cm.qp_type == IBV_QPT_XRC_SEND ? 3
							      : 0;
	req->extended_transport = id->cm.qp_type == IBV_QPT_XRC_SEND;
	req->vendor = id->local_ece.vendor_id;
	mad.options = id->local_ece.options;
	req->flow_control = param->flow_control != 0;
	req->retry_count = id->retry_count;
	req->rnr_retry_count = id->rnr_retry_count;
	req->srq = id->srq;
	req->mtu = id->mtu;
	req->pkey = 0xffff;
	req->primary = (struct cm_mad_path){.local_lid = 0xffff,
					    .remote_lid = 0xffff,
					    .traffic_class = id->tos,
					    .hop_limit = 64,
					    .ack_timeout = 14};
	memcpy(req->primary.local_gid, id->sgid.raw, 16);
	memcpy(req->primary.remote_gid, id->dgid.raw, 16);
	mad.private_length = fill_data(id, param->private_data, param->private_data_len, data);
	return -cm_connect(manager_cm(), id->conn, &mad, manager_now());
}

static int start_connecting(struct id *id, const struct rdma_conn_param *param)
{
	struct cm_path path = path_of(id);
	int error;

	if (id->state != ID_ROUTED)
		return EINVAL;
	id->conn = cm_create(manager_cm(), &path, id);
	if (!id->conn)
		return ENOMEM;
	error = id_is_datagram(id) ? lookup_service(id, param) : request(id, param);
	if (error) {
		cm_release(manager_cm(), id->conn, manager_now());
		id->conn = NULL;
		return error;
	}
	id->state = ID_CONNECTING;
	return 0;
}

int rdma_connect(struct rdma_cm_id *cm_id, struct rdma_conn_param *conn_param)
{
	struct id *id = id_of(cm_id);
	int error;

	manager_lock();
	error = start_connecting(id, conn_param ? conn_param : &default_param);
	manager_unlock();
	manager_kick();
	return error ? cm_result(error) : id_complete(id);
}

int rdma_establish(struct rdma_cm_id *cm_id)
{
	struct id *id = id_of(cm_id);
	int error = EINVAL;

	manager_lock();
	if (id->state == ID_RESPONDED && !id->cm.qp && id->conn) {
		error = -cm_establish(manager_cm(), id->conn, manager_now());
		id->state = ID_CONNECTED;
	}
	manager_unlock();
	return cm_result(error);
}

/* ---- passive ---- */

static int accept_datagram(struct id *id, const struct rdma_conn_param *param)
{
	struct cm_mad mad = {
	    .sidr_rep = {.qpn = id->cm.qp ? id->cm.qp->qp_num : param->qp_num,
			 .qkey = RDMA_UDP_QKEY},
	    .private_data = param->private_data,
	    .private_length = param->private_data_len,
	};

	if (param->private_data_len > SIDR_REP_ROOM)
		return refuse(REASON_CM_PRIVATE_DATA, "%u bytes, room for %u",
			      param->private_data_len, SIDR_REP_ROOM);
	return -cm_sidr_reply(manager_cm(), id->conn, &mad, manager_now());
}

static int accept_connection(struct id *id, const struct rdma_conn_param *param)
{
	uint8_t retries = id->retry_count, rnr_retries = id->rnr_retry_count;
	struct cm_mad mad = {.private_data = param->private_data,
			     .private_length = param->private_data_len};
	int error = 0;

	if (param->private_data_len > REP_ROOM)
		return refuse(REASON_CM_PRIVATE_DATA, "%u bytes, room for %u",
			      param->private_data_len, REP_ROOM);
	if (param->responder_resources != RDMA_MAX_RESP_RES)
		id->responder_resources = param->responder_resources;
	if (param->initiator_depth != RDMA_MAX_INIT_DEPTH)
		id->initiator_depth = at_most(param->initiator_depth, id->initiator_depth);
	limit_depths(id);
	mad.rep.rnr_retry_count = at_most(param->rnr_retry_count, MAX_RETRIES);
	set_param(id, param);
	id->retry_count = retries; /* both the request's: each side says what the other is to do */
	id->rnr_retry_count = rnr_retries;
	if (id->cm.qp)
		error = qp_connect(id);
	if (error)
		return error;
	if (id->cm.qp_type == IBV_QPT_XRC_RECV)
		mad.rep.eecn = id->qpn;
	else
		mad.rep.qpn = id->qpn;
	mad.rep.vendor = id->local_ece.vendor_id;
	mad.options = id->local_ece.options;
	mad.rep.psn = id->psn;
	mad.rep.responder_resources = id->responder_resources;
	mad.rep.initiator_depth = id->initiator_depth;
	mad.rep.flow_control = param->flow_control != 0;
	mad.rep.srq = id->srq || id->cm.qp_type == IBV_QPT_XRC_RECV;
	mad.rep.ack_delay = 10;
	mad.rep.ca_guid = be64toh(ibv_get_device_guid(id->cm.verbs->device));
	return -cm_accept(manager_cm(), id->conn, &mad, manager_now());
}

int rdma_accept(struct rdma_cm_id *cm_id, struct rdma_conn_param *conn_param)
{
	const struct rdma_conn_param *param = conn_param ? conn_param : &default_param;
	struct id *id = id_of(cm_id);
	int error = EINVAL;

	manager_lock();
	if (id->state == ID_REQUESTED && id->conn)
		error =
		    id_is_datagram(id) ? accept_datagram(id, param) : accept_connection(id, param);
	if (error == 0)
		id->state = id_is_datagram(id) ? ID_CONNECTED : ID_ACCEPTED;
	manager_unlock();
	manager_kick();
	if (error || id_is_datagram(id))
		return cm_result(error);
	return id_complete(id);
}

static int reject(struct rdma_cm_id *cm_id, uint16_t reason, const void *data, uint8_t length)
{
	struct id *id = id_of(cm_id);
	struct cm_mad mad = {.sidr_rep = {.status = CM_SIDR_REJECTED},
			     .private_data = data,
			     .private_length = length};
	int error = EINVAL;

	if (length > (id_is_datagram(id) ? SIDR_REP_ROOM : REJ_ROOM))
		return cm_result(refuse(REASON_CM_PRIVATE_DATA, "%u bytes", length));
	manager_lock();
	if (id->conn && id_is_datagram(id))
		error = -cm_sidr_reply(manager_cm(), id->conn, &mad, manager_now());
	else if (id->conn)
		error = -cm_reject(manager_cm(), id->conn, reason, data, length, manager_now());
	if (error == 0)
		id->state = ID_CLOSED;
	manager_unlock();
	return cm_result(error);
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return reject(id, CM_REJ_CONSUMER, private_data, private_data_len);
}

/* "vendor option not supported" */
int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	enum { VENDOR_OPTION = 35 };

	return reject(id, VENDOR_OPTION, private_data, private_data_len);
}

int rdma_notify(struct rdma_cm_id *cm_id, enum ibv_event_type event)
{
	struct id *id = id_of(cm_id);
	int error = EINVAL;

	manager_lock();
	if (event == IBV_EVENT_COMM_EST && id->conn)
		error = -cm_notify_established(manager_cm(), id->conn, manager_now());
	manager_unlock();
	return cm_result(error);
}

int rdma_disconnect(struct rdma_cm_id *cm_id)
{
	struct id *id = id_of(cm_id);
	bool waits = false;
	int error = EINVAL;

	manager_lock();
	if (id->state == ID_CONNECTED || id->state == ID_ACCEPTED || id->state == ID_CLOSED) {
		if (id->cm.qp)
			qp_move(id, IBV_QPS_ERR);
		error = 0;
		if (id->conn)
			waits = cm_disconnect(manager_cm(), id->conn, manager_now()) == 0;
	}
	manager_unlock();
	manager_kick();
	if (error || !waits)
		return cm_result(error);
	return id_complete(id);
}

/* ---- what the manager tells ---- */

static enum ibv_qp_type type_of(uint64_t service_id, const struct cm_mad *mad)
{
	if (mad->attribute == CM_SIDR_REQ)
		return IBV_QPT_UD;
	if (mad->req.transport == 3 && mad->req.extended_transport == 1)
		return IBV_QPT_XRC_RECV;
	return mad->req.transport == 1 ? IBV_QPT_UC : IBV_QPT_RC;
}

static void set_addresses(struct id *id, const struct cm_mad *mad, const struct ip_cm *ip,
			  const struct cm_path *path)
{
	uint64_t service_id =
	    mad->attribute == CM_REQ ? mad->req.service_id : mad->sidr_req.service_id;

	address_of_gid(&path->sgid, (uint16_t)service_id, &id->cm.route.addr.src_storage);
	address_of_gid(&path->dgid, ip->source_port, &id->cm.route.addr.dst_storage);
	id->dgid = path->dgid;
	id->cm.route.addr.addr.ibaddr.dgid = path->dgid;
	id->tos = path->traffic_class;
}

static void set_request(struct id *id, const struct cm_mad *mad, struct event *event)
{
	const struct cm_req *req = &mad->req;
	struct rdma_conn_param *param = &event->cm.param.conn;
	struct ibv_port_attr port;

	id->remote_ece = (struct ibv_ece){.vendor_id = req->vendor, .options = mad->options};
	id->remote_qpn = req->qpn;
	id->remote_psn = req->psn;
	id->responder_resources = req->initiator_depth;
	id->initiator_depth = req->responder_resources;
	id->retry_count = req->retry_count;
	id->rnr_retry_count = req->rnr_retry_count;
	id->mtu = req->mtu;
	if (ibv_query_port(id->cm.verbs, 1, &port) == 0 && port.active_mtu < id->mtu)
		id->mtu = (uint8_t)port.active_mtu;
	event_set_data(event, mad->private_data + IP_CM_BYTES, IP_ROOM);
	param->responder_resources = req->initiator_depth;
	param->initiator_depth = req->responder_resources;
	param->flow_control = req->flow_control;
	param->retry_count = req->retry_count;
	param->rnr_retry_count = req->rnr_retry_count;
	param->srq = req->srq;
	param->qp_num = req->qpn;
}

static struct id *create_request(struct id *listener, struct cm_id *conn, const struct cm_mad *mad,
				 struct event *event)
{
	struct ip_cm ip;
	struct id *id;

	if (!ip_cm_unpack(&ip, mad->private_data))
		return NULL;
	id = id_create((struct channel *)listener->cm.channel, listener->cm.context,
		       listener->cm.ps, type_of(conn->service_id, mad));
	if (!id)
		return NULL;
	if (id_set_device(id, &conn->path.sgid)) {
		id_free(id);
		return NULL;
	}
	set_addresses(id, mad, &ip, &conn->path);
	id->ack_timeout = listener->ack_timeout;
	if (mad->attribute == CM_REQ)
		set_request(id, mad, event);
	else
		event_set_data(event, mad->private_data + IP_CM_BYTES, SIDR_IP_ROOM);
	id->state = ID_REQUESTED;
	id->conn = conn;
	id->listener = listener;
	return id;
}

/* With the backlog full a request is welcome when it comes again. */
static void told_request(struct cm *cm, struct cm_id *conn, const struct cm_mad *mad)
{
	struct id *listener = port_listener(conn->service_id, &conn->path.sgid), *id;
	struct event *event;

	if (!listener) {
		cm_refuse(cm, conn, CM_REJ_INVALID_SERVICE_ID);
		return;
	}
	if (listener->pending >= listener->backlog) {
		cm_forget(cm, conn);
		return;
	}
	event = event_create(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	id = event ? create_request(listener, conn, mad, event) : NULL;
	if (!id) {
		free(event);
		cm_refuse(cm, conn, CM_REJ_NO_RESOURCES);
		return;
	}
	conn->user = id;
	event->cm.id = &id->cm;
	event->cm.listen_id = &listener->cm;
	event->is_request = true;
	listener->pending++;
	event_post(event);
}

static void told_response(struct cm *cm, struct id *id, const struct cm_mad *mad)
{
	const struct cm_rep *rep = &mad->rep;
	struct rdma_conn_param *param;
	struct event *event;
	int error = 0;

	id->remote_ece = (struct ibv_ece){.vendor_id = rep->vendor, .options = mad->options};
	id->remote_qpn = id->cm.qp_type == IBV_QPT_XRC_SEND ? rep->eecn : rep->qpn;
	id->remote_psn = rep->psn;
	id->rnr_retry_count = rep->rnr_retry_count;
	id->responder_resources = at_most(id->responder_resources, rep->initiator_depth);
	id->initiator_depth = at_most(id->initiator_depth, rep->responder_resources);
	if (id->cm.qp)
		error = qp_connect(id);
	if (error) {
		cm_reject(cm, id->conn, CM_REJ_NO_RESOURCES, NULL, 0, manager_now());
		id->state = ID_CLOSED;
		event_tell(id, RDMA_CM_EVENT_CONNECT_ERROR, -error);
		return;
	}
	event = event_create(
	    id, id->cm.qp ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	if (id->cm.qp)
		cm_establish(cm, id->conn, manager_now());
	id->state = id->cm.qp ? ID_CONNECTED : ID_RESPONDED;
	if (!event)
		return;
	event_set_data(event, mad->private_data, REP_ROOM);
	param = &event->cm.param.conn;
	param->responder_resources = rep->initiator_depth;
	param->initiator_depth = rep->responder_resources;
	param->flow_control = rep->flow_control;
	param->rnr_retry_count = rep->rnr_retry_count;
	param->srq = rep->srq;
	param->qp_num = id->remote_qpn;
	event_post(event);
}

static void told_service(struct id *id, const struct cm_mad *mad)
{
	bool is_valid = mad->sidr_rep.status == CM_SIDR_VALID;
	struct event *event =
	    event_create(id, is_valid ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_UNREACHABLE,
			 is_valid ? 0 : mad->sidr_rep.status);
	struct rdma_ud_param *ud;

	id->state = is_valid ? ID_CONNECTED : ID_CLOSED;
	if (!event)
		return;
	ud = &event->cm.param.ud;
	event_set_data(event, mad->private_data, SIDR_REP_ROOM);
	ud->qp_num = mad->sidr_rep.qpn;
	ud->qkey = mad->sidr_rep.qkey;
	ud->ah_attr.is_global = 1;
	ud->ah_attr.port_num = 1;
	ud->ah_attr.grh.dgid = id->dgid;
	ud->ah_attr.grh.sgid_index = (uint8_t)id->sgid_index;
	ud->ah_attr.grh.hop_limit = 64;
	ud->ah_attr.grh.traffic_class = id->tos;
	event_post(event);
}

static void told_rejection(struct id *id, const struct cm_mad *mad)
{
	struct event *event = event_create(id, RDMA_CM_EVENT_REJECTED, mad->rej.reason);

	id->state = ID_CLOSED;
	if (id->cm.qp)
		qp_move(id, IBV_QPS_ERR);
	if (!event)
		return;
	event_set_data(event, mad->private_data, REJ_ROOM);
	event_post(event);
}

void connect_event(struct cm *cm, struct cm_id *conn, const struct cm_event *event)
{
	struct id *id = conn->user;

	switch (event->type) {
	case CM_EVENT_REQ:
	case CM_EVENT_SIDR_REQ:
		told_request(cm, conn, event->mad);
		break;
	case CM_EVENT_REP:
		told_response(cm, id, event->mad);
		break;
	case CM_EVENT_RTU:
		id->state = ID_CONNECTED;
		event_tell(id, RDMA_CM_EVENT_ESTABLISHED, 0);
		break;
	case CM_EVENT_REJ:
		told_rejection(id, event->mad);
		break;
	case CM_EVENT_UNREACHABLE:
		id->state = ID_CLOSED;
		event_tell(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
		break;
	case CM_EVENT_DISCONNECTED:
		id->state = ID_CLOSED;
		event_tell(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		break;
	case CM_EVENT_TIMEWAIT_EXIT:
		event_tell(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
		break;
	case CM_EVENT_SIDR_REP:
		told_service(id, event->mad);
		break;
	}
}
