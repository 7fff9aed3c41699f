/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs of UC and UD on their way in: what is taken at once leaves all as the general path would,
 * and what is not leaves all as it was.
 */
#include "transport/unreliable.h"
#include "transport_pair.h"

enum { QKEY = 0x11111111, BYTES = 61, GRH_AREA = 40, ROOM = 2048, AT = 8192, AT_GENERAL = 65536 };

static struct pair_options options;
static struct pair *pair;
static struct ah *ah;

static void begin(enum ibv_qp_type type, bool has_srq)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 33}};

	options = default_options;
	options.type = type;
	options.has_srq = has_srq;
	options.has_express = true;
	pair = pair_connected(&options);
	attr.grh.dgid = pair->b.gid;
	assert_int_equal(ah_create(pair->a.pd, &attr, &ah), 0);
	pair->b.qp->has_communicated = type == IBV_QPT_UC;
}

static int end(void **state)
{
	ah_destroy(ah);
	pair_free(pair);
	return 0;
}

static int set_up_ud(void **state)
{
	begin(IBV_QPT_UD, false);
	return 0;
}

static int set_up_uc(void **state)
{
	begin(IBV_QPT_UC, false);
	return 0;
}

static int set_up_ud_srq(void **state)
{
	begin(IBV_QPT_UD, true);
	return 0;
}

static int set_up_uc_srq(void **state)
{
	begin(IBV_QPT_UC, true);
	return 0;
}

static bool is_datagram(void)
{
	return options.type == IBV_QPT_UD;
}

static size_t area(void)
{
	return is_datagram() ? GRH_AREA : 0;
}

/* What leaves is on its way then. */
static struct flying *send(uint32_t length, enum ibv_wr_opcode opcode, unsigned int flags)
{
	struct ibv_sge sge = side_sge(&pair->a, 0, length);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = flags,
				 .imm_data = htobe32(0x12345678)};

	fill(pair->a.memory, length, length + 1);
	if (is_datagram()) {
		wr.wr.ud.ah = &ah->ibv;
		wr.wr.ud.remote_qpn = pair->b.qp->number;
		wr.wr.ud.remote_qkey = QKEY;
	}
	side_post(&pair->a, &wr);
	side_turn(&pair->a);
	side_expect(&pair->a, 0, IBV_WC_SUCCESS);
	assert_int_equal(pair->count, 1);
	return &pair->packets[pair->first];
}

static struct flying *send_plain(void)
{
	return send(BYTES, IBV_WR_SEND, 0);
}

static void receive_at(uint64_t wr_id, size_t offset, uint32_t length)
{
	side_post_recv(&pair->b, wr_id, offset, length);
	pair->b.is_scheduled = false;
}

static void receive(uint64_t wr_id)
{
	receive_at(wr_id, AT, ROOM);
}

static struct packet packet_of(const struct flying *flying, const uint8_t *bytes)
{
	return (struct packet){.bth = bytes,
			       .length = flying->size,
			       .sgid = flying->av.sgid,
			       .dgid = flying->av.dgid,
			       .hop_limit = 33};
}

static bool take_from(const struct flying *flying, const union ibv_gid *sgid,
		      struct cq_taking *taking)
{
	uint8_t *exact = malloc(flying->size); /* so that a sanitizer sees a read behind it */
	struct packet packet = packet_of(flying, exact);
	struct qp *qp;

	memcpy(exact, flying->bytes, flying->size);
	packet.sgid = *sgid;
	qp = unreliable_take(&pair->b.adapter, &packet, taking, pair->now, &pair->b.outbox);
	assert_true(!qp || qp == pair->b.qp);
	free(exact);
	return qp;
}

static bool take(const struct flying *flying, struct cq_taking *taking)
{
	return take_from(flying, &flying->av.sgid, taking);
}

static void drop(void)
{
	assert_true(pair->count > 0);
	pair->first = (pair->first + 1) % PAIR_PACKETS;
	pair->count--;
}

/* And the answer, if it asked: the sender has it. */
static void drop_all(void)
{
	while (pair->count)
		drop();
	pace_start(pair->a.qp);
}

/* The one that asks for an answer, which neither service gives, is not plain. */
static void by_the_general_path(struct flying *flying)
{
	struct packet packet;

	flying->bytes[8] |= 0x80;
	packet = packet_of(flying, flying->bytes);
	transport_receive(&pair->b.adapter, &packet, pair->now, &pair->b.outbox);
}

