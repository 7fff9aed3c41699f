/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What leaves together over UDP: packets of one length, packets that are made so, an ACK and the
 * message behind it.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "udp_pair.h"
#include "wire/filled.h"

static void put_ack(struct udp_link *link, const struct av *av)
{
	struct outbox *outbox = udp_link_outbox(link);
	struct wire_packet p = {
	    .bth = {.opcode = TRANSPORT_RC | OP_ACKNOWLEDGE, .dest_qp = DEST_QP, .psn = 77},
	};
	uint8_t *bytes = outbox->reserve(outbox, av, DEST_QP, BTH_BYTES + AETH_BYTES);

	assert_non_null(bytes);
	wire_pack(bytes, &p);
	outbox->commit(outbox, BTH_BYTES + AETH_BYTES);
}

/* A sends an ACK and a reply to B; the number of datagrams. The ACK is delivered first. */
static uint64_t datagrams_of_reply(struct pair *pair, uint32_t payload)
{
	uint64_t before = counters_of(pair->b).receives;
	int delivered = 0, packets;

	kept_count = 0;
	put_ack(pair->a, &pair->av);
	assert_true(put(pair->a, &pair->av, DEST_QP, 1, payload));
	assert_true(udp_link_flush(pair->a));
	do {
		pair->b->receiver.batch = 1;
		packets = udp_receive(pair->b, pair->fd, &pair->to, keep, &delivered);
		assert_int_equal(packets, 1);
	} while (kept_count < 2);
	assert_int_equal(kept[0].bytes[0], TRANSPORT_RC | OP_ACKNOWLEDGE);
	assert_int_equal(kept[0].packet.length, BTH_BYTES + AETH_BYTES);
	assert_kept(1, 1, payload);
	return counters_of(pair->b).receives - before;
}

/* Only to who is known to understand it, and never beyond the path MTU. */
static void ack_with_reply(const union ibv_gid *from, const union ibv_gid *to)
{
	struct pair pair;

	pair_open(&pair, from, to);
	assert_int_equal(datagrams_of_reply(&pair, 8), 2);
	pair.av.carrier_max = 1024 + MTU_CARRIER;
	assert_int_equal(datagrams_of_reply(&pair, 8), 1);
	assert_int_equal(datagrams_of_reply(&pair, 1024), 1);
	assert_int_equal(datagrams_of_reply(&pair, RETH_BYTES + IMMDT_BYTES + 1024), 1);
	assert_int_equal(datagrams_of_reply(&pair, 2048), 2);
	pair_close(&pair);
}

static void test_an_ack_and_the_reply_are_one_packet_to_ours(void **state)
{
	ack_with_reply(&ipv4_a, &ipv4_b);
	ack_with_reply(&ipv6, &ipv6);
}

/* More behind the reply leaves in the same send. */
static void test_a_reply_with_an_ack_begins_a_batch(void **state)
{
	struct pair pair;

	kept_count = 0;
	pair_open(&pair, &ipv4_a, &ipv4_b);
	pair.av.carrier_max = 1024 + MTU_CARRIER;
	put_ack(pair.a, &pair.av);
	for (int i = 0; i < 3; i++)
		assert_true(put(pair.a, &pair.av, DEST_QP, i, 8));
	assert_true(udp_link_flush(pair.a));
	assert_int_equal(counters_of(pair.a).sends, 1);
	receive(pair.b, pair.fd, &ipv4_b, 3);
	assert_int_equal(kept[0].bytes[0], TRANSPORT_RC | OP_ACKNOWLEDGE);
	for (int i = 0; i < 3; i++)
		assert_kept(i + 1, i, 8);
	pair_close(&pair);
}

