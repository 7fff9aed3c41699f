/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ways tried in turn: when a trial comes, what it changes, and what of its times counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/duel.h"

static const struct duel_terms terms = {.first = 10, .again = 20, .soonest = 100, .latest = 350};

static struct duel duel;

static int set_up(void **state)
{
	memset(&duel, 0, sizeof(duel));
	return 0;
}

/* What is done by then. */
static uint64_t until_next(uint32_t each)
{
	for (uint64_t done = 0; done < 100000; done += each) {
		if (duel_begins(&duel, &terms, each))
			return done;
	}
	return UINT64_MAX;
}

static uint64_t until_next_after(bool is_other_better)
{
	duel_end(&duel, &terms, is_other_better);
	assert_false(duel.is_running);
	return until_next(1);
}

static void the_first_ones_have_terms_of_their_own(void **state)
{
	assert_int_equal(until_next(1), 10);
	assert_true(duel.is_running);
	assert_int_equal(until_next_after(false), 20);
	assert_int_equal(until_next_after(false), 100);
}

static void what_is_counted_may_come_many_at_a_time(void **state)
{
	assert_int_equal(until_next(7), 14);
	duel_end(&duel, &terms, true);
	assert_int_equal(until_next(7), 21);
}

static void trials_that_change_nothing_come_less_and_less_often(void **state)
{
	static const uint64_t each[] = {20, 100, 200, 400, 400, 400};

	until_next(1);
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
		assert_int_equal(until_next_after(false), each[i]);
}

static void and_soon_again_when_one_has(void **state)
{
	until_next(1);
	assert_int_equal(until_next_after(true), 20);
	assert_int_equal(until_next_after(true), 100);
	assert_int_equal(until_next_after(true), 100);
	assert_int_equal(until_next_after(false), 200);
	assert_int_equal(until_next_after(false), 400);
	assert_int_equal(until_next_after(true), 100);
}

static void or_never(void **state)
{
	duel.stage = DUEL_NEVER;
	assert_int_equal(until_next(1), UINT64_MAX);
}

/* Where the second is not to come sooner than others. */
static void the_second_may_be_as_others(void **state)
{
	const struct duel_terms equal = {.first = 1, .again = 100, .soonest = 100, .latest = 150};

	duel_end(&duel, &equal, false);
	assert_int_equal(duel_interval(&duel, &equal), 100);
	duel_end(&duel, &equal, false);
	assert_int_equal(duel_interval(&duel, &equal), 200);
	duel_end(&duel, &equal, false);
	assert_int_equal(duel_interval(&duel, &equal), 200);
	duel_end(&duel, &equal, true);
	assert_int_equal(duel_interval(&duel, &equal), 100);
}

static void it_ends_with_the_better_way(void **state)
{
	duel_turn(&duel);
	assert_int_equal(duel.way, 1);
	duel_end(&duel, &terms, false);
	assert_int_equal(duel.way, 0);
	duel_turn(&duel);
	duel_end(&duel, &terms, true);
	assert_int_equal(duel.way, 1);
	assert_int_equal(duel.best, 1);
	duel_turn(&duel);
	duel_end(&duel, &terms, true);
	assert_int_equal(duel.way, 0);
}

static void a_little_is_worth_no_change(void **state)
{
	assert_false(duel_is_better(1600, 1600));
	assert_false(duel_is_better(1500, 1600));
	assert_true(duel_is_better(1499, 1600));
	assert_false(duel_is_better(0, 0));
	assert_true(duel_is_better(0, 1));
	assert_true(duel_is_better(1, UINT64_MAX));
}

static void the_middle_one_counts(void **state)
{
	static const uint32_t orders[][3] = {{1, 2, 3}, {1, 3, 2}, {2, 1, 3},
					     {2, 3, 1}, {3, 1, 2}, {3, 2, 1}};

	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
		assert_int_equal(duel_median(orders[i], 3), 2);
	assert_int_equal(duel_median((uint32_t[]){5, UINT32_MAX, 0, 7, 7}, 5), 7);
	assert_int_equal(duel_median((uint32_t[]){9, 9, 1, 1, 1}, 5), 1);
	assert_int_equal(duel_median((uint32_t[]){4}, 1), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, set_up)
	    TEST(the_first_ones_have_terms_of_their_own),
	    TEST(what_is_counted_may_come_many_at_a_time),
	    TEST(trials_that_change_nothing_come_less_and_less_often),
	    TEST(and_soon_again_when_one_has),
	    TEST(or_never),
	    TEST(the_second_may_be_as_others),
	    TEST(it_ends_with_the_better_way),
	    TEST(a_little_is_worth_no_change),
	    TEST(the_middle_one_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
