/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Polls of the engine, and what its threads do meanwhile: who makes progress, who looks where, and
 * who leaves whom alone.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "engine/lane.h"
#include "engine/progress.h"
#include "engine/state.h"
#include "engine_side.h"
#include "link/directory.h"
#include "transport/responder.h"

static struct side side;

static atomic_bool has_lock, has_let_go;

static void *hold_lane(void *lane)
{
	atomic_store(&has_let_go, false);
	lane_lock(lane);
	atomic_store(&has_lock, true);
	poll(NULL, 0, 50);
	atomic_store(&has_let_go, true);
	lane_unlock(lane);
	return NULL;
}

static bool poll_waits(struct side *of)
{
	pthread_t holder;
	bool has_waited;

	atomic_store(&has_lock, false);
	assert_int_equal(pthread_create(&holder, NULL, hold_lane, of->qp->seat->lane), 0);
	while (!atomic_load(&has_lock))
		sched_yield();
	engine_poll(of->cq);
	has_waited = atomic_load(&has_let_go);
	assert_int_equal(pthread_join(holder, NULL), 0);
	return has_waited;
}

static void who_was_told_of_a_completion_catches_up_once(void **state)
{
	side_open(&side, IBV_QPT_RC);
	assert_false(poll_waits(&side));
	engine_was_told();
	assert_true(poll_waits(&side));
	assert_false(poll_waits(&side));
	side_close(&side);
}

/* By its number peers find our memory (link/directory.h). */
static void peers_know_a_thread_that_sleeps(void **state)
{
	const struct timespec look = {.tv_nsec = 1000000};
	uint64_t deadline = now_ms() + PATIENCE_MS;
	char path[64], name[16] = "";
	const struct directory *directory;
	FILE *file;

	side_open(&side, IBV_QPT_RC);
	directory = side.qp->seat->lane->engine->reachable.directory;
	assert_non_null(directory);
	while (!directory_sleeper(directory) && now_ms() < deadline)
		nanosleep(&look, NULL);
	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", directory_sleeper(directory));
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(name, sizeof(name), file));
	fclose(file);
	assert_string_equal(name, "verbatim/watch\n");
	side_close(&side);
}

static struct lane *polled_lane(struct side *of)
{
	struct lane *lane = of->qp->seat->lane;
	uint64_t deadline = now_ms() + PATIENCE_MS;

	while (!atomic_load(&lane->has_poller)) {
		assert_true(now_ms() < deadline);
		engine_poll(of->cq);
	}
	return lane;
}

/* The lock is held: the lane's thread may take the timer as soon as it has that. */
static void let_timer_go_off(struct lane *lane)
{
	const struct itimerspec at_once = {.it_value.tv_nsec = 1};
	struct pollfd timer = {lane->timer_fd, POLLIN, 0};

	assert_int_equal(timerfd_settime(lane->timer_fd, 0, &at_once, NULL), 0);
	lane->armed = 0;
	assert_int_equal(poll(&timer, 1, PATIENCE_MS), 1);
}

static bool has_timer_gone_off(const struct lane *lane)
{
	struct pollfd timer = {lane->timer_fd, POLLIN, 0};

	return poll(&timer, 1, 0) == 1;
}

/* Else each look at all sockets finds it, for as long as the program polls. */
static void who_polls_takes_the_timer_as_well(void **state)
{
	struct lane *lane;

	side_open(&side, IBV_QPT_RC);
	lane = polled_lane(&side);
	lane_lock(lane);
	let_timer_go_off(lane);
	lane_unlock(lane);
	/* more than once, as the lane's thread may have the lock, and no core */
	for (int round = 0; round < 10 && has_timer_gone_off(lane); round++) {
		for (int i = 0; i < 100; i++)
			engine_poll(side.cq);
		sched_yield();
	}
	assert_false(has_timer_gone_off(lane));
	lane_lock(lane);
	assert_int_equal(lane->armed, UINT64_MAX);
	lane_unlock(lane);
	side_close(&side);
}

/* Where the QP's deadline stood before it moved on, to there. What the timer is armed for then. */
static uint64_t armed_for(struct side *of, uint64_t stood, uint64_t stands)
{
	struct lane *lane = of->qp->seat->lane;
	struct responder *responder = of->qp->responder;
	uint64_t armed;

	lane_lock(lane);
	atomic_store(&lane->has_poller, false);
	lane->armed = UINT64_MAX;
	responder->is_owed = stands != UINT64_MAX; /* an ACK, by then */
	responder->behind_until = stands;
	timer_set(&lane->timers, &of->qp->seat->timer, stood);
	lane_unlock(lane);
	lane_lock(lane);
	armed = lane->armed;
	responder->is_owed = false;
	responder->behind_until = 0;
	timer_cancel(&lane->timers, &of->qp->seat->timer);
	lane_unlock(lane);
	return armed;
}

