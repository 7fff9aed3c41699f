/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names to addresses, and endpoints made from them.
 */
#include <endian.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/ib.h>

#include "rdmacm/face.h"

static int copy_address(const struct sockaddr *from, socklen_t length, struct sockaddr **to,
			socklen_t *to_length)
{
	*to = malloc(length);
	if (!*to)
		return ENOMEM;
	memcpy(*to, from, length);
	*to_length = length;
	return 0;
}

static void set_types(struct rdma_addrinfo *info, const struct rdma_addrinfo *hints)
{
	info->ai_qp_type = hints && hints->ai_qp_type ? hints->ai_qp_type : 0;
	info->ai_port_space = hints && hints->ai_port_space ? hints->ai_port_space : 0;
	if (!info->ai_port_space)
		info->ai_port_space = info->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
	if (!info->ai_qp_type)
		info->ai_qp_type =
		    info->ai_port_space == RDMA_PS_UDP || info->ai_port_space == RDMA_PS_IPOIB
			? IBV_QPT_UD
			: IBV_QPT_RC;
}

/* A GID is written as an IPv6 address is. */
static bool is_gid_wanted(const struct rdma_addrinfo *hints)
{
	const int flags = RAI_NUMERICHOST | RAI_FAMILY;

	return hints && hints->ai_family == AF_IB && (hints->ai_flags & flags) == flags;
}

/* An IPv6 address as one of AF_IB, whose port is a service id. */
static int convert(struct rdma_addrinfo *info, struct sockaddr **address, socklen_t *length)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)*address;
	struct sockaddr_ib *sib;

	if (!in6 || in6->sin6_family != AF_INET6)
		return 0;
	sib = calloc(1, sizeof(*sib));
	if (!sib)
		return ENOMEM;
	sib->sib_family = AF_IB;
	sib->sib_pkey = htobe16(0xffff);
	sib->sib_flowinfo = in6->sin6_flowinfo;
	memcpy(&sib->sib_addr, &in6->sin6_addr, sizeof(sib->sib_addr));
	sib->sib_sid = htobe64((uint64_t)info->ai_port_space << 16 | be16toh(in6->sin6_port));
	sib->sib_sid_mask = UINT64_MAX;
	free(*address);
	*address = (struct sockaddr *)sib;
	*length = sizeof(*sib);
	info->ai_family = AF_IB;
	return 0;
}

/* Who asks so means no device in particular. */
static bool is_this_host(const char *node, const char *service, const struct rdma_addrinfo *hints)
{
	return node && strcmp(node, "localhost") == 0 && !service && hints &&
	       hints->ai_flags & RAI_PASSIVE;
}

static int lookup(const char *node, const char *service, const struct rdma_addrinfo *hints,
		  struct addrinfo **found)
{
	struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};

	if (hints && hints->ai_flags & RAI_PASSIVE)
		wanted.ai_flags |= AI_PASSIVE;
	if (hints && hints->ai_flags & RAI_NUMERICHOST)
		wanted.ai_flags |= AI_NUMERICHOST;
	if (is_gid_wanted(hints))
		wanted.ai_family = AF_INET6;
	else if (hints && hints->ai_flags & RAI_FAMILY)
		wanted.ai_family = hints->ai_family;
	else if (!node && hints && hints->ai_family)
		wanted.ai_family = hints->ai_family;
	else if (is_this_host(node, service, hints))
		wanted.ai_family = AF_INET;
	if (!node && !service)
		service = "0";
	return getaddrinfo(node, service, &wanted, found);
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	bool is_passive = hints && hints->ai_flags & RAI_PASSIVE;
	struct addrinfo *found = NULL;
	struct rdma_addrinfo *info;
	int error = 0;

	if (!node && !service && !hints)
		return cm_result(EINVAL);
	info = calloc(1, sizeof(*info));
	if (!info)
		return EAI_MEMORY;
	if (node || service) {
		error = lookup(node, service, hints, &found);
		if (error) {
			free(info);
			return error;
		}
		error = copy_address(found->ai_addr, found->ai_addrlen,
				     is_passive ? &info->ai_src_addr : &info->ai_dst_addr,
				     is_passive ? &info->ai_src_len : &info->ai_dst_len);
		info->ai_family = found->ai_family;
		if (error == 0 && is_this_host(node, service, hints))
			address_make_this_host(info->ai_src_addr);
		freeaddrinfo(found);
	} else {
		info->ai_family = hints->ai_family;
	}
	info->ai_flags = hints ? hints->ai_flags : 0;
	set_types(info, hints);
	if (error == 0 && is_gid_wanted(hints)) {
		error = convert(info, &info->ai_src_addr, &info->ai_src_len);
		if (error == 0)
			error = convert(info, &info->ai_dst_addr, &info->ai_dst_len);
	}
	if (error == 0 && hints && hints->ai_src_len && !info->ai_src_addr)
		error = copy_address(hints->ai_src_addr, hints->ai_src_len, &info->ai_src_addr,
				     &info->ai_src_len);
	if (error == 0 && hints && hints->ai_dst_len && !info->ai_dst_addr)
		error = copy_address(hints->ai_dst_addr, hints->ai_dst_len, &info->ai_dst_addr,
				     &info->ai_dst_len);
	if (error) {
		rdma_freeaddrinfo(info);
		return EAI_MEMORY;
	}
	*res = info;
	return 0;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res);
		res = next;
	}
}

