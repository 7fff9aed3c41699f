/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: creating one and taking it through its states.
 *
 * RESET -> INIT -> RTR -> RTS, each by ibv_modify_qp with the attributes that the step needs (the
 * tables are in ibv_modify_qp(3)); receives may be posted from INIT on, sends in RTS. SQD stops
 * the send queue at a message's border, ERR flushes both queues, RESET empties them.
 */
#ifndef INFINIBAND_VERBS_QP_H
#define INFINIBAND_VERBS_QP_H

#include <infiniband/verbs/context.h>
#include <infiniband/verbs/ah.h>
#include <infiniband/verbs/port.h>
#include <infiniband/verbs/post.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ibv_qp_type {
	IBV_QPT_RC = 2,
	IBV_QPT_UC,
	IBV_QPT_UD,
	IBV_QPT_RAW_PACKET = 8,
	IBV_QPT_XRC_SEND = 9,
	IBV_QPT_XRC_RECV,
	IBV_QPT_DRIVER = 0xff,
};

/* Whether a `supported_qpts` mask has the QP type. */
static inline int ibv_is_qpt_supported(uint32_t caps, enum ibv_qp_type qpt)
{
	return (caps & (1 << qpt)) != 0;
}

struct ibv_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data; /* bytes of a send with IBV_SEND_INLINE */
};

struct ibv_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq; /* or NULL; with one max_recv_wr and max_recv_sge are not used */
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all; /* each send has a completion, as if it had IBV_SEND_SIGNALED */
};

enum ibv_qp_init_attr_mask {
	IBV_QP_INIT_ATTR_PD = 1 << 0,
	IBV_QP_INIT_ATTR_XRCD = 1 << 1,
	IBV_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
	IBV_QP_INIT_ATTR_MAX_TSO_HEADER = 1 << 3,
	IBV_QP_INIT_ATTR_IND_TABLE = 1 << 4,
	IBV_QP_INIT_ATTR_RX_HASH = 1 << 5,
	IBV_QP_INIT_ATTR_SEND_OPS_FLAGS = 1 << 6,
};

enum ibv_qp_create_flags {
	IBV_QP_CREATE_BLOCK_SELF_MCAST_LB = 1 << 1,
	IBV_QP_CREATE_SCATTER_FCS = 1 << 8,
	IBV_QP_CREATE_CVLAN_STRIPPING = 1 << 9,
	IBV_QP_CREATE_SOURCE_QPN = 1 << 10,
	IBV_QP_CREATE_PCI_WRITE_END_PADDING = 1 << 11,
};

/* The ibv_wr_ calls that the QP shall have, see verbs/qp_ex.h. */
enum ibv_qp_create_send_ops_flags {
	IBV_QP_EX_WITH_RDMA_WRITE = 1 << 0,
	IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM = 1 << 1,
	IBV_QP_EX_WITH_SEND = 1 << 2,
	IBV_QP_EX_WITH_SEND_WITH_IMM = 1 << 3,
	IBV_QP_EX_WITH_RDMA_READ = 1 << 4,
	IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP = 1 << 5,
	IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD = 1 << 6,
	IBV_QP_EX_WITH_LOCAL_INV = 1 << 7,
	IBV_QP_EX_WITH_BIND_MW = 1 << 8,
	IBV_QP_EX_WITH_SEND_WITH_INV = 1 << 9,
	IBV_QP_EX_WITH_TSO = 1 << 10,
	IBV_QP_EX_WITH_FLUSH = 1 << 11,
	IBV_QP_EX_WITH_ATOMIC_WRITE = 1 << 12,
};

struct ibv_rx_hash_conf {
	uint8_t rx_hash_function; /* enum ibv_rx_hash_function_flags */
	uint8_t rx_hash_key_len;  /* bytes */
	uint8_t *rx_hash_key;
	uint64_t rx_hash_fields_mask; /* enum ibv_rx_hash_fields */
};

struct ibv_qp_init_attr_ex {
	/* As struct ibv_qp_init_attr. */
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;

	uint32_t comp_mask;	 /* enum ibv_qp_init_attr_mask: of those below */
	struct ibv_pd *pd;	 /* required, except for XRC_RECV */
	struct ibv_xrcd *xrcd;	 /* XRC_RECV */
	uint32_t create_flags;	 /* enum ibv_qp_create_flags */
	uint16_t max_tso_header; /* bytes */
	struct ibv_rwq_ind_table *rwq_ind_tbl;
	struct ibv_rx_hash_conf rx_hash_conf;
	uint32_t source_qpn;	 /* the QP number packets shall bear */
	uint64_t send_ops_flags; /* enum ibv_qp_create_send_ops_flags */
};

