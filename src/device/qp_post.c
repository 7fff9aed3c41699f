/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting. A work request is checked and copied into the next WQE under the send queue's lock; one
 * release store of the tail publishes all that a call has posted.
 */
#include <errno.h>
#include <string.h>

#include "base/hot.h"
#include "device/adapter.h"
#include "device/memory.h"
#include "device/pd.h"
#include "device/qp.h"
#include "explain/reason.h"
#include "wire/headers.h"

/* ---- the steps ---- */

/* Whoever sees the new tail sees the new base. */
static void begin(struct send_queue *sq)
{
	sq->next = atomic_load_explicit(&sq->tail, memory_order_relaxed);
	if (atomic_load_explicit(&sq->head, memory_order_acquire) == sq->next)
		atomic_store_explicit(&sq->base, sq->next, memory_order_relaxed);
}

void sq_begin(struct qp *qp)
{
	spin_lock(&qp->sq.lock);
	begin(&qp->sq);
}

bool sq_try_begin(struct qp *qp)
{
	if (!spin_try(&qp->sq.lock))
		return false;
	begin(&qp->sq);
	return true;
}

struct send_wqe *sq_next(struct qp *qp)
{
	struct send_queue *sq = &qp->sq;
	uint32_t used = sq->next - atomic_load_explicit(&sq->head, memory_order_acquire);
	struct send_wqe *wqe;

	used -= atomic_load_explicit(&sq->own, memory_order_relaxed);
	if ((int32_t)used >= (int32_t)sq->max_wr) {
		refuse(REASON_SEND_QUEUE_FULL, "QP %#x has %u work requests that are not complete",
		       qp->number, used);
		return NULL;
	}
	wqe = sq_wqe(sq, sq->next++);
	memset(wqe, 0, sizeof(*wqe));
	return wqe;
}

struct send_wqe *sq_next_own(struct qp *qp)
{
	struct send_queue *sq = &qp->sq;
	struct send_wqe *wqe;

	if (atomic_load_explicit(&sq->own, memory_order_relaxed) >= 2 * MAX_RNDV)
		return NULL;
	atomic_fetch_add_explicit(&sq->own, 1, memory_order_relaxed);
	wqe = sq_wqe(sq, sq->next++);
	memset(wqe, 0, sizeof(*wqe));
	return wqe;
}

void sq_commit(struct qp *qp)
{
	atomic_store_explicit(&qp->sq.tail, qp->sq.next, memory_order_release);
	spin_unlock(&qp->sq.lock);
}

void sq_abort(struct qp *qp)
{
	spin_unlock(&qp->sq.lock);
}

/* ---- what fills a WQE ---- */

int wqe_set_sge(struct qp *qp, struct send_wqe *wqe, const struct ibv_sge *sge, size_t num_sge)
{
	if (num_sge > qp->sq.max_sge)
		return refuse(REASON_SEND_TOO_MANY_SGE,
			      "QP %#x, wr_id %#llx: %zu elements, it takes %u", qp->number,
			      (unsigned long long)wqe->wr_id, num_sge, qp->sq.max_sge);
	wqe->num_sge = (uint32_t)num_sge;
	wqe->is_inline = false;
	wqe->length = 0;
	for (size_t i = 0; i < num_sge; i++) {
		wqe->sge[i] = sge[i];
		wqe->length += sge[i].length;
	}
	return 0;
}

static int too_long_inline(const struct qp *qp, const struct send_wqe *wqe)
{
	return refuse(REASON_SEND_INLINE_SIZE,
		      "QP %#x, wr_id %#llx: inline data is longer than the %u bytes it takes",
		      qp->number, (unsigned long long)wqe->wr_id, qp->sq.max_inline);
}

static int add_inline(struct qp *qp, struct send_wqe *wqe, const void *addr, size_t length)
{
	if (length > qp->sq.max_inline - wqe->length)
		return too_long_inline(qp, wqe);
	if (memory_load(wqe->data + wqe->length, addr, length))
		return refuse(REASON_SEND_INLINE_FAULT,
			      "QP %#x, wr_id %#llx: %zu bytes at %p cannot be read", qp->number,
			      (unsigned long long)wqe->wr_id, length, addr);
	wqe->length += length;
	return 0;
}

