/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who makes progress, and how: a turn takes packets in, then runs the QPs that have something to
 * do, then sends what they staged. Programs do it inside lane_poll() and lane_doorbell(), the
 * lane's thread when they don't.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <urcu/compiler.h>

#include "device/adapter.h"
#include "device/cq.h"
#include "device/qp.h"
#include "engine/express.h"
#include "engine/gsi.h"
#include "engine/line.h"
#include "engine/meeting.h"
#include "engine/parcel.h"
#include "engine/progress.h"
#include "engine/raw.h"
#include "engine/state.h"
#include "engine/steer.h"
#include "link/samehost.h"
#include "link/udp.h"
#include "transport/express.h"
#include "transport/transport.h"
#include "wire/headers.h"
#include "wire/opcode.h"

enum {
	GAP_NS = 10000, /* between two polls: someone has more to do than to poll */
	NS_PER_MS = 1000000,
	PREEMPTED_MAX_NS = NS_PER_MS, /* longer, and the lane's thread has taken over */
	PATIENCE_MAX_NS = 1 << 30,
	RELIABLE_NS = 1000000000, /* this long a poller, and patience starts anew */
	LOOK_AROUND_EVERY = 8,	  /* polls: at all sockets, not only at the hot one */
	EVENTS = 16,
	NAP_NS = NS_PER_MS,
	VAIN_CALLS_MAX = 8,
	FEW_PACKETS = 3,	/* a message, the ACK of ours */
	FLUSH_RETRY_NS = 30000, /* a full socket */
	SPARED_LOOKS = 64,	/* at a socket, while packets come through shared memory */
	INLET_LOOKS = 2,	/* more, at an inlet, in one poll */
	OWN_ROUNDS = 4,		/* of a lane that sends to itself, before others have their turn */
	TAKE_ROUNDS = 64,
};

/* ---- packets in ---- */

struct intake {
	struct lane *lane;
	struct adapter *adapter;
	const struct source *source; /* NULL: handed over */
	uint64_t now;
	struct qp *last;    /* the QP of the packets before, whose timer is still to be set */
	struct batch batch; /* its caller from a path's port only */
	int taken; /* packets of ours in it, one that came with another counted by itself */
};

static void retime(struct lane *lane, struct qp *qp)
{
	timer_set(&lane->timers, &qp->seat->timer, transport_deadline(qp));
}

/*
 * A batch is mostly of one QP: its timer is set once, at the batch's end. If it is to have its
 * turn, that sets it; until then the timer may go off too early, which harms nobody.
 */
static void touched(struct intake *in, struct qp *qp)
{
	if (in->last == qp)
		return;
	if (in->last && !atomic_load_explicit(&in->last->seat->is_queued, memory_order_relaxed))
		retime(in->lane, in->last);
	in->last = qp && qp->seat ? qp : NULL;
}

static struct outbox *outbox_of(const struct lane *lane)
{
	return samehost_outbox(lane->samehost);
}

static void take_in(struct intake *in, const struct packet *packet)
{
	touched(in, transport_receive(in->adapter, packet, in->now, outbox_of(in->lane)));
}

static bool is_here(const struct engine *engine, struct adapter *adapter, uint32_t qpn)
{
	return qpn >> QPN_SLOT_SHIFT == engine->slot.number || adapter_find_qp(adapter, qpn);
}

/* Of a slot that we keep, not all QPs need be ours. */
static void forward(const struct intake *in, uint32_t qpn, const struct packet *packet)
{
	struct mail_address to;

	if (estates_have(&in->lane->engine->estates, qpn >> QPN_SLOT_SHIFT))
		mail_address_of_qp(station_of(in->adapter)->info.ifindex, qpn, &to);
	else
		mail_address_of_slot(qpn >> QPN_SLOT_SHIFT, &to);
	meeting_forward(in->lane->engine->slot.fd, &to, &in->source->gid, in->source->scope, packet,
			true);
}

/*
 * The steering program misses when a NIC's receive offload merged packets of several QPs, and when
 * a socket took a packet before the program was there.
 */
