/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work requests: posting them. The calls never wait; what they started ends with a completion in
 * the queue's CQ. Buffers belong to the adapter until then, except with IBV_SEND_INLINE.
 *
 * A send that is not signaled (nor sq_sig_all) has a completion only if it fails, and its place in
 * the queue is free again only when a later send's completion was polled: signal now and then.
 */
#ifndef INFINIBAND_VERBS_POST_H
#define INFINIBAND_VERBS_POST_H

#include <infiniband/verbs/context.h>
#include <infiniband/verbs/mw.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ibv_wr_opcode {
	IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_WRITE_WITH_IMM, /* consumes a receive at the peer */
	IBV_WR_SEND,
	IBV_WR_SEND_WITH_IMM,
	IBV_WR_RDMA_READ,
	IBV_WR_ATOMIC_CMP_AND_SWP, /* 8 bytes, aligned; sg_list gets the old value */
	IBV_WR_ATOMIC_FETCH_AND_ADD,
	IBV_WR_LOCAL_INV,
	IBV_WR_BIND_MW,
	IBV_WR_SEND_WITH_INV, /* invalidates a key of the peer */
	IBV_WR_TSO,
	IBV_WR_DRIVER1,
	IBV_WR_FLUSH = 14,	  /* by ibv_wr_flush only */
	IBV_WR_ATOMIC_WRITE = 15, /* 8 bytes, aligned, inline */
};

/*
 * Gives a word for a work request's opcode: "rdma-write", "send" and so on.
 * Returns a string that is never NULL nor to be freed: "unknown" for other values.
 * Errors: None.
 */
const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);

enum ibv_send_flags {
	IBV_SEND_FENCE = 1 << 0,     /* begin only when earlier READs and atomics are done */
	IBV_SEND_SIGNALED = 1 << 1,  /* complete even if successful */
	IBV_SEND_SOLICITED = 1 << 2, /* the peer's completion is a solicited event */
	IBV_SEND_INLINE = 1 << 3,    /* data is copied now, lkeys are not looked at */
	IBV_SEND_IP_CSUM = 1 << 4,
};

/* Of IBV_WR_FLUSH: how far data must be visible, ... */
enum ibv_placement_type {
	IBV_FLUSH_GLOBAL = 1U << 0,	/* to the peer's processors and devices */
	IBV_FLUSH_PERSISTENT = 1U << 1, /* to memory that survives power loss */
};

/* ... and of which part of the region. */
enum ibv_selectivity_level {
	IBV_FLUSH_RANGE = 0,
	IBV_FLUSH_MR,
};

/* Memory for inline data, which needs no key. */
struct ibv_data_buf {
	void *addr;
	size_t length; /* bytes */
};

struct ibv_sge {
	uint64_t addr;
	uint32_t length; /* bytes */
	uint32_t lkey;
};

struct ibv_fd_arr {
	int *arr;
	uint32_t count;
};

struct ibv_send_wr {
	uint64_t wr_id;		  /* comes back in the completion */
	struct ibv_send_wr *next; /* or NULL */
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_wr_opcode opcode;
	unsigned int send_flags; /* enum ibv_send_flags */
	__extension__ union {
		__be32 imm_data;	  /* _WITH_IMM */
		uint32_t invalidate_rkey; /* _INV */
	};
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add; /* what to compare with, or what to add */
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_ah *ah;
			uint32_t remote_qpn;
			uint32_t remote_qkey; /* with the top bit set: the QP's own instead */
		} ud;
	} wr;
	union {
		struct {
			uint32_t remote_srqn;
		} xrc;
	} qp_type;
	__extension__ union {
		struct {
			struct ibv_mw *mw;
			uint32_t rkey; /* the new one */
			struct ibv_mw_bind_info bind_info;
		} bind_mw;
		struct {
			void *hdr;
			uint16_t hdr_sz; /* bytes */
			uint16_t mss;	 /* bytes of payload in a packet */
		} tso;
	};
};

struct ibv_recv_wr {
	uint64_t wr_id;
	struct ibv_recv_wr *next;
	struct ibv_sge *sg_list; /* for UD with 40 bytes in front for the GRH */
	int num_sge;
};

#ifdef __cplusplus
}
#endif

#endif
