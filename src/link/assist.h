/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A long copy between two processes that both do, while both are at it: who copies offers the work
 * in shared memory, chunk by chunk, and begins; the other, if it comes by (it polls), claims chunks
 * as well and copies them the opposite way. Each chunk is claimed once. So nobody waits for one who
 * does not come by, and who is slow gets little to do.
 *
 * The end of a WRITE is left to the initiator when all else is there: programs wait for it.
 *
 * What is claimed has to be waited for, as the other may be in the midst of it; and for one that is
 * stopped there, not in this call.
 */
#ifndef LINK_ASSIST_H
#define LINK_ASSIST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "link/directory.h"
#include "transport/reach.h"

struct reach;

enum { ASSIST_WORDS = 14 };

/* In shared memory, one for each direction; zeroed there is no work. */
struct assist_board {
	_Alignas(64) atomic_ulong claims;	/* of the work: number, chunks, next one */
	_Atomic uint64_t work[ASSIST_WORDS];	/* the initiator's */
	_Alignas(64) atomic_uint done, failure; /* the helper's: chunks, and of which work */
};

/* The initiator's. */
struct assist {
	struct assist_board *board;
	uint32_t number;    /* of the last work */
	bool is_waiting;    /* for the helper, which had not come to an end when last seen */
	bool has_failed;    /* on our side */
	uint32_t done_then; /* `done`, when the helper will have come to the end */
	uint32_t helped;    /* chunks */
	uint32_t alone;	    /* works in a row that nobody helped with, or was asked to */
	uint32_t qpn;	    /* whose it is, and which part of which message */
	uint64_t addr, offset, bytes;
};

/* Whether this is long enough, and to be offered. */
bool assist_is_for(struct assist *assist, const struct reach_op *op);

/* Does it, or goes on waiting: REACH_LATER, and then it is to be called again. Of one work before
 * the other comes to its end. The peer's directory was asked, the hazard is odd. */
enum reach_result assist_do(struct assist *assist, struct reach *reach,
			    const struct directory_question *question, const struct reach_op *op,
			    uint64_t place);

/* The helper's: does what it finds, in its own memory as its own directory allows. `hazard` is that
 * of its visits to the other's. */
bool assist_help(struct assist_board *board, struct reach *reach, atomic_uint *hazard,
		 const struct directory *own);

static inline bool assist_is_wanted(const struct assist_board *board)
{
	uint64_t claims = atomic_load_explicit(&board->claims, memory_order_acquire);

	return (uint16_t)claims != (uint16_t)(claims >> 16);
}

#endif
