/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A turn: it takes packets in, then runs the QPs that have something to do, then sends what they
 * staged. Programs do it inside lane_poll() and lane_doorbell(), the lane's thread when they don't.
 */
#include <urcu/compiler.h>

#include "device/qp.h"
#include "engine/express.h"
#include "engine/intake.h"
#include "engine/line.h"
#include "engine/progress.h"
#include "engine/state.h"
#include "link/samehost.h"
#include "link/udp.h"
#include "transport/transport.h"

enum {
	FLUSH_RETRY_NS = 30000, /* a full socket */
	OWN_ROUNDS = 4,		/* of a lane that sends to itself, before others have their turn */
	RESPONSE_TURNS = 8,	/* before the lock is let go */
};

void lane_retime(struct lane *lane, struct qp *qp)
{
	timer_set(&lane->timers, &qp->seat->timer, transport_deadline(qp));
}

static void append_ready(struct lane *lane, struct seat *seat)
{
	seat->next = NULL;
	*lane->ready_end = seat;
	lane->ready_end = &seat->next;
}

/* One that is queued is on a list of this lane, and stays there as long as we hold the lock. */
void lane_make_ready(struct lane *lane, struct seat *seat)
{
	if (!atomic_load_explicit(&seat->is_queued, memory_order_relaxed) &&
	    !atomic_exchange(&seat->is_queued, true))
		append_ready(lane, seat);
}

void lane_take_posted(struct lane *lane)
{
	struct seat *newest, *oldest = NULL;

	if (!atomic_load_explicit(&lane->posted, memory_order_relaxed))
		return;
	newest = atomic_exchange(&lane->posted, NULL);
	while (newest) {
		struct seat *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	while (oldest) {
		struct seat *next = oldest->next;

		append_ready(lane, oldest);
		oldest = next;
	}
}

static void take_due(struct lane *lane, uint64_t now)
{
	struct timer *timer;

	while ((timer = timer_take_due(&lane->timers, now))) {
		lane_make_ready(lane, caa_container_of(timer, struct seat, timer));
	}
}

void lane_flush(struct lane *lane, uint64_t now)
{
	bool has_room = samehost_flush(lane->samehost);

	has_room &= udp_link_flush(lane->link);
	lane->flush_at = has_room ? UINT64_MAX : now + FLUSH_RETRY_NS;
}

static void run_seat(struct lane *lane, struct seat *seat, uint64_t now)
{
	/* from here on a new work request queues it again, by whom `next` is written anew */
	atomic_store_explicit(&seat->is_queued, false, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	if (transport_run(seat->qp, now, samehost_outbox(lane->samehost)))
		lane_make_ready(lane, seat);
	lane_retime(lane, seat->qp);
	if (seat->qp->home)
		home_ran(seat->qp);
	else if (seat->qp->line)
		branch_ran(seat->qp);
}

/* One turn for each that was ready at the start. */
static void run_ready(struct lane *lane, uint64_t now)
{
	struct seat *seat = lane->ready;

	lane->ready = NULL;
	lane->ready_end = &lane->ready;
	while (seat) {
		struct seat *next = seat->next;

		run_seat(lane, seat, now);
		seat = next;
	}
}

/* A deadline mostly moves on, and stands where it was until then (timer.h). */
static bool has_moved_on(const struct seat *seat, uint64_t from)
{
	return !atomic_load_explicit(&seat->is_queued, memory_order_relaxed) &&
	       !transport_is_untimed(seat->qp) && transport_deadline(seat->qp) > from;
}

uint64_t lane_first_due(struct lane *lane, uint64_t by)
{
	struct timer *timer;

	while ((timer = timer_take_due(&lane->timers, by))) {
		struct seat *seat = caa_container_of(timer, struct seat, timer);
		uint64_t stood = timer->deadline;

		if (!has_moved_on(seat, stood)) {
			timer_set(&lane->timers, timer, stood);
			return stood;
		}
		lane_retime(lane, seat->qp);
	}
	return UINT64_MAX;
}

/*
 * What a deadline waits for may lie at a socket or in shared memory: a verb that posts does not
 * look there, and a stream is looked for at one socket. Else each time that others had the core for
 * long would count as a loss.
 */
static void look_before_due(struct lane *lane, uint64_t now)
{
	if (lane_first_due(lane, now) == UINT64_MAX)
		return;
	intake_near(lane, now);
	intake_everywhere(lane, now, false);
	take_due(lane, now);
}

/* QPs that are ready, and what they send out. */
static bool run_once(struct lane *lane, uint64_t now)
{
	lane->is_answering_later = false;
	lane_take_posted(lane);
	look_before_due(lane, now);
	if (lane->flush_at <= now)
		lane_flush(lane, now);
	if (lane_is_runnable(lane)) {
		run_ready(lane, now);
		lane_flush(lane, now);
		return true;
	}
	if (lane->flush_at == UINT64_MAX)
		lane_flush(lane, now); /* what was answered on a packet's way in: a NAK */
	return false;
}

bool lane_run(struct lane *lane, uint64_t now)
{
	bool did = intake_parcels(lane, now);
	uint32_t slot, way;

	lane->clock = now;
	if (lane->late || lane->untimed)
		express_settle(lane, now);
	did |= run_once(lane, now);
	for (int i = 0; i < OWN_ROUNDS && samehost_has_own_news(lane->samehost); i++) {
		intake_near(lane, now);
		run_once(lane, now);
	}
	while (samehost_wanted(lane->samehost, &slot, &way))
		if (neighbours_want(lane->engine, lane, slot, way) < 0)
			samehost_settle(lane->samehost, slot, way);
	return did;
}

/* The thread has taken in what was at the sockets: whether the ACK of it, which is all that is to
 * be sent, may go with what the program posts next. */
static bool may_await_reply(struct lane *lane)
{
	const struct seat *seat = lane->ready;

	return seat && seat->qp->type == IBV_QPT_RC && transport_owes_ack_alone(seat->qp) &&
	       !transport_waits(seat->qp) && !transport_is_amid(seat->qp) &&
	       reply_is_likely(&lane->reply,
			       atomic_load_explicit(&lane->posts, memory_order_relaxed)) &&
	       !seat->next;
}

/* All turns of responses, and before what is left in the end, too little for a send, a look, as
 * more may be asked for already. */
static unsigned int go_on_responding(struct lane *lane)
{
	unsigned int count = 0;

	for (int i = 0;
	     i < RESPONSE_TURNS && lane->ready && transport_has_responses(lane->ready->qp); i++) {
		if (transport_has_rest(lane->ready->qp))
			count += intake_again(lane, lane_now());
		lane_run(lane, lane_now());
	}
	return count;
}

unsigned int lane_turn(struct lane *lane, bool is_thread)
{
	uint64_t now = lane_now();
	bool was_ready = lane->ready;
	unsigned int count = intake_turn(lane, now, is_thread), near = intake_near(lane, now);

	lane->looked_at = now;
	if (is_thread && count && !near && !was_ready && may_await_reply(lane))
		lane->is_answering_later = lane->is_awaiting_reply = true;
	else
		lane_run(lane, now);
	return count + near + go_on_responding(lane);
}

bool lane_catch_up(struct lane *lane)
{
	bool did;

	if (atomic_load_explicit(&lane->is_dead, memory_order_relaxed))
		return false;
	lane_lock(lane);
	did = lane_turn(lane, false);
	lane_unlock(lane);
	return did;
}
