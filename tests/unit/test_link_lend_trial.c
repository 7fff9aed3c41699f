/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The trial of pages lent and copied: a kernel that takes so long for a stretch of the one and of
 * the other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "link/lend_trial.h"

enum { SEND = 120 << 10, US = 1000 };

static struct lend_trial lend;
static uint64_t now, cost[2], sent[2], pause;

static int set_up(void **state)
{
	memset(&lend, 0, sizeof(lend));
	memset(sent, 0, sizeof(sent));
	now = 12345;
	pause = 0;
	return 0;
}

static void take_time(uint64_t lent, uint64_t copied)
{
	cost[WAY_LENT] = lent;
	cost[WAY_COPIED] = copied;
}

static void send(uint64_t bytes)
{
	for (uint64_t end = sent[0] + sent[1] + bytes; sent[0] + sent[1] < end;) {
		sent[lend.duel.way] += SEND;
		now += cost[lend.duel.way] + pause;
		if (lend_trial_count(&lend, SEND))
			lend_trial_time(&lend, now);
	}
}

/* The first one and what is before it. */
static void settle(void)
{
	send(LEND_TRIAL_FIRST + 2 * (LEND_TRIAL_TIMES + 1) * (uint64_t)LEND_TRIAL_STRETCH);
	assert_false(lend.duel.is_running);
}

static void what_is_faster_is_taken(void **state)
{
	take_time(17 * US, 15 * US);
	settle();
	assert_int_equal(lend.duel.way, WAY_COPIED);
	assert_in_range(sent[WAY_LENT], LEND_TRIAL_FIRST,
			LEND_TRIAL_FIRST + 4 * LEND_TRIAL_STRETCH);
}

static void pages_are_lent_where_that_is_faster(void **state)
{
	take_time(15 * US, 17 * US);
	settle();
	assert_int_equal(lend.duel.way, WAY_LENT);
	assert_in_range(sent[WAY_COPIED], 3 * LEND_TRIAL_STRETCH, 4 * LEND_TRIAL_STRETCH);
}

static void nor_is_a_little_worth_a_change(void **state)
{
	take_time(100 * US, 97 * US);
	settle();
	assert_int_equal(lend.duel.way, WAY_LENT);
}

/* As all else begins then, too. */
static void the_first_is_not_believed_for_long(void **state)
{
	take_time(12 * US, 17 * US);
	settle();
	assert_int_equal(lend.duel.way, WAY_LENT);
	take_time(17 * US, 12 * US);
	send(LEND_TRIAL_AGAIN + 2 * (LEND_TRIAL_TIMES + 1) * (uint64_t)LEND_TRIAL_STRETCH);
	assert_int_equal(lend.duel.way, WAY_COPIED);
	assert_in_range(sent[WAY_LENT], LEND_TRIAL_AGAIN, 2 * LEND_TRIAL_AGAIN);
}

static void the_second_is(void **state)
{
	take_time(12 * US, 17 * US);
	send(LEND_TRIAL_SOONEST);
	assert_in_range(sent[WAY_COPIED], 2 * LEND_TRIAL_TIMES * LEND_TRIAL_STRETCH,
			9 * LEND_TRIAL_STRETCH);
}

/* Half of each way's stretches are longer, the first of copying among them. */
static void what_comes_between_does_not_count(void **state)
{
	uint32_t before = 0;

	take_time(17 * US, 15 * US);
	for (int i = 0; i < 1000; i++) {
		if (lend.stretches != before && lend.stretches % 4 == 1)
			now += 900 * US;
		before = lend.stretches;
		send(SEND);
	}
	assert_int_equal(lend.duel.way, WAY_COPIED);
}

/* The program had nothing to send, or the line is slow. */
static void waiting_is_no_trial(void **state)
{
	take_time(17 * US, 9 * US);
	pause = 1000 * US;
	settle();
	assert_int_equal(lend.duel.way, WAY_LENT);
	assert_in_range(sent[WAY_COPIED], 0, 2 * LEND_TRIAL_STRETCH);
}

/* The cores are elsewhere by now. */
static void it_goes_back_when_that_has_changed(void **state)
{
	take_time(17 * US, 9 * US);
	send(4 * LEND_TRIAL_LATEST);
	assert_int_equal(lend.duel.way, WAY_COPIED);
	take_time(9 * US, 17 * US);
	send(LEND_TRIAL_LATEST + LEND_TRIAL_SOONEST);
	assert_false(lend.duel.is_running);
	assert_int_equal(lend.duel.way, WAY_LENT);
	take_time(17 * US, 9 * US); /* and looks again sooner, having been wrong */
	send(2 * LEND_TRIAL_SOONEST);
	assert_int_equal(lend.duel.way, WAY_COPIED);
}

/* However much slower the other way is. */
static void trials_cost_little(void **state)
{
	take_time(9 * US, 36 * US);
	send(20 * LEND_TRIAL_LATEST);
	assert_in_range(sent[WAY_COPIED], LEND_TRIAL_STRETCH, 20 * LEND_TRIAL_LATEST / 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(what_is_faster_is_taken, set_up),
	    cmocka_unit_test_setup(pages_are_lent_where_that_is_faster, set_up),
	    cmocka_unit_test_setup(nor_is_a_little_worth_a_change, set_up),
	    cmocka_unit_test_setup(the_first_is_not_believed_for_long, set_up),
	    cmocka_unit_test_setup(the_second_is, set_up),
	    cmocka_unit_test_setup(what_comes_between_does_not_count, set_up),
	    cmocka_unit_test_setup(waiting_is_no_trial, set_up),
	    cmocka_unit_test_setup(it_goes_back_when_that_has_changed, set_up),
	    cmocka_unit_test_setup(trials_cost_little, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
