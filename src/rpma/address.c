/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the addresses and ports that programs give to those that an id is bound to or leads to, and
 * what is asked of a device that has one.
 */
#include <netdb.h>

#include "rpma/face.h"

static int look_up(const char *addr, const char *port, int flags, struct rdma_addrinfo **info)
{
	const struct rdma_addrinfo hints = {
	    .ai_flags = flags, .ai_qp_type = IBV_QPT_RC, .ai_port_space = RDMA_PS_TCP};
	int error = FAULT_MINUS(rdma_getaddrinfo(addr, port, &hints, info));

	if (!error)
		return 0;
	/* its own codes are negative too, and none of them is -1 but for EAI_BADFLAGS */
	if (error == -1 || error == EAI_SYSTEM)
		return REFUSE(RPMA_PROVIDER, "rdma_getaddrinfo(%s, %s)", addr, port ?: "any");
	return REFUSE(RPMA_ADDRESS, "%s, port %s: %s", addr, port ?: "any", gai_strerror(error));
}

int address_bind(struct rdma_cm_id *id, const char *addr, const char *port)
{
	struct rdma_addrinfo *info;
	int code = look_up(addr, port, RAI_PASSIVE, &info);

	if (code)
		return code;
	if (FAULT_MINUS(rdma_bind_addr(id, info->ai_src_addr)))
		code = REFUSE(RPMA_PROVIDER, "rdma_bind_addr(%s, %s)", addr, port ?: "any");
	rdma_freeaddrinfo(info);
	return code;
}

int address_resolve(struct rdma_cm_id *id, const char *addr, const char *port, int timeout_ms)
{
	struct rdma_addrinfo *info;
	int code = look_up(addr, port, 0, &info);

	if (code)
		return code;
	if (FAULT_MINUS(rdma_resolve_addr(id, info->ai_src_addr, info->ai_dst_addr, timeout_ms)))
		code = REFUSE(RPMA_PROVIDER, "rdma_resolve_addr(%s, %s)", addr, port ?: "any");
	rdma_freeaddrinfo(info);
	return code;
}

int rpma_utils_get_ibv_context(const char *addr, enum rpma_util_ibv_context_type type,
			       struct ibv_context **ibv_ctx_ptr)
{
	struct ibv_context *context;
	struct rdma_cm_id *id;
	int code;

	if (!addr || !ibv_ctx_ptr)
		return REFUSE_NULL();
	if (type != RPMA_UTIL_IBV_CONTEXT_LOCAL && type != RPMA_UTIL_IBV_CONTEXT_REMOTE)
		return REFUSE(RPMA_VALUE, "type %d", (int)type);
	if (FAULT_MINUS(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP)))
		return REFUSE(RPMA_PROVIDER, "rdma_create_id()");
	code = type == RPMA_UTIL_IBV_CONTEXT_LOCAL
		   ? address_bind(id, addr, "0")
		   : address_resolve(id, addr, NULL, RPMA_DEFAULT_TIMEOUT_MS);
	context = id->verbs;
	rdma_destroy_id(id);
	if (code)
		return code;
	if (!context) /* bound to no address in particular */
		return REFUSE(RPMA_NO_DEVICE, "%s", addr);
	*ibv_ctx_ptr = context;
	return 0;
}

int rpma_utils_ibv_context_is_odp_capable(struct ibv_context *ibv_ctx, int *is_odp_capable)
{
	const uint32_t wanted = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
	struct ibv_device_attr_ex attr = {0};
	int error;

	if (!ibv_ctx || !is_odp_capable)
		return REFUSE_NULL();
	error = FAULT_ERRNO(ibv_query_device_ex(ibv_ctx, NULL, &attr));
	if (error)
		return REFUSE_ERRNO(error, "ibv_query_device_ex()");
	*is_odp_capable = (attr.odp_caps.general_caps & IBV_ODP_SUPPORT) &&
			  (attr.odp_caps.per_transport_caps.rc_odp_caps & wanted) == wanted;
	return 0;
}

const char *rpma_utils_conn_event_2str(enum rpma_conn_event conn_event)
{
	switch (conn_event) {
	case RPMA_CONN_UNDEFINED:
		return "Undefined connection event";
	case RPMA_CONN_ESTABLISHED:
		return "Connection established";
	case RPMA_CONN_CLOSED:
		return "Connection closed";
	case RPMA_CONN_LOST:
		return "Connection lost";
	case RPMA_CONN_REJECTED:
		return "Connection rejected";
	case RPMA_CONN_UNREACHABLE:
		return "Connection unreachable";
	default:
		return "Unsupported connection event";
	}
}
