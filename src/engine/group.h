/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sockets on which the processes of this host share port 4791 of one address: an SO_REUSEPORT
 * group: one socket for QP 1 (the GSI), which all members read, then `lanes` sockets a slot, in
 * slot order, kept by the vault. Slots below ours that have none yet get theirs made with ours,
 * since the kernel numbers sockets in the order in which they are bound.
 *
 * Joining asks the other processes for the vault (meeting.h); if nobody has it and the port is
 * free, we make the group.
 */
#ifndef ENGINE_GROUP_H
#define ENGINE_GROUP_H

#include <pthread.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <urcu/list.h>

#include "device/limits.h"
#include "engine/vault.h"

enum { GROUP_MAX_LANES = MAX_LANES, GROUP_GSI = 0 /* the vault's entry; slots follow */ };

struct group {
	struct cds_list_head node;
	union ibv_gid gid;
	uint32_t ifindex;
	struct vault vault;
	uint32_t lanes;
	int gsi;		  /* the one that all share, non-blocking; -1: none */
	int fds[GROUP_MAX_LANES]; /* ours, non-blocking */
};

/* The groups that this process is in. */
struct group_list {
	pthread_mutex_t lock; /* held for moments only: the service thread takes it to answer */
	struct cds_list_head groups;
};

void group_list_init(struct group_list *list);

/* Interface index where an address means nothing without it, else 0. */
uint32_t gid_scope(const union ibv_gid *gid, uint32_t ifindex);

/*
 * Joins as `slot`; `lanes` (a power of two) is what a new group gets, one that exists says for
 * itself. Waits for other processes, some seconds at most. 0 or a positive errno (noted).
 */
int group_join(struct group_list *list, uint32_t slot, const union ibv_gid *gid, uint32_t ifindex,
	       uint32_t lanes, struct group **group);
void group_leave(struct group_list *list, struct group *group);

/* Answers another process's question. */
struct mail;
void group_answer(struct group_list *list, int fd, const struct mail *mail);

#endif
