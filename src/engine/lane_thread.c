/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lane's thread, parked or napping (lane.h).
 */
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "engine/progress.h"
#include "engine/state.h"
#include "engine/thread.h"
#include "link/samehost.h"

enum {
	PATIENCE_MAX_NS = 1 << 30,
	RELIABLE_NS = 1000000000, /* this long a poller, and patience starts anew */
	ATTEND_NS = 250000,	  /* between looks at sockets */
};

/* Until there is news; or for a moment, if not all that may bring some are among them. */
static void sleep_at_sockets(struct lane *lane, bool is_whole)
{
	struct epoll_event event;
	uint64_t since = lane_now();

	epoll_wait(lane->epoll_fd, &event, 1, is_whole ? -1 : 1);
	vigil_slept(&lane->vigil, lane_now() - since);
}

/* Who computes gets the core. True if this left it, but not for that one. */
static bool give_core(struct lane *lane, int but_for, uint64_t *took, enum perch_use *use)
{
	uint64_t since = lane_now(), now;

	sched_yield();
	now = lane_now();
	*took = now - since;
	*use = perch_use(&lane->perch, *took,
			 perch_is_in_doubt(&lane->perch, *took) && thread_was_preempted());
	return perch_is_to_leave(&lane->perch, now, *use) && thread_leave_core(but_for);
}

static void yield_on_vigil(struct lane *lane)
{
	enum perch_use use;
	uint64_t took;

	if (!give_core(lane, -1, &took, &use))
		vigil_yielded(&lane->vigil, took, use);
}

/* ---- called to help ---- */

/* On the core of who copies there is nothing to help with. */
static void yield_at_attendance(struct lane *lane)
{
	enum perch_use use;
	uint64_t took;
	int callers;

	lane_lock(lane);
	callers = samehost_callers_core(lane->samehost);
	lane_unlock(lane);
	if (give_core(lane, callers, &took, &use))
		use = PERCH_UNUSED; /* of the core where it is now nothing is known */
	attendance_yielded(&lane->attendance, use, lane_now());
}

/* False if there is something else to do. */
static bool help(struct lane *lane, bool *has_helped)
{
	bool is_quiet;

	lane_lock(lane);
	*has_helped = samehost_assist(lane->samehost, lane->engine->reachable.directory);
	if (!*has_helped && samehost_is_caller_at_it(lane->samehost))
		attendance_awaits(&lane->attendance, lane_now());
	is_quiet = samehost_is_empty(lane->samehost) && !lane->ready;
	lane_unlock(lane);
	return is_quiet && !atomic_load_explicit(&lane->has_poller, memory_order_relaxed) &&
	       !atomic_load_explicit(&lane->is_stopping, memory_order_relaxed);
}

/* The kernel likes to wake us where the bell was rung; who copies there will not be helped so. */
static void begin_attendance(struct lane *lane)
{
	int callers;

	lane_lock(lane);
	callers = samehost_callers_core(lane->samehost);
	samehost_attend(lane->samehost, true);
	lane_unlock(lane);
	if (callers == sched_getcpu())
		thread_leave_core(-1);
	attendance_begin(&lane->attendance, lane_now());
}

static void end_attendance(struct lane *lane)
{
	attendance_end(&lane->attendance);
	lane_lock(lane);
	samehost_attend(lane->samehost, false);
	samehost_answer_calls(lane->samehost, lane->attendance.was_busy);
	lane_unlock(lane);
}

/* Until the peers that called have nothing more, or it is time to look elsewhere. */
static void attend(struct lane *lane)
{
	struct attendance *attendance = &lane->attendance;
	uint64_t now, until;
	bool has_helped, is_quiet = true;

	if (!lane->engine->neighbours.is_assisted) {
		end_attendance(lane);
		return;
	}
	if (!attendance->is_on)
		begin_attendance(lane);
	now = lane_now();
	until = now + ATTEND_NS;
	while (is_quiet && now < until && attendance_goes_on(attendance)) {
		is_quiet = help(lane, &has_helped);
		now = lane_now();
		if (attendance_looked(attendance, has_helped, now))
			yield_at_attendance(lane);
	}
	if (!attendance_goes_on(attendance))
		end_attendance(lane);
}

