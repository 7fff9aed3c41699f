// SPDX-License-Identifier: BSD-2-Clause
/*
 * The matrix of verbs: work requests, one by one and by the builder. A message is sent only after
 * its receive was posted, by whichever thread; so none waits for ever.
 */
#include <errno.h>

#include "matrix.h"

/* What is sent. */
static struct ibv_sge source(const struct set *set, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)set->bytes, length, set->mr->lkey};

	return sge;
}

static struct ibv_sge into(const struct set *set, enum set_qp qp, enum set_use use, uint32_t length)
{
	struct ibv_sge sge = {set_place(set, qp, use), length, set->mr->lkey};

	return sge;
}

static bool post(struct set *set, struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int ret;

	wr->send_flags |= IBV_SEND_SIGNALED;
	ret = ibv_post_send(qp, wr, &bad);
	CHECK(!ret || ret == ENOMEM);
	if (!ret)
		atomic_fetch_add(&set->posted, 1);
	return !ret;
}

static void rdma(struct set *set, enum ibv_wr_opcode opcode, struct ibv_sge sge)
{
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode};

	wr.wr.rdma.remote_addr = set_place(set, SET_FROM, SET_TARGET);
	wr.wr.rdma.rkey = set->mr->rkey;
	post(set, set->from, &wr);
}

static void post_write(struct set *set)
{
	rdma(set, IBV_WR_RDMA_WRITE, source(set, 100));
}

static void post_read(struct set *set)
{
	rdma(set, IBV_WR_RDMA_READ, into(set, SET_FROM, SET_INTO, 100));
}

static void post_atomic(struct set *set)
{
	struct ibv_sge sge = into(set, SET_TO, SET_INTO, 8);
	struct ibv_send_wr wr = {
	    .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};

	wr.wr.atomic.remote_addr = set_place(set, SET_TO, SET_TARGET);
	wr.wr.atomic.rkey = set->mr->rkey;
	wr.wr.atomic.compare_add = 1;
	post(set, set->to, &wr);
}

static bool is_posted(int ret)
{
	CHECK(!ret || ret == ENOMEM);
	return !ret;
}

static void send_to_srq(struct set *set)
{
	struct ibv_sge sge = source(set, 64), to = into(set, SET_TO, SET_RECEIVE, 64);
	struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1}, *bad;
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	if (is_posted(ibv_post_srq_recv(set->srq, &recv, &bad)) && post(set, set->from, &wr))
		atomic_fetch_add(&set->sent, 1);
}

static void send_to_queue(struct set *set)
{
	struct ibv_sge sge = source(set, 64), to = into(set, SET_FROM, SET_RECEIVE, 64);
	struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1}, *bad;
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE | IBV_SEND_SOLICITED};

	if (is_posted(ibv_post_recv(set->from, &recv, &bad)) && post(set, set->to, &wr))
		atomic_fetch_add(&set->sent, 1);
}

static void send_datagram(struct set *set)
{
	struct ibv_sge to = into(set, SET_UD, SET_RECEIVE, 104), sge = source(set, 64);
	struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1}, *bad;
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	is_posted(ibv_post_recv(set->ud, &recv, &bad));
	wr.wr.ud.ah = set->ah;
	wr.wr.ud.remote_qpn = set->ud->qp_num;
	wr.wr.ud.remote_qkey = 7;
	post(set, set->ud, &wr);
}

/* ---- the builder ---- */

static void build(struct ibv_qp_ex *ex)
{
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
}

static bool complete(struct set *set, struct ibv_qp_ex *ex, unsigned int count)
{
	if (!is_posted(ibv_wr_complete(ex)))
		return false;
	atomic_fetch_add(&set->posted, count);
	return true;
}

static void build_writes(struct set *set)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(set->ex);
	uint64_t to = set_place(set, SET_EX, SET_TARGET);
	struct ibv_data_buf pieces[2] = {{"one", 4}, {"two", 4}};
	struct ibv_sge sge[2] = {source(set, 64), source(set, 32)};

	build(ex);
	ibv_wr_rdma_write(ex, set->mr->rkey, to);
	ibv_wr_set_sge(ex, set->mr->lkey, sge[0].addr, 64);
	ibv_wr_rdma_write(ex, set->mr->rkey, to);
	ibv_wr_set_sge_list(ex, 2, sge);
	ibv_wr_rdma_write(ex, set->mr->rkey, to);
	ibv_wr_set_inline_data(ex, pieces[0].addr, 4);
	ibv_wr_rdma_write(ex, set->mr->rkey, to);
	ibv_wr_set_inline_data_list(ex, 2, pieces);
	complete(set, ex, 4);
}

