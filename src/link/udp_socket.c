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

enum { BIND_TRIES = 64 };

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

static int sender_options_ipv4(int fd, const struct udp_address *a)
{
	struct ip_mreqn interface = {.imr_ifindex = a->ifindex};

	memcpy(&interface.imr_address, a->gid.raw + 12, 4);
	if (setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof(interface)) < 0)
		return -errno;
	return SET_OPTIONS(fd, {IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO, true},
			   {IPPROTO_IP, IP_TTL, HOP_LIMIT_DEFAULT, true},
			   {IPPROTO_IP, IP_MULTICAST_TTL, HOP_LIMIT_DEFAULT, true},
			   {IPPROTO_IP, IP_MULTICAST_LOOP, 1, true});
}

static int sender_options_ipv6(int fd, const struct udp_address *a)
{
	return SET_OPTIONS(fd, {IPPROTO_IPV6, IPV6_V6ONLY, 1, true},
			   {IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO, true},
			   {IPPROTO_IPV6, IPV6_UNICAST_HOPS, HOP_LIMIT_DEFAULT, true},
			   {IPPROTO_IPV6, IPV6_MULTICAST_HOPS, HOP_LIMIT_DEFAULT, true},
			   {IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 1, true},
			   {IPPROTO_IPV6, IPV6_MULTICAST_IF, a->ifindex, a->ifindex != 0});
}

/* RoCEv2 wants the source port in the dynamic range (A17.9.2); which one is entropy for the
 * network. */
static int bind_to_source_port(const struct udp_address *a, uint16_t first, uint16_t end,
			       struct udp_way *way)
{
	for (int i = 0; i < BIND_TRIES; i++) {
		union udp_sockaddr address;
		uint16_t random = 0;
		socklen_t length;

		if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
			random = getpid() + i;
		way->port = first + random % (end - first);
		length = udp_sockaddr_of(&address, &a->gid, way->port, a->ifindex);
		if (bind(way->fd, &address.any, length) == 0)
			return 0;
		if (errno != EADDRINUSE)
			return -errno;
	}
	return -EADDRINUSE;
}

static void way_close(struct udp_way *way)
{
	close(way->fd);
	way->fd = -1;
}

static int way_open(const struct udp_address *a, uint16_t first, uint16_t end, struct udp_way *way)
{
	bool is_ipv4 = gid_is_ipv4(&a->gid);
	int error;

	*way = (struct udp_way){.fd = socket_open(is_ipv4)};
	if (way->fd < 0)
		return way->fd;
	error = is_ipv4 ? sender_options_ipv4(way->fd, a) : sender_options_ipv6(way->fd, a);
	/* Nobody has a reason to write to a sending socket: there is room for next to nothing. (Not
	 * a filter that drops: a kernel frees filters one by one, and a thousand at once were seen
	 * to stall it.) */
	if (!error)
		error = SET_OPTIONS(way->fd, {SOL_SOCKET, SO_RCVBUF, 0, true},
				    {SOL_SOCKET, SO_SNDBUF, SOCKET_BUFFER, false});
	if (!error)
		error = bind_to_source_port(a, first, end, way);
	if (error)
		way_close(way);
	return error;
}

int udp_socket_open_sender(struct udp_address *a)
{
	return way_open(a, SOURCE_PORT_BASE, PATH_PORT_BASE, &a->way);
}

int udp_socket_open_path(const struct udp_address *from, const union ibv_gid *dgid, uint16_t port,
			 struct udp_way *way)
{
	union udp_sockaddr to;
	socklen_t length = udp_sockaddr_of(&to, dgid, port, from->ifindex);
	int error = way_open(from, PATH_PORT_BASE, NEAR_PORT_BASE, way);

