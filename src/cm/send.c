/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the caller asks for, and what the passing of time does: messages that are sent until they
 * are answered.
 */
#include <errno.h>
#include <string.h>

#include "cm/state.h"

#define MS UINT64_C(1000000)

/* The first repeats come soon, as a lost message is more likely than a slow peer; the last as late
 * as the timeout that messages tell. */
#define FIRST_INTERVAL (100 * MS)
#define LAST_INTERVAL  (UINT64_C(4096) << CM_RESPONSE_TIMEOUT)
#define TIMEWAIT       (UINT64_C(4096) << 19)
/* A rejection is remembered as long as the request may come again. */
#define REJECTED     (5 * LAST_INTERVAL)
#define REJECTED_MRA (REJECTED + (UINT64_C(4096) << CM_MRA_TIMEOUT))

void cm_tell(struct cm *cm, struct cm_id *id, enum cm_event_type type, const struct cm_mad *mad)
{
	struct cm_event event = {type, mad};

	if (!id->is_released)
		cm->host->event(cm, id, &event);
}

void cm_send(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad)
{
	uint8_t bytes[MAD_BYTES];

	cm_mad_pack(bytes, mad);
	cm->counters.sent++;
	cm->host->send(cm, path, bytes);
}

/* Nothing, if the peer gave up before we said a word. */
void cm_resend(struct cm *cm, struct cm_id *id)
{
	if (!id->mad[0])
		return;
	cm->counters.sent++;
	cm->counters.resent++;
	cm->host->send(cm, &id->path, id->mad);
}

void cm_send_kept(struct cm *cm, struct cm_id *id, struct cm_mad *mad)
{
	mad->local_id = id->local;
	mad->remote_id = id->remote;
	mad->transaction = id->transaction;
	cm_mad_pack(id->mad, mad);
	cm->counters.sent++;
	cm->host->send(cm, &id->path, id->mad);
}

void cm_set_deadline(struct cm *cm, struct cm_id *id, uint64_t deadline)
{
	id->deadline = deadline;
	timer_set(&cm->timers, &id->timer, deadline);
}

void cm_send_tries(struct cm *cm, struct cm_id *id, struct cm_mad *mad, uint64_t now)
{
	id->tries = 1;
	id->interval = FIRST_INTERVAL;
	cm_set_deadline(cm, id, now + id->interval);
	cm_send_kept(cm, id, mad);
}

void cm_close(struct cm *cm, struct cm_id *id)
{
	cm_part(cm, id);
	id->state = CM_CLOSED;
	id->deadline = UINT64_MAX;
	if (id->is_released)
		cm_id_free(cm, id);
}

void cm_close_and_tell(struct cm *cm, struct cm_id *id, enum cm_event_type type,
		       const struct cm_mad *mad)
{
	bool is_released = id->is_released;

	cm_close(cm, id);
	if (!is_released)
		cm_tell(cm, id, type, mad);
}

void cm_enter_established(struct cm *cm, struct cm_id *id, uint64_t now)
{
	id->state = CM_ESTABLISHED;
	id->is_confirmed = true;
	id->deadline = UINT64_MAX;
	cm_join_peer(cm, id, now);
}

void cm_enter_timewait(struct cm *cm, struct cm_id *id, bool tells_exit, uint64_t now)
{
	bool is_short = tells_exit && (id->is_confirmed || !id->is_passive);

	cm_part(cm, id);
	id->state = CM_TIMEWAIT;
	id->tells_exit = tells_exit;
	cm_set_deadline(cm, id,
			now + (is_short	      ? TIMEWAIT
			       : id->sent_mra ? REJECTED_MRA
					      : REJECTED));
}

/* The request came again, so it may come once more. */
void cm_repeat_rejection(struct cm *cm, struct cm_id *id, uint64_t now)
{
	if (!id->tells_exit)
		cm_set_deadline(cm, id, now + REJECTED);
	cm_resend(cm, id);
}

void cm_send_rej(struct cm *cm, struct cm_id *id, enum cm_rejected message, uint16_t reason,
		 const void *data, size_t length)
{
	struct cm_mad mad = {
	    .attribute = CM_REJ,
	    .rej = {.message = message, .reason = reason},
	    .private_data = data,
	    .private_length = length,
	};

	cm_send_kept(cm, id, &mad);
}

void cm_send_dreq(struct cm *cm, struct cm_id *id, uint64_t now)
{
	struct cm_mad mad = {.attribute = CM_DREQ, .dreq_qpn = id->remote_qpn};

	cm_part(cm, id);
	id->state = CM_DREQ_SENT;
	cm_send_tries(cm, id, &mad, now);
}