static void test_an_ack_behind_whole_packets_leaves_in_the_same_send(void **state)
{
	struct pair pair;
	int delivered = 0;

	kept_count = 0;
	pair_open(&pair, &ipv4_a, &ipv4_b);
	pair.av.carrier_max = 1024 + MTU_CARRIER;
	for (int i = 0; i < 3; i++)
		assert_true(put(pair.a, &pair.av, DEST_QP, i, 1024));
	put_ack(pair.a, &pair.av);
	assert_true(udp_link_flush(pair.a));
	while (kept_count < 4) {
		pair.b->receiver.batch = 1;
		assert_true(udp_receive(pair.b, pair.fd, &ipv4_b, keep, &delivered) >= 0);
	}
	assert_int_equal(counters_of(pair.b).receives, 1);
	for (int i = 0; i < 3; i++)
		assert_kept(i, i, 1024);
	assert_int_equal(kept[3].bytes[0], TRANSPORT_RC | OP_ACKNOWLEDGE);
	assert_int_equal(kept[3].packet.length, BTH_BYTES + AETH_BYTES);
	pair_close(&pair);
}

static void test_a_run_goes_on_with_the_packet_before_it(void **state)
{
	struct pair pair;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	assert_true(put(pair.a, &pair.av, DEST_QP, 0, 1024));
	assert_int_equal(put_run(&pair, 1020, 9, false), 0);
	assert_int_equal(put_run(&pair, 1024, 99, false), 61);
	assert_true(udp_link_flush(pair.a));
	assert_int_equal(counters_of(pair.a).sends, 1);
	receive(pair.b, pair.fd, &ipv4_b, 62);
	for (int i = 0; i < 62; i++)
		assert_kept(i, i, 1024);
	pair_close(&pair);
}

/* Two runs of sums and one without, with others before, between and behind. */
static void put_sums(struct pair *pair)
{
	assert_true(put(pair->a, &pair->av, DEST_QP, 0, 1024));
	assert_int_equal(put_run(pair, 1024, 20, true), 20);
	assert_true(put(pair->a, &pair->av, DEST_QP, 21, 1024));
	assert_int_equal(put_run(pair, 1024, 20, true), 20);
	assert_int_equal(put_run(pair, 1024, 3, false), 3);
	assert_true(put(pair->a, &pair->av, DEST_QP, 0, 100));
}

static void receive_sums(struct pair *pair)
{
	receive(pair->b, pair->fd, &pair->to, 46);
	assert_int_equal(kept_count, 46);
	for (int i = 0; i < 46; i++) {
		uint32_t psn = i < 22 ? i : i < 42 ? i - 21 : i < 45 ? i - 41 : 0;

		assert_kept(i, psn, i == 45 ? 100 : 1024);
	}
	assert_int_equal(counters_of(pair->b).bad_icrc, 0);
	kept_count = 0;
}

static void sums_become_icrcs(const union ibv_gid *from, const union ibv_gid *to)
{
	struct pair pair;

	pair_open(&pair, from, to);
	put_sums(&pair);
	assert_int_equal(pair.a->run_count, 1);
	assert_true(udp_link_flush(pair.a));
	receive_sums(&pair);
	pair_close(&pair);
}

static void test_sums_become_icrcs(void **state)
{
	sums_become_icrcs(&ipv4_a, &ipv4_b);
	sums_become_icrcs(&ipv6, &ipv6);
}

/* What is sealed a second time has no sums any more. */
static void test_sums_serve_once(void **state)
{
	struct pair pair;
	int fd, ends[2];

	pair_open(&pair, &ipv4_a, &ipv4_b);
	assert_true(put(pair.a, &pair.av, DEST_QP, 0, 8));
	assert_true(udp_link_flush(pair.a));
	receive(pair.b, pair.fd, &ipv4_b, 1);
	kept_count = 0;
	/* a socket that is full, and then one that takes no segmented send */
	fd = pair.a->addresses->way.fd;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
	while (send(ends[0], "", 1, 0) == 1)
		;
	pair.a->addresses->way.fd = ends[0];
	put_sums(&pair);
	assert_false(udp_link_flush(pair.a));
	pair.a->addresses->way.fd = fd;
	assert_true(udp_link_flush(pair.a));
	receive_sums(&pair);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &(int){1}, sizeof(int)), 0);
	put_sums(&pair);
	assert_true(udp_link_flush(pair.a));
	assert_true(pair.a->addresses->no_gso);
	receive_sums(&pair);
	close(ends[0]);
	close(ends[1]);
	pair_close(&pair);
}