static void deliver(const struct packet *packet, void *data)
{
	struct intake *in = data;
	struct engine *engine = in->lane->engine;
	uint32_t qpn = bth_dest_qp(packet->bth);
	uint32_t lane = steer_lane(qpn, engine->lane_count);

	if (qpn == QPN_MULTICAST) {
		take_in(in, packet);
	} else if (qpn <= QPN_GSI) {
		gsi_receive(in->lane, in->adapter, &in->source->gid, in->source->scope, packet);
	} else if (!is_here(engine, in->adapter, qpn)) {
		in->batch.is_misled = true;
		forward(in, qpn, packet);
	} else if (lane != in->lane->index) {
		in->batch.is_misled = true;
		lane_hand_over(engine->lanes[lane], in->adapter, packet);
	} else {
		/* an inlet does not tell UD's hop limit */
		in->batch.is_misled |= packet->bth[0] >> 5 == TRANSPORT_UD >> 5;
		if (!in->batch.caller.port && udp_is_path_port(packet->source_port))
			in->batch.caller = (struct caller){packet->sgid, packet->source_port};
		in->taken++;
		take_in(in, packet);
	}
}

static unsigned int receive(struct lane *lane, struct source *source, uint64_t now)
{
	struct intake in = {.lane = lane, .adapter = source->adapter, .source = source, .now = now};
	int count;

	if (source->is_raw)
		return raw_receive(source, now);
	if (source->is_line)
		return line_receive(caa_container_of(source, struct line, source), now);
	if (source == &lane->inlet.source)
		count = inlet_receive(lane, deliver, &in);
	else
		count = udp_receive(lane->link, source->fd, &source->gid, deliver, &in);
	if (count <= 0)
		return 0;
	if (!source->is_shared)
		lane->hot = source;
	in.batch.is_turn = count == 1 && in.taken == 2;
	count += inlet_mind(lane, source, &in.batch, deliver, &in);
	touched(&in, NULL);
	return (unsigned int)count;
}

static void *find_adapter(const union ibv_gid *dgid, uint32_t ifindex, void *data)
{
	const struct intake *in = data;
	struct source *source;

	cds_list_for_each_entry (source, &in->lane->sources, node)
		if (!memcmp(&source->gid, dgid, sizeof(*dgid)) &&
		    source->scope == gid_scope(dgid, ifindex))
			return source->adapter;
	return NULL;
}

static void deliver_near(const struct packet *packet, void *owner, void *data)
{
	struct intake *in = data;
	struct engine *engine = in->lane->engine;
	uint32_t qpn = packet->is_express ? express_qpn((const struct express *)packet->bth)
					  : bth_dest_qp(packet->bth);
	uint32_t lane = steer_lane(qpn, engine->lane_count);

	in->adapter = owner;
	if (!is_here(engine, in->adapter, qpn))
		return;
	if (lane != in->lane->index)
		lane_hand_over(engine->lanes[lane], in->adapter, packet);
	else
		take_in(in, packet);
}

static unsigned int receive_near(struct lane *lane, uint64_t now)
{
	struct intake in = {.lane = lane, .now = now};
	unsigned int count;

	lane->is_telling_later = true;
	count = samehost_receive(lane->samehost, find_adapter, deliver_near, &in);
	touched(&in, NULL);
	return count;
}

void lane_take_near(struct lane *lane)
{
	for (int round = 0; round < TAKE_ROUNDS && receive_near(lane, lane_now()); round++)
		;
}

static bool take_parcels(struct lane *lane, uint64_t now)
{
	struct parcel *newest, *parcel = NULL;

	if (!atomic_load_explicit(&lane->parcels, memory_order_relaxed))
		return false;
	newest = atomic_exchange(&lane->parcels, NULL);
	while (newest) {
		struct parcel *next = newest->next;

		newest->next = parcel;
		parcel = newest;
		newest = next;
	}
	while (parcel) {
		struct parcel *next = parcel->next;
		struct intake in = {.lane = lane, .adapter = parcel->adapter, .now = now};

		take_in(&in, &parcel->packet);
		touched(&in, NULL);
		pool_give(&lane->engine->pool, parcel);
		parcel = next;
	}
	return true;
}

