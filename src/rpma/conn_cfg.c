/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Configurations of connections. Each value is atomic; a request reads each once.
 */
#include "rpma/face.h"

enum { DEFAULT_SIZE = 10 };

static const struct rpma_conn_cfg default_cfg = {
    .timeout_ms = RPMA_DEFAULT_TIMEOUT_MS,
    .cq_size = DEFAULT_SIZE,
    .sq_size = DEFAULT_SIZE,
    .rq_size = DEFAULT_SIZE,
};

const struct rpma_conn_cfg *conn_cfg_default(void)
{
	return &default_cfg;
}

int rpma_conn_cfg_new(struct rpma_conn_cfg **cfg_ptr)
{
	struct rpma_conn_cfg *cfg;

	if (!cfg_ptr)
		return REFUSE_NULL();
	cfg = FAULT_NULL(calloc(1, sizeof(*cfg)));
	if (!cfg)
		return REFUSE(RPMA_MEMORY, "a connection's configuration");
	atomic_init(&cfg->timeout_ms, RPMA_DEFAULT_TIMEOUT_MS);
	atomic_init(&cfg->cq_size, DEFAULT_SIZE);
	atomic_init(&cfg->rcq_size, 0);
	atomic_init(&cfg->sq_size, DEFAULT_SIZE);
	atomic_init(&cfg->rq_size, DEFAULT_SIZE);
	atomic_init(&cfg->is_channel_shared, false);
	atomic_init(&cfg->srq, NULL);
	*cfg_ptr = cfg;
	return 0;
}

int rpma_conn_cfg_delete(struct rpma_conn_cfg **cfg_ptr)
{
	if (!cfg_ptr)
		return REFUSE_NULL();
	free(__atomic_exchange_n(cfg_ptr, NULL, __ATOMIC_ACQ_REL));
	return 0;
}

int rpma_conn_cfg_set_timeout(struct rpma_conn_cfg *cfg, int timeout_ms)
{
	if (!cfg)
		return REFUSE_NULL();
	if (timeout_ms < 0)
		return REFUSE(RPMA_VALUE, "timeout %d ms", timeout_ms);
	atomic_store(&cfg->timeout_ms, timeout_ms);
	return 0;
}

/* Two functions for a value: what is set is what is got. */
#define VALUE(name, member, type)                                                                  \
	int rpma_conn_cfg_set_##name(struct rpma_conn_cfg *cfg, type value)                        \
	{                                                                                          \
		if (!cfg)                                                                          \
			return REFUSE_NULL();                                                      \
		atomic_store(&cfg->member, value);                                                 \
		return 0;                                                                          \
	}                                                                                          \
	GETTER(name, member, type)

#define GETTER(name, member, type)                                                                 \
	int rpma_conn_cfg_get_##name(const struct rpma_conn_cfg *cfg, type *value)                 \
	{                                                                                          \
		if (!cfg || !value)                                                                \
			return REFUSE_NULL();                                                      \
		*value = atomic_load(&cfg->member);                                                \
		return 0;                                                                          \
	}

GETTER(timeout, timeout_ms, int)
VALUE(cq_size, cq_size, uint32_t)
VALUE(rcq_size, rcq_size, uint32_t)
VALUE(sq_size, sq_size, uint32_t)
VALUE(rq_size, rq_size, uint32_t)
VALUE(compl_channel, is_channel_shared, bool)
typedef struct rpma_srq *srq_pointer;
VALUE(srq, srq, srq_pointer)
