/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where our libraries lie. They are looked for relative to the running program (/proc/self/exe),
 * so a build tree can be moved and an installation relocated; the path shim is what tells our
 * directory from one that holds the system's libibverbs.so.1.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

static int try_directory(const char *dir, char *real)
{
	char file[PATH_MAX + sizeof(LIBRARY_PATHS) + sizeof(LIBRARY_VERBS)];

	if (!realpath(dir, real))
		return -errno;
	snprintf(file, sizeof(file), "%s/" LIBRARY_PATHS, real);
	if (access(file, R_OK))
		return -errno;
	snprintf(file, sizeof(file), "%s/" LIBRARY_VERBS, real);
	return access(file, R_OK) ? -errno : 0;
}

int where_libraries(char *dir, size_t size)
{
	static const char *const relative[] = {"../lib", VERBATIM_LIBDIR_FROM_BINDIR};
	char self[PATH_MAX], candidate[2 * PATH_MAX], real[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int rc = -ENOENT, first_rc = 0;

	if (length > 0) {
		self[length] = '\0';
		*strrchr(self, '/') = '\0';
		for (size_t i = 0; i < sizeof(relative) / sizeof(relative[0]); i++) {
			snprintf(candidate, sizeof(candidate), "%s/%s", self, relative[i]);
			rc = try_directory(candidate, real);
			if (!rc)
				goto found;
			/* A directory that is there but closed to us says more than one that is
			 * not. */
			if (rc != -ENOENT && !first_rc) {
				first_rc = rc;
				snprintf(dir, size, "%s", candidate);
			}
		}
	}
	rc = try_directory(VERBATIM_LIBDIR, real);
	if (!rc)
		goto found;
	if (first_rc)
		return first_rc;
	snprintf(dir, size, "%s", VERBATIM_LIBDIR);
	return rc;
found:
	if (strlen(real) >= size)
		return -ENAMETOOLONG;
	strcpy(dir, real);
	return 0;
}
