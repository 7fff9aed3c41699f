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

/*
 * Tells whether a mask of QP types, such as supported_qpts of tso_caps, has this one.
 * Returns 1 or 0.
 * Errors: None.
 */
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
 * Creates a QP, in RESET. Ask in `cap` for what is needed; on return it says what there is, which
 * may be more: queues are powers of two, and a large max_send_sge gives as much inline data.
 * send_cq and recv_cq may be the same; srq is NULL, or receives come from there. RAW_PACKET needs
 * the capability CAP_NET_RAW.
 * Returns the QP, or NULL with errno set.
 * Errors: EINVAL: more than max_qp_wr, max_sge or 1024 bytes of inline data, a CQ missing, PD, CQs
 * and SRQ of different contexts, or an SRQ that does not suit the type; EOPNOTSUPP: a type that the
 * device lacks; ENOMEM: max_qp, or memory; EPERM: raw packets without the privilege; EIO: in the
 * child of a fork().
 * Man: ibv_create_qp(3).
 */
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr);

/*
 * Creates a QP of any kind, in RESET: with comp_mask IBV_QP_INIT_ATTR_PD as ibv_create_qp() does.
 * Members beyond that count if comp_mask has their bit: XRC_RECV needs xrcd (and no PD nor CQ),
 * ibv_wr_ calls need send_ops_flags, receive hashing of raw packets rwq_ind_tbl and rx_hash_conf
 * (Toeplitz, a key of 40 bytes). Of create_flags there is CVLAN_STRIPPING, for raw packets.
 * Returns the QP, or NULL with errno set.
 * Errors: EINVAL: what ibv_create_qp() refuses, no PD, no XRC domain, or a table without a hash
 * that the device has; EOPNOTSUPP: a type, a bit of comp_mask or create_flags, or an operation in
 * send_ops_flags, that the device or this QP type lacks; ENOMEM: max_qp, or memory; EPERM: raw
 * packets without the privilege; EIO: in the child of a fork().
 * Man: ibv_create_qp_ex(3).
 */
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

/*
 * Opens an XRC_RECV QP that somebody else made, by its number and its XRC domain: comp_mask has
 * NUM, XRCD and TYPE, and CONTEXT if qp_context shall be set. Each who has it open gets its events
 * and may modify it; it ends with the last.
 * Returns the QP, or NULL with errno set.
 * Errors: EINVAL: comp_mask lacks a bit, a type other than XRC_RECV, a domain of another context,
 * or no such QP in the domain; ENOMEM.
 * Man: ibv_open_qp(3); A14.
 */
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
 * Sets the attributes of attr_mask, all or none, and with IBV_QP_STATE takes the QP to another
 * state. attr_mask is of enum ibv_qp_attr_mask. Beside IBV_QP_STATE the steps need
 *   INIT  PORT; all but raw packets PKEY_INDEX; RC, UC, XRC: ACCESS_FLAGS; UD: QKEY
 *   RTR   RC, UC, XRC: AV, PATH_MTU, DEST_QPN, RQ_PSN; RC and XRC_RECV also
 *         MAX_DEST_RD_ATOMIC, MIN_RNR_TIMER
 *   RTS   all but raw packets SQ_PSN; RC, XRC: TIMEOUT; RC and XRC_SEND also RETRY_CNT,
 *         RNR_RETRY, MAX_QP_RD_ATOMIC
 *   SQD   nothing, from RTS; and back to RTS, where waiting sends go on
 * and each takes some more, RATE_LIMIT on the way to RTS among them. RESET from any state, and ERR
 * from all but RESET, need none. struct ibv_qp_attr has the ranges. In ERR what is posted is
 * flushed; RESET drops it without completions.
 * Errors: EINVAL: an attribute missing, not allowed in this step, or out of range, no such step, a
 * cur_qp_state that it is not in, a path_mtu above the port's active_mtu, a P_Key index that is
 * empty, an address as ibv_create_ah() refuses it, or an alternate path; ENOMEM: for
 * max_dest_rd_atomic READs; EIO: in the child of a fork().
 * Man: ibv_modify_qp(3); 10.3.1, 11.2.5.2 Table 91.
 */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);

