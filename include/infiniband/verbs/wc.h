/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work completions: what ibv_poll_cq returns for each work request that is done.
 */
#ifndef INFINIBAND_VERBS_WC_H
#define INFINIBAND_VERBS_WC_H

#include <infiniband/verbs/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * How a work request ended. Anything but SUCCESS puts the QP into the error state (a UD send queue
 * into SQE); which then flushes what else is queued. C10-96 ff. of the specification.
 */
enum ibv_wc_status {
	IBV_WC_SUCCESS,
	IBV_WC_LOC_LEN_ERR,   /* a message longer than the receive, or than the QP may send */
	IBV_WC_LOC_QP_OP_ERR, /* the QP cannot do this */
	IBV_WC_LOC_EEC_OP_ERR,
	IBV_WC_LOC_PROT_ERR, /* an lkey of the scatter/gather list does not fit */
	IBV_WC_WR_FLUSH_ERR, /* the QP was, or went, into the error state */
	IBV_WC_MW_BIND_ERR,
	IBV_WC_BAD_RESP_ERR,	  /* the responder sent what it should not have */
	IBV_WC_LOC_ACCESS_ERR,	  /* a remote operation met local memory that it may not write */
	IBV_WC_REM_INV_REQ_ERR,	  /* responder: invalid request (length, operation) */
	IBV_WC_REM_ACCESS_ERR,	  /* responder: the rkey does not fit */
	IBV_WC_REM_OP_ERR,	  /* responder: could not do it, for reasons of its own */
	IBV_WC_RETRY_EXC_ERR,	  /* no answer, retry_cnt times over */
	IBV_WC_RNR_RETRY_EXC_ERR, /* the responder had no receive posted, rnr_retry times over */
	IBV_WC_LOC_RDD_VIOL_ERR,
	IBV_WC_REM_INV_RD_REQ_ERR,
	IBV_WC_REM_ABORT_ERR,
	IBV_WC_INV_EECN_ERR,
	IBV_WC_INV_EEC_STATE_ERR,
	IBV_WC_FATAL_ERR,
	IBV_WC_RESP_TIMEOUT_ERR,
	IBV_WC_GENERAL_ERR,
	IBV_WC_TM_ERR,
	IBV_WC_TM_RNDV_INCOMPLETE, /* a rendezvous that the program has to finish */
};

/*
 * Gives a few words for the status of a completion; enum ibv_wc_status says what each means.
 * Returns a string that is never NULL nor to be freed: "unknown" for other values.
 * Errors: None.
 * Man: ibv_poll_cq(3); 11.6.2.
 */
const char *ibv_wc_status_str(enum ibv_wc_status status);

/* What was done; `opcode & IBV_WC_RECV` tells a receive from a send. */
enum ibv_wc_opcode {
	IBV_WC_SEND,
	IBV_WC_RDMA_WRITE,
	IBV_WC_RDMA_READ,
	IBV_WC_COMP_SWAP,
	IBV_WC_FETCH_ADD,
	IBV_WC_BIND_MW,
	IBV_WC_LOCAL_INV,
	IBV_WC_TSO,
	IBV_WC_FLUSH,
	IBV_WC_ATOMIC_WRITE = 9,
	IBV_WC_RECV = 1 << 7,
	IBV_WC_RECV_RDMA_WITH_IMM,
	IBV_WC_TM_ADD,
	IBV_WC_TM_DEL,
	IBV_WC_TM_SYNC,
	IBV_WC_TM_RECV,
	IBV_WC_TM_NO_TAG,
	IBV_WC_DRIVER1,
	IBV_WC_DRIVER2,
	IBV_WC_DRIVER3,
};

enum {
	IBV_WC_IP_CSUM_OK_SHIFT = 2,
};

enum ibv_wc_flags {
	IBV_WC_GRH = 1 << 0,	  /* UD: the first 40 bytes of the buffer are the GRH */
	IBV_WC_WITH_IMM = 1 << 1, /* imm_data is there */
	IBV_WC_IP_CSUM_OK = 1 << IBV_WC_IP_CSUM_OK_SHIFT,
	IBV_WC_WITH_INV = 1 << 3, /* invalidated_rkey is there */
	IBV_WC_TM_SYNC_REQ = 1 << 4,
	IBV_WC_TM_MATCH = 1 << 5,
	IBV_WC_TM_DATA_VALID = 1 << 6,
};

/*
 * A completion. After an error only wr_id, status, qp_num and vendor_err mean anything; with
 * Verbatim vendor_err is the reason's number, which `verbatim explain` spells out.
 */
struct ibv_wc {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t vendor_err;
	uint32_t byte_len; /* received, or moved by READ and atomics; for UD with the GRH's 40 */
	__extension__ union {
		__be32 imm_data;
		uint32_t invalidated_rkey;
	};
	uint32_t qp_num;
	uint32_t src_qp;       /* UD: the sender */
	unsigned int wc_flags; /* enum ibv_wc_flags */
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
};

#ifdef __cplusplus
}
#endif

#endif
