/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The initiator's side: what is offered, in which shares, and how it ends.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>
#include <time.h>

#include "device/memory.h"
#include "link/assist_work.h"
#include "link/clock.h"
#include "link/reach.h"

enum {
	FROM = 48 << 10,   /* less is done sooner alone */
	LONGER = 96 << 10, /* of what is not so */
	LONG = 192 << 10,
	FIRST_MIN = 64 << 10, /* of the chunks, which are three */
	FIRST_PART = 8,
	FIRST = 1, /* bits for them */
	SECOND = 2,
	THIRD = 4,
	PARTS = 64,    /* in which shares are counted: */
	MORE_MAX = 16, /* for who helps */
	MORE_MIN = -7, /* and he, if he comes late, has no more than half either */
	NOTHING = -PARTS / 2,
	IN_TIME = 8, /* works in a row: then it will be with the next one */
	PAGE = 4096,
	ALONE = 4, /* times in a row that nobody helped: then it is offered seldom */
	SELDOM = 8,
	WARM = 16,     /* bundles */
	CALL_LESS = 4, /* times as many bytes alone until the next call, if it helped less often: */
	CALL_WORTH = 64,       /* or had a core that others use */
	CALL_EXPECT = 16,      /* works while it wakes up */
	PATIENCE_NS = 1000000, /* in one call */
};

/* Bytes copied alone, until the other side's thread is called: at first, and at most. Half a second
 * of copies, as a call in vain may take milliseconds from whoever has its core. */
static const uint64_t call_first = 4 << 20, call_max = UINT64_C(16) << 30;

static bool is_same(const struct assist *assist, const struct directory_question *question,
		    const struct reach_op *op)
{
	return assist->qpn == question->qpn && assist->addr == question->addr &&
	       assist->offset == op->offset && assist->bytes == op->bytes && op->count == 1 &&
	       assist->psn == op->psn && assist->here == op->pieces[0].iov_base;
}

/* For who helps: not there. */
static void tell_core(struct assist_board *board)
{
	int core = sched_getcpu();

	if (atomic_load_explicit(&board->caller, memory_order_relaxed) != core)
		atomic_store_explicit(&board->caller, core, memory_order_relaxed);
}

static void call(struct assist *assist)
{
	unsigned int busy = atomic_load_explicit(&assist->board->busy, memory_order_relaxed);

	if (assist->together >= CALL_WORTH && busy == assist->busy)
		assist->call_at = call_first;
	else if (assist->call_at < call_max)
		assist->call_at *= CALL_LESS;
	assist->busy = busy;
	assist->together = 0;
	assist->alone = 0;
	assist->alone_bytes = 0;
	assist->expecting = CALL_EXPECT;
	assist->is_calling = true;
	tell_core(assist->board);
	atomic_fetch_add_explicit(&assist->board->calls, 1, memory_order_release);
}

static void call_if_due(struct assist *assist)
{
	if (!assist->call_at)
		assist->call_at = call_first;
	if (assist->alone_bytes >= assist->call_at && !assist->is_waiting)
		call(assist);
}

/* What it takes is for this trial. */
static void time_it(struct assist *assist, struct halving *trial, uint64_t bytes)
{
	assist->timed = trial;
	assist->timed_bytes = bytes;
	assist->timed_since = clock_ns();
}

static bool is_tried(const struct assist *assist)
{
	return assist->alone < ALONE || assist->alone % SELDOM == 0;
}

/* Where nobody attends, but may poll. */
static bool is_halved(struct assist *assist, const struct reach_op *op)
{
	struct halving *halving = &assist->halvings[op->is_read * 2 + (op->bytes >= LONGER)];

	if (!halving_count(halving))
		return halving_is_halved(halving) && is_tried(assist);
	time_it(assist, halving, op->bytes);
	return halving_is_halved(halving);
}

/* Whoever was called says when he is there, which may be long after his bell was rung. */
static bool is_offered(struct assist *assist, const struct reach_op *op)
{
	bool is_attended = atomic_load_explicit(&assist->board->is_attended, memory_order_relaxed);

	if (assist->is_waiting)
		return true;
	if (op->bytes < LONG)
		return is_attended ? is_tried(assist) : is_halved(assist, op);
	if (is_tried(assist) || is_attended)
		return true;
	if (!assist->expecting)
		return false;
	assist->expecting--;
	return true;
}

