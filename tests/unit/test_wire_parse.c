/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire_parse(): round trips for every opcode, and the error that names what is malformed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "wire/parse.h"

enum { BYTES = 128 };

static uint8_t bytes[BYTES];
static struct wire_packet packet;

/* A packet of this opcode with all fields set. */
static struct wire_packet sample(uint8_t opcode, uint32_t payload_length)
{
	const struct opcode *op = opcode_get(opcode);
	struct wire_packet p = {
	    .op = op,
	    .payload_length = payload_length,
	    .bth = {.opcode = opcode, .pkey = 0xffff, .dest_qp = 0x11, .psn = 0x123456},
	};

	p.bth.pad_count = wire_pad(payload_length);
	if (op->deth_at)
		p.deth = (struct deth){.qkey = 0x11111111, .src_qp = 0x222222};
	if (op->reth_at)
		p.reth = (struct reth){.va = 0x7f0011223344, .rkey = 0x55667788, .length = 4096};
	if (op->atomiceth_at)
		p.atomic = (struct atomiceth){.va = 8, .rkey = 9, .swap_add = 10, .compare = 11};
	if (op->aeth_at)
		p.aeth = (struct aeth){.syndrome = 0x1f, .msn = 77};
	if (op->feth_at)
		p.feth = (struct feth){.type = 1, .level = 1};
	p.atomic_ack = op->atomicacketh_at ? 0x1122334455667788 : 0;
	p.imm = op->immdt_at ? 0xdeadbeef : 0;
	p.ieth = op->ieth_at ? 0xcafe0001 : 0;
	p.xrceth = op->xrceth_at ? 0x345678 : 0;
	return p;
}

static void assert_same_headers(const struct wire_packet *a, const struct wire_packet *b)
{
	assert_ptr_equal(a->op, b->op);
	assert_int_equal(a->bth.opcode, b->bth.opcode);
	assert_int_equal(a->bth.pad_count, b->bth.pad_count);
	assert_int_equal(a->bth.pkey, b->bth.pkey);
	assert_int_equal(a->bth.dest_qp, b->bth.dest_qp);
	assert_int_equal(a->bth.psn, b->bth.psn);
	assert_int_equal(a->deth.qkey, b->deth.qkey);
	assert_int_equal(a->deth.src_qp, b->deth.src_qp);
	assert_true(a->reth.va == b->reth.va);
	assert_int_equal(a->reth.rkey, b->reth.rkey);
	assert_int_equal(a->reth.length, b->reth.length);
	assert_true(a->atomic.va == b->atomic.va);
	assert_int_equal(a->atomic.rkey, b->atomic.rkey);
	assert_true(a->atomic.swap_add == b->atomic.swap_add);
	assert_true(a->atomic.compare == b->atomic.compare);
	assert_int_equal(a->aeth.syndrome, b->aeth.syndrome);
	assert_int_equal(a->aeth.msn, b->aeth.msn);
	assert_int_equal(a->feth.type, b->feth.type);
	assert_int_equal(a->feth.level, b->feth.level);
	assert_true(a->atomic_ack == b->atomic_ack);
	assert_int_equal(a->imm, b->imm);
	assert_int_equal(a->ieth, b->ieth);
	assert_int_equal(a->xrceth, b->xrceth);
}

static uint32_t some_payload(const struct opcode *op)
{
	if (op->flags & OPF_ATOMIC_WRITE)
		return ATOMIC_WRITE_BYTES;
	if (op->flags & OPF_CNP)
		return CNP_PAYLOAD_BYTES;
	return op->flags & OPF_PAYLOAD ? 7 : 0;
}

/* Packs the sample into `bytes` and returns the whole length. */
static size_t build(uint8_t opcode, uint32_t payload_length)
{
	struct wire_packet p = sample(opcode, payload_length);

	memset(bytes, 0, BYTES);
	return wire_pack(bytes, &p) + payload_length + wire_pad(payload_length);
}

static void test_every_opcode_makes_the_round_trip(void **state)
{
	for (int i = 0; i < 256; i++) {
		const struct opcode *op = opcode_get(i);
		struct wire_packet before;
		size_t length;

		if (!op->name)
			continue;
		before = sample(i, some_payload(op));
		length = build(i, some_payload(op));
		assert_int_equal(wire_parse(&packet, bytes, length), PARSE_OK);
		assert_ptr_equal(packet.payload, bytes + op->header_bytes);
		assert_int_equal(packet.payload_length, some_payload(op));
		assert_same_headers(&packet, &before);
	}
}

