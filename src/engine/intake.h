/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets in. The lane's lock is held; each says how many there were.
 */
#ifndef ENGINE_INTAKE_H
#define ENGINE_INTAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/lane.h"

/* All sockets that have something, the timer, which would make every look take longer for as long
 * as it is not read, and the descriptor of kicks, which only the thread reads. */
unsigned int intake_everywhere(struct lane *lane, uint64_t now, bool is_thread);

/* The socket that had something last. */
unsigned int intake_again(struct lane *lane, uint64_t now);

/* All of them for a turn: the thread, if its turn before found something, looks first where that
 * was, without asking where there is something, and mostly finds what a stream brings next. */
unsigned int intake_turn(struct lane *lane, uint64_t now, bool is_thread);

/* A poll's look: at shared memory, which costs next to nothing, and at the socket that had
 * something last, and now and then at all. `spent` is lane_poll()'s. */
unsigned int intake_look(struct lane *lane, uint64_t now, unsigned int *spent);

/* What came through shared memory. */
unsigned int intake_near(struct lane *lane, uint64_t now);

/* What others have handed over. True if there was something. */
bool intake_parcels(struct lane *lane, uint64_t now);

#endif