/* As the packets of a WRITE behind the first: here `fewer` bytes shorter than it. */
static int runs_of_shorter(const union ibv_gid *from, const union ibv_gid *to, bool is_ours,
			   uint32_t fewer, bool is_summed)
{
	struct pair pair;
	uint32_t each = 1024 - fewer, in_run;
	int runs;

	pair_open(&pair, from, to);
	pair.av.carrier_max = is_ours ? 1024 + MTU_CARRIER : 0;
	assert_true(put(pair.a, &pair.av, DEST_QP, 0, 1024));
	in_run = put_run(&pair, each, 4, is_summed);
	for (uint32_t i = in_run + 1; i < 7; i++)
		assert_true(put(pair.a, &pair.av, DEST_QP, i, each));
	runs = (int)pair.a->run_count;
	assert_true(udp_link_flush(pair.a));
	receive(pair.b, pair.fd, to, 7);
	assert_kept(0, 0, 1024);
	for (int i = 1; i < 7; i++)
		assert_kept(i, i, each);
	pair_close(&pair);
	return runs;
}

static void shorter_packets(const union ibv_gid *from, const union ibv_gid *to)
{
	for (uint32_t fewer = 4; fewer <= FILL_MAX; fewer += 4) {
		assert_int_equal(runs_of_shorter(from, to, true, fewer, false), 1);
		assert_int_equal(runs_of_shorter(from, to, true, fewer, true), 1);
		assert_int_equal(runs_of_shorter(from, to, false, fewer, false), 2);
	}
	assert_int_equal(runs_of_shorter(from, to, true, FILL_MAX + 4, false), 2);
}

static void test_packets_to_ours_are_filled_up_to_the_length_of_a_run(void **state)
{
	shorter_packets(&ipv4_a, &ipv4_b);
	shorter_packets(&ipv6, &ipv6);
}

/* A full packet of that operation, and an RC message's. */
static void put_full(struct pair *pair, uint8_t operation, uint32_t psn)
{
	struct wire_packet p = {
	    .bth = {.opcode = TRANSPORT_RC | operation, .dest_qp = DEST_QP, .psn = psn},
	    .payload_length = 1024,
	};
	uint32_t size = opcode_get(p.bth.opcode)->header_bytes + 1024;
	struct outbox *outbox = udp_link_outbox(pair->a);
	uint8_t *bytes = outbox->reserve(outbox, &pair->av, DEST_QP, size);

	assert_non_null(bytes);
	memset(bytes + wire_pack(bytes, &p), (int)psn, 1024);
	outbox->commit(outbox, size);
}

static int runs_of_messages(const uint8_t operations[3], bool is_ours)
{
	struct wire_packet p;
	struct pair pair;
	int runs;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	pair.av.carrier_max = is_ours ? 1024 + MTU_CARRIER : 0;
	for (uint32_t psn = 0; psn < 6; psn++) /* the end of one, a whole one, and a beginning */
		put_full(&pair, operations[(psn + 2) % 3], psn);
	runs = (int)pair.a->run_count;
	assert_true(udp_link_flush(pair.a));
	receive(pair.b, pair.fd, &ipv4_b, 6);
	for (uint32_t psn = 0; psn < 6; psn++) {
		assert_int_equal(wire_parse(&p, kept[psn].bytes, kept[psn].packet.length),
				 PARSE_OK);
		assert_int_equal(opcode_operation(p.bth.opcode), operations[(psn + 2) % 3]);
		assert_int_equal(p.bth.psn, psn);
		assert_int_equal(p.payload_length, 1024);
		assert_int_equal(p.payload[1023], psn);
	}
	pair_close(&pair);
	return runs;
}

