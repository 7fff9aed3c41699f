/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the pingpong programs share (ibv_xsrq_pingpong plays by itself, in xsrq_*.c). Two processes
 * find each other over TCP and tell each other where their QPs are (exchange.c), then bounce a
 * message between those (pingpong.c). The programs differ in a description (struct pp_kind) and in
 * how their QPs are connected.
 */
#ifndef IBVERBS_PINGPONG_H
#define IBVERBS_PINGPONG_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

enum {
	PP_GRH = 40,	  /* area in front of a UD message */
	PP_MAX_QPS = 256, /* that many addresses are told with an SRQ, the unused ones being zero */
	PP_QKEY = 0x11111111,
	PP_RECV = 1, /* work request ids, and bits of `pending` */
	PP_SEND = 2,
	PP_FILL =
	    0x7b, /* what the client's message consists of; the server's buffer has one more */
};

struct pp_kind {
	enum ibv_qp_type type;
	bool has_srq;	     /* and so may have several QPs */
	const char *letters; /* the options that it takes, in the order of its usage */
	uint32_t default_size;
};

struct pp_options {
	const char *program, *server; /* server: NULL on the side that waits */
	const char *device;
	int tcp_port, ib_port;
	uint32_t size;
	enum ibv_mtu mtu;
	int num_qp, rx_depth, iters, sl, gid_index, clients;
	bool events, odp, implicit_odp, prefetch, timestamps, check, device_memory, new_send;
};

/* Where a QP is, as the two sides tell each other. */
struct pp_address {
	uint32_t lid, qpn, psn;
	union ibv_gid gid;
};

/* options.c: fills in the defaults and what was given. 0, or 1 after the usage was printed. */
int pp_parse(const struct pp_kind *kind, int argc, char **argv, struct pp_options *options);

/* The enum of 256 ... 4096, 0 for any other size. */
enum ibv_mtu pp_mtu(long size);

/*
 * exchange.c: tells the other side `count` addresses and learns as many. On the waiting side
 * `connect` is called between the two, so that our QPs are ready before the other side knows of
 * them. 0, or 1 after the error was printed.
 */
typedef int (*pp_connect)(void *data, const struct pp_address *remote);
int pp_exchange_as_client(const struct pp_options *options, const struct pp_address *local,
			  int count, struct pp_address *remote);
int pp_exchange_as_server(const struct pp_options *options, const struct pp_address *local,
			  int count, pp_connect connect, void *data, struct pp_address *remote);

/* exchange.c: a TCP connection to the server, a socket that waits for clients; -1 after the error
 * was printed. */
int pp_call(const struct pp_options *options);
int pp_listen(const struct pp_options *options);

/* What one side has: the objects, and how far the exchange is. */
struct pingpong {
	const struct pp_kind *kind;
	struct pp_options options;

	struct ibv_context *context;
	struct ibv_comp_channel *channel; /* with events only */
	struct ibv_pd *pd;
	struct ibv_dm *dm;
	struct ibv_mr *mr;
	struct ibv_cq_ex *cq_ex; /* with timestamps only */
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp **qps; /* options.num_qp */
	struct ibv_ah *ah;   /* UD only */
	struct ibv_port_attr port;
	struct pp_address *local, *remote; /* PP_MAX_QPS, one for each QP */

	char *buffer; /* header bytes, then the message */
	uint32_t header;
	unsigned int send_flags;
	uint64_t timestamp_mask;

	int *pending; /* of each QP: work request ids that must complete before the next send */
	int sent, received, posted_receives, cq_events;
};

/* context.c: opens the device and makes everything up to QPs in INIT. 0, or 1 after the error was
 * printed. */
int pp_open(struct pingpong *pp);
int pp_close(struct pingpong *pp);

/* context.c: parts of that. */
int pp_open_device(struct pingpong *pp);
int pp_query_port(struct pingpong *pp);

/* context.c: which GID index to use, and what is at it. */
int pp_choose_gid(struct pingpong *pp, union ibv_gid *gid);

/* connect.c: the way to a remote QP. */
struct ibv_ah_attr pp_path_to(const struct pingpong *pp, const struct pp_address *remote);

/* connect.c: takes the QPs to RTS towards these remote ones. 0, or 1 after the error was printed.
 */
int pp_connect_qps(struct pingpong *pp, const struct pp_address *remote);

/* post.c: receives are posted until `count` or an error; the number posted. Sending: 0 or an errno.
 */
int pp_post_receives(struct pingpong *pp, int qp, int count);
int pp_post_send(struct pingpong *pp, int qp);

/* The whole program. */
int pp_main(const struct pp_kind *kind, int argc, char **argv);

#endif
