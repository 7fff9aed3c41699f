/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The express path (transport/express.h) of a lane that a program polls: what a verb does of it,
 * without a clock, a system call or a turn. What it leaves for later it notes: an ACK that waits
 * for the next message to take it along, or for a poll that finds nothing; an ACK timer that waits
 * for the next turn, which knows the time.
 */
#ifndef ENGINE_EXPRESS_H
#define ENGINE_EXPRESS_H

#include <stdbool.h>
#include <stdint.h>

struct cq_taking;
struct ibv_send_wr;
struct lane;
struct qp;
struct seat;

/* See engine_post(). */
struct ibv_send_wr *express_send(struct lane *lane, struct seat *seat, struct ibv_send_wr *wr,
				 bool *needs_doorbell);

/* The same of a UC or UD QP. */
struct ibv_send_wr *express_send_unreliably(struct lane *lane, struct qp *qp,
					    struct ibv_send_wr *wr, bool *needs_doorbell);

/* A poll's look at shared memory. False if there is something else to do; *did becomes true if
 * something came in. */
bool express_glance(struct lane *lane, struct cq_taking *taking, bool *did);

/* The lane's lock is held for these. */

/* Before a turn, where a program polls: takes the records that come first, and sends such as are
 * due. So these need no turn of their QPs. The number that came in; *has_left: something is for the
 * general path. */
unsigned int express_look(struct lane *lane, bool *has_left);

/* A turn: what was left for later is done, or has its turn. */
void express_settle(struct lane *lane, uint64_t now);
void express_forget(struct lane *lane, struct seat *seat);

#endif
