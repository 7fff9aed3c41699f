/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines: a binary heap. A deadline mostly moves later (each ACK pushes it on),
 * so timer_set() leaves an earlier entry where it stands; when that one comes due, its owner says
 * what the deadline really is. So the heap is touched once a timeout, not once a packet.
 *
 * Under the lock of whoever has it: a lane (its QPs), the connection manager (its ids).
 */
#ifndef BASE_TIMER_H
#define BASE_TIMER_H

#include <stdint.h>

struct timer {
	uint64_t deadline;
	uint32_t place; /* in the heap, counted from 1; 0: not in it */
};

struct timer_queue {
	struct timer **heap; /* heap[1] is the first due */
	uint32_t count, capacity;
};

void timer_queue_init(struct timer_queue *queue);
void timer_queue_fini(struct timer_queue *queue);

/* Makes room for `count` timers in all, so that timer_set() cannot fail. 0 or -ENOMEM. */
int timer_queue_reserve(struct timer_queue *queue, uint32_t count);

/* Due at `deadline` or before: see above. UINT64_MAX sets nothing. */
void timer_set(struct timer_queue *queue, struct timer *timer, uint64_t deadline);
void timer_cancel(struct timer_queue *queue, struct timer *timer);

/* The earliest deadline; UINT64_MAX when there is none. */
uint64_t timer_first(const struct timer_queue *queue);

/* Takes out one that is due; NULL when none is. */
struct timer *timer_take_due(struct timer_queue *queue, uint64_t now);

#endif
