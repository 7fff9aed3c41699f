/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each function of the C library that leads to a file, looking at the made-up devices of
 * fake_view.c. Run under the shim by paths.sh; the first argument is where the shim makes its
 * trees.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define DEVICE "/sys/class/infiniband/fake0"
#define NODE   "/dev/infiniband/uverbs1"
#define TYPE   "1: CA\n"

static const char *trees; /* where the shim makes them */

static void assert_reads(int fd, const char *expected)
{
	char text[256] = "";
	ssize_t length;

	assert_true(fd >= 0);
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	assert_true(length >= 0);
	assert_string_equal(text, expected);
}

static void assert_file(const char *path, const char *expected)
{
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		print_error("%s: %s\n", path, strerror(errno));
	assert_reads(fd, expected);
}

static void assert_stream(FILE *file, const char *expected)
{
	char text[256] = "";

	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	assert_string_equal(text, expected);
}

static void every_way_to_open_a_file_leads_to_it(void **state)
{
	static const char path[] = DEVICE "/node_type";
	const int flags = O_RDONLY | O_CLOEXEC;
	int (*open_2)(const char *, int) = dlsym(RTLD_DEFAULT, "__open_2");
	int (*open64_2)(const char *, int) = dlsym(RTLD_DEFAULT, "__open64_2");
	int (*openat_2)(int, const char *, int) = dlsym(RTLD_DEFAULT, "__openat_2");
	int (*openat64_2)(int, const char *, int) = dlsym(RTLD_DEFAULT, "__openat64_2");
	int dir;

	assert_reads(open(path, flags), TYPE);
	assert_reads(open64(path, flags), TYPE);
	assert_reads(openat(AT_FDCWD, path, flags), TYPE);
	assert_reads(openat64(-1, path, flags), TYPE);
	assert_reads(open_2(path, flags), TYPE);
	assert_reads(open64_2(path, flags), TYPE);
	assert_reads(openat_2(AT_FDCWD, path, flags), TYPE);
	assert_reads(openat64_2(AT_FDCWD, path, flags), TYPE);
	assert_stream(fopen(path, "r"), TYPE);
	assert_stream(fopen64(path, "re"), TYPE);
	/* cppcheck-suppress leakNoVarFunctionCall */
	assert_stream(freopen(path, "r", fopen("/dev/null", "r")), TYPE);
	assert_stream(freopen64(path, "r", fopen("/dev/null", "r")), TYPE);
	dir = open(DEVICE, O_RDONLY | O_DIRECTORY);
	assert_reads(openat(dir, "ports/1/state", flags), "4: ACTIVE\n");
	close(dir);
}

static void the_files_say_what_the_kernels_would(void **state)
{
	assert_file(DEVICE "/node_guid", "0123:4567:89ab:cdef\n");
	assert_file(DEVICE "/sys_image_guid", "0123:4567:89ab:cdef\n");
	assert_file(DEVICE "/fw_ver", "1.2.3\n");
	assert_file(DEVICE "/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001\n");
	assert_file(DEVICE "/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:c000:0207\n");
	assert_file(DEVICE "/ports/1/gids/3", "0000:0000:0000:0000:0000:0000:0000:0000\n");
	assert_file(DEVICE "/ports/1/gid_attrs/types/1", "RoCE v2\n");
	assert_file(DEVICE "/ports/1/gid_attrs/ndevs/1", "nonesuch0\n");
	assert_file(DEVICE "/ports/1/pkeys/0", "0xffff\n");
	assert_file(DEVICE "/ports/1/pkeys/1", "0x0000\n");
	assert_file(DEVICE "/ports/1/phys_state", "5: LinkUp\n");
	assert_file(DEVICE "/ports/1/link_layer", "Ethernet\n");
	assert_file(DEVICE "/ports/1/rate", "40 Gb/sec (4X FDR10)\n");
	assert_file(DEVICE "/ports/1/lid", "0x0\n");
	assert_file(DEVICE "/device/numa_node", "-1\n");
	assert_file("/sys/class/infiniband_verbs/abi_version", "6\n");
	assert_file("/sys/class/infiniband_verbs/uverbs0/ibdev", "fake0\n");
	assert_file("/sys/class/infiniband_verbs/uverbs1/dev", "231:193\n");
	assert_file("/sys/class/net/lo/device/infiniband/fake1/node_type", TYPE);
	assert_int_equal(access(DEVICE "/ports/1/gid_attrs/types/3", F_OK), -1);
}

