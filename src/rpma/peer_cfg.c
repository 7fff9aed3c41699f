/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peer configurations, and their descriptor: one byte, 1 where memory is written directly.
 */
#include "rpma/face.h"

enum { DESCRIPTOR_SIZE = 1 };

static int cfg_new(bool direct_write, struct rpma_peer_cfg **pcfg_ptr)
{
	struct rpma_peer_cfg *cfg = FAULT_NULL(calloc(1, sizeof(*cfg)));

	if (!cfg)
		return REFUSE(RPMA_MEMORY, "a peer configuration");
	atomic_init(&cfg->direct_write_to_pmem, direct_write);
	*pcfg_ptr = cfg;
	return 0;
}

int rpma_peer_cfg_new(struct rpma_peer_cfg **pcfg_ptr)
{
	return pcfg_ptr ? cfg_new(false, pcfg_ptr) : REFUSE_NULL();
}

int rpma_peer_cfg_delete(struct rpma_peer_cfg **pcfg_ptr)
{
	if (!pcfg_ptr)
		return REFUSE_NULL();
	free(__atomic_exchange_n(pcfg_ptr, NULL, __ATOMIC_ACQ_REL));
	return 0;
}

int rpma_peer_cfg_set_direct_write_to_pmem(struct rpma_peer_cfg *pcfg, bool supported)
{
	if (!pcfg)
		return REFUSE_NULL();
	atomic_store(&pcfg->direct_write_to_pmem, supported);
	return 0;
}

int rpma_peer_cfg_get_direct_write_to_pmem(const struct rpma_peer_cfg *pcfg, bool *supported)
{
	if (!pcfg || !supported)
		return REFUSE_NULL();
	*supported = atomic_load(&pcfg->direct_write_to_pmem);
	return 0;
}

int rpma_peer_cfg_get_descriptor(const struct rpma_peer_cfg *pcfg, void *desc)
{
	if (!pcfg || !desc)
		return REFUSE_NULL();
	*(uint8_t *)desc = atomic_load(&pcfg->direct_write_to_pmem);
	return 0;
}

int rpma_peer_cfg_get_descriptor_size(const struct rpma_peer_cfg *pcfg, size_t *desc_size)
{
	if (!pcfg || !desc_size)
		return REFUSE_NULL();
	*desc_size = DESCRIPTOR_SIZE;
	return 0;
}

int rpma_peer_cfg_from_descriptor(const void *desc, size_t desc_size,
				  struct rpma_peer_cfg **pcfg_ptr)
{
	if (!desc || !pcfg_ptr)
		return REFUSE_NULL();
	if (desc_size < DESCRIPTOR_SIZE)
		return REFUSE(RPMA_DESCRIPTOR, "%zu bytes, not %d", desc_size, DESCRIPTOR_SIZE);
	return cfg_new(*(const uint8_t *)desc != 0, pcfg_ptr);
}