/* Else it wakes for nothing, has the lane when the program posts, is left that, and wakes again
 * when that would be late. */
static void the_thread_is_woken_for_no_deadline_that_was_met(void **state)
{
	uint64_t now = lane_now(), soon = now + 5000000000, later = now + 9000000000;

	side_open(&side, IBV_QPT_RC);
	assert_int_equal(armed_for(&side, soon, UINT64_MAX), UINT64_MAX);
	assert_int_equal(armed_for(&side, soon, later), later);
	assert_int_equal(armed_for(&side, soon, soon), soon);
	side_close(&side);
}

/* The lock is held: whoever takes the timer is who looked. */
static void post_that_copied(struct lane *lane, uint64_t bytes)
{
	lane->copied = bytes;
	lane_look_too(lane, lane_now());
}

/* Each look costs a tenth of what it takes to copy 64 KiB. Where nothing came by a socket yet, it
 * looks four times as seldom. */
static void who_only_copies_looks_at_the_sockets_now_and_then(void **state)
{
	enum { COPY = 64 << 10, COPIES = 8 };
	struct source quiet = {.fd = -1, .is_shared = true};
	struct lane *lane;

	side_open(&side, IBV_QPT_RC);
	lane = polled_lane(&side);
	lane_lock(lane);
	let_timer_go_off(lane);
	for (int i = 1; i < 4 * COPIES; i++)
		post_that_copied(lane, COPY);
	assert_true(has_timer_gone_off(lane));
	post_that_copied(lane, COPY);
	assert_false(has_timer_gone_off(lane));
	let_timer_go_off(lane);
	post_that_copied(lane, 4 * COPIES * COPY);
	assert_false(has_timer_gone_off(lane));
	lane->hot = &quiet;
	for (int i = 1; i < COPIES; i++)
		post_that_copied(lane, COPY);
	assert_int_equal(lane->unlooked, (COPIES - 1) * COPY);
	post_that_copied(lane, COPY);
	assert_int_equal(lane->unlooked, 0);
	lane->hot = NULL;
	lane_unlock(lane);
	side_close(&side);
}

/* Polls for that long, with the lane's lock. Whether the lane's thread wanted it meanwhile. */
static bool is_wanted_while_polled(struct lane *lane, uint64_t ms)
{
	uint64_t until = now_ms() + ms;
	bool is_wanted = false;

	lane_lock(lane);
	while (now_ms() < until && !is_wanted) {
		atomic_fetch_add(&lane->polls, 1);
		is_wanted = atomic_load(&lane->waiting) != 0;
	}
	lane_unlock(lane);
	return is_wanted;
}

/* Whether it lets some naps go by. Who has not had the core for longer than one is wanted for that:
 * then again. */
static bool is_left_alone(struct side *of)
{
	enum { TRIES = 200, NAPS_MS = 4 };

	for (int try = 0; try < TRIES; try++) {
		struct lane *lane = polled_lane(of);

		atomic_store(&lane->poller_since, 0);
		for (uint64_t until = now_ms() + NAPS_MS; now_ms() < until;)
			engine_poll(of->cq); /* it has what it was kicked for */
		if (!is_wanted_while_polled(lane, NAPS_MS))
			return true;
	}
	return false;
}

/* It would take the lock from a program that needs it all the time, once a millisecond. */
static void the_thread_leaves_who_goes_on_polling_alone(void **state)
{
	struct lane *lane;

	side_open(&side, IBV_QPT_RC);
	assert_true(is_left_alone(&side));
	lane = polled_lane(&side);
	lane_lock(lane);
	atomic_store(&lane->patience, atomic_load(&lane->patience) * 2);
	lane_unlock(lane);
	assert_true(is_wanted_while_polled(lane, PATIENCE_MS));
	assert_true(is_left_alone(&side));
	side_close(&side);
}

/* Polls, for the thread to nap by then, and sleeps. */
static bool is_trusted_after_sleep(struct side *of)
{
	enum { NAPS_MS = 4, LOOKS = 100 };
	struct lane *lane = polled_lane(of);

	for (uint64_t until = now_ms() + NAPS_MS; now_ms() < until;)
		engine_poll(of->cq);
	lane_lock(lane);
	atomic_store(&lane->patience, 4 * PATIENCE_NS);
	atomic_store(&lane->poller_since, 0);
	lane_unlock(lane);
	lane_will_sleep(lane);
	for (int look = 0; look < LOOKS && atomic_load(&lane->patience) != PATIENCE_NS; look++)
		poll(NULL, 0, 1);
	return atomic_load(&lane->patience) == PATIENCE_NS;
}

