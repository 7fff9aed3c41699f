/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librpma: memory of other hosts, persistent memory among it, by RDMA. This header is the manual.
 *
 * A PEER stands for a device. On it memory is REGISTERED; what others need to reach it travels as a
 * DESCRIPTOR, by whatever way the program has. Connections are made by IP address and port:
 *
 *   client: rpma_conn_req_new, rpma_conn_req_connect, rpma_conn_next_event (ESTABLISHED)
 *   server: rpma_ep_listen, rpma_ep_next_conn_req, rpma_conn_req_connect, rpma_conn_next_event
 *   both, in the end: rpma_conn_disconnect, rpma_conn_next_event (CLOSED), rpma_conn_delete
 *
 * Then both sides may do the same: read, write, write 8 bytes atomically, flush what was written,
 * send messages and receive them. These calls post an operation and return; its outcome is a
 * completion (struct ibv_wc) in the connection's CQ, with op_context as its wr_id.
 *
 * Results. Functions return 0, or a negative RPMA_E_ code, for which rpma_err_2str() has words; the
 * output arguments of a failed call are untouched unless it says otherwise. Each failure also has a
 * reason with a number: VERBATIM_EXPLAIN=1 prints it, and the log has it (rpma_log_set_function).
 * A pointer that a call needs and that is NULL is RPMA_E_INVAL everywhere.
 *
 * Blocking. rpma_ep_next_conn_req, rpma_conn_next_event, rpma_cq_wait and rpma_conn_wait wait. Each
 * has a descriptor (rpma_ep_get_fd, ...) to poll, and with O_NONBLOCK set on it the call returns
 * RPMA_E_NO_EVENT or RPMA_E_NO_COMPLETION instead of waiting.
 *
 * Threads. Every function may be called from every thread, on the same objects too. The one rule:
 * an object that is being deleted (or consumed, rpma_conn_req_connect) is in nobody else's hands.
 * docs/rpma-thread-safety.md says it for each function.
 *
 * Queues. A connection has a send queue (SQ), a receive queue (RQ) and a completion queue (CQ), by
 * default of 10 entries. An entry of SQ or RQ is free again when its completion, or a later one of
 * the same queue, was taken. A full queue is RPMA_E_PROVIDER from the call; a CQ that overruns
 * breaks the connection. So the CQ is to hold what SQ and RQ do together.
 *
 * Security. Descriptors and peer configurations decide where data goes and what is taken as
 * durable. Who can change them on their way can have others overwrite other memory: pass them over
 * a channel that is trusted. Private data of connections is not one.
 *
 * Returns int: 0, or a negative RPMA_E_ code.
 * Returns pointer: the words, never NULL; they are not to be freed.
 * Errors: RPMA_E_INVAL: a pointer that it needs is NULL.
 * Threads: any thread, at any time, on the same objects too; but an object that is being deleted
 * is in nobody else's hands.
 * Man: librpma(7).
 */
#ifndef LIBRPMA_H
#define LIBRPMA_H 1

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdbool.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RPMA_W_WAIT_FOR_COMPLETION (1) /* for flags of rpma_conn_wait() */

#define RPMA_E_UNKNOWN	       (-100000) /* what no other code says */
#define RPMA_E_NOSUPP	       (-100001) /* not possible with this peer, region or device */
#define RPMA_E_PROVIDER	       (-100002) /* a call of libibverbs or librdmacm failed */
#define RPMA_E_NOMEM	       (-100003) /* out of memory */
#define RPMA_E_INVAL	       (-100004) /* an argument is wrong */
#define RPMA_E_NO_COMPLETION   (-100005) /* the CQ is empty */
#define RPMA_E_NO_EVENT	       (-100006) /* nothing happened yet */
#define RPMA_E_AGAIN	       (-100007) /* try again; this library never returns it */
#define RPMA_E_SHARED_CHANNEL  (-100008) /* the channel is shared: rpma_conn_wait() */
#define RPMA_E_NOT_SHARED_CHNL (-100009) /* the channel is not shared: rpma_cq_wait() */

/* ---- devices ---- */

#define RPMA_DEFAULT_TIMEOUT_MS 1000

enum rpma_util_ibv_context_type {
	RPMA_UTIL_IBV_CONTEXT_LOCAL, /* addr is one of this host's */
	RPMA_UTIL_IBV_CONTEXT_REMOTE /* addr is another host's */
};

