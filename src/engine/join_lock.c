/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The holder listens on the name; a waiter connects to it and sleeps until the connection breaks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "engine/join_lock.h"
#include "explain/reason.h"

enum {
	PATIENCE_MS = 20000,
	RETRY_MS = 10, /* when the holder's backlog is full */
	BACKLOG = 1024,
};

static const char lock_name[] = "\0verbatim/join";

static long elapsed_ms(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000;
}

static socklen_t lock_address(struct sockaddr_un *address)
{
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	memcpy(address->sun_path, lock_name, sizeof(lock_name) - 1);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(lock_name) - 1);
}

/* Sleeps until the holder lets go, or `ms` are over. Who the holder is, 0 if unknown. */
static pid_t wait_for_holder(int ms)
{
	struct sockaddr_un address;
	socklen_t length = lock_address(&address);
	struct ucred holder = {0};
	socklen_t size = sizeof(holder);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd hangup = {.fd = fd, .events = 0};

	if (fd < 0)
		return 0;
	if (connect(fd, (struct sockaddr *)&address, length) == 0) {
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &holder, &size);
		poll(&hangup, 1, ms);
	} else if (errno == EAGAIN) {
		poll(NULL, 0, RETRY_MS);
	}
	close(fd);
	return holder.pid;
}

int join_lock(void)
{
	struct timespec start;
	struct sockaddr_un address;
	socklen_t length = lock_address(&address);
	pid_t holder = 0;
	long waited;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -refuse(REASON_NO_DESCRIPTOR, "join lock: %s", strerror(errno));
	clock_gettime(CLOCK_MONOTONIC, &start);
	while ((waited = elapsed_ms(&start)) < PATIENCE_MS) {
		if (bind(fd, (struct sockaddr *)&address, length) == 0) {
			listen(fd, BACKLOG);
			return fd;
		}
		if (errno != EADDRINUSE)
			break;
		holder = wait_for_holder((int)(PATIENCE_MS - waited));
	}
	close(fd);
	return -refuse(REASON_JOIN_LOCK_HELD, "process %d has had it for %d s", (int)holder,
		       PATIENCE_MS / 1000);
}

int join_trylock(void)
{
	struct sockaddr_un address;
	socklen_t length = lock_address(&address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	close(fd);
	return -EBUSY;
}

void join_unlock(int lock)
{
	close(lock);
}
