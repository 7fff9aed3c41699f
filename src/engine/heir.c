/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The next home. When the home of an XRC_RECV QP is gone, however it went, each process that has
 * the QP open tries to bind the QP's mailbox. Who gets it is the home: it takes the QP over from
 * the ledger, with its number, and keeps the slot that the number is of (estate.h). The others
 * visit it there, and when it goes in turn, one of them is the next.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/adapter.h"
#include "device/xrcd.h"
#include "engine/line.h"
#include "engine/progress.h"
#include "engine/state.h"
#include "engine/steer.h"
#include "engine/visitor.h"
#include "transport/ledger.h"

enum {
	SEEK_AGAIN_NS = 10000000,
	SEEK_MAX = 500, /* one right after another */
	SETTLED_NS = 500000000,
};

static void set_state(struct opening *opening, enum opening_state state)
{
	opening->state = state;
	opening->visits++;
	pthread_cond_broadcast(&opening->changed);
}

static void set_state_locked(struct opening *opening, enum opening_state state)
{
	pthread_mutex_lock(&opening->lock);
	set_state(opening, state);
	pthread_mutex_unlock(&opening->lock);
}

static void give_up(struct opening *opening)
{
	set_state_locked(opening, OPENING_GONE);
	atomic_store(&opening->qp->state, IBV_QPS_ERR);
	atomic_store(&opening->qp->is_orphan, true);
	qp_event(opening->qp, IBV_EVENT_QP_FATAL);
}

/* ---- taking over ---- */

static struct qp *make_qp(struct lane *lane, const struct opening *opening)
{
	struct adapter *adapter = opening->qp->adapter;
	struct xrc_domain *domain = opening->qp->domain;
	struct qp *qp;

	xrc_domain_get(adapter, domain);
	qp = transport_create_branch(adapter, domain, opening->qp->number, opening->ledger);
	if (!qp) {
		xrc_domain_put(adapter, domain);
		return NULL;
	}
	if (branch_take_seat(lane, qp))
		return qp;
	transport_free_qp(qp);
	return NULL;
}

static void free_qp(struct lane *lane, struct qp *qp)
{
	struct seat *seat = qp->seat;

	if (qp->home)
		home_free(qp);
	lane_remove_seat(lane, seat);
	seat_free(seat);
	qp->seat = NULL;
	transport_free_qp(qp);
}

static bool is_receiving(const struct qp *qp)
{
	enum ibv_qp_state state = atomic_load(&qp->state);

	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD;
}

/* What the QP was at home. If it has been a branch here that had the responder, that goes on; if it
 * is with a third process, that one is asked; else it goes on from the ledger. */
static bool inherit(struct opening *opening, struct qp *qp, bool has_responder)
{
	struct ledger *ledger = opening->ledger;

	if (!ledger_read_terms(qp, ledger))
		return false;
	if (!has_responder)
		ledger_read(qp, ledger, true);
	if (!home_inherit(qp, ledger, opening->ledger_place))
		return false;
	opening->ledger = NULL; /* the home's */
	opening->ledger_place = -1;
	return true;
}

/* Under the lane's lock. */
static struct qp *take_over(struct lane *lane, struct opening *opening)
{
	struct line *branch = branch_find(lane, opening->qp->adapter, opening->qp->number);
	bool has_responder = branch && branch->has_responder;
	struct qp *qp = branch ? branch_promote(branch) : make_qp(lane, opening);

	if (!qp)
		return NULL;
	qp->ledger = opening->ledger;
	if (!inherit(opening, qp, has_responder) || adapter_adopt_qp(qp->adapter, qp)) {
		free_qp(lane, qp);
		return NULL;
	}
	qp->stand_in = opening->qp;
	home_changed(qp);
	if (is_receiving(qp) && !home_is_away(qp))
		transport_ask_again(qp);
	return qp;
}