/**
 * rpma_utils_get_ibv_context - the device of an IP address
 *
 * The device that has the local address addr, or by which the remote address addr is reached. It
 * stays open as long as the process runs; it is not to be closed.
 *
 * Errors: RPMA_E_INVAL: type is unknown. RPMA_E_PROVIDER: no such address, or no device has it or
 * leads to it. RPMA_E_NOMEM.
 */
int rpma_utils_get_ibv_context(const char *addr, enum rpma_util_ibv_context_type type,
			       struct ibv_context **ibv_ctx_ptr);

/**
 * rpma_utils_ibv_context_is_odp_capable - whether a device registers memory without pinning it
 *
 * *is_odp_capable is 1 when reads and writes of connections work on demand paging, else 0.
 * rpma_mr_reg makes use of it by itself where memory cannot be pinned.
 *
 * Errors: RPMA_E_PROVIDER: the device cannot be asked.
 */
int rpma_utils_ibv_context_is_odp_capable(struct ibv_context *ibv_ctx, int *is_odp_capable);

/* ---- peer configuration: what a peer tells others of its memory ---- */

struct rpma_peer_cfg;

/**
 * rpma_peer_cfg_new - a peer configuration, without direct write to persistent memory
 *
 * Errors: RPMA_E_NOMEM.
 */
int rpma_peer_cfg_new(struct rpma_peer_cfg **pcfg_ptr);

/** rpma_peer_cfg_delete - deletes a peer configuration, and sets *pcfg_ptr to NULL */
int rpma_peer_cfg_delete(struct rpma_peer_cfg **pcfg_ptr);

/**
 * rpma_peer_cfg_set_direct_write_to_pmem - states that flushes reach what survives power loss
 *
 * To be set by who knows that a flush of this peer's memory, by its adapter, is durable: with
 * hardware, that its data does not stop in a cache (Intel: DDIO off). With Verbatim's adapter it is
 * so for each file that is mapped shared, because a persistent flush is an msync() of the range.
 * But not towards peers that flush by reading, as the original librpma does without a device that
 * has FLUSH: their reads bring nothing out of the page cache (docs/rpma.md).
 */
int rpma_peer_cfg_set_direct_write_to_pmem(struct rpma_peer_cfg *pcfg, bool supported);

/** rpma_peer_cfg_get_direct_write_to_pmem - what rpma_peer_cfg_set_direct_write_to_pmem set */
int rpma_peer_cfg_get_direct_write_to_pmem(const struct rpma_peer_cfg *pcfg, bool *supported);

/**
 * rpma_peer_cfg_get_descriptor - the configuration in bytes, for other hosts
 *
 * desc has room for what rpma_peer_cfg_get_descriptor_size() says.
 */
int rpma_peer_cfg_get_descriptor(const struct rpma_peer_cfg *pcfg, void *desc);

/** rpma_peer_cfg_get_descriptor_size - the size of the descriptor: 1 byte */
int rpma_peer_cfg_get_descriptor_size(const struct rpma_peer_cfg *pcfg, size_t *desc_size);

/**
 * rpma_peer_cfg_from_descriptor - the configuration that another host's descriptor has
 *
 * Bytes behind the descriptor are ignored. (Security: see the top.)
 *
 * Errors: RPMA_E_INVAL: desc_size is too small. RPMA_E_NOMEM.
 */
int rpma_peer_cfg_from_descriptor(const void *desc, size_t desc_size,
				  struct rpma_peer_cfg **pcfg_ptr);

/* ---- peer ---- */

struct rpma_peer;

/**
 * rpma_peer_new - a peer on a device
 *
 * What is made on it (regions, endpoints, connections, SRQs) belongs together: a connection reaches
 * the regions of its own peer. A process may have several.
 *
 * Errors: RPMA_E_PROVIDER: no protection domain, or the device cannot be asked. RPMA_E_NOMEM.
 */
int rpma_peer_new(struct ibv_context *ibv_ctx, struct rpma_peer **peer_ptr);

/**
 * rpma_peer_delete - deletes a peer, and sets *peer_ptr to NULL
 *
 * Everything on it is to be deleted before.
 *
 * Errors: RPMA_E_PROVIDER: something is still there; the peer is gone all the same.
 */
int rpma_peer_delete(struct rpma_peer **peer_ptr);

/* ---- memory regions ---- */

struct rpma_mr_local;
struct rpma_mr_remote;

/* What a region is for, or'ed. SRC and DST are seen from the operation: what is read from another
   host has READ_SRC there and READ_DST here. */
