/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exported calls that this version does not implement: each refuses by name. When the real one is
 * written, its stand-in here goes.
 */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "rdmacm/unsupported.h"

struct rdma_event_channel *rdma_create_event_channel(void)
{
	(void)CM_NOT_IMPLEMENTED();
	return NULL;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	(void)CM_NOT_IMPLEMENTED();
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
		      int timeout_ms)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	return CM_NOT_IMPLEMENTED();
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return 0 * CM_NOT_IMPLEMENTED();
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return 0 * CM_NOT_IMPLEMENTED();
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr)
{
	return CM_NOT_IMPLEMENTED();
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	(void)CM_NOT_IMPLEMENTED();
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_establish(struct rdma_cm_id *id)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr,
			   void *context)
{
	return CM_NOT_IMPLEMENTED();
}

struct ibv_context **rdma_get_devices(int *num_devices)
{
	(void)CM_NOT_IMPLEMENTED();
	return NULL;
}

void rdma_free_devices(struct ibv_context **list)
{
	(void)CM_NOT_IMPLEMENTED();
}

int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	return CM_NOT_IMPLEMENTED();
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	(void)CM_NOT_IMPLEMENTED();
}

int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *qp_init_attr)
{
	return CM_NOT_IMPLEMENTED();
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	(void)CM_NOT_IMPLEMENTED();
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return CM_NOT_IMPLEMENTED();
}

int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	return CM_NOT_IMPLEMENTED();
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
	(void)CM_NOT_IMPLEMENTED();
}
