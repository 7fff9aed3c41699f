/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages that come in: one function for each, 12.9.5 to 12.9.8. None trusts its sender: what does
 * not fit the state that the id is in changes nothing.
 */
#include <string.h>

#include "cm/state.h"

/* An answer to a message that belongs to no id. */
static void answer(struct cm *cm, const struct cm_path *path, const struct cm_mad *to,
		   struct cm_mad *mad)
{
	mad->local_id = to->remote_id;
	mad->remote_id = to->local_id;
	mad->transaction = to->transaction;
	cm_send(cm, path, mad);
}

static void answer_rej(struct cm *cm, const struct cm_path *path, const struct cm_mad *to,
		       enum cm_rejected message, uint16_t reason)
{
	struct cm_mad mad = {.attribute = CM_REJ, .rej = {.message = message, .reason = reason}};

	answer(cm, path, to, &mad);
}

static bool is_from_peer(const struct cm_id *id, const struct cm_path *path)
{
	return memcmp(&id->path.dgid, &path->dgid, sizeof(path->dgid)) == 0;
}

/* The id that a message names as ours, if its sender is the one that it talks to. */
static struct cm_id *find(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad)
{
	struct cm_id *id = cm_id_find(cm, mad->remote_id);

	if (!id || !is_from_peer(id, path))
		return NULL;
	return id->remote == 0 || id->remote == mad->local_id ? id : NULL;
}

/* ---- REQ ---- */

/* The program takes its time. */
static void answer_mra(struct cm *cm, struct cm_id *id, enum cm_rejected message)
{
	struct cm_mad mra = {.attribute = CM_MRA,
			     .local_id = id->local,
			     .remote_id = id->remote,
			     .transaction = id->transaction,
			     .mra = {message, CM_MRA_TIMEOUT}};

	id->sent_mra = true;
	cm_send(cm, &id->path, &mra);
}

static void duplicate_req(struct cm *cm, struct cm_id *id, const struct cm_mad *mad, uint64_t now)
{
	cm->counters.duplicates++;
	if (id->state == CM_REP_SENT)
		cm_resend(cm, id);
	else if (id->state == CM_TIMEWAIT && !id->tells_exit)
		cm_repeat_rejection(cm, id, now);
	else if (id->state == CM_REQ_RCVD)
		answer_mra(cm, id, CM_REJECTED_REQ);
	else if (id->state == CM_DREQ_SENT || id->state == CM_TIMEWAIT)
		/* our REP did not arrive, and is void by now */
		answer_rej(cm, &id->path, mad, CM_REJECTED_REQ, CM_REJ_STALE_CONN);
}

/* 12.9.8.3.1: the QP that the peer offers is one that we take for connected. Its connection is
 * gone, and so is this request. */
static bool is_stale(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad,
		     uint64_t now)
{
	struct cm_id *id = mad->req.qpn ? cm_find_by_qpn(cm, &path->dgid, mad->req.qpn) : NULL;

	if (!id)
		return false;
	cm->counters.stale++;
	answer_rej(cm, path, mad, CM_REJECTED_REQ, CM_REJ_STALE_CONN);
	if (id->state == CM_ESTABLISHED)
		cm_send_dreq(cm, id, now);
	else if (id->state == CM_REP_SENT) /* the program does not take it for connected yet */
		cm_give_up(cm, id, now);
	return true;
}

/* The id that this request made when it came first. The peer may have given its number to another
 * one since: then that is a new one. */
static struct cm_id *find_request(struct cm *cm, const struct cm_path *path,
				  const struct cm_mad *mad)
{
	struct cm_id *id = cm_find_by_id(cm, &path->dgid, mad->local_id);

	if (id && id->transaction != mad->transaction) {
		cm_unlist_by_id(cm, id);
		id = NULL;
	}
	return id;
}

static void receive_req(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad,
			uint64_t now)
{
	struct cm_id *id = find_request(cm, path, mad);

	if (id) {
		duplicate_req(cm, id, mad, now);
		return;
	}
	if (is_stale(cm, path, mad, now))
		return;
	id = cm_id_create(cm, path);
	if (!id) {
		answer_rej(cm, path, mad, CM_REJECTED_REQ, CM_REJ_NO_RESOURCES);
		return;
	}
	id->is_passive = true;
	id->state = CM_REQ_RCVD;
	id->remote = mad->local_id;
	id->remote_qpn = mad->req.qpn;
	id->service_id = mad->req.service_id;
	id->transaction = mad->transaction;
	cm_list_by_id(cm, id);
	cm_list_by_qpn(cm, id);
	cm_tell(cm, id, CM_EVENT_REQ, mad);
}

/* ---- the rest of connecting ---- */