#define RPMA_MR_USAGE_READ_SRC		    (1 << 0)
#define RPMA_MR_USAGE_READ_DST		    (1 << 1)
#define RPMA_MR_USAGE_WRITE_SRC		    (1 << 2)
#define RPMA_MR_USAGE_WRITE_DST		    (1 << 3)
#define RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY (1 << 4)
#define RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT (1 << 5)
#define RPMA_MR_USAGE_SEND		    (1 << 6)
#define RPMA_MR_USAGE_RECV		    (1 << 7)

/**
 * rpma_mr_reg - registers memory for use by this peer's connections
 *
 * size bytes from ptr, which need no alignment, for the uses in usage. Usages to be flushed also
 * allow to be read: peers without native FLUSH flush by reading.
 *
 * Errors: RPMA_E_INVAL: size is 0; usage is 0 or has unknown bits. RPMA_E_PROVIDER: the device
 * refuses, most often because nothing is mapped there. RPMA_E_NOMEM.
 */
int rpma_mr_reg(struct rpma_peer *peer, void *ptr, size_t size, int usage,
		struct rpma_mr_local **mr_ptr);

/**
 * rpma_mr_dereg - ends a registration, and sets *mr_ptr to NULL
 *
 * When it returns nothing lands in the memory any more. Operations that still use it fail.
 *
 * Errors: RPMA_E_PROVIDER: the device refuses.
 */
int rpma_mr_dereg(struct rpma_mr_local **mr_ptr);

/**
 * rpma_mr_get_descriptor - the region in bytes, for other hosts
 *
 * desc has room for what rpma_mr_get_descriptor_size() says. The bytes are the same whatever the
 * byte order of the hosts.
 */
int rpma_mr_get_descriptor(const struct rpma_mr_local *mr, void *desc);

/**
 * rpma_mr_remote_from_descriptor - the region of another host, by its descriptor
 *
 * Bytes behind the descriptor are ignored. (Security: see the top.)
 *
 * Errors: RPMA_E_INVAL: desc_size is too small, or it has no usage. RPMA_E_NOMEM.
 */
int rpma_mr_remote_from_descriptor(const void *desc, size_t desc_size,
				   struct rpma_mr_remote **mr_ptr);

/** rpma_mr_get_descriptor_size - the size of a region's descriptor: 21 bytes */
int rpma_mr_get_descriptor_size(const struct rpma_mr_local *mr, size_t *desc_size);

/** rpma_mr_get_ptr - where the region begins */
int rpma_mr_get_ptr(const struct rpma_mr_local *mr, void **ptr);

/** rpma_mr_get_size - how many bytes the region has */
int rpma_mr_get_size(const struct rpma_mr_local *mr, size_t *size);

/** rpma_mr_remote_get_size - how many bytes the other host's region has */
int rpma_mr_remote_get_size(const struct rpma_mr_remote *mr, size_t *size);

/** rpma_mr_remote_get_flush_type - how the region can be flushed: RPMA_MR_USAGE_FLUSH_TYPE_, or'ed
 */
int rpma_mr_remote_get_flush_type(const struct rpma_mr_remote *mr, int *flush_type);

/**
 * rpma_mr_remote_delete - forgets another host's region, and sets *mr_ptr to NULL
 *
 * Operations that were posted with it go on.
 */
int rpma_mr_remote_delete(struct rpma_mr_remote **mr_ptr);

/**
 * rpma_mr_advise - tells that a part of a region will be used soon
 *
 * advice and flags are those of ibv_advise_mr(3). Any region may be advised on; one that is not
 * paged on demand is brought into the process. With IBV_ADVISE_MR_FLAG_FLUSH the call ends when the
 * pages are there.
 *
 * Errors: RPMA_E_INVAL: the range is not the region's, or no longer mapped, the flags are unknown,
 * or writes are announced for a region that is not for them. RPMA_E_NOSUPP: the device knows no
 * such advice. RPMA_E_PROVIDER.
 */
int rpma_mr_advise(struct rpma_mr_local *mr, size_t offset, size_t len, int advice, uint32_t flags);

/* ---- configuration of connections ---- */

struct rpma_conn_cfg;

/**
 * rpma_conn_cfg_new - a connection's configuration, with what is default
 *
 * Timeout 1000 ms; CQ, SQ and RQ of 10 entries; no receive CQ, no SRQ; no shared completion
 * channel. It is read when a request is made; what is set later changes later connections alone.
 *
 * Errors: RPMA_E_NOMEM.
 */
int rpma_conn_cfg_new(struct rpma_conn_cfg **cfg_ptr);

