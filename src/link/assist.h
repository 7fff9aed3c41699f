/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A long copy between two processes that both do, while both are at it: who copies offers the work
 * in shared memory, chunk by chunk, and begins; the other, if it comes by (it polls), claims chunks
 * as well and copies them the opposite way. Each chunk is claimed once. So nobody waits for one who
 * does not come by, and who is slow gets little to do.
 *
 * How much of it the helper has is learnt: who of the two was there first has more of the next one.
 * Cores need not be equally fast.
 *
 * The end of a WRITE is stored when all else is there, as programs wait for it: by the helper, in
 * whose memory it is, if the initiator is not much later, and by the initiator otherwise.
 *
 * What is not so long is offered only where that is faster (halving.h): a half of it, or, where the
 * next ones of a stream are known by then, a half of each of those (bundle.h).
 *
 * Where the other side's program does not poll, its lane's thread is called when a stream of them
 * has been copied alone for a while: it comes by then for as long as the stream goes on. Calls that
 * were not worth it come ever more rarely.
 *
 * What is claimed has to be waited for, as the other may be in the midst of it; and for one that is
 * stopped there, not in this call.
 */
#ifndef LINK_ASSIST_H
#define LINK_ASSIST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "link/bundle.h"
#include "link/clock.h"
#include "link/directory.h"
#include "link/halving.h"
#include "transport/reach.h"

struct reach;

enum { ASSIST_WORDS = 44, ASSIST_KINDS = 4 };

/* In shared memory, one for each direction; zeroed there is no work. */
struct assist_board {
	_Alignas(64) atomic_ulong claims;    /* of the work: number, chunks, next one */
	_Atomic uint64_t work[ASSIST_WORDS]; /* the initiator's */
	atomic_uint calls; /* the initiator's, for the other side's thread, which may sleep; */
	atomic_int caller; /* who is on this core */
	atomic_uint ended; /* the initiator's part of this work is there */
	/* the helper's: chunks, once it has no more of a work; the work of which one failed; the
	 * one of which it has copied its part; the one to which it gave its end */
	_Alignas(64) atomic_uint done, failure, copied, tailed;
	atomic_bool is_attended; /* the helper does nothing else */
	atomic_uint busy;	 /* how often it left off since others use its core */
};

/* The initiator's. */
struct assist {
	struct assist_board *board;
	uint32_t number;	   /* of the last work */
	bool is_waiting;	   /* for the helper, which had not come to an end when last seen */
	bool has_failed;	   /* on our side */
	bool owes_tail;		   /* unless the helper stored it */
	uint32_t done_then;	   /* `done`, when the helper will have come to the end */
	uint32_t helped;	   /* chunks */
	uint32_t own;		   /* chunks, a bit each */
	int8_t more[ASSIST_KINDS]; /* 64ths that the helper has beyond half, READ or not, long or
				    * not */
	struct halving halvings[ASSIST_KINDS]; /* what is not long: READ or not, the longer or not
						*/
	struct bundle bundle;	     /* others with the present copy, and which are done */
	struct halving bundlings[2]; /* the same of those: one by one or so, the longer or not */
	bool is_alone;		     /* nobody is asked to help with them */
	uint8_t warming;	     /* bundles before a trial of those */
	struct halving *timed;	     /* of the present copy, which is timed; NULL: it is not */
	uint64_t timed_since, timed_bytes;
	uint32_t in_time;	       /* works in a row with which it was helped from early on */
	uint32_t alone;		       /* works in a row that nobody helped with, or was asked to */
	uint32_t together;	       /* since the last call, works that somebody helped with */
	uint64_t alone_bytes, call_at; /* so many, and the other side's thread is called */
	uint32_t busy;		       /* as the board said at the last call */
	uint32_t expecting;	       /* works to be offered, as it may be on its way */
	bool is_calling;	       /* whoever has the bell is to ring it */
	uint32_t qpn, psn;	       /* whose it is, and which part of which message */
	uint64_t addr, offset, bytes;
	const char *here;
};

/* Whether others go with it. */
bool assist_bundles(struct assist *assist, struct reach *reach,
		    const struct directory_question *question, const struct reach_op *op);

/* Whether this is long enough, and to be offered; or is what is waited for. */
bool assist_is_for(struct assist *assist, const struct directory_question *question,
		   const struct reach_op *op);

/* The copy is over, whoever did how much of it. */
static inline void assist_end(struct assist *assist, bool is_done)
{
	if (assist->timed && is_done)
		halving_time(assist->timed, assist->timed_bytes, clock_ns() - assist->timed_since);
	assist->timed = NULL;
}

/* This QP asks for what it has of it no more. It is waited for, as in one call. */
void assist_forget(struct assist *assist, uint32_t qpn);

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
