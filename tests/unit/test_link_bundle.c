/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of a stream that are fetched together by two processes (link/bundle.h): each is right,
 * whoever does how much, also where all have one place; and it counts as done only for who asks for
 * just that.
 */
#define _GNU_SOURCE
#include <time.h>

#include "assist_board.h"
#include "link/assist_work.h"

enum {
	SIZE = 65536,
	COUNT = 4,
	STEP = 200 << 10, /* from one message to the next */
	ROUNDS = 40,
	RKEY_OF_OTHERS = 0x18abc,
};

/* Of the message that lies there, to there. */
struct one {
	struct directory_question question;
	struct iovec piece;
	struct reach_op op;
};

static struct one ones[1 + BUNDLE_OTHERS];
static uint32_t offered; /* of them, behind the first */
static int looks;

static uint32_t behind(const struct reach_op *op, struct reach_behind *found, uint32_t room)
{
	uint32_t count = 0;

	looks++;
	for (; count < room && count < offered; count++) {
		const struct one *one = &ones[1 + count];

		found[count] = (struct reach_behind){
		    .rkey = one->op.rkey,
		    .psn = one->op.psn,
		    .remote_addr = one->op.remote_addr,
		    .length = one->op.length,
		    .here = one->piece.iov_base,
		};
	}
	return count;
}

static void make(struct one *one, uint64_t there, uint64_t here, uint64_t bytes)
{
	static uint32_t psn;

	one->question = question_of(true, there, bytes);
	one->piece = (struct iovec){own + MARGIN + here, bytes};
	one->op = (struct reach_op){
	    .is_read = true,
	    .is_fetch = true,
	    .rkey = RKEY,
	    .remote_addr = one->question.addr,
	    .length = bytes,
	    .bytes = bytes,
	    .pieces = &one->piece,
	    .count = 1,
	    .psn = ++psn,
	};
}

/* That many, each in a place of its own. */
static void make_all(uint32_t count, uint64_t bytes)
{
	for (uint32_t i = 0; i < count; i++)
		make(&ones[i], i * STEP, i * STEP, bytes);
	ones[0].op.behind = behind;
	offered = count - 1;
}

static enum reach_result do_one(const struct one *one)
{
	return reach_do(reach, &hazard, &assist, &one->question, &one->op);
}

static void bundles_pay(bool do_they)
{
	uint8_t way = do_they ? HALVING_HALVES : HALVING_IN_ONE;

	for (int i = 0; i < 2; i++)
		assist.bundlings[i] = (struct halving){.duel = {way, way}};
	memset(assist.halvings, 0, sizeof(assist.halvings));
	assist.alone = 0;
}

static int set_up(void **state)
{
	fetches = true;
	setup(state);
	make_all(COUNT, SIZE);
	bundles_pay(true);
	fill(theirs, 1);
	looks = 0;
	return 0;
}

static int tear_down(void **state)
{
	fetches = false;
	return teardown(state);
}

static const char *source(const struct one *one)
{
	return theirs + MARGIN + (one->question.addr - 0x5000);
}

static void expect_there(const struct one *one)
{
	assert_memory_equal(one->piece.iov_base, source(one), one->op.bytes);
}

static void expect_all(void)
{
	for (uint32_t i = 0; i <= offered; i++) {
		assert_int_equal(do_one(&ones[i]), REACH_DONE);
		expect_there(&ones[i]);
		assert_int_equal(((char *)ones[i].piece.iov_base)[ones[i].op.bytes], 0);
	}
}

/* Whether it counts as there before it is asked for. */
static bool is_ahead(const struct one *one)
{
	char *place = one->piece.iov_base, other = (char)~*source(one);
	bool is;

	*place = other;
	assert_int_equal(do_one(one), REACH_DONE);
	is = *place == other;
	*place = *source(one);
	return is;
}

/* ---- who does it ---- */

static void alone_all_are_done_at_once(void **state)
{
	assert_int_equal(do_one(&ones[0]), REACH_DONE);
	assert_false(assist_is_wanted(board));
	assert_int_equal(looks, 1);
	for (uint32_t i = 0; i < COUNT; i++)
		expect_there(&ones[i]);
	for (uint32_t i = 1; i < COUNT; i++)
		assert_true(is_ahead(&ones[i]));
	assert_int_equal(looks, 1);
	assert_int_equal(atomic_load(&board->done), 0);
	assert_int_equal(atomic_load(&hazard) % 2, 0);
}

