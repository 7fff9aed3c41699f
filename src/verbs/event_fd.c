/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The descriptors of completion channels and asynchronous events: eventfds that are readable while
 * their queue holds something. Who changes the queue holds its lock, and so raises and clears them
 * in step with it. Each event is a write of its own, so that edge-triggered epoll sees it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "verbs/face.h"

int event_fd_open(void)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

void event_fd_raise(int fd)
{
	uint64_t one = 1;
	int saved = errno;

	/* It cannot fail: the counter has 64 bits, and the program owns the descriptor otherwise.
	 */
	if (write(fd, &one, sizeof(one)) < 0)
		errno = saved;
}

/* The counter is not zero: reading it never blocks. */
void event_fd_clear(int fd)
{
	uint64_t count;
	int saved = errno;

	if (read(fd, &count, sizeof(count)) < 0)
		errno = saved;
}

int event_fd_may_wait(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -1;
	if (flags & O_NONBLOCK) {
		errno = EAGAIN;
		return -1;
	}
	return 0;
}

/* A cancellation point, as poll() is none here (uncancelled.c). */
int event_fd_wait(int fd)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLIN};

	if (event_fd_may_wait(fd))
		return -1;
	return ppoll(&pollfd, 1, NULL, NULL) < 0 ? -1 : 0;
}
