/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for descriptors of the program: those of rsockets are put in the places of theirs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/rsocket.h>

#include "sockets.h"

static bool has_rsocket(const struct pollfd *fds, nfds_t count)
{
	for (nfds_t i = 0; i < count; i++)
		if (table_find(fds[i].fd) >= 0)
			return true;
	return false;
}

static int poll_with(struct pollfd *fds, nfds_t count, int timeout)
{
	struct pollfd *copy = malloc((count + 1) * sizeof(*copy));
	int found;

	if (!copy) {
		errno = ENOMEM;
		return -1;
	}
	for (nfds_t i = 0; i < count; i++) {
		int rs = table_find(fds[i].fd);

		copy[i] = fds[i];
		if (rs >= 0)
			copy[i].fd = rs;
	}
	found = rpoll(copy, count, timeout);
	for (nfds_t i = 0; i < count && found >= 0; i++)
		fds[i].revents = copy[i].revents;
	free(copy);
	return found;
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	if (!has_rsocket(fds, count))
		return libc.poll ? libc.poll(fds, count, timeout)
				 : (libc_find(), libc.poll(fds, count, timeout));
	return poll_with(fds, count, timeout);
}

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room);

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
	if (count > room / sizeof(*fds))
		abort();
	return poll(fds, count, timeout);
}

static int milliseconds(const struct timespec *timeout)
{
	if (!timeout)
		return -1;
	return (int)(timeout->tv_sec * 1000 + (timeout->tv_nsec + 999999) / 1000000);
}

/* With the signals let in around the wait rather than with it. */
int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals)
{
	sigset_t old;
	int found;

	if (signals)
		pthread_sigmask(SIG_SETMASK, signals, &old);
	found = poll(fds, count, milliseconds(timeout));
	if (signals)
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	return found;
}

/* ---- select ---- */

static bool is_in(int fd, const fd_set *set)
{
	return set && FD_ISSET(fd, set);
}

static nfds_t from_sets(int nfds, const fd_set *in, const fd_set *out, const fd_set *other,
			struct pollfd *fds)
{
	nfds_t count = 0;

	for (int fd = 0; fd < nfds && fd < FD_SETSIZE; fd++) {
		short events = (is_in(fd, in) ? POLLIN : 0) | (is_in(fd, out) ? POLLOUT : 0) |
			       (is_in(fd, other) ? POLLPRI : 0);

		if (events)
			fds[count++] = (struct pollfd){.fd = fd, .events = events};
	}
	return count;
}

static int keep(const struct pollfd *fd, short events, fd_set *set)
{
	if (!is_in(fd->fd, set))
		return 0;
	if (fd->revents & events)
		return 1;
	FD_CLR(fd->fd, set);
	return 0;
}

int select(int nfds, fd_set *in, fd_set *out, fd_set *other, struct timeval *timeout)
{
	struct pollfd fds[FD_SETSIZE];
	nfds_t count = from_sets(nfds, in, out, other, fds);
	int found = 0, ms = -1;

	if (!has_rsocket(fds, count))
		return libc.select(nfds, in, out, other, timeout);
	if (timeout)
		ms = (int)(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
	if (poll_with(fds, count, ms) < 0)
		return -1;
	for (nfds_t i = 0; i < count; i++) {
		found += keep(&fds[i], POLLIN | POLLHUP | POLLERR, in);
		found += keep(&fds[i], POLLOUT | POLLERR, out);
		found += keep(&fds[i], POLLPRI, other);
	}
	return found;
}

int pselect(int nfds, fd_set *in, fd_set *out, fd_set *other, const struct timespec *timeout,
	    const sigset_t *signals)
{
	struct timeval copy = {0};
	sigset_t old;
	int found;

	if (timeout)
		copy = (struct timeval){timeout->tv_sec, (timeout->tv_nsec + 999) / 1000};
	if (signals)
		pthread_sigmask(SIG_SETMASK, signals, &old);
	found = select(nfds, in, out, other, timeout ? &copy : NULL);
	if (signals)
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	return found;
}

/* ---- epoll ---- */

int epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
	table_find(-1);
	return sets_ctl(set, op, fd, event);
}

int epoll_wait(int set, struct epoll_event *events, int most, int timeout)
{
	table_find(-1);
	return sets_wait(set, events, most, timeout);
}

int epoll_pwait(int set, struct epoll_event *events, int most, int timeout, const sigset_t *signals)
{
	sigset_t old;
	int found;

	if (signals)
		pthread_sigmask(SIG_SETMASK, signals, &old);
	found = epoll_wait(set, events, most, timeout);
	if (signals)
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	return found;
}
