/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Claims are one word, so that a claim is of this work and no other: number of the work (32 bits),
 * how many chunks it has (16), which is next (16). What the work is, is only written while nothing
 * can be claimed; who read it and then claims with success, has read what belongs together.
 */
#include <sched.h>
#include <string.h>
#include <time.h>

#include "link/assist.h"
#include "link/clock.h"
#include "link/reach.h"

enum {
	FROM = 192 << 10,     /* less is done sooner alone */
	FIRST_MIN = 64 << 10, /* of the chunks, which are three */
	FIRST_PART = 8,
	CHUNKS = 3,
	TAIL = 4096, /* of a WRITE, where the rest was done by two */
	ALONE = 4,   /* times in a row that nobody helped: then it is offered seldom */
	SELDOM = 8,
	SPINS = 64,
	SPIN_NS = 20000,       /* then others may run */
	PATIENCE_NS = 1000000, /* in one call */
};

/* What is to be done, in words. */
struct work {
	struct directory_question question;
	uint64_t address;      /* the initiator's memory */
	uint64_t offset;       /* into the message */
	uint64_t bytes, first; /* in all, and of the first chunk */
	uint64_t is_read;
};

_Static_assert(sizeof(struct work) <= ASSIST_WORDS * 8, "fits");

bool assist_is_for(struct assist *assist, const struct reach_op *op)
{
	if (op->bytes < FROM || op->count != 1)
		return false;
	if (assist->is_waiting || assist->alone < ALONE || assist->alone % SELDOM == 0)
		return true;
	assist->alone++;
	return false;
}

/*
 * Where a chunk begins, and the one before it ends. The first is short: while it is copied the
 * helper comes by. The second is half of all, the third what the first and half leave. So each of
 * the two has half, by one call or two; each call looks up the pages anew.
 */
static uint64_t start_of(const struct work *work, uint32_t chunk)
{
	switch (chunk) {
	case 0:
		return 0;
	case 1:
		return work->first;
	case 2:
		return work->first + work->bytes / 2 / TAIL * TAIL;
	default:
		return work->bytes;
	}
}

static uint64_t bytes_of(const struct work *work, uint32_t chunk)
{
	return start_of(work, chunk + 1) - start_of(work, chunk);
}

static uint64_t claims_of(uint32_t number, uint32_t chunks, uint32_t next)
{
	return (uint64_t)number << 32 | chunks << 16 | next;
}

/* Of this work. `behind`: all that is left from this chunk on; 0: one. */
static bool claim(struct assist_board *board, uint32_t number, uint32_t behind, uint32_t *chunk)
{
	uint64_t claims = atomic_load_explicit(&board->claims, memory_order_acquire), next;

	do {
		uint32_t chunks = (uint16_t)(claims >> 16);

		*chunk = (uint16_t)claims;
		if (claims >> 32 != number || *chunk == chunks)
			return false;
		next = behind && *chunk == behind ? claims_of(number, chunks, chunks) : claims + 1;
	} while (!atomic_compare_exchange_weak_explicit(
	    &board->claims, &claims, next, memory_order_acq_rel, memory_order_acquire));
	return true;
}

/* A part of it that is in one piece. */
static bool copy(struct reach *reach, bool is_read, char *here, uint64_t there, uint64_t bytes,
		 bool ends)
{
	struct iovec piece = {here, bytes};
	struct reach_op op = {
	    .is_read = is_read,
	    .length = ends ? bytes : bytes + 1,
	    .bytes = bytes,
	    .pieces = &piece,
	    .count = 1,
	};

	return reach_copy(reach, &op, there);
}

/* ---- the initiator ---- */

static void offer(struct assist *assist, const struct work *work)
{
	struct assist_board *board = assist->board;
	uint64_t words[ASSIST_WORDS] = {0};

	memcpy(words, work, sizeof(*work));
	for (int i = 0; i < ASSIST_WORDS; i++)
		atomic_store_explicit(&board->work[i], words[i], memory_order_relaxed);
	assist->number++;
	atomic_store_explicit(&board->claims, claims_of(assist->number, CHUNKS, 0),
			      memory_order_release);
}

/* Nothing more of it is claimed. How much was, in all. */
static uint32_t withdraw(struct assist *assist)
{
	uint64_t claims = atomic_exchange(&assist->board->claims, claims_of(assist->number, 0, 0));

	return (uint16_t)claims;
}

/*
 * Who polls comes by while the first chunk is copied. If nobody did, the rest is done in one go,
 * and the end goes with it.
 */
static void work_off(struct assist *assist, struct reach *reach, const struct work *work,
		     const struct reach_op *op, uint64_t place)
{
	uint32_t own = 0, chunk;

	while (claim(assist->board, assist->number, own == 1, &chunk)) {
		uint64_t start = start_of(work, chunk), left;
		bool is_rest = chunk == 1 && own == 1;

		assist->has_failed = chunk >= CHUNKS; /* somebody wrote nonsense there */
		if (assist->has_failed)
			break;
		own = is_rest ? CHUNKS : own + 1;
		left = is_rest ? op->bytes - start : bytes_of(work, chunk);
		assist->has_failed =
		    !copy(reach, op->is_read, (char *)op->pieces[0].iov_base + start, place + start,
			  left, is_rest && op->offset + op->bytes == op->length);
		if (assist->has_failed)
			break;
	}
	assist->helped = withdraw(assist) - own;
	assist->alone = assist->helped ? 0 : assist->alone + 1;
}

