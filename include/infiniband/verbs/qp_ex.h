/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting sends call by call instead of by struct. First ibv_wr_start, then for each work request
 * set qp->wr_id and wr_flags, one ibv_wr_ operation, its ibv_wr_set_ calls, then ibv_wr_complete,
 * which posts all or none. The QP is locked from start to complete or abort. Remote memory is named
 * by rkey and address.
 *
 *   ibv_wr_start(qp);
 *   qp->wr_id = 1; qp->wr_flags = IBV_SEND_SIGNALED;
 *   ibv_wr_rdma_write(qp, rkey, remote_addr);
 *   ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)buffer, length);
 *   ret = ibv_wr_complete(qp);
 *
 * The QP is made by ibv_create_qp_ex with the operations in send_ops_flags; others must not be
 * called (here ibv_wr_complete refuses the batch with EINVAL, hardware may crash).
 * Errors: ibv_wr_complete() gives the first of the batch. How each work request ends shows in its
 * completion, as after ibv_post_send().
 * Threads: the thread that called ibv_wr_start() alone, up to ibv_wr_complete() or ibv_wr_abort().
 * Man: ibv_wr_post(3).
 */
#ifndef INFINIBAND_VERBS_QP_EX_H
#define INFINIBAND_VERBS_QP_EX_H

#include <infiniband/verbs/qp.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_qp_ex {
	struct ibv_qp qp_base;
	uint64_t comp_mask;

	uint64_t wr_id;	       /* of the next operation, set by the program */
	unsigned int wr_flags; /* enum ibv_send_flags, likewise */

	void (*wr_atomic_cmp_swp)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				  uint64_t compare, uint64_t swap);
	void (*wr_atomic_fetch_add)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				    uint64_t add);
	void (*wr_bind_mw)(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
			   const struct ibv_mw_bind_info *bind_info);
	void (*wr_local_inv)(struct ibv_qp_ex *qp, uint32_t invalidate_rkey);
	void (*wr_rdma_read)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr);
	void (*wr_rdma_write)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr);
	void (*wr_rdma_write_imm)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				  __be32 imm_data);
	void (*wr_send)(struct ibv_qp_ex *qp);
	void (*wr_send_imm)(struct ibv_qp_ex *qp, __be32 imm_data);
	void (*wr_send_inv)(struct ibv_qp_ex *qp, uint32_t invalidate_rkey);
	void (*wr_send_tso)(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss);
	void (*wr_set_ud_addr)(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn,
			       uint32_t remote_qkey);
	void (*wr_set_xrc_srqn)(struct ibv_qp_ex *qp, uint32_t remote_srqn);
	void (*wr_set_inline_data)(struct ibv_qp_ex *qp, void *addr, size_t length);
	void (*wr_set_inline_data_list)(struct ibv_qp_ex *qp, size_t num_buf,
					const struct ibv_data_buf *buf_list);
	void (*wr_set_sge)(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length);
	void (*wr_set_sge_list)(struct ibv_qp_ex *qp, size_t num_sge,
				const struct ibv_sge *sg_list);
	void (*wr_start)(struct ibv_qp_ex *qp);
	int (*wr_complete)(struct ibv_qp_ex *qp);
	void (*wr_abort)(struct ibv_qp_ex *qp);
	void (*wr_atomic_write)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				const void *atomic_wr);
	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
			 uint8_t type, uint8_t level);
};

/*
 * Gives the extended side of a QP that was made with send_ops_flags.
 * Returns that, or NULL if it was made without; errno is not touched.
 * Errors: None.
 * Threads: any thread, at any time.
 * Man: ibv_wr_post(3).
 */
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp);

/*
 * Begins a batch of work requests, and locks the QP's send queue until ibv_wr_complete() or
 * ibv_wr_abort().
 * Errors: None: they show in ibv_wr_complete().
 * Threads: the lock keeps other threads out, ibv_post_send() too; the same thread must not start
 * twice.
 * Man: ibv_wr_post(3).
 */
static inline void ibv_wr_start(struct ibv_qp_ex *qp)
{
	qp->wr_start(qp);
}

/*
 * Posts the batch, all of it or nothing, and unlocks the send queue. The adapter is told once.
 * Returns 0, or a positive errno value, of the first error in the batch; then nothing was posted.
 * Errors: EINVAL: as ibv_post_send(), an operation that send_ops_flags did not ask for, a set call
 * without an operation before it or for another type of QP, or a UD operation without an address;
 * ENOMEM: the batch does not fit into the queue; EFAULT: inline data that cannot be read; EPERM: a
 * window of another PD; EOPNOTSUPP: ibv_wr_send_tso().
 * Man: ibv_wr_post(3).
 */
static inline int ibv_wr_complete(struct ibv_qp_ex *qp)
{
	return qp->wr_complete(qp);
}

/*
 * Drops the batch and unlocks the send queue: nothing was posted.
 * Errors: None.
 * Man: ibv_wr_post(3).
 */
static inline void ibv_wr_abort(struct ibv_qp_ex *qp)
{
	qp->wr_abort(qp);
}

/*
 * Adds an atomic compare and swap: the 8 bytes at remote_addr, a multiple of 8, become `swap` if
 * they are `compare` (both in host byte order). What was there goes to the 8 bytes that a set_sge
 * call names.
 * Man: ibv_wr_post(3); 9.4.5.
 */
static inline void ibv_wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
					 uint64_t compare, uint64_t swap)
{
	qp->wr_atomic_cmp_swp(qp, rkey, remote_addr, compare, swap);
}

/*
 * Adds an atomic fetch and add: `add` is added to the 8 bytes at remote_addr, a multiple of 8. What
 * was there goes to the 8 bytes that a set_sge call names.
 * Man: ibv_wr_post(3); 9.4.5.
 */