/* True if a program has begun to poll. */
static bool park(struct lane *lane)
{
	bool is_quiet, looks_again, is_called, is_whole;
	unsigned int found;

	lane_lock(lane);
	is_whole = inlet_rejoin(lane);
	samehost_stay_awake(lane->samehost);
	found = lane_turn(lane, true);
	looks_again = vigil_goes_on(&lane->vigil, found, lane->looked_at, lane_now());
	is_called = samehost_is_called(lane->samehost);
	is_quiet = !looks_again && samehost_fall_asleep(lane->samehost);
	lane_unlock(lane);
	if (is_called)
		attend(lane);
	else if (looks_again && !found && vigil_yields(&lane->vigil))
		yield_on_vigil(lane);
	else if (is_quiet && !lane->is_awaiting_reply && !atomic_load(&lane->has_poller) &&
		 !atomic_load(&lane->is_stopping))
		sleep_at_sockets(lane, is_whole);
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

/* Since then nobody has polled, nor come to the end of a long copy. */
static bool is_left_alone(const struct lane *lane, unsigned int polls)
{
	return polls == atomic_load_explicit(&lane->polls, memory_order_relaxed);
}

/*
 * Nobody polled during a whole nap. If something waited all the time, this should not happen often,
 * so polls let themselves be called from now on; but who had no core can't help it.
 */
static void take_over(struct lane *lane, unsigned int polls, bool had_core)
{
	lane_lock(lane);
	if (!is_left_alone(lane, polls)) {
		lane_unlock(lane);
		return;
	}
	atomic_store(&lane->has_poller, false);
	if (lane_turn(lane, true) && had_core) {
		if (!calling_begin(&lane->calling) && lane->patience < PATIENCE_MAX_NS)
			lane->patience *= 2;
	}
	lane_unlock(lane);
}

/* The packet for which a poll had let itself be called. The program most likely waits in memory: if
 * it does not answer either, it is no poller any more. */
static void take_call(struct lane *lane)
{
	struct epoll_event event;
	bool has_found;

	epoll_wait(lane->call_fd, &event, 1, 0); /* it is for once */
	lane_lock(lane);
	has_found = lane_turn(lane, true) != 0;
	calling_came(&lane->calling, has_found,
		     atomic_load_explicit(&lane->polls, memory_order_relaxed),
		     atomic_load_explicit(&lane->posts, memory_order_relaxed));
	if (has_found && !lane->is_awaiting_reply)
		atomic_store(&lane->has_poller, false);
	lane_unlock(lane);
}

static void take_kick(struct lane *lane)
{
	lane_lock(lane);
	if (lane_turn(lane, true))
		lane_let_it_call(lane); /* what the program waits to see may be among it */
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
	lane_turn(lane, true);
	lane_unlock(lane);
}

/* What polls that stopped have taught, which a program that went on polling for long disproves.
 * Only this thread learns it. */
static void forgive_reliable(struct lane *lane)
{
	if (atomic_load_explicit(&lane->patience, memory_order_relaxed) == PATIENCE_NS &&
	    !lane->calling.vain)
		return;
	if (lane_now() <
	    atomic_load_explicit(&lane->poller_since, memory_order_relaxed) + RELIABLE_NS)
		return;
	lane_lock(lane);
	lane->patience = PATIENCE_NS;
	calling_forget(&lane->calling);
	lane_unlock(lane);
}

enum awoken { AWOKEN_BY_NONE, AWOKEN_BY_KICK, AWOKEN_BY_CALL };

/* Until there is news; or for so long, or, without that, until the nap is over. */
static enum awoken doze(struct lane *lane, const struct timespec *patience)
{
	struct pollfd news[] = {
	    {.fd = lane->kick_fd, .events = POLLIN},
	    {.fd = lane->call_fd, .events = POLLIN},
	    {.fd = patience ? -1 : lane->nap.fd, .events = POLLIN},
	};

	ppoll(news, sizeof(news) / sizeof(news[0]), patience, NULL);
	if (news[1].revents)
		return AWOKEN_BY_CALL;
	return news[0].revents ? AWOKEN_BY_KICK : AWOKEN_BY_NONE;
}

/* What it was like when the thread began to wait for the poller to end. */
struct absence {
	unsigned int polls;
	uint64_t ran, since;
};

static struct absence absence_begin(const struct lane *lane)
{
	return (struct absence){
	    .polls = atomic_load_explicit(&lane->polls, memory_order_relaxed),
	    .ran = poller_time(lane),
	    .since = lane_now(),
	};
}

static bool had_core(const struct lane *lane, const struct absence *absence)
{
	return poller_time(lane) > absence->ran + (lane_now() - absence->since) / 2;
}

/* It polled when the nap began. If it has not looked at the clock for long since, it has ended, or
 * has so much to take in that it need not look. */
static bool is_out_of_sight(const struct lane *lane)
{
	return lane_now() >= atomic_load_explicit(&lane->seen, memory_order_relaxed) + NAP_NS;
}

/* Until there is news, or nobody polls any more. Who waits for the lock keeps it from the poller,
 * so it is taken for a reason only. */
static void nap(struct lane *lane)
{
	const struct timespec moment = {.tv_nsec = NAP_NS / 4};
	struct absence absence = absence_begin(lane);
	enum awoken by;

	nap_begin(&lane->nap, absence.since);
	by = doze(lane, NULL);
	if (by == AWOKEN_BY_NONE && !is_left_alone(lane, absence.polls) && is_out_of_sight(lane)) {
		absence = absence_begin(lane);
		by = doze(lane, &moment);
	}
	forgive_reliable(lane);
	if (by == AWOKEN_BY_CALL)
		take_call(lane);
	else if (by == AWOKEN_BY_KICK)
		take_kick(lane);
	else if (is_left_alone(lane, absence.polls))
		take_over(lane, absence.polls, had_core(lane, &absence));
}

/* What is still owed, as pay_debts() of a single QP. */
static void pay_all_debts(struct lane *lane)
{
	uint64_t until = lane_now() + DEBT_PATIENCE_NS;
	bool is_owing;

	do {
		lane_lock(lane);
		lane_turn(lane, true);
		is_owing = lane->ready;
		lane_unlock(lane);
	} while (is_owing && lane_now() < until && usleep(DEBT_LOOK_US) == 0);
}

/* The program polls, and may have had from us already what it polls for. */
static void begin_naps(struct lane *lane)
{
	lane_lock(lane);
	lane_let_it_call(lane);
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