static void build_reads(struct set *set)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(set->ex);
	uint64_t here = set_place(set, SET_EX, SET_INTO);
	uint64_t there = set_place(set, SET_EX, SET_TARGET);
	uint64_t value = 3;

	build(ex);
	ibv_wr_rdma_read(ex, set->mr->rkey, there);
	ibv_wr_set_sge(ex, set->mr->lkey, here, 64);
	ibv_wr_atomic_cmp_swp(ex, set->mr->rkey, there, 1, 2);
	ibv_wr_set_sge(ex, set->mr->lkey, here, 8);
	ibv_wr_atomic_fetch_add(ex, set->mr->rkey, there, 1);
	ibv_wr_set_sge(ex, set->mr->lkey, here, 8);
	ibv_wr_atomic_write(ex, set->mr->rkey, there, &value);
	ibv_wr_flush(ex, set->mr->rkey, there, 64, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	complete(set, ex, 5);
}

static void build_sends(struct set *set)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(set->ex);
	struct ibv_sge sge = into(set, SET_EX, SET_RECEIVE, 64);
	uint64_t here = (uintptr_t)set->bytes;
	struct ibv_recv_wr recv[3] = {{.next = &recv[1], .sg_list = &sge, .num_sge = 1},
				      {.next = &recv[2], .sg_list = &sge, .num_sge = 1},
				      {.sg_list = &sge, .num_sge = 1}};
	struct ibv_recv_wr *bad;

	if (!is_posted(ibv_post_recv(set->ex, recv, &bad)))
		return;
	build(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, set->mr->lkey, here, 64);
	ibv_wr_send_imm(ex, 5);
	ibv_wr_set_sge(ex, set->mr->lkey, here, 64);
	ibv_wr_rdma_write_imm(ex, set->mr->rkey, set_place(set, SET_EX, SET_TARGET), 6);
	ibv_wr_set_sge(ex, set->mr->lkey, here, 64);
	if (complete(set, ex, 3))
		atomic_fetch_add(&set->sent, 3);
}

static void build_datagram(struct set *set)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(set->ud);

	build(ex);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, set->ah, set->ud->qp_num, 7);
	ibv_wr_set_sge(ex, set->mr->lkey, (uintptr_t)set->bytes, 64);
	complete(set, ex, 1);
}

/* A window of type 2, bound, taken away by the queue, and freed when that is done or not. */
static void build_windows(struct set *set)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(set->ex);
	struct ibv_mw *mw = ibv_alloc_mw(set->rig.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = {.mr = set->mr,
					.addr = (uintptr_t)set->bytes,
					.length = 64,
					.mw_access_flags = IBV_ACCESS_REMOTE_WRITE};

	CHECK(mw);
	build(ex);
	ibv_wr_bind_mw(ex, mw, ibv_inc_rkey(mw->rkey), &info);
	ibv_wr_local_inv(ex, ibv_inc_rkey(mw->rkey));
	ibv_wr_abort(ex);
	CHECK(!ibv_dealloc_mw(mw));
}

static void build_nothing(struct set *set)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(set->ex), *xrc = ibv_qp_to_qp_ex(set->xrc);

	build(ex);
	ibv_wr_send_inv(ex, set->mr->rkey);
	ibv_wr_set_inline_data(ex, "none", 5);
	ibv_wr_abort(ex);
	build(xrc);
	ibv_wr_send(xrc);
	ibv_wr_set_xrc_srqn(xrc, 1);
	ibv_wr_abort(xrc);
}

const struct verb calls_post[] = {
    {"ibv_post_send", post_write},
    {"ibv_post_send", post_read},
    {"ibv_post_send", post_atomic},
    {"ibv_post_send ibv_post_srq_recv", send_to_srq},
    {"ibv_post_send ibv_post_recv", send_to_queue},
    {"ibv_post_send ibv_post_recv", send_datagram},
    {"ibv_wr_start ibv_wr_complete ibv_wr_rdma_write ibv_wr_set_sge ibv_wr_set_sge_list "
     "ibv_wr_set_inline_data ibv_wr_set_inline_data_list",
     build_writes},
    {"ibv_wr_rdma_read ibv_wr_atomic_cmp_swp ibv_wr_atomic_fetch_add ibv_wr_atomic_write "
     "ibv_wr_flush",
     build_reads},
    {"ibv_wr_send ibv_wr_send_imm ibv_wr_rdma_write_imm", build_sends},
    {"ibv_wr_set_ud_addr", build_datagram},
    {"ibv_wr_bind_mw ibv_wr_local_inv", build_windows},
    {"ibv_wr_send_inv ibv_wr_set_xrc_srqn ibv_wr_abort", build_nothing},
    {NULL, NULL},
};
