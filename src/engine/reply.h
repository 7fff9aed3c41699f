/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the ACK of what a lane's thread took in may wait for the program's reply.
 *
 * A program that sleeps, or waits in its memory for what a WRITE brings, answers with a message of
 * its own. If the ACK goes with that, it is one send instead of two, and the peer has both in one
 * look: it finds the reply while it still polls for its own completion, and so does this end what
 * comes next. From then on neither thread is woken.
 *
 * It is done where every packet was answered so several times in a row, and given up where the ACK
 * waited in vain (habit.h).
 */
#ifndef ENGINE_REPLY_H
#define ENGINE_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/habit.h"

enum { REPLY_NS = 50000 }; /* at most: a program that sleeps takes some 16 us to be on its feet */

/* A lane's, under its lock. Zeroed at first. */
struct reply {
	uint32_t posts; /* the program's, when packets came last */
	struct habit habit;
};

/* The thread has taken packets in, and there were so many posts. True: the next may come soon. */
bool reply_is_likely(struct reply *reply, uint32_t posts);

/* An ACK has waited. */
void reply_was_awaited(struct reply *reply, bool has_come);

#endif
