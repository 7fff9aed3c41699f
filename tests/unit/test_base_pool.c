/* SPDX-License-Identifier: BSD-2-Clause */
/* The pool: blocks are what was asked for and nobody else's, what is free is given again, and what
 * is at the end goes back to the system. */
#define _GNU_SOURCE
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
#include <unistd.h>
#include <cmocka.h>

#include "base/pool.h"

enum { BYTES = 16 << 20, BLOCKS = 4000, PAGE = 4096 };

static struct pool pool;
static struct {
	uint8_t *start;
	size_t size;
} blocks[BLOCKS];

static int setup(void **state)
{
	pool_init(&pool, BYTES);
	return 0;
}

static int teardown(void **state)
{
	pool_fini(&pool);
	return 0;
}

static size_t any_size(void)
{
	static const size_t sizes[] = {1, 40, 128, 129, 576, 1060, 4140, 9000, 33000, POOL_SLAB};

	return sizes[rand() % (rand() % 100 ? 7 : 10)];
}

static void fill(int i)
{
	memset(blocks[i].start, i, blocks[i].size);
}

static void assert_filled(int i)
{
	for (size_t at = 0; at < blocks[i].size; at += blocks[i].size < 64 ? 1 : 61)
		assert_int_equal(blocks[i].start[at], (uint8_t)i);
}

static void give(int i)
{
	assert_filled(i);
	pool_give(&pool, blocks[i].start);
	blocks[i].start = NULL;
}

static void a_block_is_its_takers_alone(void **state)
{
	int refused = 0;

	srand(7);
	for (int step = 0; step < 100000; step++) {
		int i = rand() % BLOCKS;

		if (blocks[i].start) {
			give(i);
			continue;
		}
		blocks[i].size = any_size();
		blocks[i].start = pool_take(&pool, blocks[i].size);
		if (blocks[i].start)
			fill(i);
		else
			refused++;
	}
	assert_in_range(refused, 0, 90000);
	for (int i = 0; i < BLOCKS; i++)
		if (blocks[i].start)
			give(i);
}

static uint32_t count_of(size_t size)
{
	void *last = NULL, *block;
	uint32_t count = 0;

	while ((block = pool_take(&pool, size))) {
		memcpy(block, &last, sizeof(last));
		last = block;
		count++;
	}
	for (; last; last = block) {
		memcpy(&block, last, sizeof(block));
		pool_give(&pool, last);
	}
	return count;
}

/* Whatever sizes it served before. */
static void all_of_it_is_there_again(void **state)
{
	uint32_t count;

	for (int round = 0; round < 3; round++) {
		assert_int_equal(count_of(POOL_SLAB), BYTES / POOL_SLAB);
		count = count_of(4140);
		assert_in_range(count, BYTES / 4400, BYTES / 4140);
		assert_in_range(count_of(100), BYTES / 128 * 9 / 10, BYTES / 100);
	}
}

static void what_no_slab_holds_is_refused(void **state)
{
	assert_null(pool_take(&pool, POOL_SLAB + 1));
	pool_give(&pool, NULL);
}

static size_t resident(void)
{
	static unsigned char pages[BYTES / PAGE];
	size_t count = 0;

	assert_int_equal(mincore(pool.memory, BYTES, pages), 0);
	for (size_t i = 0; i < BYTES / PAGE; i++)
		count += pages[i] & 1;
	return count * PAGE;
}

static void what_is_free_at_the_end_goes_back_to_the_system(void **state)
{
	int count = 0;

	if (sysconf(_SC_PAGESIZE) != PAGE)
		skip();
	while (count < BLOCKS && (blocks[count].start = pool_take(&pool, 4140))) {
		blocks[count].size = 4140;
		fill(count++);
	}
	assert_in_range(resident(), BYTES * 9 / 10, BYTES);
	while (count--)
		give(count);
	assert_in_range(resident(), 0, POOL_KEPT);
}

/* There is address space for so many bytes more. */
static void init_with_room(struct pool *made, size_t room)
{
	struct rlimit limit, little;
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu", &pages), 1);
	fclose(file);
	assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
	little = (struct rlimit){pages * (rlim_t)sysconf(_SC_PAGESIZE) + room, limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_AS, &little), 0);
	pool_init(made, BYTES);
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

/* A program with little to map gets what there is, or a pool that refuses. */
static void it_makes_do_with_less(void **state)
{
	struct pool small, none;

	init_with_room(&none, 0);
	assert_null(pool_take(&none, 1));
	pool_fini(&none);

	init_with_room(&small, BYTES / 2);
	assert_in_range(small.count, 1, BYTES / 2 / POOL_SLAB);
	pool_give(&small, pool_take(&small, 1));
	pool_fini(&small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_block_is_its_takers_alone, setup, teardown),
	    cmocka_unit_test_setup_teardown(all_of_it_is_there_again, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_no_slab_holds_is_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_is_free_at_the_end_goes_back_to_the_system, setup,
					    teardown),
	    cmocka_unit_test(it_makes_do_with_less),
	};

	pool_init(&pool, BYTES);
	if (!pool.count)
		return 77; /* AddressSanitizer's malloc() instead */
	pool_fini(&pool);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