static void test_messages_to_ours_are_one_run_wherever_it_begins(void **state)
{
	const uint8_t write[] = {OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_LAST},
		      read[] = {OP_READ_RESPONSE_FIRST, OP_READ_RESPONSE_MIDDLE,
				OP_READ_RESPONSE_LAST},
		      send[] = {OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST};

	assert_int_equal(runs_of_messages(write, true), 1);
	assert_int_equal(runs_of_messages(read, true), 1);
	assert_int_equal(runs_of_messages(send, true), 1);
	assert_int_equal(runs_of_messages(write, false), 4);
	assert_int_equal(runs_of_messages(send, false), 1);
}

/* An ACK, and behind it a message of a whole packet, as memory_load_sum() leaves it. Whether it was
 * to be summed. */
static bool put_reply_summed(struct pair *pair, uint32_t psn, uint32_t payload)
{
	struct outbox *outbox = udp_link_outbox(pair->a);
	const uint32_t size = BTH_BYTES + payload;
	uint32_t stride;
	uint8_t *at;

	put_ack(pair->a, &pair->av);
	if (!outbox->reserve_run(outbox, &pair->av, DEST_QP, ALONE, size, 1, &at, &stride)) {
		assert_true(put(pair->a, &pair->av, DEST_QP, psn, payload));
		return false;
	}
	write_packet(at, DEST_QP, psn, payload);
	put_le32(at + size, icrc_sum(0, at + BTH_BYTES, payload));
	outbox->commit_run(outbox, size, 1, true);
	return true;
}

/* Of the same length as the one before, to whomever, whatever its PSN. */
static void summed_replies(const union ibv_gid *from, const union ibv_gid *to)
{
	const uint32_t payloads[] = {1024, 1024, 1024, 512, 1024, 512, 512, 1024, 1024};
	struct pair pair;

	pair_open(&pair, from, to);
	pair.av.carrier_max = 1024 + MTU_CARRIER;
	for (uint32_t i = 0; i < sizeof(payloads) / sizeof(*payloads); i++) {
		bool is_again = i && payloads[i] == payloads[i - 1];

		kept_count = 0;
		assert_int_equal(put_reply_summed(&pair, 0xfffe * i, payloads[i]), is_again);
		assert_true(udp_link_flush(pair.a));
		receive(pair.b, pair.fd, to, 1);
		assert_int_equal(kept[0].bytes[0], TRANSPORT_RC | OP_ACKNOWLEDGE);
		assert_kept(1, 0xfffe * i, payloads[i]);
	}
	assert_int_equal(counters_of(pair.a).sends, counters_of(pair.a).sent_packets);
	assert_int_equal(counters_of(pair.b).bad_icrc, 0);
	pair_close(&pair);
}

static void test_a_reply_that_is_summed_has_an_ack_before_it(void **state)
{
	summed_replies(&ipv4_a, &ipv4_b);
	summed_replies(&ipv6, &ipv6);
}

/* The same as one packet from the start. */
static void put_joined(struct pair *pair, uint32_t psn, uint32_t payload, bool is_summed)
{
	struct outbox *outbox = udp_link_outbox(pair->a);
	const uint32_t ack = BTH_BYTES + AETH_BYTES, size = ack + BTH_BYTES + payload;
	uint8_t *at = outbox->reserve(outbox, &pair->av, DEST_QP, size);
	struct wire_packet p = {
	    .bth = {.opcode = TRANSPORT_RC | OP_ACKNOWLEDGE, .dest_qp = DEST_QP, .psn = 77},
	};

	assert_true(outbox->joins_acks);
	assert_non_null(at);
	wire_pack(at, &p);
	at[0] = OPCODE_ACK_AND;
	write_packet(at + ack, DEST_QP, psn, payload);
	if (is_summed) {
		put_le32(at + size, icrc_sum(0, at + BTH_BYTES, size - BTH_BYTES));
		outbox->commit_run(outbox, size, 1, true);
	} else {
		outbox->commit(outbox, size);
	}
}

