/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels. A channel lists the CQs that have events, each with its number of them, so
 * that raising one needs no memory. The descriptor is readable while the list is not empty.
 */
#include <stdlib.h>
#include <unistd.h>

#include "verbs/face.h"

static struct channel *channel_of(struct ibv_comp_channel *ibv)
{
	return (struct channel *)ibv;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ibv)
{
	UNCANCELLED;
	struct context *context = context_of(ibv);
	struct channel *channel = calloc(1, sizeof(*channel));
	int fd;

	if (!channel) {
		errno = refuse(REASON_NO_MEMORY, "for a completion channel");
		return NULL;
	}
	fd = event_fd_open();
	if (fd < 0) {
		free(channel);
		errno = refuse(REASON_NO_EVENT_FD, "%s", strerror(-fd));
		return NULL;
	}
	channel->ibv.context = ibv;
	channel->ibv.fd = fd;
	pthread_mutex_init(&channel->lock, NULL);
	CDS_INIT_LIST_HEAD(&channel->ready);
	atomic_fetch_add(&context->objects, 1);
	return &channel->ibv;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	UNCANCELLED;
	struct channel *channel = channel_of(ibv);
	int users;

	pthread_mutex_lock(&channel->lock);
	users = ibv->refcnt;
	pthread_mutex_unlock(&channel->lock);
	if (users)
		return verb_result(
		    refuse(REASON_CHANNEL_BUSY, "the channel still serves %d CQs", users));
	atomic_fetch_sub(&context_of(ibv->context)->objects, 1);
	close(ibv->fd);
	pthread_mutex_destroy(&channel->lock);
	free(channel);
	return 0;
}

void channel_tie(struct face_cq *face)
{
	pthread_mutex_lock(&face->channel->lock);
	face->channel->ibv.refcnt++;
	pthread_mutex_unlock(&face->channel->lock);
}

void channel_armed(struct cq *cq)
{
	struct channel *channel = face_of_cq(cq)->channel;
	unsigned int lanes = atomic_load_explicit(&cq->lanes, memory_order_relaxed);
	bool will_look = false;

	if (channel) {
		pthread_mutex_lock(&channel->lock);
		atomic_fetch_or_explicit(&channel->lanes, lanes, memory_order_relaxed);
		will_look = lookout_may(&channel->lookout);
		pthread_mutex_unlock(&channel->lock);
	}
	if (!will_look)
		engine_will_sleep(cq->adapter, lanes);
}

/* The descriptor is readable while there is an event, unless somebody is looking for them. Holds
 * channel->lock. */
static void raise_event(struct channel *channel)
{
	if (!channel->is_raised)
		channel->raised_at = engine_now();
	channel->is_raised = true;
	event_fd_raise(channel->ibv.fd);
}

static void clear_event(struct channel *channel)
{
	if (channel->is_raised)
		event_fd_clear(channel->ibv.fd);
	channel->is_raised = false;
}

void channel_cq_event(struct cq *cq)
{
	UNCANCELLED;
	struct face_cq *face = face_of_cq(cq);
	struct channel *channel = face->channel;

	if (!channel)
		return;
	pthread_mutex_lock(&channel->lock);
	if (!face->pending++)
		cds_list_add_tail(&face->node, &channel->ready);
	if (!channel->is_looking_out)
		raise_event(channel);
	pthread_mutex_unlock(&channel->lock);
}

/* The next event's CQ, NULL if there is none. Holds channel->lock. */
static struct face_cq *take(struct channel *channel)
{
	struct face_cq *face;

	if (cds_list_empty(&channel->ready))
		return NULL;
	face = cds_list_first_entry(&channel->ready, struct face_cq, node);
	cds_list_del(&face->node);
	if (--face->pending)
		cds_list_add_tail(&face->node, &channel->ready);
	else if (cds_list_empty(&channel->ready))
		clear_event(channel);
	face->delivered++;
	return face;
}

static bool take_locked(struct channel *channel, struct ibv_cq **cq, void **cq_context)
{
	UNCANCELLED;
	struct face_cq *face;

	pthread_mutex_lock(&channel->lock);
	face = take(channel);
	if (face) {
		*cq = &face->cq->ibv;
		*cq_context = face->cq->ibv.cq_context;
	}
	pthread_mutex_unlock(&channel->lock);
	return face;
}