/* All sockets that have something, the timer, which would make every look take longer for as long
 * as it is not read, and the descriptor of kicks, which only the thread reads. */
static unsigned int look_around(struct lane *lane, uint64_t now, bool is_thread)
{
	struct epoll_event events[EVENTS];
	unsigned int count = 0;
	uint64_t ignored;
	int ready;

	lines_bury(lane);
	ready = epoll_wait(lane->epoll_fd, events, EVENTS, 0);

	for (int i = 0; i < ready; i++) {
		void *tag = events[i].data.ptr;

		if (tag == &lane->timer_fd) {
			if (read(lane->timer_fd, &ignored, sizeof(ignored)) > 0)
				lane->armed = UINT64_MAX;
		} else if (tag != &lane->kick_fd) {
			count += receive(lane, tag, now);
		} else if (is_thread && read(lane->kick_fd, &ignored, sizeof(ignored)) > 0) {
			atomic_exchange(&lane->is_kicked, false);
		}
	}
	return count;
}

/* Nearly all comes by one socket: a look there costs less than the rest of a poll does. */
static bool inlet_is_hot(const struct lane *lane)
{
	return lane->inlet.parent && lane->hot == &lane->inlet.source &&
	       atomic_load_explicit(&lane->has_poller, memory_order_relaxed);
}

/*
 * A poll's look: at shared memory, which costs next to nothing, and at the socket that had
 * something last, and now and then at all.
 */
static unsigned int look(struct lane *lane, uint64_t now, unsigned int *spent)
{
	unsigned int count = express_look(lane);

	count += receive_near(lane, now);
	*spent += 1;
	if (count)
		lane->spared = SPARED_LOOKS;
	if (lane->spared) {
		lane->spared--;
		return count;
	}
	*spent += LANE_SOCKET_LOOK;
	count = lane->hot ? receive(lane, lane->hot, now) : 0;
	for (int i = 0; i < INLET_LOOKS && !count && inlet_is_hot(lane); i++) {
		*spent += LANE_SOCKET_LOOK;
		count = receive(lane, lane->hot, now);
	}
	if (!lane->hot ||
	    (lane->looks++ % LOOK_AROUND_EVERY == 0 && lane->sources.next->next != &lane->sources))
		count += look_around(lane, now, false);
	return count;
}

/* ---- QPs ---- */

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

static void flush(struct lane *lane, uint64_t now)
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
	if (transport_run(seat->qp, now, outbox_of(lane)))
		lane_make_ready(lane, seat);
	retime(lane, seat->qp);
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

/* QPs that are ready, and what they send out. */
static bool run_once(struct lane *lane, uint64_t now)
{
	lane->is_answering_later = false;
	lane_take_posted(lane);
	if (timer_first(&lane->timers) <= now)
		take_due(lane, now);
	if (lane->flush_at <= now)
		flush(lane, now);
	if (lane_is_runnable(lane)) {
		run_ready(lane, now);
		flush(lane, now);
		return true;
	}
	if (lane->flush_at == UINT64_MAX)
		flush(lane, now); /* what was answered on a packet's way in: a NAK */
	return false;
}

bool lane_run(struct lane *lane, uint64_t now)
{
	bool did = take_parcels(lane, now);
	uint32_t slot, way;

	lane->clock = now;
	if (lane->late || lane->untimed)
		express_settle(lane, now);
	did |= run_once(lane, now);
	for (int i = 0; i < OWN_ROUNDS && samehost_has_own_news(lane->samehost); i++) {
		receive_near(lane, now);
		run_once(lane, now);
	}
	while (samehost_wanted(lane->samehost, &slot, &way))
		if (neighbours_want(lane->engine, lane, slot, way) < 0)
			samehost_settle(lane->samehost, slot, way);
	return did;
}

/* ---- programs ---- */

/* Under the lane's lock. */
static void become_poller(struct lane *lane, uint64_t now)
{
	clockid_t clock;

	atomic_store_explicit(&lane->poller_since, now, memory_order_relaxed);
	if (pthread_getcpuclockid(pthread_self(), &clock) == 0)
		atomic_store_explicit(&lane->poller_clock, clock, memory_order_relaxed);
	atomic_store(&lane->has_poller, true);
	lane_kick(lane); /* off the sockets */
}

