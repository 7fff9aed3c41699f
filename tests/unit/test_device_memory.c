/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies: every size and alignment, whole aligned quantities, the end last, and faults that come
 * back as -EFAULT. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "faults.h"
#include "wire/icrc.h"

enum { PAGE = 4096 };

/* Two pages, of which the second cannot be touched. */
static char *pages;

static int setup(void **state)
{
	pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE))
		return -1;
	return 0;
}

static void fill(unsigned char *to, size_t length, unsigned int seed)
{
	for (size_t i = 0; i < length; i++)
		to[i] = (unsigned char)(seed + i * 7);
}

static void every_size_and_alignment_is_copied_and_nothing_beside_it(void **state)
{
	unsigned char from[512], to[512], expected[512];

	for (size_t size = 0; size <= 200; size++)
		for (size_t from_at = 0; from_at < 16; from_at += 3)
			for (size_t to_at = 0; to_at < 18; to_at++) {
				fill(from, sizeof(from), (unsigned int)size);
				memset(to, 0xee, sizeof(to));
				memset(expected, 0xee, sizeof(expected));
				memcpy(expected + to_at, from + from_at, size);
				assert_int_equal(
				    memory_store((char *)to + to_at, from + from_at, size), 0);
				assert_memory_equal(to, expected, sizeof(to));
				memset(to, 0xee, sizeof(to));
				assert_int_equal(
				    memory_load(to + to_at, (char *)from + from_at, size), 0);
				assert_memory_equal(to, expected, sizeof(to));
			}
}

static void a_large_copy_is_exact(void **state)
{
	size_t size = (1 << 20) + 13;
	unsigned char *from = malloc(size + 1), *to = malloc(size + 1);

	fill(from, size + 1, 3);
	assert_int_equal(memory_store((char *)to + 1, from, size), 0);
	assert_memory_equal(to + 1, from, size);
	free(from);
	free(to);
}

/* What a table of one bit at a time says. */
static uint32_t sum_bit_by_bit(uint32_t sum, const unsigned char *bytes, size_t length)
{
	while (length--) {
		sum ^= *bytes++;
		for (int bit = 0; bit < 8; bit++)
			sum = sum >> 1 ^ (0xedb88320 & -(sum & 1));
	}
	return sum;
}

static void a_copy_that_sums_copies_and_sums_every_size_and_alignment(void **state)
{
	enum { MOST = 9000, SLACK = 128 };
	unsigned char *from = malloc(MOST + SLACK), *to = malloc(MOST + SLACK + 1);

	fill(from, MOST + SLACK, 11);
	for (size_t i = 0; i < MOST; i += 256)
		from[i + i / 256 % 200] ^= (unsigned char)i / 256; /* no block is as another */
	for (size_t size = 0; size <= MOST; size++) {
		size_t from_at = size * 5 % SLACK, to_at = size * 3 % SLACK;
		uint32_t sum = (uint32_t)size * 0x9e3779b9, before = sum;

		memset(to, 0xee, to_at + size + 1);
		assert_int_equal(memory_load_sum(to + to_at, (char *)from + from_at, size, &sum),
				 0);
		assert_memory_equal(to + to_at, from + from_at, size);
		assert_int_equal(to[to_at + size], 0xee);
		assert_int_equal(to_at ? to[to_at - 1] : 0xee, 0xee);
		assert_int_equal(sum, icrc_sum(before, from + from_at, size));
		if (size % 256 < 2)
			assert_int_equal(sum, sum_bit_by_bit(before, from + from_at, size));
	}
	free(from);
	free(to);
}

#ifdef FAULTS_ARE_FOUND
static void a_copy_that_sums_fails_where_memory_is_gone(void **state)
{
	char to[2048];
	uint32_t sum = 0;

	guard_faults();
	for (size_t size = 1; size <= sizeof(to); size += 100)
		for (size_t there = 0; there < size; there += 37)
			assert_int_equal(memory_load_sum(to, pages + PAGE - there, size, &sum),
					 -EFAULT);
}

