/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock of a lane, engine/latch.h: one holder at a time, and nobody sleeps for ever.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/fence.h"
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

/* ---- what is left to the holder ---- */

enum { MEETINGS = 30000, PAUSE = 64, IN_TURN = 4 };

static atomic_uint news, met[2];

/* Until the other has come as far. */
static void meet(int own)
{
	unsigned int times = atomic_fetch_add(&met[own], 1) + 1;

	while (atomic_load(&met[!own]) < times)
		sched_yield();
}

static void pause_a_little(unsigned int *seed)
{
	for (unsigned int i = (unsigned int)rand_r(seed) % PAUSE; i; i--)
		atomic_signal_fence(memory_order_seq_cst);
}

/* As who runs a lane: what comes while it is held is seen when it has been let go. */
static bool let_go_and_look(void)
{
	latch_give(&latch);
#ifdef __x86_64__
	atomic_signal_fence(memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
	return atomic_load_explicit(&news, memory_order_relaxed);
}

static void visit(void)
{
	while (latch_try(&latch)) {
		atomic_exchange(&news, 0);
		if (!let_go_and_look())
			return;
	}
}

/* First while it is held for certain, so that it leans to nobody any more; then about when it is
 * let go. */
static void *bring_news(void *unused)
{
	unsigned int seed = 7;

	for (int i = 0; i < MEETINGS; i++) {
		meet(1);
		visit();
		meet(1);
		pause_a_little(&seed);
		atomic_exchange(&news, 1);
		visit();
		meet(1);
	}
	return unused;
}

/* It leans to this thread from here on, if it may. */
static void be_there_most(void)
{
	for (int i = 0; i < IN_TURN; i++) {
		latch_take(&latch);
#ifndef LATCH_IS_MUTEX
		latch.bias.left = 0;
		latch.bias.level = 0;
#endif
		latch_give(&latch);
	}
}

/* Who does not get it has left it to somebody who will look. */
static void nothing_is_left_behind(void **state)
{
	unsigned int seed = 3;
	pthread_t thread;

#ifndef LATCH_IS_MUTEX
	fence_prepare();
#endif
	assert_int_equal(pthread_create(&thread, NULL, bring_news, NULL), 0);
	for (int i = 0; i < MEETINGS; i++) {
		be_there_most();
		latch_take(&latch);
		meet(0);
		meet(0);
		pause_a_little(&seed);
		if (let_go_and_look())
			visit();
		meet(0);
		assert_int_equal(atomic_load(&news), 0);
	}
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(who_finds_it_held_does_not_get_it),
	    cmocka_unit_test(it_has_one_holder_at_a_time),
	    cmocka_unit_test(who_sleeps_is_woken),
	    cmocka_unit_test(nothing_is_left_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
