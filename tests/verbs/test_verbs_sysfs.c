// SPDX-License-Identifier: BSD-2-Clause
/*
 * The two helpers for sysfs, with good files and with bad ones.
 */
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <errno.h>
#include <string.h>
#include <cmocka.h>
#include "verbs/sysfs.h"

static char folder[] = "/tmp/verbatim-sysfs-XXXXXX";

static void put(const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int make_files(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	put("value", "1234567\n");
	put("bare", "1234567");
	put("empty", "");
	put("newline", "\n");
	put("lines", "one\ntwo\n");
	return 0;
}

static int remove_files(void **state)
{
	const char *names[] = {"value", "bare", "empty", "newline", "lines"};
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	return rmdir(folder);
}

static void a_value_comes_without_its_newline(void **state)
{
	char text[16];

	assert_int_equal(ibv_read_sysfs_file(folder, "value", text, sizeof(text)), 7);
	assert_string_equal(text, "1234567");
	assert_int_equal(ibv_read_sysfs_file(folder, "bare", text, sizeof(text)), 7);
	assert_string_equal(text, "1234567");
	assert_int_equal(ibv_read_sysfs_file(folder, "newline", text, sizeof(text)), 0);
	assert_string_equal(text, "");
	assert_int_equal(ibv_read_sysfs_file(folder, "lines", text, sizeof(text)), 7);
	assert_string_equal(text, "one\ntwo");
}

static void an_empty_file_leaves_the_buffer_alone(void **state)
{
	char text[4] = "abc";

	assert_int_equal(ibv_read_sysfs_file(folder, "empty", text, sizeof(text)), 0);
	assert_string_equal(text, "abc");
}

/* Eight bytes are in the file: 8 is room for 7 and a 0 in the newline's place, 7 is not. */
static void a_value_that_does_not_fit_is_refused(void **state)
{
	char text[8];

	assert_int_equal(ibv_read_sysfs_file(folder, "value", text, 8), 7);
	assert_string_equal(text, "1234567");
	errno = 0;
	assert_int_equal(ibv_read_sysfs_file(folder, "value", text, 7), -1);
	assert_int_equal(errno, EOVERFLOW);
	assert_int_equal(ibv_read_sysfs_file(folder, "bare", text, 7), -1);
	assert_int_equal(ibv_read_sysfs_file(folder, "value", text, 0), 0);
}

static void what_cannot_be_read_gives_its_errno(void **state)
{
	char text[16], longer[8192];

	errno = 0;
	assert_int_equal(ibv_read_sysfs_file(folder, "none", text, sizeof(text)), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(ibv_read_sysfs_file(folder, ".", text, sizeof(text)), -1);
	assert_int_equal(errno, EISDIR);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	assert_int_equal(ibv_read_sysfs_file(folder, longer, text, sizeof(text)), -1);
	assert_int_equal(errno, ENAMETOOLONG);
}

/* Asked once in a process, before anything else here asks. */
static void the_path_follows_the_environment_without_slashes(void **state)
{
	setenv("SYSFS_PATH", "/somewhere/else//", 1);
	assert_string_equal(ibv_get_sysfs_path(), "/somewhere/else");
	setenv("SYSFS_PATH", "/other", 1);
	assert_string_equal(ibv_get_sysfs_path(), "/somewhere/else");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_value_comes_without_its_newline),
	    cmocka_unit_test(an_empty_file_leaves_the_buffer_alone),
	    cmocka_unit_test(a_value_that_does_not_fit_is_refused),
	    cmocka_unit_test(what_cannot_be_read_gives_its_errno),
	    cmocka_unit_test(the_path_follows_the_environment_without_slashes),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