static void with_help(void (*round)(uint32_t number))
{
	pthread_t helper;

	atomic_store(&is_over, false);
	assert_int_equal(pthread_create(&helper, NULL, help, NULL), 0);
	for (uint32_t i = 0; atomic_load(&board->done) < ROUNDS && i < 100000; i++) {
		memset(own, 0, REGION);
		fill(theirs, i);
		bundles_pay(true);
		round(i);
	}
	atomic_store(&is_over, true);
	pthread_join(helper, NULL);
	assert_in_range(atomic_load(&board->done), ROUNDS, UINT32_MAX);
	assert_int_equal(atomic_load(&board->failure), 0);
	assert_int_equal(atomic_load(&hazard) % 2, 0);
	assert_int_equal(atomic_load(&helpers_hazard) % 2, 0);
}

static void do_all(uint32_t count)
{
	while (do_one(&ones[0]) == REACH_LATER) /* the helper has lost its core */
		continue;
	assert_int_equal(assist.bundle.done, count - 1);
	for (uint32_t i = 1; i < count; i++)
		assert_int_equal(do_one(&ones[i]), REACH_DONE);
	assert_int_equal(assist.bundle.next, count - 1);
}

static void each_in_its_place(uint32_t number)
{
	static const uint32_t sizes[] = {16384, 49152, 65536, 98304, 20001, 131071, 196607};
	uint32_t count = 2 + number % 2;

	for (uint32_t i = 0; i < count; i++)
		make(&ones[i], i * STEP + (number + i) % 7, i * STEP + number % 5,
		     sizes[(number + i) % 7]);
	ones[0].op.behind = behind;
	offered = count - 1;
	do_all(count);
	for (uint32_t i = 0; i < count; i++)
		expect_there(&ones[i]);
}

static void two_do_them_together(void **state)
{
	with_help(each_in_its_place);
}

static void all_in_one_place(uint32_t number)
{
	const uint32_t count = 1 + BUNDLE_OTHERS;

	for (uint32_t i = 0; i < count; i++)
		make(&ones[i], i * STEP, number % 3, SIZE);
	ones[0].op.behind = behind;
	offered = count - 1;
	do_all(count);
	expect_there(&ones[count - 1]);
}

/* As receives in order leave it. */
static void the_last_stands_where_all_have_one_place(void **state)
{
	with_help(all_in_one_place);
}

/* ---- a helper who takes its time ---- */

/* Its part is claimed by somebody who does not do it. */
static void until_it_is_claimed(void)
{
	enum reach_result result;
	pthread_t claimer;

	atomic_store(&is_claimed, false);
	assist.is_waiting = false; /* as where who was waited for had no core */
	assert_int_equal(pthread_create(&claimer, NULL, claim_one, NULL), 0);
	do {
		bundles_pay(true); /* and no trial begins, however long it takes */
		result = do_one(&ones[0]);
	} while (result != REACH_LATER);
	pthread_join(claimer, NULL);
	assert_true(assist.is_waiting);
}

static void second_halves_are_there(void)
{
	for (uint32_t i = 0; i <= offered; i++)
		memcpy(ones[i].piece.iov_base, source(&ones[i]), ones[i].op.bytes);
}

static void *end_soon(void *unused)
{
	const struct timespec moment = {.tv_nsec = 200000};

	nanosleep(&moment, NULL);
	second_halves_are_there();
	atomic_fetch_add(&board->done, 1);
	return unused;
}

static void it_is_waited_for(void **state)
{
	pthread_t ender;

	until_it_is_claimed();
	assert_int_equal(assist.bundle.done, 0); /* and nothing of it counts */
	assert_int_equal(do_one(&ones[0]), REACH_LATER);
	assert_int_equal(pthread_create(&ender, NULL, end_soon, NULL), 0);
	while (do_one(&ones[0]) == REACH_LATER)
		continue;
	pthread_join(ender, NULL);
	for (uint32_t i = 0; i < COUNT; i++)
		expect_there(&ones[i]);
	for (uint32_t i = 1; i < COUNT; i++)
		assert_true(is_ahead(&ones[i]));
	expect_all();
}

