/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening another process's XRC_RECV QP: the opener's part. visitor.c is the home's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "device/adapter.h"
#include "engine/opening.h"
#include "engine/state.h"
#include "engine/visitor.h"
#include "explain/reason.h"
#include "transport/ledger.h"

enum {
	PATIENCE_MS = 5000,
	RETRIES = 100,
	MOMENT_US = 200,
	DOOR_MS = 10,  /* between two tries to open a QP */
	DOOR_SHUT = 3, /* tries that find nobody: who was asked may have been about to die */
};

void openings_init(struct openings *openings)
{
	pthread_mutexattr_t recursive;

	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&openings->call_lock, &recursive);
	pthread_mutexattr_destroy(&recursive);
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

static void deadline_of(struct timespec *deadline)
{
	clock_gettime(CLOCK_MONOTONIC, deadline);
	deadline->tv_sec += PATIENCE_MS / 1000;
}

/* With the lock. What does not answer now is not asked again: its answer could come later. What
 * hangs up is another matter: the next home is asked. */
static bool ask(struct opening *opening, const struct visitor_call *call,
		struct visitor_answer *answer)
{
	struct pollfd readable = {.fd = opening->calls, .events = POLLIN};
	ssize_t length = 0;

	if (opening->is_broken)
		return false;
	if (send(opening->calls, call, sizeof(*call), MSG_NOSIGNAL | MSG_DONTWAIT) ==
	    sizeof(*call)) {
		opening->is_broken = poll(&readable, 1, PATIENCE_MS) <= 0;
		if (!opening->is_broken)
			length = recv(opening->calls, answer, sizeof(*answer), MSG_DONTWAIT);
	}
	return length == sizeof(*answer);
}

/* With the lock. The mail thread finds out what has become of the home. False: not in time. */
static bool wait_for_change(struct opening *opening, unsigned int visits,
			    const struct timespec *deadline)
{
	int error = 0;

	while (!error && (opening->state == OPENING_SEEKS ||
			  (opening->state == OPENING_VISITS && opening->visits == visits)))
		error = pthread_cond_timedwait(&opening->changed, &opening->lock, deadline);
	return !error;
}

/* True with the answer; false, and the QP is here, or (NULL) not to be reached. */
static bool ask_home(struct opening *opening, const struct visitor_call *call,
		     struct visitor_answer *answer, struct qp **here)
{
	struct timespec deadline;
	bool is_answered = false, goes_on = true;

	deadline_of(&deadline);
	pthread_mutex_lock(&opening->lock);
	while (goes_on && !is_answered) {
		unsigned int visits = opening->visits;

		if (opening->state == OPENING_VISITS)
			is_answered = ask(opening, call, answer);
		if (opening->state == OPENING_HEIR || opening->state == OPENING_GONE ||
		    opening->is_broken)
			break;
		if (!is_answered)
			goes_on = wait_for_change(opening, visits, &deadline);
	}
	*here = opening->heir;
	pthread_mutex_unlock(&opening->lock);
	return is_answered;
}

/* A refusal is the home's own: the same reason. */
static int result_of(const struct visitor_answer *answer, char *live)
{
	const struct reason_text *why;

	if (!answer->error)
		return 0;
	why = reason_find(answer->reason);
	if (!why || !why->shows.error)
		return answer->error;
	live[sizeof(answer->live) - 1] = 0;
	return refuse(why->number, "%s", live);
}

int opening_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct visitor_call call = {.kind = VISITOR_MODIFY, .mask = mask, .attr = *attr};
	struct visitor_answer answer;
	struct qp *here;
	int error;

	if (ask_home(qp->opening, &call, &answer, &here)) {
		error = result_of(&answer, answer.live);
	} else {
		error = here ? engine_modify_qp(here, attr, mask) : refuse_gone(qp);
		answer.attr.qp_state = here ? atomic_load(&here->state) : IBV_QPS_ERR;
	}
	if (!error)
		atomic_store(&qp->state, answer.attr.qp_state);
	return error;
}

int opening_query(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	struct visitor_call call = {.kind = VISITOR_QUERY};
	struct visitor_answer answer;
	struct qp *here;
	int error;

	if (ask_home(qp->opening, &call, &answer, &here)) {
		error = result_of(&answer, answer.live);
		*attr = answer.attr;
		memset(init, 0, sizeof(*init));
		init->qp_type = IBV_QPT_XRC_RECV;
	} else {
		error = here ? engine_query_qp(here, attr, init) : refuse_gone(qp);
	}
	if (!error)
		atomic_store(&qp->state, attr->qp_state);
	return error;
}

/* ---- opening ---- */

