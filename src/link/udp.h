/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP link of one lane: RoCEv2 packets over ordinary UDP sockets, with exact ICRC.
 *
 * Out: packets are staged contiguously as the transport writes them (struct outbox);
 * udp_link_flush() gives each run of equal size and destination its ICRCs and sends it as one
 * segmented send. Sockets that send are unconnected with DF, so that the kernel's IPv4 ID is 0, 1,
 * 2 … over the segments and the ICRC right; one for each local address, opened when first used. In:
 * udp_receive() drains a socket that the engine owns, splits GRO batches, checks ICRCs.
 *
 * All under the lane's lock. Nothing here waits. A full send buffer (EAGAIN, which is how a slow
 * wire slows us) keeps what is staged for the next flush, and then the outbox has no room; what
 * fails otherwise is dropped and counted: loss is normal.
 */
#ifndef LINK_UDP_H
#define LINK_UDP_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "transport/packet.h"
#include "wire/headers.h" /* ROCE_PORT */

struct udp_link;

/* Relaxed counters; read by anybody. */
struct udp_counters {
	uint64_t sent_packets, sent_bytes, sends, send_drops;
	uint64_t received_packets, received_bytes, receives, bad_icrc, malformed;
};

/* `lane` goes into each packet that it delivers. 0 or -errno. */
int udp_link_open(uint8_t lane, struct udp_link **link);
void udp_link_close(struct udp_link *link);

/* Sends to anybody by one socket of each address (udp_path.c has the others). */
void udp_link_without_paths(struct udp_link *link);

/* In the child of a fork, whose parent goes on with it: closes our copies of the descriptors, and
 * touches nothing else. */
void udp_link_abandon(struct udp_link *link);

/*
 * Packets reserved here are sent by the next flush, or before it when the stage is full. False if
 * some wait for room in a socket: flush again in some tens of microseconds.
 */
struct outbox *udp_link_outbox(struct udp_link *link);
bool udp_link_flush(struct udp_link *link);

/* Which interface a local address lives on: needed for link-local scope and multicast. The engine
 * tells when it opens. */
void udp_link_set_interface(struct udp_link *link, const union ibv_gid *sgid, uint32_t ifindex);

/*
 * Traffic within a host: a process has sockets of its own beside the group on port 4791, on ports
 * that follow from the QP number alone, so nothing has to pick a socket and nothing is misrouted.
 * The ICRC is that of port 4791 all the same.
 *
 * udp_near_port() is where a local QP listens; udp_socket_bind_near() makes such a socket, with the
 * options of the others; udp_link_set_near() says that all who own an address have them, so that
 * packets to it go there.
 */
enum { NEAR_PORT_BASE = 61440, NEAR_PORTS = 4 }; /* of each slot; above the ephemeral range */

/*
 * Source ports. A link that sends much to one lane of one process, of this host or another, has a
 * path there: a socket of its own, connected (udp_path.c). Its port is one of these, so who
 * receives knows that what comes from there is most likely all for one lane.
 */
enum { SOURCE_PORT_BASE = 49152, PATH_PORT_BASE = 57344 /* and up to NEAR_PORT_BASE */ };

static inline bool udp_is_path_port(uint16_t port)
{
	return port >= PATH_PORT_BASE && port < NEAR_PORT_BASE;
}

uint16_t udp_near_port(uint32_t qpn);
int udp_socket_bind_near(const union ibv_gid *address, uint32_t ifindex, uint16_t port);
void udp_link_set_near(struct udp_link *link, const union ibv_gid *sgid);

/*
 * A receiving socket for a local address (or a multicast group on an interface), port 4791,
 * non-blocking, close-on-exec: options set (GRO, TOS and TTL told, zero checksums taken on IPv6,
 * large buffer), not yet bound for the group case of SO_REUSEPORT: `reuse` sets that before the
 * bind. The descriptor or -errno.
 */
int udp_socket_bind(const union ibv_gid *address, uint32_t ifindex, bool reuse);
int udp_socket_join(const union ibv_gid *group, uint32_t ifindex);

/*
 * A receiving socket of the address and one of its ports, for what the peer sends from his alone,
 * which then comes by no other. Others on this port, whatever their address, have to allow
 * SO_REUSEPORT meanwhile: those of the group do, and those on near ports are let by
 * udp_socket_share(). Disconnecting: nothing more comes for the address; what has come can be
 * received, and then the socket is to be closed. Hop limits and flow labels are not told, which
 * only UD gives to programs, as each costs the kernel 0.1 us.
 *
 * One that `is_terse` tells nothing but bytes, one packet at a time, and is for
 * udp_receive_terse(), until it is made as the others by udp_socket_tell(): at any moment, as
 * packets that are not merged can be taken in by both.
 */
int udp_socket_connect(const union ibv_gid *address, uint32_t ifindex, uint16_t port,
		       const union ibv_gid *peer, uint16_t peer_port, bool is_terse);
void udp_socket_share(int fd, bool is_shared);
void udp_socket_tell(int fd, const union ibv_gid *address);
void udp_socket_disconnect(int fd);

/* What the kernel granted as receive buffer: roughly the bytes of packets that fit. 0 if it can't
 * be told. */
uint32_t udp_socket_buffer(int fd);

typedef void (*udp_deliver)(const struct packet *packet, void *data);

/* From now on `deliver` gets rows of packets under a seal as well, where that pays, and those that
 * it does not open once more, checked. */
void udp_link_offer(struct udp_link *link);

/*
 * One recvmmsg() worth of packets from `fd`, whose local address is `dgid`. The number of packets
 * taken in, those that were dropped for their ICRC included, 0 when there was nothing: the caller
 * decides on rounds and fairness. `deliver` may use the outbox, and must not receive from the same
 * link.
 */
int udp_receive(struct udp_link *link, int fd, const union ibv_gid *dgid, udp_deliver deliver,
		void *data);

/* The same from a terse socket, which is connected to the peer's port: one packet at most. */
int udp_receive_terse(struct udp_link *link, int fd, const union ibv_gid *dgid,
		      const union ibv_gid *peer, uint16_t port, udp_deliver deliver, void *data);

/* How many calls have sent something. Any thread. */
uint64_t udp_link_sends(const struct udp_link *link);

void udp_link_counters(const struct udp_link *link, struct udp_counters *counters);

#endif
