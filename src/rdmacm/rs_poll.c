/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpoll() and rselect(): rsockets and other descriptors together. What holds now is looked at
 * first; then queues are armed and the kernel waits for all that can bring news.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdmacm/face.h"
#include "rdmacm/rs.h"

enum { SPIN_NS = 10000, DESCRIPTORS = 2 /* of an rsocket, to wait on */ };

short rs_events(struct rsock *rs)
{
	short events = 0;

	if (rs->type == SOCK_DGRAM)
		return rs_datagram_events(rs);
	if (rs->state == RS_LISTENING)
		return rs->ready_count ? POLLIN | POLLRDNORM : 0;
	if (rs->cq)
		rs_progress(rs);
	rs_take_cm_events(rs);
	switch (rs->state) {
	case RS_CONNECTED:
		if (rs_has_data(rs) || !rs->can_read)
			events |= POLLIN | POLLRDNORM;
		if (!rs->can_read)
			events |= POLLRDHUP;
		if (rs->can_write && rs_can_send(rs))
			events |= POLLOUT | POLLWRNORM;
		return events;
	case RS_DISCONNECTED: /* not before the program has read all that came */
		if (rs_has_data(rs))
			return POLLIN | POLLRDNORM | POLLRDHUP;
		return POLLIN | POLLRDNORM | POLLOUT | POLLHUP | POLLRDHUP;
	case RS_ERROR:
		return POLLIN | POLLRDNORM | POLLOUT | POLLERR | POLLHUP | POLLRDHUP;
	case RS_INIT:
	case RS_BOUND:
		return POLLOUT | POLLHUP;
	default:
		return 0;
	}
}

static short look(struct rsock *rs, short wanted)
{
	short events;

	rs_lock(rs);
	events = rs_events(rs) & (wanted | POLLERR | POLLHUP | POLLNVAL);
	rs_unlock(rs);
	return events;
}

/* What holds of the rsockets. */
static int look_at_all(struct pollfd *fds, nfds_t count)
{
	int found = 0;

	for (nfds_t i = 0; i < count; i++) {
		struct rsock *rs = fds[i].fd >= 0 && rs_is(fds[i].fd) ? rs_find(fds[i].fd) : NULL;

		fds[i].revents = rs ? look(rs, fds[i].events) : 0;
		found += fds[i].revents != 0;
	}
	return found;
}

/* ---- waiting ---- */

struct wait {
	struct pollfd *kernel; /* the wake descriptor, then DESCRIPTORS for each */
	struct rs_poller *pollers;
	nfds_t count;
};

static int fd_to_wait_on(struct rsock *rs)
{
	if (rs->type == SOCK_DGRAM)
		return rs_datagram_arm(rs);
	if (rs->state == RS_LISTENING)
		return rs->ready_fd;
	return rs->channel ? rs->channel->fd : rs->fd;
}

static void enter(struct wait *wait, struct pollfd *fds, int wake)
{
	wait->kernel[0] = (struct pollfd){.fd = wake, .events = POLLIN};
	for (nfds_t i = 0; i < wait->count; i++) {
		struct rsock *rs = fds[i].fd >= 0 && rs_is(fds[i].fd) ? rs_find(fds[i].fd) : NULL;
		struct pollfd *kernel = &wait->kernel[1 + i * DESCRIPTORS];

		kernel[0] = (struct pollfd){.fd = fds[i].fd, .events = fds[i].events};
		kernel[1] = (struct pollfd){.fd = -1};
		wait->pollers[i].wake = -1;
		if (!rs)
			continue;
		rs_lock(rs);
		wait->pollers[i].wake = wake;
		cds_list_add(&wait->pollers[i].node, &rs->pollers);
		kernel[0] = (struct pollfd){.fd = fd_to_wait_on(rs), .events = POLLIN};
		kernel[1] = (struct pollfd){.fd = rs->comp ? rs->comp->fd : -1, .events = POLLIN};
		if (rs->type == SOCK_STREAM)
			rs_arm(rs);
		rs_unlock(rs);
	}
}

static void leave(struct wait *wait, struct pollfd *fds)
{
	for (nfds_t i = 0; i < wait->count; i++) {
		struct rsock *rs;

		if (wait->pollers[i].wake < 0)
			continue;
		rs = rs_find(fds[i].fd);
		if (!rs)
			continue; /* closed meanwhile, and its list with it */
		rs_lock(rs);
		cds_list_del(&wait->pollers[i].node);
		rs_unlock(rs);
	}
}

