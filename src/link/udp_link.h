/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of the UDP link: what udp.c (the stage), udp_send.c, udp_receive.c and udp_socket.c share.
 * The lane's lock guards all of it; only the counters are read without.
 */
#ifndef LINK_UDP_LINK_H
#define LINK_UDP_LINK_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "device/limits.h"
#include "link/udp.h"
#include "wire/icrc.h"
#include "wire/mtu.h"
#include "wire/opcode.h"

enum {
	STAGE_BYTES = 192 << 10, /* a turn, and what others add */
	RUNS_MAX = 64,
	/* A segmented send is one datagram to the IP layer, with its headers at most 64 KiB. */
	RUN_BYTES_MAX = 65000,
	PACKET_BYTES_MAX = HEADER_BYTES_MAX + MTU_BYTES_MAX, /* without the ICRC */
	/* The kernel's UDP_MAX_SEGMENTS: 128, and 64 before it was raised. */
	SEGMENTS_MAX = 128,
	SEGMENTS_MAX_OLD = 64,

	ICRC_RUN_MIN = 8, /* packets, for a new length to pay */

	RECEIVE_BATCH = 8,
	ALONE_MAX = 2,
	SINGLES = 16,
	RECEIVE_BYTES = 64 << 10, /* a GRO batch, at most */

	HOP_LIMIT_DEFAULT = 64,
	SOCKET_BUFFER = 4 << 20,
};

/* A local address and the socket that sends from it. */
struct udp_address {
	struct udp_address *next;
	union ibv_gid gid;
	uint32_t ifindex;
	int fd;		       /* -1: not open yet */
	uint16_t port;	       /* source port, host order */
	bool is_near;	       /* its owners have sockets on near ports */
	bool no_gso;	       /* the way out refuses segmented sends but takes single ones */
	uint8_t traffic_class; /* what the socket sends where nothing is said */
};

/* Packets that lie one after the other in the stage, for one QP of one peer, of one size but for a
 * shorter last one. */
struct udp_run {
	struct udp_address *from;
	struct av av;
	uint32_t dest_qp;
	uint16_t port;	  /* UDP destination */
	uint32_t offset;  /* in the stage */
	uint32_t segment; /* bytes of each, the ICRC included */
	uint32_t last;	  /* of the last one */
	uint32_t count;
};

union udp_sockaddr {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* All that a msghdr points to. */
struct udp_message {
	union udp_sockaddr address;
	struct iovec iov;
	_Alignas(struct cmsghdr) uint8_t control[160];
};

struct udp_receiver {
	struct mmsghdr headers[RECEIVE_BATCH];
	struct udp_message messages[RECEIVE_BATCH];
	int batch;   /* how many to ask for: more while there is more */
	int alone;   /* times in a row that there was one message where two were asked for */
	int singles; /* messages that are asked for alone after that */
	uint8_t *buffers;
	struct icrc_run checking; /* as `sealing` of the link */
};

struct udp_link {
	struct outbox outbox;
	uint8_t lane;
	struct udp_address *addresses;
	struct udp_address *latest; /* found last */
	uint32_t segments_max;

	uint8_t *stage;
	uint32_t used;	       /* of the stage: end of the last run */
	struct av reserved_av; /* of the open reservation */
	uint32_t reserved;     /* its size, 0 if there is none */
	uint32_t reserved_run; /* packets of the size of the last run, that the reservation is of */
	struct udp_run runs[RUNS_MAX];
	uint32_t run_count;
	struct icrc_run sealing; /* the one before, for its length's sake */
	struct mmsghdr headers[RUNS_MAX];
	struct udp_message messages[RUNS_MAX];

	struct udp_receiver receiver;
	struct udp_counters counters;
};

static inline bool icrc_run_pays(const struct icrc_run *run, size_t length, uint32_t count)
{
	return count >= ICRC_RUN_MIN || (count > 1 && run->length == length);
}

/* There is one writer, the holder of the lane's lock. */
static inline void udp_count(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static inline bool gid_is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/* A v4-mapped GID gives an IPv4 address. ifindex is the scope of link-local and multicast ones. */
socklen_t udp_sockaddr_of(union udp_sockaddr *address, const union ibv_gid *gid, uint16_t port,
			  uint32_t ifindex);

/* A socket that sends from the address with known IPv4 identifications. 0 or -errno; sets
 * address->fd and port. */
int udp_socket_open_sender(struct udp_address *address);

/* Sends the runs; those that wait for room in a socket are left, the first of them first. True if
 * none is. */
bool udp_send_runs(struct udp_link *link);

int udp_receiver_init(struct udp_receiver *receiver);
void udp_receiver_fini(struct udp_receiver *receiver);

#endif