static void joined_replies(const union ibv_gid *from, const union ibv_gid *to)
{
	const uint32_t payloads[] = {1024, 8, 1024, 512, 0, 1024};
	struct pair pair;

	pair_open(&pair, from, to);
	pair.av.carrier_max = 1024 + MTU_CARRIER;
	for (uint32_t i = 0; i < 2 * sizeof(payloads) / sizeof(*payloads); i++) {
		uint32_t payload = payloads[i / 2];

		kept_count = 0;
		put_joined(&pair, 0xfffe * i, payload, i % 2);
		assert_true(udp_link_flush(pair.a));
		receive(pair.b, pair.fd, to, 1);
		assert_int_equal(kept[0].bytes[0], TRANSPORT_RC | OP_ACKNOWLEDGE);
		assert_kept(1, 0xfffe * i, payload);
		assert_int_equal(counters_of(pair.a).sends, i + 1);
	}
	assert_int_equal(counters_of(pair.b).bad_icrc, 0);
	pair_close(&pair);
}

static void test_an_ack_and_its_reply_may_be_one_packet_from_the_start(void **state)
{
	joined_replies(&ipv4_a, &ipv4_b);
	joined_replies(&ipv6, &ipv6);
}

/* That is how nobody of ours sends it: its ACK is for one queue pair, its message for another. */
static void test_one_that_is_for_two_is_not_taken_apart(void **state)
{
	struct outbox *outbox;
	struct pair pair;
	uint8_t *at;
	const uint32_t size = ACK_BYTES + BTH_BYTES + 8;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	outbox = udp_link_outbox(pair.a);
	at = outbox->reserve(outbox, &pair.av, DEST_QP, size);
	assert_non_null(at);
	write_packet(at, DEST_QP, 1, size - BTH_BYTES);
	at[0] = OPCODE_ACK_AND;
	write_packet(at + ACK_BYTES, DEST_QP + 1, 1, 8);
	outbox->commit(outbox, size);
	assert_true(udp_link_flush(pair.a));
	kept_count = 0;
	receive(pair.b, pair.fd, &ipv4_b, 1);
	assert_int_equal(kept_count, 1);
	assert_int_equal(kept[0].bytes[0], OPCODE_ACK_AND);
	assert_int_equal(kept[0].packet.length, size);
	pair_close(&pair);
}

/* One behind another is a packet of its run, whose sum is made anew; a shorter one, filled up. */
static void test_several_of_them_are_a_run(void **state)
{
	const uint32_t payloads[] = {1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1012};
	const uint32_t count = sizeof(payloads) / sizeof(*payloads);
	struct pair pair;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	pair.av.carrier_max = 1024 + MTU_CARRIER;
	kept_count = 0;
	for (uint32_t k = 0; k < count; k++)
		put_joined(&pair, k, payloads[k], true);
	assert_true(udp_link_flush(pair.a));
	assert_int_equal(counters_of(pair.a).sends, 1);
	receive(pair.b, pair.fd, &ipv4_b, count);
	for (uint32_t k = 0; k < count; k++)
		assert_kept(2 * k + 1, k, payloads[k]);
	assert_int_equal(counters_of(pair.b).bad_icrc, 0);
	pair_close(&pair);
}

/* More of a message leaves in the same send, and is sealed as ever. */
static void test_a_reply_that_is_summed_begins_a_batch(void **state)
{
	struct pair pair;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	pair.av.carrier_max = 1024 + MTU_CARRIER;
	for (int i = 0; i < 4; i++) {
		kept_count = 0;
		assert_int_equal(put_reply_summed(&pair, 0, 1024), i > 0);
		for (int k = 1; k < 3; k++)
			assert_true(put(pair.a, &pair.av, DEST_QP, k, 1024));
		assert_true(udp_link_flush(pair.a));
		assert_int_equal(counters_of(pair.a).sends, i + 1);
		receive(pair.b, pair.fd, &ipv4_b, 3);
		for (int k = 0; k < 3; k++)
			assert_kept(k + 1, k, 1024);
	}
	pair_close(&pair);
}

