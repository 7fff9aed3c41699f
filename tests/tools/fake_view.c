/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A libibverbs.so.1 that has nothing but the view: two devices that no machine has, so that the
 * shim's tests know what they must see. FAKE_VIEW_FILE names a file; when it exists, one more
 * address is there.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/view.h"

#define SHOWN __attribute__((visibility("default")))

static void fill(struct view_device *device, const char *name, const char *dev_name,
		 const char *netdev)
{
	static const uint8_t link_local[16] = {0xfe, 0x80, [15] = 1};
	static const uint8_t ipv4[16] = {[10] = 0xff, 0xff, 192, 0, 2, 7};

	strcpy(device->name, name);
	strcpy(device->dev_name, dev_name);
	strcpy(device->netdev, netdev);
	strcpy(device->fw_version, "1.2.3");
	device->guid = htobe64(0x0123456789abcdef);
	device->port.state = IBV_PORT_ACTIVE;
	device->port.phys_state = 5;
	device->port.link_layer = IBV_LINK_LAYER_ETHERNET;
	device->port.active_width = 2;
	device->port.active_speed = 8;
	device->port.gid_tbl_len = 4;
	device->port.pkey_tbl_len = 2;
	device->pkey_count = 1;
	device->pkeys[0] = 0xffff;
	device->gid_count = 2;
	memcpy(device->gids[0].raw, link_local, 16);
	memcpy(device->gids[1].raw, ipv4, 16);
}

SHOWN int verbatim_view_devices(int version, struct view_device **devices)
{
	struct view_device *list = calloc(2, sizeof(*list));
	const char *file = getenv("FAKE_VIEW_FILE");

	if (version != VIEW_VERSION || !list) {
		free(list);
		return -1;
	}
	fill(&list[0], "fake0", "uverbs0", "nonesuch0");
	fill(&list[1], "fake1", "uverbs1", "lo");
	if (file && !access(file, F_OK))
		list[0].gids[2].raw[15] = 9;
	*devices = list;
	return 2;
}

SHOWN int verbatim_view_counters(int version, const char *device, struct view_counter *counters,
				 int room)
{
	static uint64_t asked;

	counters[0] = (struct view_counter){"counters", "port_xmit_data", ++asked};
	counters[1] = (struct view_counter){"hw_counters", "rcvd_pkts", 77};
	return 2;
}