	if (error)
		return error;
	if (connect(way->fd, &to.any, length) == 0) {
		way->is_connected = true;
		return 0;
	}
	error = -errno;
	way_close(way);
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

/* A receiving socket on a port of the address; it shares by SO_REUSEPORT, SO_REUSEADDR or (0) not.
 */
static int bind_receiver(const union ibv_gid *gid, uint32_t ifindex, uint16_t port, int share,
			 int also)
{
	union udp_sockaddr address;
	socklen_t length = udp_sockaddr_of(&address, gid, port, ifindex);
	int fd = socket_open(gid_is_ipv4(gid)), error;

	if (fd < 0)
		return fd;
	error = receiver_options(fd, gid_is_ipv4(gid));
	if (!error && share)
		error = SET_OPTIONS(fd, {SOL_SOCKET, share, 1, true},
				    {SOL_SOCKET, also ? also : share, 1, true});
	if (!error && bind(fd, &address.any, length) < 0)
		error = -errno;
	if (!error)
		return fd;
	close(fd);
	return error;
}

/*
 * In a group SO_REUSEADDR as well, for the moment of the bind: connected sockets have that, and not
 * SO_REUSEPORT (udp_socket_connect()). Afterwards it would let other users in.
 */
int udp_socket_bind(const union ibv_gid *address, uint32_t ifindex, bool reuse)
{
	int fd, error;

	if (!reuse)
		return bind_receiver(address, ifindex, ROCE_PORT, 0, 0);
	fd = bind_receiver(address, ifindex, ROCE_PORT, SO_REUSEPORT, SO_REUSEADDR);
	if (fd < 0)
		return fd;
	error = SET_OPTIONS(fd, {SOL_SOCKET, SO_REUSEADDR, 0, true});
	if (!error)
		return fd;
	close(fd);
	return error;
}

int udp_socket_bind_near(const union ibv_gid *address, uint32_t ifindex, uint16_t port)
{
	return bind_receiver(address, ifindex, port, 0, 0);
}

static bool is_bound_to(int fd, const union ibv_gid *gid)
{
	union udp_sockaddr address;
	socklen_t length = sizeof(address);

	if (getsockname(fd, &address.any, &length) < 0)
		return false;
	if (gid_is_ipv4(gid))
		return !memcmp(&address.in.sin_addr, gid->raw + 12, 4);
	return !memcmp(&address.in6.sin6_addr, gid->raw, 16);
}

/* Of marks and merged packets. */
static void set_telling(int fd, bool is_ipv4, int value)
{
	SET_OPTIONS(fd, {IPPROTO_UDP, UDP_GRO, value, false},
		    {is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, is_ipv4 ? IP_RECVTOS : IPV6_RECVTCLASS,
		     value, false});
}

void udp_socket_tell(int fd, const union ibv_gid *address)
{
	set_telling(fd, gid_is_ipv4(address), 1);
}

/*
 * Bound to no address, it is in nobody's way; connecting gives it one, and the kernel then puts it
 * before the sockets of the address, and in no group. So it takes nothing but what it is for, at
 * any moment. Who has SO_REUSEPORT would be taken for a group by those who are bound to the address
 * later, which then are in another one than those before.
 */
int udp_socket_connect(const union ibv_gid *address, uint32_t ifindex, uint16_t port,
		       const union ibv_gid *peer, uint16_t peer_port, bool is_terse)
{
	union ibv_gid any = *address;
	union udp_sockaddr from;
	socklen_t length = udp_sockaddr_of(&from, peer, peer_port, ifindex);
	int fd, error;

	memset(gid_is_ipv4(address) ? any.raw + 12 : any.raw, 0, gid_is_ipv4(address) ? 4 : 16);
	fd = bind_receiver(&any, 0, port, SO_REUSEPORT, SO_REUSEADDR);
	if (fd < 0)
		return fd;
	error = SET_OPTIONS(fd, {SOL_SOCKET, SO_REUSEPORT, 0, true});
	if (!error)
		error = gid_is_ipv4(address)
			    ? SET_OPTIONS(fd, {IPPROTO_IP, IP_RECVTTL, 0, true})
			    : SET_OPTIONS(fd, {IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 0, true},
					  {IPPROTO_IPV6, IPV6_FLOWINFO, 0, false});
	if (!error && is_terse)
		set_telling(fd, gid_is_ipv4(address), 0);
	if (!error && connect(fd, &from.any, length) < 0)
		error = -errno;
	if (!error && is_bound_to(fd, address))
		return fd;
	if (!error)
		error = -EADDRNOTAVAIL; /* of several, the route has another */
	close(fd);
	return error;
}

/* Else nobody else has a near port: who takes a slot before its predecessor is gone would be given
 * a part of what comes. */
void udp_socket_share(int fd, bool is_shared)
{
	SET_OPTIONS(fd, {SOL_SOCKET, SO_REUSEPORT, is_shared, false});
}

void udp_socket_disconnect(int fd)
{
	struct sockaddr nobody = {.sa_family = AF_UNSPEC};

	/* failing it would go on as it is, until it is closed */
	if (connect(fd, &nobody, sizeof(nobody)) < 0)
		return;
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
	fd = bind_receiver(group, ifindex, ROCE_PORT, SO_REUSEADDR, 0);
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
