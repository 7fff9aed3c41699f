/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * As unreliable.h describes it. The checks are those of the express path (express.h), and that
 * nothing is in the queue.
 */
#include "base/hot.h"
#include "device/adapter.h"
#include "device/cq.h"
#include "device/pd.h"
#include "transport/build.h"
#include "transport/express.h"
#include "transport/requester.h"
#include "transport/unreliable.h"
#include "wire/opcode.h"

static bool is_open(const struct qp *qp)
{
	return express_is_free(qp) && sq_head(qp) == qp->sq.next &&
	       !(qp->counted & IBV_QP_ATTACH_COMP_CNTR_OP_SEND);
}

/* One packet, and of a datagram it is known whom it goes to. */
static bool is_fit(const struct qp *qp, const struct ibv_send_wr *wr, uint32_t *length)
{
	const struct ah *ah = (const struct ah *)wr->wr.ud.ah;

	if (!express_is_fit(qp, wr, length) || *length > qp->mtu || !express_has_room(&qp->sq))
		return false;
	return qp->type == IBV_QPT_UC ||
	       (ah && pd_is_same(ah->pd, qp->pd) && wr->wr.ud.remote_qpn <= QPN_MASK);
}

static bool can_complete(const struct qp *qp, const struct ibv_send_wr *wr)
{
	bool is_told = wr->send_flags & IBV_SEND_SIGNALED || qp->sq_sig_all;

	return !is_told || cq_has_room(qp->send_cq, 1);
}

static struct wire_packet packet_of(struct qp *qp, const struct ibv_send_wr *wr, uint32_t length)
{
	bool has_imm = wr->opcode == IBV_WR_SEND_WITH_IMM;
	struct wire_packet wire;

	if (qp->type == IBV_QPT_UD) {
		ud_head(qp, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey, has_imm, length, &wire);
	} else {
		wire.bth = bth_of(qp, TRANSPORT_UC | (has_imm ? OP_SEND_ONLY_IMM : OP_SEND_ONLY),
				  qp->requester->psn);
		wire.bth.fecn = pace_asks(qp, length);
		wire.payload_length = length;
	}
	wire.bth.solicited = wr->send_flags & IBV_SEND_SOLICITED;
	wire.imm = be32toh(wr->imm_data);
	return wire;
}

static bool send(struct qp *qp, const struct ibv_send_wr *wr, const struct av *av, uint32_t length,
		 struct outbox *outbox)
{
	struct requester *requester = qp->requester;
	struct wire_packet wire = packet_of(qp, wr, length);
	uint8_t *to = packet_open(outbox, av, &wire);

	if (!to || !express_gather(qp, wr, to))
		return false;
	packet_close(qp, outbox, &wire);
	requester->psn = requester->una = requester->end = psn_next(requester->psn);
	return true;
}

/* To a process of this host that is known, or to anybody. */
static bool post(struct qp *qp, const struct ibv_send_wr *wr, uint32_t length, bool is_near,
		 struct outbox *outbox, uint64_t now)
{
	bool is_datagram = qp->type == IBV_QPT_UD;
	uint32_t qpn = is_datagram ? wr->wr.ud.remote_qpn : qp->attr.dest_qp_num;
	struct av av = is_datagram ? ah_av((struct ah *)wr->wr.ud.ah) : qp->av;

	if (!can_complete(qp, wr) || (is_near && !outbox->has_records(outbox, &av, qpn)))
		return false;
	if (is_datagram)
		pace_toward(qp, &av, qpn);
	if (!pace_has_room(qp, length) || !send(qp, wr, &av, length, outbox))
		return false;
	express_retire(qp, wr, IBV_WC_SEND, length, now);
	return true;
}

/* A turn has found that the receiver has enough to do. There will be another one when that has
 * answered, or has not for too long. */
static bool is_waiting(const struct qp *qp)
{
	return atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_RTS &&
	       qp->requester->ack_deadline != NO_DEADLINE &&
	       !pace_has_room(qp, pace_bytes(qp, sq_wqe(&qp->sq, qp->requester->current)));
}

/* Behind what waits it waits as well. */
static bool queue(struct qp *qp, const struct ibv_send_wr *wr, uint32_t length)
{
	struct send_wqe *wqe = sq_wqe(&qp->sq, qp->sq.next);

	if (wr->send_flags & IBV_SEND_INLINE && !express_gather(qp, wr, (uint8_t *)wqe->data))
		return false;
	express_keep(qp, wr, length, wqe);
	if (qp->type == IBV_QPT_UD &&
	    wqe_set_ud(qp, wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey))
		return false;
	qp->sq.next++;
	return true;
}

bool unreliable_waits(const struct qp *qp)
{
	return qp->requester->ack_deadline != NO_DEADLINE || !pace_has_room(qp, 0);
}

WHOLE struct ibv_send_wr *unreliable_post(struct qp *qp, struct ibv_send_wr *wr,
					  struct outbox *outbox, uint64_t now)
{
	uint32_t length;

	if (!outbox->has_records || !sq_try_begin(qp))
		return wr;
	for (; wr && is_fit(qp, wr, &length); wr = wr->next)
		if (is_open(qp) ? !post(qp, wr, length, true, outbox, now)
				: !is_waiting(qp) || !queue(qp, wr, length))
			break;
	sq_commit(qp);
	return wr;
}

WHOLE bool unreliable_post_far(struct qp *qp, struct ibv_send_wr *wr, struct outbox *outbox,
			       uint64_t now)
{
	uint32_t length;
	bool is_sent;

	if (!sq_try_begin(qp))
		return false;
	is_sent =
	    is_open(qp) && is_fit(qp, wr, &length) && post(qp, wr, length, false, outbox, now);
	sq_commit(qp);
	return is_sent;
}
