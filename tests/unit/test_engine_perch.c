/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a lane's thread goes to another core (perch.h), and how (thread.h).
 */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/perch.h"
#include "engine/thread.h"

enum { US = 1000, MS = 1000 * US };

/* How many of so many yields, one right after another, make it leave. */
static int leaves(struct perch *perch, uint64_t *now, int yields, uint64_t each)
{
	int count = 0;

	for (int i = 0; i < yields; i++) {
		*now += each;
		count += perch_is_to_leave(perch, *now, each);
	}
	return count;
}

static void a_core_of_its_own_is_kept(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;

	assert_int_equal(leaves(&perch, &now, 100000, US), 0);
	for (int i = 0; i < 1000; i++) { /* interrupts */
		assert_int_equal(leaves(&perch, &now, 3, 20 * US), 0);
		assert_int_equal(leaves(&perch, &now, 1, US), 0);
	}
}

static void a_core_that_others_use_is_left(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;

	assert_int_equal(leaves(&perch, &now, 1, US), 0);
	assert_int_equal(leaves(&perch, &now, 3, 20 * US), 0);
	assert_int_equal(leaves(&perch, &now, 1, 20 * US), 1);
	assert_int_equal(leaves(&perch, &now, 1000, US), 0);
}

/* On an emulated processor, say. */
static void where_any_yield_takes_long_it_tells_nothing(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;

	assert_int_equal(leaves(&perch, &now, 1, 6 * US), 0);
	assert_int_equal(leaves(&perch, &now, 100000, 20 * US), 0);
	assert_int_equal(leaves(&perch, &now, 4, 30 * US), 1);
}

static void to_who_computes_it_yields_once(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;

	assert_int_equal(leaves(&perch, &now, 1, 3 * MS), 1);
}

static void where_all_cores_are_used_it_leaves_ever_more_rarely(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;

	assert_int_equal(leaves(&perch, &now, 1, US), 0);
	assert_in_range(leaves(&perch, &now, 100000, 20 * US), 5, 12); /* two seconds */
	assert_in_range(leaves(&perch, &now, 1000000, 20 * US), 5, 20);
}

/* Woken on a core that is used, again and again. */
static void where_it_was_better_elsewhere_it_leaves_as_soon_as_ever(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;

	assert_int_equal(leaves(&perch, &now, 1, US), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(leaves(&perch, &now, 4, 20 * US), 1);
		assert_int_equal(leaves(&perch, &now, 20000, US), 0);
	}
}

/* The kernel may bring it back at once, but not each time. */
static void who_leaves_is_elsewhere_and_may_come_back(void **state)
{
	cpu_set_t before, after;
	int elsewhere = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	for (int i = 0; i < 20; i++) {
		int core = sched_getcpu();

		thread_leave_core();
		elsewhere += sched_getcpu() != core;
		assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
		assert_true(CPU_EQUAL(&before, &after));
	}
	assert_true(CPU_COUNT(&before) == 1 || elsewhere > 0);
}

/* All cores but one are forbidden: it stays, and they are forbidden still. */
static void from_the_only_core_nobody_leaves(void **state)
{
	cpu_set_t before, one, after;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	thread_leave_core();
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&one, &after));
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_core_of_its_own_is_kept),
	    cmocka_unit_test(a_core_that_others_use_is_left),
	    cmocka_unit_test(where_any_yield_takes_long_it_tells_nothing),
	    cmocka_unit_test(to_who_computes_it_yields_once),
	    cmocka_unit_test(where_all_cores_are_used_it_leaves_ever_more_rarely),
	    cmocka_unit_test(where_it_was_better_elsewhere_it_leaves_as_soon_as_ever),
	    cmocka_unit_test(who_leaves_is_elsewhere_and_may_come_back),
	    cmocka_unit_test(from_the_only_core_nobody_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
