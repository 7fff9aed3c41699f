/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages far below where mmap() looks first: what a test unmaps there stays nobody's, while among
 * others' memory a thread's next allocation may come to lie in the hole, and be taken from it when
 * the test cleans up.
 */
#ifndef TEST_LONELY_PAGES_H
#define TEST_LONELY_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

static inline char *lonely_pages(size_t length)
{
	static uintptr_t next;
	char *pages;

	if (!next) {
		pages = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		next = (uintptr_t)pages - ((uintptr_t)1 << 38);
		munmap(pages, 4096);
	}
	pages = mmap((void *)next, length, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_equal(pages, next);
	next += (uintptr_t)1 << 30;
	return pages;
}

#endif
