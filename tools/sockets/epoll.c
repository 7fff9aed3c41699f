/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll sets of the program's that rsockets were added to: beside the kernel's set there is one of
 * rsockets, and the kernel's is a member of that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <rdma/rsocket.h>

#include "sockets.h"

struct set {
	struct set *next;
	int kernel, ours;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct set *sets;
static atomic_bool has_sets;

static int find(int kernel)
{
	int ours = -1;

	if (!atomic_load_explicit(&has_sets, memory_order_acquire))
		return -1;
	pthread_mutex_lock(&lock);
	for (const struct set *set = sets; set; set = set->next)
		if (set->kernel == kernel)
			ours = set->ours;
	pthread_mutex_unlock(&lock);
	return ours;
}

/* With the kernel's set in it, by a pointer that is no program's. */
static int create(int kernel)
{
	struct set *set = malloc(sizeof(*set));
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = set};

	if (!set)
		return -1;
	set->kernel = kernel;
	set->ours = repoll_create(EPOLL_CLOEXEC);
	if (set->ours < 0 || repoll_ctl(set->ours, EPOLL_CTL_ADD, kernel, &event) < 0) {
		free(set);
		return -1;
	}
	pthread_mutex_lock(&lock);
	set->next = sets;
	sets = set;
	pthread_mutex_unlock(&lock);
	atomic_store(&has_sets, true);
	return set->ours;
}

static bool is_marker(int kernel, const void *pointer)
{
	bool is = false;

	pthread_mutex_lock(&lock);
	for (const struct set *set = sets; set; set = set->next)
		is |= set->kernel == kernel && set == pointer;
	pthread_mutex_unlock(&lock);
	return is;
}

int sets_ctl(int kernel, int op, int fd, struct epoll_event *event)
{
	int rsocket = table_find(fd), ours;

	if (rsocket < 0)
		return libc.epoll_ctl(kernel, op, fd, event);
	ours = find(kernel);
	if (ours < 0)
		ours = create(kernel);
	return ours < 0 ? -1 : repoll_ctl(ours, op, rsocket, event);
}

int sets_wait(int kernel, struct epoll_event *events, int most, int timeout)
{
	int ours = find(kernel), count, kept = 0;
	bool has_others = false;

	if (ours < 0)
		return libc.epoll_wait(kernel, events, most, timeout);
	count = repoll_wait(ours, events, most, timeout);
	for (int i = 0; i < count; i++) {
		if (is_marker(kernel, events[i].data.ptr))
			has_others = true;
		else
			events[kept++] = events[i];
	}
	if (has_others) {
		int others = libc.epoll_wait(kernel, events + kept, most - kept, 0);

		kept += others > 0 ? others : 0;
	}
	return count < 0 ? count : kept;
}

void sets_forget(int rsocket)
{
	int error = errno;

	pthread_mutex_lock(&lock);
	for (const struct set *set = sets; set; set = set->next)
		repoll_ctl(set->ours, EPOLL_CTL_DEL, rsocket, NULL);
	pthread_mutex_unlock(&lock);
	errno = error;
}

void sets_close(int kernel)
{
	struct set **link = &sets, *found = NULL;

	if (!atomic_load_explicit(&has_sets, memory_order_acquire))
		return;
	pthread_mutex_lock(&lock);
	for (; *link && !found; link = found ? link : &(*link)->next)
		if ((*link)->kernel == kernel) {
			found = *link;
			*link = found->next;
		}
	pthread_mutex_unlock(&lock);
	if (found)
		rclose(found->ours);
	free(found);
}
