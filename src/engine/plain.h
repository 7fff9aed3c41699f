/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A plain SEND to another host (transport/plain.h, transport/unreliable.h) from a lane that a
 * program polls: built and sent by the posting verb, without a turn of the lane. The clock is
 * looked at when it has left.
 */
#ifndef ENGINE_PLAIN_H
#define ENGINE_PLAIN_H

#include <stdbool.h>

struct ibv_send_wr;
struct lane;
struct qp;
struct seat;

/* As plain_post(). With the lane's lock. */
bool plain_send(struct lane *lane, struct seat *seat, const struct ibv_send_wr *wr);

/* The same on a UC or UD QP, as unreliable_post_far(). */
bool plain_send_unreliably(struct lane *lane, struct qp *qp, struct ibv_send_wr *wr);

#endif
