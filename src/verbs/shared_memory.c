/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shared memory behind another process's object: by the descriptor that its table names, or,
 * for a region on memory that the program mapped itself, by what /proc says is mapped there. The
 * file is the right one only if its inode says so.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/share.h"

static int open_file(const char *path, uint64_t inode)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	struct stat file;

	if (fd < 0)
		return -1;
	if (!fstat(fd, &file) && file.st_ino == inode && S_ISREG(file.st_mode))
		return fd;
	close(fd);
	return -1;
}

static int open_descriptor(int pid, int number, uint64_t inode)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, number);
	return open_file(path, inode);
}

/* A memfd has no path: but its maker mostly has it open. */
static int search_descriptors(int pid, uint64_t inode)
{
	char path[64];
	struct dirent *entry;
	int found = -1;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && found < 0 && (entry = readdir(dir)))
		found = open_descriptor(pid, atoi(entry->d_name), inode);
	if (dir)
		closedir(dir);
	return found;
}

/* The mapping that holds all of [addr, addr + length): its file and place there. */
static bool find_mapping(int pid, uint64_t addr, uint64_t length, uint64_t *inode, uint64_t *offset,
			 char file[PATH_MAX])
{
	char path[64], line[PATH_MAX + 128], rights[8];
	uint64_t start, end, at;
	bool is_found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	while (maps && !is_found && fgets(line, sizeof(line), maps)) {
		file[0] = '\0';
		if (sscanf(line,
			   "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %" SCNu64 " %4095[^\n]",
			   &start, &end, rights, &at, inode, file) < 5)
			continue;
		is_found = addr >= start && addr < end;
		if (is_found && (length > end - addr || rights[3] != 's' || !*inode))
			break; /* not whole, or private */
		if (is_found)
			*offset = at + (addr - start);
		is_found = is_found && rights[3] == 's';
	}
	if (maps)
		fclose(maps);
	return is_found && length <= end - addr && *inode;
}

int shared_memory_open(int pid, const struct share_entry *entry, uint64_t *offset)
{
	char file[PATH_MAX];
	uint64_t inode;
	int fd;

	if (entry->fd >= 0) {
		*offset = entry->offset;
		return open_descriptor(pid, entry->fd, entry->inode);
	}
	if (!entry->addr || !find_mapping(pid, entry->addr, entry->length, &inode, offset, file))
		return -1;
	fd = file[0] == '/' ? open_file(file, inode) : -1;
	return fd >= 0 ? fd : search_descriptors(pid, inode);
}
