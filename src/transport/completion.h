/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completions of both queues, and the flush of what the error state leaves in them.
 */
#ifndef TRANSPORT_COMPLETION_H
#define TRANSPORT_COMPLETION_H

#include <stdbool.h>
#include <stdint.h>

#include "device/cq.h"
#include "device/qp.h"
#include "explain/reason.h"

/* A completion of this QP; its CQ being full ends it. */
void push_completion(struct qp *qp, struct cq *cq, const struct cqe *cqe, bool is_solicited);

/*
 * The same of a success, filled in where it stands: in the array of who polls (`taking`, or NULL),
 * or in the CQ, whose lock is held in between then.
 */
struct completion {
	struct cqe *stored; /* NULL: it is in the array */
	struct cqe lost;    /* there was no room */
};

static inline struct ibv_wc *completion_begin(struct completion *completion, struct cq *cq,
					      struct cq_taking *taking, uint64_t now)
{
	struct ibv_wc *wc = cq_take_next(taking, cq);

	completion->stored = NULL;
	if (wc)
		return wc;
	completion->stored = cq_add(cq);
	if (!completion->stored)
		completion->stored = &completion->lost;
	cqe_begin(completion->stored, now);
	return &completion->stored->wc;
}

static inline void completion_end(struct completion *completion, struct qp *qp, struct cq *cq,
				  bool is_solicited)
{
	if (!completion->stored)
		return;
	if (completion->stored == &completion->lost)
		push_completion(qp, cq, &completion->lost, is_solicited);
	else
		cq_added(cq, completion->stored, is_solicited);
}

/* A message that came over this connection into a receive of the QP's own, each field but the
 * immediate. */
static inline void wc_fill_receive(struct ibv_wc *wc, const struct qp *qp, uint64_t wr_id,
				   uint32_t length)
{
	wc_fill(wc, wr_id, IBV_WC_RECV, length, qp->number);
	wc->src_qp = qp->dest_qpn;
	wc->pkey_index = qp->attr.pkey_index;
	wc->sl = qp->av.sl;
}

/* The send WQE is done; what nobody asked to hear of completes in silence. */
void send_complete(struct qp *qp, const struct send_wqe *wqe, enum ibv_wc_status status,
		   enum reason reason, uint64_t now);

/* `wc` says all but the QP; the receive WQE that the responder holds is done. */
void recv_complete(struct qp *qp, struct ibv_wc *wc, bool is_solicited, uint64_t now);
void recv_complete_error(struct qp *qp, enum ibv_wc_status status, enum reason reason,
			 uint64_t now);

/* All that is left: IBV_WC_WR_FLUSH_ERR (10.3.1.6). */
void flush_send(struct qp *qp, uint64_t now);
void flush_recv(struct qp *qp, uint64_t now);

/* qp_transition.c: the transitions that nobody asks for. */
void qp_enter_error(struct qp *qp, uint64_t now);
void qp_enter_send_error(struct qp *qp, uint64_t now);

#endif
