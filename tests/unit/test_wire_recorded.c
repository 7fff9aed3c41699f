/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The formats against packets of kernel rxe: each parses, packs to the same bytes and has the ICRC
 * that we compute; and no flipped bit goes unnoticed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "recorded.h"
#include "wire/parse.h"

static void parses(const struct recorded *r, void *context)
{
	struct wire_packet packet;

	assert_int_equal(wire_parse(&packet, r->bth, r->length - ICRC_BYTES), PARSE_OK);
	((int *)context)[packet.bth.opcode]++;
}

static void test_every_recorded_packet_parses(void **state)
{
	static const uint8_t seen[] = {
	    TRANSPORT_RC | OP_SEND_FIRST,	   TRANSPORT_RC | OP_SEND_MIDDLE,
	    TRANSPORT_RC | OP_SEND_LAST,	   TRANSPORT_RC | OP_SEND_ONLY,
	    TRANSPORT_RC | OP_WRITE_FIRST,	   TRANSPORT_RC | OP_READ_REQUEST,
	    TRANSPORT_RC | OP_FETCH_ADD,	   TRANSPORT_RC | OP_ACKNOWLEDGE,
	    TRANSPORT_RC | OP_READ_RESPONSE_FIRST, TRANSPORT_RC | OP_ATOMIC_ACKNOWLEDGE,
	    TRANSPORT_UC | OP_SEND_FIRST,	   TRANSPORT_UD | OP_SEND_ONLY,
	};
	int opcodes[256] = {0};

	assert_int_equal(recorded_each(parses, opcodes), RECORDED_PACKETS);
	for (size_t i = 0; i < sizeof(seen); i++)
		assert_int_not_equal(opcodes[seen[i]], 0);
}

static void packs_to_the_same(const struct recorded *r, void *context)
{
	uint8_t bytes[HEADER_BYTES_MAX];
	struct wire_packet packet;
	size_t length;

	assert_int_equal(wire_parse(&packet, r->bth, r->length - ICRC_BYTES), PARSE_OK);
	length = wire_pack(bytes, &packet);
	assert_ptr_equal(packet.payload, r->bth + length);
	assert_memory_equal(bytes, r->bth, length);
	assert_int_equal(length + packet.payload_length + wire_pad(packet.payload_length) +
			     ICRC_BYTES,
			 r->length);
}

static void test_parsed_headers_pack_to_the_same_bytes(void **state)
{
	assert_int_equal(recorded_each(packs_to_the_same, NULL), RECORDED_PACKETS);
}

static void has_our_icrc(const struct recorded *r, void *context)
{
	size_t length = r->length - ICRC_BYTES;

	assert_int_equal(icrc_compute(&r->flow, r->bth, length, r->ipv4_id),
			 get_le32(r->bth + length));
}

static void test_computed_icrc_is_the_recorded_one(void **state)
{
	assert_int_equal(recorded_each(has_our_icrc, NULL), RECORDED_PACKETS);
}

static void id_is_found(const struct recorded *r, void *context)
{
	uint16_t id = 0, expected = r->ipv4_id;

	assert_true(icrc_is_right(&r->flow, r->bth, r->length, &id));
	assert_int_equal(id, r->ipv4_id);
	assert_true(icrc_is_right(&r->flow, r->bth, r->length, &expected));
	assert_int_equal(expected, r->ipv4_id);
	*(int *)context += id != 0;
}

static void test_unknown_identification_is_found(void **state)
{
	int with_id = 0;

	assert_int_equal(recorded_each(id_is_found, &with_id), RECORDED_PACKETS);
	assert_true(with_id > 1000);
}

/* The BTH's fifth byte may change on the way (FECN, BECN): the ICRC leaves it out. */
enum { BTH_MUTABLE_BYTE = 4, FLIPS = 64 };

