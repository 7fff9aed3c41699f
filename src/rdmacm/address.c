/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socket addresses and what they are to RDMA: GIDs and service ids.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <string.h>

#include <infiniband/ib.h>

#include "rdmacm/face.h"

void gid_of_address(const struct sockaddr *address, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (address->sa_family == AF_INET6) {
		memcpy(gid->raw, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
	} else {
		gid->raw[10] = gid->raw[11] = 0xff;
		memcpy(gid->raw + 12, &((const struct sockaddr_in *)address)->sin_addr, 4);
	}
}

void address_of_gid(const union ibv_gid *gid, uint16_t port, struct sockaddr_storage *address)
{
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)address;
	struct sockaddr_in *sin = (struct sockaddr_in *)address;

	memset(address, 0, sizeof(*address));
	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw)) {
		sin->sin_family = AF_INET;
		sin->sin_port = htons(port);
		memcpy(&sin->sin_addr, gid->raw + 12, 4);
	} else {
		sin6->sin6_family = AF_INET6;
		sin6->sin6_port = htons(port);
		memcpy(&sin6->sin6_addr, gid->raw, 16);
	}
}

const struct sockaddr *address_plain(const struct sockaddr *address, struct sockaddr_storage *room)
{
	const struct sockaddr_ib *sib = (const struct sockaddr_ib *)address;
	union ibv_gid gid;

	if (!address || address->sa_family != AF_IB)
		return address;
	memcpy(gid.raw, &sib->sib_addr, sizeof(gid.raw));
	address_of_gid(&gid, (uint16_t)be64toh(sib->sib_sid), room);
	return (struct sockaddr *)room;
}

socklen_t address_length(const struct sockaddr *address)
{
	return address->sa_family == AF_INET	? sizeof(struct sockaddr_in)
	       : address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						: 0;
}

bool address_is_any(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
	return ((const struct sockaddr_in *)address)->sin_addr.s_addr == INADDR_ANY;
}

/* What stands where an address of IPv4 has nothing; programs take it for what it is, one of
 * loopback. */
static const unsigned char this_host[sizeof(((struct sockaddr_in *)NULL)->sin_zero)] = "anyhere";

void address_make_this_host(struct sockaddr *address)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)address;

	if (sin->sin_family == AF_INET && ntohl(sin->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET)
		memcpy(sin->sin_zero, this_host, sizeof(this_host));
}

bool address_is_this_host(const struct sockaddr *address)
{
	const struct sockaddr_in *sin = (const struct sockaddr_in *)address;

	return sin->sin_family == AF_INET &&
	       memcmp(sin->sin_zero, this_host, sizeof(this_host)) == 0 &&
	       ntohl(sin->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

__be16 *address_port(struct sockaddr *address)
{
	return address->sa_family == AF_INET6 ? &((struct sockaddr_in6 *)address)->sin6_port
					      : &((struct sockaddr_in *)address)->sin_port;
}

uint64_t service_id_of(const struct id *id, uint16_t port)
{
	return (uint64_t)id->cm.ps << 16 | port;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return *address_port(&id->route.addr.src_addr);
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return *address_port(&id->route.addr.dst_addr);
}
