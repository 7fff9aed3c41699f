/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A poll that may be the last for a while, since the program goes on to wait in its memory for what
 * a WRITE brings, lets the lane's thread be called by the next packet, once (lane.h).
 *
 * It is begun where a program stopped to poll, and packets waited. Given up it is where eight calls
 * in a row found nothing, and until packets wait again where 64 in a row found a program that has
 * posted or gone on polling: that one takes its packets in by itself, and the thread, on a core
 * that its peer needs, only takes them from it.
 */
#ifndef ENGINE_CALLING_H
#define ENGINE_CALLING_H

#include <stdbool.h>
#include <stdint.h>

/* A lane's, under its lock. Zeroed at first. */
struct calling {
	bool is_on;
	uint32_t vain, needless; /* calls in a row: nothing was there, who polls had it */
	uint32_t polls, posts;	 /* the program's, when it let itself be called last */
};

/* A program stopped to poll, and packets waited. False if calls are not what helps. */
bool calling_begin(struct calling *calling);

/* The next packet calls. There were so many polls and posts. */
void calling_let(struct calling *calling, uint32_t polls, uint32_t posts);

/* It has, and there are so many now. */
void calling_came(struct calling *calling, bool has_found, uint32_t polls, uint32_t posts);

/* The program has gone on polling for long: nothing of what was learnt is so. */
void calling_forget(struct calling *calling);

#endif
