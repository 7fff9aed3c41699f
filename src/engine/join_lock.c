/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The holder listens on the name; a waiter connects to it and sleeps until the connection breaks.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
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

static long elapsed_ms(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000;
}

static socklen_t lock_address(const union ibv_gid *gid, uint32_t scope, struct sockaddr_un *address)
{
	int length;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
			  "verbatim/join/%016llx%016llx.%u",
			  (unsigned long long)be64toh(gid->global.subnet_prefix),
			  (unsigned long long)be64toh(gid->global.interface_id), scope);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* Sleeps until the holder lets go, or `ms` are over. Who the holder is, 0 if unknown. */
static pid_t wait_for_holder(const struct sockaddr_un *address, socklen_t length, int ms)
{
	struct ucred holder = {0};
	socklen_t size = sizeof(holder);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd hangup = {.fd = fd, .events = 0};

	if (fd < 0)
		return 0;
	if (connect(fd, (const struct sockaddr *)address, length) == 0) {
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &holder, &size);
		poll(&hangup, 1, ms);
	} else if (errno == EAGAIN) {
		poll(NULL, 0, RETRY_MS);
	}
	close(fd);
	return holder.pid;
}

int join_lock(const union ibv_gid *gid, uint32_t scope)
{
	struct timespec start;
	struct sockaddr_un address;
	socklen_t length = lock_address(gid, scope, &address);
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
		holder = wait_for_holder(&address, length, (int)(PATIENCE_MS - waited));
	}
	close(fd);
	return -refuse(REASON_JOIN_LOCK_HELD, "process %d has had it for %d s", (int)holder,
		       PATIENCE_MS / 1000);
}

int join_trylock(const union ibv_gid *gid, uint32_t scope)
{
	struct sockaddr_un address;
	socklen_t length = lock_address(gid, scope, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&address, length) == 0) {
		listen(fd, BACKLOG);
		return fd;
	}
	close(fd);
	return -1;
}

void join_unlock(int lock)
{
	close(lock);
}
