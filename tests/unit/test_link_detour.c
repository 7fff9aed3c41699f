/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which copies to and from another process take the detour, and that what goes by it is right: each
 * part lies in its page as the other side does, they cover all of it in order, and what cannot be
 * read or written here is said.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "link/detour.h"
#include "faults.h"

enum { PAGE = 4096, MARGIN = 2 * PAGE, ROOM = 3 * DETOUR_BYTES + 2 * MARGIN, MANY = 3 };

static struct detour *detour;
static char *here, *there; /* begin a page each */
static uint64_t expected;  /* the offset of the next part */
static int legs, allowed;

static char *pages(size_t bytes)
{
	char *memory =
	    mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static int setup(void **state)
{
	here = pages(ROOM);
	there = pages(ROOM);
	detour = detour_open();
	assert_non_null(detour);
	legs = 0;
	allowed = 1000;
	return 0;
}

static int teardown(void **state)
{
	detour_close(detour);
	munmap(here, ROOM);
	munmap(there, ROOM);
	return 0;
}

/* ---- which ---- */

static bool pays(bool is_read, uint64_t ours, uint64_t place, size_t length)
{
	struct iovec piece = {(void *)(uintptr_t)ours, length};
	struct reach_op op = {
	    .is_read = is_read, .length = length, .bytes = length, .pieces = &piece, .count = 1};

	return detour_pays(&op, place);
}

static void only_what_lands_up_to_15_bytes_further_on_in_its_page(void **state)
{
	for (uint64_t by = 1; by < 16; by++) {
		assert_true(pays(false, 0x10000, 0x70000 + by, 5000));
		assert_true(pays(true, 0x70000 + by, 0x10000, 5000));
		assert_true(pays(false, 0x10000 + PAGE - by, 0x70000, 5000)); /* around its end */
		assert_false(pays(true, 0x10000, 0x70000 + by, 5000));
		assert_false(pays(false, 0x70000 + by, 0x10000, 5000));
	}
	assert_false(pays(false, 0x10000, 0x70000, 5000));
	assert_false(pays(false, 0x10000, 0x70010, 5000));
	assert_false(pays(true, 0x10010, 0x70000, 5000));
	assert_false(pays(false, 0x10000, 0x70008, 100)); /* short */
}

/* Each piece lies by itself. */
static void a_long_piece_among_others_decides(void **state)
{
	struct iovec pieces[MANY] = {
	    {(void *)0x10000, 24}, {(void *)0x20010, 6000}, {(void *)0x30000, 0}};
	struct reach_op op = {.bytes = 6024, .length = 6024, .pieces = pieces, .count = MANY};

	assert_true(detour_pays(&op, 0x70000)); /* the second one: 8 bytes */
	assert_false(detour_pays(&op, 0x70008));
	assert_true(detour_pays(&op, 0x70007));
	pieces[1].iov_len = 60;
	assert_false(detour_pays(&op, 0x70000));
}

/* ---- how ---- */

static bool leg(void *context, const struct reach_op *part, uint64_t place)
{
	char *theirs = (char *)(uintptr_t)place, *ours = part->pieces->iov_base;

	assert_ptr_equal(context, &legs);
	assert_int_equal(part->count, 1);
	assert_int_equal(part->pieces->iov_len, part->bytes);
	assert_in_range(part->bytes, 1, DETOUR_BYTES);
	assert_int_equal((uintptr_t)ours % PAGE, place % PAGE);
	assert_false(detour_pays(part, place));
	assert_int_equal(part->offset, expected);
	expected += part->bytes;
	if (part->is_read)
		memcpy(ours, theirs, part->bytes);
	else
		memcpy(theirs, ours, part->bytes);
	return ++legs <= allowed;
}

/* Pieces that follow one another here, of a part that begins at 100 of a longer message. */
static bool go(bool is_read, size_t ours, size_t theirs, const size_t lengths[MANY])
{
	struct iovec pieces[MANY];
	struct reach_op op = {.is_read = is_read, .offset = 100, .pieces = pieces, .count = MANY};
	char *at = here + MARGIN + ours;

	for (int i = 0; i < MANY; i++) {
		pieces[i] = (struct iovec){at, lengths[i]};
		at += lengths[i];
		op.bytes += lengths[i];
	}
	op.length = 100 + op.bytes;
	expected = 100;
	return detour_copy(detour, &op, (uintptr_t)there + MARGIN + theirs, leg, &legs);
}

static void check(bool is_read, size_t ours, size_t theirs, const size_t lengths[MANY])
{
	char *from = (is_read ? there + theirs : here + ours) + MARGIN;
	char *to = (is_read ? here + ours : there + theirs) + MARGIN;
	size_t all = lengths[0] + lengths[1] + lengths[2];

	memset(is_read ? here : there, 0x77, ROOM);
	for (size_t i = 0; i < all; i++)
		from[i] = (char)(i * 7 + (i >> 8) * 13 + all);
	assert_true(go(is_read, ours, theirs, lengths));
	assert_int_equal(expected, 100 + all);
	assert_memory_equal(to, from, all);
	for (int i = 0; i < PAGE; i++) {
		assert_int_equal(to[-1 - i], 0x77);
		assert_int_equal(to[all + i], 0x77);
	}
}

static const size_t shapes[][MANY] = {
    {5000, 0, 0},
    {0, 5000, 0},
    {1, 2, 3000},
    {DETOUR_BYTES - 1, 1, 1},
    {DETOUR_BYTES, 0, DETOUR_BYTES},
    {DETOUR_BYTES + 7, 0, DETOUR_BYTES - 6},
    {3, DETOUR_BYTES, 2 * DETOUR_BYTES - 4},
};

static void all_of_it_arrives(void **state)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		for (size_t by = 0; by < 16; by++) {
			check(false, i * 3, i * 3 + by, shapes[i]);
			check(true, i * 5 + by, i * 5, shapes[i]);
			check(false, PAGE - by, by, shapes[i]);
		}
}

/* ---- what cannot be done ---- */

static void a_leg_that_fails_is_the_last(void **state)
{
	allowed = 1;
	assert_false(go(false, 0, 8, shapes[6]));
	assert_int_equal(legs, 2);
	legs = 0;
	memset(here, 0x77, ROOM);
	assert_false(go(true, 8, 0, shapes[6]));
	assert_int_equal(legs, 2);
	/* what the failed leg brought is given to nobody */
	assert_int_equal(here[MARGIN + 8 + DETOUR_BYTES], 0x77);
}

#ifdef FAULTS_ARE_FOUND
static void memory_that_is_gone_is_said(void **state)
{
	static const size_t one[MANY] = {2 * DETOUR_BYTES, 0, 0};

	guard_faults();
	assert_int_equal(mprotect(here + MARGIN + DETOUR_BYTES, PAGE, PROT_NONE), 0);
	assert_false(go(false, 0, 8, one));
	assert_int_equal(legs, 1);
	legs = 0;
	assert_false(go(true, 8, 0, one));
	assert_int_equal(legs, 1); /* its last 8 bytes lie there */
}
#endif

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(only_what_lands_up_to_15_bytes_further_on_in_its_page),
	    cmocka_unit_test(a_long_piece_among_others_decides),
	    CASE(all_of_it_arrives),
	    CASE(a_leg_that_fails_is_the_last),
#ifdef FAULTS_ARE_FOUND
	    CASE(memory_that_is_gone_is_said),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