/* Who has not helped for a while looks at the board only now and then, until he has: bundles that a
 * trial begins with say nothing. */
static bool is_warm(struct assist *assist, const struct halving *bundling)
{
	if (bundling->copies || !halving_is_halved(bundling))
		return true;
	if (assist->warming < WARM) {
		assist->warming++;
		return false;
	}
	assist->warming = 0;
	return true;
}

/* Not while halves are tried: each trial is of that alone. */
static bool may_bundle(const struct assist *assist, const struct reach_op *op)
{
	return bundle_may(op) && !assist->is_waiting &&
	       !assist->halvings[2 + (op->bytes >= LONGER)].duel.is_running;
}

bool assist_bundles(struct assist *assist, struct reach *reach,
		    const struct directory_question *question, const struct reach_op *op)
{
	struct halving *bundling = &assist->bundlings[op->bytes >= LONGER];
	bool is_bundled, is_trial;

	if (!may_bundle(assist, op))
		return false;
	is_trial = halving_count(bundling);
	assist->is_alone = !is_trial && !is_tried(assist);
	is_bundled = halving_is_halved(bundling) && !(assist->is_alone && op->bytes >= LONGER);
	if ((!is_bundled && !is_trial) || !bundle_gather(&assist->bundle, reach, question, op))
		return false;
	if (!is_bundled)
		assist->bundle.count = 0;
	call_if_due(assist);
	if (is_trial && is_warm(assist, bundling))
		time_it(assist, bundling, bundle_bytes(&assist->bundle, op));
	return is_bundled;
}

bool assist_is_for(struct assist *assist, const struct directory_question *question,
		   const struct reach_op *op)
{
	if (assist->is_waiting && is_same(assist, question, op))
		return true;
	if (op->bytes < FROM || op->count != 1)
		return false;
	call_if_due(assist);
	if (is_offered(assist, op))
		return true;
	assist->alone++;
	assist->alone_bytes += op->bytes;
	return false;
}

/* ---- shares ---- */

static bool is_long(const struct work *work)
{
	return work->bytes >= LONG;
}

static int8_t *more_for(struct assist *assist, const struct work *work)
{
	return &assist->more[(work->is_read ? 2 : 0) + is_long(work)];
}

/*
 * The first is short: while it is copied the helper comes by. The second is the helper's, half of
 * all at first, the third what they leave: so he who comes late finds something. Each of the two
 * has its share by one call or two, and each call looks up the pages anew. What is not so long, or
 * for a helper who comes in time, has no third, but a first that takes as long as the second.
 */
static void divide(struct work *work, int more, bool is_in_time)
{
	uint64_t helpers = work->bytes * (uint64_t)(PARTS / 2 + more) / PARTS / PAGE * PAGE;

	if (!is_long(work) || is_in_time) {
		work->second = helpers ? (work->bytes - helpers) / PAGE * PAGE : work->bytes;
		work->third = work->bytes;
		return;
	}
	work->second = work->bytes / FIRST_PART / PAGE * PAGE;
	if (work->second < FIRST_MIN)
		work->second = FIRST_MIN;
	work->third = work->second + helpers;
	if (work->third > work->bytes)
		work->third = work->bytes;
}

static uint32_t chunks_of(const struct work *work)
{
	return work->third < work->bytes ? WORK_CHUNKS : WORK_CHUNKS - 1;
}

/* From there on, with its end. */
static bool copy_rest(struct reach *reach, const struct reach_op *op, uint64_t start,
		      uint64_t place)
{
	struct iovec piece = {(char *)op->pieces[0].iov_base + start, op->bytes - start};
	struct reach_op rest = *op;

	rest.offset += start;
	rest.bytes = piece.iov_len;
	rest.pieces = &piece;
	return !rest.bytes || reach_copy(reach, &rest, place + start);
}

/* ---- the initiator ---- */

/* From this chunk on. */
static void offer(struct assist *assist, const struct work *work, uint32_t chunks, uint32_t next)
{
	struct assist_board *board = assist->board;
	uint64_t words[ASSIST_WORDS] = {0};

	memcpy(words, work, sizeof(*work));
	for (int i = 0; i < ASSIST_WORDS; i++)
		atomic_store_explicit(&board->work[i], words[i], memory_order_relaxed);
	if (atomic_load_explicit(&board->is_attended, memory_order_relaxed))
		tell_core(board);
	assist->number++;
	atomic_store_explicit(&board->claims, work_claims(assist->number, chunks, next),
			      memory_order_release);
}