/* ---- what is taken ---- */

static void expect_alike(uint32_t length, enum ibv_wr_opcode opcode)
{
	const struct transport_counters *counters = transport_counters(pair->b.qp);
	struct transport_counters before = *counters, taken;
	struct flying *flying;
	struct ibv_wc quick, general;

	receive(7);
	receive_at(7, AT_GENERAL, ROOM);
	flying = send(length, opcode, IBV_SEND_SOLICITED);
	assert_true(take(flying, NULL));
	assert_false(pair->b.is_scheduled);
	taken = *counters;
	quick = side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	by_the_general_path(flying);
	general = side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	assert_memory_equal(&quick, &general, sizeof(quick));
	assert_int_equal(quick.byte_len, area() + length);
	assert_memory_equal(pair->b.memory + AT, pair->b.memory + AT_GENERAL, area() + ROOM / 2);
	assert_memory_equal(pair->b.memory + AT + area(), pair->a.memory, length);
	assert_int_equal(taken.received_packets - before.received_packets,
			 counters->received_packets - taken.received_packets);
	assert_int_equal(taken.received_bytes - before.received_bytes,
			 counters->received_bytes - taken.received_bytes);
	assert_int_equal(counters->dropped, before.dropped);
	drop_all();
}

static void all_is_as_by_the_general_path(void **state)
{
	static const uint32_t lengths[] = {1, 2, 3, 4, 8, 61, 256, 1023, 1024};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		expect_alike(lengths[i], IBV_WR_SEND);
		expect_alike(lengths[i], IBV_WR_SEND_WITH_IMM);
	}
}

/* What it leaves to who comes next as well: of UC the PSN. */
static void both_ways_by_turns(void **state)
{
	for (uint64_t i = 0; i < 20; i++) {
		receive(i);
		if (i % 3)
			assert_true(take(send_plain(), NULL));
		else
			by_the_general_path(send_plain());
		side_expect(&pair->b, i, IBV_WC_SUCCESS);
		drop_all();
	}
	assert_int_equal(transport_counters(pair->b.qp)->received_packets, 20);
	if (!is_datagram())
		assert_int_equal(pair->b.qp->responder->psn, pair->a.qp->requester->psn);
}

static void it_goes_to_who_polls(void **state)
{
	struct cq_taking taking;
	struct ibv_wc wc[2];

	for (uint64_t i = 1; i <= 3; i++)
		receive(i);
	cq_take_begin(&taking, pair->b.cq, 2, wc);
	for (int i = 0; i < 3; i++) { /* the third finds no room there */
		assert_true(take(send_plain(), &taking));
		drop_all();
	}
	assert_int_equal(cq_take_end(&taking), 2);
	assert_int_equal(wc[0].wr_id, 1);
	assert_int_equal(wc[1].wr_id, 2);
	assert_int_equal(wc[1].byte_len, area() + BYTES);
	side_expect(&pair->b, 3, IBV_WC_SUCCESS);
}

static int cq_events;

static void count_event(struct cq *cq)
{
	cq_events++;
}

static void solicited_is_told(void **state)
{
	struct adapter_host host = pair_host;

	host.cq_event = count_event;
	pair->b.adapter.host = &host;
	cq_events = 0;
	receive(1);
	receive(2);
	cq_arm(pair->b.cq, true);
	assert_true(take(send_plain(), NULL));
	assert_int_equal(cq_events, 0);
	drop();
	assert_true(take(send(BYTES, IBV_WR_SEND, IBV_SEND_SOLICITED), NULL));
	assert_int_equal(cq_events, 1);
	pair->b.adapter.host = &pair_host;
}

/* ---- the pace ---- */

/* So many that the last one asks. */
static struct flying *send_until_asked(void)
{
	for (int i = 0; i < 100; i++) {
		struct flying *flying = send_plain();

		if (flying->bytes[4] == 0x80)
			return flying;
		drop();
	}
	fail_msg("none asks");
	return NULL;
}

static void a_question_is_answered_at_once(void **state)
{
	struct flying *flying;
	struct wire_packet answer;

	receive(1);
	flying = send_until_asked();
	assert_true(take(flying, NULL));
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
	assert_int_equal(pair->count, 2);
	flying = &pair->packets[pair->first + 1];
	assert_int_equal(wire_parse(&answer, flying->bytes, flying->size), PARSE_OK);
	assert_int_equal(answer.bth.opcode, OPCODE_CNP);
	assert_true(answer.bth.becn);
	assert_int_equal(answer.bth.dest_qp, pair->a.qp->number);
	assert_int_equal(answer.bth.psn, bth_psn(pair->packets[pair->first].bytes));
	assert_memory_equal(&flying->av.dgid, &pair->a.gid, sizeof(pair->a.gid));
}

