/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock of a lane, engine/latch.h: one holder at a time, and nobody sleeps for ever.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/latch.h"

enum { THREADS = 4, ROUNDS = 20000 };

static struct latch latch;
static unsigned long count; /* under the latch */

static void *count_up(void *takes_turns)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (!takes_turns || i % 2)
			latch_take(&latch);
		else
			while (!latch_try(&latch))
				usleep(1);
		count++;
		latch_give(&latch);
	}
	return NULL;
}

static void who_finds_it_held_does_not_get_it(void **state)
{
	assert_true(latch_try(&latch));
	assert_false(latch_try(&latch));
	latch_give(&latch);
	assert_true(latch_try(&latch));
	latch_give(&latch);
}

static void it_has_one_holder_at_a_time(void **state)
{
	pthread_t threads[THREADS];

	count = 0;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_up, i % 2 ? &latch : NULL),
				 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(count, THREADS * ROUNDS);
	assert_true(latch_try(&latch));
	latch_give(&latch);
}

static void *take_once(void *unused)
{
	latch_take(&latch);
	count++;
	latch_give(&latch);
	return NULL;
}

/* All that sleep come to their turn, though each of them is woken by the one before. */
static void who_sleeps_is_woken(void **state)
{
	pthread_t threads[THREADS];

	count = 0;
	latch_take(&latch);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_once, NULL), 0);
	usleep(20000);
	assert_int_equal(count, 0);
	latch_give(&latch);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(count, THREADS);
	assert_true(latch_try(&latch));
	latch_give(&latch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(who_finds_it_held_does_not_get_it),
	    cmocka_unit_test(it_has_one_holder_at_a_time),
	    cmocka_unit_test(who_sleeps_is_woken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
