/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of ids, and their way through the states.
 */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/face.h"

enum { RNR_TIMER = 12, /* 0.64 ms */ ACK_TIMEOUT = 14 /* 67 ms */ };

bool id_is_datagram(const struct id *id)
{
	return id->cm.qp_type == IBV_QPT_UD;
}

/* As the kernel's manager has it: nothing before there is a connection, and reading only as far as
 * the connection says. */
static unsigned int access_of(const struct id *id)
{
	unsigned int access = IBV_ACCESS_REMOTE_WRITE;

	if (!id->conn)
		return 0;
	if (id->responder_resources && id->cm.qp_type != IBV_QPT_UC)
		access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			  IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;
	return access;
}

static void init_attr(struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->port_num = id->cm.port_num;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (id_is_datagram(id)) {
		attr->qkey = id->qkey ? id->qkey : RDMA_UDP_QKEY;
		*mask |= IBV_QP_QKEY;
		return;
	}
	attr->qp_access_flags = access_of(id);
	*mask |= IBV_QP_ACCESS_FLAGS;
}

static void rtr_attr(struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	*mask = IBV_QP_STATE;
	if (id_is_datagram(id))
		return;
	attr->ah_attr.is_global = 1;
	attr->ah_attr.port_num = id->cm.port_num;
	attr->ah_attr.grh.dgid = id->dgid;
	attr->ah_attr.grh.sgid_index = (uint8_t)id->sgid_index;
	attr->ah_attr.grh.hop_limit = 64;
	attr->ah_attr.grh.traffic_class = id->tos;
	attr->path_mtu = id->mtu;
	attr->dest_qp_num = id->remote_qpn;
	attr->rq_psn = id->psn;
	*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (id->cm.qp_type == IBV_QPT_UC || id->cm.qp_type == IBV_QPT_XRC_SEND)
		return;
	attr->max_dest_rd_atomic = id->responder_resources;
	attr->min_rnr_timer = RNR_TIMER;
	*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static void rts_attr(struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->sq_psn = id_is_datagram(id) ? 0 : id->remote_psn;
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (id_is_datagram(id) || id->cm.qp_type == IBV_QPT_UC)
		return;
	attr->timeout = id->ack_timeout ? id->ack_timeout : ACK_TIMEOUT;
	*mask |= IBV_QP_TIMEOUT;
	if (id->cm.qp_type == IBV_QPT_XRC_RECV)
		return;
	attr->retry_cnt = id->retry_count;
	attr->rnr_retry = id->rnr_retry_count;
	attr->max_rd_atomic = id->initiator_depth;
	*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
}

int qp_attr_of(struct id *id, enum ibv_qp_state state, struct ibv_qp_attr *attr, int *mask)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	if (state == IBV_QPS_INIT)
		init_attr(id, attr, mask);
	else if (state == IBV_QPS_RTR)
		rtr_attr(id, attr, mask);
	else if (state == IBV_QPS_RTS)
		rts_attr(id, attr, mask);
	else if (state == IBV_QPS_ERR)
		*mask = IBV_QP_STATE;
	else
		return EINVAL;
	return 0;
}

int qp_move(struct id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr;
	int mask, error = qp_attr_of(id, state, &attr, &mask);

	return error ? error : ibv_modify_qp(id->cm.qp, &attr, mask);
}

