/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * infiniband/verbatim.h: what the specification has and Linux's verbs never had, and what is ours.
 */
#include <infiniband/verbatim.h>

#include "device/pd.h"
#include "verbs/face.h"

int verbatim_query_ah(struct ibv_ah *ah, struct ibv_ah_attr *attr)
{
	struct av av = ah_av(ah_of(ah));

	av_describe(&av, attr);
	return 0;
}

int verbatim_modify_ah(struct ibv_ah *ah, struct ibv_ah_attr *attr)
{
	return verb_result(ah_modify(ah_of(ah), attr));
}

int verbatim_query_cq(struct ibv_cq *ibv, struct verbatim_cq_attr *attr)
{
	struct cq *cq = cq_of(ibv);
	struct cq_status status;

	cq_query(cq, &status);
	*attr = (struct verbatim_cq_attr){
	    .entries = status.entries,
	    .completions = status.held,
	    .armed = (int)status.arm,
	    .is_overrun = status.is_overrun,
	    .moderate_count = status.moderate_count,
	    .moderate_us = status.moderate_us,
	    .users = atomic_load(&cq->users),
	};
	return 0;
}

int verbatim_set_pkeys(struct ibv_context *context, uint8_t port_num, const uint16_t *pkeys,
		       int count)
{
	UNCANCELLED;
	int ret = 0;

	if (port_num != PORT_NUMBER)
		ret = refuse(REASON_PORT_NUMBER, "port_num is %u, %s has port %u", port_num,
			     context->device->name, PORT_NUMBER);
	else if (port_set_pkeys(context_of(context)->adapter, pkeys, count))
		ret = refuse(REASON_PKEYS_SETTING, "%d keys", count);
	return verb_result(ret);
}

int verbatim_raise_event(struct ibv_context *context, const struct ibv_async_event *event)
{
	UNCANCELLED;

	return verb_result(async_raise(context_of(context), event));
}
