/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plain SENDs: what leaves as it is posted, what is taken without being taken apart, and each
 * reason not to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "transport/plain.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport_pair.h"
#include "wire/icrc.h"
#include "wire/mtu.h"

enum { OFFSET = 4096, BYTES = 64, MTU = 1024 };

static int set_up(void **state)
{
	struct pair *pair = pair_connected(&default_options);

	/* they have met before, and know each other */
	pair->a.qp->has_communicated = pair->b.qp->has_communicated = true;
	pair->a.qp->requester->signs_left = pair->b.qp->requester->signs_left = 0;
	pair->a.is_scheduled = pair->b.is_scheduled = false;
	*state = pair;
	return 0;
}

static int tear_down(void **state)
{
	pair_free(*state);
	return 0;
}

static void receive(struct side *side, uint64_t wr_id)
{
	side_post_recv(side, wr_id, OFFSET + wr_id * 2048, 2048);
	side->is_scheduled = false;
}

/* False: it is left for the general path. */
static bool post(struct side *side, struct ibv_send_wr *wr)
{
	bool is_sent = plain_post(side->qp, wr, &side->outbox);

	if (is_sent)
		plain_sent(side->qp, wr, side->pair->now);
	return is_sent;
}

static bool post_send(struct side *side, uint64_t wr_id, uint32_t length)
{
	struct ibv_sge sge = side_sge(side, wr_id * 64, length);
	struct ibv_send_wr wr = {
	    .wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	fill(side->memory + wr_id * 64, length, (unsigned int)wr_id);
	return post(side, &wr);
}

static void expect_message(struct side *to, uint64_t recv_id, const struct side *from,
			   uint64_t send_id, uint32_t length)
{
	struct ibv_wc wc = side_expect(to, recv_id, IBV_WC_SUCCESS);

	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, length);
	assert_int_equal(wc.src_qp, from->qp->number);
	assert_memory_equal(to->memory + OFFSET + recv_id * 2048, from->memory + send_id * 64,
			    length);
}

static void expect_coherent(const struct side *from, const struct side *to)
{
	expect_settled(from, to);
	assert_int_equal(from->qp->requester->probe.deadline, NO_DEADLINE);
}

/* ---- what leaves at once ---- */

static void a_send_needs_no_turn(void **state)
{
	struct pair *pair = *state;

	receive(&pair->b, 1);
	assert_true(post_send(&pair->a, 2, 61));
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\n");
	assert_false(pair->a.is_scheduled);
	assert_int_not_equal(pair->a.qp->requester->ack_deadline, NO_DEADLINE);
	pair_run(pair);
	pair_expect_trace(pair, "B ACK 0\n");
	expect_message(&pair->b, 1, &pair->a, 2, 61);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	expect_coherent(&pair->a, &pair->b);
	assert_int_equal(pair->b.qp->responder->msn, 1);
	assert_int_equal(transport_counters(pair->a.qp)->sent_packets, 1);
	assert_int_equal(transport_counters(pair->a.qp)->acks_received, 1);
	assert_int_equal(transport_counters(pair->b.qp)->received_bytes, BTH_BYTES + 64);
}

static void the_ack_goes_before_the_reply(void **state)
{
	struct pair *pair = *state;

	receive(&pair->b, 1);
	receive(&pair->a, 2);
	assert_true(post_send(&pair->a, 3, BYTES));
	pair_deliver(pair);
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\n");
	assert_true(post_send(&pair->b, 4, BYTES));
	pair_expect_trace(pair, "B ACK 0\nB SEND_ONLY 0 ack\n");
	assert_false(transport_owes(pair->b.qp));
	pair_deliver(pair);
	side_expect(&pair->a, 3, IBV_WC_SUCCESS);
	expect_message(&pair->a, 2, &pair->b, 4, BYTES);
	expect_coherent(&pair->a, &pair->b);
	assert_int_equal(transport_counters(pair->b.qp)->acks_sent, 1);
}

/* ---- an ACK and the reply in one packet ---- */

static int joined;

static void commit_joined(struct outbox *outbox, size_t size)
{
	const size_t ack = BTH_BYTES + AETH_BYTES;
	struct side *side = (struct side *)outbox;
	uint8_t *scratch = side->pair->scratch;

	if (scratch[0] == OPCODE_ACK_AND) {
		joined++;
		scratch[0] = TRANSPORT_RC | OP_ACKNOWLEDGE;
		pair_commit(outbox, ack);
		memmove(scratch, scratch + ack, size - ack);
		side->is_open = true;
		size -= ack;
	}
	pair_commit(outbox, size);
}

