/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A long copy that two do: it is right whoever does how much of it, the helper touches nothing but
 * what it may, and nobody waits for one who does not come by.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "assist_board.h"
#include "link/assist_work.h"
#include "faults.h"

/* All of it, in parts; and that it is what it should be, and nothing besides it. */
static void transfer(bool is_read, uint64_t there, uint64_t here, uint64_t length, uint32_t seed)
{
	char *from = is_read ? theirs : own, *to = is_read ? own : theirs;
	uint64_t at = MARGIN + (is_read ? there : here), into = MARGIN + (is_read ? here : there);
	uint64_t offset, bytes;

	fill(from, seed);
	memset(to, 0x77, REGION);
	for (offset = 0; offset < length; offset += bytes) {
		enum reach_result result;

		bytes = length - offset < MIB ? length - offset : MIB;
		do
			result = part(is_read, there, here, length, offset, bytes);
		while (result == REACH_LATER); /* the helper has lost its core */
		assert_int_equal(result, REACH_DONE);
	}
	assert_memory_equal(to + into, from + at, length);
	for (uint64_t i = 0; i < MARGIN; i++) {
		assert_int_equal(to[into - 1 - i], 0x77);
		assert_int_equal(to[into + length + i], 0x77);
	}
	assert_int_equal(atomic_load(&hazard) % 2, 0);
}

static const uint32_t sizes[] = {100000,     196607, 196608,  196609,	  (256 << 10) + 4095,
				 MIB - 1,    MIB,    MIB + 1, MIB + 4096, MIB + 196608,
				 2 * MIB + 5};

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void transfer_all(void)
{
	for (uint32_t i = 0; i < SIZES; i++) {
		if (!fetches)
			transfer(false, i % 3 ? i * 7 : 0, i % 2 ? i * 13 : 0, sizes[i], i);
		transfer(true, i % 3 ? i * 5 : 0, i % 2 ? i * 3 : 0, sizes[i], i + 100);
	}
}

/* What lands a little further on in its page goes by way of memory of ours (detour.h). */
static void transfer_askew(void)
{
	for (uint32_t by = 1; by < 16; by += 2) {
		if (!fetches)
			transfer(false, by, 0, sizes[by % SIZES], by);
		transfer(true, 0, by, sizes[by % SIZES], by + 100);
	}
}

/* ---- who does it ---- */

static void one_does_it_alone(void **state)
{
	transfer_all();
	transfer_askew();
	assert_int_equal(atomic_load(&board->done), 0);
	assert_false(assist_is_wanted(board));
}

static void two_do_it_together(void **state)
{
	pthread_t helper;

	atomic_store(&is_over, false);
	assert_int_equal(pthread_create(&helper, NULL, help, NULL), 0);
	for (int round = 0; round < 200 && (round < 3 || !atomic_load(&board->done)); round++)
		transfer_all();
	transfer_askew();
	atomic_store(&is_over, true);
	pthread_join(helper, NULL);
	assert_true(atomic_load(&board->done) > 0);
	assert_int_equal(atomic_load(&board->failure), 0);
	assert_int_equal(atomic_load(&helpers_hazard) % 2, 0);
}

/* That alone: what is offered gives nobody else's rights. */
static void what_is_offered_is_fetched_and_no_more(void **state)
{
	two_do_it_together(state);
	fetches = false;
	assert_int_equal(part(true, 0, 0, LONG, 0, LONG), REACH_REFUSED);
	assert_int_equal(part(false, 0, 0, LONG, 0, LONG), REACH_REFUSED);
}

static int setup_fetch(void **state)
{
	fetches = true;
	return setup(state);
}

static int teardown_fetch(void **state)
{
	fetches = false;
	return teardown(state);
}

/* ---- the end ---- */