/* ---- the caller's ---- */

int cm_connect(struct cm *cm, struct cm_id *id, struct cm_mad *mad, uint64_t now)
{
	if (id->state != CM_IDLE)
		return -EINVAL;
	id->state = CM_REQ_SENT;
	id->transaction = (uint64_t)cm->host->random(cm) << 32 | id->local;
	id->service_id = mad->req.service_id;
	id->local_qpn = mad->req.qpn;
	mad->attribute = CM_REQ;
	mad->req.local_response_timeout = CM_RESPONSE_TIMEOUT;
	mad->req.remote_response_timeout = CM_RESPONSE_TIMEOUT;
	mad->req.max_cm_retries = CM_TRIES;
	cm_send_tries(cm, id, mad, now);
	return 0;
}

int cm_accept(struct cm *cm, struct cm_id *id, struct cm_mad *mad, uint64_t now)
{
	if (id->state != CM_REQ_RCVD)
		return -EINVAL;
	id->state = CM_REP_SENT;
	id->local_qpn = mad->rep.qpn;
	mad->attribute = CM_REP;
	cm_send_tries(cm, id, mad, now);
	return 0;
}

int cm_establish(struct cm *cm, struct cm_id *id, uint64_t now)
{
	struct cm_mad mad = {.attribute = CM_RTU};

	if (id->state != CM_REP_RCVD)
		return -EINVAL;
	cm_enter_established(cm, id, now);
	cm_send_kept(cm, id, &mad);
	return 0;
}

int cm_notify_established(struct cm *cm, struct cm_id *id, uint64_t now)
{
	if (id->state != CM_REP_SENT)
		return id->state == CM_ESTABLISHED ? 0 : -EINVAL;
	cm_enter_established(cm, id, now);
	cm_tell(cm, id, CM_EVENT_RTU, NULL);
	return 0;
}

int cm_reject(struct cm *cm, struct cm_id *id, uint16_t reason, const void *data, size_t length,
	      uint64_t now)
{
	if (id->state == CM_REQ_RCVD || id->state == CM_REP_SENT)
		cm_send_rej(cm, id, CM_REJECTED_REQ, reason, data, length);
	else if (id->state == CM_REP_RCVD)
		cm_send_rej(cm, id, CM_REJECTED_REP, reason, data, length);
	else
		return -EINVAL;
	/* what is forgotten comes again; numbers that have run out refuse all others */
	if (cm->count > CM_CROWDED)
		cm_close(cm, id);
	else
		cm_enter_timewait(cm, id, false, now);
	return 0;
}

int cm_disconnect(struct cm *cm, struct cm_id *id, uint64_t now)
{
	struct cm_mad drep = {.attribute = CM_DREP};

	if (id->state == CM_DREQ_RCVD) {
		cm_enter_timewait(cm, id, true, now);
		cm_send_kept(cm, id, &drep);
		return 1;
	}
	if (id->state != CM_ESTABLISHED && id->state != CM_REP_SENT)
		return -EINVAL;
	cm_send_dreq(cm, id, now);
	return 0;
}

int cm_sidr_request(struct cm *cm, struct cm_id *id, struct cm_mad *mad, uint64_t now)
{
	if (id->state != CM_IDLE)
		return -EINVAL;
	id->state = CM_SIDR_SENT;
	id->transaction = (uint64_t)cm->host->random(cm) << 32 | id->local;
	id->service_id = mad->sidr_req.service_id;
	mad->attribute = CM_SIDR_REQ;
	cm_send_tries(cm, id, mad, now);
	return 0;
}

int cm_sidr_reply(struct cm *cm, struct cm_id *id, struct cm_mad *mad, uint64_t now)
{
	if (id->state != CM_SIDR_RCVD)
		return -EINVAL;
	mad->attribute = CM_SIDR_REP;
	mad->sidr_rep.service_id = id->service_id;
	mad->local_id = id->remote; /* the request's id */
	mad->transaction = id->transaction;
	cm_mad_pack(id->mad, mad);
	cm->counters.sent++;
	cm->host->send(cm, &id->path, id->mad);
	cm_enter_timewait(cm, id, false, now);
	return 0;
}

void cm_forget(struct cm *cm, struct cm_id *id)
{
	cm->counters.forgotten++;
	id->is_released = true;
	cm_close(cm, id);
}

