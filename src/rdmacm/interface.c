/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What becomes of the interfaces that ids depend on. An id is told once when its interface has gone
 * (DEVICE_REMOVAL); and when the interface has another MAC, or no longer the id's own address
 * (ADDR_CHANGE). An interface that is only down is waited for.
 *
 * The kernel's messages say when to look and not what: a look compares, so it cannot get out of
 * step.
 */
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/netdev.h"
#include "rdmacm/face.h"
#include "verbs/manage.h"

static const uint64_t settle = 20 * UINT64_C(1000000); /* changes come in bursts */

static int watch_fd = -1;
static uint64_t look_at = UINT64_MAX;

struct change {
	const struct device *device;
	const struct netdev *netdev; /* NULL: it has gone */
	bool is_other;		     /* the MAC */
};

static bool has_address(const struct netdev *netdev, const union ibv_gid *gid)
{
	for (int i = 0; i < netdev->gid_count; i++)
		if (memcmp(&netdev->gids[i], gid, sizeof(*gid)) == 0)
			return true;
	return false;
}

static void tell(struct id *id, void *data)
{
	const struct change *change = data;
	bool was_stray = id->is_stray;

	if (id->cm.verbs != change->device->context || id->is_destroying)
		return;
	if (!change->netdev) {
		event_tell(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
		return;
	}
	id->is_stray = !has_address(change->netdev, &id->sgid);
	if (change->is_other || (id->is_stray && !was_stray))
		event_tell(id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
}

static void look_at_device(struct device *device, const struct netdev *netdev)
{
	struct change change = {.device = device, .netdev = netdev};
	char name[IF_NAMESIZE];

	if (device->is_gone || (!netdev && if_indextoname(device->ifindex, name)))
		return;
	device->is_gone = !netdev;
	if (netdev) {
		change.is_other = netdev->guid != device->guid;
		device->guid = netdev->guid;
	}
	ids_each(tell, &change);
}

static void look(void)
{
	struct netdev *list = NULL;
	int count, found = verbatim_cm_interfaces(&list);
	struct device *devices = devices_all(&count);

	for (int i = 0; found >= 0 && i < count; i++)
		if (devices[i].ifindex)
			look_at_device(&devices[i], netdev_find(list, found, devices[i].ifindex));
	free(list);
}

/* What they are like at the beginning. */
static void note(void)
{
	struct netdev *list = NULL;
	int count, found = verbatim_cm_interfaces(&list);
	struct device *devices = devices_all(&count);

	for (int i = 0; found >= 0 && i < count; i++) {
		const struct netdev *netdev = netdev_find(list, found, devices[i].ifindex);

		devices[i].guid = netdev ? netdev->guid : 0;
	}
	free(list);
}

int interfaces_open(void)
{
	watch_fd = verbatim_cm_watch_open();
	if (watch_fd < 0)
		return -watch_fd;
	note();
	return manager_watch(watch_fd, WATCH_INTERFACES, 0);
}

void interfaces_abandon(void)
{
	if (watch_fd >= 0)
		close(watch_fd);
	watch_fd = -1;
	look_at = UINT64_MAX;
}

void interfaces_changed(void)
{
	verbatim_cm_watch_drain(watch_fd);
	if (look_at == UINT64_MAX)
		look_at = manager_now() + settle;
}

uint64_t interfaces_run(uint64_t now)
{
	if (look_at > now)
		return look_at;
	look_at = UINT64_MAX;
	look();
	return look_at;
}
