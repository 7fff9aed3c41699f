/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions of this host.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "base/populate.h"
#include "rpma/face.h"

#define FLUSH_USAGES (RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)

enum {
	ALL_USAGES = 0xff,
	WRITTEN_USAGES = RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_RECV | RPMA_MR_USAGE_WRITE_DST
};

/*
 * What a usage needs. Flushes of a peer without the native one are reads, so to be flushed is to be
 * read. Nothing is needed to be sent, and what is written from does not change; the original asks
 * for local writes there all the same, and so would refuse memory that cannot be written.
 */
static unsigned int access_of(const struct rpma_peer *peer, int usage)
{
	unsigned int access = 0;

	if (usage & (RPMA_MR_USAGE_READ_SRC | FLUSH_USAGES))
		access |= IBV_ACCESS_REMOTE_READ;
	if (usage & WRITTEN_USAGES)
		access |= IBV_ACCESS_LOCAL_WRITE;
	if (usage & RPMA_MR_USAGE_WRITE_DST)
		access |= IBV_ACCESS_REMOTE_WRITE;
	if (usage & RPMA_MR_USAGE_READ_DST &&
	    peer->pd->context->device->transport_type == IBV_TRANSPORT_IWARP)
		access |= IBV_ACCESS_REMOTE_WRITE; /* there a read's answer is a write */
	if (peer->has_flush && usage & RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)
		access |= IBV_ACCESS_FLUSH_GLOBAL;
	if (peer->has_flush && usage & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)
		access |= IBV_ACCESS_FLUSH_PERSISTENT;
	return access;
}

int rpma_mr_reg(struct rpma_peer *peer, void *ptr, size_t size, int usage,
		struct rpma_mr_local **mr_ptr)
{
	struct rpma_mr_local *mr;
	unsigned int access;

	if (!peer || !ptr || !mr_ptr)
		return REFUSE_NULL();
	if (size == 0 || usage == 0 || usage & ~ALL_USAGES)
		return REFUSE(RPMA_VALUE, "size %zu, usage 0x%x", size, (unsigned int)usage);
	mr = FAULT_NULL(calloc(1, sizeof(*mr)));
	if (!mr)
		return REFUSE(RPMA_MEMORY, "a memory region");
	access = access_of(peer, usage);
	mr->usage = usage;
	mr->mr = FAULT_NULL(ibv_reg_mr(peer->pd, ptr, size, access));
	if (!mr->mr && errno == EOPNOTSUPP && peer->is_odp_capable) {
		mr->is_on_demand = true;
		mr->mr = FAULT_NULL(ibv_reg_mr(peer->pd, ptr, size, access | IBV_ACCESS_ON_DEMAND));
	}
	if (!mr->mr) {
		free(mr);
		return REFUSE(RPMA_PROVIDER, "ibv_reg_mr(%p, %zu, 0x%x)", ptr, size, access);
	}
	*mr_ptr = mr;
	return 0;
}

int rpma_mr_dereg(struct rpma_mr_local **mr_ptr)
{
	struct rpma_mr_local *mr;
	int error;

	if (!mr_ptr)
		return REFUSE_NULL();
	mr = __atomic_exchange_n(mr_ptr, NULL, __ATOMIC_ACQ_REL);
	if (!mr)
		return 0;
	error = FAULT_END(ibv_dereg_mr(mr->mr));
	free(mr);
	return error ? REFUSE_ERRNO(error, "ibv_dereg_mr()") : 0;
}

int rpma_mr_get_ptr(const struct rpma_mr_local *mr, void **ptr)
{
	if (!mr || !ptr)
		return REFUSE_NULL();
	*ptr = mr->mr->addr;
	return 0;
}

int rpma_mr_get_size(const struct rpma_mr_local *mr, size_t *size)
{
	if (!mr || !size)
		return REFUSE_NULL();
	*size = mr->mr->length;
	return 0;
}

/*
 * ibv_advise_mr() is for regions on demand alone. The others are pinned by an adapter of hardware,
 * and all there; ours pins nothing, and what the advice spares is a fault of the first access.
 * Without IBV_ADVISE_MR_FLAG_FLUSH nobody waits for it. 0 or an errno.
 */
static int advise_pages(const struct rpma_mr_local *mr, size_t offset, size_t len, int advice,
			uint32_t flags)
{
	bool is_write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	size_t into = ((uintptr_t)mr->mr->addr + offset) % (size_t)sysconf(_SC_PAGESIZE);
	char *start = (char *)mr->mr->addr + offset - into;

	if (advice < IBV_ADVISE_MR_ADVICE_PREFETCH ||
	    advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return EOPNOTSUPP;
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH)
		return EINVAL;
	if (offset > mr->mr->length || len > mr->mr->length - offset)
		return EFAULT;
	if (is_write && !(mr->usage & WRITTEN_USAGES))
		return EPERM;
	if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || len == 0)
		return 0;
	if (flags & IBV_ADVISE_MR_FLAG_FLUSH) {
		if (!madvise(start, into + len,
			     is_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
			return 0;
		if (errno != EINVAL) /* (a kernel that cannot populate) */
			return EFAULT;
	}
	madvise(start, into + len, MADV_WILLNEED);
	return 0;
}

static int advise_on_demand(struct rpma_mr_local *mr, size_t offset, size_t len, int advice,
			    uint32_t flags)
{
	struct ibv_sge range = {.addr = (uintptr_t)mr->mr->addr + offset,
				.length = (uint32_t)len,
				.lkey = mr->mr->lkey};

	return ibv_advise_mr(mr->mr->pd, (enum ibv_advise_mr_advice)advice, flags, &range, 1);
}

int rpma_mr_advise(struct rpma_mr_local *mr, size_t offset, size_t len, int advice, uint32_t flags)
{
	int error;

	if (!mr)
		return REFUSE_NULL();
	if (len > UINT32_MAX)
		return REFUSE(RPMA_LENGTH, "%zu bytes", len);
	error = FAULT_ERRNO(mr->is_on_demand ? advise_on_demand(mr, offset, len, advice, flags)
					     : advise_pages(mr, offset, len, advice, flags));
	if (!error)
		return 0;
	/* (EPERM: of our own PD and key, only for a region that is not written to) */
	if (error == EFAULT || error == EINVAL || error == EPERM)
		return REFUSE(RPMA_ADVICE, "advice %d, flags 0x%x, %zu bytes from %zu", advice,
			      flags, len, offset);
	if (error == EOPNOTSUPP)
		return REFUSE(RPMA_NO_ADVICE, "advice %d", advice);
	return REFUSE_ERRNO(error, "ibv_advise_mr()");
}
