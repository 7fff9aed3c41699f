/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of librpma share: the objects behind the ABI's names, and how a call is refused.
 *
 * An object is made whole before anyone sees it and its members stay as they are, so that any
 * thread may use it without a lock. What does change is atomic, but for a connection's private
 * data, which has a lock. Verbs, ids and channels below are safe by themselves.
 */
#ifndef RPMA_FACE_H
#define RPMA_FACE_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <librpma.h>
#include <rdma/rdma_cma.h>

#include "explain/reason.h"
#include "rpma/fault.h"

struct rpma_peer {
	struct ibv_pd *pd;
	bool is_odp_capable;
	bool has_flush;	       /* native, both kinds */
	bool has_atomic_write; /* native */
};

struct rpma_mr_local {
	struct ibv_mr *mr;
	int usage;
	bool is_on_demand;
};

struct rpma_mr_remote {
	uint64_t address, size;
	uint32_t rkey;
	int usage;
};

struct rpma_peer_cfg {
	atomic_bool direct_write_to_pmem;
};

struct rpma_conn_cfg {
	atomic_int timeout_ms;
	_Atomic uint32_t cq_size, rcq_size, sq_size, rq_size;
	atomic_bool is_channel_shared;
	_Atomic(struct rpma_srq *) srq;
};

struct rpma_srq_cfg {
	_Atomic uint32_t rq_size, rcq_size;
};

struct rpma_cq {
	struct ibv_comp_channel *channel;
	bool is_channel_shared; /* it is the connection's */
	struct ibv_cq *cq;
};

struct rpma_srq {
	struct ibv_srq *srq;
	struct rpma_cq *rcq; /* NULL without */
};

struct rpma_ep {
	struct rpma_peer *peer;
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
};

/* The queues that a request has, and hands on to the connection that it becomes. */
struct queues {
	struct rdma_cm_id *id;		  /* with its QP */
	struct ibv_comp_channel *channel; /* NULL unless it is shared */
	struct rpma_cq *cq, *rcq;	  /* rcq: NULL without */
	bool has_flush, has_atomic_write; /* the QP */
};

struct rpma_conn_req {
	struct rpma_peer *peer;
	struct queues queues;
	bool is_passive;
	bool peer_has_flush;
	struct rpma_conn_private_data data; /* of the other side; passive */
};

struct rpma_conn {
	struct queues queues;
	struct rdma_event_channel *events;
	struct rpma_mr_local *raw; /* what flushes read into */
	bool is_passive;
	atomic_bool peer_has_flush;
	atomic_bool peer_direct_write_to_pmem;

	pthread_mutex_t data_lock;
	struct rpma_conn_private_data data; /* of the other side; data_lock */
};

/* ---- refusal.c ---- */

/*
 * Refuses: tells the reason with its live values, logs it, and returns the code that it shows as.
 * For a reason that shows as RPMA_E_PROVIDER the values say which call failed, and errno is added.
 */
#define REFUSE(reason, ...) refuse_call(REASON_##reason, __FILE__, __LINE__, __func__, __VA_ARGS__)
int refuse_call(enum reason reason, const char *file, int line, const char *function,
		const char *format, ...) __attribute__((format(printf, 5, 6)));
/* The same for an errno that a call returned. */
#define REFUSE_ERRNO(error, ...) (errno = (error), REFUSE(RPMA_PROVIDER, __VA_ARGS__))
/* A needed pointer is NULL. */
#define REFUSE_NULL() REFUSE(RPMA_NULL, "%s()", __func__)

/* ---- log.c ---- */

void log_message(enum rpma_log_level level, const char *file, int line, const char *function,
		 const char *text);
rpma_log_function log_default;
#define LOG(level, text) log_message(RPMA_LOG_LEVEL_##level, __FILE__, __LINE__, __func__, text)

/* ---- address.c: names and addresses. 0 or a code ---- */

int address_bind(struct rdma_cm_id *id, const char *addr, const char *port);
int address_resolve(struct rdma_cm_id *id, const char *addr, const char *port, int timeout_ms);

/* ---- cq.c ---- */

/* With a channel of its own unless `shared` is one. 0 or a code. */
int cq_new(struct ibv_context *context, uint32_t size, struct ibv_comp_channel *shared,
	   struct rpma_cq **cq);
/* 0 or a code; *cq is NULL after it, and may be before. */
int cq_delete(struct rpma_cq **cq);
/* Asks for the next wake. 0 or a code. */
int cq_arm(struct ibv_cq *cq);

/* ---- queues.c ---- */

/* QP and CQs for an id. 0 or a code; after a failure the id has none of them. */
int queues_new(struct rpma_peer *peer, struct rdma_cm_id *id, const struct rpma_conn_cfg *cfg,
	       struct queues *queues);
/* QP, CQs and id; all of it, whatever fails. 0 or the first code. */
int queues_delete(struct queues *queues);

/* ---- conn_cfg.c, srq_cfg.c: what NULL stands for ---- */

const struct rpma_conn_cfg *conn_cfg_default(void);
const struct rpma_srq_cfg *srq_cfg_default(void);

/* ---- conn.c ---- */

/* Takes queues and private data of a request; after a failure they are the request's still. */
int conn_new(struct rpma_conn_req *req, struct rpma_conn **conn);

/* ---- conn_req.c ---- */

/* Whether the other side, whose message came with the event, flushes natively. */
bool conn_req_says_flush(const struct rdma_cm_event *event);

/* ---- private_data.c ---- */

/* A copy of what came with an event. 0 or a code. */
int private_data_take(const struct rdma_cm_event *event, struct rpma_conn_private_data *data);

/* ---- post.c ---- */

/* A SEND, READ or WRITE of one range; `remote` may be NULL. 0 or a code. */
struct post {
	enum ibv_wr_opcode opcode;
	const struct rpma_mr_local *local; /* NULL: 0 bytes */
	size_t local_offset;
	const struct rpma_mr_remote *remote;
	size_t remote_offset, length;
	int flags;
	uint32_t imm;
	const void *op_context;
};

int post_send(struct ibv_qp *qp, const struct post *post);
/* To the SRQ unless it is NULL. 0 or a code. */
int post_recv(struct ibv_qp *qp, struct ibv_srq *srq, const struct rpma_mr_local *dst,
	      size_t offset, size_t length, const void *op_context);
int post_native_flush(struct ibv_qp *qp, const struct rpma_mr_remote *dst, size_t offset,
		      size_t length, enum rpma_flush_type type, int flags, const void *op_context);
int post_atomic_write(const struct queues *queues, const struct rpma_mr_remote *dst, size_t offset,
		      const char src[8], int flags, const void *op_context);
unsigned int post_send_flags(int flags);

#endif