/* Also a short one, which is offered to nobody by itself. */
static void so_are_short_ones(void **state)
{
	make_all(COUNT, BUNDLE_LEAST);
	until_it_is_claimed();
	assert_int_equal(do_one(&ones[0]), REACH_LATER);
	end_soon(NULL);
	assert_int_equal(do_one(&ones[0]), REACH_DONE);
	assert_true(is_ahead(&ones[1]));
}

static void what_the_helper_could_not_copy_is_done_by_itself(void **state)
{
	until_it_is_claimed();
	atomic_store(&board->failure, assist.number);
	atomic_fetch_add(&board->done, 1);
	memset(own, 0, REGION);
	assert_int_equal(do_one(&ones[0]), REACH_DONE);
	expect_there(&ones[0]);
	assert_int_equal(*(char *)ones[1].piece.iov_base, 0);
	assert_false(is_ahead(&ones[1]));
}

static void something_else_is_refused_until_then(void **state)
{
	struct one another;

	make(&another, COUNT * STEP, COUNT * STEP, SIZE);
	until_it_is_claimed();
	assert_int_equal(do_one(&another), REACH_REFUSED);
	end_soon(NULL);
	assert_int_equal(do_one(&another), REACH_DONE);
	expect_there(&another);
	assert_false(is_ahead(&ones[1])); /* nobody has asked whether all is there */
}

static void what_is_not_wanted_is_over(void **state)
{
	pthread_t ender;

	do {
		until_it_is_claimed();
		assist_forget(&assist, PEER + 1);
		assert_true(assist.is_waiting); /* another's */
		assert_int_equal(pthread_create(&ender, NULL, end_soon, NULL), 0);
		assist_forget(&assist, PEER);
	} while (assist.is_waiting && pthread_join(ender, NULL) == 0); /* it had no core */
	assert_int_equal(atomic_load(&board->done), assist.done_then);
	pthread_join(ender, NULL);
	assert_false(is_ahead(&ones[1]));
}

/* However long the helper is stopped in it, and what is the same in all else. */
static void and_counts_for_nothing_that_comes_later(void **state)
{
	until_it_is_claimed();
	assist_forget(&assist, PEER);
	assert_true(assist.is_waiting);
	assert_int_equal(do_one(&ones[0]), REACH_REFUSED);
	end_soon(NULL);
	fill(theirs, 2);
	expect_all();
}

/* ---- for whom it counts ---- */

static void do_first(void)
{
	bundles_pay(true);
	assert_int_equal(do_one(&ones[0]), REACH_DONE);
	assert_int_equal(assist.bundle.done, COUNT - 1);
}

static void for_no_other_place(void **state)
{
	do_first();
	ones[1].piece.iov_base = own + MARGIN + COUNT * STEP;
	assert_false(is_ahead(&ones[1]));
	expect_there(&ones[1]);
}

/* One that came by packets after all is followed by another one, from there to there. */
static void for_no_other_message(void **state)
{
	do_first();
	ones[1].op.psn += 1 << 20;
	assert_false(is_ahead(&ones[1]));
	expect_there(&ones[1]);
}

static void for_nothing_behind_another_one(void **state)
{
	do_first();
	assert_false(is_ahead(&ones[2]));
	assert_false(is_ahead(&ones[3]));
	assert_false(is_ahead(&ones[1]));
}

static void once(void **state)
{
	do_first();
	assert_true(is_ahead(&ones[1]));
	assert_false(is_ahead(&ones[1]));
	assert_false(is_ahead(&ones[2]));
}

static void not_when_all_was_forgotten(void **state)
{
	do_first();
	assist_forget(&assist, PEER + 1);
	assert_true(is_ahead(&ones[1]));
	assist_forget(&assist, PEER);
	assert_false(is_ahead(&ones[2]));
}

