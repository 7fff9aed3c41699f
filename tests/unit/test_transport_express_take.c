/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The express path's receiving end: what is not as it should be comes to what it does by packets,
 * and both ends are left the same, so that records and packets may take turns at any message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "express_pair.h"
#include "transport/reach.h"

/* ---- the other end ---- */

static void without_a_receive_it_is_rnr_and_back(void **state)
{
	struct pair *pair = *state;

	send(pair, 1);
	send(pair, 2);
	pair_run(pair);
	pair_expect_trace(pair, "A express 0\nA express 1\nB RNR 0\n");
	assert_int_equal(pair->glances, 0);
	receive(pair, 1);
	receive(pair, 2);
	send(pair, 3); /* waits behind */
	receive(pair, 3);
	pair_run_out(pair);
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\nA SEND_ONLY 1 ack\nA express 2\nB ACK 2\n");
	for (uint64_t i = 1; i < 4; i++) {
		expect_message(pair, i, i);
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	}
	expect_coherent(pair);
	receive(pair, 4);
	send(pair, 4);
	pair_expect_trace(pair, "A express 3\n");
}

static void a_receive_that_is_too_small(void **state)
{
	struct pair *pair = *state;

	side_post_recv(&pair->b, 1, 0, BYTES - 1);
	send(pair, 1);
	pair_run(pair);
	pair_expect_trace(pair, "A express 0\nB NAK1 0\n");
	side_expect(&pair->b, 1, IBV_WC_LOC_LEN_ERR);
	side_expect(&pair->a, 1, IBV_WC_REM_INV_REQ_ERR);
}

static void a_receive_whose_key_is_bad(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->b, 0, 100);
	struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;

	sge.lkey ^= 1;
	assert_int_equal(qp_post_recv(pair->b.qp, &recv, &bad), 0);
	send(pair, 1);
	pair_run(pair);
	pair_expect_trace(pair, "A express 0\nB NAK3 0\n");
	side_expect(&pair->b, 1, IBV_WC_LOC_PROT_ERR);
	side_expect(&pair->a, 1, IBV_WC_REM_OP_ERR);
}

static void lost_records_go_again_as_packets(void **state)
{
	struct pair *pair = *state;

	for (uint64_t i = 1; i < 4; i++)
		receive(pair, i);
	pair_run(pair);
	send(pair, 1);
	pair->count = 0;
	send(pair, 2);
	send(pair, 3);
	pair_run(pair);
	pair_expect_trace(pair,
			  "A express 0\nA express 1\nA express 2\nB NAK0 0\n"
			  "A SEND_ONLY 0 ack\nA SEND_ONLY 1 ack\nA SEND_ONLY 2 ack\nB ACK 2\n");
	assert_int_equal(pair->glances, 0);
	for (uint64_t i = 1; i < 4; i++)
		expect_message(pair, i, i);
	expect_coherent(pair);
}

/* Between two ends of ours what comes behind a gap is held, and held as packets. */
static void what_is_behind_a_lost_record_is_held(void **state)
{
	struct pair *pair = *state;

	pair->a.qp->requester->is_peer_ours = pair->b.qp->requester->is_peer_ours = true;
	for (uint64_t i = 1; i < 4; i++)
		receive(pair, i);
	pair_run(pair);
	send(pair, 1);
	pair->count = 0;
	send(pair, 2);
	send(pair, 3);
	pair_run_out(pair);
	for (uint64_t i = 1; i < 4; i++) {
		expect_message(pair, i, i);
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	}
	assert_int_equal(pair->a.qp->requester->counters.resent, 1);
	expect_coherent(pair);
}

static void a_lost_ack_is_asked_for(void **state)
{
	struct pair *pair = *state;

	receive(pair, 1);
	pair_run(pair);
	send(pair, 1);
	pair_deliver(pair);
	assert_true(express_acknowledge(pair->b.qp, &pair->b.outbox));
	pair->count = 0;
	pair->trace[0] = '\0';
	pair_run_out(pair);
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\nB ACK 0\n");
	expect_message(pair, 1, 1);
	side_expect_none(&pair->b); /* once */
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	expect_coherent(pair);
}

