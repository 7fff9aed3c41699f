/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QPs on their lanes: the engine's calls that have a QP or a CQ for an argument. A QP's number says
 * its lane, as it tells the steering program which socket takes its packets.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <stdlib.h>

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "base/lines.h"
#include "base/hot.h"
#include "device/cq.h"
#include "device/mcast.h"
#include "device/pd.h"
#include "device/qp.h"
#include "engine/express.h"
#include "engine/line.h"
#include "engine/neighbour.h"
#include "engine/opening.h"
#include "engine/progress.h"
#include "engine/raw.h"
#include "engine/slot.h"
#include "engine/state.h"
#include "engine/steer.h"
#include "engine/yield.h"
#include "explain/reason.h"
#include "link/samehost.h"
#include "transport/transport.h"

/* This thread's; in one piece, as it is looked up at each poll. */
static _Thread_local struct thread_state {
	struct yield yield;
	unsigned int told; /* lanes that it has not caught up with since it took an event */
} mine;

/* Apart, or the compiler would look it up twice rather than keep it. */
APART static struct thread_state *this_thread_state(void)
{
	return &mine;
}

static int refuse_forked(void)
{
	return refuse(REASON_FORKED, NULL);
}

static bool is_dead(const struct adapter *adapter)
{
	return atomic_load_explicit(&station_of(adapter)->engine->is_dead, memory_order_relaxed);
}

/*
 * QPs of one CQ are on one lane: a poll then takes one lock, and threads that have QPs and CQs of
 * their own share none. But of a CQ that serves a crowd every so many are on another lane, for what
 * the lanes' threads do while the program sleeps.
 */
enum { CROWD = 64 };

static uint32_t lane_of_cq(const struct cq *cq)
{
	return cq->first_lane + cq->seats / CROWD;
}

static void count_seat(struct cq *cq, uint32_t lane)
{
	if (cq->seats++ == 0)
		cq->first_lane = lane;
}

struct qp *seat_find_peer(const struct qp *qp)
{
	struct qp *peer;

	if (qp->dest_qpn >> QPN_SLOT_SHIFT != qp->adapter->slot)
		return NULL;
	peer = adapter_find_qp(qp->adapter, qp->dest_qpn);

	return peer && peer->seat && peer->type == IBV_QPT_RC &&
		       samehost_is_local(qp->seat->lane->samehost, &qp->av)
		   ? peer
		   : NULL;
}

uint32_t seat_choose_lane(struct adapter *adapter, const struct qp *qp, uint32_t *lanes)
{
	struct engine *engine = station_of(adapter)->engine;
	uint32_t lane;

	if (qp->send_cq && qp->send_cq->seats)
		lane = lane_of_cq(qp->send_cq);
	else if (qp->recv_cq && qp->recv_cq->seats)
		lane = lane_of_cq(qp->recv_cq);
	else
		lane = atomic_fetch_add(&engine->next_lane, 1);
	*lanes = engine->lane_count;
	lane &= engine->lane_count - 1;
	if (qp->send_cq)
		count_seat(qp->send_cq, lane);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		count_seat(qp->recv_cq, lane);
	return lane;
}

static int take_seat(struct qp *qp)
{
	struct engine *engine = station_of(qp->adapter)->engine;
	struct lane *lane = engine->lanes[steer_lane(qp->number, engine->lane_count)];
	struct seat *seat = seat_make(lane, qp);
	int error;

	if (!seat)
		return refuse(REASON_NO_ENGINE_MEMORY, "QP");
	lane_lock(lane);
	error = lane_add_seat(lane, seat);
	if (error == 0) {
		qp->lane = (uint8_t)lane->index;
		qp->seat = seat;
	}
	lane_unlock(lane);
	if (error) {
		seat_free(seat);
		return refuse(REASON_NO_ENGINE_MEMORY, "QP");
	}
	if (qp->send_cq)
		atomic_fetch_or(&qp->send_cq->lanes, 1u << lane->index);
	if (qp->recv_cq)
		atomic_fetch_or(&qp->recv_cq->lanes, 1u << lane->index);
	return 0;
}

int engine_create_qp(struct pd *pd, struct ibv_qp_init_attr_ex *attr, struct qp **qp)
{
	struct adapter *adapter = qp_adapter_of(pd, attr);
	bool is_raw = attr->qp_type == IBV_QPT_RAW_PACKET;
	int error;

	if (adapter && is_dead(adapter))
		return refuse_forked();
	if (is_raw && adapter) {
		error = raw_open(station_of(adapter));
		if (error)
			return error;
	}
	error = transport_create_qp(pd, attr, qp);
	if (error) {
		if (is_raw && adapter)
			raw_close(station_of(adapter));
		return error;
	}
	if (is_raw && (*qp)->recv_cq)
		engine_tie_cq((*qp)->recv_cq);
	error = take_seat(*qp);
	if (error) {
		adapter = (*qp)->adapter;
		qp_unlist(*qp);
		adapter->host->quiesce(adapter);
		transport_free_qp(*qp);
	}
	return error;
}