/* Whether this thread's core was taken from it since it was asked last. */
static bool was_preempted(void)
{
	static _Thread_local long switches;
	struct rusage usage;
	long before = switches;

	if (getrusage(RUSAGE_THREAD, &usage) < 0)
		return false;
	switches = usage.ru_nivcsw;
	return switches != before;
}

/*
 * Whether this poll is one of many without a gap between them. The time that others had the core is
 * none, and counts for nothing: most likely it was the lane's own thread, woken by a packet, which
 * would go on like that for ever if each time it made the poller none.
 */
static bool is_polling(struct lane *lane, uint64_t now)
{
	uint64_t seen = atomic_load_explicit(&lane->seen, memory_order_relaxed);

	atomic_fetch_add_explicit(&lane->polls, 1, memory_order_relaxed);
	atomic_store_explicit(&lane->seen, now, memory_order_relaxed);
	if (now < seen + GAP_NS)
		return true;
	if (was_preempted() && now < seen + PREEMPTED_MAX_NS) {
		atomic_fetch_add_explicit(&lane->polling_since, now - seen, memory_order_relaxed);
		return true;
	}
	atomic_store_explicit(&lane->polling_since, now, memory_order_relaxed);
	return false;
}

/*
 * Packets in or out of a socket take longer than a gap between polls may: what the verb took is
 * none. Any other is left as soon as it was entered, for a look at the clock is a part of its cost.
 */
void lane_leave(struct lane *lane, bool took_long)
{
	uint64_t sends = udp_link_sends(lane->link);

	if (!took_long && sends == atomic_load_explicit(&lane->seen_sends, memory_order_relaxed))
		return;
	atomic_store_explicit(&lane->seen_sends, sends, memory_order_relaxed);
	atomic_store_explicit(&lane->seen, lane_now(), memory_order_relaxed);
}

static bool has_completion(const struct cq *cq)
{
	return cq_take_count() || atomic_load_explicit(&cq->count, memory_order_relaxed);
}

/* What came in ends a message, after one of ours and of one QP: as a long reply does. */
static bool ends_message(struct lane *lane)
{
	const struct seat *seat = lane->ready;
	uint32_t posts = atomic_load_explicit(&lane->posts, memory_order_relaxed);
	bool is_reply = posts != lane->posts_polled;

	lane->posts_polled = posts;
	return is_reply && seat && !seat->next && transport_owes_ack_alone(seat->qp) &&
	       !transport_is_amid(seat->qp);
}

/*
 * A packet or two came in, and a completion of them: what the program does now is most likely to
 * post its reply, and the ACK that we owe can go out with that, in one send instead of two. Its
 * next verb sends it in any case, or the lane's thread after its nap. Who looks for events (no CQ)
 * looks again if there was none.
 */
static bool may_answer_later(struct lane *lane, unsigned int received, bool was_ready,
			     const struct cq *cq)
{
	return (received <= FEW_PACKETS || ends_message(lane)) && !was_ready &&
	       atomic_load_explicit(&lane->has_poller, memory_order_relaxed) &&
	       (!cq || has_completion(cq));
}

/*
 * A completion of ours came in, and no packet that one answers: a program that waits in its memory
 * for the peer's next WRITE goes on to do so, and does not look at the socket again before.
 */
static bool may_be_last(const struct lane *lane, unsigned int received, const struct cq *cq)
{
	return received && lane->is_calling &&
	       (!lane->ready || (!lane->ready->next && !transport_owes(lane->ready->qp))) && cq &&
	       has_completion(cq) && atomic_load_explicit(&lane->has_poller, memory_order_relaxed);
}

/* The next packet wakes the thread, once, though it naps. */
static void let_it_call(struct lane *lane)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT};

	if (!lane->is_calling || !lane->hot)
		return;
	if (epoll_ctl(lane->call_fd, EPOLL_CTL_MOD, lane->hot->fd, &event) < 0 && errno == ENOENT)
		epoll_ctl(lane->call_fd, EPOLL_CTL_ADD, lane->hot->fd, &event);
}