/* However its polls end. */
static void who_polled_for_long_is_trusted_again(void **state)
{
	bool is_trusted = false;

	side_open(&side, IBV_QPT_RC);
	for (int try = 0; try < 20 && !is_trusted; try++)
		is_trusted = is_trusted_after_sleep(&side);
	assert_true(is_trusted);
	side_close(&side);
}

/* What is at that source wakes the thread, though the program polls, which takes none of it. */
static void let_it_call(struct lane *lane, struct source *source)
{
	lane_lock(lane);
	lane->hot = source;
	lane_let_it_call(lane);
	lane->hot = NULL;
	lane_unlock(lane);
}

static struct calling calling_of(struct lane *lane)
{
	struct calling calling;

	lane_lock(lane);
	calling = lane->calling;
	lane_unlock(lane);
	return calling;
}

/* A program that waits in memory after such a poll is not helped by a thread that finds nothing. */
static void packets_call_the_thread_until_that_was_in_vain(void **state)
{
	uint64_t deadline = now_ms() + PATIENCE_MS;
	struct source source = {0};
	struct lane *lane;
	int ends[2];

	side_open(&side, IBV_QPT_RC);
	lane = polled_lane(&side);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
	source.fd = ends[0];
	source.adapter = side.adapter;
	lane_lock(lane);
	assert_true(calling_begin(&lane->calling));
	lane_unlock(lane);
	assert_int_equal(write(ends[1], "?", 1), 1);
	for (uint32_t vain = 1; vain <= 8; vain++) {
		assert_true(calling_of(lane).is_on);
		let_it_call(lane, &source);
		while (calling_of(lane).vain < vain) {
			assert_true(now_ms() < deadline);
			engine_poll(side.cq);
		}
	}
	assert_false(calling_of(lane).is_on);
	close(ends[0]);
	close(ends[1]);
	side_close(&side);
}

/* Two that poll at the same time may be counted as one: that is no gap. Who is kept from the core
 * between two polls has made one: then again. */
static void polls_that_were_not_counted_are_no_gap(void **state)
{
	enum { TRIES = 20 };
	unsigned long since = 0;
	struct lane *lane;

	side_open(&side, IBV_QPT_RC);
	for (int try = 0; try < TRIES && !since; try++) {
		lane = polled_lane(&side);
		engine_poll(side.cq);
		since = atomic_load(&lane->polling_since);
		atomic_fetch_sub(&lane->polls, 1);
		engine_poll(side.cq);
		since *= atomic_load(&lane->polling_since) == since;
	}
	assert_true(since);
	side_close(&side);
}

/* It would take the core from the program. Where the program itself has none for a while, it has to
 * look: then again. */
static void the_thread_is_not_woken_as_long_as_a_program_polls(void **state)
{
	enum { TRIES = 100, NAPS = 20, FEW = 4 };
	unsigned long woken = NAPS;

	side_open(&side, IBV_QPT_RC);
	for (int try = 0; try < TRIES && woken > FEW; try++) {
		uint64_t until;

		polled_lane(&side);
		woken = wakeups();
		for (until = now_ms() + NAPS; now_ms() < until;)
			engine_poll(side.cq);
		woken = wakeups() - woken;
	}
	assert_in_range(woken, 0, FEW);
	side_close(&side);
}

/* A poll now and then, or two, is no reason to sleep on. Who is kept from the core meanwhile has
 * seen nothing: then again. */
static void only_who_goes_on_polling_puts_off_that_the_thread_looks(void **state)
{
	struct lane *lane;
	uint64_t begin;
	bool is_left = false;

	side_open(&side, IBV_QPT_RC);
	for (int try = 0; try < 100 && !is_left; try++) {
		lane = polled_lane(&side);
		for (begin = engine_now(); engine_now() < begin + NAP_NS / 5;)
			;
		atomic_store(&lane->nap.put_off_at, 0);
		begin = engine_now();
		engine_poll(side.cq);
		engine_poll(side.cq);
		is_left =
		    atomic_load(&lane->nap.put_off_at) < begin && atomic_load(&lane->has_poller);
	}
	assert_true(is_left);
	for (uint64_t until = now_ms() + PATIENCE_MS;
	     now_ms() < until && atomic_load(&lane->nap.put_off_at) < begin + NAP_NS;)
		engine_poll(side.cq);
	assert_true(atomic_load(&lane->nap.put_off_at) >= begin + NAP_NS);
	side_close(&side);
}

static bool is_taken_in_time(int fd)
{
	uint64_t deadline = now_ms() + PATIENCE_MS;
	struct pollfd waiting = {fd, POLLIN, 0};

	while (poll(&waiting, 1, 0) == 1 && now_ms() < deadline)
		poll(NULL, 0, 1);
	return poll(&waiting, 1, 0) == 0;
}

