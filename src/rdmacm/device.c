/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices, opened once for all ids and never closed, as programs count on
 * (rdma_get_devices(3)).
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/face.h"

enum { MAX_DEVICES = 64 };

static struct device devices[MAX_DEVICES];
static int count;

struct device *devices_all(int *all)
{
	*all = count;
	return devices;
}

void devices_abandon(void)
{
	memset(devices, 0, sizeof(devices));
	count = 0;
}

static uint32_t ifindex_of(struct ibv_context *context)
{
	struct ibv_gid_entry entry;

	return ibv_query_gid_ex(context, 1, 0, &entry, 0) == 0 ? entry.ndev_ifindex : 0;
}

int devices_open(void)
{
	struct ibv_device **list;

	if (count)
		return 0;
	list = ibv_get_device_list(NULL);
	if (!list)
		return errno;
	for (int i = 0; list[i] && count < MAX_DEVICES; i++) {
		devices[count].context = ibv_open_device(list[i]);
		if (devices[count].context) {
			devices[count].ifindex = ifindex_of(devices[count].context);
			count++;
		}
	}
	ibv_free_device_list(list);
	return count ? 0 : refuse(REASON_CM_NO_DEVICE, NULL);
}

static int find_gid(struct ibv_context *context, const union ibv_gid *gid)
{
	struct ibv_port_attr port;
	union ibv_gid entry;

	if (ibv_query_port(context, 1, &port))
		return -1;
	for (int i = 0; i < port.gid_tbl_len; i++)
		if (ibv_query_gid(context, 1, i, &entry) == 0 &&
		    memcmp(&entry, gid, sizeof(entry)) == 0)
			return i;
	return -1;
}

struct ibv_context *device_find(const union ibv_gid *gid, int *index)
{
	for (int i = 0; i < count; i++) {
		int found = gid ? find_gid(devices[i].context, gid) : 0;

		if (found < 0)
			continue;
		if (index)
			*index = found;
		return devices[i].context;
	}
	return NULL;
}

struct ibv_pd *device_pd(struct ibv_context *context)
{
	for (int i = 0; i < count; i++)
		if (devices[i].context == context) {
			if (!devices[i].pd)
				devices[i].pd = ibv_alloc_pd(context);
			return devices[i].pd;
		}
	errno = ENODEV;
	return NULL;
}

struct ibv_xrcd *device_xrcd(struct ibv_context *context)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask =
					      IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};

	for (int i = 0; i < count; i++)
		if (devices[i].context == context) {
			if (!devices[i].xrcd)
				devices[i].xrcd = ibv_open_xrcd(context, &attr);
			return devices[i].xrcd;
		}
	errno = ENODEV;
	return NULL;
}

struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_context **list = NULL;
	int error;

	manager_lock();
	error = devices_open();
	if (error == 0) {
		list = calloc((size_t)count + 1, sizeof(struct ibv_context *));
		for (int i = 0; list && i < count; i++)
			list[i] = devices[i].context;
	}
	if (num_devices)
		*num_devices = list ? count : 0;
	manager_unlock();
	if (error)
		errno = error;
	return list;
}

void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