static void begin_inline(struct send_wqe *wqe)
{
	wqe->num_sge = 0;
	wqe->is_inline = true;
	wqe->length = 0;
	wqe->flags |= IBV_SEND_INLINE;
}

int wqe_set_inline(struct qp *qp, struct send_wqe *wqe, const struct ibv_data_buf *pieces,
		   size_t count)
{
	int ret = 0;

	begin_inline(wqe);
	for (size_t i = 0; i < count && !ret; i++)
		ret = add_inline(qp, wqe, pieces[i].addr, pieces[i].length);
	return ret;
}

static int set_inline_sge(struct qp *qp, struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	int ret = 0;

	begin_inline(wqe);
	for (int i = 0; i < wr->num_sge && !ret; i++)
		ret = add_inline(qp, wqe, (const void *)(uintptr_t)wr->sg_list[i].addr,
				 wr->sg_list[i].length);
	return ret;
}

int wqe_set_ud(struct qp *qp, struct send_wqe *wqe, const struct ibv_ah *ibv, uint32_t qpn,
	       uint32_t qkey)
{
	const struct ah *ah = (const struct ah *)ibv;

	if (!ah)
		return refuse(REASON_SEND_NO_AH, "QP %#x, wr_id %#llx: wr.ud.ah is NULL",
			      qp->number, (unsigned long long)wqe->wr_id);
	if (!pd_is_same(ah->pd, qp->pd))
		return refuse(REASON_SEND_AH_PD, "QP %#x is of PD %u, AH %u of PD %u", qp->number,
			      qp->pd->ibv.handle, ah->ibv.handle, ah->pd->ibv.handle);
	if (qpn > QPN_MASK)
		return refuse(REASON_SEND_REMOTE_QPN,
			      "QP %#x, wr_id %#llx: wr.ud.remote_qpn is %#x", qp->number,
			      (unsigned long long)wqe->wr_id, qpn);
	wqe->ud.av = ah_av((struct ah *)ibv);
	wqe->ud.qpn = qpn;
	wqe->ud.qkey = qkey;
	return 0;
}

/* ---- the checks ---- */

enum { ON_RC = 1, ON_UC = 2, ON_UD = 4, ON_RAW = 8 }; /* XRC has what RC has */

/* Which types take an opcode (9.4, Table 36; 10.8.2), and what goes with it. */
static const struct {
	const char *name;
	uint8_t types;
	bool no_inline; /* the elements are written to, or there is no payload at all */
} opcodes[] = {
    [IBV_WR_RDMA_WRITE] = {"RDMA_WRITE", ON_RC | ON_UC, false},
    [IBV_WR_RDMA_WRITE_WITH_IMM] = {"RDMA_WRITE_WITH_IMM", ON_RC | ON_UC, false},
    [IBV_WR_SEND] = {"SEND", ON_RC | ON_UC | ON_UD | ON_RAW, false},
    [IBV_WR_SEND_WITH_IMM] = {"SEND_WITH_IMM", ON_RC | ON_UC | ON_UD, false},
    [IBV_WR_RDMA_READ] = {"RDMA_READ", ON_RC, true},
    [IBV_WR_ATOMIC_CMP_AND_SWP] = {"ATOMIC_CMP_AND_SWP", ON_RC, true},
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = {"ATOMIC_FETCH_AND_ADD", ON_RC, true},
    [IBV_WR_LOCAL_INV] = {"LOCAL_INV", ON_RC | ON_UC, true},
    [IBV_WR_BIND_MW] = {"BIND_MW", ON_RC | ON_UC, true},
    [IBV_WR_SEND_WITH_INV] = {"SEND_WITH_INV", ON_RC, false},
    [IBV_WR_FLUSH] = {"FLUSH", ON_RC, true},
    [IBV_WR_ATOMIC_WRITE] = {"ATOMIC_WRITE", ON_RC, false},
};

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static int check_state(const struct qp *qp)
{
	enum ibv_qp_state state = atomic_load_explicit(&qp->state, memory_order_acquire);

	if (qp->wq_table)
		return refuse(REASON_RSS_SENDS, "QP %#x", qp->number);
	if (qp->type == IBV_QPT_XRC_RECV)
		return refuse(REASON_XRC_RECV_SENDS, "QP %#x", qp->number);
	if (state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR)
		return refuse(REASON_SEND_STATE, "QP %#x is in %s", qp->number,
			      qp_state_name(state));
	return 0;
}