/** rpma_conn_cfg_delete - deletes a configuration, and sets *cfg_ptr to NULL */
int rpma_conn_cfg_delete(struct rpma_conn_cfg **cfg_ptr);

/**
 * rpma_conn_cfg_set_timeout - how long rpma_conn_req_new may take to find the way, in ms
 *
 * Errors: RPMA_E_INVAL: timeout_ms is negative.
 */
int rpma_conn_cfg_set_timeout(struct rpma_conn_cfg *cfg, int timeout_ms);

/** rpma_conn_cfg_get_timeout - what rpma_conn_cfg_set_timeout set */
int rpma_conn_cfg_get_timeout(const struct rpma_conn_cfg *cfg, int *timeout_ms);

/** rpma_conn_cfg_set_cq_size - how many completions the CQ holds */
int rpma_conn_cfg_set_cq_size(struct rpma_conn_cfg *cfg, uint32_t cq_size);

/** rpma_conn_cfg_get_compl_channel - what rpma_conn_cfg_set_compl_channel set */
int rpma_conn_cfg_get_compl_channel(const struct rpma_conn_cfg *cfg, bool *shared);

/**
 * rpma_conn_cfg_set_compl_channel - whether CQ and receive CQ wake by one descriptor
 *
 * With it rpma_conn_wait() waits for both, and rpma_cq_wait() does not work. Not possible with an
 * SRQ that has a receive CQ of its own.
 */
int rpma_conn_cfg_set_compl_channel(struct rpma_conn_cfg *cfg, bool shared);

/** rpma_conn_cfg_get_cq_size - what rpma_conn_cfg_set_cq_size set */
int rpma_conn_cfg_get_cq_size(const struct rpma_conn_cfg *cfg, uint32_t *cq_size);

/**
 * rpma_conn_cfg_set_rcq_size - how many completions of receives the receive CQ holds
 *
 * 0 is no receive CQ: those of receives then come to the CQ with all others.
 */
int rpma_conn_cfg_set_rcq_size(struct rpma_conn_cfg *cfg, uint32_t rcq_size);

/** rpma_conn_cfg_get_rcq_size - what rpma_conn_cfg_set_rcq_size set */
int rpma_conn_cfg_get_rcq_size(const struct rpma_conn_cfg *cfg, uint32_t *rcq_size);

/** rpma_conn_cfg_set_sq_size - how many operations (all but receives) may be under way */
int rpma_conn_cfg_set_sq_size(struct rpma_conn_cfg *cfg, uint32_t sq_size);

/** rpma_conn_cfg_get_sq_size - what rpma_conn_cfg_set_sq_size set */
int rpma_conn_cfg_get_sq_size(const struct rpma_conn_cfg *cfg, uint32_t *sq_size);

/** rpma_conn_cfg_set_rq_size - how many receives may be waiting */
int rpma_conn_cfg_set_rq_size(struct rpma_conn_cfg *cfg, uint32_t rq_size);

/** rpma_conn_cfg_get_rq_size - what rpma_conn_cfg_set_rq_size set */
int rpma_conn_cfg_get_rq_size(const struct rpma_conn_cfg *cfg, uint32_t *rq_size);

struct rpma_srq;

/**
 * rpma_conn_cfg_set_srq - the shared receive queue to receive from; NULL: none
 *
 * It has to live as long as connections with it do.
 */
int rpma_conn_cfg_set_srq(struct rpma_conn_cfg *cfg, struct rpma_srq *srq);

/** rpma_conn_cfg_get_srq - what rpma_conn_cfg_set_srq set */
int rpma_conn_cfg_get_srq(const struct rpma_conn_cfg *cfg, struct rpma_srq **srq_ptr);

/* ---- connections ---- */

struct rpma_conn;

/** rpma_conn_get_event_fd - the descriptor of rpma_conn_next_event */
int rpma_conn_get_event_fd(const struct rpma_conn *conn, int *fd);

enum rpma_conn_event {
	RPMA_CONN_UNDEFINED = -1,
	RPMA_CONN_ESTABLISHED, /* both sides may begin */
	RPMA_CONN_CLOSED,      /* one side disconnected, or this one's end is forgotten */
	RPMA_CONN_LOST,	       /* not established, or its device is gone */
	RPMA_CONN_REJECTED,    /* nobody listens there, or they do not want it */
	RPMA_CONN_UNREACHABLE  /* no answer */
};

/**
 * rpma_conn_next_event - waits for what happens to a connection
 *
 * Errors: RPMA_E_NO_EVENT: nothing yet, with O_NONBLOCK set. RPMA_E_UNKNOWN: something that no
 * event stands for. RPMA_E_PROVIDER. RPMA_E_NOMEM: no room for the private data.
 */
