/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: a memfd for each allocation, so that other processes can map what they are given.
 * Offsets and lengths of copies are multiples of 4, as on ConnectX, whose programs know it so.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/pd.h"
#include "verbs/face.h"
#include "verbs/memory.h"
#include "verbs/share.h"

enum {
	MAX_LOG_ALIGN = 30,
	UNIT = 4,
	ACCESS_ALLOWED = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND |
			 IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_OPTIONAL_RANGE,
};

static int check_attr(const struct ibv_alloc_dm_attr *attr)
{
	if (attr->comp_mask || !attr->length || attr->log_align_req > MAX_LOG_ALIGN)
		return refuse(REASON_DM_ATTR, "length %zu, log_align_req %u, comp_mask %#x",
			      attr->length, attr->log_align_req, attr->comp_mask);
	if (attr->length > MAX_DM_SIZE)
		return refuse(REASON_DM_SIZE, "%zu bytes; max_dm_size is %u", attr->length,
			      MAX_DM_SIZE);
	return 0;
}

/* The device has so much and no more. */
static int take_room(struct adapter *adapter, size_t length)
{
	unsigned long used = atomic_fetch_add(&adapter->dm_bytes, length);

	if (used + length <= MAX_DM_SIZE)
		return 0;
	atomic_fetch_sub(&adapter->dm_bytes, length);
	return refuse(REASON_DM_FULL, "%zu bytes; %lu of %u are in use", length, used, MAX_DM_SIZE);
}

static int check_copy(const struct dm_memory *memory, uint64_t offset, size_t length)
{
	if (offset > memory->size || length > memory->size - offset)
		return refuse(REASON_DM_RANGE, "%zu bytes at %llu of %zu", length,
			      (unsigned long long)offset, memory->size);
	if (offset % UNIT || length % UNIT)
		return refuse(REASON_DM_ALIGNMENT, "%zu bytes at %llu", length,
			      (unsigned long long)offset);
	return 0;
}

static int memcpy_to_dm(struct ibv_dm *ibv, uint64_t offset, const void *host_addr, size_t length)
{
	struct dm_memory *memory = dm_of(ibv)->memory;
	int ret = check_copy(memory, offset, length);

	if (!ret)
		memcpy(memory->memfd.place + offset, host_addr, length);
	return verb_result(ret);
}

static int memcpy_from_dm(void *host_addr, struct ibv_dm *ibv, uint64_t offset, size_t length)
{
	const struct dm_memory *memory = dm_of(ibv)->memory;
	int ret = check_copy(memory, offset, length);

	if (!ret)
		memcpy(host_addr, memory->memfd.place + offset, length);
	return verb_result(ret);
}

/* ---- memory and handles ---- */

static void memory_drop(struct dm_memory *memory)
{
	if (atomic_fetch_sub(&memory->handles, 1) > 1)
		return;
	memfd_unmap(&memory->memfd);
	if (memory->counted)
		atomic_fetch_sub(&memory->counted->dm_bytes, memory->size);
	free(memory);
}

static int no_memory(int error, size_t length)
{
	return refuse(error == -EMFILE || error == -ENFILE ? REASON_NO_EVENT_FD : REASON_NO_MEMORY,
		      "for %zu bytes of device memory", length);
}

static struct dm_memory *memory_create(struct adapter *adapter, size_t length, size_t alignment)
{
	struct dm_memory *memory = calloc(1, sizeof(*memory));
	int ret = memory ? memfd_create_mapped(&memory->memfd, "verbatim-dm", length, alignment)
			 : -ENOMEM;

	if (ret) {
		free(memory);
		errno = no_memory(ret, length);
		return NULL;
	}
	memory->size = length;
	memory->counted = adapter;
	atomic_init(&memory->handles, 1);
	return memory;
}

struct dm_memory *dm_memory_of(int fd, size_t size)
{
	struct dm_memory *memory = calloc(1, sizeof(*memory));
	int ret = memory ? memfd_map(&memory->memfd, fd, size) : -ENOMEM;

	if (ret) {
		close(fd);
		free(memory);
		errno = ret == -EINVAL ? refuse(REASON_IMPORT_MEMORY, "%zu bytes", size)
				       : no_memory(ret, size);
		return NULL;
	}
	memory->size = size;
	atomic_init(&memory->handles, 1);
	return memory;
}

