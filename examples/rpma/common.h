/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the examples share: a peer for an address, connections of both sides, and ends of
 * operations. A failure prints what failed and ends the program; a program of yours would do
 * better.
 */
#ifndef EXAMPLES_RPMA_COMMON_H
#define EXAMPLES_RPMA_COMMON_H

#include <librpma.h>

/* Ends the program unless a call returned 0. */
#define OK(call) common_ok(call, #call)
void common_ok(int code, const char *what);
/* Ends the program with words, unless something is so. */
void common_must(bool is_so, const char *words);

/* The peer on the device of one of our addresses, or that leads to another's. */
struct rpma_peer *common_peer(const char *address, enum rpma_util_ibv_context_type type);

/* A client's connection, established. `data` is what to say to the server, or NULL. */
struct rpma_conn *common_connect(struct rpma_peer *peer, const char *address, const char *port,
				 const struct rpma_conn_cfg *cfg);
/* A server's next one, established: `recv` (or NULL) has buffers for the first `receives` messages,
   `message_size` bytes each, and `said` (or NULL) is told to the client. */
struct rpma_conn *common_accept(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg,
				struct rpma_mr_local *recv, unsigned int receives,
				size_t message_size, const struct rpma_conn_private_data *said);
/* A client ends its connection; a server waits until the client does. Both delete it. */
void common_disconnect(struct rpma_conn *conn);
void common_wait_closed(struct rpma_conn *conn);

/* Waits for the next completion of a connection's CQ, or of `cq` unless it is NULL; it has
 * succeeded. */
struct ibv_wc common_completion(struct rpma_conn *conn, struct rpma_cq *cq);

/*
 * What a server tells of a region that clients may write, in its private data: that of the region,
 * and that of its peer. (Where nobody else can touch it: see SECURITY in librpma.h.)
 */
struct common_offer {
	uint8_t mr_size, cfg_size;
	char bytes[64];
};

void common_offer(const struct rpma_mr_local *mr, bool is_durable, struct common_offer *offer);
/* Takes what the server offered: the region to write to. The connection knows then how to flush it.
 */
struct rpma_mr_remote *common_take_offer(struct rpma_conn *conn);

/* A file of so many bytes, mapped such that what is flushed is in it: as persistent memory where
   the file system has that (MAP_SYNC), by its page cache elsewhere. */
void *common_map(const char *path, size_t size);

#endif
