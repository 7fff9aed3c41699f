/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions. Nothing is pinned; but a range that is not there is refused, as pinning would
 * refuse it, unless the program asked for on-demand paging.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/mr.h"
#include "device/pd.h"
#include "verbs/face.h"
#include "verbs/fault.h"
#include "verbs/memory.h"
#include "verbs/share.h"

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

/* ---- what special regions hold ---- */

void memory_let_go(struct mr_memory *memory)
{
	if (memory->mapping)
		dmabuf_unmap(memory);
	if (memory->buf)
		buf_let_go(memory->buf);
	if (memory->dm)
		dm_let_go(memory->dm);
	if (memory->dmah)
		dmah_let_go(memory->dmah);
}

static const struct memfd *memfd_of(const struct mr_memory *memory)
{
	if (memory->buf)
		return &memory->buf->memory;
	return memory->dm ? &memory->dm->memory->memfd : NULL;
}

/* What is the library's own, or a memfd, others may map; of a device's dma-buf they find that they
 * can't. */
static struct mr_file file_of(const struct mr *mr, const struct mr_memory *memory)
{
	const struct memfd *memfd = memfd_of(memory);

	if (memfd)
		return (struct mr_file){memfd->number, memfd->fd,
					(uint64_t)(mr->base - memfd->place)};
	if (memory->mapping)
		return (struct mr_file){memfd_number(), memory->dmabuf, memory->offset};
	return (struct mr_file){.number = 0};
}

/* What lies in shared memory, and where. */
static void describe_memory(const struct mr *mr, struct share_entry *entry)
{
	const struct mr_memory *memory = mr->face;
	const struct memfd *memfd = memory ? memfd_of(memory) : NULL;
	struct stat file;

	if (memfd) {
		entry->fd = memfd->fd;
		entry->inode = memfd->inode;
		entry->offset = (uint64_t)(mr->base - memfd->place);
	} else if (memory && memory->mapping && !fstat(memory->dmabuf, &file)) {
		entry->fd = memory->dmabuf;
		entry->inode = file.st_ino;
		entry->offset = memory->offset;
	} else if (!memory || !memory->mapping) {
		entry->addr = (uintptr_t)mr->base;
	}
}

static struct share_entry describe(const struct mr *mr)
{
	struct share_entry entry = {.kind = SHARE_MR,
				    .handle = mr->ibv.handle,
				    .pd_handle = mr->pd->ibv.handle,
				    .access = mr->access,
				    .lkey = mr->lkey,
				    .rkey = mr->rkey,
				    .iova = mr->iova,
				    .length = mr->length,
				    .fd = -1};

	describe_memory(mr, &entry);
	return entry;
}

static struct share *share_of(const struct mr *mr)
{
	return context_of(mr->ibv.context)->share;
}

void memory_list(struct mr *mr)
{
	struct share_entry entry = describe(mr);

	mr->shared = share_add(share_of(mr), &entry, mr);
}

static int attach(struct mr *mr, const struct mr_memory *memory)
{
	struct mr_memory *kept = malloc(sizeof(*kept));

	if (!kept)
		return refuse(REASON_NO_MEMORY, "for an MR");
	*kept = *memory;
	atomic_init(&kept->users, 1);
	mr->face = kept;
	return 0;
}

static void tell_file(struct mr *mr, const struct mr_memory *memory)
{
	struct mr_file file = file_of(mr, memory);

	if (file.number)
		mr_lies_in(mr, &file);
}

struct ibv_mr *memory_register(struct ibv_pd *pd, void *place, size_t length, uint64_t iova,
			       unsigned int access, const struct mr_memory *memory)
{
	struct mr *mr = NULL;
	int saved = errno;
	int ret = mr_create(pd_of(pd), place, length, iova, access, &mr);

	if (!ret && memory) {
		ret = attach(mr, memory);
		if (ret)
			mr_destroy(mr);
	}
	if (ret) {
		errno = ret;
		return NULL;
	}
	fault_guard();
	errno = saved;
	mr->ibv.context = pd->context;
	if (memory)
		tell_file(mr, memory);
	memory_list(mr);
	return &mr->ibv;
}

/* ---- the program's own memory ---- */

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			  unsigned int access, const struct mr_memory *memory)
{
	UNCANCELLED;
	int saved = errno;
	int ret = access & IBV_ACCESS_ON_DEMAND ? 0 : check_mapped(addr, length);

	if (ret) {
		errno = ret;
		return NULL;
	}
	errno = saved;
	return memory_register(pd, addr, length, iova, access, memory);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg(pd, addr, length, (uintptr_t)addr, (unsigned int)access, NULL);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	return reg(pd, addr, length, iova, (unsigned int)access, NULL);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	return reg(pd, addr, length, iova, access, NULL);
}