int rpma_conn_next_event(struct rpma_conn *conn, enum rpma_conn_event *event);

/** rpma_utils_conn_event_2str - an event in words */
const char *rpma_utils_conn_event_2str(enum rpma_conn_event conn_event);

struct rpma_conn_private_data {
	void *ptr;
	uint8_t len;
};

/**
 * rpma_conn_get_private_data - what the other side said when it connected or accepted
 *
 * pdata->ptr points into the connection, and is NULL where nothing was said. On the client it is
 * there once the connection is established, and padded with zeros to what the message has room for.
 */
int rpma_conn_get_private_data(const struct rpma_conn *conn, struct rpma_conn_private_data *pdata);

/**
 * rpma_conn_apply_remote_peer_cfg - tells a connection what the other side's memory is
 *
 * Needed for persistent flushes; may be called at any time.
 */
int rpma_conn_apply_remote_peer_cfg(struct rpma_conn *conn, const struct rpma_peer_cfg *pcfg);

/** rpma_conn_get_qp_num - the number of the connection's QP, which is that in its completions */
int rpma_conn_get_qp_num(const struct rpma_conn *conn, uint32_t *qp_num);

struct rpma_cq;

/** rpma_conn_get_cq - the connection's CQ */
int rpma_conn_get_cq(const struct rpma_conn *conn, struct rpma_cq **cq_ptr);

/**
 * rpma_conn_get_rcq - the connection's receive CQ
 *
 * *rcq_ptr is NULL where it has none of its own: without rpma_conn_cfg_set_rcq_size(), or with an
 * SRQ that has one.
 */
int rpma_conn_get_rcq(const struct rpma_conn *conn, struct rpma_cq **rcq_ptr);

/**
 * rpma_conn_disconnect - begins to end a connection, or answers the other side's end
 *
 * What was posted fails with IBV_WC_WR_FLUSH_ERR. RPMA_CONN_CLOSED tells that it is done.
 *
 * Errors: RPMA_E_PROVIDER: it was never established.
 */
int rpma_conn_disconnect(struct rpma_conn *conn);

/**
 * rpma_conn_delete - deletes a connection, and sets *conn_ptr to NULL also on failure
 *
 * Its CQ and receive CQ go with it. Regions and SRQ stay.
 *
 * Errors: RPMA_E_PROVIDER: a part of it could not be destroyed.
 */
int rpma_conn_delete(struct rpma_conn **conn_ptr);

/* ---- requests: connections before they are connected ---- */

struct rpma_conn_req;

/**
 * rpma_conn_req_new - prepares a connection to an address and a port
 *
 * Finds the way and makes the queues; nothing is sent to the other side yet. cfg may be NULL: what
 * is default.
 *
 * Errors: RPMA_E_INVAL: cfg wants a shared completion channel with an SRQ that has a receive CQ.
 * RPMA_E_PROVIDER: the address is not known or not reached, or the device has no room.
 * RPMA_E_NOMEM.
 */
int rpma_conn_req_new(struct rpma_peer *peer, const char *addr, const char *port,
		      const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req_ptr);

/**
 * rpma_conn_req_delete - drops a request, and sets *req_ptr to NULL also on failure
 *
 * One that came in is rejected.
 *
 * Errors: RPMA_E_PROVIDER: a part of it could not be destroyed.
 */
int rpma_conn_req_delete(struct rpma_conn_req **req_ptr);

/**
 * rpma_conn_req_connect - connects, or accepts: the request becomes a connection
 *
 * pdata is what to say to the other side, or NULL: up to 56 bytes for a client, 196 for a server.
 * The request is consumed and *req_ptr set to NULL, also on failure. RPMA_CONN_ESTABLISHED tells
 * that the connection can be used.
 *
 * Errors: RPMA_E_INVAL: pdata is there and empty. RPMA_E_PROVIDER: too much private data, or the
 * other side gave up meanwhile. RPMA_E_NOMEM.
 */
int rpma_conn_req_connect(struct rpma_conn_req **req_ptr,
			  const struct rpma_conn_private_data *pdata, struct rpma_conn **conn_ptr);

/**
 * rpma_conn_get_compl_fd - the descriptor of rpma_conn_wait
 *
 * Errors: RPMA_E_NOT_SHARED_CHNL.
 */
int rpma_conn_get_compl_fd(const struct rpma_conn *conn, int *fd);