static inline void ibv_wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey,
					   uint64_t remote_addr, uint64_t add)
{
	qp->wr_atomic_fetch_add(qp, rkey, remote_addr, add);
}

/*
 * Adds an atomic write of 8 bytes at remote_addr, a multiple of 8. atomic_wr points to them; they
 * are copied now, and no set call follows.
 * Man: ibv_wr_post(3); A19.4.
 */
static inline void ibv_wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				       const void *atomic_wr)
{
	qp->wr_atomic_write(qp, rkey, remote_addr, atomic_wr);
}

/*
 * Adds the binding of a window of type 2, under the new `rkey` (see ibv_inc_rkey()). No set call
 * follows.
 * Man: ibv_wr_post(3); 10.6.7.
 */
static inline void ibv_wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
				  const struct ibv_mw_bind_info *bind_info)
{
	qp->wr_bind_mw(qp, mw, rkey, bind_info);
}

/*
 * Adds a FLUSH: what was written to `len` bytes at remote_addr before, or with `level`, of enum
 * ibv_selectivity_level, IBV_FLUSH_MR to the whole region, is where `type`, one or both of enum
 * ibv_placement_type, says, before the completion. No set call follows.
 * Man: ibv_wr_post(3); A19.4.1.
 */
static inline void ibv_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				size_t len, uint8_t type, uint8_t level)
{
	qp->wr_flush(qp, rkey, remote_addr, len, type, level);
}

/*
 * Adds the invalidation of a window of type 2, by its rkey. No set call follows.
 * Man: ibv_wr_post(3); 10.6.5.
 */
static inline void ibv_wr_local_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	qp->wr_local_inv(qp, invalidate_rkey);
}

/*
 * Adds an RDMA READ from remote_addr into what a set_sge call names, whose length it has.
 * Man: ibv_wr_post(3).
 */
static inline void ibv_wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	qp->wr_rdma_read(qp, rkey, remote_addr);
}

/*
 * Adds an RDMA WRITE to remote_addr, of what a set call names. The peer's program learns nothing of
 * it.
 * Man: ibv_wr_post(3).
 */
static inline void ibv_wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	qp->wr_rdma_write(qp, rkey, remote_addr);
}

/*
 * Adds an RDMA WRITE that consumes a receive at the peer and gives it imm_data.
 * Man: ibv_wr_post(3).
 */
static inline void ibv_wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
					 __be32 imm_data)
{
	qp->wr_rdma_write_imm(qp, rkey, remote_addr, imm_data);
}

/*
 * Adds a SEND of what a set call names; a UD QP needs ibv_wr_set_ud_addr() as well.
 * Man: ibv_wr_post(3).
 */
static inline void ibv_wr_send(struct ibv_qp_ex *qp)
{
	qp->wr_send(qp);
}

/*
 * Adds a SEND whose completion at the peer has imm_data.
 * Man: ibv_wr_post(3).
 */
static inline void ibv_wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
{
	qp->wr_send_imm(qp, imm_data);
}

/*
 * Adds a SEND that invalidates a window of type 2 of the peer, by its rkey.
 * Man: ibv_wr_post(3); 10.6.5.
 */
static inline void ibv_wr_send_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	qp->wr_send_inv(qp, invalidate_rkey);
}

/*
 * Adds a SEND that the adapter cuts into packets of `mss` bytes, each with the `hdr_sz` bytes at
 * `hdr` in front. Verbatim's devices have none of it, as tso_caps of ibv_query_device_ex() says.
 * Man: ibv_wr_post(3).
 */
static inline void ibv_wr_send_tso(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	qp->wr_send_tso(qp, hdr, hdr_sz, mss);
}

/*
 * Sets where the datagram of the operation before it goes: address, QP number, Q_Key (with its top
 * bit set the QP's own instead). For UD QPs.
 * Man: ibv_wr_post(3).
 */
static inline void ibv_wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn,
				      uint32_t remote_qkey)
{
	qp->wr_set_ud_addr(qp, ah, remote_qpn, remote_qkey);
}

/*
 * Sets the SRQ, by its number at the peer, that the operation before it is received from. For
 * XRC_SEND QPs.
 * Man: ibv_wr_post(3); A14.
 */
static inline void ibv_wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t remote_srqn)
{
	qp->wr_set_xrc_srqn(qp, remote_srqn);
}

/*
 * Sets the data of the operation before it: `length` bytes at `addr`, copied now; no key is needed.
 * At most max_inline_data.
 * Man: ibv_wr_post(3).
 */
static inline void ibv_wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	qp->wr_set_inline_data(qp, addr, length);
}

/*
 * Sets the data of the operation before it: num_buf pieces, copied now, together at most
 * max_inline_data bytes.
 * Man: ibv_wr_post(3).
 */
static inline void ibv_wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num_buf,
					       const struct ibv_data_buf *buf_list)
{
	qp->wr_set_inline_data_list(qp, num_buf, buf_list);
}

/*
 * Sets the data of the operation before it: `length` bytes of registered memory, or where a READ or
 * atomic puts them.
 * Man: ibv_wr_post(3).
 */
static inline void ibv_wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr,
				  uint32_t length)
{
	qp->wr_set_sge(qp, lkey, addr, length);
}

/*
 * Sets the data of the operation before it: num_sge pieces of registered memory, at most
 * max_send_sge; or where a READ puts it.
 * Man: ibv_wr_post(3).
 */
static inline void ibv_wr_set_sge_list(struct ibv_qp_ex *qp, size_t num_sge,
				       const struct ibv_sge *sg_list)
{
	qp->wr_set_sge_list(qp, num_sge, sg_list);
}

#ifdef __cplusplus
}
#endif

#endif
