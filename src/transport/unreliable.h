/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A SEND of one packet on a UC or UD QP, to another process of this host, from the posting verb:
 * it is done when it has left (10.8.5), so that with nothing before it neither it nor its QP needs
 * a turn. The packet is the one that the general path would send, at the same pace (pace.c); what
 * comes while that has it wait is queued, for the turn that follows.
 * Whatever is not plain is the general path's, which finds the error as well; nothing has changed
 * then.
 */
#ifndef TRANSPORT_UNRELIABLE_H
#define TRANSPORT_UNRELIABLE_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "transport/packet.h"

struct qp;

/* What is left of the list, for the general path. Under the lane's lock. */
struct ibv_send_wr *unreliable_post(struct qp *qp, struct ibv_send_wr *wr, struct outbox *outbox,
				    uint64_t now);

#endif
