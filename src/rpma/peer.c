/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers: a device with a protection domain, and what the device can do.
 */
#include <infiniband/verbatim.h>

#include "rpma/face.h"

int rpma_peer_new(struct ibv_context *ibv_ctx, struct rpma_peer **peer_ptr)
{
	const uint64_t flush = VERBATIM_DEVICE_FLUSH_GLOBAL | VERBATIM_DEVICE_FLUSH_PERSISTENT;
	struct ibv_device_attr_ex attr = {0};
	struct rpma_peer *peer;
	int error, is_odp_capable, code;

	if (!ibv_ctx || !peer_ptr)
		return REFUSE_NULL();
	code = rpma_utils_ibv_context_is_odp_capable(ibv_ctx, &is_odp_capable);
	if (code)
		return code;
	error = FAULT_ERRNO(ibv_query_device_ex(ibv_ctx, NULL, &attr));
	if (error)
		return REFUSE_ERRNO(error, "ibv_query_device_ex()");
	peer = FAULT_NULL(calloc(1, sizeof(*peer)));
	if (!peer)
		return REFUSE(RPMA_MEMORY, "a peer");
	peer->is_odp_capable = is_odp_capable;
	peer->has_flush = (attr.device_cap_flags_ex & flush) == flush;
	peer->has_atomic_write = attr.device_cap_flags_ex & VERBATIM_DEVICE_ATOMIC_WRITE;
	if (!peer->has_flush)
		LOG(INFO, "the device has no FLUSH: reads do instead");
	if (!peer->has_atomic_write)
		LOG(INFO, "the device has no ATOMIC WRITE: inline writes do instead");
	peer->pd = FAULT_NULL(ibv_alloc_pd(ibv_ctx));
	if (!peer->pd) {
		code = errno == ENOMEM ? REFUSE(RPMA_MEMORY, "ibv_alloc_pd()")
				       : REFUSE(RPMA_PROVIDER, "ibv_alloc_pd()");
		free(peer);
		return code;
	}
	*peer_ptr = peer;
	return 0;
}

int rpma_peer_delete(struct rpma_peer **peer_ptr)
{
	struct rpma_peer *peer;
	int error;

	if (!peer_ptr)
		return REFUSE_NULL();
	peer = __atomic_exchange_n(peer_ptr, NULL, __ATOMIC_ACQ_REL);
	if (!peer)
		return 0;
	error = FAULT_END(ibv_dealloc_pd(peer->pd));
	free(peer);
	return error ? REFUSE_ERRNO(error, "ibv_dealloc_pd()") : 0;
}