static int send_request(const struct opening *opening, const struct mail_address *to, bool waits,
			const int ends[2])
{
	const struct qp *qp = opening->qp;
	struct xrcd_file file = qp->domain->file;
	struct meeting meeting;
	struct iovec iov[2] = {{&meeting, sizeof(meeting)}, {&file, sizeof(file)}};
	int error, tries = waits ? RETRIES : 0;

	meeting_head(&meeting, MEETING_VISIT);
	meeting.question = qp->number;
	meeting.scope = station_of(qp->adapter)->info.ifindex;
	meeting.slot = opening->engine->slot.number;
	meeting.is_again = opening->visits > 0;
	do {
		error = mail_send(opening->engine->slot.fd, to, iov, 2, ends, VISIT_FDS);
	} while (error == -EAGAIN && tries-- > 0 && usleep(MOMENT_US) == 0);
	return error;
}

/* What could not be held is closed, and -1. */
static int hold(struct held *held, int *fd)
{
	int place = *fd >= 0 ? held_add(held, *fd) : -1;

	if (place < 0 && *fd >= 0)
		close(*fd);
	if (place < 0)
		*fd = -1;
	return place;
}

int opening_connect(struct opening *opening, const struct mail_address *to, bool waits)
{
	struct held *held = &opening->engine->held;
	int calls[2] = {-1, -1}, events[2] = {-1, -1}, error = -EMFILE;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, calls) == 0 &&
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, events) == 0)
		error = send_request(opening, to, waits, (int[]){calls[1], events[1]});
	if (calls[1] >= 0)
		close(calls[1]);
	if (events[1] >= 0)
		close(events[1]);
	opening->calls = calls[0];
	opening->events = events[0];
	opening->calls_place = hold(held, &opening->calls);
	opening->events_place = hold(held, &opening->events);
	opening->is_broken = false;
	if (!error && (opening->calls < 0 || opening->events < 0))
		error = -EMFILE;
	return error;
}

static void release(struct opening *opening, int *place)
{
	if (*place >= 0)
		held_close(&opening->engine->held, *place);
	*place = -1;
}

void opening_disconnect(struct opening *opening)
{
	release(opening, &opening->calls_place);
	release(opening, &opening->events_place);
	opening->calls = opening->events = -1;
}

/* Who took the QP over, or else the process that created it. */
static int connect_home(struct opening *opening)
{
	const struct qp *qp = opening->qp;
	struct mail_address to;
	int error;

	/* nobody forks while descriptors are in hand */
	if (!engine_lock_running(opening->engine))
		return -ENODEV;
	mail_address_of_qp(station_of(qp->adapter)->info.ifindex, qp->number, &to);
	error = opening_connect(opening, &to, true);
	if (error) {
		opening_disconnect(opening);
		mail_address_of_slot(qp->number >> QPN_SLOT_SHIFT, &to);
		error = opening_connect(opening, &to, true);
	}
	engine_unlock();
	return error;
}

/* The ledger and the mailbox out of the answer. */
static bool take_fds(struct opening *opening, struct msghdr *msg)
{
	struct held *held = &opening->engine->held;
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	int fds[ENTER_FDS];
	uint64_t id;

	if (!cmsg || cmsg->cmsg_type != SCM_RIGHTS || cmsg->cmsg_len != CMSG_LEN(sizeof(fds)))
		return false;
	memcpy(fds, CMSG_DATA(cmsg), sizeof(fds));
	opening->ledger = ledger_take(fds[0], &id);
	opening->ledger_place = hold(held, &fds[0]);
	opening->mailbox_place = hold(held, &fds[1]);
	return opening->ledger && opening->ledger_place >= 0 && opening->mailbox_place >= 0;
}

static bool read_entry(struct opening *opening, struct visitor_answer *answer)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * ENTER_FDS)];
	} control;
	struct iovec iov = {answer, sizeof(*answer)};
	struct msghdr msg = {
	    .msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control.bytes,
	    .msg_controllen = sizeof(control.bytes),
	};
	bool is_in;

	if (!engine_lock_running(opening->engine))
		return false;
	is_in = recvmsg(opening->calls, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) == sizeof(*answer);
	if (!is_in)
		answer->error = 0;
	is_in = is_in && !answer->error && take_fds(opening, &msg);
	engine_unlock();
	return is_in;
}

/* It answers, or hangs up because it has no such QP. */
static bool enter(struct opening *opening, struct visitor_answer *answer)
{
	const struct visitor_call call = {.kind = VISITOR_ENTER};
	struct pollfd readable = {.fd = opening->calls, .events = POLLIN};

	answer->error = 0;
	return send(opening->calls, &call, sizeof(call), MSG_NOSIGNAL | MSG_DONTWAIT) ==
		   sizeof(call) &&
	       poll(&readable, 1, PATIENCE_MS) > 0 && read_entry(opening, answer);
}

