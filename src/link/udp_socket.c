/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The options that make a UDP socket fit for RoCEv2. Sending: unconnected and DF, since only then
 * the kernel's IPv4 identification is 0 (1, 2 ... over segments) and the ICRC, which covers it, can
 * be right. Receiving: merged packets (GRO), TOS and TTL told, IPv6 without UDP checksum taken,
 * since that is how kernel rxe sends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <netinet/udp.h>
#include <sys/random.h>

#include "link/udp_link.h"

#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef IPV6_FLOWINFO
#define IPV6_FLOWINFO 11
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

enum { SOURCE_PORT_MIN = 49152, SOURCE_PORTS = NEAR_PORT_BASE - SOURCE_PORT_MIN, BIND_TRIES = 64 };

struct option {
	int level, name, value;
	bool is_needed;
};

static int set_options(int fd, const struct option *options, size_t count)
{
	for (const struct option *o = options; o < options + count; o++) {
		if (setsockopt(fd, o->level, o->name, &o->value, sizeof(o->value)) < 0 &&
		    o->is_needed)
			return -errno;
	}
	return 0;
}

#define SET_OPTIONS(fd, ...)                                                                       \
	set_options(fd, (const struct option[]){__VA_ARGS__},                                      \
		    sizeof((const struct option[]){__VA_ARGS__}) / sizeof(struct option))

socklen_t udp_sockaddr_of(union udp_sockaddr *address, const union ibv_gid *gid, uint16_t port,
			  uint32_t ifindex)
{
	if (gid_is_ipv4(gid)) {
		address->in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
		memcpy(&address->in.sin_addr, gid->raw + 12, 4);
		return sizeof(address->in);
	}
	address->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
	memcpy(&address->in6.sin6_addr, gid->raw, 16);
	if (gid_is_link_local(gid) || gid_is_multicast(gid))
		address->in6.sin6_scope_id = ifindex;
	return sizeof(address->in6);
}

static int socket_open(bool is_ipv4)
{
	int fd = socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	return fd;
}

static int sender_options_ipv4(const struct udp_address *a)
{
	struct ip_mreqn interface = {.imr_ifindex = a->ifindex};

	memcpy(&interface.imr_address, a->gid.raw + 12, 4);
	if (setsockopt(a->fd, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof(interface)) < 0)
		return -errno;
	return SET_OPTIONS(a->fd, {IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO, true},
			   {IPPROTO_IP, IP_TTL, HOP_LIMIT_DEFAULT, true},
			   {IPPROTO_IP, IP_MULTICAST_TTL, HOP_LIMIT_DEFAULT, true},
			   {IPPROTO_IP, IP_MULTICAST_LOOP, 1, true});
}

static int sender_options_ipv6(const struct udp_address *a)
{
	return SET_OPTIONS(a->fd, {IPPROTO_IPV6, IPV6_V6ONLY, 1, true},
			   {IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO, true},
			   {IPPROTO_IPV6, IPV6_UNICAST_HOPS, HOP_LIMIT_DEFAULT, true},
			   {IPPROTO_IPV6, IPV6_MULTICAST_HOPS, HOP_LIMIT_DEFAULT, true},
			   {IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 1, true},
			   {IPPROTO_IPV6, IPV6_MULTICAST_IF, a->ifindex, a->ifindex != 0});
}

/* RoCEv2 wants the source port in the dynamic range (A17.9.2); which one is entropy for the
 * network. */
static int bind_to_source_port(struct udp_address *a)
{
	for (int i = 0; i < BIND_TRIES; i++) {
		union udp_sockaddr address;
		uint16_t random = 0;
		socklen_t length;

		if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
			random = getpid() + i;
		a->port = SOURCE_PORT_MIN + random % SOURCE_PORTS;
		length = udp_sockaddr_of(&address, &a->gid, a->port, a->ifindex);
		if (bind(a->fd, &address.any, length) == 0)
			return 0;
		if (errno != EADDRINUSE)
			return -errno;
	}
	return -EADDRINUSE;
}

