/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A SEND of one packet on a UC or UD QP from the posting verb, to another process of this host, or
 * alone to another host: it is done when it has left (10.8.5), so that with nothing before it
 * neither it nor its QP needs a turn. The packet is the one that the general path would send, at
 * the same pace (pace.c); what comes while that has it wait is queued, for the turn that follows.
 * What comes in is taken without a turn either. Whatever is not plain is the general path's, which
 * finds the error as well; nothing has changed then.
 */
#ifndef TRANSPORT_UNRELIABLE_H
#define TRANSPORT_UNRELIABLE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "transport/packet.h"

struct adapter;
struct cq_taking;
struct qp;

/* What is left of the list, for the general path. Under the lane's lock. */
struct ibv_send_wr *unreliable_post(struct qp *qp, struct ibv_send_wr *wr, struct outbox *outbox,
				    uint64_t now);

/* The same of one alone, to wherever it goes: the outbox is to be flushed then. False: it is for
 * the general path. */
bool unreliable_post_far(struct qp *qp, struct ibv_send_wr *wr, struct outbox *outbox,
			 uint64_t now);

/* For the receiver to say that it has room, for short ones at least. */
bool unreliable_waits(const struct qp *qp);

/*
 * Such a packet on its way in, however it came, into a receive of one element, and what answers one
 * that asks: its QP, which needs no turn for it; NULL if it has to go by the general path, and then
 * nothing has changed. The completion goes to who polls (`taking`, or NULL) or to its CQ. An answer
 * that is asked for leaves at once, where it is a packet to another process of this host.
 */
struct qp *unreliable_take(struct adapter *adapter, const struct packet *packet,
			   struct cq_taking *taking, uint64_t now, struct outbox *outbox);

#endif
