/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A few mappings, found by their files' numbers; the one that was not used for the longest time
 * makes room. What could not be mapped is remembered as well.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link/commons.h"
#include "link/reach.h"

enum { MAPPINGS = 64, PATH_BYTES = 64 };

struct mapping {
	uint32_t number; /* 0: none */
	char *start;	 /* NULL: it can't be had */
	uint64_t length;
	uint64_t last_use;
};

struct commons {
	struct mapping mappings[MAPPINGS];
	struct mapping *last; /* most likely the next one, too */
	uint64_t uses, changes;
};

struct commons *commons_open(void)
{
	struct commons *commons = calloc(1, sizeof(*commons));

	if (commons)
		commons->last = commons->mappings;
	return commons;
}

static void forget(struct mapping *mapping)
{
	if (mapping->start)
		munmap(mapping->start, mapping->length);
	*mapping = (struct mapping){.number = 0};
}

void commons_close(struct commons *commons)
{
	for (int i = 0; commons && i < MAPPINGS; i++)
		forget(&commons->mappings[i]);
	free(commons);
}

/* A file that cannot shrink: no access can fault. Who has hung up by now may have had its number
 * taken by another process. */
static int open_there(pid_t pid, int fd, int lifeline, uint64_t *length)
{
	char path[PATH_BYTES];
	struct stat file;
	int here;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	here = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (here < 0)
		return -1;
	if (!reach_has_ended(lifeline) && !fstat(here, &file) && S_ISREG(file.st_mode) &&
	    fcntl(here, F_GET_SEALS) & F_SEAL_SHRINK) {
		*length = (uint64_t)file.st_size;
		return here;
	}
	close(here);
	return -1;
}

static void map(struct mapping *mapping, int fd, pid_t pid, int lifeline)
{
	int here = open_there(pid, fd, lifeline, &mapping->length);

	if (here < 0)
		return;
	mapping->start = mmap(NULL, mapping->length, PROT_READ | PROT_WRITE, MAP_SHARED, here, 0);
	if (mapping->start == MAP_FAILED)
		mapping->start = NULL;
	else
		madvise(mapping->start, mapping->length, MADV_DONTFORK);
	close(here);
}

/* The mapping of this number; or the place for it, emptied. */
static struct mapping *look_up(struct commons *commons, uint32_t number)
{
	struct mapping *oldest = commons->mappings;

	for (int i = 0; i < MAPPINGS; i++) {
		struct mapping *mapping = &commons->mappings[i];

		if (mapping->number == number)
			return mapping;
		if (mapping->last_use < oldest->last_use)
			oldest = mapping;
	}
	forget(oldest);
	commons->changes++;
	return oldest;
}

char *commons_find(struct commons *commons, const struct commons_place *place, uint64_t length,
		   pid_t pid, int lifeline)
{
	struct mapping *mapping = commons->last;

	if (mapping->number != place->number) {
		mapping = commons->last = look_up(commons, place->number);
		if (!mapping->number) {
			mapping->number = place->number;
			map(mapping, place->fd, pid, lifeline);
		}
	}
	mapping->last_use = ++commons->uses;
	if (!mapping->start || length > mapping->length || place->offset > mapping->length - length)
		return NULL;
	return mapping->start + place->offset;
}

uint64_t commons_changes(const struct commons *commons)
{
	return commons->changes;
}

bool commons_has(struct commons *commons, const struct commons_place *place)
{
	if (commons->last->number == place->number)
		return true;
	for (int i = 0; i < MAPPINGS; i++)
		if (commons->mappings[i].number == place->number) {
			commons->last = &commons->mappings[i];
			return true;
		}
	return false;
}
