/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * By which number copies name the process whose memory they are about: that of a thread of it that
 * sleeps, if there is one that is known. The process reaches itself here as it would another one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "link/reach.h"

enum { BYTES = 8192, TICK_NS = 20000000 /* more than one of the coarse clock */ };

static struct directory *directory;
static struct reach *reach;
static int line[2];
static char here[BYTES], there[BYTES];

/* ---- instead of the C library's ---- */

static pid_t named;
static int times_named;
static bool are_threads_forbidden;

ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long locals,
			  const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
	named = pid;
	times_named++;
	if (are_threads_forbidden && pid != getpid()) {
		errno = EPERM;
		return -1;
	}
	return syscall(SYS_process_vm_writev, pid, local, locals, remote, remotes, flags);
}

/* ---- a thread that sleeps ---- */

struct sleeper {
	pthread_t thread;
	int until[2]; /* a byte comes */
	atomic_int number;
};

static void *sleep_on(void *data)
{
	struct sleeper *sleeper = data;
	char byte;

	atomic_store(&sleeper->number, gettid());
	return read(sleeper->until[0], &byte, 1) == 1 ? sleeper : NULL;
}

static void begin(struct sleeper *sleeper)
{
	atomic_store(&sleeper->number, 0);
	assert_int_equal(pipe(sleeper->until), 0);
	assert_int_equal(pthread_create(&sleeper->thread, NULL, sleep_on, sleeper), 0);
	while (!atomic_load(&sleeper->number))
		sched_yield();
}

static void end(struct sleeper *sleeper)
{
	assert_int_equal(write(sleeper->until[1], "", 1), 1);
	assert_int_equal(pthread_join(sleeper->thread, NULL), 0);
	while (tgkill(getpid(), sleeper->number, 0) == 0)
		sched_yield(); /* joined a moment before it is gone */
	close(sleeper->until[0]);
	close(sleeper->until[1]);
}

/* ---- copies ---- */

static int setup(void **state)
{
	directory = mmap(NULL, directory_bytes(), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(directory, MAP_FAILED);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, line), 0);
	reach =
	    reach_open(directory, open("/proc/self/mem", O_RDWR | O_CLOEXEC), line[0], getpid());
	assert_non_null(reach);
	return 0;
}

static int teardown(void **state)
{
	reach_close(reach); /* and the directory */
	close(line[0]);
	close(line[1]);
	return 0;
}

static bool is_copied(void)
{
	static char value;
	struct iovec piece = {here, BYTES};
	struct reach_op op = {.length = BYTES, .bytes = BYTES, .pieces = &piece, .count = 1};

	memset(here, ++value, BYTES);
	times_named = 0;
	return reach_copy(reach, &op, (uintptr_t)there) && memcmp(here, there, BYTES) == 0;
}

/* What is named is found out once a tick. */
static void let_tick_pass(void)
{
	const struct timespec tick = {.tv_nsec = TICK_NS};

	nanosleep(&tick, NULL);
}

static void the_process_is_named_where_no_thread_is_known(void **state)
{
	assert_true(is_copied());
	assert_int_equal(named, getpid());
	directory_say_sleeper(directory, -getpid());
	let_tick_pass();
	assert_true(is_copied());
	assert_int_equal(named, getpid());
}

static void a_thread_that_sleeps_is_named_instead(void **state)
{
	struct sleeper sleeper;

	begin(&sleeper);
	directory_say_sleeper(directory, sleeper.number);
	assert_true(is_copied());
	assert_int_equal(named, sleeper.number);
	assert_int_not_equal(named, getpid());
	assert_int_equal(times_named, 1);
	end(&sleeper);
}

/* Whose memory is at the same address, but is not to be written to. */
static void no_other_process_is_named(void **state)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		poll(NULL, 0, -1);
		_exit(0);
	}
	directory_say_sleeper(directory, child);
	for (int i = 0; i < 3; i++) {
		assert_true(is_copied());
		assert_int_equal(named, getpid());
		let_tick_pass();
	}
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
}

static void a_thread_that_ends_is_named_no_more(void **state)
{
	struct sleeper sleeper;

	begin(&sleeper);
	directory_say_sleeper(directory, sleeper.number);
	assert_true(is_copied());
	end(&sleeper);
	for (int i = 0; i < 3; i++) {
		assert_true(is_copied());
		assert_int_equal(named, getpid());
		let_tick_pass();
	}
	assert_int_equal(times_named, 1);
}

/* As one that kept the user that the rest of the process has given up. */
static void a_thread_that_is_forbidden_is_not_the_process(void **state)
{
	struct sleeper sleeper;

	begin(&sleeper);
	directory_say_sleeper(directory, sleeper.number);
	are_threads_forbidden = true;
	assert_true(is_copied());
	assert_int_equal(named, getpid());
	assert_int_equal(times_named, 2);
	assert_true(reach_is_by_number(reach));
	are_threads_forbidden = false;
	end(&sleeper);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	    TEST(the_process_is_named_where_no_thread_is_known),
	    TEST(a_thread_that_sleeps_is_named_instead),
	    TEST(no_other_process_is_named),
	    TEST(a_thread_that_ends_is_named_no_more),
	    TEST(a_thread_that_is_forbidden_is_not_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
