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
	window_timed(&window, &rtt, ns, MTU, now);
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

	while (lost--)
		window_missed(&window, una, end);
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

static void a_few_lost_packets_are_chance(void **state)
{
	sample(MS / 10);
	rounds_of(20, 0);
	rounds_of(20, NEAR / 10);
	assert_int_equal(window.packets, NEAR);
	round_of(NEAR / 10 + 2);
	assert_in_range(window.packets, NEAR / 2, NEAR / 2 + 1);
}

/* One that is lost again and again makes a round long; what leaves meanwhile loses as much. */
static void losses_are_measured_against_all_that_left(void **state)
{
	sample(MS / 10);
	rounds_of(20, 0);
	for (uint32_t left = 0; left < NEAR; left += 16)
		for (int lost = 0; lost < 2; lost++)
			window_missed(&window, psn_add(una, left), psn_add(una, left + NEAR));
	assert_int_equal(window.packets, NEAR);
}

static void they_are_not_where_packets_wait(void **state)
{
	samples(20 * MS);
	rounds_of(10, 0);
	sample(30 * MS);
	round_of(1); /* or they are not, and the peer was busy */
	assert_int_equal(window.packets, WINDOW_FAR_PACKETS);
	sample(30 * MS);
	round_of(1);
	assert_in_range(window.packets, WINDOW_FAR_PACKETS / 2, WINDOW_FAR_PACKETS / 2 + 16);
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

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_short_way_opens_it_as_far_as_a_socket_holds),
	    TEST(a_long_way_opens_it_further),
	    TEST(a_few_lost_packets_are_chance),
	    TEST(losses_are_measured_against_all_that_left),
	    TEST(they_are_not_where_packets_wait),
	    TEST(a_small_window_yields_at_once),
	    TEST(many_lost_packets_halve_it_once_a_round),
	    TEST(it_shrinks_by_what_waits),
	    TEST(now_and_then_it_begins_anew),
	    TEST(a_way_may_become_longer),
	    TEST(a_mark_takes_what_waits),
	    TEST(a_timeout_starts_from_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
