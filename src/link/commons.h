/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of another process that is shared from birth (device memory, buffers of ibv_alloc_buf(),
 * regions on memfds), mapped here: so a WRITE, a READ or an atomic is a copy, without the kernel.
 * Its directory says in which file a region lies, and under which of its descriptors that is open;
 * what is used first is mapped, and stays so until something else needs the place.
 *
 * The other process's owner may end the memory. Whoever asks here holds a hazard (reach.h), so the
 * descriptor is what the directory said. A mapping that is left over is of a file that nobody else
 * has any more, and its maker has emptied it.
 */
#ifndef LINK_COMMONS_H
#define LINK_COMMONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct commons;

/* Where something lies: a file, by its number in its process (0: it is in none), the descriptor
 * that the process has of it, and the place there. */
struct commons_place {
	uint32_t number;
	int32_t fd;
	uint64_t offset;
};

/* NULL without memory. */
struct commons *commons_open(void);
void commons_close(struct commons *commons);

/*
 * The place, mapped here, if `length` bytes from there can be had; NULL if not, which stays so for
 * that file. `lifeline` is a socket that hangs up when process `pid` is gone. One at a time.
 */
char *commons_find(struct commons *commons, const struct commons_place *place, uint64_t length,
		   pid_t pid, int lifeline);

/* What was found stays there as long as this says the same: it counts what made room. */
uint64_t commons_changes(const struct commons *commons);

/* Whether that takes no system call, as the file is mapped. */
bool commons_has(struct commons *commons, const struct commons_place *place);

#endif
