/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work requests of a pingpong: one buffer serves for both directions.
 */
#include "pingpong.h"

static struct ibv_sge message(const struct pingpong *pp, uint32_t offset)
{
	/* Device memory is addressed from zero. */
	uintptr_t base = pp->dm ? 0 : (uintptr_t)pp->buffer;

	return (struct ibv_sge){
	    .addr = base + offset,
	    .length = pp->header - offset + pp->options.size,
	    .lkey = pp->mr->lkey,
	};
}

int pp_post_receives(struct pingpong *pp, int qp, int count)
{
	struct ibv_sge sge = message(pp, 0);
	struct ibv_recv_wr wr = {.wr_id = PP_RECV, .sg_list = &sge, .num_sge = 1}, *bad;
	int posted = 0;

	while (posted < count && !(pp->srq ? ibv_post_srq_recv(pp->srq, &wr, &bad)
					   : ibv_post_recv(pp->qps[qp], &wr, &bad)))
		posted++;
	return posted;
}

static int send_by_calls(struct pingpong *pp, struct ibv_qp *qp, const struct ibv_sge *sge)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_id = PP_SEND;
	ex->wr_flags = pp->send_flags;
	ibv_wr_send(ex);
	if (pp->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(ex, (void *)(uintptr_t)sge->addr, sge->length);
	else
		ibv_wr_set_sge(ex, sge->lkey, sge->addr, sge->length);
	return ibv_wr_complete(ex);
}

int pp_post_send(struct pingpong *pp, int qp)
{
	struct ibv_sge sge = message(pp, pp->header);
	struct ibv_send_wr wr =
			       {
				   .wr_id = PP_SEND,
				   .sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = pp->send_flags,
			       },
			   *bad;

	if (pp->options.new_send)
		return send_by_calls(pp, pp->qps[qp], &sge);
	if (pp->ah) {
		wr.wr.ud.ah = pp->ah;
		wr.wr.ud.remote_qpn = pp->remote[qp].qpn;
		wr.wr.ud.remote_qkey = PP_QKEY;
	}
	return ibv_post_send(pp->qps[qp], &wr, &bad);
}