static void receive_rep(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad)
{
	struct cm_id *id = find(cm, path, mad);

	if (!id || id->is_passive) {
		cm->counters.unknown++;
		answer_rej(cm, path, mad, CM_REJECTED_REP, CM_REJ_INVALID_COMM_ID);
		return;
	}
	if (id->state == CM_REQ_SENT) {
		id->state = CM_REP_RCVD;
		id->deadline = UINT64_MAX;
		id->remote = mad->local_id;
		id->remote_qpn = mad->rep.qpn ? mad->rep.qpn : mad->rep.eecn;
		cm_list_by_qpn(cm, id);
		cm_tell(cm, id, CM_EVENT_REP, mad);
		return;
	}
	cm->counters.duplicates++;
	if (id->state == CM_ESTABLISHED || id->state == CM_TIMEWAIT)
		cm_resend(cm, id); /* the RTU, or the REJ */
	else if (id->state == CM_REP_RCVD)
		answer_mra(cm, id, CM_REJECTED_REP);
	else if (id->state == CM_CLOSED)
		answer_rej(cm, path, mad, CM_REJECTED_REP, CM_REJ_INVALID_COMM_ID);
}

static void receive_rtu(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad,
			uint64_t now)
{
	struct cm_id *id = find(cm, path, mad);

	if (!id) { /* of a process that had our slot before, perhaps */
		cm->counters.unknown++;
		answer_rej(cm, path, mad, CM_REJECTED_OTHER, CM_REJ_INVALID_COMM_ID);
		return;
	}
	if (id->state != CM_REP_SENT) {
		cm->counters.duplicates++;
		if (id->state == CM_TIMEWAIT && !id->tells_exit)
			cm_resend(cm, id); /* it crossed our REJ */
		return;
	}
	cm_enter_established(cm, id, now);
	cm_tell(cm, id, CM_EVENT_RTU, mad);
}

static void receive_mra(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad,
			uint64_t now)
{
	struct cm_id *id = find(cm, path, mad);

	if (!id)
		return;
	if ((mad->mra.message == CM_REJECTED_REQ && id->state == CM_REQ_SENT) ||
	    (mad->mra.message == CM_REJECTED_REP && id->state == CM_REP_SENT))
		cm_set_deadline(cm, id, now + (UINT64_C(4096) << mad->mra.service_timeout));
}

/* Nobody listens there, or not yet: programs start together, and connect a second time before the
 * other one listens a second time. */
static bool is_tried_again(struct cm *cm, struct cm_id *id, uint64_t now)
{
	const uint64_t first = 10 * UINT64_C(1000000);

	if (id->refusals == CM_REFUSALS)
		return false;
	cm_set_deadline(cm, id, now + (first << id->refusals++));
	return true;
}

/* A peer that gives up before it knows our id names its own alone. */
static struct cm_id *find_rejected(struct cm *cm, const struct cm_path *path,
				   const struct cm_mad *mad)
{
	if (mad->remote_id == 0)
		return cm_find_by_id(cm, &path->dgid, mad->local_id);
	return find(cm, path, mad);
}

static void receive_rej(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad,
			uint64_t now)
{
	struct cm_id *id = find_rejected(cm, path, mad);

	if (!id) {
		cm->counters.unknown++;
		return;
	}
	switch (id->state) {
	case CM_REQ_SENT:
		if (mad->rej.reason == CM_REJ_INVALID_SERVICE_ID && is_tried_again(cm, id, now))
			break;
		/* fall through */
	case CM_REP_RCVD:
		cm_close_and_tell(cm, id, CM_EVENT_REJ, mad);
		break;
	case CM_REQ_RCVD:
	case CM_REP_SENT:
		cm_enter_timewait(cm, id, false, now);
		cm_tell(cm, id, CM_EVENT_REJ, mad);
		break;
	case CM_ESTABLISHED:
		if (mad->rej.reason == CM_REJ_INVALID_COMM_ID)
			cm_peer_denied(cm, id->peer, now);
		cm_enter_timewait(cm, id, true, now);
		cm_tell(cm, id, CM_EVENT_DISCONNECTED, mad);
		break;
	case CM_DREQ_SENT:
		cm_enter_timewait(cm, id, true, now);
		cm_tell(cm, id, CM_EVENT_DISCONNECTED, mad);
		break;
	default:
		cm->counters.duplicates++;
	}
}

/* ---- disconnecting ---- */