/* Names are looked up in the call; only the result is told later. */
int rdma_resolve_addrinfo(struct rdma_cm_id *cm_id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *info = NULL;
	struct id *id = id_of(cm_id);
	int error;

	if (!node && !service && !hints)
		return cm_result(EINVAL);
	error = rdma_getaddrinfo(node, service, hints, &info);
	manager_lock();
	rdma_freeaddrinfo(id->info);
	id->info = info;
	event_tell(id, error ? RDMA_CM_EVENT_ADDRINFO_ERROR : RDMA_CM_EVENT_ADDRINFO_RESOLVED,
		   error ? -EADDRNOTAVAIL : 0);
	manager_unlock();
	return id_complete(id);
}

/* A copy, which the caller frees. */
int rdma_query_addrinfo(struct rdma_cm_id *cm_id, struct rdma_addrinfo **result)
{
	const struct id *id = id_of(cm_id);
	struct rdma_addrinfo *copy;
	int error = 0;

	if (!id->info || !result)
		return cm_result(id->info ? EINVAL : ENODATA);
	copy = calloc(1, sizeof(*copy));
	if (!copy)
		return cm_result(ENOMEM);
	*copy = *id->info;
	copy->ai_next = NULL;
	copy->ai_src_addr = copy->ai_dst_addr = NULL;
	copy->ai_src_canonname = copy->ai_dst_canonname = NULL;
	copy->ai_route = copy->ai_connect = NULL;
	copy->ai_route_len = copy->ai_connect_len = 0;
	if (id->info->ai_src_addr)
		error = copy_address(id->info->ai_src_addr, id->info->ai_src_len,
				     &copy->ai_src_addr, &copy->ai_src_len);
	if (error == 0 && id->info->ai_dst_addr)
		error = copy_address(id->info->ai_dst_addr, id->info->ai_dst_len,
				     &copy->ai_dst_addr, &copy->ai_dst_len);
	if (error) {
		rdma_freeaddrinfo(copy);
		return cm_result(error);
	}
	*result = copy;
	return 0;
}

/* ---- endpoints ---- */

enum { RESOLVE_MS = 2000 };

static int begin_passive(struct id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			 const struct ibv_qp_init_attr *attr)
{
	if (rdma_bind_addr(&id->cm, res->ai_src_addr))
		return -1;
	if (!attr)
		return 0;
	id->qp_attr = malloc(sizeof(*attr));
	if (!id->qp_attr)
		return cm_result(ENOMEM);
	*id->qp_attr = *attr;
	id->qp_attr->qp_type = res->ai_qp_type;
	if (pd)
		id->cm.pd = pd;
	return 0;
}

int rdma_create_ep(struct rdma_cm_id **result, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *id;
	int rc;

	if (rdma_create_id(NULL, &id, NULL, (enum rdma_port_space)res->ai_port_space))
		return -1;
	id->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	if (res->ai_flags & RAI_PASSIVE) {
		rc = begin_passive(id_of(id), res, pd, attr);
	} else {
		rc = rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS);
		if (rc == 0)
			rc = rdma_resolve_route(id, RESOLVE_MS);
		if (rc == 0 && attr) {
			attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
			rc = rdma_create_qp(id, pd, attr);
		}
	}
	if (rc) {
		int error = errno;

		rdma_destroy_id(id);
		return cm_result(error);
	}
	*result = id;
	return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

/* It is told of requests, or may be. What has a peer never is: no use waiting. */
static bool can_listen(struct id *id)
{
	bool can;

	manager_lock();
	can = id->state == ID_IDLE || id->state == ID_BOUND || id->state == ID_LISTENING;
	manager_unlock();
	return can;
}

int rdma_get_request(struct rdma_cm_id *cm_listen, struct rdma_cm_id **result)
{
	struct id *listen = id_of(cm_listen);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	if (!listen->is_sync || !can_listen(listen))
		return cm_result(EINVAL);
	if (cm_listen->event) {
		rdma_ack_cm_event(cm_listen->event);
		cm_listen->event = NULL;
	}
	if (rdma_get_cm_event(cm_listen->channel, &event))
		return -1;
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		rdma_ack_cm_event(event);
		return cm_result(EINVAL);
	}
	id = event->id;
	if (listen->qp_attr) {
		struct ibv_qp_init_attr attr = *listen->qp_attr;

		if (rdma_create_qp(id, cm_listen->pd, &attr)) {
			int error = errno;

			rdma_reject(id, NULL, 0);
			rdma_ack_cm_event(event);
			rdma_destroy_id(id);
			return cm_result(error);
		}
	}
	if (rdma_migrate_id(id, NULL)) {
		rdma_ack_cm_event(event);
		return -1;
	}
	id->event = event;
	*result = id;
	return 0;
}