/* What another queue pair does between is no concern of it. */
static void whatever_another_queue_pair_does(void **state)
{
	struct directory_qp qp = {
	    .qpn = QPN + 1, .dest_qpn = PEER + 1, .pd = 77, .access = REACH_SENDS, .pkey = 0xffff};
	struct one another;

	assert_true(directory_publish_qp(asked, &qp));
	make(&another, COUNT * STEP, COUNT * STEP, 1000);
	another.question.qpn = PEER + 1;
	another.question.dest_qpn = QPN + 1;
	do_first();
	assert_int_equal(do_one(&another), REACH_DONE);
	assert_true(is_ahead(&ones[1]));
}

/* ---- which ---- */

/* How many others go with the first. */
static uint32_t others(void)
{
	bundles_pay(true);
	assist.bundle = (struct bundle){.count = 0};
	return assist_bundles(&assist, reach, &ones[0].question, &ones[0].op) ? assist.bundle.count
									      : 0;
}

static void resize(struct one *one, uint64_t bytes)
{
	one->op.bytes = one->op.length = one->question.length = one->piece.iov_len = bytes;
}

static void only_what_is_middling_and_in_one_piece(void **state)
{
	assert_int_equal(others(), COUNT - 1);
	resize(&ones[0], BUNDLE_LEAST - 1);
	assert_int_equal(others(), 0);
	resize(&ones[0], BUNDLE_LESS);
	assert_int_equal(others(), 0);
	resize(&ones[0], BUNDLE_LEAST);
	assert_int_equal(others(), COUNT - 1);
	ones[0].op.count = 2;
	assert_int_equal(others(), 0);
	ones[0].op.count = 1;
	resize(&ones[2], BUNDLE_LESS);
	assert_int_equal(others(), 1);
	resize(&ones[2], BUNDLE_LEAST - 1);
	assert_int_equal(others(), 1);
	resize(&ones[2], BUNDLE_LEAST);
	assert_int_equal(others(), COUNT - 1);
	ones[0].op.behind = NULL;
	assert_int_equal(others(), 0);
	ones[0].op.behind = behind;
	offered = 0;
	assert_int_equal(others(), 0);
	offered = COUNT - 1;
	assist.is_waiting = true;
	assert_int_equal(others(), 0);
}

static void not_more_than_so_much(void **state)
{
	make_all(COUNT, BUNDLE_BYTES / COUNT);
	assert_int_equal(others(), COUNT - 1);
	resize(&ones[2], BUNDLE_BYTES / COUNT + 1);
	assert_int_equal(others(), COUNT - 2);
}

static void not_what_is_not_there(void **state)
{
	ones[2].op.rkey++;
	assert_int_equal(others(), 1);
	assert_int_equal(do_one(&ones[0]), REACH_DONE);
	assert_true(is_ahead(&ones[1]));
	ones[1].op.remote_addr += REGION;
	assert_int_equal(others(), 0);
}

/* Whose halves would not come in order. */
static void not_what_overlaps(void **state)
{
	char *place = own + MARGIN + 300000;

	offered = 1;
	ones[0].piece.iov_base = place;
	ones[1].piece.iov_base = place;
	assert_int_equal(others(), 1);
	resize(&ones[1], SIZE - 1);
	assert_int_equal(others(), 0);
	resize(&ones[1], SIZE);
	ones[1].piece.iov_base = place + SIZE - 1;
	assert_int_equal(others(), 0);
	ones[1].piece.iov_base = place - SIZE + 1;
	assert_int_equal(others(), 0);
	ones[1].piece.iov_base = place + SIZE;
	assert_int_equal(others(), 1);
	ones[1].piece.iov_base = place - SIZE;
	assert_int_equal(others(), 1);
	offered = 2;
	ones[2].piece.iov_base = place - SIZE + 1;
	assert_int_equal(others(), 1);
	ones[2].piece.iov_base = place - SIZE;
	assert_int_equal(others(), 2);
}

/* ---- what is withdrawn meanwhile ---- */

/* From the second of the others on they are in a region of their own. */
static void what_was_withdrawn_does_not_count(void **state)
{
	struct directory_mr mr = {.pd = 77,
				  .base = (uintptr_t)theirs + MARGIN,
				  .iova = 0x5000,
				  .length = REGION - 2 * MARGIN,
				  .rkey = RKEY_OF_OTHERS};

	assert_true(directory_publish_mr(asked, &mr));
	for (uint32_t i = 2; i < COUNT; i++)
		ones[i].op.rkey = ones[i].question.rkey = RKEY_OF_OTHERS;
	until_it_is_claimed();
	directory_withdraw_mr(asked, RKEY_OF_OTHERS);
	end_soon(NULL);
	assert_int_equal(do_one(&ones[0]), REACH_DONE);
	assert_int_equal(assist.bundle.done, 1);
	assert_true(is_ahead(&ones[1]));
	assert_int_equal(do_one(&ones[2]), REACH_REFUSED);
}