static void flipped_bit_is_seen(const struct recorded *r, void *context)
{
	static uint8_t bytes[RECORDED_BYTES_MAX];
	uint32_t *random = context;

	memcpy(bytes, r->bth, r->length);
	for (int i = 0; i < FLIPS; i++) {
		uint32_t bit;
		uint16_t id = r->ipv4_id;

		*random = *random * 1664525 + 1013904223;
		bit = (*random >> 8) % (r->length * 8);
		bytes[bit / 8] ^= 1 << bit % 8;
		if (bit / 8 == BTH_MUTABLE_BYTE)
			assert_true(icrc_is_right(&r->flow, bytes, r->length, &id));
		else if (icrc_is_right(&r->flow, bytes, r->length, &id))
			fail_msg("bit %u of %zu bytes flipped, not seen, id %u", bit, r->length,
				 id);
		bytes[bit / 8] ^= 1 << bit % 8;
	}
}

static void test_a_flipped_bit_is_seen(void **state)
{
	uint32_t random = 1;

	assert_int_equal(recorded_each(flipped_bit_is_seen, &random), RECORDED_PACKETS);
}

/* Whatever the identification, the length and what is masked. */
static void run_is_as_its_packets(const struct recorded *r, void *context)
{
	static const uint16_t ids[] = {0,   1,	 14,  15,     16,     127,   129,
				       254, 255, 256, 0x1234, 0x8000, 0xfedc};
	static uint8_t bytes[RECORDED_BYTES_MAX];
	struct icrc_run run = {0};

	(void)context;
	memcpy(bytes, r->bth, r->length);
	for (size_t length = BTH_BYTES; length + ICRC_BYTES <= r->length; length += 100) {
		icrc_run_begin(&run, &r->flow, length);
		for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
			bytes[BTH_MUTABLE_BYTE] = i % 4 == 3 ? 0x41 : 0;
			assert_int_equal(icrc_run_compute(&run, bytes, ids[i]),
					 icrc_compute(&r->flow, bytes, length, ids[i]));
		}
		icrc_run_seal(&run, bytes, 7);
		assert_int_equal(get_le32(bytes + length),
				 icrc_compute(&r->flow, bytes, length, 7));
		memcpy(bytes, r->bth, r->length);
	}
}

static void test_a_run_has_the_icrcs_of_its_packets(void **state)
{
	assert_int_equal(recorded_each(run_is_as_its_packets, NULL), RECORDED_PACKETS);
}

/* From the second one of a length on, whoever the one before was from. */
static void singles_are_as_packets(const struct recorded *r, void *context)
{
	struct icrc_singles *singles = context;
	const struct icrc_run *run;

	for (uint32_t i = 0; i < 6; i++) {
		size_t length = BTH_BYTES + (i / 3) * 4;

		if (length + ICRC_BYTES > r->length)
			break;
		run = icrc_singles_run(singles, &r->flow, length);
		assert_int_equal(run != NULL, i % 3 != 0);
		if (run)
			assert_int_equal(icrc_run_compute(run, r->bth, (uint16_t)(513 * i)),
					 icrc_compute(&r->flow, r->bth, length, 513 * i));
	}
	/* with another one's, of the same length */
	icrc_singles_run(singles, &r->flow, BTH_BYTES + 8);
}

static void test_one_packet_after_another_of_its_length_is_a_run(void **state)
{
	struct icrc_singles singles = {0};

	assert_int_equal(recorded_each(singles_are_as_packets, &singles), RECORDED_PACKETS);
}

static void other_flow_begins_anew(const struct recorded *r, void *context)
{
	struct icrc_singles *singles = context;
	const struct icrc_run *run = icrc_singles_run(singles, &r->flow, BTH_BYTES);

	if (run)
		assert_int_equal(icrc_run_compute(run, r->bth, 7),
				 icrc_compute(&r->flow, r->bth, BTH_BYTES, 7));
}

