/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls that ask about a file: stat in its many spellings, access, and what `ls -l` adds.
 *
 * In the tree an entry of /dev/infiniband is a link to /dev/null, since making device nodes takes
 * root; here it gets the look of a node, and its own device number.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "paths.h"

/* Up to glibc 2.32 stat() was an inline function that called these. */
int __xstat(int version, const char *path, struct stat *st);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat(int version, const char *path, struct stat *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags);
int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags);

#define LOOK_OF_NODE(spot, rc, st)                                                                 \
	do {                                                                                       \
		if (!(rc) && (spot).is_node)                                                       \
			(st)->st_rdev = makedev(NODE_MAJOR, (spot).minor);                         \
	} while (0)

#define STAT(name, type)                                                                           \
	SHOWN int name(const char *restrict path, struct type *restrict st)                        \
	{                                                                                          \
		struct spot spot;                                                                  \
		int rc;                                                                            \
                                                                                                   \
		path = spot_find(path, &spot);                                                     \
		rc = NEXT(name)(path, st);                                                         \
		LOOK_OF_NODE(spot, rc, st);                                                        \
		return rc;                                                                         \
	}

/* A node is no symbolic link to whoever looks. */
#define LSTAT(name, followed, type)                                                                \
	SHOWN int name(const char *restrict path, struct type *restrict st)                        \
	{                                                                                          \
		struct spot spot;                                                                  \
		int rc;                                                                            \
                                                                                                   \
		path = spot_find(path, &spot);                                                     \
		rc = spot.is_node ? NEXT(followed)(path, st) : NEXT(name)(path, st);               \
		LOOK_OF_NODE(spot, rc, st);                                                        \
		return rc;                                                                         \
	}

#define FSTATAT(name, type)                                                                        \
	SHOWN int name(int dir, const char *restrict path, struct type *restrict st, int flags)    \
	{                                                                                          \
		struct spot spot;                                                                  \
		int rc;                                                                            \
                                                                                                   \
		path = spot_find(path, &spot);                                                     \
		if (spot.is_node)                                                                  \
			flags &= ~AT_SYMLINK_NOFOLLOW;                                             \
		rc = NEXT(name)(dir, path, st, flags);                                             \
		LOOK_OF_NODE(spot, rc, st);                                                        \
		return rc;                                                                         \
	}

STAT(stat, stat)
STAT(stat64, stat64)
LSTAT(lstat, stat, stat)
LSTAT(lstat64, stat64, stat64)
FSTATAT(fstatat, stat)
FSTATAT(fstatat64, stat64)

SHOWN int __xstat(int version, const char *path, struct stat *st)
{
	(void)version;
	return stat(path, st);
}

SHOWN int __xstat64(int version, const char *path, struct stat64 *st)
{
	(void)version;
	return stat64(path, st);
}

SHOWN int __lxstat(int version, const char *path, struct stat *st)
{
	(void)version;
	return lstat(path, st);
}

SHOWN int __lxstat64(int version, const char *path, struct stat64 *st)
{
	(void)version;
	return lstat64(path, st);
}

SHOWN int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags)
{
	(void)version;
	return fstatat(dir, path, st, flags);
}

SHOWN int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags)
{
	(void)version;
	return fstatat64(dir, path, st, flags);
}

SHOWN int statx(int dir, const char *restrict path, int flags, unsigned int mask,
		struct statx *restrict st)
{
	struct spot spot;
	int rc;

	path = spot_find(path, &spot);
	if (spot.is_node)
		flags &= ~AT_SYMLINK_NOFOLLOW;
	rc = NEXT(statx)(dir, path, flags, mask, st);
	if (!rc && spot.is_node) {
		st->stx_rdev_major = NODE_MAJOR;
		st->stx_rdev_minor = spot.minor;
	}
	return rc;
}

#define ACCESS(name)                                                                               \
	SHOWN int name(const char *path, int mode)                                                 \
	{                                                                                          \
		struct spot spot;                                                                  \
                                                                                                   \
		path = spot_find(path, &spot);                                                     \
		return NEXT(name)(path, mode);                                                     \
	}

ACCESS(access)
ACCESS(eaccess)
ACCESS(euidaccess)

SHOWN int faccessat(int dir, const char *path, int mode, int flags)
{
	struct spot spot;

	path = spot_find(path, &spot);
	return NEXT(faccessat)(dir, path, mode, flags);
}

#define GETXATTR(name)                                                                             \
	SHOWN ssize_t name(const char *path, const char *attribute, void *value, size_t size)      \
	{                                                                                          \
		struct spot spot;                                                                  \
                                                                                                   \
		path = spot_find(path, &spot);                                                     \
		return NEXT(name)(path, attribute, value, size);                                   \
	}

#define LISTXATTR(name)                                                                            \
	SHOWN ssize_t name(const char *path, char *list, size_t size)                              \
	{                                                                                          \
		struct spot spot;                                                                  \
                                                                                                   \
		path = spot_find(path, &spot);                                                     \
		return NEXT(name)(path, list, size);                                               \
	}

GETXATTR(getxattr)
GETXATTR(lgetxattr)
LISTXATTR(listxattr)
LISTXATTR(llistxattr)
