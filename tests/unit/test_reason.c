/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of reasons: numbers are unique and in their block, each has its texts, a refusal is kept
 * and told. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "explain/reason.h"

static const struct reason_text *told;
static char told_live[256];

static void remember(const struct reason_text *text, const char *live)
{
	told = text;
	strncpy(told_live, live, sizeof(told_live) - 1);
}

static void every_reason_has_a_number_of_its_own_and_its_texts(void **state)
{
	const struct reason_text *text = NULL;
	unsigned int numbers = 0, entries = 0;

	while ((text = reason_next(text ? text->number : 0))) {
		numbers++;
		assert_in_range(text->number, 100, 1299);
		assert_true(strlen(text->line) > 8);
		assert_true(strlen(text->advice) > 8);
		assert_true(strlen(text->where) > 2);
		assert_true((text->shows.error != 0) != (text->shows.status != IBV_WC_SUCCESS));
	}
#define REASON(number, name, shows, line, advice, where) entries++;
#include "explain/reasons.def"
#undef REASON
	assert_int_equal(numbers, entries);
}

static void a_refusal_is_kept_and_told_with_its_live_values(void **state)
{
	const char *live;

	reason_set_sink(remember);
	assert_int_equal(refuse(REASON_NOT_IMPLEMENTED, "verb %s", "ibv_x"), EOPNOTSUPP);
	assert_int_equal(reason_last(&live), REASON_NOT_IMPLEMENTED);
	assert_string_equal(live, "verb ibv_x");
	assert_int_equal(told->number, REASON_NOT_IMPLEMENTED);
	assert_string_equal(told_live, "verb ibv_x");
	reason_clear();
	assert_int_equal(reason_last(NULL), REASON_NONE);
	reason_set_sink(NULL);
}

static void an_unknown_number_is_not_found(void **state)
{
	assert_null(reason_find(0));
	assert_null(reason_find(99999));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_reason_has_a_number_of_its_own_and_its_texts),
	    cmocka_unit_test(a_refusal_is_kept_and_told_with_its_live_values),
	    cmocka_unit_test(an_unknown_number_is_not_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
