/* SPDX-License-Identifier: BSD-2-Clause */
/* The congestion window: what opens it, what shrinks it, and what does neither. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "transport/window.h"
#include "wire/psn.h"

enum { MTU = 4096, NEAR = WINDOW_MAX_BYTES / MTU, MS = 1000000 };

static struct window window;
static struct rtt rtt;
static uint32_t una;
static uint64_t now;

static int set_up(void **state)
{
	window_init(&window, MTU);
	rtt = (struct rtt){0};
	una = 0xfffff0; /* PSNs wrap */
	now = 100 * (uint64_t)MS;
	return 0;
}

static void sample(uint64_t ns)
{
	rtt_note_least(&rtt, ns, now);
	window_timed(&window, &rtt, ns, window.packets, MTU, now);
}

/* So often that it is believed. */
static void samples(uint64_t ns)
{
	for (int i = 0; i < 4; i++)
		sample(ns);
}

/* A window is sent and acknowledged, its first `lost` packets once more. */
static void round_of(uint32_t lost)
{
	uint32_t packets = window.packets, end = psn_add(una, packets);

	if (lost)
		window_missed(&window, lost, una, end);
	una = end;
	window_acknowledged(&window, packets, una);
}

static void rounds_of(int count, uint32_t lost)
{
	while (count--)
		round_of(lost);
}

static void a_short_way_opens_it_as_far_as_a_socket_holds(void **state)
{
	samples(MS / 10);
	rounds_of(20, 0);
	assert_int_equal(window.packets, NEAR);
	for (int i = 0; i < 10; i++)
		sample(20 * MS); /* the peer has other things to do */
	assert_int_equal(window.packets, NEAR);
}

static void a_long_way_opens_it_further(void **state)
{
	samples(2 * MS);
	rounds_of(10, 0);
	assert_int_equal(window.packets, 2 * MS / MTU);
	sample(20 * MS); /* others' packets: the way is no longer than it was */
	assert_int_equal(window.max, 2 * MS / MTU);
	rtt = (struct rtt){0};
	sample(20 * MS); /* the peer was asleep, perhaps */
	assert_int_equal(window.max, NEAR);
	samples(20 * MS);
	rounds_of(10, 0);
	assert_int_equal(window.packets, WINDOW_FAR_PACKETS);
}

/* As many are lost when the window has yielded for a while: so it has back what it had. */
static void what_is_lost_by_chance_changes_nothing(void **state)
{
	uint32_t least = NEAR, yielded = 0;

	sample(MS / 10);
	rounds_of(20, 0);
	for (int i = 0; i < 100; i++) {
		round_of(window.packets / 16);
		least = window.packets < least ? window.packets : least;
		yielded += window.packets < NEAR;
	}
	assert_int_equal(least, NEAR * 3 / 4);
	assert_in_range(yielded, 5, 25);
	while (window.packets < NEAR)
		round_of(window.packets / 16);
	round_of(NEAR / 10 + 2); /* that is no chance any more */
	assert_in_range(window.packets, NEAR / 2, NEAR / 2 + 1);
}

/* A line that holds `room` packets; what is more is lost. How many of those in `count` rounds. */
static uint32_t rounds_with_room(int count, uint32_t room)
{
	uint32_t lost = 0, more;

	while (count--) {
		more = window.packets > room ? window.packets - room : 0;
		lost += more;
		round_of(more);
	}
	return lost;
}

static void a_window_that_is_too_large_for_a_queue_is_found_by_a_trial(void **state)
{
	uint32_t lost;

	sample(MS / 10);
	rounds_of(20, 0);
	rounds_with_room(60, 56);
	assert_true(window_is_tight(&window));
	lost = rounds_with_room(1000, 56);
	assert_in_range(lost, 1, 1000 * 56 / 100);
	assert_in_range(window.packets, 56 * 3 / 4, 60);
	rounds_of(1000, 0); /* there is room again */
	assert_int_equal(window.packets, NEAR);
	assert_false(window_is_tight(&window));
}

/* A queue that is seen meanwhile counts: the window has back no more than that leaves. */
static void a_trial_gives_back_no_more_than_a_queue_leaves(void **state)
{
	samples(20 * MS);
	rounds_of(10, 0);
	window.emptied = now;
	do
		round_of(window.packets / 32);
	while (window.packets == WINDOW_FAR_PACKETS);
	assert_int_equal(window.packets, WINDOW_FAR_PACKETS * 3 / 4);
	for (int i = 0; i < 3; i++)
		sample(40 * MS);
	assert_int_equal(window.packets, WINDOW_FAR_PACKETS * 3 / 8);
	rounds_of(6, 12);
	assert_in_range(window.packets, WINDOW_FAR_PACKETS * 3 / 8,
			WINDOW_FAR_PACKETS * 3 / 8 + 6 * 16);
}

