/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that polls: whether it is a poller (lane.h), and a poll of it, which takes in what has
 * come and answers it, or leaves the answer for the program's next verb.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/epoll.h>

#include "device/cq.h"
#include "engine/intake.h"
#include "engine/progress.h"
#include "engine/state.h"
#include "engine/thread.h"
#include "link/samehost.h"
#include "link/udp.h"
#include "transport/transport.h"

enum {
	GAP_NS = 10000,		   /* between two polls: someone has more to do than to poll */
	PREEMPTED_MAX_NS = NAP_NS, /* longer, and the lane's thread has taken over */
	FEW_PACKETS = 3,	   /* a message, the ACK of ours */
	LOOK_BYTES = 512 << 10,	   /* copied, 25 to 50 us, between two looks at a socket */
	LOOK_BYTES_AT_NONE = 4 * LOOK_BYTES, /* where nothing has come by one yet */
};

/*
 * Whether this poll is one of many without a gap between them, on average where some came between
 * that did not look at the clock (express_glance()). The time that others had the core is none, and
 * counts for nothing: most likely it was the lane's own thread, woken by a packet, which would go
 * on like that for ever if each time it made the poller none.
 */
static bool is_polling(struct lane *lane, uint64_t now)
{
	uint64_t seen = atomic_load_explicit(&lane->seen, memory_order_relaxed);
	unsigned int polls = lane_count(&lane->polls);
	unsigned int noted = atomic_load_explicit(&lane->polls_noted, memory_order_relaxed);

	atomic_store_explicit(&lane->seen, now, memory_order_relaxed);
	atomic_store_explicit(&lane->polls_noted, polls, memory_order_relaxed);
	/* (another thread's at the same time may not be counted) */
	if (now < seen + (uint64_t)GAP_NS * (polls == noted ? 1 : polls - noted))
		return true;
	if (thread_was_preempted() && now < seen + PREEMPTED_MAX_NS) {
		atomic_fetch_add_explicit(&lane->polling_since, now - seen, memory_order_relaxed);
		return true;
	}
	atomic_store_explicit(&lane->polling_since, now, memory_order_relaxed);
	return false;
}

/*
 * A poll begins. Who has polled for long enough is the lane's poller, under the lock or not: its
 * holder, who copies for another, may be the one that is to leave that to us.
 */
static void note_poll(struct lane *lane, uint64_t now)
{
	bool is_one_of_many = is_polling(lane, now);
	uint64_t since = atomic_load_explicit(&lane->polling_since, memory_order_relaxed);
	clockid_t clock;

	if (!is_one_of_many ||
	    now <= since + atomic_load_explicit(&lane->patience, memory_order_relaxed))
		return;
	if (atomic_load_explicit(&lane->has_poller, memory_order_relaxed)) {
		nap_put_off(&lane->nap, now);
		return;
	}
	atomic_store_explicit(&lane->poller_since, now, memory_order_relaxed);
	if (pthread_getcpuclockid(pthread_self(), &clock) == 0)
		atomic_store_explicit(&lane->poller_clock, clock, memory_order_relaxed);
	atomic_store(&lane->has_poller, true);
	lane_kick(lane); /* off the sockets */
}

/*
 * Packets in or out of a socket, and long copies, take longer than a gap between polls may: what
 * the verb took is none. Any other is left as soon as it was entered, for a look at the clock is a
 * part of its cost.
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
	return received && lane->calling.is_on &&
	       (!lane->ready || (!lane->ready->next && !transport_owes(lane->ready->qp))) && cq &&
	       has_completion(cq) && atomic_load_explicit(&lane->has_poller, memory_order_relaxed);
}

void lane_let_it_call(struct lane *lane)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT};

	if (!lane->calling.is_on || !lane->hot)
		return;
	calling_let(&lane->calling, atomic_load_explicit(&lane->polls, memory_order_relaxed),
		    atomic_load_explicit(&lane->posts, memory_order_relaxed));
	if (epoll_ctl(lane->call_fd, EPOLL_CTL_MOD, lane->hot->fd, &event) < 0 && errno == ENOENT)
		epoll_ctl(lane->call_fd, EPOLL_CTL_ADD, lane->hot->fd, &event);
}

bool lane_poll(struct lane *lane, struct cq *cq, unsigned int *spent)
{
	uint64_t now = lane_now();
	unsigned int count;
	bool did, was_ready, took_long;

	if (atomic_load_explicit(&lane->is_dead, memory_order_relaxed))
		return false;
	note_poll(lane, now);
	if (!lane_trylock(lane)) {
		*spent += 1; /* its holder may wait for this very core */
		return false;
	}
	was_ready = lane->ready;
	count = intake_look(lane, now, spent);
	took_long = samehost_assist(lane->samehost, lane->engine->reachable.directory);
	if (took_long)
		lane_spare(lane);
	lane->is_answering_later = may_answer_later(lane, count, was_ready, cq);
	if (may_be_last(lane, count, cq))
		lane_let_it_call(lane);
	lane_take_posted(lane);
	did = (!lane->is_answering_later && lane_run(lane, now)) || count || took_long;
	took_long |= count > FEW_PACKETS || lane_has_copied(lane);
	lane_unlock(lane);
	lane_leave(lane, took_long);
	return did;
}

void lane_look_too(struct lane *lane, uint64_t began)
{
	unsigned int spent = 0;

	note_poll(lane, began);
	lane->unlooked += lane->copied;
	if (lane->unlooked < (lane->hot ? LOOK_BYTES : LOOK_BYTES_AT_NONE))
		return;
	lane->unlooked = 0;
	intake_look(lane, lane_now(), &spent);
}

void lane_will_sleep(struct lane *lane)
{
	atomic_store_explicit(&lane->seen, 0, memory_order_relaxed);
	if (atomic_exchange(&lane->has_poller, false))
		lane_kick(lane); /* back to the sockets */
}
