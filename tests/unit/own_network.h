/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network namespace for this process alone, so that tests of sockets meet neither each other nor
 * what runs on the machine. Needs root or user namespaces; where there are neither (an ordinary
 * user in a chroot), the test program says so and ends with OWN_NETWORK_NONE, which ctest shows as
 * skipped.
 */
#ifndef TESTS_OWN_NETWORK_H
#define TESTS_OWN_NETWORK_H

#ifndef _GNU_SOURCE
#error "needs _GNU_SOURCE"
#endif
#include <net/if.h>
#include <netlink/route/link/veth.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { OWN_NETWORK_NONE = 77 };

static inline int interface_up(const char *name)
{
	struct ifreq request = {.ifr_flags = IFF_UP | IFF_MULTICAST};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), result;

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	result = ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
	return result;
}

/* A cable, veth0 to veth1, with link-local addresses that are usable at once (no duplicate address
 * detection). */
static inline bool own_cable(void)
{
	struct nl_sock *netlink = nl_socket_alloc();
	FILE *detection = fopen("/proc/sys/net/ipv6/conf/default/accept_dad", "w");
	bool is_made = detection && fputs("0", detection) >= 0;

	if (detection)
		is_made &= fclose(detection) == 0;
	is_made = is_made && netlink && nl_connect(netlink, NETLINK_ROUTE) == 0 &&
		  rtnl_link_veth_add(netlink, "veth0", "veth1", getpid()) == 0 &&
		  interface_up("veth0") == 0 && interface_up("veth1") == 0;
	nl_socket_free(netlink);
	return is_made;
}

/* An ordinary user becomes root of a user namespace: `ip` keeps its capabilities only as user 0.
 * False, and says so, if the namespace can't be had. All interfaces in it are down. */
static inline bool own_network(void)
{
	unsigned int uid = getuid();
	FILE *map;

	if (unshare(CLONE_NEWNET | (uid == 0 ? 0 : CLONE_NEWUSER)) < 0) {
		perror("SKIPPED: needs a network namespace of its own, so root or user namespaces");
		return false;
	}
	if (uid == 0)
		return true;
	map = fopen("/proc/self/uid_map", "w");
	return map && fprintf(map, "0 %u 1", uid) > 0 && fclose(map) == 0;
}

#endif
