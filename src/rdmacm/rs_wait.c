/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for something to happen on a stream. One thread at a time sleeps on the descriptors; the
 * others sleep on the condition. Whoever takes something off the queue tells them all, and those in
 * rpoll() too: it may be what another one waits for.
 */
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "rdmacm/face.h"
#include "rdmacm/rs.h"

enum { SPIN_NS = 10000 };

bool rs_is_nonblocking(const struct rsock *rs, int flags)
{
	return rs->fd_flags & O_NONBLOCK || flags & MSG_DONTWAIT;
}

void rs_wake_pollers(struct rsock *rs)
{
	struct rs_poller *poller;
	uint64_t one = 1;

	cds_list_for_each_entry (poller, &rs->pollers, node)
		if (write(poller->wake, &one, sizeof(one)) < 0)
			continue;
}

void rs_tell(struct rsock *rs)
{
	pthread_cond_broadcast(&rs->changed);
	rs_wake_pollers(rs);
}

static void take_channel_events(struct rsock *rs)
{
	struct ibv_cq *cq;
	void *context;

	while (rs->comp && ibv_get_cq_event(rs->comp, &cq, &context) == 0)
		rs->unacked_events++;
}

void rs_take_cm_events(struct rsock *rs)
{
	struct rdma_cm_event *event, copy;
	bool is_any = false;

	while (rs->channel && rs->state != RS_LISTENING &&
	       rdma_get_cm_event(rs->channel, &event) == 0) {
		copy = *event;
		rs_cm_event(rs, &copy);
		rdma_ack_cm_event(event);
		is_any = true;
	}
	if (is_any)
		rs_tell(rs);
}

bool rs_arm(struct rsock *rs)
{
	take_channel_events(rs);
	rs_take_cm_events(rs);
	if (!rs->cq)
		return true;
	ibv_req_notify_cq(rs->cq, 0);
	rs_progress(rs);
	return true;
}

/* Over, or never to be. */
static bool has_ended(const struct rsock *rs)
{
	return rs->state == RS_DISCONNECTED || rs->state == RS_ERROR;
}

static void look(struct rsock *rs)
{
	if (rs->cq)
		rs_progress(rs);
	rs_take_cm_events(rs);
}

/* A message within some microseconds is more likely than not, and a sleep costs more. */
static bool spin(struct rsock *rs, rs_condition condition)
{
	uint64_t end = manager_now() + SPIN_NS;

	do {
		look(rs);
		if (condition(rs) || has_ended(rs))
			return true;
	} while (rs->cq && manager_now() < end);
	return false;
}

/*
 * Until a descriptor says something, or another thread that took it off the queue first (rs_tell):
 * then the descriptor may be quiet again before this thread is on its feet. 0, EAGAIN or EINTR.
 */
static int sleep_on_descriptors(struct rsock *rs, int timeout_ms)
{
	struct pollfd fds[3] = {{.fd = rs->channel->fd, .events = POLLIN},
				{.fd = rs->comp ? rs->comp->fd : -1, .events = POLLIN}};
	struct rs_poller poller;
	uint64_t ignored;
	int count;

	if (rs->waiter_fd < 0)
		rs->waiter_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (rs->waiter_fd < 0)
		return errno;
	fds[2] = (struct pollfd){.fd = rs->waiter_fd, .events = POLLIN};
	poller.wake = rs->waiter_fd;
	cds_list_add(&poller.node, &rs->pollers);
	rs->has_waiter = true;
	rs_unlock(rs);
	count = poll(fds, 3, timeout_ms);
	if (count < 0)
		count = -errno;
	rs_lock(rs);
	rs->has_waiter = false;
	cds_list_del(&poller.node);
	if (read(rs->waiter_fd, &ignored, sizeof(ignored)) < 0)
		errno = 0;
	take_channel_events(rs);
	look(rs);
	rs_tell(rs);
	return count > 0 ? 0 : count == 0 ? EAGAIN : -count;
}

static int sleep_on_condition(struct rsock *rs, int timeout_ms)
{
	struct timespec end;

	if (timeout_ms < 0)
		return pthread_cond_wait(&rs->changed, &rs->lock);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += timeout_ms / 1000;
	end.tv_nsec += timeout_ms % 1000 * 1000000L;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	return pthread_cond_timedwait(&rs->changed, &rs->lock, &end) ? EAGAIN : 0;
}

int rs_wait(struct rsock *rs, rs_condition condition, int timeout_ms)
{
	uint64_t end = timeout_ms < 0 ? UINT64_MAX : manager_now() + (uint64_t)timeout_ms * 1000000;

	look(rs);
	if (condition(rs) || has_ended(rs))
		return 0;
	if (timeout_ms && spin(rs, condition))
		return 0;
	for (;;) {
		uint64_t now = manager_now();
		int left = timeout_ms < 0 ? -1 : now >= end ? 0 : (int)((end - now) / 1000000) + 1;
		int error;

		if (left == 0)
			return EAGAIN;
		if (rs->has_waiter) {
			error = sleep_on_condition(rs, left);
		} else {
			rs_arm(rs);
			if (condition(rs) || has_ended(rs))
				return 0;
			error = sleep_on_descriptors(rs, left);
		}
		look(rs);
		if (condition(rs) || has_ended(rs))
			return 0;
		if (error && error != EAGAIN)
			return error;
	}
}