static bool adopt(struct opening *opening)
{
	struct engine *engine = opening->engine;
	struct station *station = station_of(opening->qp->adapter);
	uint32_t number = opening->qp->number;
	struct lane *lane = engine->lanes[steer_lane(number, engine->lane_count)];
	struct qp *qp;

	if (!estate_enter(engine, station, number >> QPN_SLOT_SHIFT, opening->mailbox_place))
		return false;
	lane_lock(lane);
	qp = take_over(lane, opening);
	lane_unlock(lane);
	if (!qp) {
		estate_leave(engine, station, number >> QPN_SLOT_SHIFT);
		return false;
	}
	pthread_mutex_lock(&opening->lock);
	opening->heir = qp;
	set_state(opening, OPENING_HEIR);
	pthread_mutex_unlock(&opening->lock);
	atomic_store(&opening->qp->state, atomic_load(&qp->state));
	return true;
}

/* The mailbox is the next home's to bind as soon as it is closed, so that comes when the QP here is
 * done with the ledger and with its lines. */
void heir_end(struct opening *opening)
{
	struct engine *engine = opening->engine;
	struct qp *qp = opening->heir;

	opening->heir = NULL;
	engine_destroy_qp(qp);
	held_close(&engine->held, opening->mail_place);
	opening->mail_place = -1;
	estate_leave(engine, station_of(opening->qp->adapter),
		     opening->qp->number >> QPN_SLOT_SHIFT);
}

/* ---- seeking ---- */

static void become(struct opening *opening, int fd)
{
	opening->mail_place = held_add(&opening->engine->held, fd);
	if (opening->mail_place < 0)
		close(fd);
	if (opening->mail_place >= 0 && adopt(opening))
		return;
	if (opening->mail_place >= 0)
		held_close(&opening->engine->held, opening->mail_place);
	opening->mail_place = -1;
	give_up(opening);
}

static void visit(struct opening *opening, const struct mail_address *to)
{
	pthread_mutex_lock(&opening->lock);
	if (opening_connect(opening, to, false))
		opening_disconnect(opening);
	else
		set_state(opening, OPENING_VISITS);
	pthread_mutex_unlock(&opening->lock);
}

static void seek(struct opening *opening)
{
	const struct qp *qp = opening->qp;
	struct mail_address address;
	int fd;

	opening->seek_at = lane_now() + SEEK_AGAIN_NS;
	if (opening->seeks++ > SEEK_MAX) {
		give_up(opening);
		return;
	}
	mail_address_of_qp(station_of(qp->adapter)->info.ifindex, qp->number, &address);
	fd = mail_bind(&address);
	if (fd >= 0)
		become(opening, fd);
	else if (fd == -EADDRINUSE)
		visit(opening, &address);
}

void heir_seek(struct opening *opening)
{
	uint64_t now = lane_now();
	bool has_left;

	if (now > opening->seek_at + SETTLED_NS)
		opening->seeks = 0;
	pthread_mutex_lock(&opening->lock);
	has_left = opening->has_left;
	opening_disconnect(opening);
	if (!has_left)
		set_state(opening, OPENING_SEEKS);
	pthread_mutex_unlock(&opening->lock);
	if (!has_left && now >= opening->seek_at)
		seek(opening);
}

static struct opening *find_due(struct openings *openings, uint64_t now, bool *are_left)
{
	struct opening *opening, *due = NULL;

	*are_left = false;
	pthread_mutex_lock(&openings->lock);
	cds_list_for_each_entry (opening, &openings->openings, node) {
		if (opening->state != OPENING_SEEKS)
			continue;
		*are_left = true;
		if (opening->seek_at <= now)
			due = opening;
	}
	pthread_mutex_unlock(&openings->lock);
	return due;
}

bool heirs_tick(struct engine *engine)
{
	uint64_t now = lane_now();
	struct opening *opening;
	bool are_left;

	while ((opening = find_due(&engine->openings, now, &are_left)))
		seek(opening);
	return are_left;
}
