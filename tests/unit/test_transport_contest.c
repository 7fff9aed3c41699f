/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contest of records and offers: a peer that takes so long for a message of the one and of the
 * other, with so many under way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "transport/contest.h"
#include "wire/psn.h"

enum {
	PSNS = 16, /* of a message */
	MOST = 32, /* under way */
	/* messages, in which the first one is over */
	A_CONTEST = 2 * CONTEST_TIMES * (CONTEST_WARM + CONTEST_WINDOW + MOST) + CONTEST_FIRST,
	US = 1000,
};

static struct contests contests;
static uint64_t now, cost[2], sent[2], pause;
static uint32_t start, going; /* so many offers in a row cost three times as much at first */
static uint32_t una, psn, under_way, depth;
static uint8_t ways[MOST]; /* of what is under way, oldest first */

static void take_time(uint64_t records, uint64_t offers)
{
	cost[CONTEST_RECORDS] = records;
	cost[CONTEST_OFFERS] = offers;
}

static int set_up(void **state)
{
	memset(&contests, 0, sizeof(contests));
	memset(sent, 0, sizeof(sent));
	now = 12345;
	una = psn = 0xffff80; /* PSNs wrap */
	under_way = 0;
	depth = MOST;
	pause = 0;
	start = going = 0;
	return 0;
}

static void acknowledge(void)
{
	bool is_offer = ways[0] == CONTEST_OFFERS;

	now += cost[ways[0]] * (is_offer && going < start ? 3 : 1);
	going = is_offer ? going + 1 : 0;
	memmove(ways, ways + 1, --under_way);
	una = psn_add(una, PSNS);
}

/* As offer_contest() asks. `depth` 0: each waits for the one before it. */
static void send(uint32_t count)
{
	while (count--) {
		uint8_t way = contests_want_offers(&contests);

		while (under_way && under_way >= depth)
			acknowledge();
		now += pause;
		if (contests_count(&contests, una, psn, PSNS))
			contests_time(&contests, una, psn, now);
		ways[under_way++] = way;
		sent[way]++;
		psn = psn_add(psn, PSNS);
	}
}

static bool are_offered(uint32_t count)
{
	uint64_t before = sent[CONTEST_OFFERS];

	send(count);
	assert_true(sent[CONTEST_OFFERS] == before || sent[CONTEST_OFFERS] == before + count);
	return sent[CONTEST_OFFERS] != before;
}

/* All of them but those of the contest. */
static void what_is_faster_is_taken(void **state)
{
	take_time(3 * US, 2 * US);
	send(A_CONTEST);
	assert_true(are_offered(3000));
	assert_in_range(sent[CONTEST_RECORDS], CONTEST_FIRST, 800);
}

static void records_are_kept_where_those_are_faster(void **state)
{
	take_time(2 * US, 3 * US);
	send(A_CONTEST);
	assert_false(are_offered(3000));
	assert_true(sent[CONTEST_OFFERS] > 0); /* tried */
}

static void nor_is_a_little_worth_a_change(void **state)
{
	take_time(100 * US / 32, 97 * US / 32);
	send(A_CONTEST);
	assert_false(are_offered(3000));
	take_time(100 * US / 32, 90 * US / 32);
	send(2 * CONTEST_SOONEST + A_CONTEST);
	assert_true(are_offered(2000));
	take_time(97 * US / 32, 100 * US / 32);
	send(CONTEST_SOONEST + A_CONTEST);
	assert_true(are_offered(1000));
}

/* Until both ends are in step again. */
static void a_slow_start_is_not_what_a_way_takes(void **state)
{
	start = 24;
	take_time(3 * US, 2 * US);
	send(A_CONTEST);
	assert_true(are_offered(1000));
}

static void messages_alone_are_timed_too(void **state)
{
	depth = 0;
	take_time(7 * US, 3 * US);
	send(A_CONTEST);
	assert_true(are_offered(3000));
}

/* The machine may have others on it by now. */
static void it_goes_back_when_that_has_changed(void **state)
{
	take_time(3 * US, 2 * US);
	send(200000);
	assert_true(are_offered(1000));
	take_time(3 * US, 4 * US);
	for (int i = 0; i < CONTEST_LATEST + A_CONTEST && contests.of[0].duel.best; i++)
		send(1);
	send(MOST);
	assert_false(are_offered(1000));
	take_time(3 * US, 2 * US); /* and looks again sooner, having been wrong */
	send(CONTEST_SOONEST + A_CONTEST);
	assert_true(are_offered(1000));
}