/**
 * rpma_conn_wait - waits until the CQ or the receive CQ has a completion
 *
 * For connections whose configuration shares the channel. *cq is the one, and *is_rcq (unless
 * is_rcq is NULL) whether it is the receive CQ. Take all its completions before waiting again;
 * there may be none. flags are ignored.
 *
 * Errors: RPMA_E_NOT_SHARED_CHNL. RPMA_E_NO_COMPLETION: nothing, with O_NONBLOCK set.
 * RPMA_E_PROVIDER: the CQ cannot be asked to wake again. RPMA_E_UNKNOWN.
 */
int rpma_conn_wait(struct rpma_conn *conn, int flags, struct rpma_cq **cq, bool *is_rcq);

/**
 * rpma_conn_req_recv - rpma_recv before the connection is there
 *
 * So that a buffer waits when the first message comes.
 */
int rpma_conn_req_recv(struct rpma_conn_req *req, struct rpma_mr_local *dst, size_t offset,
		       size_t len, const void *op_context);

/* ---- endpoints ---- */

struct rpma_ep;

/**
 * rpma_ep_listen - listens on an address and a port
 *
 * Errors: RPMA_E_PROVIDER: the address is not this host's, or the port is taken. RPMA_E_NOMEM.
 */
int rpma_ep_listen(struct rpma_peer *peer, const char *addr, const char *port,
		   struct rpma_ep **ep_ptr);

/**
 * rpma_ep_shutdown - stops to listen, and sets *ep_ptr to NULL
 *
 * Connections and requests that were taken stay; requests that were not are rejected.
 *
 * Errors: RPMA_E_PROVIDER.
 */
int rpma_ep_shutdown(struct rpma_ep **ep_ptr);

/** rpma_ep_get_fd - the descriptor of rpma_ep_next_conn_req */
int rpma_ep_get_fd(const struct rpma_ep *ep, int *fd);

/**
 * rpma_ep_next_conn_req - waits for somebody to connect
 *
 * cfg is for the connection that it becomes; NULL: what is default.
 *
 * Errors: RPMA_E_NO_EVENT: nobody, with O_NONBLOCK set. RPMA_E_INVAL: something other than a
 * request, or see rpma_conn_req_new. RPMA_E_PROVIDER: the device has no room for its queues; the
 * request was rejected. RPMA_E_NOMEM.
 */
int rpma_ep_next_conn_req(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg,
			  struct rpma_conn_req **req_ptr);

/**
 * rpma_conn_req_get_private_data - what the client said
 *
 * pdata->ptr points into the request, and is NULL where nothing was said. Padded with zeros to 56
 * bytes. What it holds is on the connection later (rpma_conn_get_private_data).
 */
int rpma_conn_req_get_private_data(const struct rpma_conn_req *req,
				   struct rpma_conn_private_data *pdata);

/* ---- shared receive queues ---- */

struct rpma_srq_cfg;

/**
 * rpma_srq_cfg_new - an SRQ's configuration: 100 receives, and a receive CQ of 100
 *
 * Errors: RPMA_E_NOMEM.
 */
int rpma_srq_cfg_new(struct rpma_srq_cfg **cfg_ptr);

/** rpma_srq_cfg_delete - deletes a configuration, and sets *cfg_ptr to NULL */
int rpma_srq_cfg_delete(struct rpma_srq_cfg **cfg_ptr);

/** rpma_srq_cfg_set_rq_size - how many receives may be waiting */
int rpma_srq_cfg_set_rq_size(struct rpma_srq_cfg *cfg, uint32_t rq_size);

/** rpma_srq_cfg_get_rq_size - what rpma_srq_cfg_set_rq_size set */
int rpma_srq_cfg_get_rq_size(const struct rpma_srq_cfg *cfg, uint32_t *rq_size);

/**
 * rpma_srq_cfg_set_rcq_size - how many completions the SRQ's receive CQ holds
 *
 * 0 is none: the completions come to each connection's own CQ or receive CQ.
 */
int rpma_srq_cfg_set_rcq_size(struct rpma_srq_cfg *cfg, uint32_t rcq_size);

/** rpma_srq_cfg_get_rcq_size - what rpma_srq_cfg_set_rcq_size set */
int rpma_srq_cfg_get_rcq_size(const struct rpma_srq_cfg *cfg, uint32_t *rcq_size);

/**
 * rpma_srq_new - a receive queue for several connections
 *
 * cfg may be NULL: what is default.
 *
 * Errors: RPMA_E_PROVIDER: the device has no room. RPMA_E_NOMEM.
 */