/* Or it polls what it knew before. */
void openings_wake(struct engine *engine)
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
	pthread_condattr_t monotonic;

	if (!opening) {
		if (qp) {
			qp->domain = NULL;
			qp_free(qp);
		}
		return NULL;
	}
	opening->engine = station_of(adapter)->engine;
	opening->qp = qp;
	opening->calls = opening->events = -1;
	opening->calls_place = opening->events_place = opening->mail_place = -1;
	opening->ledger_place = opening->mailbox_place = -1;
	pthread_mutex_init(&opening->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&opening->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	CDS_INIT_LIST_HEAD(&opening->node);
	qp->opening = opening;
	return qp;
}

static void forget_entry(struct opening *opening)
{
	if (opening->ledger)
		munmap(opening->ledger, sizeof(*opening->ledger));
	opening->ledger = NULL;
	release(opening, &opening->ledger_place);
	release(opening, &opening->mailbox_place);
}

/* The home may be going this very moment, and the next one not be there yet. */
static bool find_home(struct opening *opening, struct visitor_answer *answer)
{
	uint64_t until = lane_now() + PATIENCE_MS * 1000000ull;
	int shut = 0;

	while (connect_home(opening) == 0) {
		if (enter(opening, answer))
			return true;
		opening_disconnect(opening);
		forget_entry(opening);
		shut += answer->error != EAGAIN;
		if (shut == DOOR_SHUT || lane_now() > until)
			return false;
		poll(NULL, 0, DOOR_MS);
	}
	return false;
}

int engine_open_qp(struct adapter *adapter, struct xrc_domain *domain, uint32_t number,
		   struct qp **result)
{
	struct visitor_answer answer;
	struct qp *qp;

	if (domain->is_private || number >> QPN_SLOT_SHIFT == adapter->slot)
		return refuse(REASON_QP_OPEN_NONE, "QP %#x", number);
	xrc_domain_get(adapter, domain);
	qp = make(adapter, domain, number);
	if (!qp) {
		xrc_domain_put(adapter, domain);
		return refuse(REASON_NO_MEMORY, "for a QP");
	}
	if (!find_home(qp->opening, &answer)) {
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
	openings_wake(engine);
}

/* When this is done, so is the QP if nobody else has it open. */
static void take_leave(struct opening *opening)
{
	const struct visitor_call call = {.kind = VISITOR_LEAVE};
	struct visitor_answer answer;

	pthread_mutex_lock(&opening->lock);
	if (opening->state == OPENING_VISITS && opening->calls >= 0)
		ask(opening, &call, &answer);
	opening->has_left = true; /* the home hangs up, and is no less there */
	pthread_mutex_unlock(&opening->lock);
}

void opening_free(struct qp *qp)
{
	struct opening *opening = qp->opening;
	struct openings *openings = &opening->engine->openings;

	take_leave(opening);
	/* the mail thread may be about to tell an event, or to find another home */
	pthread_mutex_lock(&openings->call_lock);
	pthread_mutex_lock(&openings->lock);
	cds_list_del(&opening->node);
	pthread_mutex_unlock(&openings->lock);
	opening_disconnect(opening);
	if (opening->heir)
		heir_end(opening);
	pthread_mutex_unlock(&openings->call_lock);
	forget_entry(opening);
	openings_wake(opening->engine); /* what it polls is not closed before */
	pthread_cond_destroy(&opening->changed);
	pthread_mutex_destroy(&opening->lock);
	free(opening);
	qp_free(qp);
}

/* ---- events ---- */

/* Of what the mail thread waits for; the state is its own to change. */
static int fd_of(const struct opening *opening)
{
	if (opening->state == OPENING_HEIR)
		return atomic_load(&opening->engine->held.fds[opening->mail_place]) - 1;
	return opening->state == OPENING_VISITS ? opening->events : -1;
}

unsigned int opening_fds(const struct openings *openings, struct pollfd *fds, unsigned int room)
{
	struct opening *opening;
	unsigned int count = 0;

	cds_list_for_each_entry (opening, &openings->openings, node) {
		int fd = fd_of(opening);

		if (count < room && fd >= 0)
			fds[count++] = (struct pollfd){fd, POLLIN, 0};
	}
	return count;
}

static struct opening *find(struct openings *openings, int fd)
{
	struct opening *opening, *found = NULL;

	pthread_mutex_lock(&openings->lock);
	cds_list_for_each_entry (opening, &openings->openings, node)
		if (fd_of(opening) == fd)
			found = opening;
	pthread_mutex_unlock(&openings->lock);
	return found;
}

/* With the call lock. Hung up: the home is gone. */
bool opening_hear(struct engine *engine, int fd)
{
	struct opening *opening = find(&engine->openings, fd);
	uint32_t type;
	ssize_t length;

	if (!opening)
		return false;
	if (opening->state == OPENING_HEIR) {
		mail_read(engine, fd);
		return true;
	}
	length = recv(fd, &type, sizeof(type), MSG_DONTWAIT);
	if (length == sizeof(type))
		qp_event(opening->qp, (enum ibv_event_type)type);
	else if (length == 0 || (errno != EAGAIN && errno != EINTR))
		heir_seek(opening);
	return true;
}
