/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What verbs do of the express path, and what they leave for a turn.
 */
#include "base/cancel.h"
#include "base/hot.h"
#include "base/lines.h"
#include "device/adapter.h"
#include "device/cq.h"
#include "device/qp.h"
#include "engine/express.h"
#include "engine/lane.h"
#include "engine/plain.h"
#include "engine/progress.h"
#include "engine/reachable.h"
#include "link/samehost.h"
#include "transport/express.h"
#include "transport/transport.h"
#include "transport/unreliable.h"
#include "wire/headers.h"

enum {
	UNANSWERED_MAX = 32, /* messages, then their ACK does not wait for company any more */
	UNANSWERED_BYTES = 8 << 10, /* so long a one counts once more, for the ring's room */
	LATE_MAX = 256,		    /* QPs; then they have a turn each */
	TIME_EVERY_NS = 1000000,    /* while a program polls: ACK timers start, */
	MULTITUDE = 1024,      /* QPs of a lane: of more not all that a message needs is near, */
	TIME_SOON_NS = 100000, /* and so they start sooner, while it still is */
	BATCH_RECORDS = 64,    /* at a time, and so much of them (as in samehost.c) */
	BATCH_BYTES = 256 << 10,
	COPY_BYTES = 256 << 10, /* straight from the verb, that count for one more towards a turn */
};

/* ---- for later ---- */

static void note_untimed(struct lane *lane, struct seat *seat)
{
	if (seat->is_untimed || !transport_is_untimed(seat->qp))
		return;
	seat->is_untimed = true;
	seat->next_untimed = lane->untimed;
	lane->untimed = seat;
}

static void note_late(struct lane *lane, struct seat *seat)
{
	if (seat->is_late)
		return;
	seat->is_late = true;
	seat->next_late = lane->late;
	lane->late = seat;
	lane->late_count++;
}

static void note(struct lane *lane, struct seat *seat)
{
	note_untimed(lane, seat);
	seat->may_wait |= transport_waits(seat->qp);
	if (seat->may_wait || transport_answers(seat->qp))
		note_late(lane, seat);
}

static void unlink_late(struct lane *lane, struct seat **link)
{
	struct seat *seat = *link;

	*link = seat->next_late;
	seat->is_late = seat->may_wait = false;
	lane->late_count--;
}

static void unlink_untimed(struct seat **link)
{
	(*link)->is_untimed = false;
	*link = (*link)->next_untimed;
}

void express_forget(struct lane *lane, struct seat *seat)
{
	struct seat **late = &lane->late, **untimed = &lane->untimed;

	while (*late && *late != seat)
		late = &(*late)->next_late;
	if (*late)
		unlink_late(lane, late);
	while (*untimed && *untimed != seat)
		untimed = &(*untimed)->next_untimed;
	if (*untimed)
		unlink_untimed(untimed);
	if (lane->last_sent == seat)
		lane->last_sent = NULL;
}

/* Of what was acknowledged meanwhile there is nothing to do. */
static void start_timers(struct lane *lane, uint64_t now)
{
	lane->timed_at = now;
	while (lane->untimed) {
		struct seat *seat = lane->untimed;

		unlink_untimed(&lane->untimed);
		if (lane->untimed)
			lines_fetch(lane->untimed);
		if (!transport_is_untimed(seat->qp))
			continue;
		transport_time(seat->qp, now);
		timer_set(&lane->timers, &seat->timer, transport_deadline(seat->qp));
	}
}

/* Each QP that has sent since is looked at, mostly in vain, as all is acknowledged by then: once
 * for several messages. */
static bool is_time(const struct lane *lane, uint64_t now)
{
	uint64_t every = lane->seats > MULTITUDE ? TIME_SOON_NS : TIME_EVERY_NS;

	return !atomic_load_explicit(&lane->has_poller, memory_order_relaxed) ||
	       now >= lane->timed_at + every;
}

void express_settle(struct lane *lane, uint64_t now)
{
	if (lane->untimed && is_time(lane, now))
		start_timers(lane, now);
	while (lane->late) {
		struct seat *seat = lane->late;

		unlink_late(lane, &lane->late);
		if (transport_owes(seat->qp) || transport_waits(seat->qp))
			lane_make_ready(lane, seat);
	}
	lane->unanswered = 0;
}

