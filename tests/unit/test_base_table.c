/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of numbers: ids are found, not given out twice, not reused at once, and end at the
 * limit. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/table.h"

static struct table table;
static int things[4096];

static int setup(void **state)
{
	table_init(&table, 2000);
	return 0;
}

static int teardown(void **state)
{
	table_fini(&table);
	return 0;
}

static void what_was_added_is_found_and_nothing_else(void **state)
{
	uint32_t id;

	assert_null(table_find(&table, 7));
	assert_int_equal(table_add(&table, 2, 7, &things[0], &id), 0);
	assert_int_equal(id, 7);
	assert_ptr_equal(table_find(&table, 7), &things[0]);
	assert_null(table_find(&table, 8));
	table_remove(&table, 7);
	assert_null(table_find(&table, 7));
}

static void an_id_out_of_range_is_not_found(void **state)
{
	assert_null(table_find(&table, 2000));
	assert_null(table_find(&table, UINT32_MAX));
	table_remove(&table, UINT32_MAX);
}

static void an_id_is_not_reused_at_once(void **state)
{
	uint32_t first, second;

	assert_int_equal(table_add(&table, 1, 0, &things[0], &first), 0);
	table_remove(&table, first);
	assert_int_equal(table_add(&table, 1, 0, &things[1], &second), 0);
	assert_int_not_equal(first, second);
}

static void the_search_wraps_to_the_first(void **state)
{
	uint32_t id;

	assert_int_equal(table_add(&table, 2, 1999, &things[0], &id), 0);
	assert_int_equal(id, 1999);
	assert_int_equal(table_add(&table, 2, 1999, &things[1], &id), 0);
	assert_int_equal(id, 2);
}

static void a_full_table_says_so_and_takes_again_after_a_removal(void **state)
{
	uint32_t id;

	for (uint32_t i = 2; i < 2000; i++)
		assert_int_equal(table_add(&table, 2, 500, &things[i], &id), 0);
	assert_int_equal(table_add(&table, 2, 500, &things[0], &id), -ENOSPC);
	table_remove(&table, 1234);
	assert_int_equal(table_add(&table, 2, 500, &things[0], &id), 0);
	assert_int_equal(id, 1234);
}

static void of_every_fourth_id_the_next_free_one_is_taken(void **state)
{
	uint32_t id;

	assert_int_equal(table_add_every(&table, 2, 1000, 3, 4, &things[0], &id), 0);
	assert_int_equal(id, 1003);
	assert_int_equal(table_add_every(&table, 2, 1000, 3, 4, &things[1], &id), 0);
	assert_int_equal(id, 1007);
	assert_int_equal(table_add_every(&table, 2, 1999, 0, 4, &things[2], &id), 0);
	assert_int_equal(id, 4);
}

static void where_no_fourth_id_is_free_another_is_taken(void **state)
{
	uint32_t id;

	for (uint32_t i = 5; i < 2000; i += 4)
		assert_int_equal(table_add_every(&table, 2, 2, 1, 4, &things[i], &id), 0);
	assert_int_equal(table_add_every(&table, 2, 2, 1, 4, &things[0], &id), 0);
	assert_int_equal(id % 4, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(of_every_fourth_id_the_next_free_one_is_taken, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(where_no_fourth_id_is_free_another_is_taken, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(what_was_added_is_found_and_nothing_else, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(an_id_out_of_range_is_not_found, setup, teardown),
	    cmocka_unit_test_setup_teardown(an_id_is_not_reused_at_once, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_search_wraps_to_the_first, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_full_table_says_so_and_takes_again_after_a_removal,
					    setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
