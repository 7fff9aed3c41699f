/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls that walk directories and links.
 *
 * scandir() and glob() of the C library open directories without going through its public
 * functions, so they are wrapped as well; glob() takes ours as its file functions.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "paths.h"

ssize_t __readlink_chk(const char *path, char *buffer, size_t size, size_t room);
ssize_t __readlinkat_chk(int dir, const char *path, char *buffer, size_t size, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room);

SHOWN DIR *opendir(const char *path)
{
	struct spot spot;

	path = spot_find(path, &spot);
	return NEXT(opendir)(path);
}

SHOWN int scandir(const char *restrict path, struct dirent ***restrict list,
		  int (*filter)(const struct dirent *),
		  int (*compare)(const struct dirent **, const struct dirent **))
{
	struct spot spot;

	path = spot_find(path, &spot);
	return NEXT(scandir)(path, list, filter, compare);
}

SHOWN int scandir64(const char *restrict path, struct dirent64 ***restrict list,
		    int (*filter)(const struct dirent64 *),
		    int (*compare)(const struct dirent64 **, const struct dirent64 **))
{
	struct spot spot;

	path = spot_find(path, &spot);
	return NEXT(scandir64)(path, list, filter, compare);
}

SHOWN int chdir(const char *path)
{
	struct spot spot;

	path = spot_find(path, &spot);
	return NEXT(chdir)(path);
}

/* A node of /dev/infiniband is a link only in the tree. */
static bool is_no_link(const struct spot *spot)
{
	if (!spot->is_node || access(spot->path, F_OK))
		return false;
	errno = EINVAL;
	return true;
}

SHOWN ssize_t readlink(const char *restrict path, char *restrict buffer, size_t size)
{
	struct spot spot;

	path = spot_find(path, &spot);
	return is_no_link(&spot) ? -1 : NEXT(readlink)(path, buffer, size);
}

SHOWN ssize_t readlinkat(int dir, const char *restrict path, char *restrict buffer, size_t size)
{
	struct spot spot;

	path = spot_find(path, &spot);
	return is_no_link(&spot) ? -1 : NEXT(readlinkat)(dir, path, buffer, size);
}

SHOWN ssize_t __readlink_chk(const char *path, char *buffer, size_t size, size_t room)
{
	struct spot spot;

	path = spot_find(path, &spot);
	return is_no_link(&spot) ? -1 : NEXT(__readlink_chk)(path, buffer, size, room);
}

SHOWN ssize_t __readlinkat_chk(int dir, const char *path, char *buffer, size_t size, size_t room)
{
	struct spot spot;

	path = spot_find(path, &spot);
	return is_no_link(&spot) ? -1 : NEXT(__readlinkat_chk)(dir, path, buffer, size, room);
}

/* The seen path of a node, which the C library would resolve to /dev/null. */
static char *resolve_node(const struct spot *spot, char *resolved)
{
	const char *seen = spot->path + tree_prefix(spot->path);

	if (access(spot->path, F_OK))
		return NULL;
	return resolved ? strcpy(resolved, seen) : strdup(seen);
}

SHOWN char *realpath(const char *restrict path, char *restrict resolved)
{
	struct spot spot;
	char *result;

	path = spot_find(path, &spot);
	if (spot.is_node)
		return resolve_node(&spot, resolved);
	result = NEXT(realpath)(path, resolved);
	if (result && spot.is_ours)
		spot_unmap(result);
	return result;
}

SHOWN char *canonicalize_file_name(const char *path)
{
	return realpath(path, NULL);
}

SHOWN char *__realpath_chk(const char *path, char *resolved, size_t room)
{
	struct spot spot;
	char *result;

	path = spot_find(path, &spot);
	if (spot.is_node)
		return resolve_node(&spot, resolved);
	result = NEXT(__realpath_chk)(path, resolved, room);
	if (result && spot.is_ours)
		spot_unmap(result);
	return result;
}

static void *glob_opendir(const char *path)
{
	return opendir(path);
}

static struct dirent *glob_readdir(void *dir)
{
	return readdir(dir);
}

static struct dirent64 *glob_readdir64(void *dir)
{
	return readdir64(dir);
}

static void glob_closedir(void *dir)
{
	closedir(dir);
}

static int glob_stat(const char *restrict path, struct stat *restrict st)
{
	return stat(path, st);
}

static int glob_lstat(const char *restrict path, struct stat *restrict st)
{
	return lstat(path, st);
}

static int glob_stat64(const char *restrict path, struct stat64 *restrict st)
{
	return stat64(path, st);
}

static int glob_lstat64(const char *restrict path, struct stat64 *restrict st)
{
	return lstat64(path, st);
}

/* Only a pattern that can lead to us is worth the detour. */
static bool is_for_us(const char *pattern, int flags)
{
	return !(flags & GLOB_ALTDIRFUNC) &&
	       (!strncmp(pattern, "/sys/", 5) || !strncmp(pattern, "/dev/", 5));
}

SHOWN int glob(const char *restrict pattern, int flags, int (*failed)(const char *, int),
	       glob_t *restrict found)
{
	int rc;

	if (!is_for_us(pattern, flags))
		return NEXT(glob)(pattern, flags, failed, found);
	found->gl_opendir = glob_opendir;
	found->gl_readdir = glob_readdir;
	found->gl_closedir = glob_closedir;
	found->gl_stat = glob_stat;
	found->gl_lstat = glob_lstat;
	rc = NEXT(glob)(pattern, flags | GLOB_ALTDIRFUNC, failed, found);
	found->gl_flags &= ~GLOB_ALTDIRFUNC;
	return rc;
}

SHOWN int glob64(const char *restrict pattern, int flags, int (*failed)(const char *, int),
		 glob64_t *restrict found)
{
	int rc;

	if (!is_for_us(pattern, flags))
		return NEXT(glob64)(pattern, flags, failed, found);
	found->gl_opendir = glob_opendir;
	found->gl_readdir = glob_readdir64;
	found->gl_closedir = glob_closedir;
	found->gl_stat = glob_stat64;
	found->gl_lstat = glob_lstat64;
	rc = NEXT(glob64)(pattern, flags | GLOB_ALTDIRFUNC, failed, found);
	found->gl_flags &= ~GLOB_ALTDIRFUNC;
	return rc;
}