/* Nothing more of it is claimed. How much was, in all. */
static uint32_t withdraw(struct assist *assist)
{
	uint64_t claims =
	    atomic_exchange(&assist->board->claims, work_claims(assist->number, 0, 0));

	return (uint16_t)claims;
}

static void note_help(struct assist *assist, uint64_t bytes, uint32_t chunks)
{
	assist->helped = chunks;
	assist->together += chunks > 0;
	assist->alone = chunks ? 0 : assist->alone + 1;
	assist->alone_bytes = chunks ? 0 : assist->alone_bytes + bytes;
}

/* With the others, if there are any. */
static bool copy_chunk(struct reach *reach, const struct bundle *bundle, const struct work *work,
		       uint32_t chunk, uint64_t place)
{
	uint64_t here[1 + BUNDLE_OTHERS] = {work->address}, there[1 + BUNDLE_OTHERS] = {place};

	for (uint32_t i = 0; i < bundle->count; i++) {
		here[i + 1] = (uintptr_t)bundle->others[i].here;
		there[i + 1] = bundle->others[i].place;
	}
	return work_copy(reach, work, work->is_read, chunk, here, there);
}

/*
 * Who polls comes by while the first chunk is copied, which is ours from the beginning. If nobody
 * did, the rest is done in one go, and the end goes with it.
 */
static void work_off(struct assist *assist, struct reach *reach, const struct work *work,
		     const struct reach_op *op, uint64_t place)
{
	uint32_t chunk = 0;

	assist->own = 0;
	do {
		bool is_rest = chunk == 1 && assist->own == FIRST && assist->alone && !work->others;

		assist->has_failed = chunk >= WORK_CHUNKS; /* somebody wrote nonsense there */
		if (assist->has_failed)
			break;
		assist->own |= is_rest ? (1U << chunks_of(work)) - 1 : 1U << chunk;
		assist->owes_tail &= !is_rest;
		assist->has_failed = is_rest
					 ? !copy_rest(reach, op, work->second, place)
					 : !copy_chunk(reach, &assist->bundle, work, chunk, place);
	} while (!assist->has_failed && work_claim(assist->board, assist->number,
						   assist->own == FIRST && assist->alone, &chunk));
	note_help(assist, bundle_bytes(&assist->bundle, op),
		  withdraw(assist) - (uint32_t)__builtin_popcount(assist->own));
}

static bool has_helped(const struct assist *assist)
{
	return atomic_load_explicit(&assist->board->done, memory_order_acquire) ==
	       assist->done_then;
}

/* By the helper, of the work that it is at the end of. */
static bool is_told(const struct assist *assist, const atomic_uint *word)
{
	return atomic_load_explicit(word, memory_order_relaxed) == assist->number;
}

/* It came in time. */
static bool has_helper_second(const struct assist *assist, const struct work *work)
{
	return assist->own == (chunks_of(work) == WORK_CHUNKS ? FIRST | THIRD : FIRST);
}

static void learn(struct assist *assist, const struct work *work)
{
	int8_t *more = more_for(assist, work);

	if (assist->own & SECOND)
		assist->in_time = 0;
	if (!has_helper_second(assist, work) || assist->helped != 1)
		return;
	assist->in_time += assist->in_time < IN_TIME;
	if (is_told(assist, &assist->board->copied))
		*more += *more < MORE_MAX;
	else
		*more -= *more > MORE_MIN;
}

static bool load_end(struct work *work)
{
	const char *from = (const char *)(uintptr_t)(work->address + work->bytes);

	return memory_load(work->end, from, WORK_TAIL) == 0;
}

static void note_what(struct assist *assist, const struct directory_question *question,
		      const struct reach_op *op)
{
	assist->qpn = question->qpn;
	assist->addr = question->addr;
	assist->offset = op->offset;
	assist->bytes = op->bytes;
	assist->psn = op->psn;
	assist->here = op->pieces[0].iov_base;
}

/* Where it has two chunks, as they have. */
static void add_others(struct work *work, const struct bundle *bundle, int more)
{
	for (; work->others < bundle->count; work->others++) {
		const struct bundled *other = &bundle->others[work->others];
		struct work as = {.bytes = other->question.length};

		divide(&as, more, true);
		work->other[work->others] = (struct work_other){
		    .rkey = other->question.rkey,
		    .bytes = (uint32_t)as.bytes,
		    .addr = other->question.addr,
		    .address = (uintptr_t)other->here,
		    .second = as.second,
		};
	}
}

