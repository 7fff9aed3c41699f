/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Configurations of shared receive queues.
 */
#include "rpma/face.h"

enum { DEFAULT_SIZE = 100 };

static const struct rpma_srq_cfg default_cfg = {.rq_size = DEFAULT_SIZE, .rcq_size = DEFAULT_SIZE};

const struct rpma_srq_cfg *srq_cfg_default(void)
{
	return &default_cfg;
}

int rpma_srq_cfg_new(struct rpma_srq_cfg **cfg_ptr)
{
	struct rpma_srq_cfg *cfg;

	if (!cfg_ptr)
		return REFUSE_NULL();
	cfg = FAULT_NULL(calloc(1, sizeof(*cfg)));
	if (!cfg)
		return REFUSE(RPMA_MEMORY, "an SRQ's configuration");
	atomic_init(&cfg->rq_size, DEFAULT_SIZE);
	atomic_init(&cfg->rcq_size, DEFAULT_SIZE);
	*cfg_ptr = cfg;
	return 0;
}

int rpma_srq_cfg_delete(struct rpma_srq_cfg **cfg_ptr)
{
	if (!cfg_ptr)
		return REFUSE_NULL();
	free(__atomic_exchange_n(cfg_ptr, NULL, __ATOMIC_ACQ_REL));
	return 0;
}

int rpma_srq_cfg_set_rq_size(struct rpma_srq_cfg *cfg, uint32_t rq_size)
{
	if (!cfg)
		return REFUSE_NULL();
	atomic_store(&cfg->rq_size, rq_size);
	return 0;
}

int rpma_srq_cfg_get_rq_size(const struct rpma_srq_cfg *cfg, uint32_t *rq_size)
{
	if (!cfg || !rq_size)
		return REFUSE_NULL();
	*rq_size = atomic_load(&cfg->rq_size);
	return 0;
}

int rpma_srq_cfg_set_rcq_size(struct rpma_srq_cfg *cfg, uint32_t rcq_size)
{
	if (!cfg)
		return REFUSE_NULL();
	atomic_store(&cfg->rcq_size, rcq_size);
	return 0;
}

int rpma_srq_cfg_get_rcq_size(const struct rpma_srq_cfg *cfg, uint32_t *rcq_size)
{
	if (!cfg || !rcq_size)
		return REFUSE_NULL();
	*rcq_size = atomic_load(&cfg->rcq_size);
	return 0;
}