static void commit_summed(struct outbox *outbox, size_t size, uint32_t count, bool is_summed)
{
	const uint8_t *scratch = ((struct side *)outbox)->pair->scratch;

	assert_int_equal(count, 1);
	assert_true(is_summed);
	assert_int_equal(get_le32(scratch + size),
			 icrc_sum(0, scratch + BTH_BYTES, size - BTH_BYTES));
	commit_joined(outbox, size);
}

static uint32_t reserve_none(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
			     uint8_t opcode, size_t size, uint32_t count, uint8_t **bytes,
			     uint32_t *stride)
{
	(void)outbox, (void)av, (void)dest_qp, (void)opcode, (void)size, (void)count, (void)bytes,
	    (void)stride;
	return 0;
}

/* Of B, which has a message to answer. */
static void prepare_reply(struct pair *pair, bool with_sums)
{
	struct outbox *outbox = &pair->b.outbox;

	outbox->joins_acks = true;
	outbox->takes_sums = with_sums;
	outbox->commit = commit_joined;
	outbox->commit_run = commit_summed;
	outbox->reserve_run = reserve_none;
	pair->b.qp->av.carrier_max = MTU + MTU_CARRIER;
	joined = 0;
	receive(&pair->b, 1);
	receive(&pair->a, 2);
	assert_true(post_send(&pair->a, 3, BYTES));
	pair_deliver(pair);
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\n");
}

static void reply(uint32_t length, bool with_sums)
{
	struct pair *pair;
	uint64_t bytes;

	assert_int_equal(set_up((void **)&pair), 0);
	prepare_reply(pair, with_sums);
	bytes = transport_counters(pair->b.qp)->sent_bytes;
	assert_true(post_send(&pair->b, 4, length));
	pair_expect_trace(pair, "B ACK 0\nB SEND_ONLY 0 ack\n");
	assert_int_equal(joined, 1);
	assert_false(transport_owes(pair->b.qp));
	pair_deliver(pair);
	side_expect(&pair->a, 3, IBV_WC_SUCCESS);
	expect_message(&pair->a, 2, &pair->b, 4, length);
	expect_coherent(&pair->a, &pair->b);
	assert_int_equal(transport_counters(pair->b.qp)->acks_sent, 1);
	assert_int_equal(transport_counters(pair->b.qp)->sent_packets, 2);
	assert_int_equal(transport_counters(pair->b.qp)->sent_bytes - bytes,
			 2 * BTH_BYTES + AETH_BYTES + (length + 3) / 4 * 4);
	pair_free(pair);
}

static void the_ack_and_the_reply_may_be_one_packet(void **state)
{
	static const uint32_t lengths[] = {0, 1, 5, BYTES, MTU - 1, MTU};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		reply(lengths[i], false);
		reply(lengths[i], true);
	}
	(void)state;
}

static void to_who_does_not_take_that_they_are_two(void **state)
{
	static const uint16_t most[] = {0, BTH_BYTES + BYTES + ICRC_BYTES - 1,
					BTH_BYTES + BYTES + ICRC_BYTES};

	for (int i = 0; i < 3; i++) {
		struct pair *pair;

		assert_int_equal(set_up((void **)&pair), 0);
		prepare_reply(pair, false);
		pair->b.qp->av.carrier_max = most[i];
		assert_true(post_send(&pair->b, 4, BYTES));
		pair_expect_trace(pair, "B ACK 0\nB SEND_ONLY 0 ack\n");
		assert_int_equal(joined, i == 2);
		pair_free(pair);
	}
	(void)state;
}

static void a_message_that_answers_none_has_no_ack(void **state)
{
	struct pair *pair = *state;

	prepare_reply(pair, false);
	pair_run(pair);
	pair_expect_trace(pair, "B ACK 0\n");
	assert_true(post_send(&pair->b, 4, BYTES));
	pair_expect_trace(pair, "B SEND_ONLY 0 ack\n");
	assert_int_equal(joined, 0);
}

static void a_reply_that_can_not_be_read_leaves_the_ack_owed(void **state)
{
	static const uint32_t lengths[] = {BYTES, MTU};

	for (int i = 0; i < 2; i++) {
		struct pair *pair;
		struct ibv_sge sge;
		struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

		assert_int_equal(set_up((void **)&pair), 0);
		prepare_reply(pair, true);
		sge = side_sge(&pair->b, 0, lengths[i]);
		sge.lkey ^= 1;
		assert_false(post(&pair->b, &wr));
		pair_expect_trace(pair, "");
		assert_true(transport_owes(pair->b.qp));
		pair_free(pair);
	}
	(void)state;
}

