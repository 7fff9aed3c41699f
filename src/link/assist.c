/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Claims are one word, so that a claim is of this work and no other: number of the work (32 bits),
 * how many chunks it has (16), which is next (16). What the work is, is only written while nothing
 * can be claimed; who read it and then claims with success, has read what belongs together.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>
#include <time.h>

#include "device/memory.h"
#include "link/assist.h"
#include "link/clock.h"
#include "link/reach.h"

enum {
	FROM = 48 << 10,   /* less is done sooner alone */
	LONGER = 96 << 10, /* of what is not so */
	LONG = 192 << 10,
	FIRST_MIN = 64 << 10, /* of the chunks, which are three */
	FIRST_PART = 8,
	CHUNKS = 3, /* at most */
	FIRST = 1,  /* bits for them */
	SECOND = 2,
	THIRD = 4,
	PARTS = 64,    /* in which shares are counted: */
	MORE_MAX = 16, /* for who helps */
	MORE_MIN = -7, /* and he, if he comes late, has no more than half either */
	IN_TIME = 8,   /* works in a row: then it will be with the next one */
	PAGE = 4096,
	TAIL = 64, /* of a WRITE, where the rest was done by two */
	TAIL_END = 8,
	ALONE = 4, /* times in a row that nobody helped: then it is offered seldom */
	SELDOM = 8,
	CALL_LESS = 4, /* times as many bytes alone until the next call, if it helped less often: */
	CALL_WORTH = 64,  /* or had a core that others use */
	CALL_EXPECT = 16, /* works while it wakes up */
	WARM = 16,	  /* pairs */
	SPINS = 64,
	SPIN_NS = 20000,       /* then others may run */
	PATIENCE_NS = 1000000, /* in one call */
	END_NS = 5000,	       /* in which the initiator has done its part as well, or nearly */
};

/* Bytes copied alone, until the other side's thread is called: at first, and at most. Half a second
 * of copies, as a call in vain may take milliseconds from whoever has its core. */
static const uint64_t call_first = 4 << 20, call_max = UINT64_C(16) << 30;

/* What is to be done, in words. */
struct work {
	struct directory_question question;
	uint64_t address; /* the initiator's memory */
	uint64_t offset;  /* into the message */
	uint64_t bytes;
	uint64_t second, third; /* chunk: where it begins */
	uint64_t is_read;
	uint64_t tail; /* bytes behind all that, which are to be stored last: */
	char end[TAIL];
};

_Static_assert(sizeof(struct work) <= ASSIST_WORDS * 8, "fits");

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

/* Where nobody attends, but may poll. */
static bool is_halved(struct assist *assist, const struct reach_op *op, bool is_tried)
{
	struct halving *halving = &assist->halvings[op->is_read * 2 + (op->bytes >= LONGER)];

	if (!halving_count(halving))
		return halving_is_halved(halving) && is_tried;
	assist->timed = halving;
	assist->timed_since = clock_ns();
	return halving_is_halved(halving);
}

/* Whoever was called says when he is there, which may be long after his bell was rung. */
static bool is_offered(struct assist *assist, const struct reach_op *op)
{
	bool is_tried = assist->alone < ALONE || assist->alone % SELDOM == 0;
	bool is_attended = atomic_load_explicit(&assist->board->is_attended, memory_order_relaxed);

	if (assist->is_waiting)
		return true;
	if (op->bytes < LONG)
		return is_attended ? is_tried : is_halved(assist, op, is_tried);
	if (is_tried || is_attended)
		return true;
	if (!assist->expecting)
		return false;
	assist->expecting--;
	return true;
}

bool assist_is_for(struct assist *assist, const struct reach_op *op)
{
	if (op->bytes < FROM || op->count != 1)
		return false;
	if (!assist->call_at)
		assist->call_at = call_first;
	if (assist->alone_bytes >= assist->call_at && !assist->is_waiting)
		call(assist);
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
		work->second = (work->bytes - helpers) / PAGE * PAGE;
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
	return work->third < work->bytes ? CHUNKS : CHUNKS - 1;
}