static void a_store_into_memory_that_is_gone_fails_and_what_came_before_is_there(void **state)
{
	unsigned char from[300];

	guard_faults();
	fill(from, sizeof(from), 9);
	for (size_t before = 0; before <= 130; before++) {
		memset(pages, 0, PAGE);
		assert_int_equal(memory_store(pages + PAGE - before, from, before + 1), -EFAULT);
		assert_int_equal(memory_store(pages + PAGE - before, from, before), 0);
		assert_memory_equal(pages + PAGE - before, from, before);
	}
}

static void a_load_from_memory_that_is_gone_fails(void **state)
{
	char to[300];

	guard_faults();
	for (size_t before = 0; before <= 130; before++) {
		assert_int_equal(memory_load(to, pages + PAGE - before, before + 1), -EFAULT);
		assert_int_equal(memory_load(to, pages + PAGE - before, before), 0);
	}
	assert_int_equal(memory_load(to, NULL, 8), -EFAULT);
}

static void an_address_that_no_process_has_fails(void **state)
{
	char to[8] = {0};

	guard_faults();
	assert_int_equal(memory_load(to, (char *)(uintptr_t)0xdead000000000000, 8), -EFAULT);
	assert_int_equal(memory_store((char *)(uintptr_t)0xdead000000000000, to, 8), -EFAULT);
}

static void long_moves_are_whole_or_fail(void **state)
{
	enum { LONG = 3 * 4096 };
	char *from = malloc(LONG), *to = malloc(LONG + 1);

	guard_faults();
	for (int i = 0; i < LONG; i++)
		from[i] = (char)(i * 7 + i / 256);
	for (size_t size = 4090; size < LONG; size += 1017) {
		memset(to, 99, LONG + 1);
		assert_int_equal(memory_move(to, from, size), 0);
		assert_memory_equal(to, from, size);
		assert_int_equal(to[size], 99);
	}
	assert_int_equal(memory_move(pages + PAGE - 100, from, LONG), -EFAULT);
	assert_memory_equal(pages + PAGE - 100, from, 100);
	assert_int_equal(memory_move(to, pages, LONG), -EFAULT);
	free(from);
	free(to);
}

/* Where they lie in their pages decides by what it is copied. */
static void long_copies_are_exact_wherever_they_lie(void **state)
{
	enum { LONG = 1500, AHEAD = 40 };
	static _Alignas(PAGE) char from[PAGE], to[PAGE];

	fill((unsigned char *)from, sizeof(from), 3);
	for (int ahead = -AHEAD; ahead <= AHEAD; ahead++) {
		char *place = to + 2 * AHEAD + ahead, *source = from + 2 * AHEAD;

		for (int is_load = 0; is_load < 2; is_load++) {
			memset(to, 99, sizeof(to));
			assert_int_equal(is_load ? memory_load(place, source, LONG)
						 : memory_move(place, source, LONG),
					 0);
			assert_memory_equal(place, source, LONG);
			assert_int_equal(place[-1], 99);
			assert_int_equal(place[LONG], 99);
		}
	}
}

static void long_copies_fail_wherever_they_lie(void **state)
{
	enum { LONG = 1500, BEFORE = 1000 };
	static _Alignas(PAGE) char memory[3 * PAGE];
	const size_t end = PAGE - BEFORE;

	guard_faults();
	fill((unsigned char *)memory, sizeof(memory), 5);
	for (size_t ahead = 0; ahead < 20; ahead++) {
		const char *from = memory + PAGE + end - ahead;
		char *to = memory + PAGE + end + ahead;

		memset(pages, 0, PAGE);
		assert_int_equal(memory_move(pages + end, from, LONG), -EFAULT);
		assert_memory_equal(pages + end, from, BEFORE);
		assert_int_equal(memory_move(to, pages + end, LONG), -EFAULT);
		assert_int_equal(memory_load(to, pages + end, LONG), -EFAULT);
	}
}

static void atomics_on_memory_that_is_gone_fail(void **state)
{
	uint64_t old;

	guard_faults();
	assert_int_equal(memory_fetch_add(pages + PAGE, 1, &old), -EFAULT);
	assert_int_equal(memory_compare_swap(pages + PAGE, 0, 1, &old), -EFAULT);
	assert_int_equal(memory_store_8(pages + PAGE, 1), -EFAULT);
}

