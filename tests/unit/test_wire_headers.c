/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each header packs to the bytes that the specification draws, and unpacks to what was packed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "wire/headers.h"

static void test_bth(void **state)
{
	static const uint8_t wire[BTH_BYTES] = {0x64, 0xb0, 0xff, 0xfe, 0xc0, 0x12,
						0x34, 0x56, 0x80, 0xab, 0xcd, 0xef};
	struct bth bth = {.opcode = 0x64,
			  .pad_count = 3,
			  .solicited = true,
			  .fecn = true,
			  .becn = true,
			  .ack_req = true,
			  .pkey = 0xfffe,
			  .dest_qp = 0x123456,
			  .psn = 0xabcdef};
	uint8_t bytes[BTH_BYTES];
	struct bth back = {0};

	bth_pack(bytes, &bth);
	assert_memory_equal(bytes, wire, BTH_BYTES);
	assert_int_equal(bth_dest_qp(bytes), 0x123456);
	assert_int_equal(bth_psn(bytes), 0xabcdef);
	bth_unpack(&back, wire);
	bth_pack(bytes, &back);
	assert_memory_equal(bytes, wire, BTH_BYTES);
	assert_false(back.migreq);
	assert_int_equal(back.pkey, 0xfffe);
}

static void test_bth_flags_are_apart(void **state)
{
	uint8_t bytes[BTH_BYTES];

	bth_pack(bytes, &(struct bth){.migreq = true});
	assert_int_equal(bytes[1], 0x40);
	bth_pack(bytes, &(struct bth){.solicited = true});
	assert_int_equal(bytes[1], 0x80);
	bth_pack(bytes, &(struct bth){.tver = 5});
	assert_int_equal(bytes[1], 0x05);
	bth_pack(bytes, &(struct bth){.fecn = true});
	assert_int_equal(bytes[4], 0x80);
	bth_pack(bytes, &(struct bth){.generation = 5});
	assert_int_equal(bytes[4], 0x28);
	bth_pack(bytes, &(struct bth){.is_twice = true});
	assert_int_equal(bytes[4], 0x01);
	bth_pack(bytes, &(struct bth){.psn = 0xffffffff});
	assert_int_equal(bytes[8], 0);
	bth_set_ack_req(bytes);
	assert_int_equal(bytes[8], 0x80);
}

static void test_reserved_bits_are_ignored(void **state)
{
	uint8_t bytes[BTH_BYTES] = {[4] = 0x3f, [8] = 0x7f};
	struct bth bth;

	bth_unpack(&bth, bytes);
	assert_false(bth.fecn || bth.becn || bth.ack_req);
	assert_int_equal(bth.generation, 7);
}

static void test_deth(void **state)
{
	static const uint8_t wire[] = {0x11, 0x11, 0x22, 0x22, 0, 0xa, 0xb, 0xc};
	uint8_t bytes[DETH_BYTES];
	struct deth deth;

	deth_pack(bytes, &(struct deth){.qkey = 0x11112222, .src_qp = 0xff0a0b0c});
	assert_memory_equal(bytes, wire, DETH_BYTES);
	deth_unpack(&deth, wire);
	assert_int_equal(deth.qkey, 0x11112222);
	assert_int_equal(deth.src_qp, 0x0a0b0c);
}

