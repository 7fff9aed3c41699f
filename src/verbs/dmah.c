/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DMA handles: hints for the bus between an adapter and memory. Here there is no such bus: they are
 * checked, counted, and have nothing to do.
 */
#include <stdlib.h>
#include <unistd.h>

#include "verbs/face.h"
#include "verbs/memory.h"

enum { PH_MAX = 3 };

static int check(const struct ibv_dmah_init_attr *attr)
{
	const uint32_t known = IBV_DMAH_INIT_ATTR_MASK_CPU_ID | IBV_DMAH_INIT_ATTR_MASK_PH |
			       IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE;

	if (attr->comp_mask & ~known)
		return refuse(REASON_COMP_MASK, "comp_mask is %#x", attr->comp_mask);
	if ((attr->comp_mask & IBV_DMAH_INIT_ATTR_MASK_CPU_ID &&
	     attr->cpu_id >= (uint32_t)sysconf(_SC_NPROCESSORS_CONF)) ||
	    (attr->comp_mask & IBV_DMAH_INIT_ATTR_MASK_PH && attr->ph > PH_MAX) ||
	    (attr->comp_mask & IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE &&
	     attr->tph_mem_type > IBV_TPH_MEM_TYPE_PM))
		return refuse(REASON_DMAH_ATTR, "cpu_id %u, ph %u, tph_mem_type %u", attr->cpu_id,
			      attr->ph, attr->tph_mem_type);
	return 0;
}

struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr)
{
	struct dmah *dmah;
	int ret = check(attr);

	if (ret) {
		errno = ret;
		return NULL;
	}
	dmah = calloc(1, sizeof(*dmah));
	if (!dmah) {
		errno = refuse(REASON_NO_MEMORY, "for a DMA handle");
		return NULL;
	}
	dmah->ibv.context = context;
	atomic_fetch_add(&context_of(context)->objects, 1);
	return &dmah->ibv;
}

int ibv_dealloc_dmah(struct ibv_dmah *ibv)
{
	struct dmah *dmah = (struct dmah *)ibv;
	unsigned int users = atomic_load(&dmah->users);

	if (users)
		return verb_result(refuse(REASON_DMAH_BUSY, "%u regions", users));
	atomic_fetch_sub(&context_of(ibv->context)->objects, 1);
	free(dmah);
	return 0;
}

void dmah_hold(struct dmah *dmah)
{
	atomic_fetch_add(&dmah->users, 1);
}

void dmah_let_go(struct dmah *dmah)
{
	atomic_fetch_sub(&dmah->users, 1);
}

void context_set_dmah_ops(struct verbs_context *verbs)
{
	verbs->alloc_dmah = ibv_alloc_dmah;
	verbs->dealloc_dmah = ibv_dealloc_dmah;
}
