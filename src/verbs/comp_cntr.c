/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters, which a program reads and sets whenever it likes. Reading makes no progress:
 * the lanes' threads do.
 */
#include "device/comp_cntr.h"
#include "verbs/face.h"

int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
			      size_t caps_size)
{
	const struct ibv_comp_cntr_caps full = {
	    .max_value = UINT64_MAX,
	    .max_counters = MAX_COMP_CNTR,
	    .supported_qp_attach_ops = COMP_CNTR_ALL,
	};

	memset(caps, 0, caps_size);
	memcpy(caps, &full, caps_size < sizeof(full) ? caps_size : sizeof(full));
	return 0;
}

struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *ibv,
					   struct ibv_comp_cntr_init_attr *attr)
{
	struct context *context = context_of(ibv);
	struct comp_cntr *cntr;
	int ret = comp_cntr_create(context->adapter, attr, &cntr);

	if (ret) {
		errno = ret;
		return NULL;
	}
	cntr->ibv.context = ibv;
	atomic_fetch_add(&context->objects, 1);
	return &cntr->ibv;
}

int ibv_destroy_comp_cntr(struct ibv_comp_cntr *ibv)
{
	struct context *context = context_of(ibv->context);
	int ret = comp_cntr_destroy(comp_cntr_of(ibv));

	if (!ret)
		atomic_fetch_sub(&context->objects, 1);
	return verb_result(ret);
}

int ibv_set_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t value)
{
	atomic_store(&comp_cntr_of(ibv)->done, value);
	return 0;
}

int ibv_set_err_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t value)
{
	atomic_store(&comp_cntr_of(ibv)->failed, value);
	return 0;
}

int ibv_inc_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t amount)
{
	atomic_fetch_add(&comp_cntr_of(ibv)->done, amount);
	return 0;
}

int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t amount)
{
	atomic_fetch_add(&comp_cntr_of(ibv)->failed, amount);
	return 0;
}

int ibv_read_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t *value)
{
	*value = atomic_load_explicit(&comp_cntr_of(ibv)->done, memory_order_acquire);
	return 0;
}

int ibv_read_err_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t *value)
{
	*value = atomic_load_explicit(&comp_cntr_of(ibv)->failed, memory_order_acquire);
	return 0;
}

int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *cntr,
			    struct ibv_qp_attach_comp_cntr_attr *attr)
{
	UNCANCELLED;

	return verb_result(engine_attach_comp_cntr(real_qp(qp), comp_cntr_of(cntr), attr));
}
