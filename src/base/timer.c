/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The heap of deadlines: children of place n are 2n and 2n+1.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/timer.h"

void timer_queue_init(struct timer_queue *queue)
{
	*queue = (struct timer_queue){0};
}

void timer_queue_fini(struct timer_queue *queue)
{
	free(queue->heap);
	timer_queue_init(queue);
}

int timer_queue_reserve(struct timer_queue *queue, uint32_t count)
{
	uint32_t capacity = queue->capacity ? queue->capacity : 16;
	struct timer **heap;

	if (count <= queue->capacity)
		return 0;
	while (capacity < count)
		capacity *= 2;
	heap = realloc(queue->heap, (capacity + 1) * sizeof(struct timer *));
	if (!heap)
		return -ENOMEM;
	queue->heap = heap;
	queue->capacity = capacity;
	return 0;
}

static void put(struct timer_queue *queue, uint32_t place, struct timer *timer)
{
	queue->heap[place] = timer;
	timer->place = place;
}

static void sift_up(struct timer_queue *queue, struct timer *timer, uint32_t place)
{
	while (place > 1 && queue->heap[place / 2]->deadline > timer->deadline) {
		put(queue, place, queue->heap[place / 2]);
		place /= 2;
	}
	put(queue, place, timer);
}

static void sift_down(struct timer_queue *queue, struct timer *timer, uint32_t place)
{
	for (;;) {
		uint32_t child = place * 2;

		if (child > queue->count)
			break;
		if (child < queue->count &&
		    queue->heap[child + 1]->deadline < queue->heap[child]->deadline)
			child++;
		if (queue->heap[child]->deadline >= timer->deadline)
			break;
		put(queue, place, queue->heap[child]);
		place = child;
	}
	put(queue, place, timer);
}

void timer_set(struct timer_queue *queue, struct timer *timer, uint64_t deadline)
{
	if (deadline == UINT64_MAX || (timer->place && timer->deadline <= deadline))
		return;
	timer->deadline = deadline;
	sift_up(queue, timer, timer->place ? timer->place : ++queue->count);
}

void timer_cancel(struct timer_queue *queue, struct timer *timer)
{
	uint32_t place = timer->place;
	struct timer *last;

	if (!place)
		return;
	timer->place = 0;
	last = queue->heap[queue->count--];
	if (last == timer)
		return;
	if (place > 1 && queue->heap[place / 2]->deadline > last->deadline)
		sift_up(queue, last, place);
	else
		sift_down(queue, last, place);
}

uint64_t timer_first(const struct timer_queue *queue)
{
	return queue->count ? queue->heap[1]->deadline : UINT64_MAX;
}

struct timer *timer_take_due(struct timer_queue *queue, uint64_t now)
{
	struct timer *timer;

	if (timer_first(queue) > now)
		return NULL;
	timer = queue->heap[1];
	timer_cancel(queue, timer);
	return timer;
}
