/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A look at the program before it is started: where PATH has it, and whether the dynamic loader
 * will do for it what `verbatim run` relies on. Linux ignores or drops LD_LIBRARY_PATH for some.
 */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "command.h"

bool program_find(const char *program, char *path, size_t size)
{
	const char *directories = getenv("PATH");
	char *list, *rest, *dir;
	bool is_there = false;

	if (strchr(program, '/'))
		return snprintf(path, size, "%s", program) < (int)size && !access(path, F_OK);
	rest = list = strdup(directories ? directories : "");
	while (!is_there && (dir = strsep(&rest, ":")))
		is_there = snprintf(path, size, "%s/%s", *dir ? dir : ".", program) < (int)size &&
			   !access(path, F_OK);
	free(list);
	return is_there;
}

/* A 64-bit program without the header that names its loader was linked statically. */
static bool is_static(int fd)
{
	Elf64_Ehdr head;
	Elf64_Phdr part;
	bool is_loaded = false;

	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_phentsize != sizeof(part))
		return false;
	for (int i = 0; i < head.e_phnum; i++) {
		if (pread(fd, &part, sizeof(part),
			  (off_t)(head.e_phoff + (size_t)i * sizeof(part))) != sizeof(part))
			return false;
		is_loaded |= part.p_type == PT_INTERP;
	}
	return !is_loaded;
}

/* Runs with more rights than its caller: as another user or group, or with capabilities. */
static bool is_privileged(int fd, const struct stat *st)
{
	char capabilities[64];

	return ((st->st_mode & S_ISUID) && st->st_uid != getuid()) ||
	       ((st->st_mode & S_ISGID) && (st->st_mode & S_IXGRP) && st->st_gid != getgid()) ||
	       (getuid() &&
		fgetxattr(fd, "security.capability", capabilities, sizeof(capabilities)) > 0);
}

const char *program_obstacle(const char *program)
{
	const char *obstacle = NULL;
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (!program_find(program, path, sizeof(path)))
		return NULL;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode)) {
		if (is_privileged(fd, &st))
			obstacle = "gets more rights than you have, so the dynamic loader drops "
				   "Verbatim's "
				   "libraries: start `verbatim run` as the user that it changes to";
		else if (is_static(fd))
			obstacle = "is statically linked, so it does not use Verbatim's libraries "
				   "(what it "
				   "starts may)";
	}
	close(fd);
	return obstacle;
}