/* ---- what the helper does not do ---- */

/* What stands on the board, and one change of it. */
static bool helps_with(void (*change)(struct work *work))
{
	uint32_t number = (uint32_t)(atomic_load(&board->claims) >> 32) + 1;
	unsigned int done = atomic_load(&board->done);
	uint64_t words[ASSIST_WORDS];
	struct work work;

	for (int i = 0; i < ASSIST_WORDS; i++)
		words[i] = atomic_load(&board->work[i]);
	memcpy(&work, words, sizeof(work));
	change(&work);
	memcpy(words, &work, sizeof(work));
	for (int i = 0; i < ASSIST_WORDS; i++)
		atomic_store(&board->work[i], words[i]);
	memset(own, 0x77, REGION);
	atomic_store(&board->claims, (uint64_t)number << 32 | 2 << 16 | 1);
	assist_help(board, helpers_reach, &helpers_hazard, directory);
	return atomic_load(&board->done) != done;
}

static void nothing(struct work *work)
{
}

static void no_such_key(struct work *work)
{
	work->other[1].rkey++;
}

static void no_such_address(struct work *work)
{
	work->other[2].addr += REGION;
}

static void too_many(struct work *work)
{
	work->others = BUNDLE_OTHERS + 1;
}

static void behind_its_end(struct work *work)
{
	work->other[0].second = work->other[0].bytes + 1;
}

static void the_other_way(struct work *work)
{
	work->is_read = false;
}

static void with_an_end(struct work *work)
{
	work->question.length += WORK_TAIL;
	work->tail = WORK_TAIL;
}

static void of_three_chunks(struct work *work)
{
	work->third--;
}

static void nothing_that_it_may_not(void **state)
{
	void (*const wrongs[])(struct work * work) = {
	    no_such_key,   no_such_address, too_many,	     behind_its_end,
	    the_other_way, with_an_end,	    of_three_chunks,
	};

	do_first();
	assert_true(helps_with(nothing));
	for (uint32_t i = 0; i < COUNT; i++) {
		const char *place = ones[i].piece.iov_base;

		assert_memory_equal(place + SIZE / 2, source(&ones[i]) + SIZE / 2, SIZE / 2);
		for (uint32_t k = 0; k < SIZE / 2; k++)
			assert_int_equal(place[k], 0x77);
	}
	for (uint32_t wrong = 0; wrong < sizeof(wrongs) / sizeof(*wrongs); wrong++) {
		do_first();
		if (helps_with(wrongs[wrong]))
			fail_msg("wrong %u was done", wrong);
		for (uint32_t i = 0; i < REGION; i++)
			assert_int_equal(own[i], 0x77);
	}
}

/* ---- when ---- */

/* As who is alone finds out. */
static void seldom_if_nobody_helps(void **state)
{
	for (int i = 0; i < 16; i++) /* nobody is called yet */
		assert_int_equal(do_one(&ones[0]), REACH_DONE);
	assert_int_equal(assist.number, 5);
}

/* And has them together nevertheless, whatever became of the last that was offered. */
static void otherwise_it_is_one_call(void **state)
{
	uint32_t number;

	make_all(COUNT, SIZE + 100);
	for (int i = 0; i < 5; i++)
		assert_int_equal(do_one(&ones[0]), REACH_DONE);
	number = assist.number;
	atomic_store(&board->failure, number);
	memset(own, 0, REGION);
	assert_int_equal(do_one(&ones[0]), REACH_DONE);
	assert_int_equal(assist.number, number);
	for (uint32_t i = 0; i < COUNT; i++)
		expect_there(&ones[i]);
	for (uint32_t i = 1; i < COUNT; i++)
		assert_true(is_ahead(&ones[i]));
}