/* In such parts, and what nobody helps with then is whole as well. */
static void who_helped_and_does_no_more_is_not_missed(void **state)
{
	pthread_t helper;

	for (int round = 0; round < 20; round++) {
		atomic_store(&is_over, false);
		assert_int_equal(pthread_create(&helper, NULL, help, NULL), 0);
		do
			transfer(false, 0, 0, MIB, 1);
		while (!assist.helped);
		atomic_store(&is_over, true);
		pthread_join(helper, NULL);
		transfer(false, 0, 0, MIB, 2);
		transfer(true, 0, 0, MIB, 3);
	}
}

/* ---- calls ---- */

static unsigned int calls(void)
{
	return atomic_load(&board->calls);
}

/* So many more until somebody is called; 0: as many as are tried. */
static uint32_t copies_until_called(uint32_t tried)
{
	unsigned int before = calls();

	for (uint32_t i = 1; i <= tried; i++) {
		assert_int_equal(part(false, 0, 0, LONG, 0, LONG), REACH_DONE);
		assert_int_equal(calls() != before, assist.is_calling);
		if (assist.is_calling) {
			assist.is_calling = false;
			return i;
		}
	}
	return 0;
}

static void who_is_not_there_is_called(void **state)
{
	uint32_t first = copies_until_called(100), next = copies_until_called(1000);

	assert_in_range(first, 10, 30);
	assert_in_range(next, 3 * first, 5 * first); /* it was in vain, */
	assist.together = 1000;
	assert_true(copies_until_called(1000) > 3 * next);
	assist.together = 1000; /* and now it was not, */
	assert_in_range(copies_until_called(100), first - 1, first + 1);
	assist.together = 1000;
	atomic_fetch_add(&board->busy, 1);
	assert_in_range(copies_until_called(100), first - 1, first + 1);
	assert_int_equal(copies_until_called(3 * first), 0); /* but for others */
}

/* A helper that is busy now may not be for ever, nor is asked time and again. */
static void who_is_busy_is_called_seldom(void **state)
{
	enum { TIMES = 20 };
	uint64_t alone = 0;

	for (int i = 0; i < TIMES; i++) {
		assert_true(copies_until_called(100) > 0);
		alone = assist.call_at;
		assist.alone_bytes = alone; /* and so on */
	}
	assert_in_range(alone, UINT64_C(1) << 30, UINT64_C(64) << 30);
}

/* However long after his bell: from when he says that he is there, each is offered. */
static void who_comes_late_is_not_missed(void **state)
{
	uint32_t first = copies_until_called(100), number;

	assert_int_equal(copies_until_called(3 * first), 0);
	number = assist.number;
	atomic_store(&board->is_attended, true);
	for (uint32_t i = 1; i <= 20; i++) {
		assert_int_equal(part(false, 0, 0, LONG, 0, LONG), REACH_DONE);
		assert_int_equal(assist.number, number + i);
	}
}

/* As they do without a helper, unless others have the core meanwhile. */
static void halves_took_longer(void)
{
	for (int i = 0; i < ASSIST_KINDS; i++)
		memset(assist.halvings[i].took[HALVING_HALVES], 0x7f,
		       sizeof(assist.halvings[i].took[HALVING_HALVES]));
}

/* What is not so long is offered to who is there, and else tried now and then. */
static void what_is_middling_is_for_who_attends(void **state)
{
	uint32_t number;

	for (int i = 0; i < 200; i++) {
		halves_took_longer();
		transfer(i % 2, 0, 0, 65536, (uint32_t)i);
	}
	assert_in_range(assist.number, 2 * HALVING_TIMES, 4 * HALVING_TIMES);
	assert_true(calls() > 0);
	number = assist.number;
	atomic_store(&board->is_attended, true);
	for (int i = 0; i < 100; i++) {
		assist.alone = 0; /* as if it had come */
		transfer(i % 2, 0, 0, 65536, (uint32_t)i);
	}
	assert_int_equal(assist.number, number + 100);
	assist.alone = 0;
	transfer(false, 0, 0, 40000, 1);
	assert_int_equal(assist.number, number + 100);
}

