/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's neighbour table, by libnl. What is not in it gets there when somebody sends: a
 * datagram to the discard port makes the kernel ask.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/vlan.h>
#include <netlink/route/neighbour.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>

#include "device/av.h"
#include "engine/neighbour.h"
#include "engine/netdev.h"
#include "explain/reason.h"

enum {
	DISCARD_PORT = 9,
	TRIES = 50,
	TRY_MS = 20,
	MAC_SIZE = 6,
	KNOWN = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP,
};

/* RFC 1112 and 2464. */
static void multicast_mac(const union ibv_gid *gid, uint8_t mac[MAC_SIZE])
{
	if (gid_is_ipv4(gid)) {
		memcpy(mac, (const uint8_t[]){0x01, 0x00, 0x5e}, 3);
		memcpy(mac + 3, gid->raw + 13, 3);
		mac[3] &= 0x7f;
	} else {
		memcpy(mac, (const uint8_t[]){0x33, 0x33}, 2);
		memcpy(mac + 2, gid->raw + 12, 4);
	}
}

static struct nl_addr *address_of(const union ibv_gid *gid)
{
	return gid_is_ipv4(gid) ? nl_addr_build(AF_INET, gid->raw + 12, 4)
				: nl_addr_build(AF_INET6, gid->raw, 16);
}

/* The router's address in place of `address`, where there is one. */
static struct nl_addr *first_hop(struct nl_sock *netlink, struct nl_addr *address)
{
	struct rtnl_route *route = NULL;
	struct nl_addr *gateway = NULL;

	if (rtnl_route_lookup(netlink, address, &route) < 0)
		return address;
	if (rtnl_route_get_nnexthops(route) > 0)
		gateway = rtnl_route_nh_get_gateway(rtnl_route_nexthop_n(route, 0));
	if (gateway) {
		nl_addr_put(address);
		address = nl_addr_clone(gateway);
	}
	rtnl_route_put(route);
	return address;
}

static bool is_own(struct nl_sock *netlink, struct nl_addr *address)
{
	struct nl_cache *cache;
	bool found = false;

	if (rtnl_addr_alloc_cache(netlink, &cache) < 0)
		return false;
	for (struct nl_object *at = nl_cache_get_first(cache); at && !found;
	     at = nl_cache_get_next(at)) {
		struct nl_addr *local = rtnl_addr_get_local((struct rtnl_addr *)at);

		found = local && nl_addr_get_len(local) == nl_addr_get_len(address) &&
			!memcmp(nl_addr_get_binary_addr(local), nl_addr_get_binary_addr(address),
				nl_addr_get_len(address));
	}
	nl_cache_free(cache);
	return found;
}

static bool find(struct nl_sock *netlink, uint32_t ifindex, struct nl_addr *address,
		 uint8_t mac[MAC_SIZE])
{
	struct rtnl_neigh *neighbour;
	struct nl_cache *cache;
	bool found = false;

	if (rtnl_neigh_alloc_cache(netlink, &cache) < 0)
		return false;
	neighbour = rtnl_neigh_get(cache, (int)ifindex, address);
	if (neighbour && rtnl_neigh_get_state(neighbour) & KNOWN &&
	    nl_addr_get_len(rtnl_neigh_get_lladdr(neighbour)) == MAC_SIZE) {
		memcpy(mac, nl_addr_get_binary_addr(rtnl_neigh_get_lladdr(neighbour)), MAC_SIZE);
		found = true;
	}
	if (neighbour)
		rtnl_neigh_put(neighbour);
	nl_cache_free(cache);
	return found;
}

static void make_kernel_ask(uint32_t ifindex, const union ibv_gid *gid)
{
	struct sockaddr_in6 to = {
	    .sin6_family = AF_INET6, .sin6_port = htons(DISCARD_PORT), .sin6_scope_id = ifindex};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), off = 0;

	if (fd < 0)
		return;
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	memcpy(&to.sin6_addr, gid, sizeof(to.sin6_addr));
	if (sendto(fd, "", 1, 0, (struct sockaddr *)&to, sizeof(to)) < 0)
		errno = 0; /* what the kernel makes of it shows in its table */
	close(fd);
}

/* Of the interface itself: its MAC, its VLAN. */
static int look_at_link(struct nl_sock *netlink, uint32_t ifindex, uint8_t mac[MAC_SIZE],
			uint16_t *vlan)
{
	struct rtnl_link *link;
	struct nl_addr *own;

	if (rtnl_link_get_kernel(netlink, (int)ifindex, NULL, &link) < 0)
		return -ENODEV;
	own = rtnl_link_get_addr(link);
	memset(mac, 0, MAC_SIZE);
	if (own && nl_addr_get_len(own) == MAC_SIZE)
		memcpy(mac, nl_addr_get_binary_addr(own), MAC_SIZE);
	*vlan = NEIGHBOUR_NO_VLAN;
	if (rtnl_link_is_vlan(link))
		*vlan = (uint16_t)rtnl_link_vlan_get_id(link);
	rtnl_link_put(link);
	return 0;
}

static int resolve(struct nl_sock *netlink, uint32_t ifindex, const union ibv_gid *gid,
		   uint8_t mac[MAC_SIZE], uint16_t *vlan)
{
	struct nl_addr *address;
	int error = look_at_link(netlink, ifindex, mac, vlan);

	if (error)
		return error;
	if (gid_is_multicast(gid)) {
		multicast_mac(gid, mac);
		return 0;
	}
	address = address_of(gid);
	if (!address)
		return -ENOMEM;
	if (!is_own(netlink, address)) {
		address = first_hop(netlink, address);
		if (!find(netlink, ifindex, address, mac))
			error = -EHOSTUNREACH;
	}
	nl_addr_put(address);
	return error;
}

/* One look; -EHOSTUNREACH when the kernel does not know yet. */
static int look(uint32_t ifindex, const union ibv_gid *gid, uint8_t mac[MAC_SIZE], uint16_t *vlan)
{
	struct nl_sock *netlink;
	int error = -EIO;

	netdev_enter_libnl();
	netlink = nl_socket_alloc();
	if (netlink && nl_connect(netlink, NETLINK_ROUTE) >= 0)
		error = resolve(netlink, ifindex, gid, mac, vlan);
	nl_socket_free(netlink);
	netdev_leave_libnl();
	return error;
}

int neighbour_resolve(uint32_t ifindex, const union ibv_gid *gid, uint8_t mac[6], uint16_t *vlan)
{
	char text[INET6_ADDRSTRLEN];
	int error = look(ifindex, gid, mac, vlan);

	for (int i = 0; i < TRIES && error == -EHOSTUNREACH; i++) {
		make_kernel_ask(ifindex, gid);
		poll(NULL, 0, TRY_MS);
		error = look(ifindex, gid, mac, vlan);
	}
	if (!error)
		return 0;
	if (error == -EIO)
		return refuse(REASON_NO_NETLINK, NULL);
	inet_ntop(AF_INET6, gid, text, sizeof(text));
	return refuse(REASON_NO_NEIGHBOUR, "%s on interface %u: %s", text, ifindex,
		      strerror(-error));
}
