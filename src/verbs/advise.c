/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Advice on memory. There is no adapter's page table to fill: what prefetching can save is the
 * faults of our copies, so pages are brought into the process.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "base/populate.h"
#include "device/memory.h"
#include "device/mr.h"
#include "device/pd.h"
#include "verbs/face.h"
#include "verbs/fault.h"

/* Kernels that cannot populate: each page is touched, and nothing changed. */
static int touch(char *start, const char *end, size_t page, bool is_write)
{
	uint64_t old;

	for (char *at = start; at < end; at += page)
		if (is_write ? memory_fetch_add(at, 0, &old) : memory_load(&old, at, sizeof(old)))
			return -EFAULT;
	return 0;
}

static int populate(char *place, size_t length, bool is_write)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *start = place - (uintptr_t)place % page, *end = place + length;
	int advice = is_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
	int ret = madvise(start, (size_t)(end - start), advice) ? -errno : 0;

	if (ret == -EINVAL) {
		fault_guard();
		ret = touch(start, end, page, is_write);
	}
	return ret ? refuse(REASON_ADVICE_RANGE, "%zu bytes at %p are not all there", length,
			    (void *)place)
		   : 0;
}

/* Without IBV_ADVISE_MR_FLAG_FLUSH nobody waits for it, and nobody hears of what is not there. */
static int advise(const struct pd *pd, const struct ibv_sge *sge, enum ibv_advise_mr_advice advice,
		  bool is_flush)
{
	bool is_write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	size_t page = (size_t)sysconf(_SC_PAGESIZE), into;
	char *place;
	int ret = mr_find_for_advice(pd, sge, is_write, &place);

	if (ret || advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || !sge->length)
		return ret; /* what is present already, is present here */
	if (is_flush)
		return populate(place, sge->length, is_write);
	into = (uintptr_t)place % page;
	madvise(place - into, into + sge->length, MADV_WILLNEED);
	return 0;
}

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		     struct ibv_sge *sg_list, uint32_t num_sge)
{
	UNCANCELLED;
	int saved = errno, ret = 0;

	if ((unsigned int)advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return verb_result(refuse(REASON_ADVICE, "advice is %d", advice));
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH)
		return verb_result(refuse(REASON_ADVICE_FLAGS, "flags is %#x", flags));
	for (uint32_t i = 0; i < num_sge && !ret; i++)
		ret = advise(pd_of(pd), &sg_list[i], advice, flags & IBV_ADVISE_MR_FLAG_FLUSH);
	errno = saved;
	return verb_result(ret);
}

void context_set_advise_ops(struct verbs_context *verbs)
{
	verbs->advise_mr = advise_mr;
}