bool seat_is_near(struct qp *qp)
{
	struct lane *lane = qp->seat->lane;
	bool is_near;

	lane_lock(lane);
	is_near = samehost_is_local(lane->samehost, &qp->av);
	lane_unlock(lane);
	return is_near;
}

/* A peer on this host: from its first packet on it is reached through shared memory. */
static void meet_peer(struct lane *lane, const struct qp *qp)
{
	uint32_t peer;
	bool is_near;

	lane_lock(lane);
	peer = qp->attr.dest_qp_num;
	is_near = samehost_is_local(lane->samehost, &qp->av);
	lane_unlock(lane);
	is_near = is_near && peer > QPN_GSI && peer != QPN_MULTICAST;
	if (is_near)
		neighbours_meet(lane->engine, lane, peer >> QPN_SLOT_SHIFT, samehost_way(peer));
	lane_lock(lane);
	qp->seat->has_met =
	    is_near && samehost_has_way(lane->samehost, peer >> QPN_SLOT_SHIFT, samehost_way(peer));
	lane_unlock(lane);
}

/* XRC_RECV QPs may be taken over by another process, which then keeps the slot; no others are. */
static bool is_orphan(const struct qp *qp, uint32_t slot)
{
	return qp->type == IBV_QPT_RC && slot_is_kept(slot, station_of(qp->adapter)->info.ifindex);
}

/* Its slot may be another's by now: then it takes as long as it always does. */
bool seat_is_peer_gone(const struct qp *qp)
{
	uint32_t peer = qp->attr.dest_qp_num, slot = peer >> QPN_SLOT_SHIFT;
	struct seat *seat = qp->seat;

	return seat && seat->has_met &&
	       !samehost_has_way(seat->lane->samehost, slot, samehost_way(peer)) &&
	       (slot_is_free(slot) || is_orphan(qp, slot));
}

/*
 * What has completed here, the peer may count on: its ACK goes out before the QP stops. Where there
 * is no room for it, as other QPs filled the peer's ring, that waits for the peer, unless it does
 * not seem to run. With the lane's lock, which others may have in between.
 */
static void pay_debts(struct lane *lane, struct qp *qp)
{
	uint64_t until = lane_now() + DEBT_PATIENCE_NS;

	lane_run(lane, lane_now());
	while (transport_owes(qp) && lane_now() < until) {
		lane_unlock(lane);
		usleep(DEBT_LOOK_US);
		lane_lock(lane);
		lane_run(lane, lane_now());
	}
	transport_part(qp, samehost_outbox(lane->samehost));
	lane_run(lane, lane_now());
}

/* What serves the QP in other processes has to know of it. */
static void tell_branches(struct qp *qp)
{
	enum ibv_qp_state state = atomic_load(&qp->state);

	if (state == IBV_QPS_RESET || state == IBV_QPS_ERR)
		home_end(qp, state);
	else
		home_changed(qp);
}

int engine_modify_qp_soon(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct lane *lane = qp->seat->lane;
	bool was_published;
	int error;

	if (is_dead(qp->adapter))
		return refuse_forked();
	lane_lock(lane);
	was_published = qp->is_published;
	if (mask & IBV_QP_STATE &&
	    (attr->qp_state == IBV_QPS_ERR || attr->qp_state == IBV_QPS_RESET))
		pay_debts(lane, qp);
	allowances_forget(&lane->allowances, qp);
	error = transport_modify_qp(qp, attr, mask, lane_now());
	if (!error && qp->home)
		tell_branches(qp);
	timer_set(&lane->timers, &qp->seat->timer, transport_deadline(qp));
	lane_unlock(lane);
	/* what peers may not do from now on they don't do any more */
	if (was_published && (mask & (IBV_QP_STATE | IBV_QP_ACCESS_FLAGS)))
		qp->adapter->host->quiesce(qp->adapter);
	return error;
}

int engine_modify_qp(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	int error;

	if (is_dead(qp->adapter))
		return refuse_forked();
	if (qp->opening)
		return opening_modify(qp, attr, mask);
	error = engine_modify_qp_soon(qp, attr, mask);
	if (!error && (mask & IBV_QP_DEST_QPN))
		meet_peer(qp->seat->lane, qp);
	return error;
}

