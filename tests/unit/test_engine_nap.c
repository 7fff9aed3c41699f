/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The nap of a lane's thread: it ends by itself, and later where it was put off.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

#include "engine/nap.h"

enum { PATIENCE_MS = 10000, TRIES = 1000 };

static const uint64_t begin = 1000000000;

static long left(const struct nap *nap)
{
	struct itimerspec when;

	assert_int_equal(timerfd_gettime(nap->fd, &when), 0);
	assert_int_equal(when.it_value.tv_sec, 0);
	return when.it_value.tv_nsec;
}

static bool is_over(const struct nap *nap, int ms)
{
	struct pollfd timer = {nap->fd, POLLIN, 0};

	return poll(&timer, 1, ms) == 1;
}

static void it_ends_by_itself(void **state)
{
	struct nap nap;

	assert_int_equal(nap_open(&nap), 0);
	assert_false(is_over(&nap, 0));
	nap_begin(&nap, begin);
	assert_in_range(left(&nap), 0, NAP_NS);
	assert_true(is_over(&nap, PATIENCE_MS));
	nap_put_off(&nap, begin + NAP_EVERY_NS); /* it was over, and is so again */
	assert_true(is_over(&nap, PATIENCE_MS));
	nap_close(&nap);
	nap_close(&nap);
}

/* Who is kept from the core here for a millisecond has seen nothing: then again. */
static bool lasts_long(struct nap *nap, uint64_t at)
{
	bool is_long = false;

	for (int try = 0; try < TRIES && !is_long; try++) {
		nap_begin(nap, begin);
		nap_put_off(nap, begin + at);
		is_long = left(nap) > NAP_NS;
	}
	return is_long;
}

static void it_is_put_off_now_and_then(void **state)
{
	struct nap nap;

	assert_int_equal(nap_open(&nap), 0);
	assert_false(lasts_long(&nap, 0));
	assert_false(lasts_long(&nap, NAP_EVERY_NS / 2 - 1));
	assert_true(lasts_long(&nap, NAP_EVERY_NS / 2));
	assert_in_range(left(&nap), 0, NAP_LONGEST_NS);
	nap_put_off(&nap, begin + NAP_EVERY_NS);
	assert_int_equal(nap.put_off_at, begin + NAP_EVERY_NS / 2);
	nap_put_off(&nap, begin + 3 * NAP_EVERY_NS / 2);
	assert_int_equal(nap.put_off_at, begin + 3 * NAP_EVERY_NS / 2);
	nap_begin(&nap, begin); /* another one */
	assert_in_range(left(&nap), 0, NAP_NS);
	assert_true(is_over(&nap, PATIENCE_MS));
	nap_close(&nap);
}

static void without_a_descriptor_there_is_none(void **state)
{
	struct rlimit before, none;
	struct nap nap;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){0, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(nap_open(&nap), -EMFILE);
	assert_int_equal(nap.fd, -1);
	nap_close(&nap);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_ends_by_itself),
	    cmocka_unit_test(it_is_put_off_now_and_then),
	    cmocka_unit_test(without_a_descriptor_there_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