static void test_reth(void **state)
{
	static const uint8_t wire[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
	uint8_t bytes[RETH_BYTES];
	struct reth reth;

	reth_unpack(&reth, wire);
	assert_true(reth.va == 0x0102030405060708);
	assert_int_equal(reth.rkey, 0x090a0b0c);
	assert_int_equal(reth.length, 0x0d0e0f10);
	reth_pack(bytes, &reth);
	assert_memory_equal(bytes, wire, RETH_BYTES);
}

static void test_atomiceth(void **state)
{
	uint8_t wire[ATOMICETH_BYTES], bytes[ATOMICETH_BYTES];
	struct atomiceth atomic;

	for (int i = 0; i < ATOMICETH_BYTES; i++)
		wire[i] = i + 1;
	atomiceth_unpack(&atomic, wire);
	assert_true(atomic.va == 0x0102030405060708);
	assert_int_equal(atomic.rkey, 0x090a0b0c);
	assert_true(atomic.swap_add == 0x0d0e0f1011121314);
	assert_true(atomic.compare == 0x15161718191a1b1c);
	atomiceth_pack(bytes, &atomic);
	assert_memory_equal(bytes, wire, ATOMICETH_BYTES);
}

static void test_aeth(void **state)
{
	static const uint8_t wire[] = {0x1f, 0xfe, 0xdc, 0xba};
	uint8_t bytes[AETH_BYTES];
	struct aeth aeth;

	aeth_unpack(&aeth, wire);
	assert_int_equal(aeth.syndrome, 0x1f);
	assert_int_equal(aeth.msn, 0xfedcba);
	aeth_pack(bytes, &aeth);
	assert_memory_equal(bytes, wire, AETH_BYTES);
}

static void test_feth(void **state)
{
	static const uint8_t wire[] = {0, 0, 0, 0x12};
	uint8_t bytes[FETH_BYTES];
	struct feth feth;

	feth_unpack(&feth, wire);
	assert_int_equal(feth.type, 2);
	assert_int_equal(feth.level, 1);
	feth_pack(bytes, &feth);
	assert_memory_equal(bytes, wire, FETH_BYTES);
}

static void test_headers_of_one_number(void **state)
{
	uint8_t bytes[8];

	immdt_pack(bytes, 0x01020304);
	assert_int_equal(bytes[0], 1);
	assert_int_equal(immdt_unpack(bytes), 0x01020304);
	ieth_pack(bytes, 0xa1020304);
	assert_int_equal(ieth_unpack(bytes), 0xa1020304);
	xrceth_pack(bytes, 0xff123456);
	assert_int_equal(bytes[0], 0);
	assert_int_equal(xrceth_unpack(bytes), 0x123456);
	atomicacketh_pack(bytes, 0x0102030405060708);
	assert_int_equal(bytes[7], 8);
	assert_true(atomicacketh_unpack(bytes) == 0x0102030405060708);
}

static void test_grh(void **state)
{
	struct grh grh = {.traffic_class = 0xab,
			  .next_header = 17,
			  .hop_limit = 64,
			  .payload_length = 0x1234,
			  .flow_label = 0xcdef1,
			  .sgid = {0xfe, 0x80, [15] = 1},
			  .dgid = {0xfe, 0x80, [15] = 2}};
	uint8_t bytes[GRH_BYTES], again[GRH_BYTES];
	struct grh back = {0};

	grh_pack(bytes, &grh);
	assert_int_equal(get_be32(bytes), 0x6abcdef1);
	assert_int_equal(bytes[39], 2);
	grh_unpack(&back, bytes);
	grh_pack(again, &back);
	assert_memory_equal(again, bytes, GRH_BYTES);
	assert_int_equal(back.flow_label, 0xcdef1);
}

static void test_ipv4_grh_has_a_right_checksum(void **state)
{
	struct grh_ipv4 grh = {.tos = 2,
			       .ttl = 64,
			       .total_length = 332,
			       .id = 0x1234,
			       .saddr = {192, 168, 0, 1},
			       .daddr = {10, 1, 2, 255}};
	uint8_t bytes[GRH_BYTES];
	uint32_t sum = 0;

	memset(bytes, 0xee, sizeof(bytes));
	grh_ipv4_pack(bytes, &grh);
	for (int i = 0; i < 20; i++)
		assert_int_equal(bytes[i], 0);
	assert_int_equal(bytes[20], 0x45);
	assert_int_equal(bytes[29], 17);
	assert_memory_equal(bytes + 36, grh.daddr, 4);
	for (int i = 20; i < 40; i += 2)
		sum += get_be16(bytes + i);
	assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_bth),
	    cmocka_unit_test(test_bth_flags_are_apart),
	    cmocka_unit_test(test_reserved_bits_are_ignored),
	    cmocka_unit_test(test_deth),
	    cmocka_unit_test(test_reth),
	    cmocka_unit_test(test_atomiceth),
	    cmocka_unit_test(test_aeth),
	    cmocka_unit_test(test_feth),
	    cmocka_unit_test(test_headers_of_one_number),
	    cmocka_unit_test(test_grh),
	    cmocka_unit_test(test_ipv4_grh_has_a_right_checksum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
