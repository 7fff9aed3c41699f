/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks that lean to a thread (base/bias.h), by a queue's lock: whoever has it is alone, whichever
 * way he came by it, and nobody who could have it goes without.
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/spin.h"
#include "engine/fence.h"

#ifdef LATCH_IS_MUTEX

int main(void)
{
	return 77; /* there is none of it here */
}

#else

enum {
	AT_LEAST = 64,	 /* in a row: then it may lean */
	AT_MOST = 40000, /* then it does */
	ROUNDS = 20000,
	OTHERS = 2,
	STOPS = 20000,
	PAUSES = 50,
};

static struct spin lock;
static unsigned long count; /* under the lock */
static atomic_uint others;  /* that are not done */

/* Only where the kernel says that it has none of it there is nothing to see. */
static int set_up(void **state)
{
	int commands = (int)syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

	(void)state;
	spin_init(&lock);
	fence_prepare();
#ifdef __x86_64__
	if (commands >= 0 && commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED)
		assert_true(bias_is_allowed());
#endif
	(void)commands;
	return 0;
}

static void need_bias(void)
{
	if (!bias_is_allowed())
		skip();
}

static bool leans(const struct spin *to_us)
{
	return atomic_load(&to_us->bias.leans) == bias_thread();
}

static void take(unsigned int times)
{
	for (unsigned int i = 0; i < times; i++) {
		spin_lock(&lock);
		count++;
		spin_unlock(&lock);
	}
}

/* How often that was. */
static unsigned int take_until_it_leans(void)
{
	unsigned int times = 0;

	while (!leans(&lock) && times < AT_MOST) {
		take(1);
		times++;
	}
	assert_true(leans(&lock));
	return times;
}

static void *take_as_often(void *times)
{
	take((unsigned int)(uintptr_t)times);
	return (void *)(uintptr_t)leans(&lock);
}

/* By a thread of its own; whether it leans to that then. */
static bool others_take(unsigned int times)
{
	pthread_t thread;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, take_as_often, (void *)(uintptr_t)times), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	return result;
}

static void *try(void *unused)
{
	bool has_it = spin_try(&lock);

	(void)unused;
	if (has_it)
		spin_unlock(&lock);
	return (void *)(uintptr_t)has_it;
}

static bool others_get_it(void)
{
	pthread_t thread;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, try, NULL), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	return result;
}

static void to_who_takes_it_nearly_always(void **state)
{
	(void)state;
	need_bias();
	take(AT_LEAST);
	assert_false(leans(&lock));
	take_until_it_leans();
	spin_lock(&lock);
	assert_int_equal(atomic_load(&lock.bias.word), 0);
	assert_true(bias_is_mine(&lock.bias));
	assert_false(spin_try(&lock));
	spin_unlock(&lock);
	assert_false(bias_is_inside(&lock.bias));
	assert_true(leans(&lock));
}

static void the_word_is_held_against_its_own_thread_too(void **state)
{
	(void)state;
	for (int i = 0; i < AT_MOST; i++) { /* the one behind which it leans among them */
		spin_lock(&lock);
		assert_false(spin_try(&lock));
		spin_unlock(&lock);
	}
}

static void somebody_else_gets_it_nevertheless(void **state)
{
	(void)state;
	need_bias();
	take_until_it_leans();
	assert_true(others_get_it());
	assert_false(leans(&lock));
	take(1);
}

static void who_tries_while_it_is_held_does_not(void **state)
{
	(void)state;
	need_bias();
	take_until_it_leans();
	spin_lock(&lock);
	assert_true(bias_is_mine(&lock.bias));
	assert_false(others_get_it());
	assert_false(others_get_it()); /* when it leans no more */
	spin_unlock(&lock);
	assert_true(others_get_it());
}