/* What was written where its ICRC will be is none of its own. */
static void test_an_ack_whose_reply_is_not_sent_is_whole(void **state)
{
	struct pair pair;
	struct outbox *outbox;
	uint8_t *at;

	kept_count = 0;
	pair_open(&pair, &ipv4_a, &ipv4_b);
	pair.av.carrier_max = 1024 + MTU_CARRIER;
	outbox = udp_link_outbox(pair.a);
	put_ack(pair.a, &pair.av);
	at = outbox->reserve(outbox, &pair.av, DEST_QP, BTH_BYTES + 1024);
	assert_non_null(at);
	memset(at, 0xa5, BTH_BYTES + 1024);
	assert_true(udp_link_flush(pair.a));
	receive(pair.b, pair.fd, &ipv4_b, 1);
	assert_int_equal(kept[0].bytes[0], TRANSPORT_RC | OP_ACKNOWLEDGE);
	assert_int_equal(kept[0].packet.length, BTH_BYTES + AETH_BYTES);
	assert_int_equal(counters_of(pair.b).bad_icrc, 0);
	pair_close(&pair);
}

/* How many came together each time, and each by itself in `kept`. */
static uint32_t trains[KEPT_MAX];
static int train_count;

static void keep_trains(const struct packet *packet, void *data)
{
	struct packet rest = *packet, single;

	trains[train_count++] = 1 + packet->more;
	do {
		single = packet_single(&rest);
		keep(&single, data);
	} while (packet_pass(&rest, 1));
}

static void put_as(struct pair *pair, uint8_t operation, uint32_t psn, bool asks)
{
	struct outbox *outbox = udp_link_outbox(pair->a);
	uint8_t *bytes = outbox->reserve(outbox, &pair->av, DEST_QP, BTH_BYTES + 1024);

	assert_non_null(bytes);
	write_packet(bytes, DEST_QP, psn, 1024);
	bytes[0] = TRANSPORT_RC | operation;
	bytes[8] |= asks << 7;
	outbox->commit(outbox, BTH_BYTES + 1024);
}

/* All of it is one batch. */
static void expect_trains(struct pair *pair, const uint32_t *expected, int count)
{
	int delivered = 0;

	kept_count = train_count = 0;
	assert_true(udp_link_flush(pair->a));
	while (!train_count) {
		pair->b->receiver.batch = 1;
		assert_true(udp_receive(pair->b, pair->fd, &pair->to, keep_trains, &delivered) >=
			    0);
	}
	assert_int_equal(train_count, count);
	for (int i = 0; i < count; i++)
		assert_int_equal(trains[i], expected[i]);
}

static void test_the_middle_of_a_message_is_delivered_together(void **state)
{
	static const uint8_t middles[] = {OP_SEND_MIDDLE, OP_WRITE_MIDDLE, OP_READ_RESPONSE_MIDDLE};
	struct pair pair;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	for (size_t i = 0; i < sizeof(middles); i++) {
		for (uint32_t psn = 0; psn < 24; psn++)
			put_as(&pair,
			       !psn	  ? OP_SEND_FIRST
			       : psn < 22 ? middles[i]
					  : OP_SEND_LAST,
			       psn, false);
		expect_trains(&pair, (const uint32_t[]){1, 16, 5, 1, 1}, 5);
		for (int psn = 0; psn < 24; psn++)
			assert_kept(psn, psn, 1024);
	}
	pair_close(&pair);
}

static void test_what_differs_is_delivered_apart(void **state)
{
	static const uint32_t psns[] = {0xfffffe, 0xffffff, 0, 1, 3, 4, 4, 5, 6, 7, 8};
	struct pair pair;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	for (size_t i = 0; i < sizeof(psns) / sizeof(psns[0]); i++)
		put_as(&pair, i < 9 ? OP_SEND_MIDDLE : OP_WRITE_MIDDLE, psns[i], i == 7);
	expect_trains(&pair, (const uint32_t[]){4, 2, 1, 1, 1, 2}, 6);
	for (size_t i = 0; i < sizeof(psns) / sizeof(psns[0]); i++)
		assert_kept((int)i, psns[i], 1024);
	pair_close(&pair);
}