/* The ACKs that were put together leave. False if that needs a bell. */
static bool send_acks(struct lane *lane, struct express_acks *acks)
{
	return !express_acks_send(acks) || samehost_is_heard(lane->samehost);
}

/* In a crowd two cache lines more, which who only receives has no need of. */
static bool waits(const struct seat *seat)
{
	return seat->may_wait && transport_waits(seat->qp);
}

/* False if it needs its turn, or a bell. */
static bool catch_up_with(struct lane *lane, struct seat *seat, struct express_acks *acks)
{
	struct qp *qp = seat->qp;

	if (waits(seat)) {
		if (!send_acks(lane, acks) || !express_advance(qp, acks->outbox) ||
		    !samehost_is_heard(lane->samehost))
			return false;
		note(lane, seat);
	}
	if (!transport_owes(qp))
		return true;
	if (!express_acks_take(acks, qp) && !send_acks(lane, acks))
		return false;
	return express_acks_add(acks, qp);
}

/* What waits for room in a ring leaves, and ACKs that wait for company. False if one of the QPs
 * needs more than that. */
APART WHOLE static bool catch_up_late(struct lane *lane)
{
	struct express_acks acks = {.outbox = samehost_outbox(lane->samehost)};
	struct seat **link = &lane->late;
	bool is_done = true;

	while (*link && is_done) {
		is_done = catch_up_with(lane, *link, &acks);
		if (waits(*link) || transport_answers((*link)->qp))
			link = &(*link)->next_late;
		else
			unlink_late(lane, link);
	}
	return send_acks(lane, &acks) && is_done;
}

static bool catch_up(struct lane *lane)
{
	lane->unanswered = 0;
	return !lane->late || catch_up_late(lane);
}

/* ---- verbs ---- */

/* Events that are to be told, by system calls. */
APART static void tell_and_let_go(struct lane *lane)
{
	UNCANCELLED_TURN;

	lane_release(lane);
}

static void let_go(struct lane *lane)
{
	if (lane->tell_count)
		tell_and_let_go(lane);
	else
		lane_release(lane);
}

/* What came meanwhile, from one who did not get the lock. */
static bool has_missed(const struct lane *lane)
{
	lane_fence_released();
	return lane_has_news(lane);
}

static bool is_on(const struct lane *lane)
{
	return lane->has_express && !atomic_load_explicit(&lane->is_dead, memory_order_relaxed);
}

/* The lane's lock is let go, after what came in meanwhile. */
static void let_go_after_all(struct lane *lane)
{
	UNCANCELLED_TURN;

	if (!lane_has_work(lane)) {
		let_go(lane);
		if (!has_missed(lane) || !lane_trylock(lane))
			return;
	}
	lane_unlock(lane);
}

/* The peer, if it is of this process and everything for it has arrived. */
static struct qp *find_peer(struct lane *lane, const struct qp *qp)
{
	struct qp *peer = seat_find_peer(qp);

	return peer && samehost_is_taken(lane->samehost, qp->adapter->slot,
					 samehost_way(peer->number))
		   ? peer
		   : NULL;
}

static unsigned long changes_of_qps(const struct seat *seat)
{
	return atomic_load_explicit(&seat->qp->adapter->qp_changes, memory_order_acquire);
}

/* `changes` is how often QPs had changed before this one was looked for. */
static void acquaint(struct seat *seat, struct qp *peer, unsigned long changes)
{
	seat->peer = peer;
	seat->peer_changes = changes;
	seat->terms = peer->seat->lane == seat->lane ? express_terms(seat->qp, peer) : 0;
}

/* To the QP of this lane that it is connected to, if nothing has changed since that was found. */
static struct ibv_send_wr *execute_plain(struct lane *lane, struct seat *seat,
					 struct ibv_send_wr *wr)
{
	if (!seat->terms || seat->peer_changes != changes_of_qps(seat) ||
	    !samehost_is_local(lane->samehost, &seat->qp->av))
		return wr;
	lane->is_telling_later = true;
	return express_execute_plain(seat->qp, seat->peer, seat->terms, wr, lane->clock);
}

