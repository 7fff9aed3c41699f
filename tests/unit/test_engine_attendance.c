/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For how long a lane's thread that was called goes on to help (attendance.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/attendance.h"

enum { US = 1000, MS = 1000 * US };

static struct attendance attendance;
static uint64_t now;

static int setup(void **state)
{
	attendance = (struct attendance){0};
	now = 5 * MS;
	attendance_begin(&attendance, now);
	return 0;
}

/* So many copies, that long after each other; whether it would have yielded in between. */
static bool helps(int copies, uint64_t each)
{
	bool yields = false;

	for (int i = 0; i < copies; i++) {
		now += each / 2;
		yields |= attendance_looked(&attendance, false, now);
		now += each / 2;
		assert_true(attendance_goes_on(&attendance));
		assert_false(attendance_looked(&attendance, true, now));
	}
	return yields;
}

/* That long, in vain. */
static void looks(uint64_t ns)
{
	for (uint64_t end = now + ns; now < end;) {
		now += 2 * US;
		attendance_looked(&attendance, false, now);
	}
}

static void it_lasts_as_long_as_there_is_work(void **state)
{
	assert_true(attendance_goes_on(&attendance));
	helps(1000, 150 * US);
	looks(150 * US);
	assert_true(attendance_goes_on(&attendance));
	looks(100 * US);
	assert_false(attendance_goes_on(&attendance));
}

/* It had no core, or yielded it: it comes back to look. */
static void while_it_was_away_it_did_not_look(void **state)
{
	helps(3, 8 * US);
	for (int i = 0; i < 5; i++) {
		now += 3 * MS;
		attendance_looked(&attendance, false, now);
		assert_true(attendance_goes_on(&attendance));
	}
	looks(150 * US);
	assert_false(attendance_goes_on(&attendance));
}

static void it_ends_where_there_is_none(void **state)
{
	looks(250 * US);
	assert_false(attendance_goes_on(&attendance));
	attendance_end(&attendance);
	assert_false(attendance_goes_on(&attendance));
	attendance_begin(&attendance, now + MS);
	assert_true(attendance_goes_on(&attendance));
}

/* On a slow machine; and who is stopped in the midst of one is not waited for. */
static void a_copy_that_one_does_alone_is_waited_for(void **state)
{
	for (int i = 0; i < 30; i++) {
		looks(150 * US);
		attendance_awaits(&attendance, now);
		assert_true(attendance_goes_on(&attendance));
	}
	helps(1, 10 * US);
	for (uint64_t end = now + 30 * MS; now < end; attendance_awaits(&attendance, now))
		looks(150 * US);
	looks(150 * US);
	assert_false(attendance_goes_on(&attendance));
}

/* A look elsewhere in between is no new call. */
static void to_go_on_is_not_to_begin(void **state)
{
	looks(150 * US);
	attendance_begin(&attendance, now);
	looks(100 * US);
	assert_false(attendance_goes_on(&attendance));
}

static void in_a_stream_it_yields_once_a_millisecond(void **state)
{
	assert_true(helps(10, 8 * US)); /* soon, at first */
	attendance_yielded(&attendance, PERCH_UNUSED, now);
	assert_false(helps(99, 8 * US));
	assert_true(helps(50, 8 * US));
	attendance_yielded(&attendance, PERCH_UNUSED, now);
	assert_false(helps(99, 8 * US));
}

static void in_a_pause_it_yields(void **state)
{
	helps(3, 2 * US);
	assert_false(attendance_looked(&attendance, false, now + 2 * US));
	assert_true(attendance_looked(&attendance, false, now + 6 * US));
	attendance_yielded(&attendance, PERCH_UNUSED, now + 6 * US);
	assert_true(attendance_looked(&attendance, false, now + 7 * US));
	assert_true(attendance_goes_on(&attendance));
}

static void where_somebody_computes_it_does_not_stay(void **state)
{
	helps(3, 2 * US);
	attendance_yielded(&attendance, PERCH_POLLED, now);
	assert_true(attendance_goes_on(&attendance));
	attendance_yielded(&attendance, PERCH_COMPUTED, now);
	attendance_yielded(&attendance, PERCH_COMPUTED, now);
	assert_false(attendance_goes_on(&attendance));
	assert_true(attendance.was_busy);
	attendance_begin(&attendance, now + MS);
	assert_false(attendance.was_busy);
}

static void who_computed_once_may_have_been_the_kernel(void **state)
{
	for (int i = 0; i < 5; i++) {
		attendance_yielded(&attendance, PERCH_COMPUTED, now);
		assert_true(attendance_goes_on(&attendance));
		attendance_yielded(&attendance, PERCH_POLLED, now);
	}
	assert_false(attendance.was_busy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, setup)
	    TEST(it_lasts_as_long_as_there_is_work),
	    TEST(it_ends_where_there_is_none),
	    TEST(a_copy_that_one_does_alone_is_waited_for),
	    TEST(to_go_on_is_not_to_begin),
	    TEST(in_a_stream_it_yields_once_a_millisecond),
	    TEST(in_a_pause_it_yields),
	    TEST(where_somebody_computes_it_does_not_stay),
	    TEST(while_it_was_away_it_did_not_look),
	    TEST(who_computed_once_may_have_been_the_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