/* In share of a million messages. */
static uint64_t tried(uint64_t records, uint64_t offers)
{
	set_up(NULL);
	take_time(records, offers);
	send(1000000);
	return sent[CONTEST_OFFERS];
}

static void trying_costs_little(void **state)
{
	assert_in_range(tried(3 * US, 3 * US), CONTEST_WINDOW, 6500);
	assert_in_range(tried(3 * US, 7 * US), CONTEST_WINDOW, 2200);
	set_up(NULL);
	take_time(3 * US, 7 * US);
	send(12000); /* as those who measure do */
	assert_in_range(sent[CONTEST_OFFERS], CONTEST_WINDOW, 400);
}

static bool is_timed(int window)
{
	const struct contest *contest = &contests.of[0];

	return contest->duel.is_running && contest->windows >= window &&
	       contest->state == CONTEST_TIMING;
}

/* In one of the windows, of which each way has three in turn, somebody else has the core. */
static void disturb(int window)
{
	set_up(NULL);
	while (!is_timed(window))
		send(1);
	now += 500 * US;
	send(A_CONTEST);
}

static void one_that_was_disturbed_does_not_count(void **state)
{
	for (int window = 0; window < 2 * CONTEST_TIMES; window++) {
		take_time(3 * US, 3 * US);
		disturb(window);
		assert_false(are_offered(100));
		take_time(3 * US, 2 * US);
		disturb(window);
		/* a first one that says it is hopeless is believed, until the next */
		send(window == 1 ? CONTEST_SOONEST + A_CONTEST : 0);
		assert_true(are_offered(100));
	}
}

/* The program's time is none of the copies'. */
static void who_does_other_things_meanwhile_stays_as_he_is(void **state)
{
	depth = 0;
	pause = 100 * US;
	take_time(50 * US, 3 * US);
	send(100000);
	assert_int_equal(sent[CONTEST_OFFERS], 0);
	pause = 0;
	take_time(7 * US, 3 * US);
	send(CONTEST_LATEST + A_CONTEST);
	assert_true(are_offered(1000));
	pause = 200 * US;
	send(2 * CONTEST_LATEST);
	assert_true(are_offered(1000));
}

static void streams_and_messages_alone_have_a_contest_each(void **state)
{
	depth = 0;
	take_time(7 * US, 3 * US);
	send(A_CONTEST);
	assert_true(are_offered(100));
	depth = MOST;
	take_time(2 * US, 3 * US);
	send(3 * CONTEST_BLOCK);
	assert_false(are_offered(1));
	send(A_CONTEST);
	assert_false(are_offered(100));
	depth = 0;
	send(3 * CONTEST_BLOCK);
	assert_true(are_offered(100));
}

/* What others do in turn is a stream, as far as that is seen here. */
static void one_that_turns_from_the_one_to_the_other_ends_its_contests(void **state)
{
	take_time(3 * US, 2 * US);
	for (int i = 0; i < 40; i++) {
		depth = i % 2 ? MOST : 0;
		send(3 * CONTEST_BLOCK);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(contests.of[i].duel.best, CONTEST_OFFERS);
}

/* Messages of other lengths take PSNs, too. */
static void what_lies_between_two_does_not_stop_it(void **state)
{
	take_time(3 * US, 2 * US);
	while (!contests.of[0].duel.is_running)
		send(1);
	while (under_way)
		acknowledge();
	una = psn = psn_add(psn, 0xc00000);
	send(A_CONTEST);
	assert_true(are_offered(100));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, set_up)
	    TEST(what_is_faster_is_taken),
	    TEST(records_are_kept_where_those_are_faster),
	    TEST(nor_is_a_little_worth_a_change),
	    TEST(a_slow_start_is_not_what_a_way_takes),
	    TEST(messages_alone_are_timed_too),
	    TEST(it_goes_back_when_that_has_changed),
	    TEST(trying_costs_little),
	    TEST(one_that_was_disturbed_does_not_count),
	    TEST(who_does_other_things_meanwhile_stays_as_he_is),
	    TEST(streams_and_messages_alone_have_a_contest_each),
	    TEST(one_that_turns_from_the_one_to_the_other_ends_its_contests),
	    TEST(what_lies_between_two_does_not_stop_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