/* Both ends are of this process. */
APART static struct ibv_send_wr *execute(struct lane *lane, struct qp *qp, struct qp *peer,
					 struct ibv_send_wr *wr)
{
	struct lane *theirs = peer->seat->lane;

	lane->is_telling_later = true;
	if (theirs == lane)
		return express_execute(qp, peer, wr, lane->clock);
	if (!lane_trylock(theirs))
		return wr;
	theirs->is_telling_later = true;
	if (samehost_is_taken(lane->samehost, qp->adapter->slot, samehost_way(peer->number)))
		wr = express_execute(qp, peer, wr, lane->clock);
	let_go_after_all(theirs);
	return wr;
}

/* In a crowd: which QP's message follows upon which. */
static void note_sent(struct lane *lane, struct seat *seat)
{
	if (lane->seats >= MULTITUDE && lane->last_sent && lane->last_sent != seat)
		express_note_lines(seat->qp, seat, &lane->last_sent->ahead);
	lane->last_sent = seat;
}

/* What changes the least there is of: QPs, channels, and the addresses of what goes by these. */
static unsigned long changes_of_ways(const struct lane *lane, const struct seat *seat)
{
	return changes_of_qps(seat) + samehost_changes(lane->samehost);
}

/* How its records leave. To a QP of this process, when it is there, nothing has to. */
static void find_way(struct lane *lane, struct seat *seat)
{
	struct qp *qp = seat->qp;
	unsigned long changes = changes_of_ways(lane, seat);

	if (seat->way_changes == changes)
		return;
	seat->way_changes = changes;
	seat->way = NULL;
	if (express_may_leave(qp) && qp->dest_qpn >> QPN_SLOT_SHIFT != qp->adapter->slot)
		seat->way = samehost_find_way(lane->samehost, &qp->av, qp->dest_qpn);
}

/* To another process. Only a program that polls comes again soon, for what is left for later. */
static struct ibv_send_wr *send_record(struct lane *lane, struct seat *seat, struct ibv_send_wr *wr,
				       bool *needs_doorbell)
{
	struct ibv_send_wr *rest;

	if (!atomic_load_explicit(&lane->has_poller, memory_order_relaxed))
		return wr;
	if (lane->seats >= MULTITUDE)
		express_fetch_lines(&seat->ahead);
	rest = express_post(seat->qp, wr, samehost_outbox(lane->samehost));
	note(lane, seat);
	note_sent(lane, seat);
	find_way(lane, seat);
	*needs_doorbell |= !samehost_is_heard(lane->samehost);
	return rest;
}

/* What is shown first is written down afterwards. */
static struct ibv_send_wr *post_plain(struct samehost *samehost, struct channel *way, struct qp *qp,
				      struct ibv_send_wr *wr)
{
	if (!express_begin_plain(qp))
		return wr;
	for (; wr; wr = wr->next) {
		size_t size = express_plain_size(qp, wr);
		void *record = size ? samehost_reserve_record(way, size) : NULL;

		if (!record || !express_write_plain(qp, wr, record))
			break;
		samehost_commit_record(samehost, way, size);
		express_keep_plain(qp, wr);
	}
	sq_commit(qp);
	return wr;
}

/* By the way that is known, as far as the list begins with plain messages. Those wait for nothing,
 * and what was owed has gone along. */
static struct ibv_send_wr *send_record_plain(struct lane *lane, struct seat *seat,
					     struct ibv_send_wr *wr, bool *needs_doorbell)
{
	struct channel *way = seat->way;
	struct ibv_send_wr *rest;

	if (!atomic_load_explicit(&lane->has_poller, memory_order_relaxed))
		return wr;
	if (lane->seats >= MULTITUDE)
		express_fetch_lines(&seat->ahead);
	rest = post_plain(lane->samehost, way, seat->qp, wr);
	if (rest == wr)
		return wr;
	note_untimed(lane, seat);
	note_sent(lane, seat);
	*needs_doorbell = !samehost_is_heard_by(lane->samehost, way);
	return rest;
}