static uint8_t type_of(const struct qp *qp)
{
	if (qp_is_reliable(qp))
		return ON_RC;
	if (qp->type == IBV_QPT_RAW_PACKET)
		return ON_RAW;
	return qp->type == IBV_QPT_UC ? ON_UC : ON_UD;
}

static int check_opcode(const struct qp *qp, const struct send_wqe *wqe)
{
	uint8_t type = type_of(qp);
	const char *type_name = type == ON_RC	? "RC"
				: type == ON_UC ? "UC"
				: type == ON_UD ? "UD"
						: "RAW_PACKET";

	if ((unsigned int)wqe->opcode >= sizeof(opcodes) / sizeof(opcodes[0]) ||
	    !opcodes[wqe->opcode].name)
		return refuse(REASON_SEND_OPCODE, "QP %#x, wr_id %#llx: opcode is %d", qp->number,
			      (unsigned long long)wqe->wr_id, wqe->opcode);
	if (!(opcodes[wqe->opcode].types & type))
		return refuse(REASON_SEND_OPCODE_TYPE, "QP %#x, wr_id %#llx: %s on type %s",
			      qp->number, (unsigned long long)wqe->wr_id, opcodes[wqe->opcode].name,
			      type_name);
	return 0;
}

static int check_payload(const struct qp *qp, const struct send_wqe *wqe)
{
	const unsigned long long wr_id = wqe->wr_id;

	if (wqe->flags & IBV_SEND_INLINE && opcodes[wqe->opcode].no_inline)
		return refuse(REASON_SEND_INLINE_OPCODE,
			      "QP %#x, wr_id %#llx: %s with IBV_SEND_INLINE", qp->number, wr_id,
			      opcodes[wqe->opcode].name);
	if (is_atomic(wqe->opcode) && wqe->length != sizeof(uint64_t))
		return refuse(REASON_SEND_ATOMIC_SIZE,
			      "QP %#x, wr_id %#llx: the elements have %llu bytes", qp->number,
			      wr_id, (unsigned long long)wqe->length);
	if (wqe->opcode == IBV_WR_ATOMIC_WRITE && wqe->length != sizeof(uint64_t))
		return refuse(REASON_SEND_ATOMIC_WRITE_SIZE, "QP %#x, wr_id %#llx: %llu bytes",
			      qp->number, wr_id, (unsigned long long)wqe->length);
	return 0;
}

int qp_check_send(const struct qp *qp, const struct send_wqe *wqe)
{
	const unsigned int known =
	    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
	int ret = check_state(qp);

	if (!ret)
		ret = check_opcode(qp, wqe);
	if (!ret && wqe->flags & ~known)
		ret = refuse(REASON_SEND_FLAGS, "QP %#x, wr_id %#llx: send_flags is %#x",
			     qp->number, (unsigned long long)wqe->wr_id, wqe->flags);
	return ret ? ret : check_payload(qp, wqe);
}

/* ---- ibv_post_send() ---- */

/* What depends on the opcode. FLUSH has no place in struct ibv_send_wr; ATOMIC_WRITE carries its 8
 * bytes inline. */
