/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints: where connections come in.
 */
#include "rpma/face.h"

int rpma_ep_listen(struct rpma_peer *peer, const char *addr, const char *port,
		   struct rpma_ep **ep_ptr)
{
	struct rpma_ep *ep;
	int code;

	if (!peer || !addr || !port || !ep_ptr)
		return REFUSE_NULL();
	ep = FAULT_NULL(calloc(1, sizeof(*ep)));
	if (!ep)
		return REFUSE(RPMA_MEMORY, "an endpoint");
	ep->peer = peer;
	ep->events = FAULT_NULL(rdma_create_event_channel());
	if (!ep->events) {
		code = REFUSE(RPMA_PROVIDER, "rdma_create_event_channel()");
		goto free_ep;
	}
	if (FAULT_MINUS(rdma_create_id(ep->events, &ep->id, NULL, RDMA_PS_TCP))) {
		code = REFUSE(RPMA_PROVIDER, "rdma_create_id()");
		goto destroy_channel;
	}
	code = address_bind(ep->id, addr, port);
	if (code)
		goto destroy_id;
	if (FAULT_MINUS(rdma_listen(ep->id, 0))) {
		code = REFUSE(RPMA_PROVIDER, "rdma_listen(%s, %s)", addr, port);
		goto destroy_id;
	}
	*ep_ptr = ep;
	LOG(NOTICE, "an endpoint listens");
	return 0;
destroy_id:
	rdma_destroy_id(ep->id);
destroy_channel:
	rdma_destroy_event_channel(ep->events);
free_ep:
	free(ep);
	return code;
}

int rpma_ep_shutdown(struct rpma_ep **ep_ptr)
{
	struct rpma_ep *ep;
	int code = 0;

	if (!ep_ptr)
		return REFUSE_NULL();
	ep = __atomic_exchange_n(ep_ptr, NULL, __ATOMIC_ACQ_REL);
	if (!ep)
		return 0;
	if (FAULT_END(rdma_destroy_id(ep->id)))
		code = REFUSE(RPMA_PROVIDER, "rdma_destroy_id()");
	rdma_destroy_event_channel(ep->events);
	free(ep);
	return code;
}

int rpma_ep_get_fd(const struct rpma_ep *ep, int *fd)
{
	if (!ep || !fd)
		return REFUSE_NULL();
	*fd = ep->events->fd;
	return 0;
}