/*
 * Limits what a QP in RTS sends, from now on: rate_limit in kbit/s, 0 for no limit; max_burst_sz
 * bytes may go at once (0: 16384); typical_pkt_sz is a hint and not looked at.
 * Errors: EINVAL: the QP is not in RTS or is XRC_RECV, or comp_mask is not 0; EIO: in the child of
 * a fork().
 * Man: ibv_modify_qp_rate_limit(3).
 */
static inline int ibv_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(qp->context, modify_qp_rate_limit);

	return vctx ? vctx->modify_qp_rate_limit(qp, attr) : EOPNOTSUPP;
}

/*
 * Asks for a QP's attributes: all of them, whatever attr_mask says. Sets qp->state, which an error
 * may have changed. init_attr is filled as well and must not be NULL.
 * Errors: EIO: in the child of a fork().
 * Man: ibv_query_qp(3).
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
 * Tells whether an RDMA WRITE by the peer of this QP, which is in RTR or RTS, writes memory from
 * first to last byte, so that a program may wait for any of them. It does if the peer is on another
 * host; one on this host writes only the last bytes last. What a completion tells of, by SEND or
 * READ, is in no order. flags are 0 or of enum ibv_query_qp_data_in_order_flags. Returns 0 or 1;
 * with RETURN_CAPS the bits of enum ibv_query_qp_data_in_order_caps.
 * Errors: None: what is unknown gives 0.
 * Man: ibv_query_qp_data_in_order(3).
 */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);

/*
 * Destroys a QP. Its completions that were not polled are gone, work requests end without one.
 * Waits until its events are acknowledged.
 * Errors: EBUSY: it is in a multicast group, or flows lead to it; EIO: in the child of a fork().
 * Man: ibv_create_qp(3).
 */
int ibv_destroy_qp(struct ibv_qp *qp);

/*
 * Posts a list of sends, in order, which the adapter does in order. On failure *bad_wr is the first
 * that was not taken; those before it are posted. Which opcodes a type has: RC and XRC_SEND all, UC
 * SEND, RDMA WRITE, LOCAL_INV and BIND_MW, UD SEND, raw packets SEND without immediate. FLUSH needs
 * ibv_wr_flush(); a message of a connected QP has up to 2 GiB, a datagram up to the active_mtu.
 * Errors: EINVAL: the QP is in RESET, INIT or RTR, too many elements or too much inline data, an
 * opcode or flag that this QP does not know, an atomic whose elements are not 8 bytes, an
 * ATOMIC_WRITE that is not 8 bytes inline, or no, or another PD's, address handle; ENOMEM: the
 * queue is full; EFAULT: inline data that cannot be read; EPERM: a window of another PD. What
 * lkeys, rkeys and lengths are worth shows in the completion: LOC_LEN_ERR, LOC_PROT_ERR,
 * LOC_QP_OP_ERR, MW_BIND_ERR for what is wrong here; REM_INV_REQ_ERR, REM_ACCESS_ERR, REM_OP_ERR
 * for what the peer refused; RETRY_EXC_ERR and RNR_RETRY_EXC_ERR if it does not answer or has no
 * receive; WR_FLUSH_ERR for all that was queued behind.
 * Man: ibv_post_send(3).
 */
static inline int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
				struct ibv_send_wr **bad_wr)
{
	return qp->context->ops.post_send(qp, wr, bad_wr);
}

/*
 * Posts a list of receives, in order. On failure *bad_wr is the first that was not taken; those
 * before it are posted. Elements are written in turn; for UD the first 40 bytes are the GRH's.
 * Errors: EINVAL: the QP is in RESET, is XRC, or receives from an SRQ or a table: post there, or
 * there are too many elements; ENOMEM: the queue is full. In the completion: LOC_LEN_ERR for a
 * message longer than the receive, LOC_PROT_ERR for an lkey that does not fit, WR_FLUSH_ERR in the
 * error state.
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

/*
 * Gives a QP the options for enhanced connection establishment that the peer's ibv_query_ece()
 * told; before RTR. `ece` is in and out: what is accepted comes back. Verbatim has no options, so
 * that is its vendor_id and 0.
 * Errors: EINVAL: comp_mask is not 0, or the QP is past INIT.
 * Man: ibv_set_ece(3).
 */
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/*
 * Asks for the options that a QP has for enhanced connection establishment, to be told to the peer.
 * Here those are vendor_id 0xffffff and no option.
 * Errors: None: it gives 0.
 * Man: ibv_query_ece(3).
 */
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);

#ifdef __cplusplus
}
#endif

#endif