/* Each of those asks for an ACK, but for one. */
static void test_short_messages_are_delivered_together(void **state)
{
	struct pair pair;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	for (uint32_t psn = 0; psn < 20; psn++)
		put_as(&pair, psn < 15 ? OP_SEND_ONLY : OP_SEND_LAST, psn, psn != 9);
	expect_trains(&pair, (const uint32_t[]){9, 1, 5, 1, 1, 1, 1, 1}, 8);
	for (int psn = 0; psn < 20; psn++)
		assert_kept(psn, psn, 1024);
	pair_close(&pair);
}

/* The sum of one is wrong, and so is its ICRC. */
static void test_one_that_is_not_sound_is_missing(void **state)
{
	struct pair pair;
	struct outbox *outbox;
	uint32_t stride;
	uint8_t *at;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	outbox = udp_link_outbox(pair.a);
	put_as(&pair, OP_SEND_MIDDLE, 0, false);
	assert_int_equal(outbox->reserve_run(outbox, &pair.av, DEST_QP,
					     TRANSPORT_RC | OP_SEND_MIDDLE, BTH_BYTES + 1024, 9,
					     &at, &stride),
			 9);
	for (uint32_t psn = 1; psn < 10; psn++, at += stride) {
		write_packet(at, DEST_QP, psn, 1024);
		at[0] = TRANSPORT_RC | OP_SEND_MIDDLE;
		put_le32(at + BTH_BYTES + 1024,
			 icrc_sum(0, at + BTH_BYTES, 1024) ^ (psn == 4 ? 1 << 7 : 0));
	}
	outbox->commit_run(outbox, BTH_BYTES + 1024, 9, true);
	expect_trains(&pair, (const uint32_t[]){4, 5}, 2);
	for (int i = 0; i < 9; i++)
		assert_kept(i, i < 4 ? i : i + 1, 1024);
	assert_int_equal(counters_of(pair.b).bad_icrc, 1);
	pair_close(&pair);
}

/* Those of a WRITE are filled up to the length of its first. */
static void test_filled_ones_are_delivered_together_too(void **state)
{
	struct pair pair;
	struct outbox *outbox;
	uint32_t stride;
	uint8_t *at;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	pair.av.carrier_max = 1024 + MTU_CARRIER;
	outbox = udp_link_outbox(pair.a);
	put_as(&pair, OP_SEND_FIRST, 0, false);
	assert_int_equal(outbox->reserve_run(outbox, &pair.av, DEST_QP,
					     TRANSPORT_RC | OP_WRITE_MIDDLE, BTH_BYTES + 1008, 9,
					     &at, &stride),
			 9);
	for (uint32_t psn = 1; psn < 10; psn++, at += stride) {
		write_packet(at, DEST_QP, psn, 1008);
		at[0] = TRANSPORT_RC | OP_WRITE_MIDDLE;
	}
	outbox->commit_run(outbox, BTH_BYTES + 1008, 9, false);
	expect_trains(&pair, (const uint32_t[]){1, 9}, 2);
	for (int i = 1; i < 10; i++) {
		assert_kept(i, i, 1008);
		assert_int_equal(kept[i].bytes[0], TRANSPORT_RC | OP_WRITE_MIDDLE);
	}
	pair_close(&pair);
}

/* As much of a message behind its first packet as has room, each as long as the other. */
static void put_rest(struct pair *pair, const uint8_t *operations, uint32_t count, bool is_summed)
{
	struct outbox *outbox = udp_link_outbox(pair->a);
	const uint32_t size = BTH_BYTES + 1024;
	uint32_t stride = 0;
	uint8_t *at;

	assert_int_equal(outbox->reserve_run(outbox, &pair->av, DEST_QP,
					     TRANSPORT_RC | operations[0], size, count, &at,
					     &stride),
			 count);
	for (uint32_t i = 0; i < count; i++, at += stride) {
		write_packet(at, DEST_QP, i + 1, 1024);
		at[0] = TRANSPORT_RC | operations[i];
		if (is_summed)
			put_le32(at + size, icrc_sum(0, at + BTH_BYTES, 1024));
	}
	outbox->commit_run(outbox, size, count, is_summed);
}

