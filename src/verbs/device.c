/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The list of devices. A device lives as long as a list or a context names it, and two lists name
 * the same one by the same pointer.
 */
#include <stdio.h>
#include <stdlib.h>

#include "verbs/face.h"

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static CDS_LIST_HEAD(devices);

struct device *device_of(struct ibv_device *ibv)
{
	return (struct device *)ibv;
}

void device_hold(void)
{
	pthread_mutex_lock(&devices_lock);
}

void device_release(void)
{
	pthread_mutex_unlock(&devices_lock);
}

static void put_locked(struct device *device)
{
	if (--device->refs)
		return;
	cds_list_del(&device->node);
	free(device);
}

void device_get(struct device *device)
{
	pthread_mutex_lock(&devices_lock);
	device->refs++;
	pthread_mutex_unlock(&devices_lock);
}

void device_put(struct device *device)
{
	pthread_mutex_lock(&devices_lock);
	put_locked(device);
	pthread_mutex_unlock(&devices_lock);
}

static void describe(struct ibv_device *ibv, const struct device_info *info)
{
	ibv->node_type = IBV_NODE_CA;
	ibv->transport_type = IBV_TRANSPORT_IB;
	snprintf(ibv->name, sizeof(ibv->name), "%s", info->name);
	snprintf(ibv->dev_name, sizeof(ibv->dev_name), "%s", info->dev_name);
	snprintf(ibv->dev_path, sizeof(ibv->dev_path), "/sys/class/infiniband_verbs/%s",
		 info->dev_name);
	snprintf(ibv->ibdev_path, sizeof(ibv->ibdev_path), "/sys/class/infiniband/%s", info->name);
}

/* What a device is known by stays; the rest follows its interface. */
static void refresh(struct device_info *known, const struct device_info *info)
{
	memcpy(known->netdev, info->netdev, sizeof(known->netdev));
	known->mtu = info->mtu;
	known->is_up = info->is_up;
}

struct device_info device_info(struct device *device)
{
	struct device_info info;

	pthread_mutex_lock(&devices_lock);
	info = device->info;
	pthread_mutex_unlock(&devices_lock);
	return info;
}

/* The device that is known already, or a new one; with a reference. NULL without memory. */
static struct device *find_or_add(const struct device_info *info)
{
	struct device *device;

	cds_list_for_each_entry (device, &devices, node) {
		if (device->info.ifindex != info->ifindex || device->info.guid != info->guid ||
		    strcmp(device->info.name, info->name))
			continue;
		refresh(&device->info, info);
		device->refs++;
		return device;
	}
	device = calloc(1, sizeof(*device));
	if (!device)
		return NULL;
	describe(&device->ibv, info);
	device->info = *info;
	device->refs = 1;
	cds_list_add_tail(&device->node, &devices);
	return device;
}

/* Fills list[0 .. count-1]; how many it could. */
static int fill(struct ibv_device **list, const struct device_info *infos, int count)
{
	int done;

	pthread_mutex_lock(&devices_lock);
	for (done = 0; done < count; done++) {
		struct device *device = find_or_add(&infos[done]);

		if (!device)
			break;
		list[done] = &device->ibv;
	}
	pthread_mutex_unlock(&devices_lock);
	return done;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	UNCANCELLED;
	struct device_info *infos = NULL;
	struct ibv_device **list;
	int count = engine_list_devices(&infos);

	if (num_devices)
		*num_devices = 0;
	if (count < 0) {
		errno = -count;
		return NULL;
	}
	list = calloc((size_t)count + 1, sizeof(*list));
	if (list && fill(list, infos, count) < count) {
		ibv_free_device_list(list);
		list = NULL;
	}
	free(infos);
	if (!list) {
		errno = refuse(REASON_NO_MEMORY, "for a list of %d devices", count);
		return NULL;
	}
	if (num_devices)
		*num_devices = count;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	pthread_mutex_lock(&devices_lock);
	for (struct ibv_device **device = list; *device; device++)
		put_locked(device_of(*device));
	pthread_mutex_unlock(&devices_lock);
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

/* The interface's index: no two devices have the same, and it stays. */
int ibv_get_device_index(struct ibv_device *device)
{
	return (int)device_of(device)->info.ifindex;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return device_of(device)->info.guid;
}