/* What the kernel says of the others. */
static int take_over(const struct wait *wait, struct pollfd *fds)
{
	int found = 0;

	for (nfds_t i = 0; i < wait->count; i++) {
		if (wait->pollers[i].wake < 0 && fds[i].fd >= 0)
			fds[i].revents = wait->kernel[1 + i * DESCRIPTORS].revents;
		found += fds[i].revents != 0;
	}
	return found;
}

static int milliseconds_left(uint64_t end)
{
	uint64_t now = manager_now();

	if (end == UINT64_MAX)
		return -1;
	return now >= end ? 0 : (int)((end - now + 999999) / 1000000);
}

static int wait_for(struct wait *wait, struct pollfd *fds, uint64_t end)
{
	static _Thread_local int wake = -1;
	uint64_t ignored;
	int found;

	if (wake < 0)
		wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake < 0)
		return -1;
	for (;;) {
		int left = milliseconds_left(end), polled;

		enter(wait, fds, wake);
		found = look_at_all(fds, wait->count);
		polled = poll(wait->kernel, 1 + wait->count * DESCRIPTORS, found ? 0 : left);
		leave(wait, fds);
		if (polled < 0)
			return -1;
		if (read(wake, &ignored, sizeof(ignored)) < 0)
			errno = 0;
		if (!found)
			look_at_all(fds, wait->count);
		found = take_over(wait, fds);
		if (found || left == 0)
			return found;
	}
}

static bool has_rsocket(const struct pollfd *fds, nfds_t count)
{
	for (nfds_t i = 0; i < count; i++)
		if (fds[i].fd >= 0 && rs_is(fds[i].fd))
			return true;
	return false;
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	uint64_t now = manager_now(), end;
	struct wait wait = {.count = nfds};
	int found = 0;

	if (!has_rsocket(fds, nfds))
		return poll(fds, nfds, timeout);
	end = timeout < 0 ? UINT64_MAX : now + (uint64_t)timeout * 1000000;
	do {
		found = look_at_all(fds, nfds);
	} while (!found && timeout && manager_now() < now + SPIN_NS);
	wait.kernel = calloc(1 + nfds * DESCRIPTORS, sizeof(struct pollfd));
	wait.pollers = calloc(nfds + 1, sizeof(struct rs_poller));
	if (!wait.kernel || !wait.pollers) {
		free(wait.kernel);
		free(wait.pollers);
		return rs_fail(ENOMEM);
	}
	found = wait_for(&wait, fds, found ? now : end);
	free(wait.kernel);
	free(wait.pollers);
	return found;
}

/* ---- select ---- */

static bool is_in(int fd, const fd_set *set)
{
	return set && FD_ISSET(fd, set);
}

static nfds_t from_sets(int nfds, const fd_set *in, const fd_set *out, const fd_set *error,
			struct pollfd *fds)
{
	nfds_t count = 0;

	for (int fd = 0; fd < nfds; fd++) {
		short events = (is_in(fd, in) ? POLLIN : 0) | (is_in(fd, out) ? POLLOUT : 0) |
			       (is_in(fd, error) ? POLLPRI : 0);

		if (events)
			fds[count++] = (struct pollfd){.fd = fd, .events = events};
	}
	return count;
}

static int keep(const struct pollfd *fd, short events, fd_set *set)
{
	if (!set || !FD_ISSET(fd->fd, set))
		return 0;
	if (fd->revents & events)
		return 1;
	FD_CLR(fd->fd, set);
	return 0;
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	struct pollfd fds[FD_SETSIZE];
	nfds_t count;
	int result = 0, ms = -1;

	if (nfds < 0 || nfds > FD_SETSIZE)
		return rs_fail(EINVAL);
	if (timeout)
		ms = (int)(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
	count = from_sets(nfds, readfds, writefds, exceptfds, fds);
	if (rpoll(fds, count, ms) < 0)
		return -1;
	for (nfds_t i = 0; i < count; i++) {
		result += keep(&fds[i], POLLIN | POLLHUP | POLLERR, readfds);
		result += keep(&fds[i], POLLOUT | POLLERR, writefds);
		result += keep(&fds[i], POLLPRI, exceptfds);
	}
	return result;
}
