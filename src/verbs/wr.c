/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The builder of ibv_wr_*: from wr_start to wr_complete the send queue is locked; each operation
 * takes the next WQE, the setters after it fill it. The first error is kept, and then wr_complete
 * posts nothing and returns it.
 */
#include "verbs/face.h"

static struct qp *qp_of_ex(struct ibv_qp_ex *ex)
{
	return qp_of(&ex->qp_base);
}

static void keep_error(struct face_qp *face, int error)
{
	if (error && !face->error)
		face->error = error;
}

/* The WQE before the next operation is whole now: what post_send checks at once is checked here. */
static void finish(struct qp *qp, struct face_qp *face)
{
	if (!face->wqe || face->error)
		return;
	if (qp->type == IBV_QPT_UD && !face->has_destination)
		keep_error(face, wqe_set_ud(qp, face->wqe, NULL, 0, 0));
	if (!face->error)
		keep_error(face, qp_check_send(qp, face->wqe));
	face->wqe = NULL;
}

/* Begins an operation; NULL when an error has been kept: the rest of the batch does nothing. */
static struct send_wqe *begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint64_t op)
{
	struct qp *qp = qp_of_ex(ex);
	struct face_qp *face = face_of_qp(qp);

	finish(qp, face);
	if (face->error)
		return NULL;
	if (!(face->ops & op)) {
		keep_error(face, refuse(REASON_SEND_NOT_ASKED,
					"QP %#x, wr_id %#llx: opcode %d, send_ops_flags was %#llx",
					qp->number, (unsigned long long)ex->wr_id, opcode,
					(unsigned long long)face->ops));
		return NULL;
	}
	face->wqe = sq_next(qp);
	if (!face->wqe) {
		keep_error(face, ENOMEM);
		return NULL;
	}
	face->has_destination = false;
	face->wqe->wr_id = ex->wr_id;
	face->wqe->opcode = opcode;
	face->wqe->flags = ex->wr_flags & ~(unsigned int)IBV_SEND_INLINE;
	if (qp->sq_sig_all)
		face->wqe->flags |= IBV_SEND_SIGNALED;
	return face->wqe;
}

/* ---- operations ---- */

static void begin_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint64_t op, uint32_t rkey,
		       uint64_t remote_addr, __be32 imm_data)
{
	struct send_wqe *wqe = begin(ex, opcode, op);

	if (!wqe)
		return;
	wqe->rkey = rkey;
	wqe->remote_addr = remote_addr;
	wqe->imm_data = imm_data;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ex, IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, rkey, remote_addr, 0);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ex, IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, rkey, remote_addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      __be32 imm_data)
{
	begin_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, rkey,
		   remote_addr, imm_data);
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin(ex, IBV_WR_SEND, IBV_QP_EX_WITH_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	struct send_wqe *wqe = begin(ex, IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM);

	if (wqe)
		wqe->imm_data = imm_data;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	struct send_wqe *wqe = begin(ex, IBV_WR_SEND_WITH_INV, IBV_QP_EX_WITH_SEND_WITH_INV);

	if (wqe)
		wqe->invalidate_rkey = invalidate_rkey;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	struct send_wqe *wqe = begin(ex, IBV_WR_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV);

	if (wqe)
		wqe->invalidate_rkey = invalidate_rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *bind_info)
{
	struct send_wqe *wqe = begin(ex, IBV_WR_BIND_MW, IBV_QP_EX_WITH_BIND_MW);
	struct qp *qp = qp_of_ex(ex);

	if (wqe)
		keep_error(face_of_qp(qp), mw_fill_bind(qp, wqe, mw, rkey, bind_info, false));
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	struct send_wqe *wqe =
	    begin(ex, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP);

	if (!wqe)
		return;
	wqe->rkey = rkey;
	wqe->remote_addr = remote_addr;
	wqe->atomic.compare_add = compare;
	wqe->atomic.swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	struct send_wqe *wqe =
	    begin(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);

	if (!wqe)
		return;
	wqe->rkey = rkey;
	wqe->remote_addr = remote_addr;
	wqe->atomic.compare_add = add;
}

