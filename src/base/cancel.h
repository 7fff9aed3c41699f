/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs end a thread that waits for events by pthread_cancel(). No verb but ibv_get_cq_event()
 * and ibv_get_async_event(), and those only while they wait, may let that happen: a lane's or a
 * queue's lock would never be free again. UNCANCELLED stands at the head of what may come to a
 * cancellation point; UNCANCELLED_TURN of what does no more than turns of a lane do, where that is
 * none in a library that asks the kernel by itself (verbs/uncancelled.c).
 */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

#include <pthread.h>

#define UNCANCELLED                                                                                \
	int uncancelled __attribute__((cleanup(cancel_restore), unused)) = cancel_disable()

#ifdef PAST_CANCELLATION
#define UNCANCELLED_TURN (void)0
#else
#define UNCANCELLED_TURN UNCANCELLED
#endif

static inline int cancel_disable(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void cancel_restore(const int *before)
{
	int ignored;

	pthread_setcancelstate(*before, &ignored);
}

#endif
