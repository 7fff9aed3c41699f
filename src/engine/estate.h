/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Estates: slots whose process is gone while QPs with its numbers live on in others (heir.c). The
 * slot's mailbox was handed to all who have such a QP open, so nobody takes the slot meanwhile. One
 * of the heirs is its keeper on each interface, by a name that it has bound, and reads the slot's
 * sockets: those of the groups, out of their vaults, the near ports, and the mail. What comes for a
 * QP that another heir has goes on to that one's mailbox.
 *
 * All of it is the mail thread's, under the openings' call lock.
 */
#ifndef ENGINE_ESTATE_H
#define ENGINE_ESTATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <poll.h>
#include <urcu/list.h>

#include "device/limits.h"

struct engine;
struct station;

struct estates {
	struct cds_list_head list; /* under the openings' call lock */
	atomic_uint slots[QPN_SLOTS / 32];
};

static inline bool estates_have(const struct estates *estates, uint32_t slot)
{
	return slot < QPN_SLOTS &&
	       atomic_load_explicit(&estates->slots[slot / 32], memory_order_relaxed) >> slot % 32 &
		   1;
}

/* One more QP of the slot is ours; `mailbox` is the place of its descriptor among the held, and
 * stays its owner's. False without memory. */
bool estate_enter(struct engine *engine, struct station *station, uint32_t slot, int mailbox);
/* One less. */
void estate_leave(struct engine *engine, const struct station *station, uint32_t slot);
/* A device closes. */
void estates_close(struct engine *engine, const struct station *station);

/* The mailbox's descriptor, -1: no estate of ours. */
int estate_mailbox(struct engine *engine, uint32_t slot);

/* What of the sockets could not be had yet; false when all are there. */
bool estates_tick(struct engine *engine);
unsigned int estates_poll(const struct engine *engine, struct pollfd *fds, unsigned int room);
/* False if the descriptor is none of theirs. */
bool estates_hear(struct engine *engine, int fd);

#endif