/* ---- what else leaves at once ---- */

static void immediate_data_and_a_solicited_event(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = {.wr_id = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SOLICITED,
				 .imm_data = htobe32(0x12345678)};
	struct ibv_wc wc;

	receive(&pair->b, 1);
	assert_true(post(&pair->a, &wr));
	assert_int_equal(pair->packets[pair->first].bytes[1] & 0x80, 0x80);
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_ONLY_IMM 0 ack\nB ACK 0\n");
	wc = side_expect(&pair->b, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 0);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(be32toh(wc.imm_data), 0x12345678);
}

/* The program may use its memory again at once; the message goes again as it was. */
static void inline_data_are_kept_for_another_time(void **state)
{
	struct pair *pair = *state;
	char data[16] = "inline, it says";
	struct ibv_sge sge = {(uintptr_t)data, sizeof(data), 0};
	struct ibv_send_wr wr = {.wr_id = 1,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE};

	receive(&pair->b, 1);
	assert_true(post(&pair->a, &wr));
	memset(data, 'x', sizeof(data));
	pair->count = 0; /* lost */
	pair_run_out(pair);
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\nA SEND_ONLY 0 ack\nB ACK 0\n");
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
	assert_string_equal(pair->b.memory + OFFSET + 2048, "inline, it says");
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	expect_coherent(&pair->a, &pair->b);
}

/* ---- what does not ---- */

static void expect_none(struct pair *pair, struct ibv_send_wr *wr)
{
	uint32_t tail = sq_tail(pair->a.qp);

	assert_false(post(&pair->a, wr));
	pair_expect_trace(pair, "");
	assert_int_equal(sq_tail(pair->a.qp), tail);
}

static void what_is_not_fit_is_left_alone(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->a, 0, BYTES);
	struct ibv_send_wr good = {
	    .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_send_wr wr = good;

	wr.opcode = IBV_WR_RDMA_WRITE;
	expect_none(pair, &wr);
	wr = good;
	wr.send_flags = 1u << 20; /* refused by the general path */
	expect_none(pair, &wr);
	wr = good;
	wr.num_sge = 5;
	expect_none(pair, &wr);
	sge.length = MTU + 1;
	expect_none(pair, &good);
	sge.length = MTU;
	pair->a.qp->mtu = 512;
	expect_none(pair, &good);
	pair->a.qp->mtu = MTU;
	sge = side_sge(&pair->a, 0, BYTES);
	sge.lkey ^= 1;
	expect_none(pair, &good);
	sge.lkey ^= 1;
	assert_true(post(&pair->a, &good));
}

static void a_qp_with_something_in_mind_has_its_turn(void **state)
{
	struct pair *pair = *state;
	struct requester *requester = pair->a.qp->requester;
	struct responder *responder = pair->a.qp->responder;
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND};

#define expect_turn(field, value)                                                                  \
	do {                                                                                       \
		__typeof__(field) before = field;                                                  \
                                                                                                   \
		field = value;                                                                     \
		expect_none(pair, &wr);                                                            \
		field = before;                                                                    \
	} while (0)

	expect_turn(requester->signs_left, 1);
	expect_turn(requester->has_credits, true);
	expect_turn(requester->rnr_deadline, pair->now + 1);
	expect_turn(requester->end, psn_next(requester->end)); /* something goes again */
	expect_turn(requester->probe.is_due, true);
	expect_turn(requester->has_failed, true);
	expect_turn(requester->window.max, requester->window.near_max + 1);
	expect_turn(pair->a.qp->attr.rate_limit, 1);
	expect_turn(pair->a.qp->state, IBV_QPS_SQD);
	expect_turn(responder->job_count, 1);
	expect_turn(responder->is_reporting, true);
	expect_turn(responder->waiting_count, 1);
	responder->is_owed = true;
	expect_turn(responder->syndrome, AETH_NAK | NAK_PSN_SEQUENCE);
	responder->is_owed = false;
	wr.send_flags = IBV_SEND_FENCE;
	expect_turn(requester->rd_count, 1);
	assert_true(post(&pair->a, &wr));
}

