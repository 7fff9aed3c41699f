/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows that a link offers under a seal: who opens them gets what was sent and nothing that is not
 * sound, and what he does not open comes to him checked.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "udp_pair.h"
#include "device/memory.h"
#include "wire/psn.h"

enum { PAYLOAD = 1024, COUNT = 20, FIRST_PSN = 0xfffff8 };

/* How many of a row are opened, and what has come. */
static uint32_t most;
static uint32_t offers, opened, rows, checked;
static char memory[COUNT][PAYLOAD];
static bool has_come[COUNT];

static uint32_t place_of(uint32_t psn)
{
	uint32_t place = (psn - FIRST_PSN) & PSN_MASK;

	assert_true(place < COUNT);
	assert_false(has_come[place]);
	return place;
}

static void open_row(const struct packet *packet)
{
	struct packet rest = *packet;

	offers++;
	assert_true(opcode_may_be_sealed(packet->bth[0]));
	assert_int_equal(packet->length, BTH_BYTES + PAYLOAD);
	do {
		uint32_t place = place_of(bth_psn(rest.bth));

		if (packet->seal->opened == most ||
		    !packet->seal->open(packet->seal, rest.bth + BTH_BYTES, memory[place], PAYLOAD))
			return;
		has_come[place] = true;
		packet->seal->opened++;
		opened++;
	} while (packet_pass(&rest, 1));
}

static void take(const struct packet *packet, void *data)
{
	struct packet rest = *packet;

	if (packet->seal) {
		open_row(packet);
		return;
	}
	rows++;
	do {
		struct wire_packet p;
		uint32_t place;

		assert_int_equal(wire_parse(&p, rest.bth, rest.length), PARSE_OK);
		place = place_of(p.bth.psn);
		memcpy(memory[place], p.payload, p.payload_length);
		has_come[place] = true;
		checked++;
	} while (packet_pass(&rest, 1));
}

enum { NONE = COUNT };

static uint32_t write_one(uint8_t *bytes, uint8_t operation, uint32_t index)
{
	struct wire_packet p = {
	    .bth = {.opcode = TRANSPORT_RC | operation,
		    .dest_qp = DEST_QP,
		    .psn = (FIRST_PSN + index) & PSN_MASK},
	    .payload_length = PAYLOAD,
	};
	size_t header = wire_pack(bytes, &p);

	memset(bytes + header, (int)index + 1, PAYLOAD);
	return (uint32_t)header + PAYLOAD;
}

/* A first packet, and the others of its message behind it as one run. The ICRC of one is wrong. */
static void send_message(struct pair *pair, uint8_t first, uint8_t middle, uint32_t wrong)
{
	const uint32_t size = BTH_BYTES + PAYLOAD,
		       begin = opcode_get(TRANSPORT_RC | first)->header_bytes + PAYLOAD;
	struct outbox *outbox = udp_link_outbox(pair->a);
	uint8_t *bytes = outbox->reserve(outbox, &pair->av, DEST_QP, begin);
	uint32_t stride;

	assert_non_null(bytes);
	write_one(bytes, first, 0);
	outbox->commit(outbox, begin);
	assert_int_equal(outbox->reserve_run(outbox, &pair->av, DEST_QP, TRANSPORT_RC | middle,
					     size, COUNT - 1, &bytes, &stride),
			 COUNT - 1);
	for (uint32_t i = 1; i < COUNT; i++, bytes += stride) {
		write_one(bytes, middle, i);
		put_le32(bytes + size,
			 icrc_sum(0, bytes + BTH_BYTES, PAYLOAD) ^ (i == wrong ? 0x1000000 : 0));
	}
	outbox->commit_run(outbox, size, COUNT - 1, true);
	assert_true(udp_link_flush(pair->a));
	assert_int_equal(counters_of(pair->a).sends, 1);
}

static void open_pair(struct pair *pair, const union ibv_gid *from, const union ibv_gid *to)
{
	pair_open(pair, from, to);
	pair->av.carrier_max = PAYLOAD + MTU_CARRIER;
	pair->b->receiver.is_offering = true;
	memset(has_come, 0, sizeof(has_come));
	offers = opened = rows = checked = 0;
}

static void take_all(struct pair *pair)
{
	int taken = 0, count;

	while (taken < COUNT) {
		struct pollfd wait = {.fd = pair->fd, .events = POLLIN};

		assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
		count = udp_receive(pair->b, pair->fd, &pair->to, take, NULL);
		assert_true(count > 0);
		taken += count;
	}
	assert_int_equal(counters_of(pair->b).received_packets, opened + checked);
}

static void assert_came(uint32_t place)
{
	assert_true(has_come[place]);
	for (int i = 0; i < PAYLOAD; i++)
		assert_int_equal((uint8_t)memory[place][i], place + 1);
}

