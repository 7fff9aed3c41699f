/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that is shared from birth: a memfd of fixed size, mapped. What other processes and other
 * subsystems may be given is its descriptor.
 */
#ifndef VERBS_MEMFD_H
#define VERBS_MEMFD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memfd {
	int fd;
	char *place;
	size_t length; /* of the mapping: whole pages */
	uint64_t inode;
	uint32_t number;      /* in this process, of this one alone */
	atomic_bool is_given; /* by memfd_export(), of any threads */
};

/* `alignment` is a power of two, or 0. 0 or -errno. Its size is sealed: no access can fault. */
int memfd_create_mapped(struct memfd *memfd, const char *name, size_t size, size_t alignment);

/* The same of a descriptor from elsewhere, which becomes the memfd's; -EINVAL if it is not sealed.
 */
int memfd_map(struct memfd *memfd, int fd, size_t size);
void memfd_unmap(struct memfd *memfd);

/* The same for the maker of what nobody has been given: if another process still has it mapped, it
 * has no pages any more. */
void memfd_end(struct memfd *memfd);

/* The next number that no file has had. */
uint32_t memfd_number(void);

/* A new descriptor of the whole, as a dma-buf where the system makes them; -1 with errno. */
int memfd_export(struct memfd *memfd);

#endif
