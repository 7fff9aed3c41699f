/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a polling thread does with its core: the rules of engine/yield.h, and what neighbours tell
 * each other for them.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/yield.h"
#include "link/samehost.h"

enum { US = 1000, MS = 1000000 };

static uint32_t looks_until_due(struct yield *yield)
{
	uint32_t looks = 0;

	yield_again(yield);
	while (!yield_is_due(yield)) {
		yield->idle++;
		looks++;
	}
	yield_again(yield);
	return looks;
}

static void a_yield_that_was_used_makes_the_next_one_come_sooner(void **state)
{
	struct yield yield = {0};

	assert_int_equal(looks_until_due(&yield), 64);
	yield_learn(&yield, 0, 10 * US, false);
	assert_int_equal(looks_until_due(&yield), 4);
	for (int i = 0; i < 4; i++)
		yield_learn(&yield, 0, 300, false);
	assert_int_equal(looks_until_due(&yield), 64);
	assert_int_equal(yield_manner(&yield, 0), YIELD_CORE);
}

/* A yield for nothing costs a ping-pong by sockets a tenth of its time. */
static void yields_that_nobody_uses_become_rare(void **state)
{
	struct yield yield = {0};

	for (int i = 0; i < 1000; i++)
		yield_learn(&yield, 0, 300, false);
	assert_int_equal(looks_until_due(&yield), 1024);
	yield_learn(&yield, 0, 10 * US, false);
	assert_int_equal(looks_until_due(&yield), 4);
	for (int i = 0; i < 4 + 15; i++)
		yield_learn(&yield, 0, 300, false);
	assert_int_equal(looks_until_due(&yield), 64);
	yield_learn(&yield, 0, 300, false);
	assert_int_equal(looks_until_due(&yield), 128);
}

static void beside_who_computes_a_core_that_peers_do_not_need_is_kept(void **state)
{
	struct yield yield = {0};

	yield_learn(&yield, 10 * MS, 4 * MS, false);
	assert_int_equal(yield_manner(&yield, 11 * MS), YIELD_KEEP);
	assert_int_equal(yield_manner(&yield, 12 * MS), YIELD_CORE);
}

/* As eight processes on two cores, which kept them from each other for 2 ms each. */
static void a_core_that_peers_wait_for_is_never_kept(void **state)
{
	struct yield yield = {0};

	yield_learn(&yield, 10 * MS, 4 * MS, true);
	assert_int_equal(yield_manner(&yield, 11 * MS), YIELD_SLEEP);
	assert_int_equal(yield_manner(&yield, 12 * MS), YIELD_CORE);
}

static void to_yield_is_tried_ever_later_until_it_pays(void **state)
{
	struct yield yield = {0};
	uint64_t now = 0;

	for (uint64_t time = 2 * MS; time <= 64 * MS; time *= 2) {
		yield_learn(&yield, now, 4 * MS, true);
		assert_int_equal(yield_manner(&yield, now + time - 1), YIELD_SLEEP);
		assert_int_equal(yield_manner(&yield, now + time), YIELD_CORE);
		now += time;
	}
	yield_learn(&yield, now, 4 * MS, true);
	assert_int_equal(yield_manner(&yield, now + 64 * MS), YIELD_CORE);
	yield_learn(&yield, now, 10 * US, true);
	yield_learn(&yield, now, 4 * MS, true);
	assert_int_equal(yield_manner(&yield, now + 2 * MS), YIELD_CORE);
}

/* Looks in vain while the core is kept, as often as they come. */
static uint64_t keep(struct yield *yield, uint64_t now)
{
	while (yield_manner(yield, now) == YIELD_KEEP) {
		yield_kept(yield);
		now += 10 * US;
	}
	return now;
}

/* The core is others' for 4 ms, and then something is there, which is answered. */
static uint64_t give_and_find(struct yield *yield, uint64_t now)
{
	now += 4 * MS;
	yield_learn(yield, now, 4 * MS, false);
	yield_found(yield);
	return now;
}

/* Two that talk by sockets and share a core with one who computes kept it from each other: 1000
 * messages were not done in 6 s. */
static void a_peer_that_comes_by_only_while_others_have_the_core_is_here(void **state)
{
	struct yield yield = {0};
	uint64_t now = 0;

	for (int i = 0; i < 2; i++) {
		now = give_and_find(&yield, now);
		assert_int_equal(yield_manner(&yield, now), YIELD_KEEP);
		now = keep(&yield, now);
	}
	now = give_and_find(&yield, now);
	assert_int_equal(yield_manner(&yield, now), YIELD_SLEEP);
}

