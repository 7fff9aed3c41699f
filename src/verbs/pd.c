/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains.
 */
#include "device/pd.h"
#include "verbs/face.h"

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ibv)
{
	struct context *context = context_of(ibv);
	struct pd *pd;
	int ret = pd_create(context->adapter, &pd);

	if (ret) {
		errno = ret;
		return NULL;
	}
	pd->ibv.context = ibv;
	atomic_fetch_add(&context->objects, 1);
	return &pd->ibv;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	struct context *context = context_of(pd->context);
	int ret = pd_destroy(pd_of(pd));

	if (ret)
		return verb_result(ret);
	atomic_fetch_sub(&context->objects, 1);
	return 0;
}