static void single_losses_begin_no_trial(void **state)
{
	sample(MS / 10);
	rounds_of(20, 0);
	for (int i = 0; i < 100; i++) {
		round_of(i % 4 == 0);
		assert_int_equal(window.packets, NEAR);
	}
}

/* One that is lost again and again makes a round long; what leaves meanwhile loses as much. */
static void losses_are_measured_against_all_that_left(void **state)
{
	sample(MS / 10);
	rounds_of(20, 0);
	for (uint32_t left = 0; left < NEAR; left += 16)
		for (int lost = 0; lost < 2; lost++)
			window_missed(&window, 1, psn_add(una, left), psn_add(una, left + NEAR));
	assert_int_equal(window.packets, NEAR);
}

/* What waits takes its part of the window; that a packet is lost as well takes nothing more. */
static void one_that_is_lost_while_packets_wait_is_chance(void **state)
{
	samples(20 * MS);
	rounds_of(10, 0);
	for (int i = 0; i < 2; i++) {
		sample(30 * MS);
		round_of(1);
	}
	assert_int_equal(window.packets, WINDOW_FAR_PACKETS);
}

static void begin_doubling(uint32_t packets)
{
	samples(20 * MS);
	window.packets = packets;
	assert_true(window_is_doubling(&window));
}

static void timed(uint64_t ns, uint32_t in_flight)
{
	now += MS;
	rtt_note_least(&rtt, ns, now);
	window_timed(&window, &rtt, ns, in_flight, MTU, now);
}

/* What was in flight when the packets left, less what waited: it has doubled since. */
static void doubling_ends_where_three_packets_in_a_row_waited(void **state)
{
	begin_doubling(1200);
	rtt.smoothed = 20 * MS; /* one round */
	window.round_until = now + 20 * MS;
	timed(25 * MS, 500);
	timed(25 * MS, 600);
	timed(20 * MS, 600); /* somebody had been busy */
	timed(25 * MS, 600);
	timed(30 * MS, 750);
	assert_true(window_is_doubling(&window));
	timed(32 * MS, 700);
	assert_int_equal(window.packets, 750 * 2 / 3);
	assert_false(window_is_doubling(&window));
}

/* It found its limit by the last doubling, and what that did is not seen yet. */
static void what_the_last_doubling_did_counts(void **state)
{
	begin_doubling(1200);
	timed(20 * MS, 600);
	window.packets = WINDOW_FAR_PACKETS;
	window.round_until = now + 20 * MS;
	for (int i = 0; i < 3; i++)
		timed(40 * MS, 1200);
	assert_int_equal(window.packets, 600);
}

static void what_left_before_it_began_anew_does_not(void **state)
{
	begin_doubling(1200);
	window.emptied = now;
	window.round_until = now + 20 * MS;
	for (int i = 0; i < 8; i++)
		timed(40 * MS, 1200);
	assert_true(window_is_doubling(&window));
}

/* The shortest of a round is how long it is: all but one may have met busy processors. */
static void the_shortest_of_a_round_counts(void **state)
{
	samples(20 * MS);
	rounds_of(10, 0);
	rtt.smoothed = 20 * MS;
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 20; i++)
			timed(i == 7 ? 20 * MS : 40 * MS, WINDOW_FAR_PACKETS);
		if (round == 0)
			window.fresh = 0;
	}
	assert_int_equal(window.packets, WINDOW_FAR_PACKETS);
	for (int i = 0; i < 100; i++)
		timed(40 * MS, WINDOW_FAR_PACKETS);
	assert_true(window.packets < WINDOW_FAR_PACKETS);
}

static void several_packets_are_timed(void **state)
{
	assert_true(rtt_may_time(&rtt, una, 100));
	for (uint32_t i = 0; i < RTT_TIMED; i++) {
		rtt_time(&rtt, (struct timed){.since = i, .psn = psn_add(una, 100 * i)});
		assert_false(rtt_may_time(&rtt, psn_add(una, 100 * i + 99), 100));
		assert_int_equal(rtt_may_time(&rtt, psn_add(una, 100 * i + 100), 100),
				 i + 1 < RTT_TIMED);
	}
	rtt_void(&rtt, psn_add(una, 300));
	rtt_note_gap(&rtt);
	rtt_drop(&rtt, 2);
	rtt_time(&rtt, (struct timed){.since = 9, .psn = psn_add(una, 900)});
	assert_int_equal(rtt.timed_count, RTT_TIMED - 1);
	assert_true(rtt.timed[0].since == 2 && !rtt.timed[0].is_void && rtt.timed[0].is_behind_gap);
	assert_true(rtt.timed[1].is_void);
	assert_true(rtt.timed[6].since == 9 && !rtt.timed[6].is_behind_gap);
	rtt_drop(&rtt, RTT_TIMED - 1);
	assert_false(rtt_is_timing(&rtt));
}

