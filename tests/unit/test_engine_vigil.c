/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a lane's thread looks again before it sleeps: vigil.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/vigil.h"

enum { US = 1000, MS = 1000 * US };

/* It looked, and has answered in no time. */
static bool goes_on(struct vigil *vigil, unsigned int found, uint64_t now)
{
	return vigil_goes_on(vigil, found, now, now);
}

/* It sleeps for so long before each of some requests. */
static void requests(struct vigil *vigil, int count, uint64_t each)
{
	for (int i = 0; i < count; i++)
		vigil_slept(vigil, each);
}

static void after_a_packet_it_sleeps(void **state)
{
	struct vigil vigil = {0};

	assert_false(goes_on(&vigil, 1, MS));
	assert_false(goes_on(&vigil, 0, MS));
	requests(&vigil, 10, MS);
	assert_false(goes_on(&vigil, 1, 2 * MS));
}

static void after_a_batch_it_looks_for_a_while(void **state)
{
	struct vigil vigil = {0};

	assert_true(goes_on(&vigil, 8, MS));
	assert_true(goes_on(&vigil, 1, MS + 20 * US));
	assert_true(goes_on(&vigil, 0, MS + 49 * US));
	assert_false(goes_on(&vigil, 0, MS + 50 * US));
	assert_false(goes_on(&vigil, 1, 2 * MS));
}

static void where_requests_come_soon_it_looks(void **state)
{
	struct vigil vigil = {0};
	uint64_t now = MS;

	requests(&vigil, 4, 40 * US);
	for (int i = 0; i < 1000; i++, now += 10 * US) {
		assert_true(goes_on(&vigil, 1, now));
		assert_true(goes_on(&vigil, 0, now + 9 * US));
	}
}

static void what_answers_take_is_no_wait(void **state)
{
	struct vigil vigil = {0};
	uint64_t now = MS;

	requests(&vigil, 4, 10 * US);
	for (int i = 0; i < 100; i++, now += 400 * US)
		assert_true(vigil_goes_on(&vigil, 2, now, now + 390 * US));
	assert_true(goes_on(&vigil, 0, now + 39 * US));
	assert_false(goes_on(&vigil, 0, now + 40 * US));
}

static void requests_that_stop_are_not_looked_for(void **state)
{
	struct vigil vigil = {0};

	requests(&vigil, 4, 40 * US);
	assert_true(goes_on(&vigil, 1, MS));
	assert_false(goes_on(&vigil, 0, MS + 50 * US));
	assert_false(goes_on(&vigil, 0, MS + 51 * US));
	for (int i = 2; i <= 3; i++) {
		assert_true(goes_on(&vigil, 1, (uint64_t)i * MS));
		assert_true(goes_on(&vigil, 0, (uint64_t)i * MS + 249 * US));
		assert_false(goes_on(&vigil, 0, (uint64_t)i * MS + 250 * US));
	}
	assert_false(goes_on(&vigil, 1, 4 * MS)); /* three in vain */
}

/* A request each 140 us costs less where it sleeps. */
static void requests_that_are_late_are_not_looked_for(void **state)
{
	struct vigil vigil = {0};
	uint64_t now = MS;

	requests(&vigil, 4, 140 * US);
	for (int i = 0; i < 3; i++, now += 140 * US) {
		assert_true(goes_on(&vigil, 1, now));
		vigil_yielded(&vigil, 30 * US, PERCH_UNUSED);
		now += 30 * US; /* of others */
		assert_true(goes_on(&vigil, 0, now + 139 * US));
	}
	goes_on(&vigil, 1, now);
	assert_false(goes_on(&vigil, 0, now + 250 * US));
	assert_false(goes_on(&vigil, 1, now + 300 * US));
}

static void beside_who_computes_it_sleeps(void **state)
{
	struct vigil vigil = {0};

	requests(&vigil, 4, 40 * US);
	assert_true(goes_on(&vigil, 1, MS));
	vigil_yielded(&vigil, US, PERCH_UNUSED);
	assert_true(goes_on(&vigil, 0, MS + 10 * US));
	vigil_yielded(&vigil, 3 * MS, PERCH_COMPUTED);
	assert_false(goes_on(&vigil, 0, MS + 20 * US));
	assert_false(goes_on(&vigil, 1, 5 * MS));
	requests(&vigil, 4, 40 * US);
	assert_false(goes_on(&vigil, 1, 6 * MS)); /* it takes longer now */
	requests(&vigil, 4, 40 * US);
	assert_true(goes_on(&vigil, 1, 7 * MS));
}

static void what_others_take_of_the_while_is_added(void **state)
{
	struct vigil vigil = {0};

	assert_true(goes_on(&vigil, 8, MS));
	vigil_yielded(&vigil, 40 * US, PERCH_UNUSED);
	assert_true(goes_on(&vigil, 0, MS + 80 * US));
	assert_false(goes_on(&vigil, 0, MS + 90 * US));
}

/* So many looks in vain, and as long a yield after each that is due: how many of these there are.
 */
static int yields(struct vigil *vigil, int looks, enum perch_use use)
{
	int count = 0;

	for (int i = 0; i < looks; i++)
		if (vigil_yields(vigil)) {
			vigil_yielded(vigil, US, use);
			count++;
		}
	return count;
}

static void a_yield_that_nobody_uses_becomes_rare(void **state)
{
	struct vigil vigil = {0};

	assert_int_equal(yields(&vigil, 1 + 2 + 4, PERCH_UNUSED), 3);
	assert_int_equal(yields(&vigil, 800, PERCH_UNUSED), 100);
}

static void where_somebody_uses_it_each_look_is_followed_by_one(void **state)
{
	struct vigil vigil = {0};

	yields(&vigil, 800, PERCH_UNUSED);
	assert_in_range(yields(&vigil, 8, PERCH_POLLED), 1, 8);
	assert_int_equal(yields(&vigil, 100, PERCH_POLLED), 100);
	yields(&vigil, 800, PERCH_UNUSED);
	assert_in_range(yields(&vigil, 8, PERCH_COMPUTED), 1, 8);
	assert_int_equal(yields(&vigil, 100, PERCH_COMPUTED), 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(after_a_packet_it_sleeps),
	    cmocka_unit_test(after_a_batch_it_looks_for_a_while),
	    cmocka_unit_test(where_requests_come_soon_it_looks),
	    cmocka_unit_test(what_answers_take_is_no_wait),
	    cmocka_unit_test(requests_that_stop_are_not_looked_for),
	    cmocka_unit_test(requests_that_are_late_are_not_looked_for),
	    cmocka_unit_test(beside_who_computes_it_sleeps),
	    cmocka_unit_test(what_others_take_of_the_while_is_added),
	    cmocka_unit_test(a_yield_that_nobody_uses_becomes_rare),
	    cmocka_unit_test(where_somebody_uses_it_each_look_is_followed_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
