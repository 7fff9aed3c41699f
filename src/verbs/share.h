/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a context shares with those who are given its cmd_fd. That descriptor is a memfd: its head
 * says whose it is, and behind it stands what each PD, region and device memory of the context is,
 * so that another process (of the same user) finds the memory without anybody's help. Only its
 * maker can write it. Contexts of one process that have the same file share objects as they are.
 */
#ifndef VERBS_SHARE_H
#define VERBS_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

enum share_kind { SHARE_NONE, SHARE_PD, SHARE_MR, SHARE_DM };

/* One object, as others see it. */
struct share_entry {
	uint32_t kind; /* enum share_kind; written last */
	uint32_t handle;
	uint32_t pd_handle; /* of a region */
	uint32_t access;
	uint32_t lkey, rkey;
	uint64_t iova;
	uint64_t length;
	uint64_t addr; /* of a region on the program's own memory, there; else 0 */
	/* shared memory that it lies in: its maker's descriptor, and which file that is; -1: none
	 */
	int32_t fd;
	uint32_t reserved;
	uint64_t inode;
	uint64_t offset;
};

struct share;

/* For a new context of `device`: the share and its descriptor. NULL: nothing can be shared. */
struct share *share_create(const char *device, uint32_t ifindex, int *cmd_fd);

/* Of a descriptor that somebody gave; NULL and a noted reason in *error. */
struct share *share_open(int cmd_fd, int *error);
void share_put(struct share *share);

uint32_t share_ifindex(const struct share *share);
const char *share_device(const struct share *share); /* what its maker calls it */
bool share_is_ours(const struct share *share);

/* Lists an object; its place, 0 where there is none. `object` is this process's. */
uint32_t share_add(struct share *share, const struct share_entry *entry, void *object);
void share_update(struct share *share, uint32_t place, const struct share_entry *entry);
void share_remove(struct share *share, uint32_t place);

/*
 * Calls `take` with this process's object of that handle, while it cannot go: true. False if there
 * is none.
 */
bool share_find(struct share *share, enum share_kind kind, uint32_t handle,
		void (*take)(void *object, void *data), void *data);

/* What another process's object is. False if there is none. */
bool share_read(const struct share *share, enum share_kind kind, uint32_t handle,
		struct share_entry *entry);

/* Its shared memory: a new descriptor and the place there, or -1. */
int share_open_memory(const struct share *share, const struct share_entry *entry, uint64_t *offset);
int shared_memory_open(int pid, const struct share_entry *entry, uint64_t *offset);

/* Around a fork(). */
void share_hold(void);
void share_release(void);
void share_forked(void);

#endif
