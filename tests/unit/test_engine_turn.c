/* SPDX-License-Identifier: BSD-2-Clause */
/* When a poller that glances makes a turn: the rules of engine/turn.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/turn.h"

static void who_finds_nothing_makes_every_64th(void **state)
{
	struct turn turn = {0};

	for (int turns = 0; turns < 3; turns++)
		for (int i = 1; i <= TURN_EVERY; i++) {
			assert_false(turn_is_overdue(&turn));
			assert_int_equal(turn_is_due(&turn, false), i == TURN_EVERY);
		}
}

static void it_waits_for_a_glance_that_finds_nothing(void **state)
{
	struct turn turn = {0};

	for (int i = 0; i < TURN_EVERY + 20; i++)
		assert_false(turn_is_due(&turn, true));
	assert_false(turn_is_overdue(&turn));
	assert_true(turn_is_due(&turn, false));
	assert_false(turn_is_due(&turn, false)); /* and counts anew */
}

static void it_does_not_wait_for_ever(void **state)
{
	struct turn turn = {0};

	for (int turns = 0; turns < 3; turns++) {
		for (int i = 0; i < TURN_LATEST; i++) {
			assert_false(turn_is_overdue(&turn));
			assert_false(turn_is_due(&turn, true));
		}
		assert_true(turn_is_overdue(&turn));
	}
}

/* It is as due by then as behind glances, and who puts it off does not take it. */
static void what_does_without_puts_it_off_until_then(void **state)
{
	struct turn turn = {0};

	for (int turns = 0; turns < 3; turns++) {
		for (int i = 1; i < TURN_EVERY; i++)
			assert_true(turn_may_wait(&turn));
		assert_false(turn_may_wait(&turn));
		assert_false(turn_may_wait(&turn));
		assert_true(turn_is_due(&turn, false));
	}
}

static void what_took_long_counts_for_more(void **state)
{
	struct turn turn = {0};

	assert_true(turn_may_wait(&turn));
	turn_took(&turn, TURN_EVERY - 3);
	assert_true(turn_may_wait(&turn));
	assert_false(turn_may_wait(&turn));
	turn_took(&turn, 3 * TURN_LATEST);
	assert_true(turn_is_due(&turn, false));
	assert_false(turn_is_due(&turn, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(who_finds_nothing_makes_every_64th),
	    cmocka_unit_test(it_waits_for_a_glance_that_finds_nothing),
	    cmocka_unit_test(it_does_not_wait_for_ever),
	    cmocka_unit_test(what_does_without_puts_it_off_until_then),
	    cmocka_unit_test(what_took_long_counts_for_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
