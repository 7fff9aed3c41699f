/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Until when polls let themselves be called: the rules of engine/calling.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/calling.h"

static struct calling begun(void)
{
	struct calling calling = {0};

	assert_true(calling_begin(&calling));
	assert_true(calling.is_on);
	return calling;
}

/* So many calls, each after so many polls and posts of the program. */
static void call(struct calling *calling, unsigned int times, bool has_found, uint32_t polls,
		 uint32_t posts)
{
	for (; times && calling->is_on; times--) {
		uint32_t polls_then = calling->polls + polls, posts_then = calling->posts + posts;

		calling_came(calling, has_found, polls_then, posts_then);
		calling_let(calling, polls_then, posts_then);
	}
}

static void it_is_begun_once(void **state)
{
	struct calling calling = begun();

	assert_false(calling_begin(&calling));
	assert_true(calling.is_on);
}

static void who_waits_in_memory_is_called_for_as_long(void **state)
{
	struct calling calling = begun();

	call(&calling, 1000, true, 2, 0);
	assert_true(calling.is_on);
}

static void eight_calls_for_nothing_end_it(void **state)
{
	struct calling calling = begun();

	call(&calling, 7, false, 0, 0);
	call(&calling, 1, true, 0, 0);
	call(&calling, 7, false, 0, 0);
	assert_true(calling.is_on);
	call(&calling, 1, false, 0, 0);
	assert_false(calling.is_on);
	assert_false(calling_begin(&calling));
	calling_came(&calling, false, 0, 0); /* one that was under way */
	assert_false(calling_begin(&calling));
	calling_forget(&calling);
	assert_true(calling_begin(&calling));
}

static void who_goes_on_polling_or_posting_is_called_no_more(void **state)
{
	for (int is_posting = 0; is_posting <= 1; is_posting++) {
		struct calling calling = begun();

		call(&calling, 63, true, is_posting ? 1 : 3, is_posting);
		call(&calling, 1, true, 0, 0);
		call(&calling, 63, true, is_posting ? 1 : 3, is_posting);
		assert_true(calling.is_on);
		call(&calling, 1, true, is_posting ? 1 : 3, is_posting);
		assert_false(calling.is_on);
	}
}

static void and_again_where_packets_wait_again(void **state)
{
	struct calling calling = begun();

	call(&calling, 64, true, 1000, 1);
	assert_true(calling_begin(&calling));
	call(&calling, 63, true, 1000, 1);
	assert_true(calling.is_on);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_is_begun_once),
	    cmocka_unit_test(who_waits_in_memory_is_called_for_as_long),
	    cmocka_unit_test(eight_calls_for_nothing_end_it),
	    cmocka_unit_test(who_goes_on_polling_or_posting_is_called_no_more),
	    cmocka_unit_test(and_again_where_packets_wait_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