static bool has_helped(const struct assist *assist)
{
	return atomic_load_explicit(&assist->board->done, memory_order_acquire) ==
	       assist->done_then;
}

static bool await(const struct assist *assist)
{
	uint64_t begin = 0;

	for (int i = 0; !has_helped(assist); i++) {
		uint64_t now;

		if (i % SPINS)
			continue;
		now = clock_ns();
		if (!begin)
			begin = now;
		if (now > begin + PATIENCE_NS)
			return false;
		if (now > begin + SPIN_NS)
			sched_yield();
	}
	return true;
}

static void begin(struct assist *assist, struct reach *reach,
		  const struct directory_question *question, const struct reach_op *op,
		  uint64_t place)
{
	bool has_tail = !op->is_read && op->offset + op->bytes == op->length;
	struct work work = {
	    .question = *question,
	    .address = (uintptr_t)op->pieces[0].iov_base,
	    .offset = op->offset,
	    .bytes = op->bytes - (has_tail ? TAIL : 0),
	    .is_read = op->is_read,
	};

	work.first = work.bytes / FIRST_PART / TAIL * TAIL;
	if (work.first < FIRST_MIN)
		work.first = FIRST_MIN;
	assist->has_failed = false;
	assist->done_then = atomic_load_explicit(&assist->board->done, memory_order_relaxed);
	offer(assist, &work);
	work_off(assist, reach, &work, op, place);
	assist->done_then += assist->helped;
	assist->qpn = question->qpn;
	assist->addr = question->addr;
	assist->offset = op->offset;
	assist->bytes = op->bytes;
}

static bool is_same(const struct assist *assist, const struct directory_question *question,
		    const struct reach_op *op)
{
	return assist->qpn == question->qpn && assist->addr == question->addr &&
	       assist->offset == op->offset && assist->bytes == op->bytes;
}

enum reach_result assist_do(struct assist *assist, struct reach *reach,
			    const struct directory_question *question, const struct reach_op *op,
			    uint64_t place)
{
	uint64_t body = op->bytes - TAIL;

	if (assist->is_waiting && !is_same(assist, question, op)) {
		if (!has_helped(assist))
			return REACH_REFUSED;
		assist->is_waiting = false;
	}
	if (!assist->is_waiting)
		begin(assist, reach, question, op, place);
	assist->is_waiting = !await(assist);
	if (assist->is_waiting && reach_is_there(reach))
		return REACH_LATER;
	if (assist->is_waiting || assist->has_failed ||
	    atomic_load_explicit(&assist->board->failure, memory_order_relaxed) == assist->number)
		return REACH_REFUSED;
	if (!assist->helped || op->is_read || op->offset + op->bytes != op->length)
		return REACH_DONE;
	return copy(reach, false, (char *)op->pieces[0].iov_base + body, place + body, TAIL, true)
		   ? REACH_DONE
		   : REACH_REFUSED;
}

/* ---- the helper ---- */

/* Whatever stands there, nothing outside of what the question may have is touched here. */
static bool is_sensible(const struct work *work)
{
	const struct directory_question *question = &work->question;

	return work->offset <= question->length && work->bytes <= question->length - work->offset &&
	       work->first && work->first <= work->bytes / 2 &&
	       (work->is_read
		    ? question->need == IBV_ACCESS_REMOTE_READ || question->need == REACH_SENDS
		    : question->need == IBV_ACCESS_REMOTE_WRITE);
}

static void help_with(struct assist_board *board, const struct work *work, struct reach *reach,
		      uint32_t number, char *place)
{
	uint32_t chunk;

	while (claim(board, number, 0, &chunk)) {
		uint64_t start = start_of(work, chunk);
		bool is_done =
		    chunk < CHUNKS && copy(reach, !work->is_read, place + start,
					   work->address + start, bytes_of(work, chunk), false);

		if (!is_done)
			atomic_store_explicit(&board->failure, number, memory_order_relaxed);
		atomic_fetch_add_explicit(&board->done, 1, memory_order_release);
		if (!is_done)
			return;
	}
}

bool assist_help(struct assist_board *board, struct reach *reach, atomic_uint *hazard,
		 const struct directory *own)
{
	uint64_t claims = atomic_load_explicit(&board->claims, memory_order_acquire);
	struct directory_answer answer;
	uint64_t words[ASSIST_WORDS];
	struct work work;

	for (int i = 0; i < ASSIST_WORDS; i++)
		words[i] = atomic_load_explicit(&board->work[i], memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&board->claims, memory_order_relaxed) >> 16 != claims >> 16)
		return false;
	memcpy(&work, words, sizeof(work));
	if (!reach_is_by_number(reach) || !reach_is_there(reach) || !is_sensible(&work) ||
	    !directory_ask(own, &work.question, &answer))
		return false;
	/* the initiator's memory: what it withdraws, it does while nobody is there */
	atomic_fetch_add(hazard, 1);
	help_with(board, &work, reach, (uint32_t)(claims >> 32),
		  (char *)(uintptr_t)(answer.place + work.offset));
	atomic_fetch_add_explicit(hazard, 1, memory_order_release);
	return true;
}