enum ibv_qp_open_attr_mask {
	IBV_QP_OPEN_ATTR_NUM = 1 << 0,
	IBV_QP_OPEN_ATTR_XRCD = 1 << 1,
	IBV_QP_OPEN_ATTR_CONTEXT = 1 << 2,
	IBV_QP_OPEN_ATTR_TYPE = 1 << 3,
	IBV_QP_OPEN_ATTR_RESERVED = 1 << 4,
};

struct ibv_qp_open_attr {
	uint32_t comp_mask; /* enum ibv_qp_open_attr_mask */
	uint32_t qp_num;
	struct ibv_xrcd *xrcd;
	void *qp_context;
	enum ibv_qp_type qp_type;
};

/* Which members of struct ibv_qp_attr a call sets or asks for. */
enum ibv_qp_attr_mask {
	IBV_QP_STATE = 1 << 0,
	IBV_QP_CUR_STATE = 1 << 1,
	IBV_QP_EN_SQD_ASYNC_NOTIFY = 1 << 2,
	IBV_QP_ACCESS_FLAGS = 1 << 3,
	IBV_QP_PKEY_INDEX = 1 << 4,
	IBV_QP_PORT = 1 << 5,
	IBV_QP_QKEY = 1 << 6,
	IBV_QP_AV = 1 << 7,
	IBV_QP_PATH_MTU = 1 << 8,
	IBV_QP_TIMEOUT = 1 << 9,
	IBV_QP_RETRY_CNT = 1 << 10,
	IBV_QP_RNR_RETRY = 1 << 11,
	IBV_QP_RQ_PSN = 1 << 12,
	IBV_QP_MAX_QP_RD_ATOMIC = 1 << 13,
	IBV_QP_ALT_PATH = 1 << 14,
	IBV_QP_MIN_RNR_TIMER = 1 << 15,
	IBV_QP_SQ_PSN = 1 << 16,
	IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
	IBV_QP_PATH_MIG_STATE = 1 << 18,
	IBV_QP_CAP = 1 << 19,
	IBV_QP_DEST_QPN = 1 << 20,
	/* 21 to 24 are taken: old kernels had Ethernet addresses there */
	IBV_QP_RATE_LIMIT = 1 << 25,
};

enum ibv_qp_state {
	IBV_QPS_RESET,
	IBV_QPS_INIT,
	IBV_QPS_RTR,
	IBV_QPS_RTS,
	IBV_QPS_SQD,
	IBV_QPS_SQE,
	IBV_QPS_ERR,
	IBV_QPS_UNKNOWN,
};

enum ibv_mig_state {
	IBV_MIG_MIGRATED,
	IBV_MIG_REARM,
	IBV_MIG_ARMED,
};

struct ibv_qp_attr {
	enum ibv_qp_state qp_state;
	enum ibv_qp_state cur_qp_state;
	enum ibv_mtu path_mtu; /* the same at both ends */
	enum ibv_mig_state path_mig_state;
	uint32_t qkey;	 /* UD */
	uint32_t rq_psn; /* 24 bits: the first that we expect, the peer's sq_psn */
	uint32_t sq_psn; /* 24 bits: the first that we send */
	uint32_t dest_qp_num;
	unsigned int qp_access_flags; /* what the peer may do: REMOTE_WRITE, _READ, _ATOMIC */
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr;
	struct ibv_ah_attr alt_ah_attr;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;	    /* READs and atomics that we have under way at once */
	uint8_t max_dest_rd_atomic; /* and that we serve at once: not less than the peer's */
	uint8_t min_rnr_timer; /* code 0 to 31: how long a peer waits when we have no receive */
	uint8_t port_num;
	uint8_t timeout;   /* 4.096 us x 2^n until a packet is sent again, 0 for ever, up to 31 */
	uint8_t retry_cnt; /* 0 to 7 times */
	uint8_t rnr_retry; /* 0 to 6 times, 7 without end */
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint32_t rate_limit; /* kbit/s */
};

struct ibv_qp_rate_limit_attr {
	uint32_t rate_limit;	 /* kbit/s, 0 none */
	uint32_t max_burst_sz;	 /* bytes */
	uint16_t typical_pkt_sz; /* bytes */
	uint32_t comp_mask;	 /* 0 */
};

struct ibv_qp {
	struct ibv_context *context;
	void *qp_context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	uint32_t handle;
	uint32_t qp_num;
	enum ibv_qp_state state; /* as the last ibv_modify_qp or ibv_query_qp left it */
	enum ibv_qp_type qp_type;

	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

/*
 * A QP in RESET. cap: at least what was asked for, on return what it has. errno EINVAL: beyond the
 * device's limits, a CQ missing, or PD, CQs and SRQ of different contexts; EOPNOTSUPP: a type that
 * the device lacks; ENOMEM: max_qp, or memory. Man: ibv_create_qp(3).
 */
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr);