static void every_stat_sees_a_file_and_a_device_node(void **state)
{
	static const char path[] = DEVICE "/node_type";
	int (*old_stat)(int, const char *, struct stat *) = dlsym(RTLD_DEFAULT, "__xstat");
	int (*old_lstat)(int, const char *, struct stat *) = dlsym(RTLD_DEFAULT, "__lxstat");
	int (*old_fstatat)(int, int, const char *, struct stat *, int) =
	    dlsym(RTLD_DEFAULT, "__fxstatat");
	struct stat st[7];
	struct stat64 st64[3];
	struct statx stx;

	assert_int_equal(stat(path, &st[0]), 0);
	assert_true(S_ISREG(st[0].st_mode));

	assert_int_equal(stat(NODE, &st[0]), 0);
	assert_int_equal(lstat(NODE, &st[1]), 0);
	assert_int_equal(fstatat(AT_FDCWD, NODE, &st[2], 0), 0);
	assert_int_equal(fstatat(AT_FDCWD, NODE, &st[3], AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(old_stat(1, NODE, &st[4]), 0);
	assert_int_equal(old_lstat(1, NODE, &st[5]), 0);
	assert_int_equal(old_fstatat(1, AT_FDCWD, NODE, &st[6], 0), 0);
	assert_int_equal(stat64(NODE, &st64[0]), 0);
	assert_int_equal(lstat64(NODE, &st64[1]), 0);
	assert_int_equal(fstatat64(AT_FDCWD, NODE, &st64[2], AT_SYMLINK_NOFOLLOW), 0);
	for (int i = 0; i < 7; i++) {
		assert_true(S_ISCHR(st[i].st_mode));
		assert_int_equal(st[i].st_rdev, makedev(231, 193));
	}
	for (int i = 0; i < 3; i++) {
		assert_true(S_ISCHR(st64[i].st_mode));
		assert_int_equal(st64[i].st_rdev, makedev(231, 193));
	}
	assert_int_equal(statx(AT_FDCWD, NODE, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &stx), 0);
	assert_true(S_ISCHR(stx.stx_mode));
	assert_int_equal(stx.stx_rdev_major, 231);
	assert_int_equal(stx.stx_rdev_minor, 193);
}

static void a_device_node_is_accessible_but_does_not_open(void **state)
{
	int fd;

	assert_int_equal(access(NODE, R_OK | W_OK), 0);
	assert_int_equal(eaccess(NODE, R_OK | W_OK), 0);
	assert_int_equal(euidaccess(NODE, R_OK | W_OK), 0);
	assert_int_equal(faccessat(AT_FDCWD, NODE, R_OK | W_OK, AT_EACCESS), 0);
	assert_int_equal(open(NODE, O_RDWR), -1);
	assert_int_equal(errno, ENXIO);
	assert_null(fopen(NODE, "r"));
	assert_int_equal(errno, ENXIO);
	fd = open(NODE, O_PATH);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(open("/dev/infiniband/uverbs9", O_RDWR), -1);
	assert_int_equal(errno, ENOENT);
}

static void links_lead_where_the_kernels_lead(void **state)
{
	char buffer[PATH_MAX];
	ssize_t length = readlink(DEVICE, buffer, sizeof(buffer));
	char *real;

	assert_true(length > 0);
	buffer[length] = '\0';
	assert_string_equal(buffer, "../../devices/virtual/infiniband/fake0");
	assert_int_equal(readlinkat(AT_FDCWD, DEVICE, buffer, sizeof(buffer)), length);
	assert_string_equal(realpath(DEVICE, buffer), "/sys/devices/virtual/infiniband/fake0");
	real = realpath("/sys/class/infiniband_verbs/uverbs0/device", NULL);
	assert_string_equal(real, "/sys/devices/virtual/infiniband/fake0/device");
	free(real);
	real = canonicalize_file_name("//sys/class/../class/infiniband/fake1");
	free(real); /* not ours, by its "..": whatever is there */
	assert_string_equal(realpath(NODE, buffer), NODE);
	assert_int_equal(readlink(NODE, buffer, sizeof(buffer)), -1);
	assert_int_equal(errno, EINVAL);
	assert_null(realpath(DEVICE "/nonesuch", NULL));
	assert_int_equal(errno, ENOENT);
}

static int is_device(const struct dirent *entry)
{
	return !strncmp(entry->d_name, "fake", 4);
}

static void directories_list_the_devices(void **state)
{
	struct dirent **list, *entry;
	DIR *dir = opendir("/sys/class//infiniband/");
	glob_t found;
	int count = 0, here = open(".", O_PATH | O_DIRECTORY);

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		count += is_device(entry);
	closedir(dir);
	assert_int_equal(count, 2);

	assert_int_equal(scandir("/sys/class/infiniband", &list, is_device, alphasort), 2);
	assert_string_equal(list[1]->d_name, "fake1");
	free(list[0]);
	free(list[1]);
	free(list);

	assert_int_equal(glob("/sys/class/infiniband/*/ports/1/state", 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 2);
	assert_string_equal(found.gl_pathv[0], DEVICE "/ports/1/state");
	globfree(&found);

	assert_int_equal(chdir(DEVICE "/ports"), 0);
	assert_file("1/state", "4: ACTIVE\n");
	assert_int_equal(fchdir(here), 0);
	close(here);
}

static void other_paths_are_left_alone(void **state)
{
	const char *volatile nothing = NULL;
	struct stat st;

	assert_int_equal(access("/sys/class/net/lo/mtu", R_OK), 0);
	assert_int_equal(access("/sys/class/net/lo/device", F_OK), -1);
	assert_int_equal(access("/sys/class/infinibandx", F_OK), -1);
	assert_int_equal(access("/sys/class/infiniband/nonesuch", F_OK), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(stat("/dev/null", &st), 0);
	assert_int_equal(st.st_rdev, makedev(1, 3));
	/* cppcheck-suppress nullPointer */
	assert_int_equal(open(nothing, O_RDONLY), -1); /* NOLINT: that is the test */
	assert_int_equal(errno, EFAULT);
	assert_int_equal(access("", F_OK), -1);
	assert_int_equal(errno, ENOENT);
}

static void counters_are_those_of_now(void **state)
{
	char text[2][16];
	int fd;

	for (int i = 0; i < 2; i++) {
		fd = open(DEVICE "/ports/1/counters/port_xmit_data", O_RDONLY);
		assert_true(read(fd, text[i], sizeof(text[i])) > 0);
		close(fd);
	}
	assert_true(atoi(text[1]) > atoi(text[0]));

	/* Kept open and read again, as perftest does. */
	fd = open(DEVICE "/ports/1/counters/port_xmit_data", O_RDONLY);
	assert_true(read(fd, text[0], sizeof(text[0])) > 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(access(DEVICE "/ports/1/counters/port_xmit_data", R_OK), 0);
	assert_true(read(fd, text[1], sizeof(text[1])) > 0);
	assert_true(atoi(text[1]) > atoi(text[0]));
	assert_true(pread(fd, text[0], sizeof(text[0]), 0) > 0);
	assert_true(atoi(text[0]) > atoi(text[1]));
	close(fd);
	assert_file(DEVICE "/ports/1/hw_counters/rcvd_pkts", "77\n");
}

static void a_change_of_the_devices_is_seen(void **state)
{
	static const char gid[] = DEVICE "/ports/1/gids/2";
	char file[PATH_MAX];
	int fd;

	snprintf(file, sizeof(file), "%s/one-more", trees);
	setenv("FAKE_VIEW_FILE", file, 1);
	assert_file(gid, "0000:0000:0000:0000:0000:0000:0000:0000\n");
	fd = creat(file, 0600);
	close(fd);
	usleep(300000);
	assert_file(gid, "0000:0000:0000:0000:0000:0000:0000:0009\n");
	unlink(file);
	usleep(300000);
	assert_file(gid, "0000:0000:0000:0000:0000:0000:0000:0000\n");
}

static int count_trees(void)
{
	DIR *dir = opendir(trees);
	struct dirent *entry;
	int count = 0;

	while ((entry = readdir(dir)))
		count += !strncmp(entry->d_name, "verbatim-", 9);
	closedir(dir);
	return count;
}

static int exit_status(pid_t child)
{
	int status;

	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_forked_child_has_its_own_and_takes_only_that_away(void **state)
{
	pid_t child;

	assert_int_equal(access(DEVICE, F_OK), 0);
	assert_int_equal(count_trees(), 1);
	child = fork();
	if (!child)
		exit(access(DEVICE "/node_type", R_OK) ? 1 : count_trees());
	assert_int_equal(exit_status(child), 2);
	assert_int_equal(count_trees(), 1);
	assert_file(DEVICE "/node_type", TYPE);
}

static void a_tree_that_was_cleaned_away_is_made_again(void **state)
{
	char command[PATH_MAX];

	snprintf(command, sizeof(command), "rm -rf %s/verbatim-*", trees);
	assert_int_equal(system(command), 0);
	assert_file(DEVICE "/node_type", TYPE);
	assert_int_equal(count_trees(), 1);
}

static void *look(void *result)
{
	int *bad = result;

	for (int i = 0; i < 200; i++)
		*bad += access(DEVICE "/ports/1/hw_counters/rcvd_pkts", R_OK) != 0;
	return NULL;
}

static void threads_look_at_once(void **state)
{
	pthread_t threads[4];
	int bad[4] = {0};

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look, &bad[i]), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(bad[i], 0);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(other_paths_are_left_alone),
	    cmocka_unit_test(threads_look_at_once),
	    cmocka_unit_test(every_way_to_open_a_file_leads_to_it),
	    cmocka_unit_test(the_files_say_what_the_kernels_would),
	    cmocka_unit_test(every_stat_sees_a_file_and_a_device_node),
	    cmocka_unit_test(a_device_node_is_accessible_but_does_not_open),
	    cmocka_unit_test(links_lead_where_the_kernels_lead),
	    cmocka_unit_test(directories_list_the_devices),
	    cmocka_unit_test(counters_are_those_of_now),
	    cmocka_unit_test(a_change_of_the_devices_is_seen),
	    cmocka_unit_test(a_forked_child_has_its_own_and_takes_only_that_away),
	    cmocka_unit_test(a_tree_that_was_cleaned_away_is_made_again),
	};

	if (argc != 2 || !getenv("LD_PRELOAD")) {
		fprintf(stderr, "run by paths.sh\n");
		return 2;
	}
	trees = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
