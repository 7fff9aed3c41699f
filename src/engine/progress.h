/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress on a lane: its parts. The lane's lock is held for all but lane_thread().
 */
#ifndef ENGINE_PROGRESS_H
#define ENGINE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/lane.h"

enum { PATIENCE_NS = 100000 /* at first, see lane.h */ };

/* Who ends with an answer owed for which the peer's ring has no room, looks again and again. */
enum {
	DEBT_PATIENCE_NS = 500000000,
	DEBT_LOOK_US = 50,
};

/* The lane's lock is held: run it in the next turn. */
void lane_make_ready(struct lane *lane, struct seat *seat);

/* Moves what was posted to the end of `ready`, in its order. */
void lane_take_posted(struct lane *lane);

/* Whether a QP's peer was of a process of this host that has ended. With the lane's lock. */
bool seat_is_peer_gone(const struct qp *qp);

/* Whether its peer's address is of this host. Takes the lane's lock. */
bool seat_is_near(struct qp *qp);

/* The RC QP of this process that is the QP's peer, NULL if that is none. It stays, as who destroys
 * it takes our lane's lock first. With that. */
struct qp *seat_find_peer(const struct qp *qp);
uint32_t seat_choose_lane(struct adapter *adapter, const struct qp *qp, uint32_t *lanes);

/* QPs are ready, and nothing keeps them from running. */
static inline bool lane_is_runnable(const struct lane *lane)
{
	return lane->ready && lane->flush_at == UINT64_MAX && !lane->is_answering_later;
}

/* Packets handed over, timers due, one turn for each QP that is ready; sends. True if anything was
 * done. */
bool lane_run(struct lane *lane, uint64_t now);

/* What is staged leaves, or waits for room in a socket. */
void lane_flush(struct lane *lane, uint64_t now);

/* One of these, after a look at all sockets and at shared memory: by the lane's thread, or who sees
 * to it that nothing is left. The number of packets that were waiting. */
unsigned int lane_turn(struct lane *lane, bool is_thread);

/* The QP's deadline may be another one. */
void lane_retime(struct lane *lane, struct qp *qp);

/* The earliest deadline that is due by then, none where it stood before it moved on; UINT64_MAX:
 * there is none. `by` is earlier than that. */
uint64_t lane_first_due(struct lane *lane, uint64_t by);

/* The next packet wakes the thread, once, though it naps. */
void lane_let_it_call(struct lane *lane);

/* A program's verb ends, the lock let go. */
void lane_leave(struct lane *lane, bool took_long);

/* A post has copied for long: it counts as a poll, and when enough was copied looks at what came in
 * meanwhile, as a program may post for long before it polls. */
void lane_look_too(struct lane *lane, uint64_t began);

/* All that neighbours have sent through shared memory. */
void lane_take_near(struct lane *lane);

void *lane_thread(void *lane);

#endif