static void test_so_it_is_where_flows_take_turns(void **state)
{
	struct icrc_singles singles = {0};

	assert_int_equal(recorded_each(other_flow_begins_anew, &singles), RECORDED_PACKETS);
}

/* Whatever follows upon whatever: PSNs, identifications, headers, lengths, flows. */
static void sums_make_the_icrcs_of_their_packets(const struct recorded *r, void *context)
{
	static uint8_t bytes[RECORDED_BYTES_MAX];
	struct icrc_summed *summed = context;
	struct icrc_run run = {0};
	uint32_t random = 1;

	memcpy(bytes, r->bth, r->length);
	for (size_t length = BTH_BYTES; length + ICRC_BYTES <= r->length; length += 204) {
		icrc_run_begin(&run, &r->flow, length);
		for (int i = 0; i < 40; i++) {
			random = i % 10 < 5 ? random + 513 : random * 1664525 + 1013904223;
			put_be24(bytes + BTH_PSN_AT, random >> 9);
			bytes[i % 10 == 9 ? random % BTH_PSN_AT : BTH_BYTES - 1] ^= random >> 24;
			put_le32(bytes + length,
				 icrc_sum(0, bytes + BTH_BYTES, length - BTH_BYTES));
			icrc_summed_seal(summed, &run, bytes, (uint16_t)(random >> 9));
			assert_int_equal(
			    get_le32(bytes + length),
			    icrc_compute(&r->flow, bytes, length, (uint16_t)(random >> 9)));
		}
		memcpy(bytes, r->bth, r->length);
	}
}

static void test_sums_of_payloads_make_the_icrcs_of_their_packets(void **state)
{
	struct icrc_summed summed = {0};

	assert_int_equal(recorded_each(sums_make_the_icrcs_of_their_packets, &summed),
			 RECORDED_PACKETS);
}

static void test_a_shifted_sum_is_that_of_zeros_behind(void **state)
{
	static const uint8_t bytes[8] = "payload", zeros[4096];
	const size_t counts[] = {0, 4, 16, 20, 16, 1020, 4096, 0};
	struct icrc_shift shift = {0};
	uint32_t sum = icrc_sum(0, bytes, sizeof(bytes));

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		icrc_shift_begin(&shift, counts[i]);
		assert_int_equal(icrc_shift(&shift, sum), icrc_sum(sum, zeros, counts[i]));
		assert_int_equal(icrc_shift(&shift, 0), 0);
	}
}

static void wrong_flow_is_seen(const struct recorded *r, void *context)
{
	struct icrc_flow flow = r->flow;
	uint16_t id = r->ipv4_id;

	flow.prefix[flow.prefix_bytes - 9] ^= 1; /* last byte of the destination address */
	assert_false(icrc_is_right(&flow, r->bth, r->length, &id));
	flow = r->flow;
	flow.prefix[flow.prefix_bytes - 7] ^= 0x80; /* source port */
	assert_false(icrc_is_right(&flow, r->bth, r->length, &id));
}

static void test_another_address_or_port_is_seen(void **state)
{
	assert_int_equal(recorded_each(wrong_flow_is_seen, NULL), RECORDED_PACKETS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_recorded_packet_parses),
	    cmocka_unit_test(test_parsed_headers_pack_to_the_same_bytes),
	    cmocka_unit_test(test_computed_icrc_is_the_recorded_one),
	    cmocka_unit_test(test_unknown_identification_is_found),
	    cmocka_unit_test(test_a_flipped_bit_is_seen),
	    cmocka_unit_test(test_a_run_has_the_icrcs_of_its_packets),
	    cmocka_unit_test(test_one_packet_after_another_of_its_length_is_a_run),
	    cmocka_unit_test(test_so_it_is_where_flows_take_turns),
	    cmocka_unit_test(test_sums_of_payloads_make_the_icrcs_of_their_packets),
	    cmocka_unit_test(test_a_shifted_sum_is_that_of_zeros_behind),
	    cmocka_unit_test(test_another_address_or_port_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