static void what_was_posted_before_goes_first(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = {.wr_id = 2, .opcode = IBV_WR_SEND};

	side_request(&pair->a, IBV_WR_SEND, 1, 0, BYTES);
	expect_none(pair, &wr);
}

static void a_full_outbox_takes_none(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND};

	pair->room = 0;
	expect_none(pair, &wr);
}

/* It has room for the ACK alone: the general path does not send that again. */
static void an_ack_that_went_alone_is_not_owed_any_more(void **state)
{
	struct pair *pair = *state;

	receive(&pair->b, 1);
	receive(&pair->a, 2);
	assert_true(post_send(&pair->a, 1, BYTES));
	pair_deliver(pair);
	pair->room = 1;
	pair->trace[0] = '\0';
	assert_false(post_send(&pair->b, 2, BYTES));
	pair->room = UINT32_MAX;
	pair_run(pair);
	pair_expect_trace(pair, "B ACK 0\n");
	side_request(&pair->b, IBV_WR_SEND, 2, 0, BYTES);
	pair_run(pair);
	pair_expect_trace(pair, "B SEND_ONLY 0 ack\nA ACK 0\n");
}

/* What is posted meanwhile leaves together. */
static void what_is_in_flight_makes_a_stream(void **state)
{
	struct pair *pair = *state;

	receive(&pair->b, 1);
	receive(&pair->b, 2);
	assert_true(post_send(&pair->a, 1, BYTES));
	assert_false(post_send(&pair->a, 2, BYTES));
	pair_run(pair);
	assert_true(post_send(&pair->a, 2, BYTES));
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\nB ACK 0\nA SEND_ONLY 1 ack\n");
}

static void a_full_send_queue_is_refused_as_ever(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;

	pair->a.qp->sq.max_wr = 0;
	assert_false(post(&pair->a, &wr));
	assert_int_equal(qp_post_send(pair->a.qp, &wr, &bad), ENOMEM);
}

/* ---- what is taken ---- */

/* The packet that is on its way arrives changed, and whether it was taken so. */
static bool is_taken(struct pair *pair, struct side *side, size_t at, uint8_t bits)
{
	struct flying *flying = &pair->packets[pair->first];
	struct packet packet = {.bth = flying->bytes,
				.length = flying->size,
				.sgid = flying->av.sgid,
				.dgid = flying->av.dgid,
				.hop_limit = 64};
	bool is;

	flying->bytes[at] ^= bits;
	is = plain_take(&side->adapter, &packet, pair->now);
	flying->bytes[at] ^= bits;
	return is;
}

static void a_send_that_is_not_plain_is_left(void **state)
{
	static const struct {
		size_t at;
		uint8_t bits;
	} changes[] = {
	    {0, 0x20},	/* UC */
	    {1, 0x01},	/* the header's version */
	    {2, 0x01},	/* P_Key */
	    {4, 0x80},	/* FECN */
	    {4, 0x40},	/* BECN */
	    {5, 0x01},	/* another QP */
	    {8, 0x80},	/* it asks for no ACK */
	    {11, 0x01}, /* another PSN */
	};
	struct pair *pair = *state;
	struct flying *flying;

	receive(&pair->b, 1);
	assert_true(post_send(&pair->a, 1, 0));
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		assert_false(is_taken(pair, &pair->b, changes[i].at, changes[i].bits));
	assert_false(is_taken(pair, &pair->b, 1, 0x30)); /* more pad than there is */
	flying = &pair->packets[pair->first];
	flying->size++;
	assert_false(is_taken(pair, &pair->b, 0, 0));
	flying->size--;
	flying->av.sgid.raw[15] ^= 1;
	assert_false(is_taken(pair, &pair->b, 0, 0));
	flying->av.sgid.raw[15] ^= 1;
	side_expect_none(&pair->b);
	assert_true(is_taken(pair, &pair->b, 1, 0x40)); /* MigReq may be anything */
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
	assert_false(is_taken(pair, &pair->b, 0, 0)); /* a duplicate */
}

