/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interfaces and addresses by libnl. A change is not followed message by message: whoever watches
 * lists anew, which is rare and cannot get out of step.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>

#include "base/bytes.h"
#include "device/av.h"
#include "engine/netdev.h"

/* FNV-1a: only to spread, nothing here is secret. */
static uint64_t hash_add(uint64_t hash, const char *data, size_t length)
{
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)data[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* For an interface with no MAC: from the machine's id and the interface's name; locally
 * administered. */
static uint64_t guid_of_name(const char *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	char id[64];
	int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
	ssize_t length = -1;
	uint8_t bytes[8];

	if (fd >= 0) {
		length = read(fd, id, sizeof(id));
		close(fd);
	}
	if (length <= 0 && gethostname(id, sizeof(id)) == 0)
		length = (ssize_t)strnlen(id, sizeof(id));
	hash = hash_add(hash, id, length > 0 ? (size_t)length : 0);
	hash = hash_add(hash, name, strlen(name));
	put_be64(bytes, hash);
	bytes[0] = (bytes[0] | 2) & ~1;
	memcpy(&hash, bytes, sizeof(hash));
	return hash;
}

/* EUI-64 with the universal bit turned over, as IPv6 makes its interface identifiers (RFC 4291,
 * appendix A). */
static uint64_t guid_of_mac(const uint8_t *mac)
{
	uint8_t bytes[8] = {mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
	uint64_t guid;

	memcpy(&guid, bytes, sizeof(guid));
	return guid;
}

static uint64_t link_guid(struct rtnl_link *link)
{
	static const uint8_t none[6];
	struct nl_addr *addr = rtnl_link_get_addr(link);

	if (addr && nl_addr_get_len(addr) == sizeof(none) &&
	    memcmp(nl_addr_get_binary_addr(addr), none, sizeof(none)) != 0)
		return guid_of_mac(nl_addr_get_binary_addr(addr));
	return guid_of_name(rtnl_link_get_name(link));
}

/*
 * In Mbit/s; 0 is unknown, as it is for most virtual interfaces. By a socket, which is of our
 * network: sysfs may show another one's interfaces. The first call only tells how much the answer
 * holds beside.
 */
static uint64_t link_speed(const char *name)
{
	union {
		struct ethtool_link_settings settings;
		char room[sizeof(struct ethtool_link_settings) + 3 * INT8_MAX * sizeof(uint32_t)];
	} query = {.settings.cmd = ETHTOOL_GLINKSETTINGS};
	struct ifreq request = {.ifr_data = (void *)&query};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t speed = (uint32_t)SPEED_UNKNOWN;

	if (fd < 0)
		return 0;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (!ioctl(fd, SIOCETHTOOL, &request) && query.settings.link_mode_masks_nwords < 0) {
		query.settings.cmd = ETHTOOL_GLINKSETTINGS;
		query.settings.link_mode_masks_nwords =
		    (int8_t)-query.settings.link_mode_masks_nwords;
		if (!ioctl(fd, SIOCETHTOOL, &request))
			speed = query.settings.speed;
	}
	close(fd);
	return speed == (uint32_t)SPEED_UNKNOWN ? 0 : speed;
}

/* The place of an address in the GID table: link-local, IPv4, other IPv6. -1: not usable (yet). */
static int address_class(struct rtnl_addr *addr, union ibv_gid *gid)
{
	struct nl_addr *local = rtnl_addr_get_local(addr);

	if (!local || rtnl_addr_get_flags(addr) & (IFA_F_TENTATIVE | IFA_F_DADFAILED))
		return -1;
	memset(gid, 0, sizeof(*gid));
	if (nl_addr_get_family(local) == AF_INET && nl_addr_get_len(local) == 4) {
		gid->raw[10] = gid->raw[11] = 0xff;
		memcpy(gid->raw + 12, nl_addr_get_binary_addr(local), 4);
		return 1;
	}
	if (nl_addr_get_family(local) != AF_INET6 || nl_addr_get_len(local) != 16)
		return -1;
	memcpy(gid->raw, nl_addr_get_binary_addr(local), 16);
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80 ? 0 : 2;
}

static bool has_gid(const struct netdev *netdev, const union ibv_gid *gid)
{
	for (int i = 0; i < netdev->gid_count; i++)
		if (memcmp(&netdev->gids[i], gid, sizeof(*gid)) == 0)
			return true;
	return false;
}

static void add_addresses(struct netdev *netdev, struct nl_cache *addrs)
{
	for (int class = 0; class <= 2; class ++)
		for (struct nl_object *o = nl_cache_get_first(addrs); o; o = nl_cache_get_next(o)) {
			struct rtnl_addr *addr = (struct rtnl_addr *)o;
			union ibv_gid gid;

			if (rtnl_addr_get_ifindex(addr) == (int)netdev->ifindex &&
			    address_class(addr, &gid) == class && !has_gid(netdev, &gid) &&
			    netdev->gid_count < MAX_GIDS)
				netdev->gids[netdev->gid_count++] = gid;
		}
}

/* False if it carries no device. */
static bool describe(struct rtnl_link *link, struct nl_cache *addrs, struct netdev *netdev)
{
	unsigned int flags = rtnl_link_get_flags(link);

	memset(netdev, 0, sizeof(*netdev));
	if (!(flags & IFF_UP))
		return false;
	snprintf(netdev->name, sizeof(netdev->name), "%s", rtnl_link_get_name(link));
	netdev->ifindex = (uint32_t)rtnl_link_get_ifindex(link);
	netdev->is_loopback = flags & IFF_LOOPBACK;
	netdev->has_carrier = flags & IFF_RUNNING;
	netdev->mtu = rtnl_link_get_mtu(link);
	add_addresses(netdev, addrs);
	if (netdev->gid_count == 0)
		return false;
	netdev->guid = link_guid(link);
	netdev->speed_mbps = link_speed(netdev->name);
	return true;
}

static int compare(const void *left, const void *right)
{
	const struct netdev *a = left, *b = right;

	if (a->is_loopback != b->is_loopback)
		return a->is_loopback ? 1 : -1;
	return a->ifindex < b->ifindex ? -1 : 1;
}

static int collect(struct nl_cache *links, struct nl_cache *addrs, struct netdev **list)
{
	int count = 0;
	struct netdev *all = calloc((size_t)nl_cache_nitems(links) + 1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	for (struct nl_object *o = nl_cache_get_first(links); o; o = nl_cache_get_next(o))
		count += describe((struct rtnl_link *)o, addrs, &all[count]);
	qsort(all, (size_t)count, sizeof(*all), compare);
	*list = all;
	return count;
}

static int list_all(struct netdev **list)
{
	struct nl_sock *sock = nl_socket_alloc();
	struct nl_cache *links = NULL, *addrs = NULL;
	int result;

	if (!sock)
		return -ENOMEM;
	result = nl_connect(sock, NETLINK_ROUTE);
	if (result == 0)
		result = rtnl_link_alloc_cache(sock, AF_UNSPEC, &links);
	if (result == 0)
		result = rtnl_addr_alloc_cache(sock, &addrs);
	result = result == 0 ? collect(links, addrs, list) : -EIO;
	if (addrs)
		nl_cache_free(addrs);
	if (links)
		nl_cache_free(links);
	nl_socket_free(sock);
	return result;
}

/*
 * libnl has locks of its own, which a child would find held by a thread that it does not have, and
 * wait for ever: in exit() too, where libnl takes them. So nobody is in libnl when the program
 * forks. This lock is the last to be taken, and so first to be told of forks, before any other
 * constructor.
 */
static pthread_mutex_t in_libnl = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void)
{
	pthread_mutex_lock(&in_libnl);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&in_libnl);
}

__attribute__((constructor(101))) static void follow_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

void netdev_enter_libnl(void)
{
	pthread_mutex_lock(&in_libnl);
}

void netdev_leave_libnl(void)
{
	pthread_mutex_unlock(&in_libnl);
}

int netdev_list(struct netdev **list)
{
	int result;

	netdev_enter_libnl();
	result = list_all(list);
	netdev_leave_libnl();
	return result;
}

const struct netdev *netdev_find(const struct netdev *list, int count, uint32_t ifindex)
{
	for (int i = 0; i < count; i++)
		if (list[i].ifindex == ifindex)
			return &list[i];
	return NULL;
}

int netdev_watch_open(void)
{
	struct sockaddr_nl address = {
	    .nl_family = AF_NETLINK,
	    .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	int error;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	error = errno;
	close(fd);
	return -error;
}

/* An overrun (ENOBUFS) is news too: reading goes on. */
void netdev_watch_drain(int fd)
{
	char buffer[4096];

	while (recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT | MSG_TRUNC) > 0 || errno == ENOBUFS)
		;
}