/* All of a bundle by one call. */
static void do_alone(struct assist *assist, struct reach *reach, const struct work *work,
		     const struct reach_op *op, uint64_t place)
{
	assist->has_failed = !copy_chunk(reach, &assist->bundle, work, 0, place);
	note_help(assist, bundle_bytes(&assist->bundle, op), 0);
}

static void do_together(struct assist *assist, struct reach *reach, const struct work *work,
			const struct reach_op *op, uint64_t place)
{
	offer(assist, work, chunks_of(work), 1);
	work_off(assist, reach, work, op, place);
	learn(assist, work);
	if (!assist->has_failed)
		atomic_store_explicit(&assist->board->ended, assist->number, memory_order_release);
}

static void begin(struct assist *assist, struct reach *reach,
		  const struct directory_question *question, const struct reach_op *op,
		  uint64_t place)
{
	bool ends = !op->is_read && op->offset + op->bytes == op->length;
	bool is_alone = assist->bundle.count && assist->is_alone;
	struct work work = {
	    .question = *question,
	    .address = (uintptr_t)op->pieces[0].iov_base,
	    .offset = op->offset,
	    .bytes = op->bytes - (ends ? WORK_TAIL : 0),
	    .is_read = op->is_read,
	    .tail = ends ? WORK_TAIL : 0,
	};
	int more = is_alone ? NOTHING : *more_for(assist, &work);

	divide(&work, more, assist->in_time >= IN_TIME);
	add_others(&work, &assist->bundle, more);
	assist->has_failed = ends && !load_end(&work);
	assist->owes_tail = ends;
	assist->helped = 0;
	assist->done_then = atomic_load_explicit(&assist->board->done, memory_order_relaxed);
	if (is_alone)
		do_alone(assist, reach, &work, op, place);
	else if (!assist->has_failed)
		do_together(assist, reach, &work, op, place);
	assist->done_then += assist->helped;
	note_what(assist, question, op);
}

/* Something else comes first. */
static bool is_free(struct assist *assist)
{
	if (!has_helped(assist))
		return false;
	assist->is_waiting = false;
	assist->bundle.count = 0;
	assist->timed = NULL;
	return true;
}

static enum reach_result done(bool is_done)
{
	return is_done ? REACH_DONE : REACH_REFUSED;
}

/* Nobody is at it any more. What fails with others may be one of those. */
static enum reach_result end(struct assist *assist, struct reach *reach, const struct reach_op *op,
			     uint64_t place)
{
	bool has_failed =
	    assist->has_failed || (assist->helped && is_told(assist, &assist->board->failure));

	if (assist->bundle.count && !has_failed) {
		bundle_is_done(&assist->bundle, reach);
		return REACH_DONE;
	}
	if (assist->bundle.count) {
		assist->bundle.count = 0;
		return done(reach_copy(reach, op, place));
	}
	if (has_failed)
		return REACH_REFUSED;
	if (!assist->owes_tail || (assist->helped && is_told(assist, &assist->board->tailed)))
		return REACH_DONE;
	return done(copy_rest(reach, op, op->bytes - WORK_TAIL, place));
}

enum reach_result assist_do(struct assist *assist, struct reach *reach,
			    const struct directory_question *question, const struct reach_op *op,
			    uint64_t place)
{
	if (assist->is_waiting && !is_same(assist, question, op) && !is_free(assist))
		return REACH_REFUSED;
	if (!assist->is_waiting)
		begin(assist, reach, question, op, place);
	assist->is_waiting = !work_await(&assist->board->done, assist->done_then, PATIENCE_NS);
	if (!assist->is_waiting)
		return end(assist, reach, op, place);
	if (reach_is_there(reach))
		return REACH_LATER;
	assist->bundle.count = 0;
	return REACH_REFUSED;
}

void assist_forget(struct assist *assist, uint32_t qpn)
{
	bundle_forget(&assist->bundle, qpn);
	if (!assist->is_waiting || assist->qpn != qpn)
		return;
	work_await(&assist->board->done, assist->done_then, PATIENCE_NS);
	if (!is_free(assist))
		assist->qpn = 0; /* nobody's */
}
