/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VERBATIM_EXPLAIN=1 tells each refusal on stderr, in one line with number, name, live values and
 * advice; 0 and nothing tell nothing. The program runs itself, as the variable is read at its
 * start.
 */
#define _GNU_SOURCE
#include "live.h"

static void refuse_something(void)
{
	context = open_loopback();
	if (!context || ibv_create_cq(context, 0, NULL, NULL, 0))
		exit(1);
	ibv_close_device(context);
}

/* What the program says with this setting, in `said`. */
static void run_with(const char *setting, char *said, size_t size)
{
	char command[512], self[256];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	FILE *child;

	assert_true(length > 0);
	self[length] = '\0';
	snprintf(command, sizeof(command), "%s %s child 2>&1 >/dev/null", setting, self);
	child = popen(command, "r");
	assert_non_null(child);
	memset(said, 0, size);
	assert_true(fread(said, 1, size - 1, child) < size - 1);
	assert_int_equal(pclose(child), 0);
}

static void a_refusal_is_told_in_one_line(void **state)
{
	char said[4096];
	char *line;

	run_with("VERBATIM_EXPLAIN=1", said, sizeof(said));
	line = strstr(said, "verbatim: 300 CQ_SIZE: ");
	assert_non_null(line);
	assert_non_null(strstr(line, "cqe is 0"));
	assert_non_null(strstr(line, "max_cqe"));
	assert_non_null(strstr(line, "[ibv_create_cq(3)]\n"));
}

static void otherwise_nothing_is_told(void **state)
{
	char said[4096];

	run_with("VERBATIM_EXPLAIN=0", said, sizeof(said));
	assert_string_equal(said, "");
	run_with("VERBATIM_EXPLAIN=", said, sizeof(said));
	assert_string_equal(said, "");
	run_with("env -u VERBATIM_EXPLAIN", said, sizeof(said));
	assert_string_equal(said, "");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_refusal_is_told_in_one_line),
	    cmocka_unit_test(otherwise_nothing_is_told),
	};

	if (argc > 1) {
		refuse_something();
		return 0;
	}
	if (own_network() && interface_up("lo") < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
