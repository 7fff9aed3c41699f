/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues. One is armed from its first moment on, and armed anew by each wait, before the
 * completions that it woke for are taken: so none is missed, and a wake may find nothing.
 */
#include <limits.h>

#include "rpma/face.h"

int cq_arm(struct ibv_cq *cq)
{
	int error = FAULT_ERRNO(ibv_req_notify_cq(cq, 0));

	return error ? REFUSE_ERRNO(error, "ibv_req_notify_cq()") : 0;
}

int cq_new(struct ibv_context *context, uint32_t size, struct ibv_comp_channel *shared,
	   struct rpma_cq **cq_ptr)
{
	struct rpma_cq *cq = FAULT_NULL(calloc(1, sizeof(*cq)));
	int code;

	if (!cq)
		return REFUSE(RPMA_MEMORY, "a CQ");
	cq->is_channel_shared = shared != NULL;
	cq->channel = shared ? shared : FAULT_NULL(ibv_create_comp_channel(context));
	if (!cq->channel) {
		code = REFUSE(RPMA_PROVIDER, "ibv_create_comp_channel()");
		goto free_cq;
	}
	cq->cq = FAULT_NULL(
	    ibv_create_cq(context, size > INT_MAX ? INT_MAX : (int)size, NULL, cq->channel, 0));
	if (!cq->cq) {
		code = REFUSE(RPMA_PROVIDER, "ibv_create_cq(%u)", size);
		goto destroy_channel;
	}
	code = cq_arm(cq->cq);
	if (code)
		goto destroy_cq;
	*cq_ptr = cq;
	return 0;
destroy_cq:
	ibv_destroy_cq(cq->cq);
destroy_channel:
	if (!shared)
		ibv_destroy_comp_channel(cq->channel);
free_cq:
	free(cq);
	return code;
}

int cq_delete(struct rpma_cq **cq_ptr)
{
	struct rpma_cq *cq = *cq_ptr;
	int error, code = 0;

	if (!cq)
		return 0;
	*cq_ptr = NULL;
	error = FAULT_END(ibv_destroy_cq(cq->cq));
	if (error)
		code = REFUSE_ERRNO(error, "ibv_destroy_cq()");
	error = cq->is_channel_shared ? 0 : FAULT_END(ibv_destroy_comp_channel(cq->channel));
	if (error)
		code = REFUSE_ERRNO(error, "ibv_destroy_comp_channel()");
	free(cq);
	return code;
}

int rpma_cq_get_fd(const struct rpma_cq *cq, int *fd)
{
	if (!cq || !fd)
		return REFUSE_NULL();
	*fd = cq->channel->fd;
	return 0;
}

int rpma_cq_wait(struct rpma_cq *cq)
{
	struct ibv_cq *woken;
	void *context;

	if (!cq)
		return REFUSE_NULL();
	if (cq->is_channel_shared)
		return REFUSE(RPMA_SHARED_CHANNEL, "rpma_cq_wait()");
	if (FAULT_MINUS(ibv_get_cq_event(cq->channel, &woken, &context)))
		return RPMA_E_NO_COMPLETION;
	ibv_ack_cq_events(woken, 1);
	return cq_arm(woken);
}

int rpma_cq_get_wc(struct rpma_cq *cq, int num_entries, struct ibv_wc *wc, int *num_entries_got)
{
	int got;

	if (!cq || !wc || (num_entries > 1 && !num_entries_got))
		return REFUSE_NULL();
	if (num_entries < 1)
		return REFUSE(RPMA_VALUE, "num_entries %d", num_entries);
	got = FAULT_MINUS(ibv_poll_cq(cq->cq, num_entries, wc));
	if (got == 0)
		return RPMA_E_NO_COMPLETION;
	if (got < 0)
		return REFUSE_ERRNO(EIO, "ibv_poll_cq()");
	if (num_entries_got)
		*num_entries_got = got;
	return 0;
}
