/* SPDX-License-Identifier: BSD-2-Clause */
/* What queue pairs were let do last: each finds its own, or nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/allowances.h"

static struct allowances allowances;
static struct qp a = {.number = 0x10010}, b = {.number = 0x10014},
		 alike = {.number = 0x10010 + ALLOWANCES * NEAR_PORTS};

static int set_up(void **state)
{
	allowances = (struct allowances){0};
	return 0;
}

static void remember(const struct qp *qp, uint32_t rkey)
{
	*allowances_take(&allowances, qp) = (struct samehost_memo){.reach = {.rkey = rkey}};
}

static void finds(const struct qp *qp, uint32_t rkey)
{
	const struct samehost_memo *memo = allowances_find(&allowances, qp);

	assert_non_null(memo);
	assert_int_equal(memo->reach.rkey, rkey);
}

static void each_finds_its_own(void **state)
{
	assert_null(allowances_find(&allowances, &a));
	remember(&a, 1);
	assert_null(allowances_find(&allowances, &b));
	remember(&b, 2);
	finds(&a, 1);
	finds(&b, 2);
	remember(&a, 3);
	finds(&a, 3);
}

static void of_two_in_one_place_the_last_one_does(void **state)
{
	remember(&a, 1);
	assert_null(allowances_find(&allowances, &alike));
	remember(&alike, 2);
	assert_null(allowances_find(&allowances, &a));
	finds(&alike, 2);
}

static void who_is_forgotten_finds_nothing(void **state)
{
	remember(&a, 1);
	remember(&b, 2);
	allowances_forget(&allowances, &alike);
	finds(&a, 1);
	allowances_forget(&allowances, &a);
	assert_null(allowances_find(&allowances, &a));
	finds(&b, 2);
}

/* Another one of the same number, as after its end. */
static void nor_does_its_successor(void **state)
{
	struct qp successor = {.number = a.number};

	remember(&a, 1);
	assert_null(allowances_find(&allowances, &successor));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(each_finds_its_own, set_up),
	    cmocka_unit_test_setup(of_two_in_one_place_the_last_one_does, set_up),
	    cmocka_unit_test_setup(who_is_forgotten_finds_nothing, set_up),
	    cmocka_unit_test_setup(nor_does_its_successor, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
