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

/* What the kernel granted as receive buffer: roughly the bytes of packets that fit. 0 if it can't
 * be told. */
uint32_t udp_socket_buffer(int fd);

typedef void (*udp_deliver)(const struct packet *packet, void *data);

/*
 * One recvmmsg() worth of packets from `fd`, whose local address is `dgid`. The number of packets
 * taken in, those that were dropped for their ICRC included, 0 when there was nothing: the caller
 * decides on rounds and fairness. `deliver` may use the outbox, and must not receive from the same
 * link.
 */
int udp_receive(struct udp_link *link, int fd, const union ibv_gid *dgid, udp_deliver deliver,
		void *data);

/* How many calls have sent something. Any thread. */
uint64_t udp_link_sends(const struct udp_link *link);

void udp_link_counters(const struct udp_link *link, struct udp_counters *counters);

#endif
