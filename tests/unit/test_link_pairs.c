/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two messages of a stream, of which each of two processes copies one (link/assist.c): both are
 * right, whoever does the second, and it counts as done only for who asks for just that.
 */
#define _GNU_SOURCE
#include <time.h>

#include "assist_board.h"

enum { SIZE = 65536, FIRST = 0, SECOND = 1 << 20, ELSEWHERE = 2 << 20 };

/* Of the message that lies there, to there. */
struct one {
	struct directory_question question;
	struct iovec piece;
	struct reach_op op;
};

static uint32_t psn;

static void make(struct one *one, uint64_t there, uint64_t here, uint64_t bytes)
{
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

static struct one first, second;

static enum reach_result do_one(const struct one *one)
{
	return reach_do(reach, &hazard, &assist, &one->question, &one->op);
}

static void pairs_pay(bool do_they)
{
	uint8_t way = do_they ? HALVING_HALVES : HALVING_IN_ONE;

	for (int i = 0; i < 2; i++)
		assist.pairings[i] = (struct halving){.duel = {way, way}};
	memset(assist.halvings, 0, sizeof(assist.halvings));
	assist.alone = 0;
}

static int set_up(void **state)
{
	fetches = true;
	setup(state);
	make(&first, FIRST, FIRST, SIZE);
	make(&second, SECOND, SECOND, SIZE);
	first.op.behind = &second.op;
	pairs_pay(true);
	fill(theirs, 1);
	return 0;
}

static int tear_down(void **state)
{
	fetches = false;
	return teardown(state);
}

static void expect_there(uint64_t there, uint64_t here, uint64_t bytes)
{
	assert_memory_equal(own + MARGIN + here, theirs + MARGIN + there, bytes);
	assert_int_equal(own[MARGIN + here + bytes], 0);
}

static void expect_both(void)
{
	assert_int_equal(do_one(&first), REACH_DONE);
	assert_int_equal(do_one(&second), REACH_DONE);
	expect_there(FIRST, FIRST, first.op.bytes);
	expect_there(SECOND, SECOND, second.op.bytes);
}

/* ---- who does it ---- */

static void alone_it_is_done_when_it_is_asked_for(void **state)
{
	assert_int_equal(do_one(&first), REACH_DONE);
	assert_false(assist.is_waiting);
	assert_false(assist_is_wanted(board));
	assert_int_equal(own[MARGIN + SECOND], 0);
	assert_int_equal(do_one(&second), REACH_DONE);
	expect_there(FIRST, FIRST, SIZE);
	expect_there(SECOND, SECOND, SIZE);
	assert_int_equal(atomic_load(&board->done), 0);
}

static void the_helper_has_the_second(void **state)
{
	static const uint32_t sizes[] = {49152, 65536, 98304, 196607};
	pthread_t helper;

	atomic_store(&is_over, false);
	assert_int_equal(pthread_create(&helper, NULL, help, NULL), 0);
	for (uint32_t round = 0, had = 0; had < 40 && round < 100000; round++) {
		make(&first, FIRST, FIRST + round % 7, sizes[round % 4]);
		make(&second, SECOND + round % 5, SECOND, sizes[round / 4 % 4]);
		first.op.behind = &second.op;
		memset(own, 0, REGION);
		fill(theirs, round);
		pairs_pay(true);
		assert_int_equal(do_one(&first), REACH_DONE);
		had += assist.is_ahead;
		while (do_one(&second) == REACH_LATER) /* it has lost its core */
			continue;
		expect_there(FIRST, FIRST + round % 7, first.op.bytes);
		expect_there(SECOND + round % 5, SECOND, second.op.bytes);
	}
	atomic_store(&is_over, true);
	pthread_join(helper, NULL);
	assert_true(atomic_load(&board->done) >= 40);
	assert_int_equal(atomic_load(&board->failure), 0);
	assert_int_equal(atomic_load(&hazard) % 2, 0);
	assert_int_equal(atomic_load(&helpers_hazard) % 2, 0);
}

/* ---- a helper who takes its time ---- */

static bool is_trial; /* of pairs, whose first one it is */

/* The first is done, and the second claimed; no more. */
static void until_second_is_claimed(void)
{
	const struct halving trial = {.duel = {.is_running = true, .way = HALVING_HALVES},
				      .copies = 1};
	pthread_t claimer;

	atomic_store(&is_claimed, false);
	assist.is_waiting = false; /* as where who was waited for had no core */
	assert_int_equal(pthread_create(&claimer, NULL, claim_one, NULL), 0);
	do {
		pairs_pay(true); /* and no trial begins, however long it takes */
		if (is_trial)
			assist.pairings[0] = trial;
		assert_int_equal(do_one(&first), REACH_DONE);
	} while (!assist.is_waiting);
	pthread_join(claimer, NULL);
	expect_there(FIRST, FIRST, SIZE);
}

/* Its part is there, after a moment. */
static void *end_soon(void *unused)
{
	const struct timespec moment = {.tv_nsec = 200000};

	nanosleep(&moment, NULL);
	memcpy(own + MARGIN + SECOND, theirs + MARGIN + SECOND, SIZE);
	atomic_fetch_add(&board->done, 1);
	return unused;
}

static void it_is_waited_for(void **state)
{
	pthread_t ender;

	until_second_is_claimed();
	assert_int_equal(do_one(&second), REACH_LATER);
	assert_int_equal(do_one(&second), REACH_LATER);
	assert_int_equal(pthread_create(&ender, NULL, end_soon, NULL), 0);
	while (do_one(&second) == REACH_LATER)
		continue;
	pthread_join(ender, NULL);
	expect_there(SECOND, SECOND, SIZE);
	expect_both();
}

/* What comes first does not go another way because of that. */
static void another_one_waits_until_it_is_over(void **state)
{
	struct one another;
	pthread_t ender;

	make(&another, ELSEWHERE, ELSEWHERE, SIZE);
	do {
		until_second_is_claimed();
		assert_int_equal(pthread_create(&ender, NULL, end_soon, NULL), 0);
	} while (do_one(&another) != REACH_DONE && pthread_join(ender, NULL) == 0);
	pthread_join(ender, NULL);
	expect_there(ELSEWHERE, ELSEWHERE, SIZE);
	assert_false(assist.is_waiting);
	expect_both();
}

/* Nor for longer than in one call, and not again. */
static void but_not_for_who_is_stopped(void **state)
{
	struct one another;

	make(&another, ELSEWHERE, ELSEWHERE, SIZE);
	until_second_is_claimed();
	assert_int_equal(do_one(&another), REACH_REFUSED);
	assert_true(assist.is_waiting);
	assert_false(assist.is_ahead);
	assert_int_equal(do_one(&second), REACH_LATER);
	end_soon(NULL);
	assert_int_equal(do_one(&second), REACH_DONE);
	expect_there(SECOND, SECOND, SIZE);
}

/* The same from there, to another place. */
static void it_counts_for_no_other_place(void **state)
{
	until_second_is_claimed();
	end_soon(NULL);
	second.piece.iov_base = own + MARGIN + ELSEWHERE;
	assert_int_equal(do_one(&second), REACH_DONE);
	expect_there(SECOND, ELSEWHERE, SIZE);
}

/* One that came by packets after all is followed by another one, from there to there. */
static void nor_for_another_message(void **state)
{
	until_second_is_claimed();
	end_soon(NULL);
	fill(theirs, 2);
	second.op.psn++;
	assert_int_equal(do_one(&second), REACH_DONE);
	expect_there(SECOND, SECOND, SIZE);
}

static void what_the_helper_could_not_copy_is_refused(void **state)
{
	until_second_is_claimed();
	atomic_store(&board->failure, assist.number);
	atomic_fetch_add(&board->done, 1);
	assert_int_equal(do_one(&second), REACH_REFUSED);
	expect_both();
}

static void what_is_not_wanted_is_over(void **state)
{
	pthread_t ender;

	do {
		until_second_is_claimed();
		assist_forget(&assist, PEER + 1);
		assert_true(assist.is_ahead); /* another's */
		assert_int_equal(pthread_create(&ender, NULL, end_soon, NULL), 0);
		assist_forget(&assist, PEER);
		assert_false(assist.is_ahead);
	} while (assist.is_waiting && pthread_join(ender, NULL) == 0); /* it had no core */
	assert_int_equal(atomic_load(&board->done), assist.done_then);
	pthread_join(ender, NULL);
	expect_both();
}

/* However long the helper is stopped in it, and what is the same in all else. */
static void and_counts_for_nothing_that_comes_later(void **state)
{
	until_second_is_claimed();
	assist_forget(&assist, PEER);
	assert_true(assist.is_waiting);
	assert_int_equal(do_one(&second), REACH_REFUSED);
	end_soon(NULL);
	fill(theirs, 2);
	assert_int_equal(do_one(&second), REACH_DONE);
	expect_there(SECOND, SECOND, SIZE);
}

/* ---- which ---- */

static bool is_pair(void)
{
	return assist_pairs(&assist, &first.op);
}

static void only_what_is_middling_and_in_one_piece(void **state)
{
	assert_true(is_pair());
	first.op.bytes = 49151;
	assert_false(is_pair());
	first.op.bytes = 196608;
	assert_false(is_pair());
	first.op.bytes = 150000;
	assert_true(is_pair());
	first.op.count = 2;
	assert_false(is_pair());
	first.op.count = 1;
	second.op.bytes = 49151;
	assert_false(is_pair());
	second.op.bytes = 196608;
	assert_false(is_pair());
	second.op.bytes = 49152;
	assert_true(is_pair());
	first.op.behind = NULL;
	assert_false(is_pair());
	first.op.behind = &second.op;
	assist.is_waiting = true;
	assert_false(is_pair());
	assist.is_waiting = false;
	assist.halvings[3].duel.is_running = true; /* one trial at a time */
	assert_false(is_pair());
}

/* The second is what stands there then, as receives in order leave it. */
static void not_into_the_same_place(void **state)
{
	char *place = own + MARGIN + 300000;

	first.piece.iov_base = place;
	second.piece.iov_base = place;
	assert_false(is_pair());
	second.piece.iov_base = place + SIZE - 1;
	assert_false(is_pair());
	second.piece.iov_base = place - SIZE + 1;
	assert_false(is_pair());
	second.piece.iov_base = place + SIZE;
	assert_true(is_pair());
	second.piece.iov_base = place - SIZE;
	assert_true(is_pair());
}

/* As who is alone finds out. */
static void seldom_if_nobody_helps(void **state)
{
	for (int i = 0; i < HALVING_FIRST; i++)
		assert_int_equal(do_one(&first), REACH_DONE);
	assert_in_range(assist.number, 6, 8);
}

/* So many copies, which take so long. */
static void take(uint32_t copies, bool is_paired, uint64_t took)
{
	for (uint32_t i = 0; i < copies; i++) {
		assert_int_equal(is_pair(), is_paired);
		assert_ptr_equal(assist.timed, &assist.pairings[0]);
		halving_time(assist.timed, SIZE, took);
		assist.timed = NULL;
	}
}

/* Until the helper looks each time. */
static void warm_up(void)
{
	for (int i = 0; i < 16; i++) {
		assert_true(is_pair());
		assert_null(assist.timed);
	}
}

static void where_it_is_faster(void **state)
{
	pairs_pay(false);
	assist.pairings[0] = (struct halving){0};
	for (int i = 0; i < HALVING_FIRST; i++)
		assert_false(is_pair());
	warm_up();
	take(HALVING_TIMES, true, 2000);
	take(HALVING_TIMES, false, 3000);
	for (int i = 0; i < HALVING_SOONEST; i++)
		assert_true(is_pair());
	take(HALVING_TIMES, false, 2000);
	take(HALVING_TIMES, true, 3000);
	assert_false(is_pair());
}

/* With both of them: what one of a pair took is the time of two. */
static void the_time_is_that_of_both(void **state)
{
	is_trial = true;
	until_second_is_claimed();
	is_trial = false;
	assert_int_equal(assist.pairings[0].copies, 1);
	assert_int_equal(assist.timed_more, SIZE);
	end_soon(NULL);
	assert_int_equal(do_one(&second), REACH_DONE);
	assert_int_equal(assist.pairings[0].copies, 2);
	assert_in_range(assist.pairings[0].took[HALVING_HALVES][1], 100000,
			UINT32_MAX); /* of 200 us */
	assert_int_equal(assist.timed_more, 0);
	assert_null(assist.timed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	    TEST(alone_it_is_done_when_it_is_asked_for),
	    TEST(the_helper_has_the_second),
	    TEST(it_is_waited_for),
	    TEST(another_one_waits_until_it_is_over),
	    TEST(but_not_for_who_is_stopped),
	    TEST(it_counts_for_no_other_place),
	    TEST(nor_for_another_message),
	    TEST(what_the_helper_could_not_copy_is_refused),
	    TEST(what_is_not_wanted_is_over),
	    TEST(and_counts_for_nothing_that_comes_later),
	    TEST(only_what_is_middling_and_in_one_piece),
	    TEST(not_into_the_same_place),
	    TEST(seldom_if_nobody_helps),
	    TEST(where_it_is_faster),
	    TEST(the_time_is_that_of_both),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