int qp_connect(struct id *id)
{
	int error = qp_move(id, IBV_QPS_INIT);

	if (error == 0)
		error = qp_move(id, IBV_QPS_RTR);
	return error ? error : qp_move(id, IBV_QPS_RTS);
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
{
	int error;

	if (!qp_attr || !qp_attr_mask)
		return cm_result(EINVAL);
	manager_lock();
	error =
	    id->verbs ? qp_attr_of(id_of(id), qp_attr->qp_state, qp_attr, qp_attr_mask) : EINVAL;
	manager_unlock();
	return cm_result(error);
}

/* ---- creation ---- */

static struct ibv_cq *create_cq(struct id *id, uint32_t entries, struct ibv_comp_channel **channel)
{
	struct ibv_cq *cq;

	*channel = ibv_create_comp_channel(id->cm.verbs);
	if (!*channel)
		return NULL;
	cq = ibv_create_cq(id->cm.verbs, entries ? (int)entries : 1, id, *channel, 0);
	if (!cq) {
		ibv_destroy_comp_channel(*channel);
		*channel = NULL;
	}
	return cq;
}

static void destroy_cq(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
	if (*cq)
		ibv_destroy_cq(*cq);
	if (*channel)
		ibv_destroy_comp_channel(*channel);
	*cq = NULL;
	*channel = NULL;
}

/* Those that rdma_create_qp() made. */
static void destroy_cqs(struct id *id)
{
	if (id->owns_cqs) {
		if (!id->owns_srq_cqs)
			destroy_cq(&id->cm.recv_cq, &id->cm.recv_cq_channel);
		destroy_cq(&id->cm.send_cq, &id->cm.send_cq_channel);
	}
	id->owns_cqs = false;
}

static int create_cqs(struct id *id, struct ibv_qp_init_attr_ex *attr)
{
	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return 0;
	if (!attr->recv_cq && attr->qp_type != IBV_QPT_XRC_SEND) {
		id->cm.recv_cq = create_cq(id, attr->cap.max_recv_wr, &id->cm.recv_cq_channel);
		id->owns_cqs = true;
		if (!id->cm.recv_cq)
			return errno;
		attr->recv_cq = id->cm.recv_cq;
	}
	if (!attr->send_cq) {
		id->cm.send_cq = create_cq(id, attr->cap.max_send_wr, &id->cm.send_cq_channel);
		id->owns_cqs = true;
		if (!id->cm.send_cq)
			return errno;
		attr->send_cq = id->cm.send_cq;
	}
	return 0;
}

static int prepare(struct id *id)
{
	int error = qp_move(id, IBV_QPS_INIT);

	if (error == 0 && id_is_datagram(id)) {
		error = qp_move(id, IBV_QPS_RTR);
		if (error == 0)
			error = qp_move(id, IBV_QPS_RTS);
	}
	return error;
}

static int set_xrcd(struct id *id, struct ibv_qp_init_attr_ex *attr)
{
	if (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD && attr->xrcd)
		return 0;
	attr->xrcd = device_xrcd(id->cm.verbs);
	attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	return attr->xrcd ? 0 : errno;
}

static int create_qp(struct id *id, struct ibv_qp_init_attr_ex *attr)
{
	int error;

	if (id_need_device(id) || id->cm.qp)
		return EINVAL;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->cm.pd ? id->cm.pd : device_pd(id->cm.verbs);
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		if (!attr->pd)
			return errno;
	}
	if (attr->pd->context != id->cm.verbs)
		return EINVAL;
	id->cm.pd = attr->pd;
	if (attr->qp_type == IBV_QPT_XRC_RECV) {
		error = set_xrcd(id, attr);
		if (error)
			return error;
	} else if (!attr->srq && attr->qp_type != IBV_QPT_XRC_SEND) {
		attr->srq = id->cm.srq;
	}
	error = create_cqs(id, attr);
	if (error == 0) {
		id->cm.qp = ibv_create_qp_ex(id->cm.verbs, attr);
		error = id->cm.qp ? 0 : errno;
	}
	if (error) {
		destroy_cqs(id);
		return error;
	}
	id->cm.qp_type = attr->qp_type;
	error = prepare(id);
	if (error) {
		ibv_destroy_qp(id->cm.qp);
		id->cm.qp = NULL;
		destroy_cqs(id);
	}
	return error;
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	int error;

	manager_lock();
	error = create_qp(id_of(id), attr);
	manager_unlock();
	return cm_result(error);
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex full = {
	    .qp_context = attr->qp_context,
	    .send_cq = attr->send_cq,
	    .recv_cq = attr->recv_cq,
	    .srq = attr->srq,
	    .cap = attr->cap,
	    .qp_type = attr->qp_type,
	    .sq_sig_all = attr->sq_sig_all,
	    .comp_mask = IBV_QP_INIT_ATTR_PD,
	    .pd = pd,
	};
	int result = rdma_create_qp_ex(id, &full);

	if (result == 0)
		attr->cap = full.cap;
	return result;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	struct ibv_qp *qp = id->qp;

	if (!qp)
		return;
	manager_lock();
	groups_leave(id_of(id));
	id->qp = NULL;
	manager_unlock();
	ibv_destroy_qp(qp);
	destroy_cqs(id_of(id));
}

/* It has a domain and a completion queue of its own, which its id owns if the program gave none. */
static int prepare_xrc_srq(struct id *id, struct ibv_srq_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd) {
		attr->xrcd = device_xrcd(id->cm.verbs);
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
		if (!attr->xrcd)
			return errno;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq) {
		id->cm.recv_cq = create_cq(id, attr->attr.max_wr, &id->cm.recv_cq_channel);
		id->owns_srq_cqs = true;
		if (!id->cm.recv_cq)
			return errno;
		attr->cq = id->cm.recv_cq;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	}
	return 0;
}

int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	int error;

	manager_lock();
	error = id_need_device(id_of(id));
	if (error == 0 && (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd)) {
		attr->pd = id->pd ? id->pd : device_pd(id->verbs);
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (error == 0 && attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE &&
	    attr->srq_type == IBV_SRQT_XRC)
		error = prepare_xrc_srq(id_of(id), attr);
	manager_unlock();
	if (error)
		return cm_result(error);
	id->srq = attr->pd ? ibv_create_srq_ex(id->verbs, attr) : NULL;
	if (!id->srq)
		return -1;
	if (!id->pd)
		id->pd = attr->pd;
	return 0;
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex full = {
	    .srq_context = attr->srq_context,
	    .attr = attr->attr,
	    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
	    .srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
	    .pd = pd,
	};
	int result = rdma_create_srq_ex(id, &full);

	if (result == 0)
		attr->attr = full.attr;
	return result;
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (id->srq)
		ibv_destroy_srq(id->srq);
	id->srq = NULL;
	if (id_of(id)->owns_srq_cqs)
		destroy_cq(&id->recv_cq, &id->recv_cq_channel);
	id_of(id)->owns_srq_cqs = false;
}
