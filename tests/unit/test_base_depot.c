/* SPDX-License-Identifier: BSD-2-Clause */
/* The depot: blocks are zeroed, what was asked for and nobody else's; what is free is given again
 * or goes back to the system; all but the first extent is for huge pages. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "base/depot.h"
#include "base/lines.h"

enum {
	BLOCKS = 1000, /* of up to 4 KiB, so that there are several extents of them */
	THREADS = 4,
	ROUNDS = 50,
	SMALL = 960,
	PER_EXTENT = DEPOT_EXTENT / SMALL,
	ENOUGH = DEPOT_FIRST / SMALL, /* and some more than fit in the first */
};

struct block {
	uint8_t *start;
	size_t size;
};

static struct depot depot;

static int setup(void **state)
{
	depot_init(&depot);
	return 0;
}

static int teardown(void **state)
{
	depot_fini(&depot);
	return 0;
}

static uint8_t *extent_of(const void *block)
{
	return (uint8_t *)((uintptr_t)block & ~(uintptr_t)(DEPOT_EXTENT - 1));
}

static void take(struct block *block, size_t size, uint8_t value)
{
	*block = (struct block){depot_take(&depot, size), size};
	assert_non_null(block->start);
	for (size_t i = 0; i < size; i++)
		assert_int_equal(block->start[i], 0);
	memset(block->start, value, size);
}

static void give(struct block *block, uint8_t value)
{
	for (size_t i = 0; i < block->size; i++)
		assert_int_equal(block->start[i], value);
	depot_give(&depot, block->start, block->size);
	block->start = NULL;
}

/* ---- blocks ---- */

static size_t any_size(unsigned int *seed)
{
	static const size_t sizes[] = {1, 64, 65, 192, 960, 1536, 4000, 8192, DEPOT_LARGEST};

	return sizes[(unsigned int)rand_r(seed) % 9];
}

static void take_and_give(unsigned int seed)
{
	struct block blocks[BLOCKS] = {{NULL, 0}};

	for (int i = 0; i < ROUNDS * BLOCKS / 10; i++) {
		int which = rand_r(&seed) % BLOCKS;

		if (blocks[which].start)
			give(&blocks[which], (uint8_t)which);
		else
			take(&blocks[which], any_size(&seed), (uint8_t)which);
	}
	for (int i = 0; i < BLOCKS; i++)
		if (blocks[i].start)
			give(&blocks[i], (uint8_t)i);
}

static void blocks_are_zeroed_and_nobody_else_s(void **state)
{
	take_and_give(1);
}

static void *take_and_give_here(void *seed)
{
	take_and_give(*(unsigned int *)seed);
	return NULL;
}

static void in_several_threads(void **state)
{
	unsigned int seeds[THREADS];
	pthread_t threads[THREADS];

	for (unsigned int i = 0; i < THREADS; i++) {
		seeds[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, take_and_give_here, &seeds[i]),
				 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void each_begins_with_a_cache_line(void **state)
{
	static const size_t sizes[] = {1, 65, 960, DEPOT_LARGEST - 1, DEPOT_LARGEST};
	struct block block;

	for (size_t i = 0; i < 5; i++) {
		take(&block, sizes[i], 7);
		assert_int_equal((uintptr_t)block.start % CACHE_LINE, 0);
		give(&block, 7);
	}
}

/* Where no tool watches each block. */
static bool has_extents(void)
{
	void *block = depot_take(&depot, 1);
	bool has = depot.extents != NULL;

	depot_give(&depot, block, 1);
	return has;
}

static bool is_resident(const void *place)
{
	unsigned char vector = 0;

	mincore((void *)((uintptr_t)place & ~(uintptr_t)4095), 1, &vector);
	return vector & 1;
}

static void long_ones_are_resident_as_far_as_they_are_used(void **state)
{
	struct block block;
	uint8_t *place;

	take(&block, DEPOT_LARGEST + 1, 7);
	give(&block, 7);
	assert_null(depot.extents);
	assert_null(depot_take(&depot, SIZE_MAX));
	if (!has_extents())
		skip();
	place = depot_take(&depot, 1 << 20);
	assert_non_null(place);
	place[0] = 1;
	assert_true(is_resident(place));
	assert_false(is_resident(place + (1 << 19)));
	depot_give(&depot, place, 1 << 20);
}

static void nothing_is_given_back(void **state)
{
	depot_give(&depot, NULL, SMALL);
	depot_give(&depot, NULL, DEPOT_LARGEST + 1);
	assert_null(depot.extents);
}

/* ---- extents: where no tool watches each block ---- */

static bool is_huge(const void *place)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	bool is_this = false, is = false;
	uintptr_t from, to;
	char line[512];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%zx-%zx ", &from, &to) == 2)
			is_this = (uintptr_t)place >= from && (uintptr_t)place < to;
		if (is_this && strncmp(line, "VmFlags:", 8) == 0)
			is |= strstr(line, " hg") != NULL;
	}
	fclose(maps);
	return is;
}