static int set_operation(struct qp *qp, struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
		wqe->imm_data = wr->imm_data;
		return 0;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->atomic.compare_add = wr->wr.atomic.compare_add;
		wqe->atomic.swap = wr->wr.atomic.swap;
		return 0;
	case IBV_WR_ATOMIC_WRITE:
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
		if (!wqe->is_inline)
			return refuse(REASON_SEND_ATOMIC_WRITE_INLINE, "QP %#x, wr_id %#llx",
				      qp->number, (unsigned long long)wr->wr_id);
		memcpy(&wqe->atomic_write, wqe->data, sizeof(wqe->atomic_write));
		return 0;
	case IBV_WR_FLUSH:
		return refuse(REASON_SEND_FLUSH, "QP %#x, wr_id %#llx", qp->number,
			      (unsigned long long)wr->wr_id);
	case IBV_WR_LOCAL_INV:
	case IBV_WR_SEND_WITH_INV:
		wqe->invalidate_rkey = wr->invalidate_rkey;
		return 0;
	case IBV_WR_BIND_MW:
		return mw_fill_bind(qp, wqe, wr->bind_mw.mw, wr->bind_mw.rkey,
				    &wr->bind_mw.bind_info, false);
	default:
		wqe->imm_data = wr->imm_data;
		if (qp->type != IBV_QPT_UD)
			return 0;
		return wqe_set_ud(qp, wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
				  wr->wr.ud.remote_qkey);
	}
}

static int fill(struct qp *qp, struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	int ret;

	wqe->wr_id = wr->wr_id;
	wqe->opcode = wr->opcode;
	wqe->flags = wr->send_flags;
	wqe->remote_srqn = qp->type == IBV_QPT_XRC_SEND ? wr->qp_type.xrc.remote_srqn : 0;
	if (qp->sq_sig_all)
		wqe->flags |= IBV_SEND_SIGNALED;
	ret = check_opcode(qp, wqe);
	if (ret)
		return ret;
	if (wr->num_sge < 0)
		return refuse(REASON_SEND_TOO_MANY_SGE, "QP %#x, wr_id %#llx: num_sge is %d",
			      qp->number, (unsigned long long)wr->wr_id, wr->num_sge);
	/* Those have no payload; whatever their elements say, they are not looked at. */
	if (wr->opcode == IBV_WR_LOCAL_INV || wr->opcode == IBV_WR_BIND_MW)
		ret = 0;
	else if (wr->send_flags & IBV_SEND_INLINE && !opcodes[wr->opcode].no_inline)
		ret = set_inline_sge(qp, wqe, wr);
	else
		ret = wqe_set_sge(qp, wqe, wr->sg_list, (size_t)wr->num_sge);
	if (!ret)
		ret = qp_check_send(qp, wqe);
	return ret ? ret : set_operation(qp, wqe, wr);
}

int qp_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int ret = 0;

	sq_begin(qp);
	for (; wr; wr = wr->next) {
		struct send_wqe *wqe;

		ret = check_state(qp);
		if (ret)
			break;
		wqe = sq_next(qp);
		if (!wqe) {
			ret = ENOMEM;
			break;
		}
		ret = fill(qp, wqe, wr);
		if (ret) {
			qp->sq.next--; /* all before it are posted */
			break;
		}
	}
	if (ret)
		*bad = wr;
	sq_commit(qp);
	return ret;
}

ASIDE static int refuse_recv(const struct qp *qp)
{
	if (qp->wq_table)
		return refuse(REASON_RECV_HAS_TABLE, "QP %#x", qp->number);
	if (qp_is_xrc(qp))
		return refuse(REASON_XRC_RECEIVES, "QP %#x", qp->number);
	if (qp->srq)
		return refuse(REASON_RECV_HAS_SRQ, "QP %#x receives from SRQ %u", qp->number,
			      qp->srq->number);
	return refuse(REASON_RECV_STATE, "QP %#x is in RESET", qp->number);
}

WHOLE int qp_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (!qp->has_receives ||
	    atomic_load_explicit(&qp->state, memory_order_acquire) == IBV_QPS_RESET) {
		*bad = wr;
		return refuse_recv(qp);
	}
	return recv_queue_post(&qp->rq, wr, bad);
}