/* Of long ones, which gain nothing by that, there is one. */
static void but_for_long_ones(void **state)
{
	make_all(COUNT, 98304);
	for (int i = 0; i < 5; i++)
		assert_int_equal(do_one(&ones[0]), REACH_DONE);
	memset(own, 0, REGION);
	assert_int_equal(do_one(&ones[0]), REACH_DONE);
	expect_there(&ones[0]);
	assert_int_equal(*(char *)ones[1].piece.iov_base, 0);
}

/* Nor for long without calling for help. */
static void and_somebody_is_called(void **state)
{
	int count = 0;

	while (!assist.is_calling && count < 1000) {
		assert_int_equal(do_one(&ones[0]), REACH_DONE);
		count++;
	}
	assert_int_equal(count, (4 << 20) / (COUNT * SIZE) + 1);
	assert_int_equal(atomic_load(&board->calls), 1);
}

static void also_short_ones(void **state)
{
	make_all(COUNT, BUNDLE_LEAST);
	seldom_if_nobody_helps(state);
}

/* So many, which take so long. */
static void take(uint32_t count, bool are_bundled, uint64_t took)
{
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(assist_bundles(&assist, reach, &ones[0].question, &ones[0].op),
				 are_bundled);
		assert_int_equal(assist.bundle.count, are_bundled ? COUNT - 1 : 0);
		assert_ptr_equal(assist.timed, &assist.bundlings[0]);
		assert_int_equal(assist.timed_bytes, are_bundled ? COUNT * SIZE : SIZE);
		halving_time(assist.timed, SIZE, took);
		assist.timed = NULL;
	}
}

static bool is_bundled(void)
{
	return assist_bundles(&assist, reach, &ones[0].question, &ones[0].op);
}

/* Until the helper looks each time. */
static void warm_up(void)
{
	for (int i = 0; i < 16; i++) {
		assert_true(is_bundled());
		assert_null(assist.timed);
	}
}

static void where_it_is_faster(void **state)
{
	bundles_pay(false);
	assist.bundlings[0] = (struct halving){0};
	for (int i = 0; i < HALVING_FIRST; i++)
		assert_false(is_bundled());
	warm_up();
	take(HALVING_TIMES, true, 2000);
	take(HALVING_TIMES, false, 3000);
	for (int i = 0; i < HALVING_SOONEST; i++)
		assert_true(is_bundled());
	take(HALVING_TIMES, false, 2000);
	take(HALVING_TIMES, true, 3000);
	assert_false(is_bundled());
}

/* Nobody looks at what is behind where nothing comes of it. */
static void and_otherwise_costs_nothing(void **state)
{
	bundles_pay(false);
	for (int i = 0; i < HALVING_FIRST; i++)
		assert_int_equal(do_one(&ones[0]), REACH_DONE);
	assert_int_equal(looks, 0);
	bundles_pay(true);
	assist.halvings[2].duel.is_running = true; /* one trial at a time */
	assert_false(is_bundled());
	assert_int_equal(looks, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	    TEST(alone_all_are_done_at_once),
	    TEST(two_do_them_together),
	    TEST(the_last_stands_where_all_have_one_place),
	    TEST(it_is_waited_for),
	    TEST(so_are_short_ones),
	    TEST(what_the_helper_could_not_copy_is_done_by_itself),
	    TEST(something_else_is_refused_until_then),
	    TEST(what_is_not_wanted_is_over),
	    TEST(and_counts_for_nothing_that_comes_later),
	    TEST(for_no_other_place),
	    TEST(for_no_other_message),
	    TEST(for_nothing_behind_another_one),
	    TEST(once),
	    TEST(not_when_all_was_forgotten),
	    TEST(whatever_another_queue_pair_does),
	    TEST(only_what_is_middling_and_in_one_piece),
	    TEST(not_more_than_so_much),
	    TEST(not_what_is_not_there),
	    TEST(not_what_overlaps),
	    TEST(what_was_withdrawn_does_not_count),
	    TEST(nothing_that_it_may_not),
	    TEST(seldom_if_nobody_helps),
	    TEST(otherwise_it_is_one_call),
	    TEST(but_for_long_ones),
	    TEST(and_somebody_is_called),
	    TEST(also_short_ones),
	    TEST(where_it_is_faster),
	    TEST(and_otherwise_costs_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
