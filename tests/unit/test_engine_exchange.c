/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When an inlet may be terse: the rules of engine/exchange.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/exchange.h"

enum { BATCHES = 1024 };

/* Of a window, of which every so manieth is no turn (0: none). Whether the next may be terse. */
static bool window(struct exchange *exchange, uint32_t every, bool has_lasted)
{
	for (uint32_t i = 1; i <= BATCHES; i++)
		exchange_goes_on(exchange, !every || i % every);
	return exchange_review(exchange, BATCHES, has_lasted);
}

static void a_window_of_turns_makes_one(void **state)
{
	struct exchange exchange = {0};

	assert_true(window(&exchange, 0, false));
}

static void one_of_ten_that_is_no_turn_makes_none(void **state)
{
	struct exchange exchange = {0};

	assert_false(window(&exchange, 10, false));
	assert_true(window(&exchange, 100, false));
}

static void a_stream_ends_it_with_its_second_batch(void **state)
{
	struct exchange exchange = {0};

	assert_true(window(&exchange, 0, false));
	assert_true(exchange_goes_on(&exchange, false));
	assert_false(exchange_goes_on(&exchange, false));
}

static void an_ack_alone_now_and_then_does_not(void **state)
{
	struct exchange exchange = {0};

	assert_true(window(&exchange, 0, false));
	for (int i = 0; i < 1000; i++)
		assert_true(exchange_goes_on(&exchange, i % 8));
}

static void what_the_stream_before_left_counts_no_more(void **state)
{
	struct exchange exchange = {0};

	for (int i = 0; i < 100; i++)
		exchange_goes_on(&exchange, false);
	assert_false(exchange_review(&exchange, 100, false));
	assert_true(window(&exchange, 0, false));
	assert_true(exchange_goes_on(&exchange, false));
}

/* So many windows of turns pass before it is begun again. */
static uint32_t windows_until_it_begins(struct exchange *exchange)
{
	uint32_t windows = 0;

	while (!window(exchange, 0, false))
		windows++;
	return windows;
}

static void what_ended_soon_is_begun_ever_later(void **state)
{
	struct exchange exchange = {0};

	assert_int_equal(windows_until_it_begins(&exchange), 0);
	for (uint32_t windows = 1; windows < 100; windows = 2 * windows + 1) {
		exchange_ended(&exchange);
		assert_int_equal(windows_until_it_begins(&exchange), windows);
	}
	assert_true(window(&exchange, 0, true)); /* now one has lasted */
	exchange_ended(&exchange);
	assert_int_equal(windows_until_it_begins(&exchange), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_window_of_turns_makes_one),
	    cmocka_unit_test(one_of_ten_that_is_no_turn_makes_none),
	    cmocka_unit_test(a_stream_ends_it_with_its_second_batch),
	    cmocka_unit_test(an_ack_alone_now_and_then_does_not),
	    cmocka_unit_test(what_the_stream_before_left_counts_no_more),
	    cmocka_unit_test(what_ended_soon_is_begun_ever_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