void cm_refuse(struct cm *cm, struct cm_id *id, uint16_t reason)
{
	struct cm_mad mad = {
	    .attribute = CM_SIDR_REP,
	    .local_id = id->remote, /* the request's id */
	    .transaction = id->transaction,
	    .sidr_rep = {.status = CM_SIDR_UNSUPPORTED, .service_id = id->service_id}};

	if (id->state == CM_REQ_RCVD)
		cm_send_rej(cm, id, CM_REJECTED_REQ, reason, NULL, 0);
	else if (id->state == CM_SIDR_RCVD)
		cm_send(cm, &id->path, &mad);
	cm->counters.refused++;
	id->is_released = true;
	cm_close(cm, id);
}

void cm_release(struct cm *cm, struct cm_id *id, uint64_t now)
{
	struct cm_mad none = {.sidr_rep = {.status = CM_SIDR_REJECTED}};

	id->is_released = true;
	switch (id->state) {
	case CM_REQ_SENT:
		cm_send_rej(cm, id, CM_REJECTED_REQ, CM_REJ_TIMEOUT, NULL, 0);
		cm_close(cm, id);
		break;
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_REP_RCVD:
		cm_reject(cm, id, CM_REJ_CONSUMER, NULL, 0, now);
		break;
	case CM_SIDR_RCVD:
		cm_sidr_reply(cm, id, &none, now);
		break;
	case CM_ESTABLISHED:
		cm_send_dreq(cm, id, now);
		break;
	case CM_DREQ_RCVD:
		cm_disconnect(cm, id, now);
		break;
	case CM_DREQ_SENT:
	case CM_TIMEWAIT:
		break;
	case CM_IDLE:
	case CM_SIDR_SENT:
	case CM_CLOSED:
		cm_close(cm, id);
		break;
	}
}

void cm_farewell(struct cm *cm, uint64_t now)
{
	for (uint32_t i = 0; i < cm->capacity; i++) {
		struct cm_id *id = cm->ids[i];

		if (!id)
			continue;
		if (!id->path.is_here && (id->state == CM_TIMEWAIT || id->state == CM_DREQ_SENT))
			cm_resend(cm, id);
		if (!id->is_released)
			cm_release(cm, id, now);
	}
}

/* ---- time ---- */

void cm_give_up(struct cm *cm, struct cm_id *id, uint64_t now)
{
	switch (id->state) {
	case CM_REQ_SENT:
		cm_send_rej(cm, id, CM_REJECTED_REQ, CM_REJ_TIMEOUT, NULL, 0);
		cm_close_and_tell(cm, id, CM_EVENT_UNREACHABLE, NULL);
		break;
	case CM_REP_SENT:
		cm_send_rej(cm, id, CM_REJECTED_REP, CM_REJ_TIMEOUT, NULL, 0);
		cm_enter_timewait(cm, id, false, now);
		cm_tell(cm, id, CM_EVENT_UNREACHABLE, NULL);
		break;
	case CM_DREQ_SENT:
		cm_enter_timewait(cm, id, true, now);
		cm_tell(cm, id, CM_EVENT_DISCONNECTED, NULL);
		break;
	case CM_SIDR_SENT:
		cm_close_and_tell(cm, id, CM_EVENT_UNREACHABLE, NULL);
		break;
	default:
		break;
	}
}

static void due(struct cm *cm, struct cm_id *id, uint64_t now)
{
	bool tells_exit = id->tells_exit && !id->is_released;

	if (id->state == CM_TIMEWAIT) {
		cm_close(cm, id);
		if (tells_exit)
			cm_tell(cm, id, CM_EVENT_TIMEWAIT_EXIT, NULL);
		return;
	}
	if (id->tries >= (id->state == CM_DREQ_SENT ? CM_DREQ_TRIES : CM_TRIES)) {
		cm_give_up(cm, id, now);
		return;
	}
	id->tries++;
	id->interval = id->interval * 2 < LAST_INTERVAL ? id->interval * 2 : LAST_INTERVAL;
	cm_set_deadline(cm, id, now + id->interval);
	cm_resend(cm, id);
}

void cm_run(struct cm *cm, uint64_t now)
{
	struct timer *timer;

	while ((timer = timer_take_due(&cm->timers, now))) {
		struct cm_id *id = (struct cm_id *)((char *)timer - offsetof(struct cm_id, timer));

		if (id->deadline <= now)
			due(cm, id, now);
		else
			timer_set(&cm->timers, timer, id->deadline);
	}
	cm_peers_run(cm, now);
}

uint64_t cm_deadline(const struct cm *cm)
{
	uint64_t first = timer_first(&cm->timers), probe = timer_first(&cm->peer_timers);

	return first < probe ? first : probe;
}
