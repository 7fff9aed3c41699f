/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The helper's side: whatever stands on the board, nothing outside of what the questions there may
 * have is touched.
 */
#include <string.h>

#include "device/memory.h"
#include "link/assist_work.h"
#include "link/reach.h"

enum {
	TAIL_END = 8,
	END_NS = 5000, /* in which the initiator has done its part as well, or nearly */
};

/* In the helper's memory: the message's part, and the others'. */
struct places {
	uint64_t at[1 + BUNDLE_OTHERS];
};

/* Whole messages of two chunks, none of which has an end of its own. */
static bool are_others_sensible(const struct work *work)
{
	bool are = work->is_read && !work->tail && work->third == work->bytes;

	if (work->others > BUNDLE_OTHERS)
		return false;
	for (uint32_t i = 0; i < work->others; i++)
		are &= work->other[i].second <= work->other[i].bytes;
	return are || !work->others;
}

static bool is_sensible(const struct work *work)
{
	const struct directory_question *question = &work->question;

	return work->offset <= question->length && work->bytes <= question->length - work->offset &&
	       (!work->tail || (work->tail == WORK_TAIL &&
				WORK_TAIL <= question->length - work->offset - work->bytes)) &&
	       work->second <= work->third && work->third <= work->bytes &&
	       (work->is_read
		    ? question->need == IBV_ACCESS_REMOTE_READ || question->need == REACH_SENDS
		    : question->need == IBV_ACCESS_REMOTE_WRITE) &&
	       are_others_sensible(work);
}

static bool find_places(const struct directory *own, const struct work *work, struct places *places)
{
	struct directory_question question = work->question;
	struct directory_answer answer;

	if (!directory_ask(own, &question, &answer))
		return false;
	places->at[0] = answer.place + work->offset;
	for (uint32_t i = 0; i < work->others; i++) {
		question.rkey = work->other[i].rkey;
		question.addr = work->other[i].addr;
		question.length = work->other[i].bytes;
		if (!directory_ask(own, &question, &answer))
			return false;
		places->at[i + 1] = answer.place;
	}
	return true;
}

static bool help_copy(struct reach *reach, const struct work *work, uint32_t chunk,
		      const struct places *places)
{
	uint64_t there[1 + BUNDLE_OTHERS] = {work->address};

	for (uint32_t i = 0; i < work->others; i++)
		there[i + 1] = work->other[i].address;
	return chunk < WORK_CHUNKS &&
	       work_copy(reach, work, !work->is_read, chunk, places->at, there);
}

/* All else is there already. */
static void store_end(struct assist_board *board, uint32_t number, char *place, const char *end)
{
	const uint64_t body = WORK_TAIL - TAIL_END;

	if (memory_store(place, end, body) < 0)
		return;
	atomic_thread_fence(memory_order_release);
	if (memory_store(place + body, end + body, TAIL_END) == 0)
		atomic_store_explicit(&board->tailed, number, memory_order_relaxed);
}

static void help_with(struct assist_board *board, const struct work *work, struct reach *reach,
		      uint32_t number, const struct places *places)
{
	uint32_t chunk, count = 0;
	bool is_done = true;

	while (is_done && work_claim(board, number, 0, &chunk)) {
		count++;
		is_done = help_copy(reach, work, chunk, places);
	}
	if (!count)
		return;
	atomic_store_explicit(is_done ? &board->copied : &board->failure, number,
			      memory_order_relaxed);
	if (is_done && work->tail && work_await(&board->ended, number, END_NS))
		store_end(board, number, (char *)(uintptr_t)places->at[0] + work->bytes, work->end);
	atomic_fetch_add_explicit(&board->done, count, memory_order_release);
}

bool assist_help(struct assist_board *board, struct reach *reach, atomic_uint *hazard,
		 const struct directory *own)
{
	uint64_t claims = atomic_load_explicit(&board->claims, memory_order_acquire);
	uint64_t words[ASSIST_WORDS];
	struct places places;
	struct work work;

	for (int i = 0; i < ASSIST_WORDS; i++)
		words[i] = atomic_load_explicit(&board->work[i], memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&board->claims, memory_order_relaxed) >> 16 != claims >> 16)
		return false;
	memcpy(&work, words, sizeof(work));
	if (!reach_is_by_number(reach) || !reach_is_there(reach) || !is_sensible(&work) ||
	    !find_places(own, &work, &places))
		return false;
	/* the initiator's memory: what it withdraws, it does while nobody is there */
	atomic_fetch_add(hazard, 1);
	help_with(board, &work, reach, (uint32_t)(claims >> 32), &places);
	atomic_fetch_add_explicit(hazard, 1, memory_order_release);
	return true;
}