/* Copied straight from the verb: time that is no gap between polls. */
static void note_copied(struct lane *lane, uint64_t bytes)
{
	turn_took(&lane->turn, (uint32_t)(bytes / COPY_BYTES));
	if (bytes > EXPRESS_LIST_BYTES)
		lane_leave(lane, true);
}

/* WRITEs and READs of a region that is mapped here, as far as the list begins with such. Now and
 * then the general path looks at the clock. */
static struct ibv_send_wr *reach_plain(struct lane *lane, struct qp *qp, struct ibv_send_wr *wr)
{
	const struct samehost_memo *memo = reachable_recall(qp, wr);
	struct express_reach reach;
	uint64_t bytes = 0;

	if (!memo || !turn_may_wait(&lane->turn) || !express_begin_reach(qp))
		return wr;
	lane->is_telling_later = true;
	for (; wr && bytes < EXPRESS_LIST_BYTES; wr = wr->next) {
		if (!express_find_reach(qp, wr, &reach) ||
		    samehost_reach_again(lane->samehost, qp->attr.dest_qp_num, memo, &reach.op) !=
			REACH_DONE)
			break;
		express_end_reach(qp, wr, lane->clock);
		bytes += reach.op.bytes;
	}
	sq_commit(qp);
	note_copied(lane, bytes);
	return wr;
}

static bool is_reach(const struct ibv_send_wr *wr)
{
	return wr && (wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_READ);
}

/* Between two processes, as one like it went before. */
static struct ibv_send_wr *send_plain(struct lane *lane, struct seat *seat, struct ibv_send_wr *wr,
				      bool *needs_doorbell)
{
	if (is_reach(wr))
		return seat->reach_changes == changes_of_qps(seat) ? reach_plain(lane, seat->qp, wr)
								   : wr;
	return seat->way && seat->way_changes == changes_of_ways(lane, seat)
		   ? send_record_plain(lane, seat, wr, needs_doorbell)
		   : wr;
}

/* WRITEs and READs. Now and then the general path looks at the clock. */
static struct ibv_send_wr *reach(struct lane *lane, struct qp *qp, struct ibv_send_wr *wr,
				 bool *needs_doorbell)
{
	bool has_answered;

	if (!reachable_is_common(qp, wr) || turn_is_due(&lane->turn, false))
		return wr;
	wr = express_reach(qp, wr, lane->clock, samehost_outbox(lane->samehost), &has_answered);
	note_copied(lane, lane->copied);
	if (has_answered)
		*needs_doorbell |= !samehost_is_heard(lane->samehost);
	return wr;
}

/* One alone, to another host. */
static bool is_plain(const struct lane *lane, const struct qp *qp, const struct ibv_send_wr *wr)
{
	return wr && !wr->next && !is_reach(wr) && !samehost_is_local(lane->samehost, &qp->av);
}

/* To a QP of this host. What is for another one, and behind what is in flight, waits in the queue
 * as if a ring were full: the next turn sends all that has come together by then. */
static struct ibv_send_wr *send_here(struct lane *lane, struct seat *seat, struct ibv_send_wr *wr,
				     bool *needs_doorbell)
{
	unsigned long changes = changes_of_qps(seat);
	struct qp *peer = find_peer(lane, seat->qp);

	if (peer) {
		acquaint(seat, peer, changes);
		return execute(lane, seat->qp, peer, wr);
	}
	if (is_reach(wr)) {
		wr = reach(lane, seat->qp, wr, needs_doorbell);
		seat->reach_changes = express_may_leave(seat->qp) ? changes : 0;
	}
	return wr ? send_record(lane, seat, wr, needs_doorbell) : NULL;
}