static struct block blocks[ENOUGH];
static const uint8_t *first, *last; /* of these */

/* As many as fill one, and the first of the next one. */
static void take_more_than_fit(void)
{
	if (!has_extents())
		skip();
	for (int i = 0; i < ENOUGH; i++)
		take(&blocks[i], SMALL, (uint8_t)i);
	first = blocks[0].start;
	last = blocks[ENOUGH - 1].start;
}

static void give_all(void)
{
	for (int i = 0; i < ENOUGH; i++)
		give(&blocks[i], (uint8_t)i);
}

static void all_but_the_first_are_for_huge_pages(void **state)
{
	take_more_than_fit();
	assert_ptr_not_equal(extent_of(first), extent_of(last));
	assert_false(is_huge(first));
	if (madvise(extent_of(first), DEPOT_FIRST, MADV_HUGEPAGE) == 0) /* the kernel has them */
		assert_true(is_huge(last));
	give_all();
}

static bool is_mapped(const void *place)
{
	unsigned char vector;

	return mincore((void *)((uintptr_t)place & ~(uintptr_t)4095), 1, &vector) == 0;
}

static void what_is_free_goes_back_but_for_the_first(void **state)
{
	take_more_than_fit();
	give_all();
	assert_true(is_mapped(first));
	assert_false(is_mapped(last));
	take_more_than_fit();
	give_all();
}

/* Of the newest extent what was never given comes first, and then what is free in any. */
static void a_free_block_is_the_next_of_its_size(void **state)
{
	static struct block more[PER_EXTENT];
	struct block other;
	int count = 0;
	uint8_t *was;

	take_more_than_fit();
	was = blocks[100].start;
	give(&blocks[100], 100);
	take(&other, SMALL + CACHE_LINE, 1);
	assert_ptr_not_equal(other.start, was);
	do
		take(&more[count++], SMALL, 2);
	while (more[count - 1].start != was && count < PER_EXTENT);
	assert_ptr_equal(more[count - 1].start, was);
	while (count)
		give(&more[--count], 2);
}

/* As of an adapter whose program is not to have more memory. */
static void without_memory_there_is_none(void **state)
{
	struct rlimit limit, none;

	if (!has_extents())
		skip();
	depot_fini(&depot);
	depot_init(&depot);
	assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
	none = limit;
	none.rlim_cur = 1 << 20;
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	assert_null(depot_take(&depot, SMALL));
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	assert_true(has_extents());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	    TEST(blocks_are_zeroed_and_nobody_else_s),
	    TEST(in_several_threads),
	    TEST(each_begins_with_a_cache_line),
	    TEST(long_ones_are_resident_as_far_as_they_are_used),
	    TEST(nothing_is_given_back),
	    TEST(all_but_the_first_are_for_huge_pages),
	    TEST(what_is_free_goes_back_but_for_the_first),
	    TEST(a_free_block_is_the_next_of_its_size),
	    TEST(without_memory_there_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
