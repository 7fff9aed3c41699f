/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues.
 */
#include "rpma/face.h"

int rpma_srq_new(struct rpma_peer *peer, struct rpma_srq_cfg *cfg, struct rpma_srq **srq_ptr)
{
	const struct rpma_srq_cfg *wanted = cfg ? cfg : srq_cfg_default();
	struct ibv_srq_init_attr attr = {.attr.max_sge = 1};
	struct rpma_srq *srq;
	uint32_t rcq_size;
	int code = 0;

	if (!peer || !srq_ptr)
		return REFUSE_NULL();
	attr.attr.max_wr = atomic_load(&wanted->rq_size);
	rcq_size = atomic_load(&wanted->rcq_size);
	srq = FAULT_NULL(calloc(1, sizeof(*srq)));
	if (!srq)
		return REFUSE(RPMA_MEMORY, "an SRQ");
	srq->srq = FAULT_NULL(ibv_create_srq(peer->pd, &attr));
	if (!srq->srq) {
		code = REFUSE(RPMA_PROVIDER, "ibv_create_srq(%u)", attr.attr.max_wr);
		goto free_srq;
	}
	if (rcq_size)
		code = cq_new(peer->pd->context, rcq_size, NULL, &srq->rcq);
	if (code)
		goto destroy_srq;
	*srq_ptr = srq;
	return 0;
destroy_srq:
	ibv_destroy_srq(srq->srq);
free_srq:
	free(srq);
	return code;
}

int rpma_srq_delete(struct rpma_srq **srq_ptr)
{
	struct rpma_srq *srq;
	int error, code;

	if (!srq_ptr)
		return REFUSE_NULL();
	srq = __atomic_exchange_n(srq_ptr, NULL, __ATOMIC_ACQ_REL);
	if (!srq)
		return 0;
	error = FAULT_END(ibv_destroy_srq(srq->srq));
	code = error ? REFUSE_ERRNO(error, "ibv_destroy_srq()") : 0;
	code = cq_delete(&srq->rcq) ?: code;
	free(srq);
	return code;
}

int rpma_srq_recv(struct rpma_srq *srq, struct rpma_mr_local *dst, size_t offset, size_t len,
		  const void *op_context)
{
	if (!srq)
		return REFUSE_NULL();
	return post_recv(NULL, srq->srq, dst, offset, len, op_context);
}

int rpma_srq_get_rcq(const struct rpma_srq *srq, struct rpma_cq **rcq_ptr)
{
	if (!srq || !rcq_ptr)
		return REFUSE_NULL();
	*rcq_ptr = srq->rcq;
	return 0;
}