static void assert_all_came(void)
{
	for (uint32_t i = 0; i < COUNT; i++)
		assert_came(i);
}

static void message(const union ibv_gid *from, const union ibv_gid *to, uint8_t first,
		    uint8_t middle, uint32_t opened_each)
{
	struct pair pair;

	most = opened_each;
	open_pair(&pair, from, to);
	send_message(&pair, first, middle, NONE);
	take_all(&pair);
	assert_all_came();
	pair_close(&pair);
}

/* All but the first, in one row, across the end of the PSNs. */
static void what_nobody_may_look_at(const union ibv_gid *from, const union ibv_gid *to)
{
	message(from, to, OP_SEND_FIRST, OP_SEND_MIDDLE, COUNT);
	assert_int_equal(opened, COUNT - 1);
	assert_int_equal(offers, 1);
	message(from, to, OP_READ_RESPONSE_FIRST, OP_READ_RESPONSE_MIDDLE, COUNT); /* filled up */
	assert_int_equal(opened, COUNT - 1);
	assert_int_equal(offers, 1);
}

static void test_rows_are_opened(void **state)
{
	what_nobody_may_look_at(&ipv4_a, &ipv4_b);
	what_nobody_may_look_at(&ipv6, &ipv6);
}

static void test_what_is_not_opened_comes_checked(void **state)
{
	const uint8_t middles[] = {OP_SEND_MIDDLE, OP_READ_RESPONSE_MIDDLE},
		      firsts[] = {OP_SEND_FIRST, OP_READ_RESPONSE_FIRST};

	for (int i = 0; i < 2; i++) {
		message(&ipv4_a, &ipv4_b, firsts[i], middles[i], 0);
		assert_int_equal(checked, COUNT);
		assert_int_equal(offers, 1);
		assert_int_equal(rows, 3);
		message(&ipv4_a, &ipv4_b, firsts[i], middles[i], 5); /* the rest is offered anew */
		assert_int_equal(opened, COUNT - 1);
		assert_int_equal(offers, 4);
	}
}

/* It is seen as soon as it comes. */
static void test_a_write_is_not_offered(void **state)
{
	message(&ipv4_a, &ipv4_b, OP_WRITE_FIRST, OP_WRITE_MIDDLE, COUNT);
	assert_int_equal(offers, 0);
	assert_int_equal(checked, COUNT);
	assert_int_equal(rows, 3); /* the first, and as many as stay in the first cache */
}

static void test_who_does_not_know_seals_gets_none(void **state)
{
	struct pair pair;

	open_pair(&pair, &ipv4_a, &ipv4_b);
	pair.b->receiver.is_offering = false;
	send_message(&pair, OP_SEND_FIRST, OP_SEND_MIDDLE, NONE);
	take_all(&pair);
	assert_all_came();
	assert_int_equal(offers, 0);
	pair_close(&pair);
}

/* Those before it are opened, those behind it come checked. */
static void test_what_is_not_sound_is_not_taken(void **state)
{
	const uint8_t middles[] = {OP_SEND_MIDDLE, OP_READ_RESPONSE_MIDDLE},
		      firsts[] = {OP_SEND_FIRST, OP_READ_RESPONSE_FIRST};

	most = COUNT;
	for (int i = 0; i < 2; i++)
		for (uint32_t wrong = 1; wrong < COUNT; wrong++) {
			struct pair pair;

			open_pair(&pair, &ipv4_a, &ipv4_b);
			send_message(&pair, firsts[i], middles[i], wrong);
			take_all(&pair);
			assert_int_equal(counters_of(pair.b).bad_icrc, 1);
			assert_int_equal(opened, wrong - 1);
			assert_int_equal(checked, COUNT - wrong);
			assert_false(has_come[wrong]);
			has_come[wrong] = true;
			memset(memory[wrong], (int)wrong + 1, PAYLOAD);
			assert_all_came();
			pair_close(&pair);
		}
}

/* They are not summed in the pass that copies everywhere. */
static void test_who_asks_gets_them_where_they_pay(void **state)
{
	struct pair pair;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	assert_false(pair.b->receiver.is_offering);
	udp_link_offer(pair.b);
	assert_int_equal(pair.b->receiver.is_offering, memory_sums());
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_rows_are_opened),
	    cmocka_unit_test(test_what_is_not_opened_comes_checked),
	    cmocka_unit_test(test_a_write_is_not_offered),
	    cmocka_unit_test(test_who_does_not_know_seals_gets_none),
	    cmocka_unit_test(test_what_is_not_sound_is_not_taken),
	    cmocka_unit_test(test_who_asks_gets_them_where_they_pay),
	};

	if (!pair_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