/* ---- dma-bufs, buffers, null regions ---- */

static struct ibv_mr *reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, unsigned int access, struct mr_memory *memory)
{
	struct ibv_mr *mr;
	void *place;
	int ret = dmabuf_map(fd, offset, length, access, memory, &place);

	if (ret) {
		errno = ret;
		return NULL;
	}
	mr = memory_register(pd, place, length, iova, access, memory);
	if (mr)
		mr->addr = (void *)(uintptr_t)offset; /* what programs know it by */
	else
		dmabuf_unmap(memory);
	return mr;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	UNCANCELLED;
	struct mr_memory memory = {.mapping = NULL};

	return reg_dmabuf(pd, offset, length, iova, fd, (unsigned int)access, &memory);
}

static struct ibv_mr *reg_buf(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      uint64_t iova, unsigned int access, struct mr_memory *memory)
{
	struct ibv_mr *mr;
	int ret = buf_check(buf, addr, length);

	if (ret) {
		errno = ret;
		return NULL;
	}
	memory->buf = buf;
	buf_hold(buf);
	mr = memory_register(pd, addr, length, iova, access, memory);
	if (!mr)
		buf_let_go(buf);
	return mr;
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access)
{
	UNCANCELLED;
	struct mr_memory memory = {.mapping = NULL};

	return reg_buf(pd, buf, addr, length, (uintptr_t)addr, (unsigned int)access, &memory);
}

static struct ibv_mr *alloc_null_mr(struct ibv_pd *pd)
{
	struct mr *mr;
	int ret = mr_create_null(pd_of(pd), &mr);

	if (ret) {
		errno = ret;
		return NULL;
	}
	mr->ibv.context = pd->context;
	memory_list(mr);
	return &mr->ibv;
}

/* ---- all ways in one call ---- */

static int check_attr(const struct ibv_mr_init_attr *attr)
{
	const uint64_t known = IBV_REG_MR_MASK_IOVA | IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD |
			       IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_DMAH |
			       IBV_REG_MR_MASK_BUF;
	bool has_addr = attr->comp_mask & IBV_REG_MR_MASK_ADDR;
	bool has_fd = attr->comp_mask & IBV_REG_MR_MASK_FD;
	bool has_offset = attr->comp_mask & IBV_REG_MR_MASK_FD_OFFSET;
	bool has_buf = attr->comp_mask & IBV_REG_MR_MASK_BUF;

	if (attr->comp_mask & ~known)
		return refuse(REASON_MR_EXTENSION, "comp_mask is %#llx",
			      (unsigned long long)attr->comp_mask);
	if (has_fd == has_addr || has_fd != has_offset || (has_fd && has_buf) ||
	    (has_buf && !attr->buf) || (attr->comp_mask & IBV_REG_MR_MASK_DMAH && !attr->dmah))
		return refuse(REASON_MR_SOURCE, "comp_mask is %#llx",
			      (unsigned long long)attr->comp_mask);
	return 0;
}

static struct ibv_mr *reg_any(struct ibv_pd *pd, const struct ibv_mr_init_attr *attr,
			      struct mr_memory *memory)
{
	bool has_fd = attr->comp_mask & IBV_REG_MR_MASK_FD;
	uint64_t iova = has_fd ? attr->fd_offset : (uintptr_t)attr->addr;
	unsigned int access = (unsigned int)attr->access;

	if (attr->comp_mask & IBV_REG_MR_MASK_IOVA)
		iova = attr->iova;
	if (has_fd)
		return reg_dmabuf(pd, attr->fd_offset, attr->length, iova, attr->fd, access,
				  memory);
	if (attr->comp_mask & IBV_REG_MR_MASK_BUF)
		return reg_buf(pd, attr->buf, attr->addr, attr->length, iova, access, memory);
	return reg(pd, attr->addr, attr->length, iova, access, memory->dmah ? memory : NULL);
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
	UNCANCELLED;
	struct mr_memory memory = {.mapping = NULL};
	struct ibv_mr *mr;
	int ret = check_attr(attr);

	if (ret) {
		errno = ret;
		return NULL;
	}
	if (attr->comp_mask & IBV_REG_MR_MASK_DMAH) {
		memory.dmah = (struct dmah *)attr->dmah;
		dmah_hold(memory.dmah);
	}
	mr = reg_any(pd, attr, &memory);
	if (!mr && memory.dmah)
		dmah_let_go(memory.dmah);
	return mr;
}

/* ---- anew, and the end ---- */

/* What rdma-core itself finds wrong is ERR_INPUT, what its driver would find ERR_CMD; either way
 * the region is as it was. */
