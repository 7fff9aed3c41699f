/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processes of this host that we share memory with. A lane that has something for a QP of
 * another process offers its slot a channel by mail: the memory, the lane's bell, and one end of a
 * lifeline, a socket that hangs up when either process is gone. The answer brings the other bell.
 * The mail thread does all of it; who needs the channel at once waits a moment.
 *
 * Who does not answer (a program with another version, or none) is reached by UDP. So is everybody
 * with VERBATIM_SAMEHOST=off, which declines.
 *
 * With a channel come descriptors by which each side reaches the other's memory (reachable.h), but
 * for VERBATIM_SAMEHOST=rings.
 */
#ifndef ENGINE_NEIGHBOURS_H
#define ENGINE_NEIGHBOURS_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include "engine/meeting.h"

struct engine;
struct lane;

struct neighbours {
	pthread_mutex_t lock; /* guards the list; taken before a lane's */
	pthread_cond_t changed;
	struct cds_list_head list;
	uint32_t offers;				      /* numbers them */
	bool is_off, are_reachable, has_express, is_assisted; /* as was set */
};

void neighbours_init(struct neighbours *neighbours);
/* The channels are their lanes' to close. */
void neighbours_fini(struct neighbours *neighbours);
/* In the child of a fork. */
void neighbours_abandon(struct neighbours *neighbours);

/* Channels between the lanes of this process. */
void neighbours_meet_oneself(struct engine *engine);

/* The lane needs a way to a slot of this host. Waits until it is there, or a fifth of a second
 * without an answer is over. No lane's lock is held. */
void neighbours_meet(struct engine *engine, struct lane *lane, uint32_t slot, uint32_t way);

/* The same without waiting; under the lane's lock. 0 or -errno. */
int neighbours_want(struct engine *engine, const struct lane *lane, uint32_t slot, uint32_t way);

/* The mail thread's: an OFFER, ACCEPT or INTRODUCE; it takes the descriptors that it keeps out of
 * the mail. */
void neighbours_read(struct engine *engine, const struct meeting *meeting, struct mail *mail);

/* There won't be a channel to the slot, which is not ours: its owner is gone. */
void neighbours_decline(struct engine *engine, uint32_t slot, const struct meeting *offer,
			const struct mail *mail);

/* The mail thread's: lifelines to wait for, at most `room`, how many and how long; and what came of
 * it. */
unsigned int neighbours_poll(struct neighbours *neighbours, struct pollfd *fds, unsigned int room,
			     int *timeout_ms);
void neighbours_polled(struct engine *engine, const struct pollfd *fds, unsigned int count);

#endif
