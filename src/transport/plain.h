/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A plain SEND: of one packet, on an RC QP, when nothing is in its way. To another host it goes
 * from the posting verb into the outbox by a few checks, without a turn of its QP. The packet is
 * the one that the general path would send, the ACK that is owed goes before it as there, and both
 * queues are left as by that. What comes in, and its ACK, is taken without taking it apart first.
 * Whatever is not as it should be is found before anything has changed, and the general path does
 * it.
 *
 * All of it is under the lane's lock.
 */
#ifndef TRANSPORT_PLAIN_H
#define TRANSPORT_PLAIN_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "transport/packet.h"

struct adapter;
struct qp;

/* Nothing is in flight: it is worth a try. */
bool plain_may(const struct qp *qp);

/*
 * Posts it, and puts its packet into the outbox; false if that is the general path's. So it is with
 * what is in flight already: a stream does better in turns, where what was posted meanwhile leaves
 * together. Then, before anybody else gets the lane's lock, plain_sent().
 */
bool plain_post(struct qp *qp, const struct ibv_send_wr *wr, struct outbox *outbox);

/* The packet has left, for which the peer waits, and this is the time: now the work request is
 * written down, in case it has to go again, and what waits for its answer begins to. */
void plain_sent(struct qp *qp, const struct ibv_send_wr *wr, uint64_t now);

/* A packet of at least a BTH. Whether it is a SEND of these, by itself; and such, with the ACK that
 * it came behind, or an ACK taken in: its QP, NULL if it is not of these. */
bool plain_is_send(const struct packet *packet);
struct qp *plain_take(struct adapter *adapter, const struct packet *packet, uint64_t now);

#endif