/* On its way: the answer to all that has left so far. */
static struct flying *answer_all(void)
{
	struct flying *flying;

	receive(1);
	flying = send_until_asked();
	assert_true(take(flying, NULL));
	drop();
	return &pair->packets[pair->first];
}

static bool take_answer(const struct flying *flying)
{
	struct packet packet = packet_of(flying, flying->bytes);

	return unreliable_take(&pair->a.adapter, &packet, NULL, pair->now, NULL);
}

static void an_answer_is_taken_too(void **state)
{
	const struct pace *pace = &pair->a.qp->requester->pace;
	struct flying *flying = answer_all();
	size_t size = flying->size;
	union ibv_gid sgid = flying->av.sgid;

	pair->a.is_scheduled = false;
	for (flying->size = BTH_BYTES - 4; flying->size < size; flying->size += 4)
		assert_false(take_answer(flying));
	flying->bytes[4] ^= 0x80;
	assert_false(take_answer(flying));
	flying->bytes[4] ^= 0x80;
	flying->bytes[2] ^= 0x10;
	assert_false(take_answer(flying));
	flying->bytes[2] ^= 0x10;
	if (!is_datagram()) {
		flying->av.sgid.raw[15]++;
		assert_false(take_answer(flying));
		flying->av.sgid = sgid;
	}
	assert_int_not_equal(pace->confirmed, pair->a.qp->requester->psn);
	assert_true(take_answer(flying));
	assert_int_equal(pace->confirmed, pair->a.qp->requester->psn);
	assert_true(pace->has_answered);
	assert_int_equal(transport_counters(pair->a.qp)->received_packets, 1);
	assert_false(pair->a.is_scheduled);
}

static void and_has_what_waits_go_on(void **state)
{
	struct ibv_sge sge = side_sge(&pair->a, 0, BYTES);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct flying *flying = answer_all();

	if (is_datagram()) {
		wr.wr.ud.ah = &ah->ibv;
		wr.wr.ud.remote_qpn = pair->b.qp->number;
	}
	pair->a.is_scheduled = false;
	assert_int_equal(qp_post_send(pair->a.qp, &wr, &bad), 0);
	assert_true(take_answer(flying));
	assert_true(pair->a.is_scheduled);
}

/* ---- what is not ---- */

/* And afterwards everything is as it was: the next one finds its receive. */
static void expect_left(const struct flying *flying)
{
	struct transport_counters before = *transport_counters(pair->b.qp);

	assert_false(take(flying, NULL));
	side_expect_none(&pair->b);
	assert_memory_equal(&before, transport_counters(pair->b.qp), sizeof(before));
}

static void expect_byte_left(struct flying *flying, size_t at, uint8_t value)
{
	uint8_t before = flying->bytes[at];

	flying->bytes[at] = value;
	expect_left(flying);
	flying->bytes[at] = before;
}

static void what_is_not_plain_is_left(void **state)
{
	struct flying *flying;

	receive(1);
	flying = send_plain();
	expect_byte_left(flying, 0, 0x04);		      /* of RC */
	expect_byte_left(flying, 0, flying->bytes[0] - 4);    /* a first one */
	expect_byte_left(flying, 0, flying->bytes[0] ^ 0x40); /* of the other service */
	expect_byte_left(flying, 1, flying->bytes[1] | 1);    /* another version */
	expect_byte_left(flying, 4, 0x40);		      /* a sign that is none of its own */
	expect_byte_left(flying, 2, 0x12);		      /* another partition */
	expect_byte_left(flying, 7, flying->bytes[7] ^ 1);    /* for another QP */
	if (is_datagram())
		expect_byte_left(flying, 12, 0x12); /* another Q_Key */
	assert_true(take(flying, NULL));
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
}

static void nor_what_is_cut_short(void **state)
{
	struct flying *flying;
	size_t size;

	receive(1);
	flying = send(1, IBV_WR_SEND_WITH_IMM, 0); /* with a pad of three */
	size = flying->size;
	for (flying->size = BTH_BYTES; flying->size < size; flying->size++)
		expect_left(flying);
	assert_true(take(flying, NULL));
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
}

