/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram rsockets, inside: for each local address that is used a UD QP (an endpoint), and for
 * each peer an address handle, once it has said what its QP is. It is asked by an ordinary UDP
 * datagram to the peer's port, which carries the first message along; so messages sent before the
 * answer came go by UDP. The formats are rdma-core's.
 */
#ifndef RDMACM_RS_ENDPOINT_H
#define RDMACM_RS_ENDPOINT_H

#include <netinet/in.h>

#include "rdmacm/rs.h"

enum {
	RS_UDP_TAG = 0x55555555,
	RS_UDP_VERSION = 1,
	RS_UDP_DATA = RS_OP_DATA,
	RS_UDP_ANSWER = RS_OP_CTRL,
	RS_UDP_HEAD = 12, /* without the address */
	RS_HEAD_IPV4 = 8,
	RS_HEAD_IPV6 = 24,
	RS_GRH = 40,
	RS_MESSAGE_MAX = 4096 + RS_GRH,
	RS_DATAGRAM_QUEUE = 64, /* of each direction */
	RS_INBOX_MAX = 256,
};

union rs_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

struct rs_endpoint {
	struct cds_list_head node;
	union rs_address local; /* port 0 */
	struct rdma_cm_id *id;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buffers; /* of receives, then of sends */
	uint32_t sends;	  /* free */
	uint32_t next;	  /* send buffer */
	uint32_t mtu;
};

struct rs_peer {
	struct cds_list_head node;
	union rs_address address;
	struct rs_endpoint *endpoint;
	struct ibv_ah *ah; /* NULL: it has not answered yet */
	uint32_t qpn;
};

/* A message that waits for the program. */
struct rs_letter {
	struct cds_list_head node;
	union rs_address from;
	size_t length;
	uint8_t data[];
};

struct rs_datagram {
	int epoll; /* completion channels, and news */
	int news;  /* letters came by UDP */
	struct cds_list_head endpoints, peers, inbox;
	unsigned int inbox_count;
	union rs_address connected; /* family 0: not */
};

/* An IPv4 address in the form of an IPv6 socket, made IPv4; and back, for such a socket. */
void rs_address_in(union rs_address *address);
void rs_address_out(union rs_address *address, int domain);

/* With the lock. 0 or a positive errno. */
int rs_endpoint_find(struct rsock *rs, const union rs_address *local, struct rs_endpoint **found);
void rs_endpoint_free(struct rs_endpoint *endpoint);
void rs_endpoints_progress(struct rsock *rs);
int rs_endpoint_send(struct rs_peer *peer, const struct rsock *rs, const void *data, size_t length);
int rs_peer_find(struct rsock *rs, const union rs_address *address, struct rs_peer **found);
int rs_peer_answered(struct rsock *rs, struct rs_peer *peer, uint32_t qpn);
int rs_letter_put(struct rsock *rs, const union rs_address *from, const void *data, size_t length);

#endif