/* Only here something may be sent to the lane itself. */
APART WHOLE static struct ibv_send_wr *send_otherwise(struct lane *lane, struct seat *seat,
						      struct ibv_send_wr *wr, bool *needs_doorbell)
{
	*needs_doorbell = false;
	wr = execute_plain(lane, seat, wr);
	if (!wr || (is_plain(lane, seat->qp, wr) && plain_send(lane, seat, wr)))
		return NULL;
	wr = send_here(lane, seat, wr, needs_doorbell);
	*needs_doorbell |= wr || samehost_has_own_news(lane->samehost);
	return wr;
}

WHOLE struct ibv_send_wr *express_send(struct lane *lane, struct seat *seat, struct ibv_send_wr *wr,
				       bool *needs_doorbell)
{
	bool needs_plainly = false, needs_otherwise = false;

	*needs_doorbell = true;
	if (!is_on(lane) || !lane_trylock(lane))
		return wr;
	wr = send_plain(lane, seat, wr, &needs_plainly);
	if (wr)
		wr = send_otherwise(lane, seat, wr, &needs_otherwise);
	needs_plainly |= lane->ready != NULL;
	let_go(lane);
	*needs_doorbell = needs_plainly | needs_otherwise | has_missed(lane); /* before that, too */
	return wr;
}

/* Of a channel all packets are one. */
static void taken(struct qp *qp, const struct packet *packet, void *lane)
{
	struct seat *seat = qp->seat;
	unsigned long changes = changes_of_ways(lane, seat);

	note(lane, seat);
	if (seat->from_changes == changes)
		return;
	seat->from_changes = changes;
	seat->from = express_may_arrive(qp, packet) ? packet : NULL;
}

static bool arrive(struct lane *lane, const struct packet *packet, struct cq_taking *taking)
{
	struct express head;
	struct qp *qp = transport_find_express(samehost_owner_of_record(lane->samehost), packet,
					       (uint8_t)lane->index, &head);
	struct seat *seat;

	if (!qp)
		return false;
	seat = qp->seat;
	if (seat->from != packet || seat->from_changes != changes_of_ways(lane, seat) ||
	    !express_arrive(qp, &head, packet, taking, lane->clock))
		return false;
	/* who brought none is owed one, and nothing waits here that did not before */
	if (express_flags(&head) & EXPRESS_ACK)
		note(lane, seat);
	else
		note_late(lane, seat);
	return true;
}

struct take {
	struct lane *lane;
	struct cq_taking *taking; /* NULL: all that comes is wanted */
	bool is_unheard;	  /* a bell is to ring */
};

/* For who polls what finds no room in its array would be stored, and comes with its next poll. */
static enum samehost_taken accept(const struct packet *packet, void *adapter, void *data)
{
	struct take *take = data;
	struct lane *lane = take->lane;
	struct glance glance = {(uint8_t)lane->index, lane->clock, taken, lane,
				samehost_outbox(lane->samehost)};
	bool asks = !packet->is_express && bth_has_fecn(packet->bth);

	if (!transport_glance(adapter, packet, &glance))
		return SAMEHOST_LEFT;
	if (asks)
		take->is_unheard |= !samehost_is_heard(lane->samehost);
	lane->unanswered += (uint32_t)(packet->length / UNANSWERED_BYTES);
	return take->taking && cq_take_is_full(take->taking) ? SAMEHOST_ENOUGH : SAMEHOST_TAKEN;
}

APART WHOLE static unsigned int take(struct lane *lane, struct cq_taking *taking, bool *has_left)
{
	struct take take = {lane, taking, false};
	unsigned int count;

	if (taking)
		cq_take_share(taking);
	count = samehost_glance(lane->samehost, accept, &take, has_left);
	*has_left |= take.is_unheard;
	lane->unanswered += count;
	return count;
}

/* First the plain ones that come first, where the last came from. */
APART WHOLE static unsigned int take_plain(struct lane *lane, struct cq_taking *taking,
					   bool *has_left)
{
	struct samehost *samehost = lane->samehost;
	const struct packet *packet;
	unsigned int count = 0;
	size_t copied = 0;

	while (!cq_take_is_full(taking) && count < BATCH_RECORDS && copied < BATCH_BYTES) {
		packet = samehost_take_record(samehost, count);
		if (!packet)
			break;
		if (!arrive(lane, packet, taking)) {
			samehost_leave_record(samehost);
			break;
		}
		count++;
		copied += packet->length;
	}
	if (count)
		samehost_release_records(samehost, count);
	lane->unanswered += count + (uint32_t)(copied / UNANSWERED_BYTES);
	if (!cq_take_is_full(taking) && !samehost_is_empty(samehost))
		count += take(lane, taking, has_left);
	return count;
}

