/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ATOMIC WRITE and FLUSH (A19) against what Linux's Soft-RoCE puts on the wire. Debian's kernel 6.1
 * has neither; these are of its 6.12, recorded by tests/interop/placement.c between it and us. Its
 * FLUSH has all fields as we have them, and an ICRC that no other adapter would compute.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <infiniband/verbs.h>

#include "wire/icrc.h"
#include "wire/parse.h"

enum { IP = 20, UDP = 8 };

/* From the IP header on: 8 bytes to the start of a buffer; the range of a WRITE. */
static const char atomic_write[] =
    "4500004485c640004011a0460a4d00020a4d0001d1f812b7003000001d00ffff000066b380000000"
    "00005638e70b500000002e70000000083820627974657300d141c551";
static const char flush[] = "4500004085cd40004011a0430a4d00020a4d0001d1f812b7002c00001c00ffff"
			    "000066b3800000060000000100005638e70b540000002e7000001388602b7686";

static uint8_t bytes[128];

static size_t from_hex(const char *hex)
{
	size_t length = strlen(hex) / 2;

	for (size_t i = 0; i < length; i++) {
		unsigned int byte;

		assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
		bytes[i] = (uint8_t)byte;
	}
	return length;
}

/* Of the bytes that it covers, as the specification has them masked, and then of `more` besides. */
static uint32_t crc(const uint8_t *ip, size_t length, const uint8_t *more, size_t more_length)
{
	uint8_t covered[256];
	uint32_t sum = 0xffffffff;
	size_t count = 8 + length;

	memset(covered, 0xff, 8);
	memcpy(covered + 8, ip, length);
	covered[8 + 1] = covered[8 + 8] = covered[8 + 10] = covered[8 + 11] = 0xff;
	covered[8 + IP + 6] = covered[8 + IP + 7] = covered[8 + IP + UDP + 4] = 0xff;
	if (more_length)
		memcpy(covered + count, more, more_length);
	count += more_length;
	for (size_t i = 0; i < count; i++) {
		sum ^= covered[i];
		for (int bit = 0; bit < 8; bit++)
			sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
	}
	return ~sum;
}

static uint32_t icrc_of(size_t length)
{
	const uint8_t *at = bytes + length - ICRC_BYTES;

	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
	       (uint32_t)at[3] << 24;
}

/* Its fields pack to the same bytes again. */
static struct wire_packet parsed(size_t length)
{
	const uint8_t *bth = bytes + IP + UDP;
	uint8_t packed[HEADER_BYTES_MAX];
	struct wire_packet packet;
	size_t size;

	assert_int_equal(wire_parse(&packet, bth, length - IP - UDP - ICRC_BYTES), PARSE_OK);
	size = wire_pack(packed, &packet);
	assert_memory_equal(packed, bth, size);
	assert_int_equal(IP + UDP + size + packet.payload_length + ICRC_BYTES, length);
	return packet;
}

static void an_atomic_write_is_as_ours(void **state)
{
	size_t length = from_hex(atomic_write);
	struct wire_packet packet = parsed(length);

	assert_int_equal(packet.bth.opcode, TRANSPORT_RC | OP_ATOMIC_WRITE);
	assert_true(packet.bth.ack_req);
	assert_int_equal(packet.reth.va, 0x5638e70b5000);
	assert_int_equal(packet.reth.rkey, 0x2e70);
	assert_int_equal(packet.reth.length, 8);
	assert_int_equal(packet.payload_length, 8);
	assert_memory_equal(packet.payload, "8 bytes", 8);
	assert_int_equal(crc(bytes, length - ICRC_BYTES, NULL, 0), icrc_of(length));
}

static void a_flush_has_fields_as_ours(void **state)
{
	size_t length = from_hex(flush);
	struct wire_packet packet = parsed(length);

	assert_int_equal(packet.bth.opcode, TRANSPORT_RC | OP_FLUSH);
	assert_true(packet.bth.ack_req);
	assert_int_equal(packet.feth.type, IBV_FLUSH_GLOBAL);
	assert_int_equal(packet.feth.level, IBV_FLUSH_RANGE);
	assert_int_equal(packet.reth.va, 0x5638e70b5400);
	assert_int_equal(packet.reth.rkey, 0x2e70);
	assert_int_equal(packet.reth.length, 5000);
	assert_int_equal(packet.payload_length, 0);
}

/* Soft-RoCE takes the headers for the payload as well, and so covers the BTH and what follows it
 * once more, unmasked. It drops a FLUSH whose ICRC is right; so we take both, and can send both. */
static void a_flush_has_an_icrc_of_its_own(void **state)
{
	size_t length = from_hex(flush), headers = length - IP - UDP - ICRC_BYTES;
	uint16_t udp_length = (uint16_t)(headers + ICRC_BYTES);
	uint8_t *bth = bytes + IP + UDP;
	uint32_t theirs = icrc_of(length);
	struct icrc_flow flow;
	uint16_t id;

	assert_int_not_equal(crc(bytes, length - ICRC_BYTES, NULL, 0), theirs);
	assert_int_equal(crc(bytes, length - ICRC_BYTES, bth, headers), theirs);
	icrc_flow_ipv4(&flow, bytes + 12, bytes + 16, get_be16(bytes + IP),
		       get_be16(bytes + IP + 2));
	id = 0; /* a wrong guess, and then the right one */
	assert_true(icrc_is_right(&flow, bth, udp_length, &id));
	assert_int_equal(id, get_be16(bytes + 4));
	assert_true(icrc_is_right(&flow, bth, udp_length, &id));
	icrc_seal(&flow, bth, headers, id);
	assert_int_equal(icrc_of(length), crc(bytes, length - ICRC_BYTES, NULL, 0));
	bth[4] |= 1;
	icrc_seal(&flow, bth, headers, id);
	assert_int_equal(icrc_of(length), crc(bytes, length - ICRC_BYTES, bth, headers));
	assert_true(icrc_is_right(&flow, bth, udp_length, &id));
	bth[0] = TRANSPORT_RC | OP_SEND_ONLY; /* nothing else is taken so */
	assert_false(icrc_is_right(&flow, bth, udp_length, &id));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_atomic_write_is_as_ours),
	    cmocka_unit_test(a_flush_has_fields_as_ours),
	    cmocka_unit_test(a_flush_has_an_icrc_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
