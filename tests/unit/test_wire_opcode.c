/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The opcode table agrees with itself and with the specification's list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "wire/headers.h"
#include "wire/opcode.h"

enum {
	KINDS = OPF_SEND | OPF_WRITE | OPF_READ_REQUEST | OPF_READ_RESPONSE | OPF_ACK | OPF_ATOMIC |
		OPF_ATOMIC_ACK | OPF_FLUSH | OPF_ATOMIC_WRITE | OPF_CNP | OPF_GAPS | OPF_OFFER
};

static void test_the_list_of_opcodes_is_the_specification_s(void **state)
{
	/* one bit for an operation that the transport has */
	static const uint32_t operations[8] = {
	    0x30dfffff, /* RC: all but 0x15 (RD's RESYNC) up to 0x17, FLUSH, ATOMIC WRITE */
	    0x00000fff, /* UC: SEND and WRITE */
	    0,		0x00000030, /* UD: SEND ONLY */
	    0x00000002,		    /* CNP */
	    0x30dfffff,		    /* XRC */
	    0x00120000,		    /* manufacturers': our GAPS, OFFER */
	    0,
	};

	for (int i = 0; i < 256; i++)
		assert_int_equal(is_opcode(i), operations[i >> 5] >> (i & 31) & 1);
}

static void test_header_bytes_are_the_sum_of_the_headers(void **state)
{
	for (int i = 0; i < 256; i++) {
		const struct opcode *op = opcode_get(i);
		int sum = BTH_BYTES;

		if (!op->name)
			continue;
		sum += op->deth_at ? DETH_BYTES : 0;
		sum += op->reth_at ? RETH_BYTES : 0;
		sum += op->atomiceth_at ? ATOMICETH_BYTES : 0;
		sum += op->aeth_at ? AETH_BYTES : 0;
		sum += op->atomicacketh_at ? ATOMICACKETH_BYTES : 0;
		sum += op->immdt_at ? IMMDT_BYTES : 0;
		sum += op->ieth_at ? IETH_BYTES : 0;
		sum += op->xrceth_at ? XRCETH_BYTES : 0;
		sum += op->feth_at ? FETH_BYTES : 0;
		assert_int_equal(op->header_bytes, sum);
		assert_true(sum <= HEADER_BYTES_MAX);
	}
}

static void assert_header(uint64_t *taken, uint8_t at, uint8_t bytes)
{
	uint64_t bits = ((1ull << bytes) - 1) << at;

	if (!at)
		return;
	assert_true(at >= BTH_BYTES);
	assert_int_equal(*taken & bits, 0);
	*taken |= bits;
}

static void test_headers_do_not_overlap(void **state)
{
	for (int i = 0; i < 256; i++) {
		const struct opcode *op = opcode_get(i);
		uint64_t taken = (1 << BTH_BYTES) - 1;

		if (!op->name)
			continue;
		assert_header(&taken, op->deth_at, DETH_BYTES);
		assert_header(&taken, op->reth_at, RETH_BYTES);
		assert_header(&taken, op->atomiceth_at, ATOMICETH_BYTES);
		assert_header(&taken, op->aeth_at, AETH_BYTES);
		assert_header(&taken, op->atomicacketh_at, ATOMICACKETH_BYTES);
		assert_header(&taken, op->immdt_at, IMMDT_BYTES);
		assert_header(&taken, op->ieth_at, IETH_BYTES);
		assert_header(&taken, op->xrceth_at, XRCETH_BYTES);
		assert_header(&taken, op->feth_at, FETH_BYTES);
		assert_true(taken == (1ull << op->header_bytes) - 1);
	}
}

static void test_flags_agree_with_each_other(void **state)
{
	for (int i = 0; i < 256; i++) {
		const struct opcode *op = opcode_get(i);
		uint32_t f = op->flags;

		if (!op->name) {
			assert_int_equal(f, 0);
			continue;
		}
		assert_int_equal(__builtin_popcount(f & KINDS), 1);
		assert_int_equal(!!(f & OPF_REQUEST) + !!(f & OPF_RESPONSE), !(f & OPF_CNP));
		assert_int_equal(!!(f & OPF_MIDDLE), !(f & OPF_ONLY));
		assert_int_equal(!!(f & OPF_PAYLOAD_MTU), !(f & OPF_END));
		assert_int_equal(!!(f & OPF_IMM), op->immdt_at != 0);
		assert_int_equal(!!(f & OPF_INVALIDATE), op->ieth_at != 0);
		assert_int_equal(!!(f & OPF_RECV),
				 (f & OPF_END) && ((f & OPF_SEND) || (f & OPF_IMM)));
		assert_true(!(f & OPF_PAYLOAD_MTU) || f & OPF_PAYLOAD);
		assert_int_equal(opcode_transport(i) == TRANSPORT_XRC && f & OPF_REQUEST,
				 op->xrceth_at != 0);
		assert_int_equal(opcode_transport(i) == TRANSPORT_UD, op->deth_at != 0);
	}
}

static void test_extensions_by_example(void **state)
{
	const struct opcode *op = opcode_get(TRANSPORT_XRC | OP_WRITE_ONLY_IMM);

	assert_int_equal(op->xrceth_at, 12);
	assert_int_equal(op->reth_at, 16);
	assert_int_equal(op->immdt_at, 32);
	assert_int_equal(op->header_bytes, 36);
	op = opcode_get(TRANSPORT_RC | OP_FLUSH);
	assert_int_equal(op->feth_at, 12);
	assert_int_equal(op->reth_at, 16);
	op = opcode_get(TRANSPORT_RC | OP_ATOMIC_ACKNOWLEDGE);
	assert_int_equal(op->aeth_at, 12);
	assert_int_equal(op->atomicacketh_at, 16);
	op = opcode_get(TRANSPORT_UD | OP_SEND_ONLY_IMM);
	assert_int_equal(op->deth_at, 12);
	assert_int_equal(op->immdt_at, 20);
	op = opcode_get(TRANSPORT_RC | OP_READ_RESPONSE_MIDDLE);
	assert_int_equal(op->header_bytes, 12);
	assert_int_equal(opcode_get(TRANSPORT_XRC | OP_READ_RESPONSE_LAST)->aeth_at, 12);
}

static void test_names(void **state)
{
	assert_string_equal(opcode_name(0x00), "RC SEND_FIRST");
	assert_string_equal(opcode_name(0x29), "UC WRITE_LAST_IMM");
	assert_string_equal(opcode_name(0x64), "UD SEND_ONLY");
	assert_string_equal(opcode_name(0xbd), "XRC ATOMIC_WRITE");
	assert_string_equal(opcode_name(0x81), "CNP");
	assert_string_equal(opcode_name(0x44), "unknown opcode");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_the_list_of_opcodes_is_the_specification_s),
	    cmocka_unit_test(test_header_bytes_are_the_sum_of_the_headers),
	    cmocka_unit_test(test_headers_do_not_overlap),
	    cmocka_unit_test(test_flags_agree_with_each_other),
	    cmocka_unit_test(test_extensions_by_example),
	    cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
