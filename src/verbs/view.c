/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices as they would describe themselves once opened, without opening them: an adapter is
 * set up by the interface's state as the engine would do it, asked, and dropped again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/adapter.h"
#include "engine/engine.h"
#include "engine/netdev.h"
#include "verbs/view.h"

_Static_assert((int)VIEW_GIDS >= (int)MAX_GIDS && (int)VIEW_PKEYS >= (int)MAX_PKEYS,
	       "the view has room for the tables");

static void fill(struct adapter *adapter, void *data)
{
	struct view_device *device = data;
	struct ibv_device_attr_ex attr;
	struct port *port = &adapter->port;

	adapter_describe(adapter, &attr);
	memcpy(device->fw_version, attr.orig_attr.fw_ver, sizeof(device->fw_version) - 1);
	device->vendor_id = attr.orig_attr.vendor_id;
	port_describe(adapter, &device->port);
	pthread_mutex_lock(&port->lock);
	device->gid_count = port->gid_count;
	memcpy(device->gids, port->gids, sizeof(port->gids));
	device->pkey_count = port->pkey_count;
	memcpy(device->pkeys, port->pkeys, sizeof(port->pkeys));
	pthread_mutex_unlock(&port->lock);
}

/* An adapter as the engine would set it up. */
static int fill_unopened(const struct device_info *info, const struct netdev *netdev,
			 struct view_device *device)
{
	static const struct adapter_host nowhere;
	struct adapter *adapter = calloc(1, sizeof(*adapter));
	int rc;

	if (!adapter)
		return -ENOMEM;
	rc = adapter_init(adapter, info->name, info->guid, 0, &nowhere, NULL);
	if (!rc) {
		port_set_link(adapter, netdev->has_carrier ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
			      netdev->mtu, netdev->speed_mbps);
		port_set_gids(adapter, netdev->gids, netdev->gid_count);
		fill(adapter, device);
		adapter_fini(adapter);
	}
	free(adapter);
	return rc;
}

/* One that this process has open tells for itself: its tables have a history. */
static int describe(const struct device_info *info, const struct netdev *netdev,
		    struct view_device *device)
{
	strcpy(device->name, info->name);
	strcpy(device->dev_name, info->dev_name);
	strcpy(device->netdev, info->netdev);
	device->guid = info->guid;
	device->netdev_mtu = netdev->mtu;
	return engine_look(info->name, fill, device) ? 0 : fill_unopened(info, netdev, device);
}

int verbatim_view_devices(int version, struct view_device **devices)
{
	struct device_info *infos = NULL;
	struct netdev *netdevs = NULL;
	struct view_device *views = NULL;
	int count, netdev_count, shown = 0, rc = 0;

	if (version != VIEW_VERSION)
		return -ENOSYS;
	count = engine_list_devices(&infos);
	netdev_count = netdev_list(&netdevs);
	if (count < 0 || netdev_count < 0) {
		rc = count < 0 ? count : netdev_count;
		goto out;
	}
	views = calloc((size_t)count + 1, sizeof(*views));
	if (!views) {
		rc = -ENOMEM;
		goto out;
	}
	for (int i = 0; i < count && !rc; i++) {
		const struct netdev *netdev = netdev_find(netdevs, netdev_count, infos[i].ifindex);

		if (netdev)
			rc = describe(&infos[i], netdev, &views[shown++]);
	}
out:
	free(netdevs);
	free(infos);
	if (rc) {
		free(views);
		return rc;
	}
	*devices = views;
	return shown;
}

int verbatim_view_counters(int version, const char *device, struct view_counter *counters, int room)
{
	struct udp_counters link;

	if (version != VIEW_VERSION)
		return -ENOSYS;
	engine_link_counters(&link);
	{
		/* port_*_data count words of four bytes, as InfiniBand's PortCounters do
		 * (16.1.3.5). */
		const struct view_counter all[] = {
		    {"counters", "port_xmit_data", link.sent_bytes / 4},
		    {"counters", "port_rcv_data", link.received_bytes / 4},
		    {"counters", "port_xmit_packets", link.sent_packets},
		    {"counters", "port_rcv_packets", link.received_packets},
		    {"counters", "port_xmit_discards", link.send_drops},
		    {"counters", "port_rcv_errors", link.bad_icrc + link.malformed},
		    {"hw_counters", "sent_pkts", link.sent_packets},
		    {"hw_counters", "rcvd_pkts", link.received_packets},
		    {"hw_counters", "rx_icrc_encapsulated", link.bad_icrc},
		};
		const int count = sizeof(all) / sizeof(all[0]);

		for (int i = 0; i < count && i < room; i++)
			counters[i] = all[i];
		return count;
	}
}
