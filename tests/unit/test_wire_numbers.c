/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The coded numbers of the protocol: PSNs, timers, syndromes, MTUs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "wire/aeth.h"
#include "wire/mtu.h"
#include "wire/psn.h"
#include "wire/timers.h"

static void test_psns_wrap_at_24_bits(void **state)
{
	assert_int_equal(psn_add(0xffffff, 1), 0);
	assert_int_equal(psn_next(0xfffffe), 0xffffff);
	assert_int_equal(psn_add(0, -1), 0xffffff);
	assert_int_equal(psn_add(0x800000, 0x7fffff), 0xffffff);
}

static void test_psns_compare_within_half_the_range(void **state)
{
	assert_int_equal(psn_diff(5, 3), 2);
	assert_int_equal(psn_diff(3, 5), -2);
	assert_int_equal(psn_diff(1, 0xffffff), 2);
	assert_int_equal(psn_diff(0xffffff, 1), -2);
	assert_int_equal(psn_diff(0x7fffff, 0), 0x7fffff);
	assert_int_equal(psn_diff(0x800000, 0), -0x800000);
	assert_int_equal(psn_diff(0xff000005, 0x00000005), 0);
	assert_true(psn_compare(0, 0xffffff) > 0);
	assert_true(psn_compare(0xffffff, 0) < 0);
	assert_int_equal(psn_compare(9, 9), 0);
}

static void test_a_psn_is_within_a_range_over_the_wrap(void **state)
{
	assert_true(psn_is_within(0xfffffe, 0xfffffe, 4));
	assert_true(psn_is_within(1, 0xfffffe, 4));
	assert_false(psn_is_within(2, 0xfffffe, 4));
	assert_false(psn_is_within(0xfffffd, 0xfffffe, 4));
	assert_false(psn_is_within(7, 7, 0));
}

static void test_rnr_timers_are_the_specification_s(void **state)
{
	static const double ms[32] = {655.36, 0.01,  0.02,  0.03,   0.04,   0.06,   0.08,   0.12,
				      0.16,   0.24,  0.32,  0.48,   0.64,   0.96,   1.28,   1.92,
				      2.56,   3.84,  5.12,  7.68,   10.24,  15.36,  20.48,  30.72,
				      40.96,  61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};

	for (int i = 0; i < 32; i++)
		assert_int_equal(rnr_timer_ns(i), (uint64_t)(ms[i] * 100 + 0.5) * 10000);
	assert_int_equal(rnr_timer_ns(32 + 1), 10000);
}

static void test_ack_timeouts_double(void **state)
{
	assert_int_equal(ack_timeout_ns(0), 0);
	assert_int_equal(ack_timeout_ns(1), 8192);
	assert_int_equal(ack_timeout_ns(14), 67108864);
	assert_int_equal(ack_timeout_ns(31), 4096ull << 31);
}

static void test_syndromes_have_kind_and_value(void **state)
{
	assert_int_equal(aeth_kind(0x1f), AETH_ACK);
	assert_int_equal(aeth_value(0x1f), AETH_CREDIT_NONE);
	assert_int_equal(aeth_kind(0x2c), AETH_RNR_NAK);
	assert_int_equal(aeth_value(0x2c), 12);
	assert_int_equal(aeth_kind(0x62), AETH_NAK);
	assert_int_equal(aeth_value(0x62), NAK_REMOTE_ACCESS);
}

static void test_credit_codes(void **state)
{
	static const uint32_t counts[31] = {0,	  1,	2,    3,     4,	    6,	   8,	 12,
					    16,	  24,	32,   48,    64,    96,	   128,	 192,
					    256,  384,	512,  768,   1024,  1536,  2048, 3072,
					    4096, 6144, 8192, 12288, 16384, 24576, 32768};

	for (int i = 0; i < 31; i++) {
		assert_int_equal(aeth_credits(i), counts[i]);
		assert_int_equal(aeth_credit_code(counts[i]), i);
		if (i < 30)
			assert_int_equal(aeth_credit_code(counts[i + 1] - 1), i);
	}
	assert_int_equal(aeth_credit_code(UINT32_MAX), 30);
}

static void test_mtu_codes(void **state)
{
	assert_int_equal(mtu_bytes(1), 256);
	assert_int_equal(mtu_bytes(5), 4096);
	assert_int_equal(mtu_code(255), 0);
	assert_int_equal(mtu_code(256), 1);
	assert_int_equal(mtu_code(4095), 4);
	assert_int_equal(mtu_code(1 << 20), 5);
	assert_false(is_mtu_code(0));
	assert_true(is_mtu_code(5));
	assert_false(is_mtu_code(6));
	assert_int_equal(mtu_code_of_interface(1500), 3);
	assert_int_equal(mtu_code_of_interface(9000), 5);
	assert_int_equal(mtu_code_of_interface(65536), 5);
	assert_int_equal(mtu_code_of_interface(60), 0);
	/* IPv6, UDP, an ACK, and a WRITE with immediate */
	assert_int_equal(mtu_code_of_interface(40 + 8 + 12 + 4 + 12 + 16 + 4 + 4096 + 4), 5);
	assert_int_equal(mtu_code_of_interface(40 + 8 + 12 + 4 + 12 + 16 + 4 + 4096 + 3), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_psns_wrap_at_24_bits),
	    cmocka_unit_test(test_psns_compare_within_half_the_range),
	    cmocka_unit_test(test_a_psn_is_within_a_range_over_the_wrap),
	    cmocka_unit_test(test_rnr_timers_are_the_specification_s),
	    cmocka_unit_test(test_ack_timeouts_double),
	    cmocka_unit_test(test_syndromes_have_kind_and_value),
	    cmocka_unit_test(test_credit_codes),
	    cmocka_unit_test(test_mtu_codes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
