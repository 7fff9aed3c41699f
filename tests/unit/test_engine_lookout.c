/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a thread that waits for events looks for them itself before it sleeps: the rules of
 * engine/lookout.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/lookout.h"

enum { US = 1000, MS = 1000000 };

/* Short waits that it takes until it looks. */
static unsigned int waits_until_it_may(struct lookout *lookout)
{
	unsigned int waits = 0;

	for (; !lookout_may(lookout); waits++) {
		assert_true(waits < 10000);
		lookout_slept(lookout, 40 * US);
	}
	return waits;
}

static void it_sleeps_at_first(void **state)
{
	struct lookout lookout = {0};

	assert_false(lookout_may(&lookout));
	assert_int_equal(waits_until_it_may(&lookout), 4);
}

static void waits_that_are_long_never_make_it_look(void **state)
{
	struct lookout lookout = {0};

	for (int i = 0; i < 1000; i++)
		lookout_slept(&lookout, MS);
	assert_false(lookout_may(&lookout));
}

static void one_long_wait_starts_the_count_anew(void **state)
{
	struct lookout lookout = {0};

	for (int i = 0; i < 1000; i++)
		lookout_slept(&lookout, i % 4 == 3 ? MS : 40 * US);
	assert_false(lookout_may(&lookout));
}

/* Or who had to try often would never begin, where one wait in ten is long. */
static void it_takes_back_no_more_than_a_few_signs(void **state)
{
	struct lookout lookout = {0};
	unsigned int waits = 0;

	for (int i = 0; i < 4; i++) {
		waits_until_it_may(&lookout);
		lookout_in_vain(&lookout);
	}
	for (; !lookout_may(&lookout); waits++) {
		assert_in_range(waits, 0, 100);
		lookout_slept(&lookout, waits % 10 == 9 ? MS : 40 * US);
	}
	assert_in_range(waits, 37, 100);
}

/* Both ends sleep, and each takes so long to answer until the other one looks as well. */
static void the_first_look_is_as_long_as_waits_are(void **state)
{
	struct lookout lookout = {0};

	for (int i = 0; i < 4; i++)
		lookout_slept(&lookout, 160 * US);
	assert_int_equal(lookout_patience(&lookout), 200 * US);
	lookout_looked(&lookout, true, 10 * US);
	assert_int_equal(lookout_patience(&lookout), LOOKOUT_NS);
}

static void of_waits_the_longest_lately_counts(void **state)
{
	struct lookout lookout = {0};

	lookout_slept(&lookout, 160 * US);
	lookout_slept(&lookout, 20 * US);
	assert_int_equal(lookout_patience(&lookout), 150 * US);
	lookout_slept(&lookout, MS);
	assert_int_equal(lookout_patience(&lookout), 150 * US);
	lookout_slept(&lookout, 240 * US);
	assert_int_equal(lookout_patience(&lookout), 300 * US);
}

/* The other end has gone to sleep over the same, and answers late, once. */
static void behind_one_in_vain_a_look_is_longer(void **state)
{
	struct lookout lookout = {0};

	waits_until_it_may(&lookout);
	lookout_looked(&lookout, true, 10 * US);
	lookout_looked(&lookout, false, 50 * US);
	assert_int_equal(lookout_patience(&lookout), 250 * US);
	lookout_looked(&lookout, true, 200 * US);
	assert_int_equal(lookout_patience(&lookout), 250 * US);
	lookout_looked(&lookout, true, 10 * US);
	assert_int_equal(lookout_patience(&lookout), LOOKOUT_NS);
	assert_true(lookout_may(&lookout));
}

static void who_is_always_late_is_not_looked_for(void **state)
{
	struct lookout lookout = {0};

	for (int i = 0; i < 4; i++)
		lookout_slept(&lookout, 140 * US);
	for (int i = 0; i < 3; i++) {
		assert_true(lookout_may(&lookout));
		lookout_looked(&lookout, true, 140 * US);
	}
	assert_false(lookout_may(&lookout));
}