static void what_comes_twice_is_received_once(void **state)
{
	struct pair *pair = *state;

	receive(pair, 1);
	receive(pair, 2);
	pair_run(pair);
	pair->meddle = pair_double;
	send(pair, 1);
	pair_run(pair);
	expect_message(pair, 1, 1);
	side_expect_none(&pair->b);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
	expect_coherent(pair);
}

static int foreign_pkey(struct pair *pair, struct side *from, struct flying *packet)
{
	(void)pair, (void)from;
	((struct express *)packet->bytes)->pkey = 0x1234;
	return 1;
}

static void another_partition_is_not_heard(void **state)
{
	struct pair *pair = *state;

	receive(pair, 1);
	pair_run(pair);
	pair->meddle = foreign_pkey;
	send(pair, 1);
	pair_run(pair);
	side_expect_none(&pair->b);
	assert_int_equal(atomic_load(&pair->b.adapter.bad_pkey), 1);
}

static int to_nobody(struct pair *pair, struct side *from, struct flying *packet)
{
	(void)pair, (void)from;
	((struct express *)packet->bytes)->to ^= 0xff;
	return 1;
}

static int cut(struct pair *pair, struct side *from, struct flying *packet)
{
	(void)pair, (void)from;
	packet->size = sizeof(struct express) - 1;
	return 1;
}

static void nonsense_is_for_nobody(void **state)
{
	struct pair *pair = *state;

	receive(pair, 1);
	pair_run(pair);
	pair->meddle = to_nobody;
	send(pair, 1);
	pair_deliver(pair);
	pair->meddle = cut;
	send(pair, 2);
	pair_deliver(pair);
	side_expect_none(&pair->b);
	assert_int_equal(atomic_load(&pair->b.adapter.no_qp), 2);
}

static int acks_the_future(struct pair *pair, struct side *from, struct flying *packet)
{
	struct express *express = (struct express *)packet->bytes;

	(void)pair;
	if (from->name == 'B') {
		express->to |= EXPRESS_ACK << 24;
		express->ack = from->pair->a.psn + 1000;
	}
	return 1;
}

