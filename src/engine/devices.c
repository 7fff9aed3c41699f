/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From interfaces to devices: which there are, in which order, and their names.
 * VERBATIM_DEVICES=name=interface,... says exactly that; else all interfaces are devices, called
 * rxe0, rxe1 ... or by another VERBATIM_PREFIX.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/netdev.h"
#include "explain/reason.h"

static void fill(struct device_info *info, const struct netdev *netdev, int number)
{
	snprintf(info->dev_name, sizeof(info->dev_name), "uverbs%d", number);
	snprintf(info->netdev, sizeof(info->netdev), "%s", netdev->name);
	info->ifindex = netdev->ifindex;
	info->guid = netdev->guid;
	info->mtu = netdev->mtu;
	info->is_up = netdev->has_carrier;
}

static const struct netdev *find_name(const struct netdev *list, int count, const char *name,
				      size_t length)
{
	for (int i = 0; i < count; i++)
		if (strlen(list[i].name) == length && strncmp(list[i].name, name, length) == 0)
			return &list[i];
	return NULL;
}

/* As the setting says; what it names in vain is noted and left out. */
static int name_by_setting(const char *setting, const struct netdev *list, int count,
			   struct device_info *devices)
{
	int made = 0;

	while (*setting) {
		size_t length = strcspn(setting, ",");
		size_t name = strcspn(setting, "=,");
		const struct netdev *netdev = NULL;

		if (name < length)
			netdev = find_name(list, count, setting + name + 1, length - name - 1);
		if (netdev && name && made < count) {
			snprintf(devices[made].name, sizeof(devices[made].name), "%.*s", (int)name,
				 setting);
			fill(&devices[made], netdev, made);
			made++;
		} else if (length) {
			refuse(REASON_DEVICE_SETTING, "VERBATIM_DEVICES has %.*s", (int)length,
			       setting);
		}
		setting += length + (setting[length] == ',');
	}
	return made;
}

static int name_by_number(const struct netdev *list, int count, struct device_info *devices)
{
	const char *prefix = getenv("VERBATIM_PREFIX");

	for (int i = 0; i < count; i++) {
		snprintf(devices[i].name, sizeof(devices[i].name), "%.32s%d",
			 prefix && *prefix ? prefix : "rxe", i);
		fill(&devices[i], &list[i], i);
	}
	return count;
}

int engine_list_devices(struct device_info **devices)
{
	const char *setting = getenv("VERBATIM_DEVICES");
	struct netdev *list = NULL;
	int count = netdev_list(&list);

	*devices = NULL;
	if (count < 0) {
		refuse(REASON_NO_NETLINK, "%s", strerror(-count));
		return count;
	}
	*devices = calloc((size_t)count + 1, sizeof(**devices));
	if (!*devices) {
		free(list);
		return -refuse(REASON_NO_ENGINE_MEMORY, "list of devices");
	}
	if (count == 0)
		refuse(REASON_NO_INTERFACE, NULL);
	if (setting && *setting)
		count = name_by_setting(setting, list, count, *devices);
	else
		count = name_by_number(list, count, *devices);
	free(list);
	return count;
}
