/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening another process's XRC_RECV QP: the opener's part. visitor.c is the home's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device/adapter.h"
#include "engine/opening.h"
#include "engine/state.h"
#include "engine/visitor.h"
#include "explain/reason.h"

enum { PATIENCE_MS = 5000, RETRIES = 100, MOMENT_US = 200 };

/* The place of each descriptor among those that a fork closes. */
struct opening {
	struct cds_list_head node;
	struct engine *engine;
	struct qp *qp;
	pthread_mutex_t lock; /* a call at a time; guards is_broken */
	bool is_broken;
	int calls, events;
	int calls_place, events_place;
};

void openings_init(struct openings *openings)
{
	pthread_mutex_init(&openings->call_lock, NULL);
	pthread_mutex_init(&openings->lock, NULL);
	CDS_INIT_LIST_HEAD(&openings->visitors);
	CDS_INIT_LIST_HEAD(&openings->openings);
}

void openings_fini(struct openings *openings)
{
	pthread_mutex_destroy(&openings->lock);
	pthread_mutex_destroy(&openings->call_lock);
}

/* ---- calls ---- */

static int refuse_gone(const struct qp *qp)
{
	return refuse(REASON_QP_HOME_GONE, "QP %#x was created by the process of slot %u",
		      qp->number, qp->number >> QPN_SLOT_SHIFT);
}

/* With the lock. What does not answer now is not asked again: its answer could come later. */
static bool ask(struct opening *opening, const struct visitor_call *call,
		struct visitor_answer *answer)
{
	struct pollfd readable = {.fd = opening->calls, .events = POLLIN};

	if (opening->is_broken)
		return false;
	opening->is_broken =
	    send(opening->calls, call, sizeof(*call), MSG_NOSIGNAL | MSG_DONTWAIT) !=
		sizeof(*call) ||
	    poll(&readable, 1, PATIENCE_MS) <= 0 ||
	    recv(opening->calls, answer, sizeof(*answer), MSG_DONTWAIT) != sizeof(*answer);
	return !opening->is_broken;
}

static bool ask_locked(struct opening *opening, const struct visitor_call *call,
		       struct visitor_answer *answer)
{
	bool is_answered;

	pthread_mutex_lock(&opening->lock);
	is_answered = ask(opening, call, answer);
	pthread_mutex_unlock(&opening->lock);
	return is_answered;
}

/* A refusal is the home's own: the same reason. */
static int call_home(struct opening *opening, const struct visitor_call *call,
		     struct visitor_answer *answer)
{
	const struct reason_text *why;

	if (!ask_locked(opening, call, answer))
		return refuse_gone(opening->qp);
	if (!answer->error)
		return 0;
	why = reason_find(answer->reason);
	if (!why || !why->shows.error)
		return answer->error;
	answer->live[sizeof(answer->live) - 1] = 0;
	return refuse(why->number, "%s", answer->live);
}

int opening_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct visitor_call call = {.kind = VISITOR_MODIFY, .mask = mask, .attr = *attr};
	struct visitor_answer answer;
	int error = call_home(qp->opening, &call, &answer);

	if (!error)
		atomic_store(&qp->state, answer.attr.qp_state);
	return error;
}

int opening_query(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	struct visitor_call call = {.kind = VISITOR_QUERY};
	struct visitor_answer answer;
	int error = call_home(qp->opening, &call, &answer);

	if (error)
		return error;
	*attr = answer.attr;
	memset(init, 0, sizeof(*init));
	init->qp_type = IBV_QPT_XRC_RECV;
	atomic_store(&qp->state, answer.attr.qp_state);
	return 0;
}

/* ---- opening ---- */

static int send_request(struct engine *engine, const struct adapter *adapter,
			const struct xrc_domain *domain, uint32_t number, const int ends[2])
{
	struct xrcd_file file = domain->file;
	struct meeting meeting;
	struct iovec iov[2] = {{&meeting, sizeof(meeting)}, {&file, sizeof(file)}};
	struct mail_address to;
	int error, tries = RETRIES;

	meeting_head(&meeting, MEETING_VISIT);
	meeting.question = number;
	meeting.scope = station_of(adapter)->info.ifindex;
	meeting.slot = engine->slot.number;
	mail_address_of_slot(number >> QPN_SLOT_SHIFT, &to);
	do {
		error = mail_send(engine->slot.fd, &to, iov, 2, ends, 2);
	} while (error == -EAGAIN && tries-- > 0 && usleep(MOMENT_US) == 0);
	return error;
}

/* Nobody forks while descriptors are in hand. */
static int connect_home(struct opening *opening, const struct xrc_domain *domain)
{
	struct held *held = &opening->engine->held;
	int calls[2] = {-1, -1}, events[2] = {-1, -1}, error = -EMFILE;

	if (!engine_lock_running(opening->engine))
		return -ENODEV;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, calls) == 0 &&
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, events) == 0)
		error = send_request(opening->engine, opening->qp->adapter, domain,
				     opening->qp->number, (int[]){calls[1], events[1]});
	close(calls[1]);
	close(events[1]);
	opening->calls = calls[0];
	opening->events = events[0];
	opening->calls_place = calls[0] >= 0 ? held_add(held, calls[0]) : -1;
	opening->events_place = events[0] >= 0 ? held_add(held, events[0]) : -1;
	if (opening->calls_place < 0 || opening->events_place < 0)
		error = -EMFILE;
	engine_unlock();
	return error;
}

