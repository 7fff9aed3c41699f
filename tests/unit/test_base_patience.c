/* SPDX-License-Identifier: BSD-2-Clause */
/* When what has failed is tried again: the rules of base/patience.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/patience.h"

/* How many rounds it takes until it may be tried. */
static uint32_t wait(struct patience *patience)
{
	uint32_t rounds = 0;

	for (; !patience_is_over(patience); rounds++)
		patience_pass(patience);
	return rounds;
}

static void it_is_tried_at_first(void **state)
{
	struct patience patience = {0};

	assert_true(patience_is_over(&patience));
	patience_pass(&patience);
	assert_true(patience_is_over(&patience));
}

static void each_failure_takes_longer_up_to_a_limit(void **state)
{
	struct patience patience = {0};

	for (uint32_t rounds = 1; rounds < PATIENCE_ROUNDS_MAX; rounds = 2 * rounds + 1) {
		patience_failed(&patience);
		assert_int_equal(wait(&patience), rounds);
	}
	for (int i = 0; i < 3; i++) {
		patience_failed(&patience);
		assert_int_equal(wait(&patience), PATIENCE_ROUNDS_MAX);
	}
}

static void what_has_worked_begins_anew(void **state)
{
	struct patience patience = {0};

	for (int i = 0; i < 5; i++)
		patience_failed(&patience);
	assert_int_equal(wait(&patience), 31);
	patience_worked(&patience);
	assert_true(patience_is_over(&patience));
	patience_failed(&patience);
	assert_int_equal(wait(&patience), 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_is_tried_at_first),
	    cmocka_unit_test(each_failure_takes_longer_up_to_a_limit),
	    cmocka_unit_test(what_has_worked_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