static void nor_for_a_qp_that_is_not_free(void **state)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_ERR};
	struct qp *qp = pair->b.qp;
	struct flying *flying;

	receive(1);
	flying = send_plain();
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		atomic_store(&qp->state, states[i]);
		expect_left(flying);
	}
	atomic_store(&qp->state, IBV_QPS_RTR);
	qp->counted = IBV_QP_ATTACH_COMP_CNTR_OP_RECV;
	expect_left(flying);
	qp->counted = 0;
	qp->responder->has_recv = true;
	expect_left(flying);
	qp->responder->has_recv = false;
	qp->lane = 1;
	expect_left(flying);
	qp->lane = 0;
	assert_true(take(flying, NULL));
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
}

static bool has_none(const struct outbox *outbox, const struct av *av, uint32_t dest_qp)
{
	(void)outbox, (void)av;
	assert_int_equal(dest_qp, pair->a.qp->number);
	return false;
}

/* The answer would need more than a place in a ring. */
static void nor_a_question_of_another_host(void **state)
{
	struct flying *flying;

	receive(1);
	flying = send_plain();
	pair->b.outbox.has_records = has_none;
	expect_byte_left(flying, 4, 0x80);
	pair->b.outbox.has_records = NULL;
	expect_byte_left(flying, 4, 0x80);
	assert_true(take(flying, NULL));
}

/* Whether that is an error, or a loss, the general path says. */
static void nor_where_there_is_no_room_for_it(void **state)
{
	struct flying *flying = send_plain();

	expect_left(flying);
	if (!options.has_srq) { /* of which it is the responder's then */
		receive_at(1, AT, (uint32_t)area() + BYTES - 1);
		expect_left(flying);
		by_the_general_path(flying);
		side_expect(&pair->b, 1, IBV_WC_LOC_LEN_ERR);
	}
}

static void nor_where_its_completion_has_no_room(void **state)
{
	uint32_t room = pair->b.cq->ibv.cqe;
	struct flying *flying = send_plain();

	for (uint32_t i = 0; i < room; i++) {
		receive(i);
		assert_true(take(flying, NULL));
	}
	receive(room);
	assert_false(take(flying, NULL));
	side_expect(&pair->b, 0, IBV_WC_SUCCESS);
	assert_true(take(flying, NULL));
}

/* A datagram may come from anybody, but not to a group: that is for others as well. */
static void who_it_is_from_counts_where_there_is_a_connection(void **state)
{
	union ibv_gid other = pair->a.gid;
	struct flying *flying;

	receive(1);
	receive(2);
	flying = send_plain();
	other.raw[15]++;
	assert_int_equal(take_from(flying, &other, NULL), is_datagram());
	flying->av.dgid.raw[12] = 224;
	assert_false(take(flying, NULL));
}

static void the_first_of_a_connection_is_left(void **state)
{
	struct flying *flying;

	receive(1);
	pair->b.qp->has_communicated = false;
	flying = send_plain();
	assert_int_equal(take(flying, NULL), is_datagram());
}

static void one_amid_another_message_is_left(void **state)
{
	struct flying *flying;

	receive(1);
	receive(2);
	flying = send_plain();
	pair->b.qp->responder->message = MESSAGE_SEND;
	assert_int_equal(take(flying, NULL), is_datagram());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name)                                                                                 \
	cmocka_unit_test_setup_teardown(name, set_up_ud, end),                                     \
	    cmocka_unit_test_setup_teardown(name, set_up_uc, end),                                 \
	    cmocka_unit_test_setup_teardown(name, set_up_ud_srq, end),                             \
	    cmocka_unit_test_setup_teardown(name, set_up_uc_srq, end)
	    TEST(all_is_as_by_the_general_path),
	    TEST(both_ways_by_turns),
	    TEST(it_goes_to_who_polls),
	    TEST(solicited_is_told),
	    TEST(a_question_is_answered_at_once),
	    TEST(an_answer_is_taken_too),
	    TEST(and_has_what_waits_go_on),
	    TEST(what_is_not_plain_is_left),
	    TEST(nor_what_is_cut_short),
	    TEST(nor_for_a_qp_that_is_not_free),
	    TEST(nor_a_question_of_another_host),
	    TEST(nor_where_there_is_no_room_for_it),
	    TEST(nor_where_its_completion_has_no_room),
	    TEST(who_it_is_from_counts_where_there_is_a_connection),
	    TEST(the_first_of_a_connection_is_left),
	    TEST(one_amid_another_message_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
