/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network namespace for this process alone, with its loopback up, so that tests of sockets meet
 * neither each other nor what runs on the machine. Needs root or user namespaces; where there are
 * neither, the machine's own loopback has to do.
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

/* False if it can't be had. */
static inline bool own_network(void)
{
	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
		fprintf(stderr, "no network namespace: on the machine's own loopback\n");
		return false;
	}
	if (interface_up("lo") < 0)
		perror("loopback up");
	return true;
}

#endif
