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