static void receive_dreq(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad,
			 uint64_t now)
{
	struct cm_mad drep = {.attribute = CM_DREP};
	struct cm_id *id = find(cm, path, mad);
	bool was_connected;

	if (!id || id->state == CM_CLOSED) {
		cm->counters.unknown++;
		answer(cm, path, mad, &drep);
		return;
	}
	switch (id->state) {
	case CM_REP_SENT: /* its RTU did not arrive, and it was connected all the same */
	case CM_ESTABLISHED:
		was_connected = id->state == CM_ESTABLISHED;
		id->state = CM_DREQ_RCVD; /* in which a release does not free */
		id->is_confirmed = true;
		id->deadline = UINT64_MAX;
		cm_part(cm, id);
		if (!was_connected)
			cm_tell(cm, id, CM_EVENT_RTU, NULL);
		cm_tell(cm, id, CM_EVENT_DISCONNECTED, mad);
		break;
	case CM_DREQ_SENT: /* both at once: each has its answer */
		cm_enter_timewait(cm, id, true, now);
		cm_send_kept(cm, id, &drep);
		cm_tell(cm, id, CM_EVENT_DISCONNECTED, mad);
		break;
	case CM_TIMEWAIT:
		cm->counters.duplicates++;
		answer(cm, path, mad, &drep);
		break;
	default:
		break;
	}
}

static void receive_drep(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad,
			 uint64_t now)
{
	struct cm_id *id = find(cm, path, mad);

	if (!id || id->state != CM_DREQ_SENT) {
		cm->counters.duplicates++;
		return;
	}
	cm_enter_timewait(cm, id, true, now);
	cm_tell(cm, id, CM_EVENT_DISCONNECTED, mad);
}

/* ---- datagrams ---- */

static void receive_sidr_req(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad,
			     uint64_t now)
{
	struct cm_id *id = find_request(cm, path, mad);

	if (id) {
		cm->counters.duplicates++;
		if (id->state == CM_TIMEWAIT)
			cm_repeat_rejection(cm, id, now);
		return;
	}
	id = cm_id_create(cm, path);
	if (!id)
		return;
	id->is_passive = true;
	id->state = CM_SIDR_RCVD;
	id->remote = mad->local_id;
	id->service_id = mad->sidr_req.service_id;
	id->transaction = mad->transaction;
	cm_list_by_id(cm, id);
	cm_tell(cm, id, CM_EVENT_SIDR_REQ, mad);
}

static void receive_sidr_rep(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad,
			     uint64_t now)
{
	struct cm_id *id = cm_id_find(cm, mad->local_id);

	if (!id || !is_from_peer(id, path) || id->state != CM_SIDR_SENT) {
		cm->counters.duplicates++;
		return;
	}
	if (mad->sidr_rep.status == CM_SIDR_UNSUPPORTED && is_tried_again(cm, id, now))
		return;
	cm_close_and_tell(cm, id, CM_EVENT_SIDR_REP, mad);
}

static bool is_up(const struct cm_id *id)
{
	return id->state == CM_ESTABLISHED || id->state == CM_REP_SENT || id->state == CM_DREQ_RCVD;
}

/* There are no alternate paths; but who asks for one learns whether the connection is there. */
static void receive_lap(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad,
			uint64_t now)
{
	struct cm_mad apr = {.attribute = CM_APR, .apr = {CM_APR_UNSUPPORTED}};
	struct cm_id *id = find(cm, path, mad);

	if (!id || !is_up(id)) {
		cm->counters.unknown++;
		answer_rej(cm, path, mad, CM_REJECTED_OTHER, CM_REJ_INVALID_COMM_ID);
		return;
	}
	answer(cm, path, mad, &apr);
	if (id->state == CM_REP_SENT)
		receive_rtu(cm, path, mad, now);
	else if (id->peer)
		cm_peer_answered(id->peer);
}

static void receive_apr(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad)
{
	struct cm_id *id = find(cm, path, mad);

	if (id && id->peer)
		cm_peer_answered(id->peer);
}

void cm_receive(struct cm *cm, const struct cm_path *path, const uint8_t *bytes, size_t length,
		uint64_t now)
{
	struct cm_mad mad;

	cm->counters.received++;
	if (!cm_mad_unpack(&mad, bytes, length)) {
		cm->counters.malformed++;
		return;
	}
	switch (mad.attribute) {
	case CM_REQ:
		receive_req(cm, path, &mad, now);
		break;
	case CM_MRA:
		receive_mra(cm, path, &mad, now);
		break;
	case CM_REJ:
		receive_rej(cm, path, &mad, now);
		break;
	case CM_REP:
		receive_rep(cm, path, &mad);
		break;
	case CM_RTU:
		receive_rtu(cm, path, &mad, now);
		break;
	case CM_DREQ:
		receive_dreq(cm, path, &mad, now);
		break;
	case CM_DREP:
		receive_drep(cm, path, &mad, now);
		break;
	case CM_SIDR_REQ:
		receive_sidr_req(cm, path, &mad, now);
		break;
	case CM_SIDR_REP:
		receive_sidr_rep(cm, path, &mad, now);
		break;
	case CM_LAP:
		receive_lap(cm, path, &mad, now);
		break;
	case CM_APR:
		receive_apr(cm, path, &mad);
		break;
	}
}