/* Those who are many send little each. */
static void a_small_window_yields_at_once(void **state)
{
	sample(MS / 10);
	window.packets = window.threshold = 6;
	round_of(1);
	assert_in_range(window.packets, 3, 4);
}

static void many_lost_packets_halve_it_once_a_round(void **state)
{
	sample(MS / 10);
	rounds_of(20, 0);
	round_of(NEAR / 2);
	assert_in_range(window.packets, NEAR / 2, NEAR / 2 + 1);
}

/* Two long round trips are chance, three are a queue; then it shrinks to what is on the way. */
static void it_shrinks_by_what_waits(void **state)
{
	samples(20 * MS);
	rounds_of(10, 0);
	window.emptied = now;
	sample(25 * MS);
	sample(25 * MS);
	assert_int_equal(window.packets, WINDOW_FAR_PACKETS);
	sample(20 * MS);
	sample(40 * MS);
	sample(25 * MS);
	assert_int_equal(window.packets, WINDOW_FAR_PACKETS);
	sample(30 * MS);
	assert_int_equal(window.packets, WINDOW_FAR_PACKETS * 4 / 5);
	for (int i = 0; i < 50; i++)
		sample(60 * MS);
	assert_int_equal(window.packets, NEAR);
}

static void now_and_then_it_begins_anew(void **state)
{
	samples(20 * MS);
	rounds_of(10, 0);
	now += 10000 * (uint64_t)MS;
	for (int i = 0; i < 3; i++)
		sample(25 * MS);
	assert_int_equal(window.packets, WINDOW_START_BYTES / MTU);
	rounds_of(8, 0);
	assert_in_range(window.packets, WINDOW_FAR_PACKETS * 4 / 5,
			WINDOW_FAR_PACKETS * 4 / 5 + 8 * 16);
	for (int i = 0; i < 3; i++)
		sample(25 * MS);
	assert_true(window.packets > WINDOW_FAR_PACKETS / 2);
}

/* Ten to twenty seconds after it became longer the way is as long as it is. */
static void a_way_may_become_longer(void **state)
{
	sample(1 * MS);
	for (int i = 0; i < 25; i++) {
		now += 1000 * (uint64_t)MS;
		sample(20 * MS);
	}
	assert_true(rtt.least == 20 * MS);
	assert_int_equal(window.max, WINDOW_FAR_PACKETS);
}

static void a_timeout_starts_from_one(void **state)
{
	rounds_of(20, 0);
	window_timed_out(&window, psn_add(una, 5));
	assert_int_equal(window.packets, 1);
	assert_int_equal(window.threshold, NEAR / 2);
}

static void set_window(uint32_t packets)
{
	window.packets = window.threshold = packets;
	window.is_recovering = false;
}

/* A mark takes what waits: a sixteenth at least, a quarter at most or if nothing is known. */
static void a_mark_takes_what_waits(void **state)
{
	static const struct {
		uint64_t least, smoothed;
		uint32_t left;
	} cases[] = {
	    {0, 0, 750},	{20 * MS, 20 * MS, 938}, {20 * MS, 25 * MS, 800},
	    {MS, 25 * MS, 750}, {20 * MS, 19 * MS, 750}, /* it has just become longer */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		rtt.least = cases[i].least;
		rtt.smoothed = cases[i].smoothed;
		set_window(1000);
		window_marked(&window, &rtt, psn_add(una, 1000));
		assert_int_equal(window.packets, cases[i].left);
		window_marked(&window, &rtt, psn_add(una, 1000)); /* of the same round */
		assert_int_equal(window.packets, cases[i].left);
		assert_int_equal(window.threshold, cases[i].left);
	}
	set_window(2);
	window_marked(&window, &rtt, psn_add(una, 2));
	assert_int_equal(window.packets, 2);
}

