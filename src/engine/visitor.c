/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Visitors: other processes that have an XRC_RECV QP of ours open. What the QP is to them the face
 * decides, which knows who else has it open.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device/adapter.h"
#include "engine/progress.h"
#include "engine/state.h"
#include "engine/steer.h"
#include "engine/visitor.h"
#include "explain/reason.h"

struct visitor {
	struct cds_list_head node;
	struct qp *qp;
	int calls, events; /* places among those that a fork closes */
	int calls_fd, events_fd;
};

/* What the program has of it. */
static struct qp *shown(struct qp *qp)
{
	return qp->stand_in ? qp->stand_in : qp;
}

/* ---- coming ---- */

static struct adapter *find_adapter(const struct engine *engine, uint32_t ifindex)
{
	struct station *station;

	cds_list_for_each_entry (station, &engine->stations, node)
		if (station->info.ifindex == ifindex)
			return &station->adapter;
	return NULL;
}

static void tell(const struct visitor *visitor, uint32_t type)
{
	send(visitor->events_fd, &type, sizeof(type), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Of a QP that was taken over. */
static struct opening *opening_of(const struct qp *qp)
{
	return qp->stand_in ? qp->stand_in->opening : NULL;
}

/* Who has visited the last home, and not found us before this, has it open all the time. */
static void tell_missed(const struct visitor *visitor)
{
	const struct opening *opening = opening_of(visitor->qp);

	for (uint32_t type = 0; opening && opening->told >> type; type++)
		if (opening->told >> type & 1)
			tell(visitor, type);
}

/* The visitor's, once there is one; then the mail has them no more. */
static bool add(struct engine *engine, struct qp *qp, struct mail *mail, bool is_again)
{
	struct visitor *visitor = calloc(1, sizeof(*visitor));

	if (!visitor)
		return false;
	visitor->qp = qp;
	visitor->calls_fd = mail->fds[0];
	visitor->events_fd = mail->fds[1];
	visitor->calls = held_add(&engine->held, mail->fds[0]);
	visitor->events = held_add(&engine->held, mail->fds[1]);
	if (visitor->calls < 0 || visitor->events < 0) {
		if (visitor->calls >= 0)
			atomic_store(&engine->held.fds[visitor->calls], 0);
		free(visitor);
		return false;
	}
	mail->fds[0] = mail->fds[1] = -1;
	pthread_mutex_lock(&engine->openings.lock);
	cds_list_add_tail(&visitor->node, &engine->openings.visitors);
	if (is_again)
		tell_missed(visitor);
	pthread_mutex_unlock(&engine->openings.lock);
	return true;
}

/* Under the lane's lock nothing that is found goes. */
static struct qp *find_qp(const struct engine *engine, const struct meeting *meeting,
			  const struct xrcd_file *file)
{
	struct adapter *adapter = find_adapter(engine, meeting->scope);
	struct qp *qp = adapter ? adapter_find_qp(adapter, meeting->question) : NULL;

	if (!qp || qp->type != IBV_QPT_XRC_RECV || qp->domain->is_private ||
	    qp->domain->file.device != file->device || qp->domain->file.inode != file->inode)
		return NULL;
	return engine_face()->visit_qp && engine_face()->visit_qp(shown(qp)) ? qp : NULL;
}

void opening_visit(struct engine *engine, const struct meeting *meeting, size_t length,
		   struct mail *mail)
{
	struct lane *lane = engine->lanes[steer_lane(meeting->question, engine->lane_count)];
	struct xrcd_file file;
	struct qp *qp;

	if (mail->fd_count != VISIT_FDS || length < sizeof(file))
		return;
	memcpy(&file, meeting + 1, sizeof(file));
	pthread_mutex_lock(&engine->openings.call_lock);
	pthread_mutex_lock(&engine->stations_lock);
	lane_lock(lane);
	qp = find_qp(engine, meeting, &file);
	if (qp)
		home_share(qp);
	lane_unlock(lane);
	pthread_mutex_unlock(&engine->stations_lock);
	if (qp && !add(engine, qp, mail, meeting->is_again))
		engine_face()->leave_qp(shown(qp));
	pthread_mutex_unlock(&engine->openings.call_lock);
}

void visitor_come_again(int calls)
{
	const struct visitor_answer again = {.error = EAGAIN};

	send(calls, &again, sizeof(again), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- going ---- */

static bool is_visited(struct openings *openings, const struct adapter *adapter,
		       const struct qp *qp)
{
	struct visitor *visitor;
	bool is = false;

	pthread_mutex_lock(&openings->lock);
	cds_list_for_each_entry (visitor, &openings->visitors, node)
		is |= visitor->qp == qp || visitor->qp->adapter == adapter;
	pthread_mutex_unlock(&openings->lock);
	return is;
}

bool openings_have_visitors(struct engine *engine, const struct adapter *adapter)
{
	bool have;

	pthread_mutex_lock(&engine->openings.call_lock);
	have = is_visited(&engine->openings, adapter, NULL);
	pthread_mutex_unlock(&engine->openings.call_lock);
	return have;
}

/* It ends with us again; but what was taken over may still be sought by others. */
static void unshare(struct qp *qp)
{
	struct lane *lane = qp->seat->lane;

	if (qp->stand_in)
		return;
	lane_lock(lane);
	home_unshare(qp);
	lane_unlock(lane);
}

/* With the call lock. The QP may end with it; who waits for that has it told. */
static void leave(struct engine *engine, struct visitor *visitor)
{
	const struct visitor_answer gone = {0};

	pthread_mutex_lock(&engine->openings.lock);
	cds_list_del(&visitor->node);
	pthread_mutex_unlock(&engine->openings.lock);
	if (!is_visited(&engine->openings, NULL, visitor->qp))
		unshare(visitor->qp);
	engine_face()->leave_qp(shown(visitor->qp));
	send(visitor->calls_fd, &gone, sizeof(gone), MSG_DONTWAIT | MSG_NOSIGNAL);
	held_close(&engine->held, visitor->calls);
	held_close(&engine->held, visitor->events);
	free(visitor);
}

void openings_close(struct engine *engine, const struct adapter *adapter)
{
	struct visitor *visitor, *next;

	pthread_mutex_lock(&engine->openings.call_lock);
	/* only we take any out */
	cds_list_for_each_entry_safe (visitor, next, &engine->openings.visitors, node)
		if (visitor->qp->adapter == adapter)
			leave(engine, visitor);
	pthread_mutex_unlock(&engine->openings.call_lock);
}

/* ---- calls ---- */

static void carry_out(struct qp *qp, const struct visitor_call *call, struct visitor_answer *answer)
{
	struct ibv_qp_init_attr init;
	const char *live;

	if (call->kind == VISITOR_MODIFY)
		answer->error = engine_modify_qp_soon(qp, &call->attr, call->mask);
	if (answer->error) {
		answer->reason = reason_last(&live);
		strncpy(answer->live, live, sizeof(answer->live) - 1);
	}
	engine_query_qp(qp, &answer->attr, &init);
}

static int mailbox_of(struct engine *engine, uint32_t slot)
{
	return slot == engine->slot.number ? engine->slot.fd : estate_mailbox(engine, slot);
}

static int ledger_of(struct qp *qp)
{
	struct lane *lane = qp->seat->lane;
	int fd;

	lane_lock(lane);
	fd = home_share(qp);
	lane_unlock(lane);
	return fd;
}

/* The answer, with what one needs to become the home. */
static void let_in(struct engine *engine, const struct visitor *visitor,
		   const struct visitor_answer *answer)
{
	int fds[ENTER_FDS] = {ledger_of(visitor->qp),
			      mailbox_of(engine, visitor->qp->number >> QPN_SLOT_SHIFT)};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(fds))];
	} control = {0};
	struct iovec iov = {(void *)answer, sizeof(*answer)};
	struct msghdr msg = {
	    .msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control.bytes,
	    .msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	if (fds[0] < 0 || fds[1] < 0)
		msg.msg_controllen = 0;
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(cmsg), fds, sizeof(fds));
	sendmsg(visitor->calls_fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* With the call lock. */
static void serve(struct engine *engine, struct visitor *visitor)
{
	struct visitor_answer answer = {0};
	struct visitor_call call;
	ssize_t length = recv(visitor->calls_fd, &call, sizeof(call), MSG_DONTWAIT);

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (length != sizeof(call) || call.kind == VISITOR_LEAVE) {
		leave(engine, visitor);
		return;
	}
	carry_out(visitor->qp, &call, &answer);
	if (call.kind == VISITOR_ENTER) {
		let_in(engine, visitor, &answer);
		return;
	}
	send(visitor->calls_fd, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void openings_tell(struct engine *engine, const struct qp *qp, enum ibv_event_type type)
{
	struct opening *opening = opening_of(qp);
	struct visitor *visitor;

	pthread_mutex_lock(&engine->openings.lock);
	if (opening)
		opening->told |= 1u << type;
	cds_list_for_each_entry (visitor, &engine->openings.visitors, node)
		if (visitor->qp == qp)
			tell(visitor, type);
	pthread_mutex_unlock(&engine->openings.lock);
}

/* ---- the mail thread ---- */

enum { TICK_MS = 20 };

/* What is to be tried again is, first of all. */
unsigned int openings_poll(struct engine *engine, struct pollfd *fds, unsigned int room,
			   int *timeout_ms)
{
	struct openings *openings = &engine->openings;
	struct visitor *visitor;
	unsigned int count;
	bool is_busy;

	pthread_mutex_lock(&engine->mail_lock); /* for a fork */
	pthread_mutex_lock(&openings->call_lock);
	is_busy = heirs_tick(engine);
	is_busy |= estates_tick(engine);
	count = estates_poll(engine, fds, room);
	pthread_mutex_unlock(&openings->call_lock);
	is_busy |= branches_expire(engine);
	pthread_mutex_unlock(&engine->mail_lock);
	if (is_busy)
		*timeout_ms = TICK_MS;
	pthread_mutex_lock(&openings->lock);
	count += opening_fds(openings, fds + count, room - count);
	cds_list_for_each_entry (visitor, &openings->visitors, node)
		if (count < room)
			fds[count++] = (struct pollfd){visitor->calls_fd, POLLIN, 0};
	pthread_mutex_unlock(&openings->lock);
	return count;
}

static struct visitor *find(struct openings *openings, int fd)
{
	struct visitor *visitor, *found = NULL;

	pthread_mutex_lock(&openings->lock);
	cds_list_for_each_entry (visitor, &openings->visitors, node)
		if (visitor->calls_fd == fd)
			found = visitor;
	pthread_mutex_unlock(&openings->lock);
	return found;
}

void openings_polled(struct engine *engine, const struct pollfd *fds, unsigned int count)
{
	struct openings *openings = &engine->openings;
	struct visitor *visitor;

	for (unsigned int i = 0; i < count; i++) {
		if (!fds[i].revents)
			continue;
		pthread_mutex_lock(&openings->call_lock);
		if (!opening_hear(engine, fds[i].fd) && !estates_hear(engine, fds[i].fd)) {
			visitor = find(openings, fds[i].fd);
			if (visitor)
				serve(engine, visitor);
		}
		pthread_mutex_unlock(&openings->call_lock);
	}
}