static void disconnect(struct opening *opening)
{
	struct held *held = &opening->engine->held;

	if (opening->calls_place >= 0)
		held_close(held, opening->calls_place);
	else if (opening->calls >= 0)
		close(opening->calls);
	if (opening->events_place >= 0)
		held_close(held, opening->events_place);
	else if (opening->events >= 0)
		close(opening->events);
}

/* Or it polls what it knew before. */
static void wake_mail_thread(struct engine *engine)
{
	struct mail_address self;
	struct meeting meeting;
	struct iovec iov = {&meeting, sizeof(meeting)};

	meeting_head(&meeting, MEETING_LINE);
	mail_address_of_slot(engine->slot.number, &self);
	mail_send(engine->slot.fd, &self, &iov, 1, NULL, 0); /* full: it wakes up anyway */
}

static struct qp *make(struct adapter *adapter, struct xrc_domain *domain, uint32_t number)
{
	struct qp *qp = qp_create_branch(adapter, domain, number);
	struct opening *opening = qp ? calloc(1, sizeof(*opening)) : NULL;

	if (!opening) {
		if (qp) {
			qp->domain = NULL;
			qp_free(qp);
		}
		return NULL;
	}
	opening->engine = station_of(adapter)->engine;
	opening->qp = qp;
	opening->calls_place = opening->events_place = -1;
	pthread_mutex_init(&opening->lock, NULL);
	CDS_INIT_LIST_HEAD(&opening->node);
	qp->opening = opening;
	return qp;
}

int engine_open_qp(struct adapter *adapter, struct xrc_domain *domain, uint32_t number,
		   struct qp **result)
{
	const struct visitor_call call = {.kind = VISITOR_QUERY};
	struct visitor_answer answer;
	struct qp *qp;
	int error;

	if (domain->is_private || number >> QPN_SLOT_SHIFT == adapter->slot)
		return refuse(REASON_QP_OPEN_NONE, "QP %#x", number);
	xrc_domain_get(adapter, domain);
	qp = make(adapter, domain, number);
	if (!qp) {
		xrc_domain_put(adapter, domain);
		return refuse(REASON_NO_MEMORY, "for a QP");
	}
	error = connect_home(qp->opening, domain);
	/* it answers, or hangs up because it has no such QP */
	if (error || !ask_locked(qp->opening, &call, &answer)) {
		opening_free(qp);
		return refuse(REASON_QP_OPEN_NONE, "QP %#x, of another process", number);
	}
	atomic_store(&qp->state, answer.attr.qp_state);
	*result = qp;
	return 0;
}

void engine_follow_qp(struct qp *qp)
{
	struct engine *engine = qp->opening->engine;

	pthread_mutex_lock(&engine->openings.lock);
	cds_list_add_tail(&qp->opening->node, &engine->openings.openings);
	pthread_mutex_unlock(&engine->openings.lock);
	wake_mail_thread(engine);
}

void opening_free(struct qp *qp)
{
	struct opening *opening = qp->opening;
	struct openings *openings = &opening->engine->openings;
	const struct visitor_call call = {.kind = VISITOR_LEAVE};
	struct visitor_answer answer;

	/* when this is done, so is the QP if nobody else has it open */
	ask_locked(opening, &call, &answer);
	/* the mail thread may be about to tell an event */
	pthread_mutex_lock(&openings->call_lock);
	pthread_mutex_lock(&openings->lock);
	cds_list_del(&opening->node);
	pthread_mutex_unlock(&openings->lock);
	disconnect(opening);
	pthread_mutex_unlock(&openings->call_lock);
	pthread_mutex_destroy(&opening->lock);
	free(opening);
	qp_free(qp);
}

/* ---- events ---- */

unsigned int opening_fds(const struct openings *openings, struct pollfd *fds, unsigned int room)
{
	struct opening *opening;
	unsigned int count = 0;

	cds_list_for_each_entry (opening, &openings->openings, node)
		if (count < room && !atomic_load(&opening->qp->is_orphan))
			fds[count++] = (struct pollfd){opening->events, POLLIN, 0};
	return count;
}

static struct opening *find(struct openings *openings, int fd)
{
	struct opening *opening, *found = NULL;

	pthread_mutex_lock(&openings->lock);
	cds_list_for_each_entry (opening, &openings->openings, node)
		if (opening->events == fd)
			found = opening;
	pthread_mutex_unlock(&openings->lock);
	return found;
}

/* With the call lock. Hung up: the home is gone, and the QP with it. */
bool opening_hear(struct openings *openings, int fd)
{
	struct opening *opening = find(openings, fd);
	uint32_t type;
	ssize_t length;

	if (!opening)
		return false;
	length = recv(fd, &type, sizeof(type), MSG_DONTWAIT);
	if (length == sizeof(type)) {
		qp_event(opening->qp, (enum ibv_event_type)type);
	} else if (length == 0 || (errno != EAGAIN && errno != EINTR)) {
		atomic_store(&opening->qp->state, IBV_QPS_ERR);
		atomic_store(&opening->qp->is_orphan, true);
		qp_event(opening->qp, IBV_EVENT_QP_FATAL);
	}
	return true;
}
