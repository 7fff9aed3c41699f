/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The path shim: a preloaded library that shows an unmodified program our devices where it looks
 * for the kernel's, under /sys/class/infiniband and /dev/infiniband.
 *
 * The first access to such a path makes a directory tree of the process's own, of the same shape,
 * out of what libibverbs.so.1 says of its devices (tree.c, content.c); the wrapped calls (open.c,
 * stat.c, directory.c) then rewrite the path and go on to the C library. All other paths take
 * two compares. What it cannot see: system calls made without the C library, and paths relative to
 * a directory above the tree (cd /sys/class).
 */
#ifndef PATHS_PATHS_H
#define PATHS_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "verbs/view.h"

enum {
	SPOT_SIZE = 1024,    /* longest rewritten path; longer ones are not ours */
	NODE_MAJOR = 231,    /* character devices of the InfiniBand core */
	NODE_UVERBS_0 = 192, /* minor number of uverbs0 */
};

/* Where a path leads. */
struct spot {
	bool is_ours;
	bool is_node;	 /* an entry of /dev/infiniband */
	bool is_counter; /* the file of a counter, whose value is that of when it is read */
	unsigned int minor;
	char path[SPOT_SIZE];
};

/* The tree's side of `path`, or `path` itself where that is none of ours. Keeps errno. */
const char *spot_find_closer(const char *path, struct spot *spot);

static inline const char *spot_find(const char *path, struct spot *spot)
{
	spot->is_ours = spot->is_node = spot->is_counter = false;
	/* <fcntl.h> promises that path is never NULL; programs do not keep that, and get EFAULT. */
	__asm__("" : "+r"(path));
	if (!path || path[0] != '/' || (path[1] != 's' && path[1] != 'd'))
		return path;
	return spot_find_closer(path, spot);
}

/* If a path that the C library resolved lies in our tree, turns it back into the one seen. */
void spot_unmap(char *path);

/*
 * tree.c: the directory under which the tree of now lies, made or brought up to date as needed;
 * `counters`: with the values of now, too. 0 or -errno.
 */
int tree_root(char *root, size_t size, bool counters);

/* The counters' files get the values of now. Keeps errno. */
void tree_refresh_counters(void);

/* Length of the part of `path` that is the root of a tree of this process, 0 if it is none. */
size_t tree_prefix(const char *path);

/* content.c: writes the view of these devices below `root`. 0 or -errno. */
int content_write(const char *root, const struct view_device *devices, int count);
int content_write_counters(const char *root, const char *device,
			   const struct view_counter *counters, int count);

/* counter.c: this descriptor reads a counter. */
void counter_opened(int fd);

/* The next definition of a function, behind ours. */
void *next_function(const char *name);

#define NEXT(name)                                                                                 \
	({                                                                                         \
		static __typeof__(&name) next_;                                                    \
		__typeof__(&name) now_ = __atomic_load_n(&next_, __ATOMIC_RELAXED);                \
		if (!now_) {                                                                       \
			now_ = (__typeof__(&name))next_function(#name);                            \
			__atomic_store_n(&next_, now_, __ATOMIC_RELAXED);                          \
		}                                                                                  \
		now_;                                                                              \
	})

#define SHOWN __attribute__((visibility("default")))

#endif
