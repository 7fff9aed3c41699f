/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The machine's network interfaces, as a device sees them: those that are up and have an address.
 * Asked of the kernel by rtnetlink; a second netlink socket tells when to ask again. Order: by
 * interface index, loopback last.
 */
#ifndef ENGINE_NETDEV_H
#define ENGINE_NETDEV_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "device/limits.h"

struct netdev {
	char name[16];
	uint32_t ifindex;
	bool is_loopback;
	bool has_carrier;
	uint32_t mtu;
	uint64_t speed_mbps; /* 0 where the driver doesn't say */
	uint64_t guid; /* network order; EUI-64 of the MAC, or made up, stable for this machine */
	int gid_count;
	union ibv_gid gids[MAX_GIDS]; /* an IPv6 link-local one first, then IPv4, then other IPv6 */
};

/* Allocates the list; free(). The number of interfaces or -errno. */
int netdev_list(struct netdev **list);

/* NULL if it is not (any more) in the list. */
const struct netdev *netdev_find(const struct netdev *list, int count, uint32_t ifindex);

/* Around each use of libnl: nobody is in there when the program forks. */
void netdev_enter_libnl(void);
void netdev_leave_libnl(void);

/* A non-blocking descriptor that becomes readable on changes of links and addresses, or -errno. */
int netdev_watch_open(void);

/* Reads away what it has to say. */
void netdev_watch_drain(int fd);

#endif