int rpma_srq_new(struct rpma_peer *peer, struct rpma_srq_cfg *cfg, struct rpma_srq **srq_ptr);

/**
 * rpma_srq_delete - deletes an SRQ with its receive CQ, and sets *srq_ptr to NULL also on failure
 *
 * After all connections with it.
 *
 * Errors: RPMA_E_PROVIDER: connections still use it.
 */
int rpma_srq_delete(struct rpma_srq **srq_ptr);

/**
 * rpma_srq_recv - gives an SRQ a buffer for the next message of any of its connections
 *
 * As rpma_recv. The completion's qp_num tells the connection (rpma_conn_get_qp_num).
 */
int rpma_srq_recv(struct rpma_srq *srq, struct rpma_mr_local *dst, size_t offset, size_t len,
		  const void *op_context);

/** rpma_srq_get_rcq - the SRQ's receive CQ; *rcq_ptr is NULL where it has none */
int rpma_srq_get_rcq(const struct rpma_srq *srq, struct rpma_cq **rcq_ptr);

/* ---- operations ---- */

/* When an operation tells of its end in the CQ: when it failed, or always. One that failed breaks
   the connection. flags of 0 is RPMA_E_INVAL. */
#define RPMA_F_COMPLETION_ON_ERROR (1 << 0)
#define RPMA_F_COMPLETION_ALWAYS   (1 << 1 | RPMA_F_COMPLETION_ON_ERROR)

/* Operations on a connection. Offsets are bytes into the regions, and a range that is not inside
   one shows in the completion.
   Errors: RPMA_E_PROVIDER: the queue is full or the connection is not there. RPMA_E_INVAL: len is
   over 4 GiB - 1, flags is 0, or a pointer that it needs is NULL. */

/**
 * rpma_read - reads another host's memory into ours
 *
 * Of 0 bytes with dst and src NULL and offsets 0.
 */
int rpma_read(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t dst_offset,
	      const struct rpma_mr_remote *src, size_t src_offset, size_t len, int flags,
	      const void *op_context);

/**
 * rpma_write - writes our memory into another host's
 *
 * The completion tells that src may be used again and that the other adapter has the data. That it
 * is visible there, or durable, is what rpma_flush() is for. Of 0 bytes as rpma_read.
 */
int rpma_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	       const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags,
	       const void *op_context);

/**
 * rpma_write_with_imm - rpma_write, and a receive of the other side completes with imm
 *
 * The receive's buffer stays as it is; its completion is IBV_WC_RECV_RDMA_WITH_IMM, and
 * ntohl(wc.imm_data) is imm.
 */
int rpma_write_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
			const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags,
			uint32_t imm, const void *op_context);

#define RPMA_ATOMIC_WRITE_ALIGNMENT 8

/**
 * rpma_atomic_write - writes 8 bytes such that nobody sees a part of them
 *
 * src may be used again when the call returns. It is executed after everything that was posted
 * before on the connection: after a flush it is a commit. The place, and not only dst_offset, has
 * to be aligned to 8 bytes.
 *
 * Errors: RPMA_E_INVAL: dst_offset is not a multiple of 8, or as with the other operations.
 * RPMA_E_PROVIDER: the queue is full or the connection is not there.
 */
int rpma_atomic_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
		      const char src[8], int flags, const void *op_context);

enum rpma_flush_type {
	RPMA_FLUSH_TYPE_PERSISTENT, /* survives power loss */
	RPMA_FLUSH_TYPE_VISIBILITY  /* every processor of the host sees it */
};

/**
 * rpma_flush - makes what was written before durable, or visible
 *
 * Its completion tells that it is so, for the bytes of the range that writes of this connection
 * brought before it. Where both sides have it, it is the FLUSH operation: a persistent one towards
 * Verbatim's adapter is an msync() of the range. Towards others it is a read of the range's first
 * bytes, which pushes the data ahead of it: that is durable as far as the other side's word for
 * direct write to persistent memory goes (rpma_peer_cfg_set_direct_write_to_pmem).
 *
 * Errors: RPMA_E_INVAL: type is unknown, or as with the other operations. RPMA_E_NOSUPP: the region
 * was not registered for this kind of flush; or it is a persistent one, and
 * rpma_conn_apply_remote_peer_cfg() did not say that the other side can. RPMA_E_PROVIDER: the queue
 * is full or the connection is not there.
 */
int rpma_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, size_t len,
	       enum rpma_flush_type type, int flags, const void *op_context);