int engine_query_qp(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	struct lane *lane;

	if (is_dead(qp->adapter))
		return refuse_forked();
	if (qp->opening)
		return opening_query(qp, attr, init);
	lane = qp->seat->lane;
	lane_lock(lane);
	transport_query_qp(qp, attr, init);
	attr->rq_psn = home_psn(qp);
	lane_unlock(lane);
	return 0;
}

int engine_attach_comp_cntr(struct qp *qp, struct comp_cntr *cntr,
			    const struct ibv_qp_attach_comp_cntr_attr *attr)
{
	struct lane *lane;
	int error;

	if (is_dead(qp->adapter))
		return refuse_forked();
	if (qp->opening)
		return refuse(REASON_QP_ELSEWHERE, "QP %#x", qp->number);
	lane = qp->seat->lane;
	lane_lock(lane);
	error = comp_cntr_attach(cntr, qp, attr);
	lane_unlock(lane);
	return error;
}

int engine_limit_rate(struct qp *qp, const struct ibv_qp_rate_limit_attr *attr)
{
	struct lane *lane;
	int error;

	if (is_dead(qp->adapter))
		return refuse_forked();
	if (qp->opening)
		return refuse(REASON_QP_ELSEWHERE, "QP %#x", qp->number);
	lane = qp->seat->lane;
	lane_lock(lane);
	error = qp_limit_rate(qp, attr);
	lane_unlock(lane);
	if (!error)
		lane_doorbell(lane, qp->seat);
	return error;
}

/* What it still owes its peer (the ACK of what just completed) goes out before it goes. */
int engine_destroy_qp(struct qp *qp)
{
	struct seat *seat = qp->seat;
	struct lane *lane;
	int error;

	if (is_dead(qp->adapter))
		return refuse_forked();
	if (qp->opening) {
		opening_free(qp);
		return 0;
	}
	lane = seat->lane;
	error = qp_unlist(qp);
	if (error)
		return error;
	lane_lock(lane);
	pay_debts(lane, qp);
	if (qp->home)
		home_free(qp);
	if (qp->is_published)
		qp->adapter->host->withdraw_qp(qp->adapter, qp);
	qp->is_published = false;
	lane_remove_seat(lane, seat);
	lane_unlock(lane);
	qp->adapter->host->quiesce(qp->adapter);
	if (qp->type == IBV_QPT_RAW_PACKET)
		raw_close(station_of(qp->adapter));
	seat_free(seat);
	transport_free_qp(qp);
	return 0;
}

int engine_attach_mcast(struct qp *qp, const union ibv_gid *group)
{
	struct station *station = station_of(qp->adapter);
	bool is_first = false, was_last = false;
	int error;

	if (is_dead(qp->adapter))
		return refuse_forked();
	pthread_mutex_lock(&station->groups_lock);
	error = mcast_attach(qp->adapter, qp, group, &is_first);
	if (!error && is_first) {
		error = station_join(station, group);
		if (error)
			mcast_detach(qp->adapter, qp, group, &was_last);
	}
	pthread_mutex_unlock(&station->groups_lock);
	return error;
}

int engine_detach_mcast(struct qp *qp, const union ibv_gid *group)
{
	struct station *station = station_of(qp->adapter);
	bool was_last = false;
	int error;

	if (is_dead(qp->adapter))
		return refuse_forked();
	pthread_mutex_lock(&station->groups_lock);
	error = mcast_detach(qp->adapter, qp, group, &was_last);
	if (was_last)
		station_leave(station, group);
	pthread_mutex_unlock(&station->groups_lock);
	return error;
}

void engine_doorbell(struct qp *qp)
{
	lane_doorbell(qp->seat->lane, qp->seat);
}

void engine_tie_cq(struct cq *cq)
{
	atomic_store(&cq->lanes, (1u << station_of(cq->adapter)->engine->lane_count) - 1);
}

static uint32_t this_thread(const struct engine *engine)
{
	static atomic_uint threads;
	static _Thread_local unsigned int number;

	if (!number)
		number = atomic_fetch_add(&threads, 1) + 1;
	return samehost_poller(sched_getcpu(), engine->slot.number, number);
}

static bool has_peers_here(struct engine *engine, unsigned int lanes, uint32_t poller)
{
	bool has_some = false;

	for (; lanes; lanes &= lanes - 1)
		has_some |= lane_has_peers_here(engine->lanes[__builtin_ctz(lanes)], poller);
	return has_some;
}