static void an_ack_that_is_not_plain_is_left(void **state)
{
	static const struct {
		size_t at;
		uint8_t bits;
	} changes[] = {
	    {1, 0x01},	{1, 0x10}, {2, 0x01},  {4, 0x40},
	    {5, 0x01},	{8, 0x80}, {11, 0x01}, /* of what has not been sent */
	    {12, 0x01},			       /* a credit count */
	    {12, 0x20},			       /* RNR */
	};
	struct pair *pair = *state;

	receive(&pair->b, 1);
	assert_true(post_send(&pair->a, 1, BYTES));
	pair_deliver(pair);
	side_turn(&pair->b);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		assert_false(is_taken(pair, &pair->a, changes[i].at, changes[i].bits));
	side_expect_none(&pair->a);
	pair->a.is_scheduled = false;
	assert_true(is_taken(pair, &pair->a, 0, 0));
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	expect_coherent(&pair->a, &pair->b);
	assert_false(is_taken(pair, &pair->a, 0, 0)); /* a ghost */
}

/* It makes room in the window. */
static void an_ack_gives_what_waits_its_turn(void **state)
{
	struct pair *pair = *state;

	pair->a.qp->requester->window.packets = pair->a.qp->requester->window.smalls = 1;
	receive(&pair->b, 1);
	receive(&pair->b, 2);
	assert_true(post_send(&pair->a, 1, BYTES));
	side_request(&pair->a, IBV_WR_SEND, 2, 0, BYTES);
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\nB ACK 0\nA SEND_ONLY 1 ack\nB ACK 1\n");
}

/* ---- an ACK with what came behind it ---- */

/* B's reply to A, and its ACK before that, on their way. */
static void prepare_turn(struct pair *pair)
{
	prepare_reply(pair, false);
	assert_true(post_send(&pair->b, 4, BYTES));
	pair_expect_trace(pair, "B ACK 0\nB SEND_ONLY 0 ack\n");
	assert_int_equal(pair->count, 2);
}

/* As a link delivers them that came as one packet. The test may change either. */
static struct packet turn_of(struct pair *pair)
{
	struct flying *ack = &pair->packets[pair->first], *reply = ack + 1;

	ack->bytes[0] = OPCODE_ACK_AND;
	pair->count = 0;
	return (struct packet){.bth = reply->bytes,
			       .length = reply->size,
			       .sgid = reply->av.sgid,
			       .dgid = reply->av.dgid,
			       .hop_limit = 64,
			       .ack = ack->bytes};
}

static void expect_both(struct pair *pair)
{
	side_expect(&pair->a, 3, IBV_WC_SUCCESS);
	expect_message(&pair->a, 2, &pair->b, 4, BYTES);
	expect_coherent(&pair->a, &pair->b);
	assert_int_equal(transport_counters(pair->a.qp)->acks_received, 1);
	assert_int_equal(transport_counters(pair->a.qp)->received_packets, 2);
	assert_int_equal(transport_counters(pair->a.qp)->received_bytes,
			 2 * BTH_BYTES + AETH_BYTES + BYTES);
}

static void an_ack_and_its_reply_are_taken_together(void **state)
{
	struct pair *pair = *state;
	struct packet turn;

	prepare_turn(pair);
	turn = turn_of(pair);
	assert_ptr_equal(plain_take(&pair->a.adapter, &turn, pair->now), pair->a.qp);
	assert_true(pair->a.is_scheduled);
	assert_true(transport_owes_ack_alone(pair->a.qp));
	expect_both(pair);
	assert_null(plain_take(&pair->a.adapter, &turn, pair->now)); /* a duplicate */
}

/* Neither is taken if the other is not plain; then they are what they would be alone. */
static void what_is_not_plain_of_them_is_taken_apart(void **state)
{
	static const struct {
		bool is_ack;
		size_t at;
		uint8_t bits;
	} changes[] = {
	    {true, 1, 0x80},  {true, 3, 0x01}, /* another P_Key */
	    {true, 4, 0x40},  {true, 8, 0x80},	{true, 11, 0x01}, {true, 12, 0x20}, /* RNR */
	    {false, 0, 0x20}, {false, 4, 0x80}, {false, 8, 0x80}, {false, 11, 0x01},
	};

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct pair *pair;
		struct packet turn;
		uint8_t *byte;

		assert_int_equal(set_up((void **)&pair), 0);
		prepare_turn(pair);
		turn = turn_of(pair);
		byte = pair->packets[pair->first + !changes[i].is_ack].bytes + changes[i].at;
		*byte ^= changes[i].bits;
		assert_null(plain_take(&pair->a.adapter, &turn, pair->now));
		side_expect_none(&pair->a);
		*byte ^= changes[i].bits;
		assert_non_null(plain_take(&pair->a.adapter, &turn, pair->now));
		expect_both(pair);
		pair_free(pair);
	}
	(void)state;
}

