/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The handler of SIGSEGV and SIGBUS towards the program: its own faults reach its own handler
 * whichever was installed first, faults of ours never do, and without a handler of its own a fault
 * still ends the program. (That a copy's fault fails its work request is in face_status.)
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "live.h"

#ifdef __x86_64__

#ifdef __SANITIZE_THREAD__
/* Newer ThreadSanitizers take a handler left by siglongjmp() for one that goes on for ever. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "report_signal_unsafe=0";
}
#endif

static sigjmp_buf out;
static volatile int program_faults, chained_faults;
static char *nothing; /* a page that cannot be touched */

static void on_program_fault(int number, siginfo_t *info, void *data)
{
	program_faults++;
	siglongjmp(out, 1);
}

/* A handler that passes on what was there before it. */
static struct sigaction before_program;

static void on_fault_and_chain(int number, siginfo_t *info, void *data)
{
	if (++chained_faults > 10)
		_exit(98);
	if (before_program.sa_flags & SA_SIGINFO)
		before_program.sa_sigaction(number, info, data);
	siglongjmp(out, 1);
}

static int setup(void **state)
{
	nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	program_faults = chained_faults = 0;
	return nothing == MAP_FAILED;
}

static int teardown(void **state)
{
	return munmap(nothing, 4096);
}

static void install(void (*handler)(int, siginfo_t *, void *), struct sigaction *before)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

	assert_int_equal(sigaction(SIGSEGV, &action, before), 0);
}

static void touch_nothing(void)
{
	if (!sigsetjmp(out, 1))
		*(volatile char *)nothing = 1;
}

/* Registering puts our handler in front. */
static void register_something(void)
{
	static char memory[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 64, 0);

	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* A send from a page that is gone: the copy faults, in this thread or in a lane's. */
static void fault_in_a_copy(void)
{
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, page, 4096, live_access);
	struct ibv_sge sge = {.addr = (uintptr_t)page, .length = 8, .lkey = mr->lkey};
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &sge);
	struct end a, b;

	/* out of reach, but nobody else's: what is made next must not come to lie there */
	mprotect(page, 4096, PROT_NONE);
	pair_create(&a, &b, IBV_QPT_RC);
	post_send_wr(&a, &wr);
	assert_failed(next_wc(a.cq), 0x5e4d, IBV_WC_LOC_PROT_ERR, REASON_LOCAL_MEMORY_GONE);
	pair_destroy(&a, &b);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(page, 4096);
}

#define FAULT_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void a_handler_that_was_there_gets_its_faults_again_and_again(void **state)
{
	install(on_program_fault, NULL);
	register_something();
	for (int i = 1; i <= 5; i++) {
		touch_nothing();
		assert_int_equal(program_faults, i);
	}
	fault_in_a_copy();
	assert_int_equal(program_faults, 5);
}

static void one_that_comes_later_is_behind_us_with_the_next_region(void **state)
{
	register_something();
	install(on_program_fault, NULL);
	touch_nothing();
	assert_int_equal(program_faults, 1);
	fault_in_a_copy();
	assert_int_equal(program_faults, 1);
	touch_nothing();
	assert_int_equal(program_faults, 2);
}

/* It chains to us and we chain to it: the circle ends. */
static void one_that_chains_to_us_is_no_circle(void **state)
{
	install(on_program_fault, NULL);
	register_something();
	install(on_fault_and_chain, &before_program);
	register_something();
	for (int i = 1; i <= 3; i++) {
		touch_nothing();
		assert_int_equal(chained_faults, i);
		assert_int_equal(program_faults, i);
	}
	fault_in_a_copy();
	assert_int_equal(chained_faults, 3);
}

