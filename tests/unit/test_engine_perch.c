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
static int leaves_of(struct perch *perch, uint64_t *now, int yields, uint64_t each, bool was_used)
{
	int count = 0;

	for (int i = 0; i < yields; i++) {
		bool asks = perch_is_in_doubt(perch, each);

		*now += each;
		count += perch_is_to_leave(perch, *now, perch_use(perch, each, asks && was_used));
	}
	return count;
}

static int unused(struct perch *perch, uint64_t *now, int yields, uint64_t each)
{
	return leaves_of(perch, now, yields, each, false);
}

static int used(struct perch *perch, uint64_t *now, int yields, uint64_t each)
{
	return leaves_of(perch, now, yields, each, true);
}

static void a_core_of_its_own_is_kept(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;

	assert_int_equal(unused(&perch, &now, 100000, US), 0);
	for (int i = 0; i < 1000; i++) { /* who comes and goes */
		assert_int_equal(used(&perch, &now, 3, 20 * US), 0);
		assert_int_equal(unused(&perch, &now, 1, US), 0);
	}
	assert_int_equal(unused(&perch, &now, 1000, 20 * US), 0); /* interrupts */
}

static void a_core_that_others_use_is_left(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;

	assert_int_equal(unused(&perch, &now, 1, US), 0);
	assert_int_equal(used(&perch, &now, 3, 20 * US), 0);
	assert_int_equal(used(&perch, &now, 1, 20 * US), 1);
	assert_int_equal(used(&perch, &now, 99, 20 * US), 0); /* two milliseconds */
	assert_int_equal(used(&perch, &now, 1, 20 * US), 1);
}

/* Woken there, it has never known a yield that nobody used. */
static void a_core_that_others_used_from_the_start_is_left(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;

	assert_int_equal(used(&perch, &now, 3, 4 * US), 0);
	assert_int_equal(used(&perch, &now, 1, 4 * US), 1);
}

/* On an emulated processor. */
static void where_any_yield_takes_long_it_tells_nothing(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;

	assert_int_equal(unused(&perch, &now, 1, 6 * US), 0);
	assert_false(perch_is_in_doubt(&perch, 20 * US));
	assert_int_equal(used(&perch, &now, 100000, 20 * US), 0);
	assert_int_equal(used(&perch, &now, 4, 30 * US), 1);
}

static void to_who_computes_it_yields_once(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;

	assert_int_equal(used(&perch, &now, 1, 3 * MS), 1);
	assert_int_equal(perch_use(&perch, 3 * MS, true), PERCH_COMPUTED);
}

/* What takes long because all does is no computing. */
static void where_any_yield_takes_long_who_polls_does_not_compute(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;

	assert_int_equal(unused(&perch, &now, 1, 8 * US), 0);
	assert_int_equal(perch_use(&perch, 120 * US, true), PERCH_POLLED);
	assert_int_equal(perch_use(&perch, 3 * MS, true), PERCH_COMPUTED);
}

static void where_all_cores_are_used_it_leaves_ever_more_rarely(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;

	assert_int_equal(unused(&perch, &now, 1, US), 0);
	assert_in_range(used(&perch, &now, 100000, 20 * US), 5, 12); /* two seconds */
	assert_in_range(used(&perch, &now, 1000000, 20 * US), 5, 20);
}

static void where_all_cores_compute_it_leaves_ever_more_rarely(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;

	assert_int_equal(unused(&perch, &now, 1, US), 0);
	assert_in_range(used(&perch, &now, 667, 3 * MS), 5, 12); /* two seconds */
	assert_in_range(used(&perch, &now, 6667, 3 * MS), 5, 20);
}

/* Woken on a core that is used, again and again. */
static void where_it_was_better_elsewhere_it_leaves_as_soon_as_ever(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;

	assert_int_equal(unused(&perch, &now, 1, US), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(used(&perch, &now, 4, 20 * US), 1);
		assert_int_equal(unused(&perch, &now, 20000, US), 0);
	}
}

/* The peer polls on one of two cores, and somebody computes on the other. */
static void from_who_computes_it_is_back_with_who_polls_at_once(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;
	int tries = 0;

	assert_int_equal(unused(&perch, &now, 1, US), 0);
	assert_int_equal(used(&perch, &now, 1, 3 * MS), 1);
	for (uint64_t until = now + 2000 * MS; now < until;)
		if (used(&perch, &now, 1, 5 * US)) {
			assert_int_equal(used(&perch, &now, 1, 3 * MS), 1);
			tries++;
		}
	assert_in_range(tries, 5, 12);
}

/* Who computed is gone by the first try, and comes again later. */
static void with_who_polls_it_stays_for_two_milliseconds(void **state)
{
	struct perch perch = {0};
	uint64_t now = MS;

	assert_int_equal(unused(&perch, &now, 1, US), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(used(&perch, &now, 1, 3 * MS), 1);
		assert_int_equal(used(&perch, &now, 399, 5 * US), 0);
		assert_int_equal(used(&perch, &now, 1, 5 * US), 1);
		assert_int_equal(unused(&perch, &now, 10000, US), 0);
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

		assert_true(thread_leave_core(-1) || CPU_COUNT(&before) == 1);
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
	assert_false(thread_leave_core(-1));
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&one, &after));
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

/* It may have this core and one more, and that is the one that it is not to go to. */
static void to_a_core_that_is_excepted_nobody_leaves(void **state)
{
	cpu_set_t before, two, after;
	int core = sched_getcpu(), other = 0, refused = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	while (other < CPU_SETSIZE && (other == core || !CPU_ISSET(other, &before)))
		other++;
	CPU_ZERO(&two);
	CPU_SET(core, &two);
	if (other < CPU_SETSIZE)
		CPU_SET(other, &two);
	assert_int_equal(sched_setaffinity(0, sizeof(two), &two), 0);
	for (int i = 0; i < 20; i++) /* (the kernel may move it in between) */
		refused += !thread_leave_core(sched_getcpu() == core ? other : core);
	assert_in_range(refused, 10, 20);
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&two, &after));
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_core_of_its_own_is_kept),
	    cmocka_unit_test(a_core_that_others_use_is_left),
	    cmocka_unit_test(a_core_that_others_used_from_the_start_is_left),
	    cmocka_unit_test(where_any_yield_takes_long_it_tells_nothing),
	    cmocka_unit_test(to_who_computes_it_yields_once),
	    cmocka_unit_test(where_any_yield_takes_long_who_polls_does_not_compute),
	    cmocka_unit_test(where_all_cores_are_used_it_leaves_ever_more_rarely),
	    cmocka_unit_test(where_all_cores_compute_it_leaves_ever_more_rarely),
	    cmocka_unit_test(where_it_was_better_elsewhere_it_leaves_as_soon_as_ever),
	    cmocka_unit_test(from_who_computes_it_is_back_with_who_polls_at_once),
	    cmocka_unit_test(with_who_polls_it_stays_for_two_milliseconds),
	    cmocka_unit_test(who_leaves_is_elsewhere_and_may_come_back),
	    cmocka_unit_test(from_the_only_core_nobody_leaves),
	    cmocka_unit_test(to_a_core_that_is_excepted_nobody_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