static void list(struct dm *dm)
{
	struct share_entry entry = {.kind = SHARE_DM,
				    .handle = dm->ibv.handle,
				    .length = dm->memory->size,
				    .fd = dm->memory->memfd.fd,
				    .inode = dm->memory->memfd.inode};

	dm->shared = share_add(context_of(dm->ibv.context)->share, &entry, dm);
}

struct ibv_dm *dm_handle(struct ibv_context *context, struct dm_memory *memory, uint32_t handle)
{
	struct dm *dm = calloc(1, sizeof(*dm));

	if (!dm) {
		memory_drop(memory);
		errno = refuse(REASON_NO_MEMORY, "for device memory");
		return NULL;
	}
	dm->memory = memory;
	dm->ibv.context = context;
	dm->ibv.memcpy_to_dm = memcpy_to_dm;
	dm->ibv.memcpy_from_dm = memcpy_from_dm;
	dm->ibv.comp_mask = IBV_DM_MASK_HANDLE;
	dm->ibv.handle = handle;
	list(dm);
	atomic_fetch_add(&context_of(context)->objects, 1);
	return &dm->ibv;
}

static struct ibv_dm *alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	UNCANCELLED;
	struct adapter *adapter = context_of(context)->adapter;
	struct dm_memory *memory;
	int ret = check_attr(attr);

	if (!ret)
		ret = take_room(adapter, attr->length);
	if (ret) {
		errno = ret;
		return NULL;
	}
	memory = memory_create(adapter, attr->length, (size_t)1 << attr->log_align_req);
	if (!memory) {
		atomic_fetch_sub(&adapter->dm_bytes, attr->length);
		return NULL;
	}
	return dm_handle(context, memory, atomic_fetch_add(&adapter->last_handle, 1) + 1);
}

static int free_dm(struct ibv_dm *ibv)
{
	UNCANCELLED;
	struct context *context = context_of(ibv->context);
	struct dm *dm = dm_of(ibv);
	unsigned int users = atomic_load(&dm->users);

	if (users)
		return verb_result(refuse(REASON_DM_BUSY, "%u regions", users));
	share_remove(context->share, dm->shared);
	memory_drop(dm->memory);
	atomic_fetch_sub(&context->objects, 1);
	free(dm);
	return 0;
}

void dm_let_go(struct dm *dm)
{
	atomic_fetch_sub(&dm->users, 1);
}

/* ---- regions ---- */

static int check_region(const struct ibv_pd *pd, const struct dm *dm, uint64_t offset,
			size_t length, unsigned int access)
{
	if (pd->context != dm->ibv.context)
		return refuse(REASON_MR_OTHER_CONTEXT, "PD %u", pd->handle);
	if (!(access & IBV_ACCESS_ZERO_BASED) || access & ~(unsigned int)ACCESS_ALLOWED)
		return refuse(REASON_DM_ACCESS, "access is %#x", access);
	if (offset > dm->memory->size || length > dm->memory->size - offset)
		return refuse(REASON_DM_MR_RANGE, "%zu bytes at %llu of %zu", length,
			      (unsigned long long)offset, dm->memory->size);
	return 0;
}

/* Its addresses count from 0, which is dm_offset. */
static struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibv, uint64_t offset,
				size_t length, unsigned int access)
{
	UNCANCELLED;
	struct dm *dm = dm_of(ibv);
	struct mr_memory memory = {.dm = dm};
	struct ibv_mr *mr;
	int ret = check_region(pd, dm, offset, length, access);

	if (ret) {
		errno = ret;
		return NULL;
	}
	atomic_fetch_add(&dm->users, 1);
	mr = memory_register(pd, dm->memory->memfd.place + offset, length, 0, access, &memory);
	if (mr)
		mr->addr = NULL; /* the processor's address is nobody's business */
	else
		dm_let_go(dm);
	return mr;
}

int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	UNCANCELLED;

	return memfd_export(&dm_of(dm)->memory->memfd);
}

void context_set_dm_ops(struct verbs_context *verbs)
{
	verbs->alloc_dm = alloc_dm;
	verbs->free_dm = free_dm;
	verbs->reg_dm_mr = reg_dm_mr;
	verbs->dm_export_dmabuf_fd = ibv_dm_export_dmabuf_fd;
}