static void what_is_in_vain_is_given_up_for_ever_longer(void **state)
{
	struct lookout lookout = {0};
	unsigned int before = 0, waits;

	for (int i = 0; i < 8; i++, before = waits) {
		waits = waits_until_it_may(&lookout);
		assert_true(waits > before);
		for (int miss = 0; miss < 3; miss++) {
			assert_true(lookout_may(&lookout));
			lookout_looked(&lookout, false, 10 * US);
		}
		assert_false(lookout_may(&lookout));
	}
	for (int i = 0; i < 20; i++) {
		waits_until_it_may(&lookout);
		for (int miss = 0; miss < 3; miss++)
			lookout_looked(&lookout, false, 10 * US);
	}
	assert_int_equal(waits_until_it_may(&lookout), 260);
}

static void a_miss_now_and_then_is_none(void **state)
{
	struct lookout lookout = {0};

	waits_until_it_may(&lookout);
	for (int i = 0; i < 1000; i++) {
		lookout_looked(&lookout, i % 3 == 2, 10 * US);
		assert_true(lookout_may(&lookout));
	}
}

static void success_forgives(void **state)
{
	struct lookout lookout = {0};

	for (int i = 0; i < 5; i++) {
		waits_until_it_may(&lookout);
		for (int miss = 0; miss < 3; miss++)
			lookout_looked(&lookout, false, 10 * US);
	}
	waits_until_it_may(&lookout);
	for (int i = 0; i < 7 * 16; i++)
		lookout_looked(&lookout, true, 10 * US);
	for (int miss = 0; miss < 3; miss++)
		lookout_looked(&lookout, false, 10 * US);
	assert_int_equal(waits_until_it_may(&lookout), 8);
}

static void with_others_it_sleeps(void **state)
{
	struct lookout lookout = {0};

	waits_until_it_may(&lookout);
	lookout_not(&lookout);
	assert_false(lookout_may(&lookout));
	assert_int_equal(waits_until_it_may(&lookout), 4);
}

static void slow_wake_ups_make_waits_short_that_are_longer(void **state)
{
	struct lookout lookout = {0};

	for (int i = 0; i < 10; i++)
		lookout_slept(&lookout, 400 * US);
	assert_false(lookout_may(&lookout));
	assert_int_equal(lookout_patience(&lookout), LOOKOUT_NS);
	lookout_woke(&lookout, 40 * US);
	assert_int_equal(lookout_patience(&lookout), 200 * US);
	for (int i = 0; i < 4; i++)
		lookout_slept(&lookout, 400 * US);
	assert_true(lookout_may(&lookout));
	lookout_slept(&lookout, 410 * US);
	assert_false(lookout_may(&lookout));
}

static void who_waits_for_a_core_takes_no_longer_to_wake_up(void **state)
{
	struct lookout lookout = {0};

	lookout_woke(&lookout, 10 * MS);
	assert_int_equal(lookout_patience(&lookout), 750 * US);
	lookout_woke(&lookout, 20 * US);
	assert_int_equal(lookout_patience(&lookout), 100 * US);
	lookout_woke(&lookout, 10 * MS);
	assert_int_equal(lookout_patience(&lookout), 125 * US);
	for (int i = 0; i < 100; i++)
		lookout_woke(&lookout, MS);
	assert_int_equal(lookout_patience(&lookout), 750 * US);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_sleeps_at_first),
	    cmocka_unit_test(waits_that_are_long_never_make_it_look),
	    cmocka_unit_test(one_long_wait_starts_the_count_anew),
	    cmocka_unit_test(it_takes_back_no_more_than_a_few_signs),
	    cmocka_unit_test(the_first_look_is_as_long_as_waits_are),
	    cmocka_unit_test(of_waits_the_longest_lately_counts),
	    cmocka_unit_test(behind_one_in_vain_a_look_is_longer),
	    cmocka_unit_test(who_is_always_late_is_not_looked_for),
	    cmocka_unit_test(what_is_in_vain_is_given_up_for_ever_longer),
	    cmocka_unit_test(a_miss_now_and_then_is_none),
	    cmocka_unit_test(success_forgives),
	    cmocka_unit_test(with_others_it_sleeps),
	    cmocka_unit_test(slow_wake_ups_make_waits_short_that_are_longer),
	    cmocka_unit_test(who_waits_for_a_core_takes_no_longer_to_wake_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