/* A stream asks for more ACKs while something was lost or late lately, and not for ever. */
static void what_was_lost_is_forgotten(void **state)
{
	assert_true(window_is_untouched(&window));
	rounds_of(20, 0);
	round_of(1);
	assert_false(window_is_untouched(&window));
	rounds_of(4, 0);
	assert_false(window_is_untouched(&window));
	rounds_of(200, 0);
	assert_true(window_is_untouched(&window));
	window_timed_out(&window, una);
	rounds_of(4, 0);
	assert_false(window_is_untouched(&window));
	rounds_of(400, 0);
	assert_true(window_is_full(&window));
	assert_true(window_is_untouched(&window));
	window_marked(&window, &rtt, una);
	assert_false(window_is_untouched(&window));
}

static void what_is_lost_again_and_again_is_not(void **state)
{
	rounds_of(20, 0);
	for (int i = 0; i < 100; i++) {
		round_of(1);
		rounds_of(20, 0);
		assert_false(window_is_untouched(&window));
	}
}

/* A queue that holds a window and not two is met ever more seldom. */
static void a_stream_has_two_windows_until_something_is_lost(void **state)
{
	int last = 0, rounds;

	assert_int_equal(window_wide(&window, WINDOW_WIDE), window.packets);
	rounds_of(20, 0);
	assert_int_equal(window_wide(&window, WINDOW_WIDE), WINDOW_WIDE * NEAR);
	for (int i = 0; i < 6; i++) {
		round_of(1);
		for (rounds = 0; window_wide(&window, WINDOW_WIDE) == window.packets; rounds++)
			round_of(0);
		assert_true(window_is_untouched(&window));
		assert_true(rounds > last);
		last = rounds;
	}
}

static void it_has_as_many_as_the_socket_holds_of_all(void **state)
{
	enum { FEW = WINDOW_WIDEST_SOCKET / (WINDOW_WIDEST * WINDOW_MAX_BYTES) };

	assert_int_equal(window_times(0, 1), 1);
	assert_int_equal(window_times(WINDOW_WIDE_SOCKET - 1, 1), 1);
	assert_int_equal(window_times(WINDOW_WIDE_SOCKET, 1), WINDOW_WIDE);
	assert_int_equal(window_times(WINDOW_WIDEST_SOCKET - 1, 1), WINDOW_WIDE);
	assert_int_equal(window_times(WINDOW_WIDEST_SOCKET, 1), WINDOW_WIDEST);
	assert_int_equal(window_times(WINDOW_WIDEST_SOCKET, FEW), WINDOW_WIDEST);
	assert_int_equal(window_times(WINDOW_WIDEST_SOCKET, FEW + 1), WINDOW_WIDE);
	assert_int_equal(window_times(2 * WINDOW_WIDEST_SOCKET, FEW + 1), WINDOW_WIDEST);
	rounds_of(20, 0);
	assert_int_equal(window_wide(&window, WINDOW_WIDEST), WINDOW_WIDEST * NEAR);
}

static void a_stream_has_one_over_a_long_way(void **state)
{
	samples(20 * MS);
	rounds_of(200, 0);
	assert_true(window_is_full(&window));
	assert_int_equal(window_wide(&window, WINDOW_WIDE), window.packets);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_short_way_opens_it_as_far_as_a_socket_holds),
	    TEST(a_long_way_opens_it_further),
	    TEST(what_is_lost_by_chance_changes_nothing),
	    TEST(a_window_that_is_too_large_for_a_queue_is_found_by_a_trial),
	    TEST(a_trial_gives_back_no_more_than_a_queue_leaves),
	    TEST(single_losses_begin_no_trial),
	    TEST(losses_are_measured_against_all_that_left),
	    TEST(one_that_is_lost_while_packets_wait_is_chance),
	    TEST(doubling_ends_where_three_packets_in_a_row_waited),
	    TEST(what_the_last_doubling_did_counts),
	    TEST(what_left_before_it_began_anew_does_not),
	    TEST(the_shortest_of_a_round_counts),
	    TEST(several_packets_are_timed),
	    TEST(a_small_window_yields_at_once),
	    TEST(many_lost_packets_halve_it_once_a_round),
	    TEST(it_shrinks_by_what_waits),
	    TEST(now_and_then_it_begins_anew),
	    TEST(a_way_may_become_longer),
	    TEST(a_mark_takes_what_waits),
	    TEST(a_timeout_starts_from_one),
	    TEST(what_was_lost_is_forgotten),
	    TEST(what_is_lost_again_and_again_is_not),
	    TEST(a_stream_has_two_windows_until_something_is_lost),
	    TEST(it_has_as_many_as_the_socket_holds_of_all),
	    TEST(a_stream_has_one_over_a_long_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