int udp_socket_open_sender(struct udp_address *a)
{
	bool is_ipv4 = gid_is_ipv4(&a->gid);
	int error;

	a->fd = socket_open(is_ipv4);
	if (a->fd < 0)
		return a->fd;
	error = is_ipv4 ? sender_options_ipv4(a) : sender_options_ipv6(a);
	/* Nobody has a reason to write to a sending socket: there is room for next to nothing. (Not
	 * a filter that drops: a kernel frees filters one by one, and a thousand at once were seen
	 * to stall it.) */
	if (!error)
		error = SET_OPTIONS(a->fd, {SOL_SOCKET, SO_RCVBUF, 0, true},
				    {SOL_SOCKET, SO_SNDBUF, SOCKET_BUFFER, false});
	if (!error)
		error = bind_to_source_port(a);
	if (error) {
		close(a->fd);
		a->fd = -1;
	}
	return error;
}

static int receiver_options(int fd, bool is_ipv4)
{
	int error = SET_OPTIONS(fd, {SOL_SOCKET, SO_RCVBUF, SOCKET_BUFFER, false},
				{IPPROTO_UDP, UDP_GRO, 1, false});

	if (error)
		return error;
	if (is_ipv4)
		return SET_OPTIONS(fd, {IPPROTO_IP, IP_RECVTOS, 1, true},
				   {IPPROTO_IP, IP_RECVTTL, 1, true},
				   {IPPROTO_IP, IP_MULTICAST_ALL, 0, true});
	return SET_OPTIONS(
	    fd, {IPPROTO_IPV6, IPV6_V6ONLY, 1, true}, {IPPROTO_IPV6, IPV6_RECVTCLASS, 1, true},
	    {IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1, true}, {IPPROTO_IPV6, IPV6_FLOWINFO, 1, false},
	    {IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0, false}, {IPPROTO_UDP, UDP_NO_CHECK6_RX, 1, true});
}

/* A receiving socket on a port of the address; `share` is SO_REUSEPORT, SO_REUSEADDR or 0. */
static int bind_receiver(const union ibv_gid *gid, uint32_t ifindex, uint16_t port, int share)
{
	union udp_sockaddr address;
	socklen_t length = udp_sockaddr_of(&address, gid, port, ifindex);
	int fd = socket_open(gid_is_ipv4(gid)), error;

	if (fd < 0)
		return fd;
	error = receiver_options(fd, gid_is_ipv4(gid));
	if (!error && share)
		error = SET_OPTIONS(fd, {SOL_SOCKET, share, 1, true});
	if (!error && bind(fd, &address.any, length) < 0)
		error = -errno;
	if (!error)
		return fd;
	close(fd);
	return error;
}

int udp_socket_bind(const union ibv_gid *address, uint32_t ifindex, bool reuse)
{
	return bind_receiver(address, ifindex, ROCE_PORT, reuse ? SO_REUSEPORT : 0);
}

int udp_socket_bind_near(const union ibv_gid *address, uint32_t ifindex, uint16_t port)
{
	return bind_receiver(address, ifindex, port, 0);
}

static int join(int fd, const union ibv_gid *group, uint32_t ifindex)
{
	struct ip_mreqn ipv4 = {.imr_ifindex = ifindex};
	struct ipv6_mreq ipv6 = {.ipv6mr_interface = ifindex};
	int result;

	if (gid_is_ipv4(group)) {
		memcpy(&ipv4.imr_multiaddr, group->raw + 12, 4);
		result = setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &ipv4, sizeof(ipv4));
	} else {
		memcpy(&ipv6.ipv6mr_multiaddr, group->raw, 16);
		result = setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &ipv6, sizeof(ipv6));
	}
	return result < 0 ? -errno : 0;
}

/* Every member of a group gets each packet, so sockets share the address rather than take turns
 * (SO_REUSEPORT). */
int udp_socket_join(const union ibv_gid *group, uint32_t ifindex)
{
	int fd, error;

	if (!gid_is_multicast(group))
		return -EINVAL;
	fd = bind_receiver(group, ifindex, ROCE_PORT, SO_REUSEADDR);
	if (fd < 0)
		return fd;
	error = join(fd, group, ifindex);
	if (!error)
		return fd;
	close(fd);
	return error;
}

/* The kernel counts its own overhead in and says twice what was granted. */
uint32_t udp_socket_buffer(int fd)
{
	socklen_t length = sizeof(int);
	int bytes = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &length) < 0 || bytes < 0)
		return 0;
	return bytes / 2;
}
