/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the sockets of a group are kept alive: a pair of connected Unix sockets that all members of
 * the group hold, with one message in its queue for each slot, and the slot's descriptors in that
 * message. It is never taken out, only peeked at, which duplicates the descriptors.
 *
 * So a member holds its own sockets and two descriptors, however many members there are; a socket
 * outlives the process that it served, which keeps the group's order; and with the last member the
 * kernel frees it all.
 *
 * Under the join lock: the place to peek at is a property of the shared socket.
 */
#ifndef ENGINE_VAULT_H
#define ENGINE_VAULT_H

#include <stdint.h>

struct vault {
	int in, out;
};

/* Each 0 or -errno. */
int vault_create(struct vault *vault);
void vault_close(struct vault *vault);

/* Adds the sockets of `slot`, which is the next after those that are there. The caller keeps its
 * own descriptors. */
int vault_put(struct vault *vault, uint32_t slot, const int *fds, unsigned int count);

/* Duplicates of the sockets of `slot`; -ENOENT when it has none yet, which means that no later one
 * has. */
int vault_get(struct vault *vault, uint32_t slot, int *fds, unsigned int count);

#endif