static void a_word_of_memory_that_is_gone_fails(void **state)
{
	_Alignas(8) char word[8] = "abcdefg";

	guard_faults();
	assert_int_equal(memory_load(word, pages + PAGE, 8), -EFAULT);
	assert_int_equal(memory_store(pages + PAGE, word, 8), -EFAULT);
	assert_int_equal(memory_move(pages + PAGE, word, 8), -EFAULT);
	assert_int_equal(memory_move(word, pages + PAGE, 8), -EFAULT);
	assert_memory_equal(word, "abcdefg", 8);
	assert_int_equal(memory_store(pages + PAGE - 8, word, 8), 0);
	assert_memory_equal(pages + PAGE - 8, word, 8);
}

static void no_instruction_of_others_is_recovered(void **state)
{
	uintptr_t pc = (uintptr_t)memcpy;

	assert_false(memory_recover(&pc));
	assert_int_equal(pc, (uintptr_t)memcpy);
}
#endif

static void atomics_do_what_they_say(void **state)
{
	uint64_t word = 40, old = 0;

	assert_int_equal(memory_fetch_add((char *)&word, 2, &old), 0);
	assert_int_equal(old, 40);
	assert_int_equal(word, 42);
	assert_int_equal(memory_compare_swap((char *)&word, 41, 7, &old), 0);
	assert_int_equal(old, 42);
	assert_int_equal(word, 42);
	assert_int_equal(memory_compare_swap((char *)&word, 42, 7, &old), 0);
	assert_int_equal(old, 42);
	assert_int_equal(word, 7);
	assert_int_equal(memory_store_8((char *)&word, 99), 0);
	assert_int_equal(word, 99);
}

/* ---- against another thread ---- */

enum { ROUNDS = 20000, WORDS = 32 };

static _Alignas(64) uint64_t shared[WORDS];
static volatile int is_over;

/* All words of one store are equal: a word that is none of the stored values was torn, one that is
   newer than the one before it was stored out of order. */
static void *watch(void *data)
{
	long *bad = data;

	while (!is_over)
		for (int i = WORDS - 1; i > 0; i--) {
			uint64_t later = __atomic_load_n(&shared[i], __ATOMIC_ACQUIRE);
			uint64_t earlier = __atomic_load_n(&shared[i - 1], __ATOMIC_ACQUIRE);

			if (later >> 32 != (later & 0xffffffff) || earlier < later)
				++*bad;
		}
	return NULL;
}

static void words_are_stored_whole_and_in_order(void **state)
{
	_Alignas(64) char from[sizeof(shared) + 8];
	pthread_t thread;
	long bad = 0;

	assert_int_equal(pthread_create(&thread, NULL, watch, &bad), 0);
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		uint64_t value = round << 32 | round;

		for (int i = 0; i < WORDS; i++)
			memcpy(from + 4 + i * 8, &value, 8);
		/* the source is at 4 mod 8, the destination at 8 mod 16: no vector covers whole
		 * words of both */
		memory_store((char *)shared, from + 4, 8);
		memory_store((char *)(shared + 1), from + 12, sizeof(shared) - 8);
	}
	is_over = 1;
	pthread_join(thread, NULL);
	assert_int_equal(bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_size_and_alignment_is_copied_and_nothing_beside_it),
	    cmocka_unit_test(a_large_copy_is_exact),
	    cmocka_unit_test(long_copies_are_exact_wherever_they_lie),
	    cmocka_unit_test(a_copy_that_sums_copies_and_sums_every_size_and_alignment),
#ifdef FAULTS_ARE_FOUND
	    cmocka_unit_test(a_copy_that_sums_fails_where_memory_is_gone),
	    cmocka_unit_test(a_store_into_memory_that_is_gone_fails_and_what_came_before_is_there),
	    cmocka_unit_test(a_load_from_memory_that_is_gone_fails),
	    cmocka_unit_test(long_moves_are_whole_or_fail),
	    cmocka_unit_test(long_copies_fail_wherever_they_lie),
	    cmocka_unit_test(an_address_that_no_process_has_fails),
	    cmocka_unit_test(a_word_of_memory_that_is_gone_fails),
	    cmocka_unit_test(atomics_on_memory_that_is_gone_fail),
	    cmocka_unit_test(no_instruction_of_others_is_recovered),
#endif
	    cmocka_unit_test(atomics_do_what_they_say),
	    cmocka_unit_test(words_are_stored_whole_and_in_order),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
