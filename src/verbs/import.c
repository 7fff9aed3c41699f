/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Import of a context by its cmd_fd, and of the objects in it by their handles. Within a process
 * they are further handles of the same objects. In another process a PD is known by its handle, and
 * a region or device memory is mapped there if it lies in shared memory: device memory, buffers of
 * ibv_alloc_buf(), dma-bufs, and what the program mapped MAP_SHARED itself. Its keys stay the same
 * where their place is free.
 *
 * An object ends with its destruction by any handle, or with the last handle.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "device/pd.h"
#include "verbs/face.h"
#include "verbs/memory.h"
#include "verbs/share.h"

/* ---- devices ---- */

/* By its interface: a name may be another's by now. */
static struct device *find_device(uint32_t ifindex)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct device *found = NULL;

	for (struct ibv_device **device = list; list && *device; device++)
		if ((uint32_t)ibv_get_device_index(*device) == ifindex) {
			found = device_of(*device);
			device_get(found);
			break;
		}
	if (list)
		ibv_free_device_list(list);
	return found;
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
	UNCANCELLED;
	struct context *context = NULL;
	struct device *device;
	int error;
	struct share *share = share_open(cmd_fd, &error);

	if (!share) {
		errno = error;
		return NULL;
	}
	device = find_device(share_ifindex(share));
	if (device) {
		context = context_open(device, share, cmd_fd);
		device_put(device);
	} else {
		errno = refuse(REASON_IMPORT_DEVICE, "%s", share_device(share));
	}
	if (!context) {
		share_put(share);
		return NULL;
	}
	return &context->verbs.context;
}

/* ---- protection domains ---- */

static void take_pd(void *object, void *data)
{
	struct protection **protection = data;

	*protection = ((struct pd *)object)->protection;
	protection_hold(*protection);
}

/* Another process's PD has a protection of its own here, for all imports of it. */
static struct protection *foreign_pd(const struct share *share, uint32_t handle)
{
	struct protection *protection;
	struct share_entry entry;

	if (!share || share_is_ours(share) || !share_read(share, SHARE_PD, handle, &entry))
		return NULL;
	protection = calloc(1, sizeof(*protection));
	if (protection)
		protection_hold(protection);
	return protection;
}

struct ibv_pd *ibv_import_pd(struct ibv_context *ibv, uint32_t handle)
{
	UNCANCELLED;
	struct context *context = context_of(ibv);
	struct protection *protection = NULL;
	struct pd *pd = NULL;
	int ret;

	if (!share_find(context->share, SHARE_PD, handle, take_pd, &protection))
		protection = foreign_pd(context->share, handle);
	ret = protection ? pd_import(context->adapter, protection, handle, &pd)
			 : refuse(REASON_IMPORT_HANDLE, "PD %u", handle);
	if (ret) {
		if (protection)
			protection_let_go(protection);
		errno = ret;
		return NULL;
	}
	pd->ibv.context = ibv;
	pd_share(pd);
	atomic_fetch_add(&context->objects, 1);
	return &pd->ibv;
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	ibv_dealloc_pd(pd);
}

/* ---- regions ---- */

static void take_mr(void *object, void *data)
{
	struct mr **mr = data;

	*mr = object;
	mr_hold(*mr);
}

static struct ibv_mr *import_own_mr(struct ibv_pd *pd, struct mr *origin)
{
	struct mr *mr;
	int ret = 0;

	mr_hold_changes(origin);
	if (origin->protection != pd_of(pd)->protection)
		ret = refuse(REASON_IMPORT_PD, "MR %u, PD %u", origin->ibv.handle, pd->handle);
	if (!ret)
		ret = mr_import(pd_of(pd), origin, &mr);
	mr_allow_changes(origin);
	if (ret) {
		mr_release(origin);
		errno = ret;
		return NULL;
	}
	mr->ibv.context = pd->context;
	return &mr->ibv;
}

static int map_foreign(const struct share *share, const struct share_entry *entry,
		       struct mr_memory *memory, void **place)
{
	uint64_t offset = entry->offset;
	int fd = share_open_memory(share, entry, &offset), ret;

	if (fd < 0)
		return refuse(REASON_IMPORT_MEMORY, "%llu bytes of MR %u",
			      (unsigned long long)entry->length, entry->handle);
	ret = dmabuf_map(fd, offset, entry->length, entry->access & IBV_ACCESS_LOCAL_WRITE, memory,
			 place);
	close(fd);
	return ret;
}

/* It goes by its maker's handle and keys. */
static void take_identity(struct mr *mr, struct share *share, const struct share_entry *entry)
{
	share_remove(share, mr->shared);
	mr_take_keys(mr, entry->lkey, entry->rkey);
	mr->ibv.handle = entry->handle;
	mr->ibv.addr = NULL;
	memory_list(mr);
}

static struct ibv_mr *import_foreign_mr(struct ibv_pd *pd, struct share *share, uint32_t handle)
{
	struct mr_memory memory = {.mapping = NULL};
	struct share_entry entry;
	struct ibv_mr *mr;
	void *place = NULL;
	int ret;

	if (!share || share_is_ours(share) || !share_read(share, SHARE_MR, handle, &entry))
		ret = refuse(REASON_IMPORT_HANDLE, "MR %u", handle);
	else if (entry.pd_handle != pd->handle)
		ret = refuse(REASON_IMPORT_PD, "MR %u, PD %u", handle, pd->handle);
	else
		ret = map_foreign(share, &entry, &memory, &place);
	if (ret) {
		errno = ret;
		return NULL;
	}
	mr = memory_register(pd, place, entry.length, entry.iova, entry.access, &memory);
	if (!mr) {
		dmabuf_unmap(&memory);
		return NULL;
	}
	take_identity(mr_of(mr), share, &entry);
	return mr;
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	UNCANCELLED;
	struct share *share = context_of(pd->context)->share;
	struct mr *origin = NULL;

	if (share_find(share, SHARE_MR, handle, take_mr, &origin))
		return import_own_mr(pd, origin);
	return import_foreign_mr(pd, share, handle);
}

void ibv_unimport_mr(struct ibv_mr *ibv)
{
	UNCANCELLED;
	struct mr *mr = mr_of(ibv);

	if (atomic_load(&mr_origin(mr)->handles) == 1)
		ibv_dereg_mr(ibv);
	else
		mr_release(mr);
}

/* ---- device memory ---- */

static void take_dm(void *object, void *data)
{
	struct dm_memory **memory = data;

	*memory = ((struct dm *)object)->memory;
	atomic_fetch_add(&(*memory)->handles, 1);
}

static struct dm_memory *foreign_dm(const struct share *share, uint32_t handle)
{
	struct share_entry entry;
	int fd;

	if (!share || share_is_ours(share) || !share_read(share, SHARE_DM, handle, &entry)) {
		errno = refuse(REASON_IMPORT_HANDLE, "DM %u", handle);
		return NULL;
	}
	fd = share_open_memory(share, &entry, &entry.offset);
	if (fd < 0) {
		errno = refuse(REASON_IMPORT_MEMORY, "DM %u", handle);
		return NULL;
	}
	return dm_memory_of(fd, entry.length);
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	UNCANCELLED;
	struct share *share = context_of(context)->share;
	struct dm_memory *memory = NULL;

	if (!share_find(share, SHARE_DM, handle, take_dm, &memory))
		memory = foreign_dm(share, handle);
	return memory ? dm_handle(context, memory, handle) : NULL;
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	ibv_free_dm(dm);
}
