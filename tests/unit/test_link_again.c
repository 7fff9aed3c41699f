/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WRITEs and READs by what the directory said before: it does the same as to ask, and is refused,
 * with nothing touched, as soon as anything is not what it was. The process reaches itself here as
 * it would another one.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "link/assist.h"
#include "link/reach.h"

enum { QPN = 0x30011, PEER = 0x50022, RKEY = 0x7abc, IOVA = 0x5000, LENGTH = 256, OFFSET = 64 };
enum { FILES = 70, FILE_BYTES = 4096 }; /* more than stay mapped */

static struct directory *directory;
static struct reach *reach;
static struct reach_memo memo;
static atomic_uint hazard;
static struct assist assist;
static char *theirs; /* the region, as its owner sees it */
static int file, line[2];

static const unsigned int both = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

static void *memory_of(int fd, size_t length)
{
	void *memory =
	    mmap(NULL, length, PROT_READ | PROT_WRITE,
		 fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED, fd, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static int sealed_file(void)
{
	int fd = memfd_create("of the test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

static struct directory_qp the_qp(unsigned int access)
{
	return (struct directory_qp){
	    .qpn = QPN, .dest_qpn = PEER, .pd = 77, .access = access, .pkey = 0xffff};
}

static struct directory_mr the_mr(unsigned int access)
{
	return (struct directory_mr){.pd = 77,
				     .base = (uintptr_t)theirs,
				     .iova = IOVA,
				     .length = LENGTH,
				     .rkey = RKEY,
				     .access = access,
				     .commons = {.number = 5, .fd = file, .offset = OFFSET}};
}

static void publish(unsigned int qps, unsigned int mrs)
{
	struct directory_qp qp = the_qp(qps);
	struct directory_mr mr = the_mr(mrs);

	assert_true(directory_publish_qp(directory, &qp));
	assert_true(directory_publish_mr(directory, &mr));
}

static int setup(void **state)
{
	directory = memory_of(-1, directory_bytes());
	file = sealed_file();
	theirs = (char *)memory_of(file, FILE_BYTES) + OFFSET;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, line), 0);
	reach =
	    reach_open(directory, open("/proc/self/mem", O_RDWR | O_CLOEXEC), line[0], getpid());
	assert_non_null(reach);
	memset(&memo, 0, sizeof(memo));
	publish(both, both);
	return 0;
}

static int teardown(void **state)
{
	reach_close(reach); /* and the directory */
	munmap(theirs - OFFSET, FILE_BYTES);
	close(file);
	close(line[0]);
	close(line[1]);
	return 0;
}

/* ---- one transfer of 8 bytes ---- */

static struct directory_question question_of(const struct reach_op *op)
{
	return (struct directory_question){
	    .qpn = PEER,
	    .dest_qpn = QPN,
	    .pkey = 0xffff,
	    .rkey = op->rkey,
	    .need = op->is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE,
	    .addr = op->remote_addr,
	    .length = op->length,
	};
}

static uint64_t value;
static struct iovec piece = {&value, sizeof(value)};

static struct reach_op op_of(bool is_read, uint64_t at)
{
	return (struct reach_op){.is_read = is_read,
				 .rkey = RKEY,
				 .remote_addr = IOVA + at,
				 .length = sizeof(value),
				 .bytes = sizeof(value),
				 .pieces = &piece,
				 .count = 1};
}

static enum reach_result again(const struct reach_op *op)
{
	enum reach_result result = reach_again(reach, &hazard, &memo, op);

	assert_int_equal(atomic_load(&hazard) % 2, 0);
	return result;
}

/* By asking, and what that said is remembered. */
static void learn(bool is_read)
{
	struct reach_op op = op_of(is_read, 0);
	struct directory_question question = question_of(&op);

	assert_int_equal(reach_do(reach, &hazard, &assist, &question, &op), REACH_DONE);
	reach_remember(reach, &question, &memo);
}

static void lands(uint64_t at, uint64_t what)
{
	struct reach_op op = op_of(false, at);

	value = what;
	assert_int_equal(again(&op), REACH_DONE);
	assert_memory_equal(theirs + at, &what, sizeof(what));
}

static void is_refused(struct reach_op op)
{
	char before[LENGTH];

	memcpy(before, theirs, sizeof(before));
	value = 0xbad;
	assert_int_equal(again(&op), REACH_REFUSED);
	assert_int_equal(value, 0xbad);
	assert_memory_equal(theirs, before, sizeof(before));
}

/* ---- tests ---- */

static void what_was_found_is_done_again(void **state)
{
	struct reach_op read = op_of(true, LENGTH - 8);

	learn(false);
	lands(0, 1);
	lands(100, 2);
	lands(LENGTH - 8, 3);
	value = 0;
	assert_int_equal(again(&read), REACH_DONE);
	assert_int_equal(value, 3);
}

static void nothing_is_remembered_at_first(void **state)
{
	is_refused(op_of(false, 0));
	is_refused((struct reach_op){.length = 8, .bytes = 8, .pieces = &piece, .count = 1});
}

static void what_is_not_within_the_region_is_refused(void **state)
{
	struct reach_op op = op_of(false, 0);

	learn(false);
	is_refused(op_of(false, (uint64_t)-1));
	is_refused(op_of(false, LENGTH - 7));
	is_refused(op_of(false, LENGTH));
	is_refused(op_of(false, UINT64_MAX - IOVA));
	is_refused(op_of(false, (uint64_t)1 << 63)); /* no place there is even formed */
	op.length = LENGTH + 1;
	is_refused(op);
	op.length = UINT64_MAX;
	is_refused(op);
	op = op_of(false, 0);
	op.rkey ^= 1;
	is_refused(op);
}

static void where_it_will_be_done_is_known_ahead(void **state)
{
	uint64_t there;

	assert_null(reach_guess(&memo, 0));
	assert_null(reach_guess(&memo, IOVA));
	learn(false);
	lands(100, 4);
	memcpy(&there, reach_guess(&memo, IOVA + 100), sizeof(there));
	assert_int_equal(there, 4);
	assert_non_null(reach_guess(&memo, IOVA + LENGTH - 1));
	assert_null(reach_guess(&memo, IOVA + LENGTH));
	assert_null(reach_guess(&memo, IOVA - 1));
	assert_null(reach_guess(&memo, IOVA + ((uint64_t)1 << 63)));
}

/* Which of the two has to allow it: both. */
static void rights_are_remembered_with_it(void **state)
{
	const unsigned int rights[][2] = {{both, IBV_ACCESS_REMOTE_WRITE},
					  {IBV_ACCESS_REMOTE_WRITE, both}};

	for (int i = 0; i < 2; i++) {
		directory_withdraw_qp(directory, QPN);
		directory_withdraw_mr(directory, RKEY);
		publish(rights[i][0], rights[i][1]);
		learn(false);
		lands(0, 4);
		is_refused(op_of(true, 0));
	}
}

static void what_is_withdrawn_is_refused(void **state)
{
	learn(false);
	directory_withdraw_mr(directory, RKEY);
	is_refused(op_of(false, 0));
}

static void so_it_is_if_the_queue_pair_is_withdrawn(void **state)
{
	learn(true);
	directory_withdraw_qp(directory, QPN);
	is_refused(op_of(false, 0));
}

/* The same key, the same place: it may be another region all the same. */
static void what_was_published_anew_is_asked_anew(void **state)
{
	struct directory_mr mr = the_mr(both);
	struct directory_qp qp = the_qp(both);

	learn(false);
	directory_withdraw_mr(directory, RKEY);
	assert_true(directory_publish_mr(directory, &mr));
	is_refused(op_of(false, 0));
	learn(false);
	lands(8, 5);
	directory_withdraw_qp(directory, QPN);
	assert_true(directory_publish_qp(directory, &qp));
	is_refused(op_of(false, 0));
	learn(false);
	lands(8, 6);
}

/* What a region published anew, elsewhere in the file, would have had the memo of the old one do.
 */
static void a_region_that_moved_is_found_where_it_is(void **state)
{
	struct directory_mr mr = the_mr(both);

	learn(false);
	directory_withdraw_mr(directory, RKEY);
	mr.base += 512;
	mr.commons.offset += 512;
	assert_true(directory_publish_mr(directory, &mr));
	is_refused(op_of(false, 0));
	learn(false);
	theirs += 512;
	lands(0, 7);
	theirs -= 512;
	assert_int_not_equal(*(uint64_t *)theirs, 7);
}

/* Its mapping went, as others needed the place. */
static void what_is_not_mapped_any_more_is_asked_anew(void **state)
{
	int files[FILES];

	learn(false);
	for (int i = 0; i < FILES; i++) {
		struct directory_mr mr = the_mr(both);
		struct reach_op op = op_of(false, 0);
		struct directory_question question;

		files[i] = sealed_file();
		mr.rkey = op.rkey = RKEY + ((uint32_t)(i + 1) << 12);
		mr.commons.number = 100 + (uint32_t)i;
		mr.commons.fd = files[i];
		assert_true(directory_publish_mr(directory, &mr));
		question = question_of(&op);
		assert_int_equal(reach_do(reach, &hazard, &assist, &question, &op), REACH_DONE);
	}
	is_refused(op_of(false, 0));
	learn(false);
	lands(16, 8);
	for (int i = 0; i < FILES; i++)
		close(files[i]);
}

/* Private memory is copied by the kernel: there is no place of it here. */
static void memory_in_no_file_is_not_remembered(void **state)
{
	struct directory_mr mr = the_mr(both);

	learn(false);
	directory_withdraw_mr(directory, RKEY);
	mr.commons.number = 0;
	assert_true(directory_publish_mr(directory, &mr));
	learn(false);
	is_refused(op_of(false, 0));
	assert_int_equal(memo.access, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	    TEST(what_was_found_is_done_again),
	    TEST(nothing_is_remembered_at_first),
	    TEST(what_is_not_within_the_region_is_refused),
	    TEST(where_it_will_be_done_is_known_ahead),
	    TEST(rights_are_remembered_with_it),
	    TEST(what_is_withdrawn_is_refused),
	    TEST(so_it_is_if_the_queue_pair_is_withdrawn),
	    TEST(what_was_published_anew_is_asked_anew),
	    TEST(a_region_that_moved_is_found_where_it_is),
	    TEST(what_is_not_mapped_any_more_is_asked_anew),
	    TEST(memory_in_no_file_is_not_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