/* Where it begins, and the one before it ends. */
static uint64_t start_of(const struct work *work, uint32_t chunk)
{
	switch (chunk) {
	case 0:
		return 0;
	case 1:
		return work->second;
	case 2:
		return work->third;
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

	return !bytes || reach_copy(reach, &op, there);
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
	atomic_store_explicit(&board->claims, claims_of(assist->number, chunks, next),
			      memory_order_release);
}

/* Nothing more of it is claimed. How much was, in all. */
static uint32_t withdraw(struct assist *assist)
{
	uint64_t claims = atomic_exchange(&assist->board->claims, claims_of(assist->number, 0, 0));

	return (uint16_t)claims;
}

static void note_help(struct assist *assist, const struct reach_op *op, uint32_t chunks)
{
	assist->helped = chunks;
	assist->together += chunks > 0;
	assist->alone = chunks ? 0 : assist->alone + 1;
	assist->alone_bytes = chunks ? 0 : assist->alone_bytes + op->bytes;
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
		bool is_rest = chunk == 1 && assist->own == FIRST && assist->alone;
		uint64_t start = start_of(work, chunk);
		uint64_t left = is_rest ? op->bytes - start : bytes_of(work, chunk);

		assist->has_failed = chunk >= CHUNKS; /* somebody wrote nonsense there */
		if (assist->has_failed)
			break;
		assist->own |= is_rest ? (1U << chunks_of(work)) - 1 : 1U << chunk;
		assist->owes_tail &= !is_rest;
		assist->has_failed =
		    !copy(reach, op->is_read, (char *)op->pieces[0].iov_base + start, place + start,
			  left, is_rest && op->offset + op->bytes == op->length);
	} while (!assist->has_failed && claim(assist->board, assist->number,
					      assist->own == FIRST && assist->alone, &chunk));
	note_help(assist, op, withdraw(assist) - (uint32_t)__builtin_popcount(assist->own));
}

static bool has_helped(const struct assist *assist)
{
	return atomic_load_explicit(&assist->board->done, memory_order_acquire) ==
	       assist->done_then;
}

/* Until the other one has said that, so long at most. */
static bool await(const atomic_uint *word, unsigned int value, uint64_t patience)
{
	uint64_t begin = 0;

	for (int i = 0; atomic_load_explicit(word, memory_order_acquire) != value; i++) {
		uint64_t now;

		if (i % SPINS)
			continue;
		now = clock_ns();
		if (!begin)
			begin = now;
		if (now > begin + patience)
			return false;
		if (now > begin + SPIN_NS)
			sched_yield();
	}
	return true;
}

/* By the helper, of the work that it is at the end of. */
static bool is_told(const struct assist *assist, const atomic_uint *word)
{
	return atomic_load_explicit(word, memory_order_relaxed) == assist->number;
}