static void yield_core(struct engine *engine, unsigned int lanes, struct yield *yield,
		       uint64_t before)
{
	uint32_t poller = this_thread(engine);
	uint64_t after;

	for (unsigned int rest = lanes; rest; rest &= rest - 1)
		lane_say_poller(engine->lanes[__builtin_ctz(rest)], poller);
	sched_yield();
	after = lane_now();
	yield_learn(yield, after, after - before,
		    yield_was_long(after - before) && has_peers_here(engine, lanes, poller));
}

static void give_way(struct engine *engine, unsigned int lanes, struct yield *yield)
{
	const struct timespec moment = {.tv_nsec = YIELD_SLEEP_NS};
	uint64_t now = lane_now();

	switch (yield_manner(yield, now)) {
	case YIELD_CORE:
		yield_core(engine, lanes, yield, now);
		break;
	case YIELD_SLEEP:
		clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
		break;
	case YIELD_KEEP:
		yield_kept(yield);
		return;
	}
	/* the time that others had is no gap between polls */
	now = lane_now();
	for (; lanes; lanes &= lanes - 1)
		atomic_store_explicit(&engine->lanes[__builtin_ctz(lanes)]->seen, now,
				      memory_order_relaxed);
}

void engine_was_told(void)
{
	mine.told = UINT_MAX;
}

/* One look at each of the lanes, for `cq` if that is why. */
static bool poll_lanes(struct engine *engine, unsigned int lanes, struct cq *cq,
		       struct yield *yield)
{
	bool happened = false;

	/* in the child of a fork the memory of channels did not come along */
	if (atomic_load_explicit(&engine->is_dead, memory_order_relaxed))
		return false;
	for (unsigned int rest = lanes; rest; rest &= rest - 1)
		happened |= lane_poll(engine->lanes[__builtin_ctz(rest)], cq, &yield->idle);
	if (happened) {
		yield_found(yield);
	} else if (yield_is_due(yield)) {
		yield_again(yield);
		give_way(engine, lanes, yield);
	}
	return happened;
}

bool engine_poll(struct cq *cq)
{
	struct engine *engine = station_of(cq->adapter)->engine;
	unsigned int lanes = atomic_load_explicit(&cq->lanes, memory_order_relaxed), rest;
	struct thread_state *own = this_thread_state();
	bool happened = false;

	for (rest = lanes & own->told; rest; rest &= rest - 1)
		happened |= lane_catch_up(engine->lanes[__builtin_ctz(rest)]);
	own->told &= ~lanes;
	return poll_lanes(engine, lanes, cq, &own->yield) | happened;
}

void engine_look_out(struct adapter *adapter, unsigned int lanes)
{
	poll_lanes(station_of(adapter)->engine, lanes, NULL, &this_thread_state()->yield);
}

struct ibv_send_wr *engine_post(struct qp *qp, struct ibv_send_wr *wr, bool *needs_doorbell)
{
	switch (qp->type) {
	case IBV_QPT_RC:
		return express_send(qp->seat->lane, qp->seat, wr, needs_doorbell);
	case IBV_QPT_UC:
	case IBV_QPT_UD:
		return express_send_unreliably(qp->seat->lane, qp, wr, needs_doorbell);
	default:
		*needs_doorbell = true;
		return wr;
	}
}

WHOLE bool engine_glance(struct cq *cq, struct cq_taking *taking)
{
	struct engine *engine = station_of(cq->adapter)->engine;
	unsigned int lanes = atomic_load_explicit(&cq->lanes, memory_order_relaxed);
	struct thread_state *own = this_thread_state();
	bool is_all = true, happened = false;

	if (!engine->neighbours.has_express || lanes & own->told || yield_is_due(&own->yield))
		return false;
	for (; lanes; lanes &= lanes - 1)
		is_all &= express_glance(engine->lanes[__builtin_ctz(lanes)], taking, &happened);
	if (happened)
		yield_found(&own->yield);
	else
		own->yield.idle++;
	return is_all;
}

void engine_will_sleep(struct adapter *adapter, unsigned int lanes)
{
	struct engine *engine = station_of(adapter)->engine;

	for (; lanes; lanes &= lanes - 1)
		lane_will_sleep(engine->lanes[__builtin_ctz(lanes)]);
}

int engine_resolve_mac(struct adapter *adapter, const union ibv_gid *gid, uint8_t mac[6],
		       uint16_t *vlan)
{
	return neighbour_resolve(port_netdev_index(&adapter->port), gid, mac, vlan);
}

uint64_t engine_now(void)
{
	return lane_now();
}
