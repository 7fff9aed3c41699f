/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Preloaded into a replica of the log: what a power loss would leave. Only what msync() has brought
 * out survives one, so a copy of the file (POWER_SHADOW, of POWER_FILE) gets exactly that; and the
 * power fails at the POWER_AT-th msync(): POWER_WHEN is before, amid (half of the range is out) or
 * after.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_ulong count;

/* Where in the file an address is; -1 where it is none of the file's. */
static long offset_of(const void *address, const char *file)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end, offset;
	char line[4096], path[4096];
	long found = -1;

	while (maps && found < 0 && fgets(line, sizeof(line), maps)) {
		path[0] = '\0';
		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %4095s", &start, &end, &offset, path) < 3)
			continue;
		if ((uintptr_t)address >= start && (uintptr_t)address < end && !strcmp(path, file))
			found = (long)(offset + (uintptr_t)address - start);
	}
	if (maps)
		fclose(maps);
	return found;
}

static void bring_out(const void *address, size_t length, long offset, const char *shadow)
{
	int fd = open(shadow, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || pwrite(fd, address, length, offset) != (ssize_t)length)
		abort();
	close(fd);
}

int msync(void *address, size_t length, int flags)
{
	const char *file = getenv("POWER_FILE"), *shadow = getenv("POWER_SHADOW");
	const char *at = getenv("POWER_AT"), *when = getenv("POWER_WHEN");
	long offset = flags & MS_SYNC && file && shadow ? offset_of(address, file) : -1;
	unsigned long number;

	if (offset < 0)
		return (int)syscall(SYS_msync, address, length, flags);
	number = atomic_fetch_add(&count, 1) + 1;
	if (at && number == strtoul(at, NULL, 10)) {
		if (strcmp(when, "before"))
			bring_out(address, strcmp(when, "amid") ? length : length / 2, offset,
				  shadow);
		kill(getpid(), SIGKILL);
	}
	bring_out(address, length, offset, shadow);
	return (int)syscall(SYS_msync, address, length, flags);
}