/* Whose poller has stopped, and who sleeps by now. */
static void await_parked(struct lane *lane)
{
	uint64_t deadline = now_ms() + PATIENCE_MS;

	while (atomic_load(&lane->has_poller) && now_ms() < deadline)
		poll(NULL, 0, 1);
	assert_false(atomic_load(&lane->has_poller));
	poll(NULL, 0, 20);
}

/* A program that has polled an inlet for long stops without a word. */
static void the_thread_sleeps_on_an_inlet_again_that_nobody_polls_any_more(void **state)
{
	struct inlet *inlet;
	struct lane *lane;
	int ends[2];

	side_open(&side, IBV_QPT_RC);
	lane = polled_lane(&side);
	inlet = &lane->inlet;
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
	lane_lock(lane);
	inlet->is_off = true;
	inlet->source = (struct source){.fd = ends[0], .adapter = side.adapter};
	inlet->parent = &inlet->source;
	assert_int_equal(lane_add_source(lane, &inlet->source), 0);
	while (!inlet->is_apart)
		inlet_was_polled(lane);
	lane_unlock(lane);
	for (int round = 0; round < 3; round++) {
		assert_int_equal(write(ends[1], "?", 1), 1);
		assert_true(is_taken_in_time(ends[0]));
		await_parked(lane);
	}
	lane_lock(lane);
	assert_false(inlet->is_apart);
	inlet_close(lane);
	inlet->is_off = false;
	lane_unlock(lane);
	close(ends[1]);
	side_close(&side);
}

/* Of our own, on no other host: nobody answers. */
static void connect_to_nobody(struct side *of)
{
	of->peer = of->self;
	of->peer.gid.raw[15] = 9;
	side_connect(of);
	of->qp->av.carrier_max = 2 * of->qp->mtu;
}

/* It owes the responses to a READ of so many packets. */
static void owe_responses(struct side *of, const struct mr *mr, uint32_t packets)
{
	struct responder *responder = of->qp->responder;

	responder->jobs[0] = (struct response_job){
	    .kind = JOB_READ,
	    .psn = responder->psn,
	    .last_psn = psn_add(responder->psn, packets - 1),
	    .rkey = mr->rkey,
	    .length = packets * of->qp->mtu,
	    .left = packets * of->qp->mtu,
	    .va = mr->iova,
	};
	responder->job_count = 1;
	lane_make_ready(of->qp->seat->lane, of->qp->seat);
}

/* Also in the third turn of them, where the lock is not let go in between. */
static void before_the_rest_of_responses_it_looks_for_more_requests(void **state)
{
	enum { MTU = 1024, PACKETS = 4 * 62 + 2 };
	static char bytes[PACKETS * MTU];
	struct source source = {0};
	struct lane *lane;
	struct mr *mr;
	int ends[2];

	side_open(&side, IBV_QPT_RC);
	connect_to_nobody(&side);
	assert_int_equal(
	    mr_create(side.pd, bytes, sizeof(bytes), (uintptr_t)bytes, IBV_ACCESS_REMOTE_READ, &mr),
	    0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
	source.fd = ends[0];
	source.adapter = side.adapter;
	lane = side.qp->seat->lane;
	lane_lock(lane);
	owe_responses(&side, mr, PACKETS);
	lane->hot = &source;
	assert_int_equal(write(ends[1], "?", 1), 1);
	lane_turn(lane, true);
	assert_int_equal(recv(ends[0], &(char){0}, 1, MSG_DONTWAIT), -1);
	assert_int_equal(side.qp->responder->job_count, 0);
	lane->hot = NULL;
	lane_unlock(lane);
	assert_int_equal(mr_destroy(mr), 0);
	close(ends[0]);
	close(ends[1]);
	side_close(&side);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(peers_know_a_thread_that_sleeps),
	    cmocka_unit_test(who_was_told_of_a_completion_catches_up_once),
	    cmocka_unit_test(who_polls_takes_the_timer_as_well),
	    cmocka_unit_test(the_thread_is_woken_for_no_deadline_that_was_met),
	    cmocka_unit_test(who_only_copies_looks_at_the_sockets_now_and_then),
	    cmocka_unit_test(packets_call_the_thread_until_that_was_in_vain),
	    cmocka_unit_test(the_thread_leaves_who_goes_on_polling_alone),
	    cmocka_unit_test(who_polled_for_long_is_trusted_again),
	    cmocka_unit_test(only_who_goes_on_polling_puts_off_that_the_thread_looks),
	    cmocka_unit_test(polls_that_were_not_counted_are_no_gap),
	    cmocka_unit_test(the_thread_is_not_woken_as_long_as_a_program_polls),
	    cmocka_unit_test(the_thread_sleeps_on_an_inlet_again_that_nobody_polls_any_more),
	    cmocka_unit_test(before_the_rest_of_responses_it_looks_for_more_requests),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, surroundings, NULL);
}
