/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_xsrq_pingpong: a server bounces messages with one or more clients over XRC. Each client is
 * reached by two QPs, one for each direction; what comes in lands in the one XRC SRQ that either
 * side has. With several clients the server sends to a client's SRQ by the QPs of the others as
 * well, which works where those clients share one XRC domain.
 */
#ifndef IBVERBS_XSRQ_H
#define IBVERBS_XSRQ_H

#include "pingpong.h"

#define XSRQ_DOMAIN "/tmp/xrc_domain" /* as the original program has it */

/* Where one side is to be reached, as the two tell each other. */
struct xsrq_address {
	struct pp_address path; /* .qpn: of the QP that receives; .psn: of the one that sends */
	uint32_t send_qpn, srqn;
};

struct xsrq_peer {
	struct ibv_qp *recv, *send;
	struct xsrq_address local, remote;
	int fd;	  /* -1: not connected */
	int sent; /* messages to this one */
};

struct xsrq {
	struct pingpong
	    pp; /* options, context, channel, pd, mr and port of it are used; cq and srq receive */
	struct ibv_xrcd *xrcd;
	struct ibv_cq *send_cq;
	struct xsrq_peer *peers;
	char *receive_area; /* behind the message to send */
	int count;	    /* of peers: the clients, or 1 on a client */
	int domain_fd;
	int pending_sends;
	unsigned int send_events;
};

/* xsrq_objects.c: makes everything up to QPs in INIT; connects one peer's; unmakes. 0, or 1 after
 * the error was printed. */
int xsrq_open(struct xsrq *x);
int xsrq_connect(struct xsrq *x, struct xsrq_peer *peer);
int xsrq_close(struct xsrq *x);

/* xsrq_exchange.c: both sides know each other and are connected; both know that the other has all
 * it waits for. */
int xsrq_meet(struct xsrq *x);
int xsrq_part(struct xsrq *x);

#endif