/**
 * rpma_send - sends a message into the other side's next receive
 *
 * A receive has to wait there, and be as long; else the message waits for one, or breaks the
 * connection. Of 0 bytes with src NULL and offset 0.
 */
int rpma_send(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len,
	      int flags, const void *op_context);

/**
 * rpma_send_with_imm - rpma_send, with 4 bytes for the receive's completion
 *
 * There ntohl(wc.imm_data) is imm, and wc.wc_flags has IBV_WC_WITH_IMM.
 */
int rpma_send_with_imm(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset,
		       size_t len, int flags, uint32_t imm, const void *op_context);

/**
 * rpma_recv - gives a buffer for a message of the other side
 *
 * Do not count on messages to take buffers in the order they were given. Of 0 bytes with dst NULL
 * and offset 0. With an SRQ: rpma_srq_recv.
 */
int rpma_recv(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t offset, size_t len,
	      const void *op_context);

/* ---- completions ---- */

/**
 * rpma_cq_get_fd - the descriptor of rpma_cq_wait
 *
 * With a shared completion channel it is that one's.
 */
int rpma_cq_get_fd(const struct rpma_cq *cq, int *fd);

/**
 * rpma_cq_wait - waits until a CQ has a completion
 *
 * Take all of them (until RPMA_E_NO_COMPLETION) before waiting again: it wakes for those that come
 * after the last wake. There may be none.
 *
 * Errors: RPMA_E_NO_COMPLETION: nothing, with O_NONBLOCK set. RPMA_E_SHARED_CHANNEL.
 * RPMA_E_PROVIDER: the CQ cannot be asked to wake again.
 */
int rpma_cq_wait(struct rpma_cq *cq);

/**
 * rpma_cq_get_wc - takes completions, up to num_entries, without waiting
 *
 * *num_entries_got is how many; it may be NULL where num_entries is 1. Of a completion whose status
 * is not IBV_WC_SUCCESS only wr_id, status, qp_num and vendor_err (the reason's number) count.
 *
 * Errors: RPMA_E_INVAL: num_entries is below 1. RPMA_E_NO_COMPLETION: there is none.
 * RPMA_E_PROVIDER: the CQ has overrun.
 */
int rpma_cq_get_wc(struct rpma_cq *cq, int num_entries, struct ibv_wc *wc, int *num_entries_got);

/* ---- errors and the log ---- */

/** rpma_err_2str - an RPMA_E_ code in words */
const char *rpma_err_2str(int ret);

enum rpma_log_level {
	RPMA_LOG_DISABLED = -1,
	RPMA_LOG_LEVEL_FATAL,
	RPMA_LOG_LEVEL_ERROR,	/* a call failed */
	RPMA_LOG_LEVEL_WARNING, /* something unexpected, which the caller is told as well */
	RPMA_LOG_LEVEL_NOTICE,	/* connections come and go */
	RPMA_LOG_LEVEL_INFO,	/* arguments that were refused; what a device lacks */
	RPMA_LOG_LEVEL_DEBUG
};

enum rpma_log_threshold {
	RPMA_LOG_THRESHOLD,	/* what is logged at all */
	RPMA_LOG_THRESHOLD_AUX, /* what the default function prints on stderr, besides syslog */
	RPMA_LOG_THRESHOLD_MAX
};

/**
 * rpma_log_set_threshold - up to which level is logged
 *
 * At the start: WARNING for RPMA_LOG_THRESHOLD, DISABLED for RPMA_LOG_THRESHOLD_AUX.
 *
 * Errors: RPMA_E_INVAL: there is no such threshold or level.
 */
int rpma_log_set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level);

/**
 * rpma_log_get_threshold - what rpma_log_set_threshold set
 *
 * Errors: RPMA_E_INVAL: there is no such threshold.
 */
int rpma_log_get_threshold(enum rpma_log_threshold threshold, enum rpma_log_level *level);

/* file_name may be NULL: then line_no and function_name mean nothing. The rest is as printf(3)'s.
 */
typedef void rpma_log_function(enum rpma_log_level level, const char *file_name, const int line_no,
			       const char *function_name, const char *message_format, ...);

#define RPMA_LOG_USE_DEFAULT_FUNCTION (NULL)

/**
 * rpma_log_set_function - who gets what is logged; it is called from any thread
 *
 * RPMA_LOG_USE_DEFAULT_FUNCTION: syslog(3), and stderr up to RPMA_LOG_THRESHOLD_AUX.
 */
int rpma_log_set_function(rpma_log_function *log_function);

#ifdef __cplusplus
}
#endif

#endif