/* How long this thread, which found no event, is to look for one; 0: not at all. It is the only one
 * to wait here, as far as it seems. */
static uint64_t lookout_begin(struct channel *channel)
{
	bool may, is_alone;
	uint64_t patience;

	pthread_mutex_lock(&channel->lock);
	is_alone = pthread_equal(channel->waiter, pthread_self()) && !channel->is_looking_out;
	channel->waiter = pthread_self();
	if (!is_alone)
		lookout_not(&channel->lookout);
	may = lookout_may(&channel->lookout) && cds_list_empty(&channel->ready);
	channel->is_looking_out |= may;
	patience = may ? lookout_patience(&channel->lookout) : 0;
	pthread_mutex_unlock(&channel->lock);
	return patience;
}

static void lookout_end(struct channel *channel, bool has_found, uint64_t took)
{
	pthread_mutex_lock(&channel->lock);
	channel->is_looking_out = false;
	lookout_looked(&channel->lookout, has_found, took);
	if (!cds_list_empty(&channel->ready) && !channel->is_raised)
		raise_event(channel);
	pthread_mutex_unlock(&channel->lock);
}

/* Does the work of the lanes' threads for a while. True if there was an event, which is taken. */
static bool look_out(struct channel *channel, uint64_t since, uint64_t patience, struct ibv_cq **cq,
		     void **cq_context)
{
	UNCANCELLED;
	struct adapter *adapter = context_of(channel->ibv.context)->adapter;
	unsigned int lanes = atomic_load_explicit(&channel->lanes, memory_order_relaxed);
	bool has_found;
	uint64_t took;

	do {
		engine_look_out(adapter, lanes);
		has_found = take_locked(channel, cq, cq_context);
		took = engine_now() - since;
	} while (!has_found && took < patience);
	lookout_end(channel, has_found, took);
	return has_found;
}

/* This thread sleeps, and did not tell the lanes' threads when it armed its CQs. */
static void give_over(struct channel *channel)
{
	UNCANCELLED;

	engine_will_sleep(context_of(channel->ibv.context)->adapter,
			  atomic_load_explicit(&channel->lanes, memory_order_relaxed));
}

static void learn(struct channel *channel, uint64_t since, uint64_t now)
{
	pthread_mutex_lock(&channel->lock);
	if (channel->raised_at > since && channel->raised_at < now)
		lookout_woke(&channel->lookout, now - channel->raised_at);
	lookout_slept(&channel->lookout, now - since);
	pthread_mutex_unlock(&channel->lock);
}

int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **cq_context)
{
	struct channel *channel = channel_of(ibv);
	uint64_t since, patience;

	if (take_locked(channel, cq, cq_context)) {
		engine_was_told();
		return 0;
	}
	if (event_fd_may_wait(ibv->fd))
		return -1;
	since = engine_now();
	patience = lookout_begin(channel);
	if (patience && look_out(channel, since, patience, cq, cq_context))
		return 0;
	give_over(channel);
	do {
		if (event_fd_wait(ibv->fd))
			return -1;
	} while (!take_locked(channel, cq, cq_context));
	if (!patience)
		learn(channel, since, engine_now());
	engine_was_told();
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/* The CQ completes nothing any more, so nothing comes after what is pending now. */
void channel_cut(struct face_cq *face)
{
	struct channel *channel = face->channel;
	struct ibv_cq *cq = &face->cq->ibv;
	unsigned int delivered;

	pthread_mutex_lock(&channel->lock);
	if (face->pending) {
		face->pending = 0;
		cds_list_del(&face->node);
		if (cds_list_empty(&channel->ready))
			clear_event(channel);
	}
	delivered = face->delivered;
	pthread_mutex_unlock(&channel->lock);

	pthread_mutex_lock(&cq->mutex);
	while (cq->comp_events_completed != delivered)
		pthread_cond_wait(&cq->cond, &cq->mutex);
	pthread_mutex_unlock(&cq->mutex);

	pthread_mutex_lock(&channel->lock);
	channel->ibv.refcnt--;
	pthread_mutex_unlock(&channel->lock);
}