/* How a child of this test ends. */
static int status_of(void (*run)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		run();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void fault_by_default(void)
{
	struct sigaction action = {.sa_handler = SIG_DFL};

	sigaction(SIGSEGV, &action, NULL);
	register_something();
	*(volatile char *)nothing = 1;
}

static void without_a_handler_a_fault_ends_the_program(void **state)
{
	int status = status_of(fault_by_default);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void sent_by_somebody(void)
{
	struct sigaction action = {.sa_handler = SIG_DFL};

	sigaction(SIGSEGV, &action, NULL);
	register_something();
	kill(getpid(), SIGSEGV);
	kill(getpid(), SIGSEGV);
	pause();
}

static void a_signal_that_somebody_sent_has_its_effect(void **state)
{
	int status = status_of(sent_by_somebody);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
}

/* A mapped file that was cut short gives SIGBUS. */
static void a_file_that_was_truncated_fails_the_work_request(void **state)
{
	int fd = memfd_create("cut", MFD_CLOEXEC);
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct end a, b;
	char *pages;

	assert_int_equal(ftruncate(fd, 8192), 0);
	pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(pages, MAP_FAILED);
	mr = ibv_reg_mr(pd, pages, 8192, live_access);
	assert_non_null(mr);
	assert_int_equal(ftruncate(fd, 4096), 0);
	pair_create(&a, &b, IBV_QPT_RC);
	sge = (struct ibv_sge){.addr = (uintptr_t)pages, .length = 8192, .lkey = mr->lkey};
	wr = make_send(IBV_WR_RDMA_WRITE, &sge);
	wr.wr.rdma.remote_addr = (uintptr_t)b.buffer;
	wr.wr.rdma.rkey = b.mr->rkey;
	post_send_wr(&a, &wr);
	assert_failed(next_wc(a.cq), 0x5e4d, IBV_WC_LOC_PROT_ERR, REASON_LOCAL_MEMORY_GONE);
	pair_destroy(&a, &b);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(pages, 8192);
	close(fd);
}

static void inline_data_that_cannot_be_read_is_refused(void **state)
{
	struct ibv_sge sge = {.addr = (uintptr_t)nothing, .length = 8};
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &sge), *bad;
	struct end a, b;

	register_something();
	pair_create(&a, &b, IBV_QPT_RC);
	wr.send_flags |= IBV_SEND_INLINE;
	assert_refused(ibv_post_send(a.qp, &wr, &bad), EFAULT, REASON_SEND_INLINE_FAULT, "8 bytes");
	pair_destroy(&a, &b);
}

/* Nothing of it arrives, though its first element could be read. */
static void nor_does_the_rest_of_it_arrive(void **state)
{
	struct ibv_sge sge[2], first;
	struct ibv_send_wr wr, *bad;
	struct end a, b;

	register_something();
	pair_create(&a, &b, IBV_QPT_RC);
	assert_int_equal(post_recv(&b, 1, 8), 0); /* a WRITE behind a message needs no packets */
	first = end_sge(&a, 0, 8);
	wr = make_send(IBV_WR_SEND, &first);
	post_send_wr(&a, &wr);
	assert_wc(next_wc(b.cq), 1, IBV_WC_SUCCESS);
	assert_wc(next_wc(a.cq), 0x5e4d, IBV_WC_SUCCESS);
	memset(a.buffer, 'x', 8);
	sge[0] = first;
	sge[1] = (struct ibv_sge){.addr = (uintptr_t)nothing, .length = 8};
	wr = make_send(IBV_WR_RDMA_WRITE, sge);
	wr.num_sge = 2;
	wr.send_flags |= IBV_SEND_INLINE;
	wr.wr.rdma.remote_addr = (uintptr_t)b.buffer + 64;
	wr.wr.rdma.rkey = b.mr->rkey;
	assert_refused(ibv_post_send(a.qp, &wr, &bad), EFAULT, REASON_SEND_INLINE_FAULT, "8 bytes");
	assert_int_equal(b.buffer[64], 0);
	pair_destroy(&a, &b);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef __x86_64__
	    FAULT_TEST(a_handler_that_was_there_gets_its_faults_again_and_again),
	    FAULT_TEST(one_that_comes_later_is_behind_us_with_the_next_region),
	    FAULT_TEST(one_that_chains_to_us_is_no_circle),
	    FAULT_TEST(without_a_handler_a_fault_ends_the_program),
	    FAULT_TEST(a_signal_that_somebody_sent_has_its_effect),
	    FAULT_TEST(a_file_that_was_truncated_fails_the_work_request),
	    FAULT_TEST(inline_data_that_cannot_be_read_is_refused),
	    FAULT_TEST(nor_does_the_rest_of_it_arrive),
#endif
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
