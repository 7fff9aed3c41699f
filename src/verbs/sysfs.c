// SPDX-License-Identifier: BSD-2-Clause
/*
 * Two exported helpers from the time when each device was a folder in sysfs. Programs still read
 * small files with them, those of Verbatim's view of /sys/class/infiniband included.
 */
#define _GNU_SOURCE /* secure_getenv */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <infiniband/verbs.h>
#include "verbs/sysfs.h"

static char sysfs_path[IBV_SYSFS_PATH_MAX] = "/sys";
static pthread_once_t sysfs_once = PTHREAD_ONCE_INIT;

/* $SYSFS_PATH, which only the user's own program may be led by. */
static void sysfs_find(void)
{
	const char *given = secure_getenv("SYSFS_PATH");
	size_t length = given ? strnlen(given, sizeof(sysfs_path)) : 0;

	while (length > 0 && given[length - 1] == '/')
		length--;
	if (!length || length >= sizeof(sysfs_path))
		return;
	memcpy(sysfs_path, given, length);
	sysfs_path[length] = 0;
}

const char *ibv_get_sysfs_path(void)
{
	pthread_once(&sysfs_once, sysfs_find);
	return sysfs_path;
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[PATH_MAX];
	ssize_t length;
	int fd, n;

	n = snprintf(path, sizeof(path), "%s/%s", dir, file);
	if (n < 0 || (size_t)n >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	length = read(fd, buf, size);
	close(fd);
	if (length <= 0)
		return (int)length;
	if (buf[length - 1] == '\n')
		length--;
	if ((size_t)length >= size) {
		errno = EOVERFLOW;
		return -1;
	}
	buf[length] = 0;
	return (int)length;
}
