/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions. Nothing is pinned; but a range that is not there is refused, as pinning would
 * refuse it, unless the program asked for on-demand paging.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "device/mr.h"
#include "device/pd.h"
#include "verbs/face.h"
#include "verbs/fault.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* msync() with MS_ASYNC does nothing but walk the mappings: ENOMEM where there is a hole. */
static int check_mapped(void *addr, size_t length)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
	uintptr_t start = (uintptr_t)addr & ~page;
	uintptr_t end = (uintptr_t)addr + length;

	if (!length || end < start)
		return 0;
	if (!msync((void *)start, end - start, MS_ASYNC) || errno != ENOMEM)
		return 0;
	return refuse(REASON_MR_UNMAPPED, "%zu bytes at %p", length, addr);
}

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			  unsigned int access)
{
	UNCANCELLED;
	struct mr *mr = NULL;
	int saved = errno;
	int ret = access & IBV_ACCESS_ON_DEMAND ? 0 : check_mapped(addr, length);

	if (!ret)
		ret = mr_create(pd_of(pd), addr, length, iova, access, &mr);
	if (ret) {
		errno = ret;
		return NULL;
	}
	fault_guard();
	errno = saved;
	mr->ibv.context = pd->context;
	return &mr->ibv;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	return reg(pd, addr, length, iova, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	return reg(pd, addr, length, iova, access);
}

/* What memory it is has to be said by its address; dma-bufs, handles and buffers are refused. */
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
	const uint64_t known = IBV_REG_MR_MASK_IOVA | IBV_REG_MR_MASK_ADDR;
	uint64_t iova;

	if (attr->comp_mask & ~known || !(attr->comp_mask & IBV_REG_MR_MASK_ADDR)) {
		errno = refuse(REASON_MR_EXTENSION, "comp_mask is %#llx",
			       (unsigned long long)attr->comp_mask);
		return NULL;
	}
	iova = attr->comp_mask & IBV_REG_MR_MASK_IOVA ? attr->iova : (uintptr_t)attr->addr;
	return reg(pd, attr->addr, attr->length, iova, (unsigned int)attr->access);
}

void context_set_mr_ops(struct verbs_context *verbs)
{
	verbs->reg_mr_ex = ibv_reg_mr_ex;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	UNCANCELLED;

	return verb_result(mr_destroy(mr_of(mr)));
}
