/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The trial of copies in one and by halves: a machine on which each takes so long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "link/halving.h"

enum {
	BYTES = 128 << 10,
	US = 1000,
	A_TRIAL = 2 * HALVING_TIMES,
};

static struct halving halving;
static uint64_t cost[2], copied[2];

static int set_up(void **state)
{
	memset(&halving, 0, sizeof(halving));
	memset(copied, 0, sizeof(copied));
	return 0;
}

static void take_time(uint64_t in_one, uint64_t by_halves)
{
	cost[HALVING_IN_ONE] = in_one;
	cost[HALVING_HALVES] = by_halves;
}

static void copy_bytes(uint64_t bytes, uint64_t more)
{
	bool is_timed = halving_count(&halving);

	copied[halving.duel.way]++;
	if (is_timed)
		halving_time(&halving, bytes, cost[halving.duel.way] * bytes / BYTES + more);
}

static void copy(uint32_t count)
{
	while (count--)
		copy_bytes(BYTES, 0);
}

/* And is at the end of the first trial. */
static void begin(void)
{
	copy(HALVING_FIRST + A_TRIAL);
	assert_false(halving.duel.is_running);
	assert_int_equal(halving.duel.stage, DUEL_SOONEST);
}

static void what_is_faster_is_taken(void **state)
{
	take_time(10 * US, 8 * US);
	begin();
	assert_int_equal(copied[HALVING_HALVES], HALVING_TIMES);
	copy(HALVING_SOONEST);
	assert_int_equal(copied[HALVING_HALVES], HALVING_TIMES + HALVING_SOONEST);
}

static void copies_are_one_where_that_is_faster(void **state)
{
	take_time(8 * US, 10 * US);
	begin();
	copy(HALVING_SOONEST);
	assert_int_equal(copied[HALVING_HALVES], HALVING_TIMES);
	assert_false(halving.duel.best);
}

static void nor_is_a_little_worth_a_change(void **state)
{
	take_time(100 * US, 97 * US);
	begin();
	assert_false(halving.duel.best);
	take_time(100 * US, 90 * US);
	copy(HALVING_SOONEST + A_TRIAL);
	assert_true(halving.duel.best);
	take_time(97 * US, 100 * US);
	copy(HALVING_SOONEST + A_TRIAL);
	assert_true(halving.duel.best);
}

/* Whoever had the core in one or two of them. */
static void one_that_was_disturbed_does_not_count(void **state)
{
	take_time(10 * US, 8 * US);
	copy(HALVING_FIRST);
	for (int i = 0; i < A_TRIAL; i++)
		copy_bytes(BYTES, i % HALVING_TIMES < 2 && i < HALVING_TIMES ? 4000 * US : 0);
	assert_true(halving.duel.best);
	set_up(state);
	take_time(8 * US, 10 * US);
	copy(HALVING_FIRST);
	for (int i = 0; i < A_TRIAL; i++)
		copy_bytes(BYTES, i % HALVING_TIMES > 2 && i > HALVING_TIMES ? 4000 * US : 0);
	assert_false(halving.duel.best);
}

/* As programs' messages are. */
static void lengths_may_differ(void **state)
{
	static const uint64_t lengths[] = {100000, 131072, 120000};

	take_time(10 * US, 8 * US);
	for (int i = 0; i < HALVING_FIRST + A_TRIAL; i++)
		copy_bytes(lengths[i % 3], 0);
	assert_true(halving.duel.best);
}

static void it_goes_back_when_that_has_changed(void **state)
{
	take_time(10 * US, 8 * US);
	copy(200000);
	assert_true(halving.duel.best);
	take_time(10 * US, 14 * US); /* nobody comes by now */
	for (int i = 0; i < HALVING_LATEST + A_TRIAL && halving.duel.best; i++)
		copy(1);
	assert_false(halving.duel.best);
	take_time(10 * US, 8 * US); /* and it looks again sooner, having been wrong */
	copy(HALVING_SOONEST + A_TRIAL);
	assert_true(halving.duel.best);
}

static void trying_costs_little(void **state)
{
	take_time(8 * US, 10 * US);
	copy(1000000);
	assert_in_range(copied[HALVING_HALVES], HALVING_TIMES, 130);
}

/* That of a copy in another's midst, a clock that stood still. */
static void any_time_will_do(void **state)
{
	take_time(0, 0);
	begin();
	assert_false(halving.duel.best);
	take_time(UINT64_C(1) << 60, 1);
	for (int i = 0; i < HALVING_SOONEST + A_TRIAL; i++) {
		if (halving_count(&halving))
			halving_time(&halving, BYTES, cost[halving.duel.way]);
	}
	assert_true(halving.duel.best);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, set_up)
	    TEST(what_is_faster_is_taken),
	    TEST(copies_are_one_where_that_is_faster),
	    TEST(nor_is_a_little_worth_a_change),
	    TEST(one_that_was_disturbed_does_not_count),
	    TEST(lengths_may_differ),
	    TEST(it_goes_back_when_that_has_changed),
	    TEST(trying_costs_little),
	    TEST(any_time_will_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