static int check_rereg(const struct mr *mr, const struct mr_change *change)
{
	if (mr->face || mr->is_null || mr->origin)
		return refuse(REASON_REREG_KIND, "MR %u", mr->ibv.handle);
	if (!change->flags || (change->flags & IBV_REREG_MR_CHANGE_PD && !change->pd))
		return refuse(REASON_REREG_ARGUMENT, "flags %#x, pd %p", change->flags,
			      (const void *)change->pd);
	if (change->flags & IBV_REREG_MR_CHANGE_PD && change->pd->ibv.context != mr->ibv.context)
		return refuse(REASON_MR_OTHER_CONTEXT, "PD %u", change->pd->ibv.handle);
	return 0;
}

static int check_rereg_mapped(const struct mr *mr, const struct mr_change *change)
{
	unsigned int access =
	    change->flags & IBV_REREG_MR_CHANGE_ACCESS ? change->access : mr->access;
	bool is_moved = change->flags & IBV_REREG_MR_CHANGE_TRANSLATION;

	if (access & IBV_ACCESS_ON_DEMAND)
		return 0;
	return is_moved ? check_mapped(change->addr, change->length)
			: check_mapped(mr->base, mr->length);
}

/* The region's changes are held. */
static int rereg(struct mr *mr, const struct mr_change *change)
{
	struct share_entry entry;
	int ret = check_rereg(mr, change);

	if (!ret)
		ret = check_rereg_mapped(mr, change);
	if (!ret)
		ret = mr_change(mr, change);
	if (ret)
		return ret;
	entry = describe(mr);
	share_update(share_of(mr), mr->shared, &entry);
	return 0;
}

int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access)
{
	UNCANCELLED;
	struct mr *mr = mr_of(ibv);
	struct mr_change change = {.flags = flags,
				   .pd = pd ? pd_of(pd) : NULL,
				   .addr = addr,
				   .length = length,
				   .access = (unsigned int)access};
	int ret;

	if (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED ||
	    (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!length || !addr)) ||
	    (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS))) {
		errno = refuse(REASON_REREG_ARGUMENT, "flags %#x, addr %p, length %zu, access %#x",
			       flags, addr, length, (unsigned int)access);
		return IBV_REREG_MR_ERR_INPUT;
	}
	mr_hold_changes(mr_origin(mr));
	ret = rereg(mr, &change);
	mr_allow_changes(mr_origin(mr));
	if (ret) {
		errno = ret;
		return IBV_REREG_MR_ERR_CMD;
	}
	return 0;
}

/* The region's end, whatever handle of it this is. */
int ibv_dereg_mr(struct ibv_mr *ibv)
{
	UNCANCELLED;
	struct mr *origin = mr_origin(mr_of(ibv));
	struct mr_memory *memory = origin->face;
	int ret = mr_end(origin);

	if (ret)
		return verb_result(ret);
	share_remove(share_of(origin), origin->shared);
	origin->shared = 0;
	origin->face = NULL;
	if (memory && atomic_fetch_sub(&memory->users, 1) == 1) {
		memory_let_go(memory);
		free(memory);
	}
	mr_release(mr_of(ibv));
	return 0;
}

/* ---- what Linux never had ---- */

int verbatim_query_mr(struct ibv_mr *mr, struct verbatim_mr_attr *attr)
{
	mr_describe(mr_of(mr), attr);
	return 0;
}

static int check_shared(const struct mr *origin, const struct ibv_pd *pd)
{
	if (pd->context != origin->ibv.context)
		return refuse(REASON_MR_OTHER_CONTEXT, "PD %u", pd->handle);
	if (origin->is_null)
		return refuse(REASON_SHARED_NULL, "MR %u", origin->ibv.handle);
	if (atomic_load(&origin->is_ended))
		return refuse(REASON_SHARED_ENDED, "MR %u", origin->ibv.handle);
	return 0;
}

struct ibv_mr *verbatim_reg_shared_mr(struct ibv_mr *ibv, struct ibv_pd *pd, uint64_t iova,
				      unsigned int access)
{
	UNCANCELLED;
	struct mr *origin = mr_origin(mr_of(ibv));
	struct mr_memory *memory = origin->face;
	struct ibv_mr *mr;
	int ret = check_shared(origin, pd);

	if (ret) {
		errno = ret;
		return NULL;
	}
	mr_hold_changes(origin);
	mr = memory_register(pd, origin->base, origin->length, iova, access, NULL);
	mr_allow_changes(origin);
	if (mr && memory) {
		atomic_fetch_add(&memory->users, 1);
		mr_of(mr)->face = memory;
	}
	return mr;
}

void context_set_mr_ops(struct verbs_context *verbs)
{
	verbs->reg_mr_ex = ibv_reg_mr_ex;
	verbs->alloc_null_mr = alloc_null_mr;
}