static void who_waits_gets_it_then(void **state)
{
	const struct timespec moment = {.tv_nsec = 20000000};
	pthread_t thread;

	(void)state;
	take(AT_MOST);
	spin_lock(&lock);
	count = 0;
	assert_int_equal(pthread_create(&thread, NULL, take_as_often, (void *)1), 0);
	nanosleep(&moment, NULL);
	assert_int_equal(count, 0);
	spin_unlock(&lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(count, 1);
}

static void each_time_it_takes_longer(void **state)
{
	unsigned int before, times;

	(void)state;
	need_bias();
	before = take_until_it_leans();
	for (int i = 0; i < 10; i++) {
		assert_true(others_get_it());
		times = take_until_it_leans();
		assert_in_range(times, before < AT_MOST / 2 ? 3 * before / 2 : 1, AT_MOST);
		before = times;
	}
}

/* Of a lock that never leaned, too. */
static void where_few_last_all_take_longer(void **state)
{
	(void)state;
	need_bias();
	for (int i = 0; i < 9 * 16; i++) {
		spin_init(&lock);
		take_until_it_leans();
		assert_true(others_get_it());
	}
	spin_init(&lock);
	assert_in_range(take_until_it_leans(), AT_MOST / 2, AT_MOST);
}

/* Who could still stand between his store and his second look has to come by first. */
static void to_another_when_the_first_has_been_back(void **state)
{
	(void)state;
	need_bias();
	take_until_it_leans();
	assert_false(others_take(2 * AT_MOST));
	take(1);
	assert_true(others_take(AT_MOST));
	take(1);
	assert_false(leans(&lock));
}

/* Each take may be the one behind which it leans, so it does each time that one comes twice. */
static void hurry(void)
{
	lock.bias.left = 0;
	lock.bias.level = 0;
}

/* Slowly, so that whoever else is inside is noticed. */
static void count_up(unsigned int moments)
{
	unsigned long before = count;

	while (moments--)
		caa_cpu_relax();
	count = before + 1;
	hurry();
	spin_unlock(&lock);
}

static void *come_now_and_then(void *unused)
{
	for (unsigned int taken = 0; taken < ROUNDS; taken++) {
		for (unsigned int i = 0; i < taken % 64; i++)
			caa_cpu_relax();
		if (taken % 2)
			spin_lock(&lock);
		else
			while (!spin_try(&lock))
				caa_cpu_relax();
		count_up(taken % 16);
	}
	atomic_fetch_sub(&others, 1);
	return unused;
}

static void whoever_has_it_is_alone(void **state)
{
	pthread_t threads[OTHERS];
	unsigned long taken;

	(void)state;
	count = 0;
	atomic_store(&others, OTHERS);
	for (int i = 0; i < OTHERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_now_and_then, NULL), 0);
	for (taken = 0; atomic_load(&others); taken++) {
		spin_lock(&lock);
		count_up(taken % 8 ? 0 : 3);
	}
	for (int i = 0; i < OTHERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(count, taken + (unsigned long)OTHERS * ROUNDS);
}

/* ---- stopped wherever it is ---- */

static atomic_bool is_stopped, goes_on, is_over;

static void stop(int signal)
{
	(void)signal;
	atomic_store(&is_stopped, true);
	while (!atomic_load(&goes_on))
		caa_cpu_relax();
	atomic_store(&is_stopped, false);
}

static void *take_until_over(void *unused)
{
	while (!atomic_load(&is_over)) {
		spin_lock(&lock);
		count++;
		hurry();
		spin_unlock(&lock);
	}
	return unused;
}

/* As an owner whom the kernel has put aside. True if we had the lock, and alone. */
static bool take_while_stopped(pthread_t owner)
{
	unsigned long before;
	bool has_it;

	atomic_store(&goes_on, false);
	pthread_kill(owner, SIGUSR1);
	while (!atomic_load(&is_stopped))
		caa_cpu_relax();
	has_it = spin_try(&lock);
	before = count;
	atomic_store(&goes_on, true);
	while (atomic_load(&is_stopped))
		caa_cpu_relax();
	for (int i = 0; has_it && i < PAUSES; i++) {
		caa_cpu_relax();
		assert_int_equal(*(volatile unsigned long *)&count, before);
	}
	if (has_it)
		spin_unlock(&lock);
	return has_it;
}

static void wherever_its_owner_is_stopped(void **state)
{
	struct sigaction action = {.sa_handler = stop};
	unsigned int taken = 0;
	pthread_t owner;

	(void)state;
	sigaction(SIGUSR1, &action, NULL);
	atomic_store(&is_over, false);
	assert_int_equal(pthread_create(&owner, NULL, take_until_over, NULL), 0);
	for (int i = 0; i < STOPS; i++) {
		taken += take_while_stopped(owner);
		for (int j = 0; j < PAUSES; j++)
			caa_cpu_relax();
	}
	atomic_store(&is_over, true);
	pthread_join(owner, NULL);
	assert_in_range(taken, 1, STOPS);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(to_who_takes_it_nearly_always),
	    TEST(the_word_is_held_against_its_own_thread_too),
	    TEST(somebody_else_gets_it_nevertheless),
	    TEST(who_tries_while_it_is_held_does_not),
	    TEST(who_waits_gets_it_then),
	    TEST(each_time_it_takes_longer),
	    TEST(to_another_when_the_first_has_been_back),
	    TEST(whoever_has_it_is_alone),
	    TEST(wherever_its_owner_is_stopped),
	    TEST(where_few_last_all_take_longer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
