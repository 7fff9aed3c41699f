// SPDX-License-Identifier: BSD-2-Clause
/*
 * Words and rates: every value has its own, what is no value has none. (tests/abi/words compares
 * them with the system's libibverbs letter for letter.)
 */
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdarg.h>
#include <cmocka.h>
#include <infiniband/verbs.h>

typedef const char *(*words)(int value);

/* Values from..to have a word each, all different, except those of `gaps` (ended by -1). */
static void all_different(words word, int from, int to, const int *gaps)
{
	for (int i = from; i <= to; i++) {
		int gap = 0;

		for (const int *g = gaps; *g != -1; g++)
			gap |= *g == i;
		assert_non_null(word(i));
		assert_int_equal(strcmp(word(i), "unknown") == 0, gap);
		for (int j = from; j < i && !gap; j++)
			assert_string_not_equal(word(i), word(j));
	}
	assert_string_equal(word(from - 1), "unknown");
	assert_string_equal(word(to + 1), "unknown");
	assert_string_equal(word(-1), "unknown");
	assert_string_equal(word(INT32_MIN), "unknown");
	assert_string_equal(word(INT32_MAX), "unknown");
}

static const int no_gaps[] = {-1};

static const char *node_type(int value)
{
	return ibv_node_type_str((enum ibv_node_type)value);
}

static const char *port_state(int value)
{
	return ibv_port_state_str((enum ibv_port_state)value);
}

static const char *event_type(int value)
{
	return ibv_event_type_str((enum ibv_event_type)value);
}

static const char *wc_status(int value)
{
	return ibv_wc_status_str((enum ibv_wc_status)value);
}

static const char *wr_opcode(int value)
{
	return ibv_wr_opcode_str((enum ibv_wr_opcode)value);
}

static void node_types_have_words(void **state)
{
	all_different(node_type, IBV_NODE_CA, IBV_NODE_UNSPECIFIED, no_gaps);
}

static void port_states_have_words(void **state)
{
	all_different(port_state, IBV_PORT_NOP, IBV_PORT_ACTIVE_DEFER, no_gaps);
}

static void events_have_words(void **state)
{
	all_different(event_type, IBV_EVENT_CQ_ERR, IBV_EVENT_DEVICE_SPEED_CHANGE, no_gaps);
}

static void statuses_have_words(void **state)
{
	all_different(wc_status, IBV_WC_SUCCESS, IBV_WC_TM_RNDV_INCOMPLETE, no_gaps);
}

static void opcodes_have_words_and_gaps_none(void **state)
{
	const int gaps[] = {12, 13, -1};

	all_different(wr_opcode, IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_WRITE, gaps);
}

static void each_rate_comes_back_from_mbps(void **state)
{
	for (int rate = IBV_RATE_2_5_GBPS; rate <= IBV_RATE_1200_GBPS; rate++) {
		int mbps = ibv_rate_to_mbps((enum ibv_rate)rate);

		assert_true(mbps >= 2500);
		assert_int_equal(mbps_to_ibv_rate(mbps), rate);
	}
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_5_GBPS), 5000);
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
}

static void a_rate_with_a_multiple_comes_back_from_it(void **state)
{
	int with = 0;

	for (int rate = IBV_RATE_2_5_GBPS; rate <= IBV_RATE_1200_GBPS; rate++) {
		int mult = ibv_rate_to_mult((enum ibv_rate)rate);

		assert_true(mult == -1 || mult > 0);
		if (mult > 0)
			assert_int_equal(mult_to_ibv_rate(mult), rate);
		with += mult > 0;
	}
	assert_int_equal(with, 15);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_10_GBPS), 4);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_14_GBPS), -1);
}

static void what_is_no_rate_is_said_so(void **state)
{
	const int none[] = {-1, 0, 1, 25, 1000, INT32_MAX, INT32_MIN};

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		assert_int_equal(ibv_rate_to_mbps((enum ibv_rate)none[i]), -1);
		assert_int_equal(ibv_rate_to_mult((enum ibv_rate)none[i]), -1);
		assert_int_equal(mbps_to_ibv_rate(none[i]), IBV_RATE_MAX);
	}
	assert_int_equal(mult_to_ibv_rate(0), IBV_RATE_MAX);
	assert_int_equal(mult_to_ibv_rate(-1), IBV_RATE_MAX);
	assert_int_equal(mult_to_ibv_rate(3), IBV_RATE_MAX);
}

/* Exported for programs of old, and declared by no header. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

static void fork_needs_no_protection(void **state)
{
	assert_int_equal(ibv_dontfork_range(state, 8), 0);
	assert_int_equal(ibv_dofork_range(state, 8), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

static void flow_labels_make_ports_in_range(void **state)
{
	assert_int_equal(ibv_flow_label_to_udp_sport(0), 0xc000);
	assert_int_equal(ibv_flow_label_to_udp_sport(0x3fff), 0xffff);
	assert_int_equal(ibv_flow_label_to_udp_sport(0x04000), 0xc001);
	assert_int_equal(ibv_flow_label_to_udp_sport(0xfffff), 0xc000 | (0x3fff ^ 0x3f));
	assert_int_equal(ibv_flow_label_to_udp_sport(0xfff00000), 0xc000);
}

static void the_next_rkey_keeps_its_index(void **state)
{
	assert_int_equal(ibv_inc_rkey(0x12345600), 0x12345601);
	assert_int_equal(ibv_inc_rkey(0x123456ff), 0x12345600);
	assert_int_equal(ibv_inc_rkey(0xffffffff), 0xffffff00);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(node_types_have_words),
	    cmocka_unit_test(port_states_have_words),
	    cmocka_unit_test(events_have_words),
	    cmocka_unit_test(statuses_have_words),
	    cmocka_unit_test(opcodes_have_words_and_gaps_none),
	    cmocka_unit_test(each_rate_comes_back_from_mbps),
	    cmocka_unit_test(a_rate_with_a_multiple_comes_back_from_it),
	    cmocka_unit_test(what_is_no_rate_is_said_so),
	    cmocka_unit_test(fork_needs_no_protection),
	    cmocka_unit_test(flow_labels_make_ports_in_range),
	    cmocka_unit_test(the_next_rkey_keeps_its_index),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