/* What each is filled up with tells which it is. */
static void test_the_end_of_a_message_in_a_run_is_filled_up_as_such(void **state)
{
	const uint8_t operations[] = {OP_WRITE_MIDDLE, OP_WRITE_MIDDLE, OP_WRITE_LAST};
	struct pair pair;

	for (int is_summed = 0; is_summed < 2; is_summed++) {
		pair_open(&pair, &ipv4_a, &ipv4_b);
		pair.av.carrier_max = 1024 + MTU_CARRIER;
		put_full(&pair, OP_WRITE_FIRST, 0);
		put_rest(&pair, operations, 3, is_summed);
		assert_int_equal(pair.a->run_count, 1);
		expect_trains(&pair, (const uint32_t[]){1, 2, 1}, 3);
		assert_int_equal(counters_of(pair.b).bad_icrc, 0);
		for (int i = 0; i < 3; i++) {
			assert_kept(i + 1, i + 1, 1024);
			assert_int_equal(kept[i + 1].bytes[0], TRANSPORT_RC | operations[i]);
		}
		pair_close(&pair);
	}
}

/* Behind what fills the run before: the rest of a WRITE, and what follows it. */
static void test_a_run_that_begins_within_a_message_takes_the_next(void **state)
{
	const uint8_t operations[] = {OP_WRITE_MIDDLE, OP_WRITE_MIDDLE, OP_WRITE_LAST};
	struct pair pair;

	pair_open(&pair, &ipv4_a, &ipv4_b);
	pair.av.carrier_max = 1024 + MTU_CARRIER;
	put_rest(&pair, operations, 3, true);
	put_full(&pair, OP_WRITE_FIRST, 4);
	assert_int_equal(pair.a->run_count, 1);
	expect_trains(&pair, (const uint32_t[]){2, 1, 1}, 3);
	assert_int_equal(counters_of(pair.b).bad_icrc, 0);
	for (int i = 0; i < 3; i++)
		assert_kept(i, i + 1, 1024);
	assert_int_equal(kept[3].bytes[0], TRANSPORT_RC | OP_WRITE_FIRST);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_an_ack_and_the_reply_are_one_packet_to_ours),
	    cmocka_unit_test(test_a_reply_that_is_summed_has_an_ack_before_it),
	    cmocka_unit_test(test_an_ack_and_its_reply_may_be_one_packet_from_the_start),
	    cmocka_unit_test(test_one_that_is_for_two_is_not_taken_apart),
	    cmocka_unit_test(test_several_of_them_are_a_run),
	    cmocka_unit_test(test_a_reply_that_is_summed_begins_a_batch),
	    cmocka_unit_test(test_an_ack_whose_reply_is_not_sent_is_whole),
	    cmocka_unit_test(test_a_reply_with_an_ack_begins_a_batch),
	    cmocka_unit_test(test_an_ack_behind_whole_packets_leaves_in_the_same_send),
	    cmocka_unit_test(test_a_run_goes_on_with_the_packet_before_it),
	    cmocka_unit_test(test_sums_become_icrcs),
	    cmocka_unit_test(test_sums_serve_once),
	    cmocka_unit_test(test_packets_to_ours_are_filled_up_to_the_length_of_a_run),
	    cmocka_unit_test(test_messages_to_ours_are_one_run_wherever_it_begins),
	    cmocka_unit_test(test_the_middle_of_a_message_is_delivered_together),
	    cmocka_unit_test(test_short_messages_are_delivered_together),
	    cmocka_unit_test(test_what_differs_is_delivered_apart),
	    cmocka_unit_test(test_one_that_is_not_sound_is_missing),
	    cmocka_unit_test(test_filled_ones_are_delivered_together_too),
	    cmocka_unit_test(test_the_end_of_a_message_in_a_run_is_filled_up_as_such),
	    cmocka_unit_test(test_a_run_that_begins_within_a_message_takes_the_next),
	};

	if (!pair_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
