/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which processor this is: as the kernel says it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/processor.h"

static bool is_zen5_by_the_kernel(void)
{
	FILE *info = fopen("/proc/cpuinfo", "r");
	bool is_amd = false;
	unsigned int family = 0;
	char line[4096];

	assert_non_null(info);
	while (fgets(line, sizeof(line), info)) {
		is_amd |= !strncmp(line, "vendor_id", 9) && strstr(line, "AuthenticAMD");
		if (!family)
			(void)sscanf(line, "cpu family : %u", &family);
	}
	fclose(info);
	return is_amd && family >= PROCESSOR_FAMILY_ZEN5;
}

static void a_zen5_is_told_from_others(void **state)
{
	(void)state;
	assert_int_equal(processor_is_zen5(), is_zen5_by_the_kernel());
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_zen5_is_told_from_others)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