/* It came in time. */
static bool has_helper_second(const struct assist *assist, const struct work *work)
{
	return assist->own == (chunks_of(work) == CHUNKS ? FIRST | THIRD : FIRST);
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

	return memory_load(work->end, from, TAIL) == 0;
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

static void begin(struct assist *assist, struct reach *reach,
		  const struct directory_question *question, const struct reach_op *op,
		  uint64_t place)
{
	bool ends = !op->is_read && op->offset + op->bytes == op->length;
	struct work work = {
	    .question = *question,
	    .address = (uintptr_t)op->pieces[0].iov_base,
	    .offset = op->offset,
	    .bytes = op->bytes - (ends ? TAIL : 0),
	    .is_read = op->is_read,
	    .tail = ends ? TAIL : 0,
	};

	divide(&work, *more_for(assist, &work), assist->in_time >= IN_TIME);
	assist->has_failed = ends && !load_end(&work);
	assist->owes_tail = ends;
	assist->helped = 0;
	assist->done_then = atomic_load_explicit(&assist->board->done, memory_order_relaxed);
	if (!assist->has_failed) {
		offer(assist, &work, chunks_of(&work), 1);
		work_off(assist, reach, &work, op, place);
		learn(assist, &work);
	}
	if (!assist->has_failed)
		atomic_store_explicit(&assist->board->ended, assist->number, memory_order_release);
	assist->done_then += assist->helped;
	assist->is_ahead = false;
	note_what(assist, question, op);
}

static bool is_same(const struct assist *assist, const struct directory_question *question,
		    const struct reach_op *op)
{
	return assist->qpn == question->qpn && assist->addr == question->addr &&
	       assist->offset == op->offset && assist->bytes == op->bytes && op->count == 1 &&
	       assist->psn == op->psn && assist->here == op->pieces[0].iov_base;
}

/* Something else comes first. What is ahead is waited for, as a helper may well be in it still; of
 * what was waited for before it is known that the helper is stopped. */
static bool is_free(struct assist *assist)
{
	if (!has_helped(assist) &&
	    !(assist->is_ahead && await(&assist->board->done, assist->done_then, PATIENCE_NS))) {
		assist->is_ahead = false;
		return false;
	}
	assist->is_waiting = assist->is_ahead = false;
	assist->timed = NULL;
	assist->timed_more = 0;
	return true;
}

enum reach_result assist_do(struct assist *assist, struct reach *reach,
			    const struct directory_question *question, const struct reach_op *op,
			    uint64_t place)
{
	uint64_t body = op->bytes - TAIL;

	if (assist->is_waiting && !is_same(assist, question, op) && !is_free(assist))
		return REACH_REFUSED;
	assist->is_ahead = false;
	if (!assist->is_waiting)
		begin(assist, reach, question, op, place);
	assist->is_waiting = !await(&assist->board->done, assist->done_then, PATIENCE_NS);
	if (assist->is_waiting && reach_is_there(reach))
		return REACH_LATER;
	if (assist->is_waiting || assist->has_failed || is_told(assist, &assist->board->failure))
		return REACH_REFUSED;
	if (!assist->owes_tail || (assist->helped && is_told(assist, &assist->board->tailed)))
		return REACH_DONE;
	return copy(reach, false, (char *)op->pieces[0].iov_base + body, place + body, TAIL, true)
		   ? REACH_DONE
		   : REACH_REFUSED;
}

/* ---- in pairs ---- */

bool assist_is_ahead(const struct assist *assist, const struct directory_question *question,
		     const struct reach_op *op)
{
	return op->is_fetch && assist->is_waiting && is_same(assist, question, op);
}

/* Where they do, the second is to stand there when both are done. */
static bool overlap(const struct iovec *a, const struct iovec *b)
{
	const char *at = a->iov_base, *other = b->iov_base;

	return at < other + b->iov_len && other < at + a->iov_len;
}

static bool is_middling(const struct reach_op *op)
{
	return op->count == 1 && op->bytes >= FROM && op->bytes < LONG;
}

/* What is longer is better shared by both when it comes. */
static bool may_pair(const struct assist *assist, const struct reach_op *op)
{
	return op->behind && !assist->is_waiting && is_middling(op) && is_middling(op->behind) &&
	       !overlap(op->pieces, op->behind->pieces);
}

/* Who has not helped for a while looks at the board only now and then, until he has: pairs that the
 * trial begins with say nothing. */
static bool is_warm(struct assist *assist, const struct halving *pairing)
{
	if (pairing->copies || !halving_is_halved(pairing))
		return true;
	if (assist->warming < WARM) {
		assist->warming++;
		return false;
	}
	assist->warming = 0;
	return true;
}

/* Not while halves are tried: each trial is of that alone. */
bool assist_pairs(struct assist *assist, const struct reach_op *op)
{
	bool is_longer = op->bytes >= LONGER;
	struct halving *pairing = &assist->pairings[is_longer];

	if (!may_pair(assist, op) || assist->halvings[2 + is_longer].duel.is_running)
		return false;
	if (!halving_count(pairing))
		return halving_is_halved(pairing) &&
		       (assist->alone < ALONE || assist->alone % SELDOM == 0);
	if (!is_warm(assist, pairing))
		return true;
	assist->timed = pairing;
	assist->timed_since = clock_ns();
	return halving_is_halved(pairing);
}

/* In one piece, and nothing of it is ours. */
static void offer_behind(struct assist *assist, const struct directory_question *question,
			 const struct reach_op *behind)
{
	const struct work work = {
	    .question = *question,
	    .address = (uintptr_t)behind->pieces[0].iov_base,
	    .bytes = behind->bytes,
	    .second = behind->bytes,
	    .third = behind->bytes,
	    .is_read = true,
	};

	assist->done_then = atomic_load_explicit(&assist->board->done, memory_order_relaxed) + 1;
	offer(assist, &work, 1, 0);
}

enum reach_result assist_do_pair(struct assist *assist, struct reach *reach,
				 const struct directory_question *question,
				 const struct reach_op *op, uint64_t place)
{
	struct directory_question other = *question;
	bool is_done;

	other.rkey = op->behind->rkey;
	other.addr = op->behind->remote_addr;
	other.length = op->behind->length;
	offer_behind(assist, &other, op->behind);
	is_done = reach_copy(reach, op, place);
	note_help(assist, op, withdraw(assist));
	assist->is_waiting = assist->is_ahead = assist->helped == 1;
	if (assist->is_ahead) {
		assist->has_failed = assist->owes_tail = false;
		assist->timed_more = op->bytes;
		note_what(assist, &other, op->behind);
	}
	return is_done ? REACH_DONE : REACH_REFUSED;
}

void assist_forget(struct assist *assist, uint32_t qpn)
{
	if (assist->is_waiting && assist->qpn == qpn && !is_free(assist))
		assist->qpn = 0; /* nobody's */
}

/* ---- the helper ---- */

/* Whatever stands there, nothing outside of what the question may have is touched here. */
static bool is_sensible(const struct work *work)
{
	const struct directory_question *question = &work->question;

	return work->offset <= question->length && work->bytes <= question->length - work->offset &&
	       (!work->tail ||
		(work->tail == TAIL && TAIL <= question->length - work->offset - work->bytes)) &&
	       work->second <= work->third && work->third <= work->bytes &&
	       (work->is_read
		    ? question->need == IBV_ACCESS_REMOTE_READ || question->need == REACH_SENDS
		    : question->need == IBV_ACCESS_REMOTE_WRITE);
}

static bool help_copy(struct reach *reach, const struct work *work, uint32_t chunk, char *place)
{
	uint64_t start = start_of(work, chunk);

	return chunk < CHUNKS && copy(reach, !work->is_read, place + start, work->address + start,
				      bytes_of(work, chunk), false);
}

/* All else is there already. */
static void store_end(struct assist_board *board, uint32_t number, char *place, const char *end)
{
	const uint64_t body = TAIL - TAIL_END;

	if (memory_store(place, end, body) < 0)
		return;
	atomic_thread_fence(memory_order_release);
	if (memory_store(place + body, end + body, TAIL_END) == 0)
		atomic_store_explicit(&board->tailed, number, memory_order_relaxed);
}

static void help_with(struct assist_board *board, const struct work *work, struct reach *reach,
		      uint32_t number, char *place)
{
	uint32_t chunk, count = 0;
	bool is_done = true;

	while (is_done && claim(board, number, 0, &chunk)) {
		count++;
		is_done = help_copy(reach, work, chunk, place);
	}
	if (!count)
		return;
	atomic_store_explicit(is_done ? &board->copied : &board->failure, number,
			      memory_order_relaxed);
	if (is_done && work->tail && await(&board->ended, number, END_NS))
		store_end(board, number, place + work->bytes, work->end);
	atomic_fetch_add_explicit(&board->done, count, memory_order_release);
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