bool lane_poll(struct lane *lane, struct cq *cq, unsigned int *spent)
{
	uint64_t now = lane_now();
	unsigned int count;
	bool did, was_ready, has_assisted;

	if (atomic_load_explicit(&lane->is_dead, memory_order_relaxed))
		return false;
	did = is_polling(lane, now);
	if (!lane_trylock(lane)) {
		*spent += 1; /* its holder may wait for this very core */
		return false;
	}
	if (did && !atomic_load_explicit(&lane->has_poller, memory_order_relaxed) &&
	    now > atomic_load_explicit(&lane->polling_since, memory_order_relaxed) + lane->patience)
		become_poller(lane, now);
	was_ready = lane->ready;
	count = look(lane, now, spent);
	has_assisted = samehost_assist(lane->samehost, lane->engine->reachable.directory);
	lane->is_answering_later = may_answer_later(lane, count, was_ready, cq);
	if (may_be_last(lane, count, cq))
		let_it_call(lane);
	lane_take_posted(lane);
	did = (!lane->is_answering_later && lane_run(lane, now)) || count || has_assisted;
	lane_unlock(lane);
	lane_leave(lane, count > FEW_PACKETS || has_assisted);
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

/* The number of packets that were waiting. With the lock held. */
static unsigned int turn(struct lane *lane, bool is_thread)
{
	uint64_t now = lane_now();
	bool was_ready = lane->ready;
	unsigned int count = look_around(lane, now, is_thread), near = receive_near(lane, now);

	if (is_thread && count && !near && !was_ready && may_await_reply(lane))
		lane->is_answering_later = lane->is_awaiting_reply = true;
	else
		lane_run(lane, now);
	return count + near;
}

bool lane_catch_up(struct lane *lane)
{
	bool did;

	if (atomic_load_explicit(&lane->is_dead, memory_order_relaxed))
		return false;
	lane_lock(lane);
	did = turn(lane, false);
	lane_unlock(lane);
	return did;
}

void lane_will_sleep(struct lane *lane)
{
	atomic_store_explicit(&lane->seen, 0, memory_order_relaxed);
	if (atomic_exchange(&lane->has_poller, false))
		lane_kick(lane); /* back to the sockets */
}

/* ---- the lane's thread ---- */

/* Until there is news. */
static void sleep_at_sockets(struct lane *lane)
{
	struct epoll_event event;
	uint64_t since = lane_now();

	epoll_wait(lane->epoll_fd, &event, 1, -1);
	vigil_slept(&lane->vigil, lane_now() - since);
}

/* Who computes gets the core. */
static void give_core(struct lane *lane)
{
	uint64_t since = lane_now();

	sched_yield();
	vigil_yielded(&lane->vigil, lane_now() - since);
}

/* True if a program has begun to poll. */
static bool park(struct lane *lane)
{
	bool is_quiet, looks_again;

	lane_lock(lane);
	samehost_stay_awake(lane->samehost);
	looks_again = vigil_goes_on(&lane->vigil, turn(lane, true), lane_now());
	is_quiet = !looks_again && samehost_fall_asleep(lane->samehost);
	lane_unlock(lane);
	if (looks_again)
		give_core(lane);
	else if (is_quiet && !lane->is_awaiting_reply && !atomic_load(&lane->has_poller) &&
		 !atomic_load(&lane->is_stopping))
		sleep_at_sockets(lane);
	return atomic_load(&lane->has_poller);
}

/* For how long the poller's thread has run; 0 if it is gone. */
static uint64_t poller_time(const struct lane *lane)
{
	clockid_t clock = atomic_load_explicit(&lane->poller_clock, memory_order_relaxed);
	struct timespec time;

	if (clock_gettime(clock, &time) < 0)
		return 0;
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/*
 * Nobody polled during a whole nap. If something waited all the time, this should not happen often,
 * so polls let themselves be called from now on; but who had no core can't help it.
 */
static void take_over(struct lane *lane, bool had_core)
{
	lane_lock(lane);
	atomic_store(&lane->has_poller, false);
	if (turn(lane, true) && had_core) {
		if (!lane->is_calling && lane->vain_calls < VAIN_CALLS_MAX)
			lane->is_calling = true;
		else if (lane->patience < PATIENCE_MAX_NS)
			lane->patience *= 2;
	}
	lane_unlock(lane);
}

/* The packet for which a poll had let itself be called. The program most likely waits in memory: if
 * it does not answer either, it is no poller any more. */
static void take_call(struct lane *lane)
{
	struct epoll_event event;

	epoll_wait(lane->call_fd, &event, 1, 0); /* it is for once */
	lane_lock(lane);
	if (turn(lane, true)) {
		lane->vain_calls = 0;
		if (!lane->is_awaiting_reply)
			atomic_store(&lane->has_poller, false);
	} else if (++lane->vain_calls == VAIN_CALLS_MAX) {
		lane->is_calling = false;
	}
	lane_unlock(lane);
}

/* The ACK of what was taken in has been sent with the program's reply, or leaves now. */
static void await_reply(struct lane *lane)
{
	bool is_napping = atomic_load(&lane->has_poller), has_come, is_woken;
	struct pollfd news = {.fd = is_napping ? lane->kick_fd : lane->epoll_fd, .events = POLLIN};
	const struct timespec patience = {.tv_nsec = REPLY_NS};

	is_woken = ppoll(&news, 1, &patience, NULL) > 0;
	lane_lock(lane);
	lane->is_awaiting_reply = false;
	has_come = !lane->is_answering_later;
	if (has_come || !is_woken)
		reply_was_awaited(&lane->reply, has_come);
	if (!has_come && !is_woken && is_napping)
		atomic_store(&lane->has_poller, false);
	turn(lane, true);
	lane_unlock(lane);
}

/* Until there is news, or nobody polls any more. */
static void nap(struct lane *lane)
{
	unsigned int polls = atomic_load_explicit(&lane->polls, memory_order_relaxed);
	struct pollfd news[] = {
	    {.fd = lane->kick_fd, .events = POLLIN},
	    {.fd = lane->call_fd, .events = POLLIN},
	};
	const struct timespec patience = {.tv_nsec = NAP_NS};
	uint64_t ran = poller_time(lane);
	bool is_kicked = ppoll(news, 2, &patience, NULL) > 0;

	if (news[1].revents) {
		take_call(lane);
		return;
	}
	if (!is_kicked && polls == atomic_load_explicit(&lane->polls, memory_order_relaxed)) {
		take_over(lane, poller_time(lane) > ran + NAP_NS / 2);
		return;
	}
	if (!is_kicked &&
	    lane_now() <
		atomic_load_explicit(&lane->poller_since, memory_order_relaxed) + RELIABLE_NS)
		return;
	lane_lock(lane);
	if (is_kicked) {
		if (turn(lane, true))
			let_it_call(lane); /* what the program waits to see may be among it */
	} else {
		lane->patience = PATIENCE_NS;
		lane->vain_calls = 0;
	}
	lane_unlock(lane);
}

/* What is still owed, as pay_debts() of a single QP. */
static void pay_all_debts(struct lane *lane)
{
	uint64_t until = lane_now() + DEBT_PATIENCE_NS;
	bool is_owing;

	do {
		lane_lock(lane);
		turn(lane, true);
		is_owing = lane->ready;
		lane_unlock(lane);
	} while (is_owing && lane_now() < until && usleep(DEBT_LOOK_US) == 0);
}

/* The program polls, and may have had from us already what it polls for. */
static void begin_naps(struct lane *lane)
{
	lane_lock(lane);
	let_it_call(lane);
	lane_unlock(lane);
}

void *lane_thread(void *data)
{
	struct lane *lane = data;

	while (!atomic_load(&lane->is_stopping))
		if (lane->is_awaiting_reply)
			await_reply(lane);
		else if (atomic_load(&lane->has_poller))
			nap(lane);
		else if (park(lane))
			begin_naps(lane);
	pay_all_debts(lane);
	return NULL;
}
