/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls that open a file.
 *
 * An entry of /dev/infiniband can be seen but not opened: behind it would be the kernel's own
 * interface, which we don't speak, and an open that succeeds would only fail later and darker.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "paths.h"

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);

/* The mode that follows the flags, where they say that there is one. */
static mode_t mode_of(int flags, va_list rest)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;
}

/* O_PATH opens nothing; it is how some programs stat. */
static bool is_refused(const struct spot *spot, int flags)
{
	if (!spot->is_node || flags & O_PATH || access(spot->path, F_OK))
		return false;
	errno = ENXIO;
	return true;
}

/* What was opened may be a counter. */
static int opened(const struct spot *spot, int fd)
{
	if (spot->is_counter && fd >= 0)
		counter_opened(fd);
	return fd;
}

#define OPEN(name)                                                                                 \
	SHOWN int name(const char *path, int flags, ...)                                           \
	{                                                                                          \
		struct spot spot;                                                                  \
		va_list rest;                                                                      \
		mode_t mode;                                                                       \
                                                                                                   \
		va_start(rest, flags);                                                             \
		mode = mode_of(flags, rest);                                                       \
		va_end(rest);                                                                      \
		path = spot_find(path, &spot);                                                     \
		return is_refused(&spot, flags) ? -1                                               \
						: opened(&spot, NEXT(name)(path, flags, mode));    \
	}

#define OPENAT(name)                                                                               \
	SHOWN int name(int dir, const char *path, int flags, ...)                                  \
	{                                                                                          \
		struct spot spot;                                                                  \
		va_list rest;                                                                      \
		mode_t mode;                                                                       \
                                                                                                   \
		va_start(rest, flags);                                                             \
		mode = mode_of(flags, rest);                                                       \
		va_end(rest);                                                                      \
		path = spot_find(path, &spot);                                                     \
		return is_refused(&spot, flags)                                                    \
			   ? -1                                                                    \
			   : opened(&spot, NEXT(name)(dir, path, flags, mode));                    \
	}

/* What open() becomes under _FORTIFY_SOURCE. */
#define OPEN_2(name)                                                                               \
	SHOWN int name(const char *path, int flags)                                                \
	{                                                                                          \
		struct spot spot;                                                                  \
                                                                                                   \
		path = spot_find(path, &spot);                                                     \
		return is_refused(&spot, flags) ? -1 : opened(&spot, NEXT(name)(path, flags));     \
	}

#define OPENAT_2(name)                                                                             \
	SHOWN int name(int dir, const char *path, int flags)                                       \
	{                                                                                          \
		struct spot spot;                                                                  \
                                                                                                   \
		path = spot_find(path, &spot);                                                     \
		return is_refused(&spot, flags) ? -1                                               \
						: opened(&spot, NEXT(name)(dir, path, flags));     \
	}

#define FOPEN(name)                                                                                \
	SHOWN FILE *name(const char *restrict path, const char *restrict mode)                     \
	{                                                                                          \
		struct spot spot;                                                                  \
                                                                                                   \
		path = spot_find(path, &spot);                                                     \
		return is_refused(&spot, 0) ? NULL : NEXT(name)(path, mode);                       \
	}

#define FREOPEN(name)                                                                              \
	SHOWN FILE *name(const char *restrict path, const char *restrict mode,                     \
			 FILE *restrict stream)                                                    \
	{                                                                                          \
		struct spot spot;                                                                  \
                                                                                                   \
		path = spot_find(path, &spot);                                                     \
		return is_refused(&spot, 0) ? NULL : NEXT(name)(path, mode, stream);               \
	}

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
OPEN_2(__open_2)
OPEN_2(__open64_2)
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)
FOPEN(fopen)
FOPEN(fopen64)
FREOPEN(freopen)
FREOPEN(freopen64)
