/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs that begin with packets whose room is asked for together. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "udp_pair.h"

static void runs_that_begin(const union ibv_gid *from, const union ibv_gid *to, bool is_summed)
{
	struct pair pair;

	pair_open(&pair, from, to);
	assert_int_equal(put_run(&pair, 1024, 9, is_summed), 9);
	assert_int_equal(pair.a->run_count, 1);
	assert_int_equal(put_run(&pair, 512, 99, is_summed), 0); /* one may end that run */
	assert_true(put(pair.a, &pair.av, DEST_QP, 0, 512));
	assert_int_equal(put_run(&pair, 512, 99, is_summed), 99);
	assert_int_equal(put_run(&pair, 1024, 1, is_summed), 1);
	assert_int_equal(pair.a->run_count, 3);
	kept_count = 0;
	assert_true(udp_link_flush(pair.a));
	receive(pair.b, pair.fd, to, 110);
	assert_int_equal(counters_of(pair.b).bad_icrc, 0);
	for (int i = 0; i < 110; i++)
		assert_kept(i,
			    i < 9     ? i + 1
			    : i == 9  ? 0
			    : i < 109 ? i - 9
				      : 1,
			    i < 9 || i == 109 ? 1024 : 512);
	pair_close(&pair);
}

static void test_a_run_begins_with_several(void **state)
{
	for (int is_summed = 0; is_summed < 2; is_summed++) {
		runs_that_begin(&ipv4_a, &ipv4_b, is_summed);
		runs_that_begin(&ipv6, &ipv6, is_summed);
	}
}

/* There is no run, and then there is none that takes as many. */
static void test_a_run_that_begins_takes_what_one_send_does(void **state)
{
	struct pair pair;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	assert_int_equal(put_run(&pair, 1024, 99, false), 62);
	assert_int_equal(put_run(&pair, 8, SEGMENTS_MAX + 9, false), 0);
	assert_true(put(pair.a, &pair.av, DEST_QP, 0, 8));
	assert_int_equal(put_run(&pair, 8, SEGMENTS_MAX + 9, false), SEGMENTS_MAX);
	assert_int_equal(put_run(&pair, 8, 9, false), 9);
	assert_true(udp_link_flush(pair.a));
	assert_int_equal(counters_of(pair.a).sent_packets, 62 + 1 + SEGMENTS_MAX + 9);
	pair.a->addresses->no_gso = true;
	assert_int_equal(put_run(&pair, 1024, 9, false), 1);
	assert_int_equal(put_run(&pair, 1024, 9, false), 1);
	assert_int_equal(pair.a->run_count, 2);
	pair_close(&pair);
}

/* Alone it has a sum as well, which serves from the second one of a length on. */
static void test_one_that_is_summed_may_be_alone(void **state)
{
	const uint32_t payloads[] = {1024, 1024, 1024, 512, 512, 1024, 512, 1024, 1024};
	struct pair pair;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	for (size_t i = 0; i < sizeof(payloads) / sizeof(*payloads); i++) {
		kept_count = 0;
		assert_int_equal(put_run(&pair, payloads[i], 1, true), 1);
		assert_true(udp_link_flush(pair.a));
		receive(pair.b, pair.fd, &ipv4_b, 1);
		assert_int_equal(counters_of(pair.b).bad_icrc, 0);
		assert_kept(0, 1, payloads[i]);
	}
	pair_close(&pair);
}

/* Its payload can't be had. What comes instead begins that run. */
static void test_a_run_that_nobody_commits_does_not_begin(void **state)
{
	struct pair pair;
	struct outbox *outbox;
	uint32_t stride;
	uint8_t *at;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	outbox = udp_link_outbox(pair.a);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(outbox->reserve_run(outbox, &pair.av, DEST_QP, ALONE,
						     BTH_BYTES + 1024, 9, &at, &stride),
				 9);
		if (i)
			outbox->commit_run(outbox, BTH_BYTES + 1024, 0, true);
		assert_int_equal(pair.a->run_count, i);
		kept_count = 0;
		assert_true(put(pair.a, &pair.av, DEST_QP, 0, 8));
	}
	assert_true(udp_link_flush(pair.a));
	assert_int_equal(counters_of(pair.a).sent_packets, 2);
	receive(pair.b, pair.fd, &ipv4_b, 2);
	assert_kept(1, 0, 8);
	pair_close(&pair);
}

static void test_no_run_begins_where_nothing_can_leave(void **state)
{
	struct pair pair;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	pair.av.dgid = ipv6;
	assert_int_equal(put_run(&pair, 1024, 9, true), 0);
	assert_true(put(pair.a, &pair.av, DEST_QP, 0, 1024));
	assert_int_equal(pair.a->run_count, 0);
	assert_int_equal(counters_of(pair.a).send_drops, 1);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_run_begins_with_several),
	    cmocka_unit_test(test_a_run_that_begins_takes_what_one_send_does),
	    cmocka_unit_test(test_one_that_is_summed_may_be_alone),
	    cmocka_unit_test(test_a_run_that_nobody_commits_does_not_begin),
	    cmocka_unit_test(test_no_run_begins_where_nothing_can_leave),
	};

	if (!pair_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