static void an_ack_of_what_was_never_sent_is_ignored(void **state)
{
	struct pair *pair = *state;

	side_post_recv(&pair->a, 7, 0, 100);
	send(pair, 1);
	pair->count = 0;
	pair->meddle = acks_the_future;
	side_request(&pair->b, IBV_WR_SEND, 3, 0, 10);
	pair_deliver(pair);
	side_expect(&pair->a, 7, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
	assert_int_equal(pair->a.qp->requester->counters.ghosts, 1);
}

static void the_first_message_in_rtr_is_an_event(void **state)
{
	struct pair *pair = pair_new(express_options());

	(void)state;
	side_to_init(&pair->a, express_options());
	side_to_init(&pair->b, express_options());
	side_to_rtr(&pair->a, &pair->b, express_options());
	side_to_rtr(&pair->b, &pair->a, express_options());
	side_to_rts(&pair->a, express_options());
	receive(pair, 1);
	send(pair, 1);
	pair_run(pair);
	assert_int_equal(pair->glances, 0);
	expect_message(pair, 1, 1);
	assert_true(side_had_event(&pair->b, IBV_EVENT_COMM_EST));
	pair_free(pair);
}

static void psns_wrap(void **state)
{
	struct pair_options options = *express_options();
	struct pair *pair;

	(void)state;
	options.psn_a = PSN_MASK - 1;
	pair = acquainted(&options);
	for (uint64_t i = 1; i < 6; i++) {
		receive(pair, i);
		send(pair, i);
		if (i == 3)
			side_request(&pair->a, IBV_WR_RDMA_WRITE, 9, 0, 8);
		pair_run(pair);
		expect_message(pair, i, i);
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
		if (i == 3)
			side_expect(&pair->a, 9, IBV_WC_SUCCESS);
	}
	assert_int_equal(pair->a.qp->requester->end, 4);
	assert_int_equal(pair->glances, 5);
	expect_coherent(pair);
	pair_free(pair);
}

static void a_full_cq_ends_the_qp(void **state)
{
	struct pair_options options = *express_options();
	struct pair *pair;

	(void)state;
	options.cqe = 2;
	pair = acquainted(&options);
	for (uint64_t i = 1; i < 4; i++)
		receive(pair, i);
	for (uint64_t i = 1; i < 4; i++)
		send(pair, i);
	pair_run(pair);
	assert_true(side_had_event(&pair->b, IBV_EVENT_CQ_ERR));
	assert_true(side_had_event(&pair->b, IBV_EVENT_QP_FATAL));
	assert_int_equal(atomic_load(&pair->b.qp->state), IBV_QPS_ERR);
	pair_free(pair);
}

/* One ACK of four messages, two of which find room, and a fifth behind them: it is flushed with the
 * fourth, and nothing is taken back. */
static void a_full_cq_ends_the_qp_of_who_is_told(void **state)
{
	struct pair_options options = *express_options();
	struct pair *pair;

	(void)state;
	options.cqe = 2;
	pair = acquainted(&options);
	for (uint64_t i = 1; i < 5; i++) {
		receive(pair, i);
		send(pair, i);
		pair_deliver(pair);
		side_expect(&pair->b, i, IBV_WC_SUCCESS);
	}
	assert_true(express_acknowledge(pair->b.qp, &pair->b.outbox));
	receive(pair, 5);
	send(pair, 5);
	pair_deliver(pair); /* and no turn, which would flush once more */
	assert_true(side_had_event(&pair->a, IBV_EVENT_CQ_ERR));
	assert_true(side_had_event(&pair->a, IBV_EVENT_QP_FATAL));
	assert_int_equal(atomic_load(&pair->a.qp->state), IBV_QPS_ERR);
	assert_int_equal(sq_head(pair->a.qp), sq_tail(pair->a.qp));
	assert_int_equal(pair->a.qp->requester->una, pair->a.qp->requester->end);
	pair_free(pair);
}

static void in_the_middle_of_it_the_qp_ends(void **state)
{
	struct pair *pair = *state;

	receive(pair, 1);
	pair_run(pair);
	send(pair, 1);
	send(pair, 2);
	assert_int_equal(side_modify(&pair->a, IBV_QPS_ERR), 0);
	side_expect(&pair->a, 1, IBV_WC_WR_FLUSH_ERR);
	side_expect(&pair->a, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(side_modify(&pair->b, IBV_QPS_ERR), 0);
	side_expect(&pair->b, 1, IBV_WC_WR_FLUSH_ERR);
	pair_run(pair); /* what is under way finds nobody */
	side_expect_none(&pair->a);
	side_expect_none(&pair->b);
	assert_false(transport_is_late(pair->a.qp));
	assert_false(transport_is_late(pair->b.qp));
}

static void sqd_waits_for_what_is_under_way(void **state)
{
	struct pair *pair = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	receive(pair, 1);
	pair_run(pair);
	send(pair, 1);
	assert_int_equal(transport_modify_qp(pair->a.qp, &attr,
					     IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY, pair->now),
			 0);
	side_turn(&pair->a);
	assert_false(side_had_event(&pair->a, IBV_EVENT_SQ_DRAINED));
	pair_run(pair);
	assert_true(side_had_event(&pair->a, IBV_EVENT_SQ_DRAINED));
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

static void solicited_events(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = {
	    .wr_id = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SOLICITED};

	receive(pair, 1);
	receive(pair, 2);
	cq_arm(pair->b.cq, true);
	send(pair, 1);
	pair_run(pair);
	assert_int_equal(pair->b.cq->arm, CQ_ARMED_SOLICITED);
	side_post(&pair->a, &wr);
	pair_run(pair);
	assert_int_equal(pair->b.cq->arm, CQ_NOT_ARMED);
	pair_expect_trace(pair, "A express 0\nB ACK 0\nA express 1\nB ACK 1\n");
}

/* Without the time there is no deadline; once it is told there is, and not before it would be. */
static void the_timer_starts_when_the_time_is_known(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND};

	assert_null(express_post(pair->a.qp, &wr, &pair->a.outbox));
	assert_int_equal(transport_deadline(pair->a.qp), NO_DEADLINE);
	assert_true(transport_is_untimed(pair->a.qp));
	pair->now += 1000000000;
	transport_time(pair->a.qp, pair->now);
	assert_false(transport_is_untimed(pair->a.qp));
	assert_true(transport_deadline(pair->a.qp) > pair->now);
	assert_int_not_equal(transport_deadline(pair->a.qp), NO_DEADLINE);
}

/* ---- within a process ---- */

/* Both QPs are of one adapter: B's takes the place of the peer. */
static void both_ends_at_once(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->a, 512, BYTES), bad_sge = sge;
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_send_wr bad = wr;

	fill(pair->a.memory + 512, BYTES, 1);
	assert_ptr_equal(express_execute(pair->a.qp, pair->b.qp, &wr, pair->now), &wr); /* RNR */
	receive(pair, 1);
	assert_null(express_execute(pair->a.qp, pair->b.qp, &wr, pair->now));
	pair_expect_trace(pair, "");
	expect_message(pair, 1, 1);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	expect_coherent(pair);
	assert_false(transport_is_late(pair->b.qp));

	receive(pair, 2);
	bad_sge.lkey ^= 1;
	bad.sg_list = &bad_sge;
	assert_ptr_equal(express_execute(pair->a.qp, pair->b.qp, &bad, pair->now), &bad);
	side_expect_none(&pair->b);

	/* the peer has still to hear that its message has arrived */
	side_post_recv(&pair->a, 7, 2048, 100);
	side_request(&pair->b, IBV_WR_SEND, 8, 0, 10);
	pair_deliver(pair);
	side_expect(&pair->a, 7, IBV_WC_SUCCESS);
	assert_ptr_equal(express_execute(pair->a.qp, pair->b.qp, &wr, pair->now), &wr);
	pair_run(pair);
	pair_expect_trace(pair, "B express 0\nA ACK 0\n");
	side_expect(&pair->b, 8, IBV_WC_SUCCESS);

	/* after it, packets and records go on */
	send(pair, 2);
	pair_run(pair);
	pair_expect_trace(pair, "A express 1\nB ACK 1\n");
	expect_message(pair, 2, 2);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	receive(pair, 3);
	send(pair, 3); /* under way: the next may not overtake it */
	assert_ptr_equal(express_execute(pair->a.qp, pair->b.qp, &wr, pair->now), &wr);
}

/* ---- straight to who polls ---- */

static void an_empty_cq_gives_what_completes_to_who_polls(void **state)
{
	struct pair *pair = *state;
	struct cq_taking taking;
	struct ibv_wc wc[2], unused;

	for (uint64_t i = 1; i < 5; i++)
		receive(pair, i);
	pair_run(pair);
	for (uint64_t i = 1; i < 5; i++)
		send(pair, i);
	assert_int_equal(cq_take_count(), 0);
	cq_take_begin(&taking, pair->b.cq, 2, wc);
	cq_take_share(&taking);
	assert_false(cq_take_is_full(&taking));
	pair_deliver(pair);
	assert_true(cq_take_is_full(&taking));
	assert_int_equal(cq_take_count(), 2);
	assert_int_equal(cq_take_end(&taking), 2);
	assert_int_equal(cq_take_count(), 0);
	assert_int_equal(wc[0].wr_id, 1);
	assert_int_equal(wc[1].wr_id, 2);
	expect_message(pair, 3, 3);
	send(pair, 4);
	cq_take_begin(&taking, pair->b.cq, 2, wc);
	cq_take_share(&taking);
	receive(pair, 5);
	pair_deliver(pair); /* there is one in front of it */
	assert_int_equal(cq_take_end(&taking), 0);
	assert_int_equal(cq_poll(pair->b.cq, 1, &unused), 1);
	assert_int_equal(unused.wr_id, 4);
	assert_int_equal(cq_poll(pair->b.cq, 1, &unused), 1);
	cq_arm(pair->b.cq, false);
	receive(pair, 6);
	send(pair, 6);
	cq_take_begin(&taking, pair->b.cq, 2, wc);
	cq_take_share(&taking);
	pair_deliver(pair); /* someone waits for the event */
	assert_int_equal(cq_take_end(&taking), 0);
	assert_int_equal(pair->b.cq->arm, CQ_NOT_ARMED);
}

/* ---- ACKs of several QPs together: here each is this one's ---- */

/* B has received 1 and 2, and sends an ACK for each. */
static void owe_two(struct pair *pair, struct express_acks *acks)
{
	struct responder *responder = pair->b.qp->responder;
	uint32_t last;

	receive(pair, 1);
	receive(pair, 2);
	pair_run(pair);
	send(pair, 1);
	send(pair, 2);
	pair_deliver(pair);
	last = responder->answer_psn;
	for (int i = 1; i >= 0; i--) {
		responder->is_owed = true;
		responder->answer_psn = psn_add(last, -i);
		assert_true(express_acks_take(acks, pair->b.qp));
		assert_true(express_acks_add(acks, pair->b.qp));
		assert_false(express_acks_add(acks, pair->b.qp)); /* nothing is owed */
	}
	pair_expect_trace(pair, "A express 0\nA express 1\n");
	assert_int_equal(express_acks_send(acks), 2);
	assert_int_equal(express_acks_send(acks), 0);
	pair_expect_trace(pair, "B express many ACK 0\n");
}

static void acks_go_together(void **state)
{
	struct pair *pair = *state;
	struct express_acks acks = {.outbox = &pair->b.outbox};

	owe_two(pair, &acks);
	assert_false(transport_is_late(pair->b.qp));
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	pair_expect_trace(pair, "");
	assert_int_equal(pair->glances, 3);
	assert_int_equal(pair->a.qp->requester->counters.acks_received, 2);
	assert_int_equal(pair->b.qp->requester->counters.acks_sent, 2);
	expect_coherent(pair);
}

static void each_of_them_is_taken_even_if_one_cannot_be(void **state)
{
	struct pair *pair = *state;
	struct express_acks acks = {.outbox = &pair->b.outbox};

	receive(pair, 3);
	owe_two(pair, &acks);
	((struct express_ack *)(pair->packets[pair->first].bytes + sizeof(struct express)))->to ^=
	    1;
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
	assert_int_equal(atomic_load(&pair->a.adapter.no_qp), 1);
	assert_int_equal(pair->a.qp->requester->counters.ghosts, 1); /* the first, once more */
	send(pair, 3);
	pair_run(pair);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	side_expect(&pair->a, 3, IBV_WC_SUCCESS);
	expect_coherent(pair);
}

static void of_another_lane_they_are_left_alone(void **state)
{
	struct pair *pair = *state;
	struct express_acks acks = {.outbox = &pair->b.outbox};

	owe_two(pair, &acks);
	pair->a.qp->lane = 1;
	pair_deliver(pair);
	side_expect_none(&pair->a);
	assert_int_equal(atomic_load(&pair->a.adapter.no_qp), 2);
	pair->a.qp->lane = 0;
	pair_run_out(pair); /* asked for when the timer has run out */
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	expect_coherent(pair);
}

static int cut_in_two(struct pair *pair, struct side *from, struct flying *packet)
{
	(void)pair, (void)from;
	packet->size -= packet->is_express && from->name == 'B' ? 3 : 0;
	return 1;
}

static void half_an_ack_is_none(void **state)
{
	struct pair *pair = *state;
	struct express_acks acks = {.outbox = &pair->b.outbox};

	pair->meddle = cut_in_two;
	owe_two(pair, &acks);
	pair_deliver(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
	pair_run_out(pair);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	expect_coherent(pair);
}

static void a_record_holds_so_many(void **state)
{
	struct pair *pair = *state;
	struct express_acks acks = {.outbox = &pair->b.outbox};

	receive(pair, 1);
	pair_run(pair);
	send(pair, 1);
	pair_deliver(pair);
	for (int i = 0; i < EXPRESS_ACKS; i++) {
		assert_true(express_acks_take(&acks, pair->b.qp));
		pair->b.qp->responder->is_owed = true; /* as one of many QPs would */
		assert_true(express_acks_add(&acks, pair->b.qp));
	}
	assert_false(express_acks_take(&acks, pair->b.qp));
	assert_int_equal(express_acks_send(&acks), EXPRESS_ACKS);
	assert_true(express_acks_take(&acks, pair->b.qp));
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
	expect_coherent(pair);
}

/* ---- WRITE and READ by the posting verb ---- */

static uint32_t debts; /* of the QP, when it reached the last time */
static uint32_t reaches;
static enum reach_result reach_answer;

static enum reach_result fake_reach(struct qp *qp, const struct reach_op *op)
{
	assert_true(op->is_prompt);
	assert_int_equal(op->length, BYTES);
	debts = qp->responder->is_owed;
	reaches++;
	return reach_answer;
}

/* Of B, which writes to A. */
static struct ibv_send_wr *reach_by_b(struct pair *pair, struct ibv_send_wr *wr)
{
	static struct adapter_host host;
	struct ibv_send_wr *rest;
	bool owes = pair->b.qp->responder->is_owed, has_answered;
	const struct adapter_host *before = pair->b.adapter.host;

	host = *before;
	host.reach = fake_reach;
	pair->b.adapter.host = &host;
	reaches = 0;
	rest = express_reach(pair->b.qp, wr, 1, &pair->b.outbox, &has_answered);
	assert_int_equal(has_answered, owes && !pair->b.qp->responder->is_owed);
	pair->b.adapter.host = before;
	return rest;
}

static void a_write_is_done_when_it_is_posted(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->b, 0, BYTES);
	struct ibv_send_wr send = {
	    .wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_send_wr second = {
	    .wr_id = 2, .next = &send, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
	struct ibv_send_wr first = second;

	first.wr_id = 1;
	first.next = &second;
	first.opcode = IBV_WR_RDMA_READ;
	reach_answer = REACH_DONE;
	assert_ptr_equal(reach_by_b(pair, &first), &send);
	assert_int_equal(reaches, 2);
	assert_int_equal(side_expect(&pair->b, 1, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_READ);
	assert_int_equal(side_expect(&pair->b, 2, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
	assert_int_equal(pair->count, 0);
	reach_answer = REACH_REFUSED;
	assert_ptr_equal(reach_by_b(pair, &first), &first);
	side_expect_none(&pair->b);
	assert_int_equal(sq_head(pair->b.qp), 2);
	assert_int_equal(sq_tail(pair->b.qp), 2);
}

/* Who waits in memory for what B writes there must find that its own message has completed. */
static void an_ack_that_is_owed_leaves_before_the_write(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->b, 0, BYTES);
	struct ibv_send_wr wr = {
	    .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};

	receive(pair, 1);
	pair_run(pair);
	send(pair, 1);
	pair_deliver(pair);
	assert_true(pair->b.qp->responder->is_owed);
	reach_answer = REACH_DONE;
	assert_null(reach_by_b(pair, &wr));
	assert_int_equal(reaches, 1);
	assert_int_equal(debts, 0);
	assert_int_equal(pair->count, 1);
	pair_deliver(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	/* where there is no room for the ACK, it waits its turn */
	receive(pair, 3);
	send(pair, 3);
	pair_deliver(pair);
	pair->b.outbox.reserve_express = NULL;
	assert_ptr_equal(reach_by_b(pair, &wr), &wr);
	assert_int_equal(reaches, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    express_test(without_a_receive_it_is_rnr_and_back),
	    express_test(a_receive_that_is_too_small),
	    express_test(a_receive_whose_key_is_bad),
	    express_test(lost_records_go_again_as_packets),
	    express_test(what_is_behind_a_lost_record_is_held),
	    express_test(a_lost_ack_is_asked_for),
	    express_test(what_comes_twice_is_received_once),
	    express_test(another_partition_is_not_heard),
	    express_test(nonsense_is_for_nobody),
	    express_test(an_ack_of_what_was_never_sent_is_ignored),
	    cmocka_unit_test(the_first_message_in_rtr_is_an_event),
	    cmocka_unit_test(psns_wrap),
	    cmocka_unit_test(a_full_cq_ends_the_qp),
	    cmocka_unit_test(a_full_cq_ends_the_qp_of_who_is_told),
	    express_test(in_the_middle_of_it_the_qp_ends),
	    express_test(sqd_waits_for_what_is_under_way),
	    express_test(solicited_events),
	    express_test(the_timer_starts_when_the_time_is_known),
	    express_test(both_ends_at_once),
	    express_test(an_empty_cq_gives_what_completes_to_who_polls),
	    express_test(acks_go_together),
	    express_test(each_of_them_is_taken_even_if_one_cannot_be),
	    express_test(of_another_lane_they_are_left_alone),
	    express_test(half_an_ack_is_none),
	    express_test(a_record_holds_so_many),
	    express_test(a_write_is_done_when_it_is_posted),
	    express_test(an_ack_that_is_owed_leaves_before_the_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