/* The general path has the ACK first, and then the reply. */
static void a_turn_of_which_one_is_not_sound_is_the_other(void **state)
{
	struct pair *pair = *state;
	struct packet turn;

	prepare_turn(pair);
	turn = turn_of(pair);
	((uint8_t *)turn.bth)[1] |= 0x01; /* a version that nobody knows */
	transport_receive(&pair->a.adapter, &turn, pair->now, &pair->a.outbox);
	side_expect(&pair->a, 3, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
	((uint8_t *)turn.bth)[1] &= ~0x01;
	transport_receive(&pair->a.adapter, &turn, pair->now, &pair->a.outbox);
	expect_message(&pair->a, 2, &pair->b, 4, BYTES);
}

/* A completion too many ends the QP between the two. */
static void a_full_cq_ends_a_turn(void **state)
{
	struct pair_options options = default_options;
	struct pair *pair;
	struct packet turn;

	options.cqe = 1;
	pair = pair_connected(&options);
	pair->a.qp->has_communicated = pair->b.qp->has_communicated = true;
	pair->a.qp->requester->signs_left = pair->b.qp->requester->signs_left = 0;
	prepare_turn(pair);
	turn = turn_of(pair);
	transport_receive(&pair->a.adapter, &turn, pair->now, &pair->a.outbox);
	assert_int_equal(pair->a.qp->state, IBV_QPS_ERR);
	pair_free(pair);
	(void)state;
}

/* Of what was large long ago nothing is left to tell apart by. */
static void after_large_ones_come_small_ones(void **state)
{
	struct pair *pair = *state;
	struct requester *requester = pair->a.qp->requester;

	pair->a.qp->mtu = pair->b.qp->mtu = 2048;
	receive(&pair->b, 1);
	receive(&pair->b, 2);
	assert_true(post_send(&pair->a, 1, WINDOW_SMALL_BYTES + 1));
	assert_int_equal(requester->large_end, requester->end);
	pair_run(pair);
	requester->large_end = psn_add(requester->end, 1 << 22); /* half of all PSNs ago */
	assert_true(post_send(&pair->a, 2, WINDOW_SMALL_BYTES));
	assert_int_equal(requester->large_end, requester->una);
	assert_int_not_equal(requester->una, requester->end);
}

/* A17.9: a mark is told of, whatever it is on. */
static void a_marked_send_is_told_of(void **state)
{
	struct pair *pair = *state;

	receive(&pair->b, 1);
	assert_true(post_send(&pair->a, 1, BYTES));
	pair->packets[pair->first].av.traffic_class = 3;
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\nB CNP -200\nB ACK 0\n");
	side_expect(&pair->b, 1, IBV_WC_SUCCESS);
	assert_int_equal(transport_counters(pair->a.qp)->congestion, 1);
}

#define plain_test(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    plain_test(a_send_needs_no_turn),
	    plain_test(the_ack_goes_before_the_reply),
	    plain_test(the_ack_and_the_reply_may_be_one_packet),
	    plain_test(to_who_does_not_take_that_they_are_two),
	    plain_test(a_message_that_answers_none_has_no_ack),
	    plain_test(a_reply_that_can_not_be_read_leaves_the_ack_owed),
	    plain_test(immediate_data_and_a_solicited_event),
	    plain_test(inline_data_are_kept_for_another_time),
	    plain_test(what_is_not_fit_is_left_alone),
	    plain_test(a_qp_with_something_in_mind_has_its_turn),
	    plain_test(what_was_posted_before_goes_first),
	    plain_test(a_full_outbox_takes_none),
	    plain_test(an_ack_that_went_alone_is_not_owed_any_more),
	    plain_test(what_is_in_flight_makes_a_stream),
	    plain_test(a_full_send_queue_is_refused_as_ever),
	    plain_test(a_send_that_is_not_plain_is_left),
	    plain_test(an_ack_that_is_not_plain_is_left),
	    plain_test(an_ack_gives_what_waits_its_turn),
	    plain_test(an_ack_and_its_reply_are_taken_together),
	    cmocka_unit_test(what_is_not_plain_of_them_is_taken_apart),
	    plain_test(a_turn_of_which_one_is_not_sound_is_the_other),
	    cmocka_unit_test(a_full_cq_ends_a_turn),
	    plain_test(after_large_ones_come_small_ones),
	    plain_test(a_marked_send_is_told_of),
	};

	return cmocka_run_group_tests_name("plain SENDs", tests, NULL, NULL);
}