/* Man: ibv_create_qp_ex(3). */
static inline struct ibv_qp *ibv_create_qp_ex(struct ibv_context *context,
					      struct ibv_qp_init_attr_ex *qp_init_attr_ex)
{
	struct verbs_context *vctx;

	if (qp_init_attr_ex->comp_mask == IBV_QP_INIT_ATTR_PD)
		return ibv_create_qp(qp_init_attr_ex->pd,
				     (struct ibv_qp_init_attr *)qp_init_attr_ex);
	vctx = verbs_get_ctx_op(context, create_qp_ex);
	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->create_qp_ex(context, qp_init_attr_ex);
}

/* A shared (XRC_RECV) QP of another process, by its number. Man: ibv_open_qp(3). */
static inline struct ibv_qp *ibv_open_qp(struct ibv_context *context,
					 struct ibv_qp_open_attr *qp_open_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, open_qp);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->open_qp(context, qp_open_attr);
}

/*
 * Sets the attributes of attr_mask, all or none. Beside IBV_QP_STATE the steps need
 *   INIT  PKEY_INDEX, PORT, and ACCESS_FLAGS (RC, UC) or QKEY (UD)
 *   RTR   RC, UC: AV, PATH_MTU, DEST_QPN, RQ_PSN; RC also MAX_DEST_RD_ATOMIC, MIN_RNR_TIMER
 *   RTS   SQ_PSN; RC also TIMEOUT, RETRY_CNT, RNR_RETRY, MAX_QP_RD_ATOMIC
 * and each takes some more; from any state RESET and, but from RESET, ERR need none. EINVAL: an
 * attribute missing, not allowed in this step, or out of range; or no such step.
 * Man: ibv_modify_qp(3).
 */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);

/* May be called in RTS. Man: ibv_modify_qp_rate_limit(3). */
static inline int ibv_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(qp->context, modify_qp_rate_limit);

	return vctx ? vctx->modify_qp_rate_limit(qp, attr) : EOPNOTSUPP;
}

/*
 * The attributes of attr_mask and perhaps more; sets qp->state, which an error may have changed.
 * init_attr is filled as well and must not be NULL. Man: ibv_query_qp(3).
 */
int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		 struct ibv_qp_init_attr *init_attr);

enum ibv_query_qp_data_in_order_flags {
	IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS = 1 << 0,
	IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY = 1 << 1,
};

enum ibv_query_qp_data_in_order_caps {
	IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG = 1 << 0,
	IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES = 1 << 1,
};

/*
 * Whether a peer's `op` writes memory from first to last byte: 0 or 1, or with RETURN_CAPS the
 * capabilities. Man: ibv_query_qp_data_in_order(3).
 */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);

/*
 * Waits until its events are acknowledged; its completions that were not polled are gone.
 * EBUSY while it is in a multicast group. Man: ibv_create_qp(3).
 */
int ibv_destroy_qp(struct ibv_qp *qp);

/*
 * Posts a list of sends, in order; on failure *bad_wr is the first that was not taken, those before
 * it are posted. ENOMEM: the queue is full; EINVAL: the QP is not in RTS, SQD, SQE or ERR, too many
 * entries or too much inline data, an opcode or flag that this QP does not know, no or another PD's
 * address handle; EFAULT: inline data that cannot be read. What lkeys, rkeys and lengths are worth
 * shows in the completion. Man: ibv_post_send(3).
 */
static inline int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
				struct ibv_send_wr **bad_wr)
{
	return qp->context->ops.post_send(qp, wr, bad_wr);
}

/*
 * Posts a list of receives, likewise. EINVAL: the QP is in RESET, or has an SRQ: then post to that.
 * Man: ibv_post_recv(3).
 */
static inline int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
				struct ibv_recv_wr **bad_wr)
{
	return qp->context->ops.post_recv(qp, wr, bad_wr);
}

/* Options of a connection beyond the specification, agreed upon by two like adapters. */
struct ibv_ece {
	uint32_t vendor_id; /* IEEE OUI; 0: no such options */
	uint32_t options;
	uint32_t comp_mask; /* 0 */
};

/* To be called before RTR with what the peer's ibv_query_ece said. Man: ibv_set_ece(3). */
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/* Man: ibv_query_ece(3). */
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);

#ifdef __cplusplus
}
#endif

#endif