/* Where halves pay: each, though nobody attends; and if nobody comes any more, few. */
static void what_is_middling_is_shared_where_that_pays(void **state)
{
	for (int i = 0; i < ASSIST_KINDS; i++)
		assist.halvings[i] = (struct halving){.duel = {HALVING_HALVES, HALVING_HALVES}};
	for (uint32_t i = 0; i < HALVING_FIRST; i++) {
		assist.alone *= i > 20;
		transfer(i % 2, 0, 0, i % 4 < 2 ? 65536 : 150000, i);
		assert_true(i > 20 || assist.number == i + 1);
	}
	assert_in_range(assist.number, 24, 28);
}

/* Who attends keeps away from its core, wherever that is by now. */
static void who_copies_tells_who_attends_its_core(void **state)
{
	cpu_set_t all, one;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	atomic_store(&board->caller, -1);
	atomic_store(&board->is_attended, true);
	for (int core = 0; core < CPU_SETSIZE; core++) {
		if (!CPU_ISSET(core, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(core, &one);
		assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
		assert_int_equal(part(false, 0, 0, LONG, 0, LONG), REACH_DONE);
		assert_int_equal(atomic_load(&board->caller), core);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

/* ---- a helper who takes its time ---- */

/* Until somebody has claimed a part of it. */
static void until_claimed(bool is_read)
{
	pthread_t claimer;

	atomic_store(&is_claimed, false);
	assert_int_equal(pthread_create(&claimer, NULL, claim_one, NULL), 0);
	do
		memset(is_read ? own : theirs, 0x77, REGION);
	while (part(is_read, 0, 0, MIB, 0, MIB) != REACH_LATER);
	pthread_join(claimer, NULL);
	assert_true(atomic_load(&is_claimed));
	assert_int_equal(atomic_load(&hazard) % 2, 0);
}

static void what_is_claimed_is_waited_for_in_later_calls(void **state)
{
	fill(own, 1);
	until_claimed(false);
	assert_int_equal(part(false, 0, 0, MIB, 0, MIB), REACH_LATER);
	/* other work goes on: short of itself, long by packets */
	assert_int_equal(part(false, MIB, 0, 5000, 0, 5000), REACH_DONE);
	assert_int_equal(part(true, 0, MIB, LONG, 0, LONG), REACH_REFUSED);
	/* the end is not there before all is */
	theirs[MARGIN + MIB - 1] = 0x77;
	assert_int_equal(part(false, 0, 0, MIB, 0, MIB), REACH_LATER);
	assert_int_equal(theirs[MARGIN + MIB - 1], 0x77);
	memcpy(theirs + MARGIN, own + MARGIN, MIB - 64); /* the claimer's chunk, wherever */
	atomic_fetch_add(&board->done, 1);
	assert_int_equal(part(false, 0, 0, MIB, 0, MIB), REACH_DONE);
	assert_memory_equal(theirs + MARGIN, own + MARGIN, MIB);
	transfer(true, 0, 0, MIB, 2);
}

/* What is claimed is one piece, and half at most; all else the initiator has done by then. */
static void half_of_it_is_claimed_at_most(void **state)
{
	for (int round = 0; round < 20; round++) {
		uint32_t begin = MARGIN, end = MARGIN + MIB - 64;

		memset(own, 0x11, REGION);
		until_claimed(false);
		while (begin < end && theirs[begin] == 0x11)
			begin++;
		while (end > begin && theirs[end - 1] == 0x11)
			end--;
		for (uint32_t i = begin; i < end; i++)
			assert_int_equal(theirs[i], 0x77);
		assert_in_range(end - begin, MIB / 8 - 4096, MIB / 2);
		memset(theirs + begin, 0x11, end - begin);
		atomic_fetch_add(&board->done, 1);
		assert_int_equal(part(false, 0, 0, MIB, 0, MIB), REACH_DONE);
		assert_memory_equal(theirs + MARGIN, own + MARGIN, MIB);
	}
}

static void what_the_helper_could_not_copy_is_refused(void **state)
{
	until_claimed(true);
	atomic_store(&board->failure, assist.number);
	atomic_fetch_add(&board->done, 1);
	assert_int_equal(part(true, 0, 0, MIB, 0, MIB), REACH_REFUSED);
	transfer(true, 0, 0, MIB, 2);
}

static void who_is_gone_is_not_waited_for(void **state)
{
	until_claimed(false);
	close(line[1]);
	usleep(20000); /* the coarse clock has moved on */
	assert_int_equal(part(false, 0, 0, MIB, 0, MIB), REACH_REFUSED);
	line[1] = -1;
}

/* ---- what a helper does not do ---- */

static bool helps_with(const struct work *work, uint32_t chunks)
{
	static uint32_t number = 1000;
	unsigned int done = atomic_load(&board->done);
	uint64_t words[ASSIST_WORDS] = {0};

	memset(theirs, 0x77, REGION);
	memcpy(words, work, sizeof(*work));
	for (int i = 0; i < ASSIST_WORDS; i++)
		atomic_store(&board->work[i], words[i]);
	atomic_store(&board->failure, 0);
	atomic_store(&board->claims, (uint64_t)++number << 32 | chunks << 16);
	assist_help(board, helpers_reach, &helpers_hazard, directory);
	return atomic_load(&board->done) != done && atomic_load(&board->failure) == 0;
}

static void assert_untouched(void)
{
	for (uint32_t i = 0; i < REGION; i++)
		if (theirs[i] != 0x77)
			fail_msg("byte %u was written", i);
}

enum { WRONGS = 13 };

static void the_helper_does_nothing_that_it_may_not(void **state)
{
	struct work fits = {
	    .question = question_of(false, 0, LONG),
	    .address = (uintptr_t)own,
	    .bytes = LONG,
	    .second = LONG / 4,
	    .third = LONG / 2,
	};
	struct work wrongs[WRONGS];

	assert_true(helps_with(&fits, 3));
	assert_memory_equal(theirs + MARGIN, own, LONG);
	for (int i = 0; i < WRONGS; i++)
		wrongs[i] = fits;
	wrongs[0].question.rkey++;
	wrongs[1].question.addr += REGION - 2 * MARGIN;
	wrongs[2].question.qpn++;
	wrongs[3].question.need = IBV_ACCESS_REMOTE_READ; /* and it would be written */
	wrongs[4].bytes = LONG + 1;
	wrongs[5].offset = 1;
	wrongs[6].offset = UINT64_MAX;
	wrongs[7].third = LONG / 4 - 1;
	wrongs[8].second = UINT64_MAX;
	wrongs[9].is_read = true;
	wrongs[10].third = LONG + 1;
	wrongs[11].tail = 64; /* behind the end */
	wrongs[12].bytes = LONG - 64;
	wrongs[12].tail = 128; /* more than there is room for */
	for (int i = 0; i < WRONGS; i++) {
		if (helps_with(&wrongs[i], 3))
			fail_msg("wrong %d was done", i);
		assert_untouched();
	}
	/* chunks that lie behind the end, and an address that is nowhere */
	assert_false(helps_with(&fits, 60000));
	for (uint32_t i = MARGIN + LONG; i < REGION; i++)
		assert_int_equal(theirs[i], 0x77);
	fits.address = 4096;
	assert_false(helps_with(&fits, 3));
	assert_untouched();
}

static struct work with_an_end(void)
{
	struct work work = {
	    .question = question_of(false, 0, LONG),
	    .address = (uintptr_t)own,
	    .bytes = LONG - 64,
	    .second = LONG / 4,
	    .third = LONG / 2,
	    .tail = 64,
	};

	fill(own, 1);
	memcpy(work.end, own + LONG - 64, 64);
	return work;
}

static void assert_the_end_is_stored(void)
{
	assert_memory_equal(theirs + MARGIN, own, LONG);
	assert_int_equal(theirs[MARGIN + LONG], 0x77);
	assert_int_equal(atomic_load(&board->tailed), atomic_load(&board->ended));
}

/* Of what is written: the helper alone knows whether it is the last one. */
static void the_end_is_stored_when_all_else_is_there(void **state)
{
	struct work work = with_an_end();

	assert_true(helps_with(&work, 3));
	assert_memory_equal(theirs + MARGIN, own, LONG - 64);
	for (int i = 0; i < 64; i++)
		assert_int_equal(theirs[MARGIN + LONG - 64 + i], 0x77);
	assert_int_equal(atomic_load(&board->tailed), 0);
	atomic_store(&board->ended, (uint32_t)(atomic_load(&board->claims) >> 32) + 1);
	assert_true(helps_with(&work, 3));
	assert_the_end_is_stored();
}

/* As an initiator that has as much to do as the helper. */
static void *end_when_copied(void *unused)
{
	while (!atomic_load(&is_over))
		atomic_store(&board->ended, atomic_load(&board->copied));
	return unused;
}

/* It takes microseconds at most, but for a core that is another's. On one core there is none. */
static void the_helper_waits_a_little_for_the_initiator_to_end(void **state)
{
	struct work work = with_an_end();
	pthread_t initiator;
	cpu_set_t cores;

	assert_int_equal(sched_getaffinity(0, sizeof(cores), &cores), 0);
	if (CPU_COUNT(&cores) < 2)
		skip();
	atomic_store(&is_over, false);
	assert_int_equal(pthread_create(&initiator, NULL, end_when_copied, NULL), 0);
	while (!atomic_load(&board->tailed))
		assert_true(helps_with(&work, 3));
	atomic_store(&is_over, true);
	pthread_join(initiator, NULL);
	assert_the_end_is_stored();
}

/* ---- shares ---- */

static atomic_bool is_fast; /* the helper */

/* A helper that has the second chunk of each work, and is there before the initiator or behind. */
static void *take_second(void *unused)
{
	while (!atomic_load(&is_over)) {
		uint64_t claims = atomic_load(&board->claims);
		uint32_t number = (uint32_t)(claims >> 32);

		if ((uint16_t)claims != 1 || (uint16_t)(claims >> 16) < 2 ||
		    !atomic_compare_exchange_strong(&board->claims, &claims, claims + 1)) {
			sched_yield();
			continue;
		}
		if (atomic_load(&is_fast))
			atomic_store(&board->copied, number);
		while (!atomic_load(&is_fast) && atomic_load(&board->claims) >> 16 == claims >> 16)
			sched_yield();
		atomic_fetch_add(&board->done, 1);
	}
	return unused;
}

static struct work last_work(void)
{
	uint64_t words[ASSIST_WORDS];
	struct work work;

	for (int i = 0; i < ASSIST_WORDS; i++)
		words[i] = atomic_load(&board->work[i]);
	memcpy(&work, words, sizeof(work));
	assert_true(work.second <= work.third && work.third <= work.bytes);
	return work;
}

/* Of its part, after so many of which it had it: in 64ths of all. */
static uint32_t helpers_part(uint64_t length, bool is_helper_fast, uint32_t works)
{
	struct work work;
	pthread_t helper;

	atomic_store(&is_over, false);
	atomic_store(&is_fast, is_helper_fast);
	assert_int_equal(pthread_create(&helper, NULL, take_second, NULL), 0);
	for (uint32_t had = 0; had < works; had += assist.helped == 1) {
		assist.alone = 0; /* as if each had been helped with */
		assert_int_not_equal(part(true, 0, 0, length, 0, length), REACH_REFUSED);
		while (assist.is_waiting)
			part(true, 0, 0, length, 0, length);
	}
	atomic_store(&is_over, true);
	pthread_join(helper, NULL);
	work = last_work();
	return (uint32_t)((work.third - work.second) * 64 / length);
}

/* Each way by degrees, and never all. */
static void who_is_faster_has_more_of_the_next(void **state)
{
	static const uint64_t lengths[] = {MIB, 196608, 65536};

	atomic_store(&board->is_attended, true);
	for (int i = 0; i < 3; i++) {
		memset(assist.more, 0, sizeof(assist.more));
		assert_in_range(helpers_part(lengths[i], true, 1), 30, 33);
		assert_in_range(helpers_part(lengths[i], true, 5), 30, 40);
		assert_in_range(helpers_part(lengths[i], false, 30), 20, 25);
		assert_in_range(helpers_part(lengths[i], true, 30), 40, 48);
	}
}

static bool has_third(void)
{
	struct work work = last_work();

	return work.third < work.bytes;
}

/* For who has come in time time and again no third is left, and for who has not it is. */
static void who_comes_in_time_has_all_of_its_part_at_once(void **state)
{
	helpers_part(MIB, true, 1);
	assert_true(has_third());
	assert_in_range(last_work().second, 65536, MIB / 4);
	assert_int_equal(assist.in_time, 1);
	assist.in_time = 1000;
	for (int i = 0; i < 2; i++) {
		transfer(true, 0, 0, MIB, 1); /* nobody comes */
		assert_int_equal(has_third(), i);
		assert_in_range(last_work().second, i ? 65536 : MIB / 4, MIB / 2);
		assert_int_equal(assist.in_time, 0);
	}
}

#ifdef FAULTS_ARE_FOUND
/* What cannot be read is nobody's to help with. */
static void an_end_that_is_not_there_is_refused(void **state)
{
	char *end = own + MARGIN + MIB;

	guard_faults();
	assert_int_equal(mprotect(end - 4096, 4096, PROT_NONE), 0);
	assert_int_equal(part(false, 0, 0, MIB, 0, MIB), REACH_REFUSED);
	assert_false(assist_is_wanted(board));
	assert_int_equal(atomic_load(&hazard) % 2, 0);
	assert_int_equal(mprotect(end - 4096, 4096, PROT_READ | PROT_WRITE), 0);
	transfer(false, 0, 0, MIB, 1);
}
#endif

static void the_initiator_survives_a_board_of_nonsense(void **state)
{
	fill(own, 1);
	for (int i = 0; i < 20; i++) {
		atomic_store(&board->claims, UINT64_MAX - (uint64_t)i * 77777777777);
		atomic_store(&board->done, (unsigned int)i * 1234567);
		assert_int_equal(part(false, 0, 0, MIB, 0, MIB), REACH_DONE);
		assert_memory_equal(theirs + MARGIN, own + MARGIN, MIB);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	    TEST(one_does_it_alone),
	    TEST(two_do_it_together),
	    cmocka_unit_test_setup_teardown(what_is_offered_is_fetched_and_no_more, setup_fetch,
					    teardown_fetch),
	    TEST(who_helped_and_does_no_more_is_not_missed),
	    TEST(who_is_not_there_is_called),
	    TEST(who_is_busy_is_called_seldom),
	    TEST(who_comes_late_is_not_missed),
	    TEST(what_is_middling_is_for_who_attends),
	    TEST(what_is_middling_is_shared_where_that_pays),
	    TEST(who_copies_tells_who_attends_its_core),
	    TEST(what_is_claimed_is_waited_for_in_later_calls),
	    TEST(half_of_it_is_claimed_at_most),
	    TEST(what_the_helper_could_not_copy_is_refused),
	    TEST(who_is_gone_is_not_waited_for),
	    TEST(the_helper_does_nothing_that_it_may_not),
	    TEST(the_end_is_stored_when_all_else_is_there),
	    TEST(the_helper_waits_a_little_for_the_initiator_to_end),
	    TEST(who_is_faster_has_more_of_the_next),
	    TEST(who_comes_in_time_has_all_of_its_part_at_once),
#ifdef FAULTS_ARE_FOUND
	    TEST(an_end_that_is_not_there_is_refused),
#endif
	    TEST(the_initiator_survives_a_board_of_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
