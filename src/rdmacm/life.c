/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the processes of this host live that connections lead to: each has a stream socket by a
 * name of its slot, to which the others connect. The kernel hangs up when a process dies, however
 * it dies. Who says something there is a tool that asks for the counters.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/slot.h"
#include "rdmacm/face.h"

static int listener = -1;
static int watched[QPN_SLOTS];	/* descriptor + 1 */
static bool is_dead[QPN_SLOTS]; /* found at once: told by the thread */
static bool has_dead;
static int *watchers; /* who watches us */
static unsigned int watcher_count, watcher_room;

int life_open(uint32_t slot)
{
	struct mail_address address;

	mail_address_of_life(slot, &address);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener < 0)
		return errno;
	if (bind(listener, (struct sockaddr *)&address.name, address.length) < 0 ||
	    listen(listener, SOMAXCONN) < 0)
		return errno;
	return manager_watch(listener, WATCH_LIFE, 0);
}

void life_abandon(void)
{
	for (uint32_t slot = 0; slot < QPN_SLOTS; slot++) {
		if (watched[slot])
			close(watched[slot] - 1);
		watched[slot] = 0;
		is_dead[slot] = false;
	}
	while (watcher_count)
		close(watchers[--watcher_count]);
	if (listener >= 0)
		close(listener);
	listener = -1;
	has_dead = false;
}

/* Descriptors are few where programs use select(): without one, the peer's death is not heard. */
void life_watch(uint32_t slot)
{
	struct mail_address address;
	int fd;

	if (watched[slot])
		return;
	mail_address_of_life(slot, &address);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	if (connect(fd, (struct sockaddr *)&address.name, address.length) == 0 &&
	    manager_watch(fd, WATCH_PEER, slot) == 0) {
		watched[slot] = fd + 1;
		return;
	}
	if (errno == ECONNREFUSED) {
		is_dead[slot] = has_dead = true;
		manager_kick();
	}
	close(fd);
}

void life_ended(uint32_t slot)
{
	if (!watched[slot])
		return;
	close(watched[slot] - 1);
	watched[slot] = 0;
	cm_peer_died(manager_cm(), slot, manager_now());
}

void life_run(void)
{
	for (uint32_t slot = 0; has_dead && slot < QPN_SLOTS; slot++)
		if (is_dead[slot]) {
			is_dead[slot] = false;
			cm_peer_died(manager_cm(), slot, manager_now());
		}
	has_dead = false;
}

/* Noted, so that a child of fork can close it: else the child's copy would live for us. */
static bool note_watcher(int fd)
{
	if (watcher_count == watcher_room) {
		unsigned int room = watcher_room ? 2 * watcher_room : 16;
		int *more = realloc(watchers, room * sizeof(*more));

		if (!more)
			return false;
		watchers = more;
		watcher_room = room;
	}
	watchers[watcher_count++] = fd;
	return true;
}

void life_accept(void)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0 && (manager_watch(fd, WATCH_WATCHER, 0) || !note_watcher(fd)))
		close(fd);
}

static void part(int fd)
{
	for (unsigned int i = 0; i < watcher_count; i++)
		if (watchers[i] == fd)
			watchers[i] = watchers[--watcher_count];
	close(fd);
}

static bool is_trusted(int fd)
{
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t length = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
		return false;
	return peer.uid == geteuid() || peer.uid == 0;
}

void life_read(int fd)
{
	char question, text[4096];

	if (recv(fd, &question, 1, MSG_DONTWAIT) == 1 && is_trusted(fd))
		if (send(fd, text, manager_counters(text, sizeof(text)),
			 MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			errno = 0; /* it has not waited */
	part(fd);
}
