/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels: a list of events, and a descriptor that holds one token for each.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdmacm/face.h"

struct channel *channel_create(void)
{
	struct channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	CDS_INIT_LIST_HEAD(&channel->events);
	channel->cm.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (channel->cm.fd >= 0)
		return channel;
	free(channel);
	return NULL;
}

/* With the lock, as all tokens are taken: what poll() found is there. */
void channel_take_token(struct channel *channel)
{
	struct pollfd readable = {.fd = channel->cm.fd, .events = POLLIN};
	uint64_t token;

	if (poll(&readable, 1, 0) > 0 && read(channel->cm.fd, &token, sizeof(token)) < 0)
		return;
}

static void channel_empty(struct channel *channel)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &channel->events, node) {
		cds_list_del(&event->node);
		channel_take_token(channel);
		free(event);
	}
}

void channel_forsake(struct channel *channel)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &channel->events, node)
		free(event);
	CDS_INIT_LIST_HEAD(&channel->events);
}

void channel_free(struct channel *channel)
{
	channel_empty(channel);
	close(channel->cm.fd);
	free(channel);
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *channel;
	int error;

	manager_lock();
	error = manager_start();
	manager_unlock();
	if (error) {
		errno = error;
		return NULL;
	}
	channel = channel_create();
	return channel ? &channel->cm : NULL;
}

/*
 * Programs with a thread that reads events (rping, and those made after it) destroy the channel
 * while that thread is about to read again. On the kernel's descriptor it mostly sleeps in the call
 * by then, and goes on doing so. So that the few nanoseconds in between do not end the program, the
 * last channels that were destroyed stay readable, and empty; at exit as well, when such a thread
 * still runs.
 */
static struct channel *destroyed[4];
static unsigned int destroyed_count;

void rdma_destroy_event_channel(struct rdma_event_channel *cm_channel)
{
	struct channel *channel = (struct channel *)cm_channel, **place;

	if (!channel)
		return;
	manager_lock();
	place = &destroyed[destroyed_count++ % (sizeof(destroyed) / sizeof(destroyed[0]))];
	if (*place)
		channel_free(*place);
	channel_empty(channel);
	*place = channel;
	manager_unlock();
}

/* ---- events ---- */

struct event *event_create(struct id *id, enum rdma_cm_event_type type, int status)
{
	struct event *event = calloc(1, sizeof(*event));

	if (!event)
		return NULL;
	event->cm.id = &id->cm;
	event->cm.event = type;
	event->cm.status = status;
	event->id = id;
	return event;
}

void event_set_data(struct event *event, const void *data, size_t length)
{
	memcpy(event->private_data, data, length);
	event->cm.param.conn.private_data = event->private_data;
	event->cm.param.conn.private_data_len = (uint8_t)length;
}

void event_post(struct event *event)
{
	struct channel *channel = (struct channel *)event->id->cm.channel;
	uint64_t one = 1;

	cds_list_add_tail(&event->node, &channel->events);
	if (write(channel->cm.fd, &one, sizeof(one)) < 0)
		return;
}

void event_tell(struct id *id, enum rdma_cm_event_type type, int status)
{
	struct event *event = event_create(id, type, status);

	if (event)
		event_post(event);
}

void events_drop(struct id *id)
{
	struct channel *channel = (struct channel *)id->cm.channel;
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &channel->events, node) {
		if (event->cm.id != &id->cm && event->id != id)
			continue;
		cds_list_del(&event->node);
		channel_take_token(channel);
		free(event);
	}
}

/* NULL if there is none. A thread that is cancelled is not while it has the lock. */
static struct event *take_event(struct channel *channel)
{
	struct event *event = NULL;
	int cancelled;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
	manager_lock();
	if (!cds_list_empty(&channel->events)) {
		event = cds_list_first_entry(&channel->events, struct event, node);
		cds_list_del(&event->node);
		channel_take_token(channel);
		event->id->delivered++;
		event->id->pending -= event->is_request;
	}
	manager_unlock();
	pthread_setcancelstate(cancelled, NULL);
	return event;
}

/* As a read() of the channel's descriptor would. 0, or -1 and errno. */
static int wait_for_event(const struct channel *channel)
{
	struct pollfd readable = {.fd = channel->cm.fd, .events = POLLIN};
	int flags = fcntl(channel->cm.fd, F_GETFL);

	if (flags < 0)
		return -1;
	if (flags & O_NONBLOCK)
		return cm_result(EAGAIN);
	return poll(&readable, 1, -1) < 0 ? -1 : 0;
}

int rdma_get_cm_event(struct rdma_event_channel *cm_channel, struct rdma_cm_event **result)
{
	struct channel *channel = (struct channel *)cm_channel;
	struct event *event;

	if (!channel)
		return cm_result(EINVAL);
	while (!(event = take_event(channel)))
		if (wait_for_event(channel))
			return -1;
	*result = &event->cm;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *cm_event)
{
	struct event *event = (struct event *)cm_event;

	if (!event)
		return cm_result(EINVAL);
	manager_lock();
	event->id->delivered--;
	manager_wake();
	manager_unlock();
	free(event);
	return 0;
}

int rdma_write_cm_event(struct rdma_cm_id *cm_id, enum rdma_cm_event_type type, int status,
			uint64_t arg)
{
	struct event *event;

	if (type != RDMA_CM_EVENT_USER)
		return cm_result(EINVAL);
	manager_lock();
	event = event_create(id_of(cm_id), type, status);
	if (event) {
		event->cm.param.arg = arg;
		event_post(event);
	}
	manager_unlock();
	return event ? 0 : cm_result(ENOMEM);
}

/* ---- synchronous ids ---- */

int id_complete(struct id *id)
{
	int error = 0;

	if (!id->is_sync)
		return 0;
	if (id->cm.event) {
		rdma_ack_cm_event(id->cm.event);
		id->cm.event = NULL;
	}
	if (rdma_get_cm_event(id->cm.channel, &id->cm.event))
		return -1;
	if (id->cm.event->event == RDMA_CM_EVENT_REJECTED)
		error = ECONNREFUSED;
	else if (id->cm.event->status)
		error = id->cm.event->status < 0 ? -id->cm.event->status : id->cm.event->status;
	return cm_result(error);
}