/* Nobody yields, the scheduler takes the core. */
static void so_is_one_that_comes_by_when_the_core_was_taken(void **state)
{
	struct yield yield = {0};
	uint64_t now = 0;

	for (int i = 0; i < 2; i++) {
		yield_learn(&yield, now, 4 * MS, false);
		yield_kept(&yield);
		yield_kept(&yield);
		yield_found(&yield);
		now = keep(&yield, now + MS);
	}
	yield_learn(&yield, now, 4 * MS, false);
	assert_int_equal(yield_manner(&yield, now), YIELD_SLEEP);
}

static void a_peer_that_answers_while_the_core_is_kept_is_elsewhere(void **state)
{
	struct yield yield = {0};
	uint64_t now = 0;

	for (int i = 0; i < 10; i++) {
		now = give_and_find(&yield, now);
		assert_int_equal(yield_manner(&yield, now), YIELD_KEEP);
		for (int answer = 0; answer < 3; answer++) {
			yield_kept(&yield);
			yield_found(&yield);
		}
		now = keep(&yield, now + 10 * US);
	}
}

static void where_a_peer_is_is_asked_again_after_the_longest_sleeps(void **state)
{
	struct yield yield = {0};
	uint64_t now = 0;

	for (int i = 0; i < 2; i++)
		now = keep(&yield, give_and_find(&yield, now));
	for (uint64_t time = 2 * MS; time <= 64 * MS; time *= 2) {
		now = give_and_find(&yield, now);
		assert_int_equal(yield_manner(&yield, now + time - 1), YIELD_SLEEP);
		now += time;
	}
	now = give_and_find(&yield, now);
	assert_int_equal(yield_manner(&yield, now), YIELD_KEEP);
}

static void a_core_that_nobody_uses_has_no_peer_on_it(void **state)
{
	struct yield yield = {0};
	uint64_t now = 0;

	for (int i = 0; i < 2; i++)
		now = keep(&yield, give_and_find(&yield, now));
	yield_learn(&yield, now, 300, false);
	now = give_and_find(&yield, now);
	assert_int_equal(yield_manner(&yield, now), YIELD_KEEP);
}

static struct samehost *make_side(void *memory, unsigned int flags)
{
	struct samehost *samehost = samehost_open(NULL, false, false, 0);
	struct channel *channel = channel_open(memory, flags, -1);

	assert_non_null(samehost);
	assert_non_null(channel);
	assert_int_equal(samehost_add(samehost, channel, 1, 1), 0);
	return samehost;
}

static void a_neighbour_on_the_same_core_is_seen_and_oneself_is_not(void **state)
{
	int fd = memfd_create("channel", 0);
	void *memory[2];
	struct samehost *a, *b;
	uint32_t on_0 = samehost_poller(0, 1, 1), on_1 = samehost_poller(1, 2, 1);

	assert_int_equal(ftruncate(fd, (off_t)channel_bytes()), 0);
	for (int i = 0; i < 2; i++) {
		memory[i] = mmap(NULL, channel_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		assert_ptr_not_equal(memory[i], MAP_FAILED);
	}
	a = make_side(memory[0], CHANNEL_OFFERED);
	samehost_say_poller(a, on_0);
	b = make_side(memory[1], 0);
	assert_false(samehost_has_peers_here(a, on_0)); /* nobody has said anything */
	samehost_say_poller(b, on_1);
	assert_false(samehost_has_peers_here(a, on_0));
	assert_false(samehost_has_peers_here(b, on_1));
	assert_true(samehost_has_peers_here(b, samehost_poller(0, 2, 1)));
	samehost_say_poller(b, samehost_poller(0, 2, 1));
	assert_true(samehost_has_peers_here(a, on_0));
	samehost_say_poller(b, on_0); /* another lane of the same thread */
	assert_false(samehost_has_peers_here(a, on_0));
	assert_int_equal(samehost_poller(-1, 1, 1), 0);
	assert_int_equal(samehost_poller(4095, 1, 1), 0);
	samehost_close(a);
	samehost_close(b);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_yield_that_was_used_makes_the_next_one_come_sooner),
	    cmocka_unit_test(yields_that_nobody_uses_become_rare),
	    cmocka_unit_test(beside_who_computes_a_core_that_peers_do_not_need_is_kept),
	    cmocka_unit_test(a_core_that_peers_wait_for_is_never_kept),
	    cmocka_unit_test(to_yield_is_tried_ever_later_until_it_pays),
	    cmocka_unit_test(a_peer_that_comes_by_only_while_others_have_the_core_is_here),
	    cmocka_unit_test(so_is_one_that_comes_by_when_the_core_was_taken),
	    cmocka_unit_test(a_peer_that_answers_while_the_core_is_kept_is_elsewhere),
	    cmocka_unit_test(where_a_peer_is_is_asked_again_after_the_longest_sleeps),
	    cmocka_unit_test(a_core_that_nobody_uses_has_no_peer_on_it),
	    cmocka_unit_test(a_neighbour_on_the_same_core_is_seen_and_oneself_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
