/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the devices look like from outside, for those who show it: the path shim, which makes a view
 * of /sys/class/infiniband of it, and `verbatim doctor`. Exported by libibverbs.so.1 for our own
 * programs of the same build (version node VERBATIM_PRIVATE), not an interface for others.
 *
 * Asking opens nothing: no slot, no socket, no thread. Hence it works where opening would not.
 */
#ifndef VERBS_VIEW_H
#define VERBS_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

enum {
	VIEW_VERSION = 1, /* raised with each change of the structs below */
	VIEW_GIDS = 256,
	VIEW_PKEYS = 64,
};

struct view_device {
	char name[64];	   /* rxe0 */
	char dev_name[64]; /* uverbs0 */
	char netdev[16];
	char fw_version[64];
	uint64_t guid; /* network order, node and system image */
	uint32_t netdev_mtu;
	uint32_t vendor_id;
	struct ibv_port_attr port;
	int gid_count, pkey_count;
	union ibv_gid gids[VIEW_GIDS]; /* zero: an empty entry */
	uint16_t pkeys[VIEW_PKEYS];
};

/* Of this process alone, and 0 while it has not opened the device. */
struct view_counter {
	const char *group; /* "counters" or "hw_counters" */
	const char *name;
	uint64_t value;
};

/*
 * The devices as ibv_get_device_list() would list them, without names of ours put on: allocates,
 * free(). Their number or -errno; -ENOSYS where the caller is of another build.
 */
int verbatim_view_devices(int version, struct view_device **devices);

/* The counters of a device: fills up to `room`, and returns how many there are, or -errno. */
int verbatim_view_counters(int version, const char *device, struct view_counter *counters,
			   int room);

#endif
