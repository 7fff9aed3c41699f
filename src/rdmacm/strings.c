/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of events.
 */
#include <rdma/rdma_cma.h>

const char *rdma_event_str(enum rdma_cm_event_type event)
{
#define NAME(event) [event] = #event
	static const char *const names[] = {
	    NAME(RDMA_CM_EVENT_ADDR_RESOLVED),
	    NAME(RDMA_CM_EVENT_ADDR_ERROR),
	    NAME(RDMA_CM_EVENT_ROUTE_RESOLVED),
	    NAME(RDMA_CM_EVENT_ROUTE_ERROR),
	    NAME(RDMA_CM_EVENT_CONNECT_REQUEST),
	    NAME(RDMA_CM_EVENT_CONNECT_RESPONSE),
	    NAME(RDMA_CM_EVENT_CONNECT_ERROR),
	    NAME(RDMA_CM_EVENT_UNREACHABLE),
	    NAME(RDMA_CM_EVENT_REJECTED),
	    NAME(RDMA_CM_EVENT_ESTABLISHED),
	    NAME(RDMA_CM_EVENT_DISCONNECTED),
	    NAME(RDMA_CM_EVENT_DEVICE_REMOVAL),
	    NAME(RDMA_CM_EVENT_MULTICAST_JOIN),
	    NAME(RDMA_CM_EVENT_MULTICAST_ERROR),
	    NAME(RDMA_CM_EVENT_ADDR_CHANGE),
	    NAME(RDMA_CM_EVENT_TIMEWAIT_EXIT),
	    NAME(RDMA_CM_EVENT_ADDRINFO_RESOLVED),
	    NAME(RDMA_CM_EVENT_ADDRINFO_ERROR),
	    NAME(RDMA_CM_EVENT_USER),
	    NAME(RDMA_CM_EVENT_INTERNAL),
	};
#undef NAME
	size_t index = (size_t)event;

	return index < sizeof(names) / sizeof(names[0]) ? names[index] : "UNKNOWN EVENT";
}
