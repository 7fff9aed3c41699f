/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the receiver of unreliable messages is about to lose some. On a lossless network a sender
 * is held back by the switch; within a host it is us who can see how full the receiver's socket is,
 * since a group's vault has them all. UC and UD QPs then wait a little; RC has its own window. A
 * receiver elsewhere is never seen to be crowded.
 */
#ifndef ENGINE_CROWD_H
#define ENGINE_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct engine;
struct qp;

enum { CROWD_PEERS = 8 };

/* A socket that we send to. */
struct crowd_peer {
	union ibv_gid gid;
	uint32_t index; /* in the group, plus 1; 0: the entry is free */
	int fd;		/* -1: not on this host */
	uint64_t looked_up;
};

/* One a lane, under its lock. */
struct crowd {
	struct crowd_peer peers[CROWD_PEERS];
	uint32_t next; /* to be replaced */
};

void crowd_init(struct crowd *crowd);
void crowd_close(struct crowd *crowd);

/* Whether the receiver of the QP's next message has little room left. */
bool crowd_is_full(struct crowd *crowd, struct engine *engine, const struct qp *qp, uint64_t now);

#endif
