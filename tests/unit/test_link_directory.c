/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory of what others may reach: an entry answers who fits in every field, and nobody
 * else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "link/directory.h"

enum { QPN = 0x30011, PEER = 0x50022, RKEY = 0x7abc, BASE = 0x10000, IOVA = 0x500, LENGTH = 0x100 };

static struct directory *directory;

static const struct directory_qp qp = {
    .qpn = QPN,
    .dest_qpn = PEER,
    .gid = {.raw = {1}},
    .dest_gid = {.raw = {2}},
    .pd = 77,
    .access = IBV_ACCESS_REMOTE_WRITE,
    .pkey = 0xffff,
};

static const struct directory_mr mr = {
    .pd = 77,
    .base = BASE,
    .iova = IOVA,
    .length = LENGTH,
    .rkey = RKEY,
    .access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
    .commons = {.number = 5, .fd = 9, .offset = 0x70},
};

static const struct directory_question fits = {
    .qpn = PEER,
    .dest_qpn = QPN,
    .gid = {.raw = {2}},
    .dest_gid = {.raw = {1}},
    .pkey = 0xffff,
    .rkey = RKEY,
    .need = IBV_ACCESS_REMOTE_WRITE,
    .addr = IOVA + 0x10,
    .length = 0x20,
};

static int setup(void **state)
{
	directory = mmap(NULL, directory_bytes(), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return directory == MAP_FAILED || !directory_publish_qp(directory, &qp) ||
	       !directory_publish_mr(directory, &mr);
}

static struct directory_memo memo;

static int teardown(void **state)
{
	memset(&memo, 0, sizeof(memo));
	return munmap(directory, directory_bytes());
}

static bool answers(const struct directory_question *question)
{
	struct directory_answer answer = {.place = 0}, again = {.place = 0};
	bool does = directory_ask(directory, question, &answer);

	/* who remembers what was there before hears the same */
	assert_int_equal(directory_recall(directory, &memo, question, &again), does);
	assert_memory_equal(&again, &answer, sizeof(answer));
	return does;
}

static void who_fits_gets_the_place(void **state)
{
	struct directory_answer answer = {.place = 0};

	assert_true(directory_ask(directory, &fits, &answer));
	assert_int_equal(answer.place, BASE + 0x10);
	assert_int_equal(answer.commons.number, 5);
	assert_int_equal(answer.commons.fd, 9);
	assert_int_equal(answer.commons.offset, 0x70 + 0x10);
	assert_true(directory_is_common(directory, RKEY));
	assert_false(directory_is_common(directory, RKEY + (1 << 12)));
}

#define REFUSED(field, value)                                                                      \
	do {                                                                                       \
		struct directory_question wrong_ = fits;                                           \
		wrong_.field = value;                                                              \
		if (answers(&wrong_))                                                              \
			fail_msg("%s = %s is answered", #field, #value);                           \
	} while (0)

static void each_wrong_field_is_refused(void **state)
{
	REFUSED(qpn, PEER + 1);
	REFUSED(dest_qpn, QPN + 1);
	REFUSED(dest_qpn, QPN + 0x10000); /* the same place */
	REFUSED(gid.raw[15], 1);
	REFUSED(dest_gid.raw[15], 1);
	REFUSED(pkey, 0xfffe);
	REFUSED(rkey, RKEY ^ 1);	 /* the same place */
	REFUSED(rkey, RKEY ^ 0x1000);	 /* another */
	REFUSED(rkey, RKEY ^ (1 << 28)); /* the same, of another index */
	REFUSED(need, IBV_ACCESS_REMOTE_READ);
	REFUSED(addr, IOVA - 1);
	REFUSED(addr, IOVA + LENGTH - 0x1f);
	REFUSED(addr, IOVA + LENGTH);
	REFUSED(addr, UINT64_MAX);
	REFUSED(length, LENGTH - 0xf);
	REFUSED(length, UINT64_MAX);
}

static void all_of_the_region_is_in_bounds(void **state)
{
	struct directory_question whole = fits;
	struct directory_answer answer;

	whole.addr = IOVA;
	whole.length = LENGTH;
	assert_true(directory_ask(directory, &whole, &answer));
	assert_int_equal(answer.place, BASE);
}

static void two_limited_members_are_no_match(void **state)
{
	struct directory_question limited = fits;
	struct directory_qp other = qp;

	limited.pkey = 0x7fff;
	assert_true(answers(&limited));
	directory_withdraw_qp(directory, QPN);
	other.pkey = 0x7fff;
	assert_true(directory_publish_qp(directory, &other));
	assert_true(answers(&fits));
	assert_false(answers(&limited));
}

/* Which of the two has to allow it: both. */
static void rights_are_the_qps_and_the_regions(void **state)
{
	struct directory_question read = fits;
	struct directory_mr closed = mr;
	struct directory_qp open = qp;

	directory_withdraw_qp(directory, QPN);
	open.access |= IBV_ACCESS_REMOTE_READ;
	assert_true(directory_publish_qp(directory, &open));
	read.need = IBV_ACCESS_REMOTE_READ;
	assert_true(answers(&read));
	directory_withdraw_mr(directory, RKEY);
	closed.access = IBV_ACCESS_REMOTE_WRITE;
	assert_true(directory_publish_mr(directory, &closed));
	assert_false(answers(&read));
	assert_true(answers(&fits));
}

static void a_region_of_another_pd_is_refused(void **state)
{
	struct directory_mr other = mr;

	directory_withdraw_mr(directory, RKEY);
	other.pd = 78;
	assert_true(directory_publish_mr(directory, &other));
	assert_false(answers(&fits));
}

static void what_is_withdrawn_is_gone(void **state)
{
	directory_withdraw_mr(directory, RKEY);
	assert_false(answers(&fits));
	assert_true(directory_publish_mr(directory, &mr));
	assert_true(answers(&fits));
	directory_withdraw_qp(directory, QPN);
	assert_false(answers(&fits));
}

static void a_place_that_is_taken_stays_its_owners(void **state)
{
	struct directory_qp same_place = qp;
	struct directory_mr same_index = mr;

	same_place.qpn = QPN + 0x10000;
	same_index.rkey = RKEY ^ 1;
	assert_false(directory_publish_qp(directory, &same_place));
	assert_false(directory_publish_mr(directory, &same_index));
	assert_true(answers(&fits));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	    TEST(who_fits_gets_the_place),
	    TEST(each_wrong_field_is_refused),
	    TEST(all_of_the_region_is_in_bounds),
	    TEST(two_limited_members_are_no_match),
	    TEST(rights_are_the_qps_and_the_regions),
	    TEST(a_region_of_another_pd_is_refused),
	    TEST(what_is_withdrawn_is_gone),
	    TEST(a_place_that_is_taken_stays_its_owners),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
