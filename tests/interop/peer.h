/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the programs of the two ends of a wire begin with: NAME -d DEVICE -g GID_INDEX -p PORT
 * [SERVER]. They meet over TCP and tell each other what they have. Over any libibverbs.
 */
#ifndef TESTS_INTEROP_PEER_H
#define TESTS_INTEROP_PEER_H

#include <arpa/inet.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

enum { SIZE = 8192, PATIENCE_S = 20 };

struct told {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, rkey;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static char *memory;
static struct told me, peer;
static int tcp = -1;

static inline void die(const char *what)
{
	perror(what);
	exit(1);
}

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* ---- the other side ---- */

static inline void tell(const void *what, size_t size)
{
	if (write(tcp, what, size) != (ssize_t)size)
		die("write");
}

static inline void hear(void *what, size_t size)
{
	if (recv(tcp, what, size, MSG_WAITALL) != (ssize_t)size)
		die("recv");
}

static inline void meet(const char *server, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = server ? 0 : AI_PASSIVE};
	struct addrinfo *address;
	int fd, yes = 1;

	must(!getaddrinfo(server, port, &hints, &address));
	fd = socket(address->ai_family, SOCK_STREAM, 0);
	if (server) {
		if (connect(fd, address->ai_addr, address->ai_addrlen))
			die("connect");
		tcp = fd;
	} else {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
		if (bind(fd, address->ai_addr, address->ai_addrlen) || listen(fd, 1))
			die("listen");
		tcp = accept(fd, NULL, NULL);
		close(fd);
	}
	freeaddrinfo(address);
	tell(&me, sizeof(me));
	hear(&peer, sizeof(peer));
}

/* ---- verbs ---- */

static inline void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (struct ibv_device **device = list; list && *device; device++)
		if (!strcmp(ibv_get_device_name(*device), name))
			context = ibv_open_device(*device);
	if (!context)
		die(name);
}

static inline void connect_qp(int gid_index)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = peer.qpn,
	    .max_dest_rd_atomic = 1,
	    .min_rnr_timer = 12,
	    .ah_attr = {.is_global = 1,
			.port_num = 1,
			.grh = {.dgid = peer.gid, .sgid_index = gid_index, .hop_limit = 64}}};

	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 6, /* Soft-RoCE takes 7 for ever */
				    .rnr_retry = 7,
				    .max_rd_atomic = 1};
	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static inline struct ibv_wc completion(void)
{
	time_t end = time(NULL) + PATIENCE_S;
	struct ibv_wc wc;
	int count;

	do {
		count = ibv_poll_cq(cq, 1, &wc);
	} while (!count && time(NULL) < end);
	must(count == 1);
	return wc;
}

/* The device open, its GID in `me`. Where the server is, NULL for the server itself. */
static inline const char *begin(int argc, char **argv, const char **port, int *gid_index)
{
	const char *device = "";
	int option;

	*port = "18515";
	*gid_index = 0;
	while ((option = getopt(argc, argv, "d:g:p:")) != -1) {
		if (option == 'd')
			device = optarg;
		else if (option == 'g')
			*gid_index = atoi(optarg);
		else if (option == 'p')
			*port = optarg;
		else
			exit(2);
	}
	open_device(device);
	if (ibv_query_gid(context, 1, *gid_index, &me.gid))
		die("GID");
	return argv[optind];
}

/* The other side has come as far. */
static inline void wait_for_other(void)
{
	tell("", 1);
	hear(&(char){0}, 1);
}

#endif
