/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repoll: an epoll set that takes rsockets. A list that is given to rpoll(); edges are what is new
 * since they were last told.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdmacm/face.h"
#include "rdmacm/rs.h"

struct watched {
	int fd;
	struct epoll_event event;
	short told;    /* of an edge-triggered one: what held when it was told */
	uint32_t news; /* and how much had come */
};

struct set {
	struct cds_list_head node;
	int fd;
	pthread_mutex_t lock;
	struct watched *watched;
	unsigned int count, capacity;
};

static CDS_LIST_HEAD(sets);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void rs_epolls_hold(void)
{
	pthread_mutex_lock(&lock);
}

void rs_epolls_release(void)
{
	pthread_mutex_unlock(&lock);
}

static struct set *find_set(int fd)
{
	struct set *set, *found = NULL;

	pthread_mutex_lock(&lock);
	cds_list_for_each_entry (set, &sets, node)
		if (set->fd == fd)
			found = set;
	pthread_mutex_unlock(&lock);
	if (!found)
		errno = EBADF;
	return found;
}

bool rs_is_epoll(int fd)
{
	int before = errno;
	bool is = find_set(fd) != NULL;

	errno = before;
	return is;
}

int rs_epoll_close(int fd)
{
	struct set *set = find_set(fd);

	if (!set)
		return -1;
	pthread_mutex_lock(&lock);
	cds_list_del(&set->node);
	pthread_mutex_unlock(&lock);
	free(set->watched);
	free(set);
	return close(fd);
}

int repoll_create(int flags)
{
	struct set *set;

	if (flags & ~EPOLL_CLOEXEC)
		return rs_fail(EINVAL);
	set = calloc(1, sizeof(*set));
	if (!set)
		return rs_fail(ENOMEM);
	set->fd = eventfd(0, flags & EPOLL_CLOEXEC ? EFD_CLOEXEC : 0);
	if (set->fd < 0) {
		free(set);
		return -1;
	}
	pthread_mutex_init(&set->lock, NULL);
	pthread_mutex_lock(&lock);
	cds_list_add(&set->node, &sets);
	pthread_mutex_unlock(&lock);
	return set->fd;
}

static struct watched *find(struct set *set, int fd)
{
	for (unsigned int i = 0; i < set->count; i++)
		if (set->watched[i].fd == fd)
			return &set->watched[i];
	return NULL;
}

static int add(struct set *set, int fd, const struct epoll_event *event)
{
	if (find(set, fd))
		return EEXIST;
	if (!rs_is(fd) && fcntl(fd, F_GETFD) < 0)
		return EBADF;
	if (set->count == set->capacity) {
		unsigned int capacity = set->capacity ? set->capacity * 2 : 16;
		struct watched *watched = realloc(set->watched, capacity * sizeof(*watched));

		if (!watched)
			return ENOMEM;
		set->watched = watched;
		set->capacity = capacity;
	}
	set->watched[set->count++] = (struct watched){.fd = fd, .event = *event};
	return 0;
}

int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct set *set = find_set(epfd);
	struct watched *watched;
	int error = 0;

	if (!set)
		return -1;
	if (op != EPOLL_CTL_ADD && op != EPOLL_CTL_MOD && op != EPOLL_CTL_DEL)
		return rs_fail(EINVAL);
	if (op != EPOLL_CTL_DEL && !event)
		return rs_fail(EFAULT);
	pthread_mutex_lock(&set->lock);
	watched = find(set, fd);
	if (op == EPOLL_CTL_ADD)
		error = add(set, fd, event);
	else if (!watched)
		error = ENOENT;
	else if (op == EPOLL_CTL_MOD)
		*watched = (struct watched){.fd = fd, .event = *event};
	else
		*watched = set->watched[--set->count];
	pthread_mutex_unlock(&set->lock);
	return error ? rs_fail(error) : 0;
}

static nfds_t to_poll(struct set *set, struct pollfd **fds)
{
	nfds_t count;

	pthread_mutex_lock(&set->lock);
	count = set->count;
	*fds = calloc(count + 1, sizeof(struct pollfd));
	for (nfds_t i = 0; *fds && i < count; i++) {
		const struct watched *watched = &set->watched[i];

		(*fds)[i] =
		    (struct pollfd){.fd = watched->fd, .events = (short)watched->event.events};
		if (watched->event.events & EPOLLET && watched->told) {
			struct rsock *rs = rs_is(watched->fd) ? rs_find(watched->fd) : NULL;

			/* what was told is asked for again when there is more of it */
			if (rs && rs->news == watched->news)
				(*fds)[i].events &= (short)~watched->told;
		}
	}
	pthread_mutex_unlock(&set->lock);
	return count;
}

static int tell(struct set *set, const struct pollfd *fds, nfds_t count, struct epoll_event *events,
		int most)
{
	int told = 0;

	pthread_mutex_lock(&set->lock);
	for (nfds_t i = 0; i < count && told < most; i++) {
		struct watched *watched = fds[i].revents ? find(set, fds[i].fd) : NULL;
		struct rsock *rs;

		if (!watched || fds[i].revents & POLLNVAL)
			continue;
		rs = rs_is(fds[i].fd) ? rs_find(fds[i].fd) : NULL;
		events[told] = watched->event;
		events[told++].events = (uint32_t)(uint16_t)fds[i].revents;
		if (watched->event.events & EPOLLET && rs) {
			if (watched->news != rs->news)
				watched->told = 0;
			watched->told |= fds[i].revents;
			watched->news = rs->news;
		}
		if (watched->event.events & EPOLLONESHOT)
			watched->event.events &= EPOLLONESHOT | EPOLLET;
	}
	pthread_mutex_unlock(&set->lock);
	return told;
}

int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
	struct set *set = find_set(epfd);
	struct pollfd *fds;
	nfds_t count;
	int found;

	if (!set)
		return -1;
	if (maxevents <= 0 || !events)
		return rs_fail(EINVAL);
	count = to_poll(set, &fds);
	if (!fds)
		return rs_fail(ENOMEM);
	found = rpoll(fds, count, timeout);
	if (found > 0)
		found = tell(set, fds, count, events, maxevents);
	free(fds);
	return found;
}
