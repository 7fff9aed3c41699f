/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads of ours inside somebody's program: they take no signals, may run on every core whatever
 * the program was bound to (a wake-up on a busy core costs most of the latency there is), have
 * small stacks and names that say whose they are.
 */
#ifndef ENGINE_THREAD_H
#define ENGINE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* 0 or -errno. */
int thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *data);

/* The calling thread goes to another core, but not to that one (-1: any), if it may: whether it
 * did; it may come back. */
bool thread_leave_core(int but_for);

/* Whether the calling thread's core was others' since it was asked last, of its own will (a yield)
 * or not. */
bool thread_was_preempted(void);

/* Waits for its end, some seconds at most. */
void thread_join(pthread_t thread);

#endif