/* Only a program that polls comes again soon, for what is left for later. */
static bool may_hear(const struct lane *lane)
{
	return atomic_load_explicit(&lane->has_poller, memory_order_relaxed) &&
	       !samehost_is_empty(lane->samehost);
}

/* What its receiver has answered meanwhile. False if it needs a turn. */
APART static bool hear(struct lane *lane)
{
	bool has_left;

	take(lane, NULL, &has_left);
	return catch_up(lane) && !has_left;
}

/* Posts as much as the pace allows, with what has come by then. */
static struct ibv_send_wr *post_unreliably(struct lane *lane, struct qp *qp, struct ibv_send_wr *wr,
					   bool *is_done)
{
	struct outbox *outbox = samehost_outbox(lane->samehost);

	*is_done = true;
	wr = unreliable_post(qp, wr, outbox, lane->clock);
	if (!unreliable_waits(qp) || !may_hear(lane))
		return wr;
	*is_done = hear(lane);
	return wr ? unreliable_post(qp, wr, outbox, lane->clock) : NULL;
}

struct ibv_send_wr *express_send_unreliably(struct lane *lane, struct qp *qp,
					    struct ibv_send_wr *wr, bool *needs_doorbell)
{
	/* whom the last of them goes to is all that is asked below */
	bool is_to_several = qp->type == IBV_QPT_UD && wr->next, is_done;

	*needs_doorbell = true;
	if (!is_on(lane) || !lane_trylock(lane))
		return wr;
	lane->is_telling_later = true;
	wr = post_unreliably(lane, qp, wr, &is_done);
	if (wr && !wr->next && is_done && plain_send_unreliably(lane, qp, wr))
		wr = NULL;
	*needs_doorbell = wr || !is_done || is_to_several || lane->ready ||
			  !samehost_is_heard(lane->samehost) ||
			  samehost_has_own_news(lane->samehost);
	let_go(lane);
	*needs_doorbell |= has_missed(lane);
	return wr;
}

unsigned int express_look(struct lane *lane, bool *has_left)
{
	unsigned int count;

	lane->is_telling_later = true;
	*has_left = true;
	if (!is_on(lane) || !atomic_load_explicit(&lane->has_poller, memory_order_relaxed))
		return 0;
	count = take(lane, NULL, has_left);
	catch_up(lane);
	return count;
}

/* True if that was all there was to do. */
static bool look(struct lane *lane, struct cq_taking *taking, bool *did)
{
	unsigned int count;
	bool has_left = false;

	if (!lane_is_spared(lane) || lane->ready || lane->flush_at != UINT64_MAX ||
	    lane->late_count > LATE_MAX || turn_is_overdue(&lane->turn) ||
	    samehost_is_asked_again(lane->samehost))
		return false;
	lane->is_telling_later = true;
	count = samehost_is_empty(lane->samehost) ? 0 : take_plain(lane, taking, &has_left);
	if (count) {
		lane_spare(lane);
		*did = true;
	} else {
		lane_spare_less(lane);
	}
	if (turn_is_due(&lane->turn, count))
		return false;
	if ((!count || lane->unanswered >= UNANSWERED_MAX) && !catch_up(lane))
		return false;
	return !has_left;
}

WHOLE bool express_glance(struct lane *lane, struct cq_taking *taking, bool *did)
{
	bool is_all;

	if (!is_on(lane) || !lane_is_spared(lane) ||
	    !atomic_load_explicit(&lane->has_poller, memory_order_relaxed))
		return false;
	if (!lane_trylock(lane))
		return false; /* somebody else looks; engine_poll() gives way */
	lane_count(&lane->polls);
	is_all = look(lane, taking, did);
	let_go(lane);
	return is_all && !has_missed(lane);
}