static void test_every_cut_is_too_short(void **state)
{
	for (int i = 0; i < 256; i++) {
		if (!is_opcode(i))
			continue;
		build(i, 0);
		for (size_t cut = 0; cut < opcode_get(i)->header_bytes; cut++)
			assert_int_equal(wire_parse(&packet, bytes, cut), PARSE_TOO_SHORT);
	}
}

static void test_unknown_opcodes_are_named(void **state)
{
	for (int i = 0; i < 256; i++) {
		if (is_opcode(i))
			continue;
		memset(bytes, 0, BYTES);
		bytes[0] = i;
		assert_int_equal(wire_parse(&packet, bytes, BYTES), PARSE_UNKNOWN_OPCODE);
	}
}

static void test_version_must_be_zero(void **state)
{
	size_t length = build(TRANSPORT_RC | OP_SEND_ONLY, 4);

	for (int tver = 1; tver < 16; tver++) {
		bytes[1] = (bytes[1] & 0xf0) | tver;
		assert_int_equal(wire_parse(&packet, bytes, length), PARSE_BAD_VERSION);
	}
}

static void test_pad_beyond_the_payload(void **state)
{
	size_t length = build(TRANSPORT_RC | OP_SEND_ONLY, 0);

	bytes[1] |= 1 << 4;
	assert_int_equal(wire_parse(&packet, bytes, length), PARSE_BAD_PAD);
	length = build(TRANSPORT_RC | OP_ACKNOWLEDGE, 0);
	bytes[1] |= 3 << 4;
	assert_int_equal(wire_parse(&packet, bytes, length), PARSE_BAD_PAD);
}

static void test_length_is_a_multiple_of_four(void **state)
{
	size_t length = build(TRANSPORT_RC | OP_SEND_ONLY, 8);

	for (int more = 1; more < 4; more++)
		assert_int_equal(wire_parse(&packet, bytes, length + more), PARSE_UNALIGNED);
}

static void test_payload_where_none_may_be(void **state)
{
	static const uint8_t bare[] = {OP_READ_REQUEST, OP_ACKNOWLEDGE, OP_ATOMIC_ACKNOWLEDGE,
				       OP_COMPARE_SWAP, OP_FETCH_ADD,	OP_FLUSH};

	for (size_t i = 0; i < sizeof(bare); i++) {
		size_t length = build(bare[i], 0);

		assert_int_equal(wire_parse(&packet, bytes, length), PARSE_OK);
		assert_int_equal(wire_parse(&packet, bytes, length + 1), PARSE_UNEXPECTED_PAYLOAD);
		assert_int_equal(wire_parse(&packet, bytes, length + 4), PARSE_UNEXPECTED_PAYLOAD);
	}
}

static void test_atomic_write_carries_eight_bytes(void **state)
{
	size_t length = build(TRANSPORT_RC | OP_ATOMIC_WRITE, 8);

	assert_int_equal(wire_parse(&packet, bytes, length), PARSE_OK);
	assert_int_equal(wire_parse(&packet, bytes, length - 4), PARSE_BAD_PAYLOAD_LENGTH);
	assert_int_equal(wire_parse(&packet, bytes, length + 4), PARSE_BAD_PAYLOAD_LENGTH);
	bytes[1] |= 1 << 4;
	assert_int_equal(wire_parse(&packet, bytes, length), PARSE_BAD_PAYLOAD_LENGTH);
}

static void test_pad_is_taken_off_the_payload(void **state)
{
	for (uint32_t n = 0; n < 9; n++) {
		size_t length = build(TRANSPORT_UD | OP_SEND_ONLY, n);

		assert_int_equal(length % 4, 0);
		assert_int_equal(wire_parse(&packet, bytes, length), PARSE_OK);
		assert_int_equal(packet.payload_length, n);
		assert_int_equal(packet.bth.pad_count, (4 - n % 4) % 4);
	}
}

static void test_each_error_has_a_name(void **state)
{
	for (int i = PARSE_BAD_PAYLOAD_LENGTH; i <= PARSE_OK; i++)
		assert_string_not_equal(parse_error_name(i), "unknown error");
	assert_string_equal(parse_error_name(-99), "unknown error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_opcode_makes_the_round_trip),
	    cmocka_unit_test(test_every_cut_is_too_short),
	    cmocka_unit_test(test_unknown_opcodes_are_named),
	    cmocka_unit_test(test_version_must_be_zero),
	    cmocka_unit_test(test_pad_beyond_the_payload),
	    cmocka_unit_test(test_length_is_a_multiple_of_four),
	    cmocka_unit_test(test_payload_where_none_may_be),
	    cmocka_unit_test(test_atomic_write_carries_eight_bytes),
	    cmocka_unit_test(test_pad_is_taken_off_the_payload),
	    cmocka_unit_test(test_each_error_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
