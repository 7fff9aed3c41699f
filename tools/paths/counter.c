/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters that are read again. A file of the kernel's makes its content when it is read from the
 * beginning, as perftest does again and again with one descriptor; ours is brought up to date then.
 * Descriptors are noted when they are opened and never struck off: one that has become another file
 * costs an update without need.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <unistd.h>

#include "paths.h"

enum { NOTED_FDS = 1024, WORD_BITS = 64 };

static atomic_bool any_noted;
static _Atomic unsigned long noted[NOTED_FDS / WORD_BITS];

void counter_opened(int fd)
{
	if (fd >= NOTED_FDS)
		return;
	atomic_fetch_or_explicit(&noted[fd / WORD_BITS], 1UL << fd % WORD_BITS,
				 memory_order_relaxed);
	atomic_store_explicit(&any_noted, true, memory_order_relaxed);
}

static inline bool is_noted(int fd)
{
	return atomic_load_explicit(&any_noted, memory_order_relaxed) && fd >= 0 &&
	       fd < NOTED_FDS &&
	       atomic_load_explicit(&noted[fd / WORD_BITS], memory_order_relaxed) >>
		       fd % WORD_BITS &
		   1;
}

ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room);

SHOWN ssize_t read(int fd, void *buffer, size_t size)
{
	if (is_noted(fd) && lseek(fd, 0, SEEK_CUR) == 0)
		tree_refresh_counters();
	return NEXT(read)(fd, buffer, size);
}

SHOWN ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room)
{
	if (is_noted(fd) && lseek(fd, 0, SEEK_CUR) == 0)
		tree_refresh_counters();
	return NEXT(__read_chk)(fd, buffer, size, room);
}

SHOWN ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
	if (is_noted(fd) && offset == 0)
		tree_refresh_counters();
	return NEXT(pread)(fd, buffer, size, offset);
}

SHOWN ssize_t pread64(int fd, void *buffer, size_t size, off64_t offset)
{
	if (is_noted(fd) && offset == 0)
		tree_refresh_counters();
	return NEXT(pread64)(fd, buffer, size, offset);
}