/* The eight bytes go along in the WQE: no element, no inline data. */
static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			    const void *atomic_wr)
{
	struct send_wqe *wqe = begin(ex, IBV_WR_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE);

	if (!wqe)
		return;
	wqe->rkey = rkey;
	wqe->remote_addr = remote_addr;
	wqe->length = sizeof(wqe->atomic_write);
	memcpy(&wqe->atomic_write, atomic_wr, sizeof(wqe->atomic_write));
}

static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t len,
		     uint8_t type, uint8_t level)
{
	struct send_wqe *wqe = begin(ex, IBV_WR_FLUSH, IBV_QP_EX_WITH_FLUSH);

	if (!wqe)
		return;
	wqe->rkey = rkey;
	wqe->remote_addr = remote_addr;
	wqe->length = len;
	wqe->flush.type = type;
	wqe->flush.level = level;
}

static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	keep_error(face_of_qp(qp_of_ex(ex)), refuse(REASON_SEND_TSO, "QP %#x", ex->qp_base.qp_num));
}

/* ---- setters ---- */

/* The WQE that a setter belongs to; NULL after an error. */
static struct send_wqe *current(struct ibv_qp_ex *ex)
{
	struct face_qp *face = face_of_qp(qp_of_ex(ex));

	if (!face->wqe && !face->error)
		keep_error(face, refuse(REASON_SEND_NO_REQUEST, "QP %#x", ex->qp_base.qp_num));
	return face->error ? NULL : face->wqe;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge, const struct ibv_sge *sg_list)
{
	struct send_wqe *wqe = current(ex);
	struct qp *qp = qp_of_ex(ex);

	if (wqe)
		keep_error(face_of_qp(qp), wqe_set_sge(qp, wqe, sg_list, num_sge));
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t num_buf,
				    const struct ibv_data_buf *buf_list)
{
	struct send_wqe *wqe = current(ex);
	struct qp *qp = qp_of_ex(ex);

	if (wqe)
		keep_error(face_of_qp(qp), wqe_set_inline(qp, wqe, buf_list, num_buf));
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf piece = {.addr = addr, .length = length};

	wr_set_inline_data_list(ex, 1, &piece);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn,
			   uint32_t remote_qkey)
{
	struct send_wqe *wqe = current(ex);
	struct qp *qp = qp_of_ex(ex);

	if (!wqe)
		return;
	if (qp->type != IBV_QPT_UD) {
		keep_error(face_of_qp(qp), refuse(REASON_WR_NOT_UD, "QP %#x, wr_id %#llx",
						  qp->number, (unsigned long long)wqe->wr_id));
		return;
	}
	keep_error(face_of_qp(qp), wqe_set_ud(qp, wqe, ah, remote_qpn, remote_qkey));
	face_of_qp(qp)->has_destination = true;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t remote_srqn)
{
	struct send_wqe *wqe = current(ex);
	struct qp *qp = qp_of_ex(ex);

	if (!wqe)
		return;
	if (qp->type != IBV_QPT_XRC_SEND)
		keep_error(face_of_qp(qp), refuse(REASON_WR_NOT_XRC, "QP %#x, wr_id %#llx",
						  qp->number, (unsigned long long)wqe->wr_id));
	wqe->remote_srqn = remote_srqn;
}

/* ---- the batch ---- */

static void wr_start(struct ibv_qp_ex *ex)
{
	struct qp *qp = qp_of_ex(ex);
	struct face_qp *face = face_of_qp(qp);

	sq_begin(qp);
	face->wqe = NULL;
	face->error = 0;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct qp *qp = qp_of_ex(ex);
	struct face_qp *face = face_of_qp(qp);
	int error;

	finish(qp, face);
	error = face->error;
	if (error) {
		sq_abort(qp);
		return verb_result(error);
	}
	sq_commit(qp);
	doorbell(qp);
	return 0;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	sq_abort(qp_of_ex(ex));
	doorbell(qp_of_ex(ex)); /* a rendezvous may have waited for the queue */
}

void wr_set_ops(struct ibv_qp_ex *ex)
{
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_atomic_write = wr_atomic_write;
	ex->wr_flush = wr_flush;
}
