/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs that are offered instead of sent: their receiver fetches them. What is not plain goes by
 * packets, and to the program all is as if everything did.
 */
#include "transport/fetch.h"
#include "transport/offer.h"
#include "transport/reach.h"
#include "transport_pair.h"
#include "wire/offer.h"

enum { LENGTH = 100000, LAST = 98 }; /* the PSN, from the one behind the first message */

static struct pair_options options;
static struct pair *pair;
static struct adapter_host host;
static bool is_near;
static int fetches, refuse_from, late_times, at_fetch;
static uint64_t clock_now;

/* The peer's memory, as its rkey has it. */
static enum reach_result fetch(struct qp *qp, const struct reach_op *op)
{
	const struct side *side = side_of(qp->adapter),
			  *peer = side == &pair->a ? &pair->b : &pair->a;
	const char *from = (const char *)(uintptr_t)op->remote_addr;

	if (!op->is_fetch)
		return REACH_REFUSED;
	assert_true(op->is_read && op->offset == 0 && op->bytes == op->length);
	assert_true(op->bytes <= OFFER_PART);
	if (fetches >= refuse_from)
		return REACH_REFUSED;
	if (late_times && fetches == at_fetch) {
		late_times--;
		return REACH_LATER;
	}
	if (op->rkey != peer->mr->rkey || !mr_holds(peer->mr, op->remote_addr, op->length))
		return REACH_REFUSED;
	fetches++;
	for (uint32_t i = 0; i < op->count; i++) {
		memcpy(op->pieces[i].iov_base, from, op->pieces[i].iov_len);
		from += op->pieces[i].iov_len;
	}
	return REACH_DONE;
}

static int cq_events;

static void note_event(struct cq *cq)
{
	cq_events++;
}

/* The peer is of another process. */
static struct qp *enter_peer(struct qp *qp)
{
	return NULL;
}

static bool is_reached(const struct qp *qp)
{
	return is_near;
}

/* One message and its ACK: then both know what the other is. */
static void meet(void)
{
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 99, 0, 8);
	pair_run(pair);
	side_expect(&pair->a, 99, IBV_WC_SUCCESS);
	pair->trace[0] = '\0';
	pair->passed = 0;
}

static uint64_t clock_time(const struct adapter *adapter)
{
	return clock_now;
}

static void connect_with(void)
{
	pair = pair_connected(&options);
	host = pair_host;
	host.reach = fetch;
	host.is_reached = is_reached;
	host.time = clock_time;
	host.enter_peer = enter_peer;
	host.cq_event = note_event;
	pair->a.adapter.host = pair->b.adapter.host = &host;
	is_near = true;
	fetches = late_times = at_fetch = cq_events = 0;
	refuse_from = 1 << 20;
	fill(pair->a.memory, PAIR_MEMORY, 3);
}

static int set_up(void **state)
{
	options = default_options;
	connect_with();
	meet();
	return 0;
}

static int tear_down(void **state)
{
	pair_free(pair);
	return 0;
}

static void send(uint64_t wr_id, size_t offset, uint32_t length)
{
	side_request(&pair->a, IBV_WR_SEND, wr_id, offset, length);
}

static struct ibv_wc expect_message(uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_wc wc = side_expect(&pair->b, wr_id, IBV_WC_SUCCESS);

	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, length);
	assert_memory_equal(pair->a.memory + offset, pair->b.memory + offset, length);
	return wc;
}

/* ---- it is offered ---- */

static void a_long_send_is_fetched(void **state)
{
	side_post_recv(&pair->b, 7, 5, LENGTH + 10);
	send(1, 5, LENGTH);
	pair_run(pair);
	pair_expect_trace(pair, "A OFFER 1 ack\n"
				"B ACK 98\n");
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	expect_message(7, 5, LENGTH);
	assert_int_equal(pair->b.memory[5 + LENGTH], 0);
	assert_int_equal(transport_counters(pair->a.qp)->offered, 1);
	assert_int_equal(transport_counters(pair->b.qp)->fetched, 1);
}

static void immediate_and_solicited_come_along(void **state)
{
	struct ibv_sge sge = side_sge(&pair->a, 0, LENGTH);
	struct ibv_send_wr wr = {.wr_id = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SOLICITED,
				 .imm_data = htobe32(0xcafe)};
	struct ibv_wc wc;

	side_post_recv(&pair->b, 7, 0, LENGTH);
	cq_arm(pair->b.cq, true);
	side_post(&pair->a, &wr);
	pair_run(pair);
	assert_int_equal(fetches, 1);
	assert_int_equal(cq_events, 1);
	wc = expect_message(7, 0, LENGTH);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, htobe32(0xcafe));
	/* an event for this alone */
	cq_arm(pair->b.cq, true);
	side_post_recv(&pair->b, 8, 0, LENGTH);
	send(2, 0, LENGTH);
	pair_run(pair);
	expect_message(8, 0, LENGTH);
	assert_int_equal(fetches, 2);
	assert_int_equal(cq_events, 1);
}

static void lists_at_both_ends(void **state)
{
	struct ibv_sge from[3] = {side_sge(&pair->a, 300000, 40000), side_sge(&pair->a, 0, 0),
				  side_sge(&pair->a, 100, 60001)};
	struct ibv_sge to[4] = {side_sge(&pair->b, 7, 1), side_sge(&pair->b, 500000, 50000),
				side_sge(&pair->b, 0, 0), side_sge(&pair->b, 200000, 60000)};
	struct ibv_recv_wr recv = {.wr_id = 7, .sg_list = to, .num_sge = 4}, *bad_recv;
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = from, .num_sge = 3};
	const char *a = pair->a.memory, *b = pair->b.memory;

	assert_int_equal(qp_post_recv(pair->b.qp, &recv, &bad_recv), 0);
	side_post(&pair->a, &wr);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_int_equal(side_expect(&pair->b, 7, IBV_WC_SUCCESS).byte_len, 100001);
	assert_int_equal(fetches, 2);
	assert_int_equal(b[7], a[300000]);
	assert_memory_equal(b + 500000, a + 300001, 39999);
	assert_memory_equal(b + 539999, a + 100, 10001);
	assert_memory_equal(b + 200000, a + 10101, 50000);
}

/* Only so much is on its way at a time. */
static void one_of_several_mib_is_several_offers(void **state)
{
	struct ibv_sge from[4], to[4];
	struct ibv_recv_wr recv = {.wr_id = 7, .sg_list = to, .num_sge = 4}, *bad_recv;
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = from, .num_sge = 4};

	for (int i = 0; i < 4; i++) {
		from[i] = side_sge(&pair->a, 0, PAIR_MEMORY - (i == 3));
		to[i] = side_sge(&pair->b, 0, PAIR_MEMORY);
	}
	assert_int_equal(qp_post_recv(pair->b.qp, &recv, &bad_recv), 0);
	side_post(&pair->a, &wr);
	pair_run(pair);
	pair_expect_trace(pair, "A OFFER 1 ack\n"
				"A OFFER 1025 ack\n"
				"B ACK 2048\n"
				"A OFFER 2049 ack\n"
				"A OFFER 3073 ack\n"
				"B ACK 4096\n");
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_int_equal(side_expect(&pair->b, 7, IBV_WC_SUCCESS).byte_len, 4 * PAIR_MEMORY - 1);
	assert_memory_equal(pair->a.memory, pair->b.memory, PAIR_MEMORY - 1);
}

static void short_ones_before_and_behind_keep_their_order(void **state)
{
	for (int i = 0; i < 6; i++)
		side_post_recv(&pair->b, i, i * LENGTH, LENGTH);
	for (int i = 0; i < 6; i++)
		send(i, i * LENGTH, i % 2 ? LENGTH : 2000);
	pair_run(pair);
	for (int i = 0; i < 6; i++) {
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
		expect_message(i, i * LENGTH, i % 2 ? LENGTH : 2000);
	}
	assert_int_equal(fetches, 3);
}

static void shared_receives_are_taken_too(void **state)
{
	tear_down(state);
	options.has_srq = true;
	connect_with();
	meet();
	side_post_recv(&pair->b, 7, 0, LENGTH);
	send(1, 0, LENGTH);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	expect_message(7, 0, LENGTH);
	assert_int_equal(fetches, 1);
}

/* ---- it waits, and goes again ---- */

static void without_a_receive_it_is_offered_again_when_the_peer_may_be_ready(void **state)
{
	send(1, 0, LENGTH);
	pair_run(pair);
	pair_expect_trace(pair, "A OFFER 1 ack\n"
				"B RNR 1\n");
	side_post_recv(&pair->b, 7, 0, LENGTH);
	pair_run(pair);
	assert_true(pair_wait(pair));
	pair_expect_trace(pair, "A OFFER 1 ack\n"
				"B ACK 98\n");
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	expect_message(7, 0, LENGTH);
}

static void a_peer_that_is_never_ready_ends_it(void **state)
{
	tear_down(state);
	options.rnr_retry = 2;
	connect_with();
	meet();
	send(1, 0, LENGTH);
	pair_run_out(pair);
	side_expect(&pair->a, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(fetches, 0);
}

static int lost;

static int withdrawn;

static bool publish(struct adapter *adapter, const struct qp *qp, unsigned int access)
{
	return true;
}

static void withdraw_untold(struct adapter *adapter, const struct qp *qp)
{
	assert_ptr_equal(qp, pair->a.qp);
	assert_true(cq_is_empty(pair->a.cq));
	withdrawn++;
}

/* A peer that is in the middle of it sees that it does not count, before the program may use that
 * memory again. */
static void one_that_has_failed_is_withdrawn_before_the_program_is_told(void **state)
{
	host.publish_qp = publish;
	host.withdraw_qp = withdraw_untold;
	withdrawn = 0;
	reach_announce(pair->a.qp);
	pair->a.qp->requester->rnr_retries_left = 0;
	pair->a.qp->attr.rnr_retry = 0;
	send(1, 0, LENGTH);
	pair_run(pair);
	assert_int_equal(withdrawn, 1);
	side_expect(&pair->a, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_false(pair->a.qp->is_published);
}

static int lose_offers(struct pair *flight, struct side *from, struct flying *packet)
{
	return packet->bytes[0] == OPCODE_OFFER && lost-- > 0 ? 0 : 1;
}

static int lose_acks(struct pair *flight, struct side *from, struct flying *packet)
{
	return from->name == 'B' && lost-- > 0 ? 0 : 1;
}

static void what_is_lost_comes_by_packets(void **state)
{
	side_post_recv(&pair->b, 7, 0, LENGTH);
	lost = 1;
	pair->meddle = lose_offers;
	send(1, 0, LENGTH);
	pair_run_out(pair);
	assert_int_equal(fetches, 0);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	expect_message(7, 0, LENGTH);
	/* the next one is offered again */
	side_post_recv(&pair->b, 8, 0, LENGTH);
	send(2, 0, LENGTH);
	pair_run(pair);
	assert_int_equal(fetches, 1);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	expect_message(8, 0, LENGTH);
}

/* With retries spent on nothing: it is asked for again by what comes behind. */
static void one_that_is_lost_before_another_comes_by_packets(void **state)
{
	for (int i = 0; i < 3; i++)
		side_post_recv(&pair->b, i, i * LENGTH, LENGTH);
	lost = 1;
	pair->meddle = lose_offers;
	for (int i = 0; i < 3; i++)
		send(i, i * LENGTH, LENGTH);
	pair_run_out(pair);
	for (int i = 0; i < 3; i++) {
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
		expect_message(i, i * LENGTH, LENGTH);
	}
	side_expect_none(&pair->b);
}

static void one_whose_ack_is_lost_is_received_once(void **state)
{
	for (int i = 0; i < 2; i++)
		side_post_recv(&pair->b, i, 0, LENGTH);
	lost = 1;
	pair->meddle = lose_acks;
	send(1, 0, LENGTH);
	pair_run_out(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	expect_message(0, 0, LENGTH);
	side_expect_none(&pair->b);
	assert_int_equal(fetches, 1);
}

/* ---- it is declined ---- */

static void expect_packets(int wr_id)
{
	pair->trace[0] = '\0';
	side_post_recv(&pair->b, wr_id, 0, LENGTH);
	send(wr_id, 0, LENGTH);
	pair_run(pair);
	assert_null(strstr(pair->trace, "OFFER"));
	side_expect(&pair->a, wr_id, IBV_WC_SUCCESS);
	expect_message(wr_id, 0, LENGTH);
}

/* No retry is spent on that, and the window stays. */
static void what_is_refused_goes_by_packets_and_so_do_the_next(void **state)
{
	uint32_t window = pair->a.qp->requester->window.packets;

	refuse_from = 0;
	side_post_recv(&pair->b, 7, 0, LENGTH);
	pair->a.qp->attr.retry_cnt = pair->a.qp->requester->retries_left = 0;
	send(1, 0, LENGTH);
	pair_run(pair);
	assert_non_null(strstr(pair->trace, "A OFFER 1 ack\nB NAK31 1\nA SEND_FIRST 1\n"));
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	expect_message(7, 0, LENGTH);
	assert_true(pair->a.qp->requester->window.packets >= window);
	refuse_from = 1 << 20;
	for (int i = 0; i < 31; i++)
		expect_packets(i);
	for (int i = 0; i < 3; i++) {
		side_post_recv(&pair->b, 7, 0, LENGTH);
		send(1, 0, LENGTH);
		pair_run(pair);
		side_expect(&pair->a, 1, IBV_WC_SUCCESS);
		expect_message(7, 0, LENGTH);
	}
	assert_true(fetches >= 1);
}

/* All that was offered behind it goes by packets, too. */
static void several_on_their_way_when_one_is_declined(void **state)
{
	refuse_from = 2;
	for (int i = 0; i < 5; i++)
		side_post_recv(&pair->b, i, i * LENGTH, LENGTH);
	for (int i = 0; i < 5; i++)
		send(i, i * LENGTH, LENGTH);
	pair_run(pair);
	for (int i = 0; i < 5; i++) {
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
		expect_message(i, i * LENGTH, LENGTH);
	}
	assert_int_equal(fetches, 2);
}

/* A part of it is here already. */
static void one_that_is_refused_in_the_middle(void **state)
{
	struct ibv_sge from[3] = {side_sge(&pair->a, 0, 700000), side_sge(&pair->a, 0, 700000),
				  side_sge(&pair->a, 0, 10)};
	struct ibv_sge to[2] = {side_sge(&pair->b, 0, 700000), side_sge(&pair->b, 0, 800000)};
	struct ibv_recv_wr recv = {.wr_id = 7, .sg_list = to, .num_sge = 2}, *bad_recv;
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = from, .num_sge = 3};

	for (int i = 0; i < 4; i++) {
		refuse_from = fetches + i;
		pair->b.qp->requester->has_packets = pair->a.qp->requester->has_packets = false;
		assert_int_equal(qp_post_recv(pair->b.qp, &recv, &bad_recv), 0);
		memset(pair->b.memory, 0, PAIR_MEMORY);
		side_post(&pair->a, &wr);
		pair_run(pair);
		side_expect(&pair->a, 1, IBV_WC_SUCCESS);
		assert_int_equal(side_expect(&pair->b, 7, IBV_WC_SUCCESS).byte_len, 1400010);
		assert_memory_equal(pair->a.memory, pair->b.memory, 700000);
		assert_memory_equal(pair->a.memory, pair->b.memory + 700000, 10);
		pair->trace[0] = '\0';
	}
}

/* ---- what is wrong ---- */

static void a_receive_that_is_too_short(void **state)
{
	side_post_recv(&pair->b, 7, 0, LENGTH - 1);
	send(1, 0, LENGTH);
	pair_run(pair);
	side_expect(&pair->b, 7, IBV_WC_LOC_LEN_ERR);
	side_expect(&pair->a, 1, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(fetches, 0);
}

static void a_senders_key_that_is_wrong(void **state)
{
	struct ibv_sge sge = side_sge(&pair->a, 0, LENGTH);
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};

	sge.lkey ^= 1;
	side_post_recv(&pair->b, 7, 0, LENGTH);
	side_post(&pair->a, &wr);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(fetches, 0);
}

static void a_receivers_key_that_is_wrong(void **state)
{
	struct ibv_sge sge = side_sge(&pair->b, 0, LENGTH);
	struct ibv_recv_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1}, *bad;

	sge.lkey ^= 1;
	assert_int_equal(qp_post_recv(pair->b.qp, &wr, &bad), 0);
	send(1, 0, LENGTH);
	pair_run(pair);
	side_expect(&pair->b, 7, IBV_WC_LOC_PROT_ERR);
	side_expect(&pair->a, 1, IBV_WC_REM_OP_ERR);
	assert_int_equal(fetches, 0);
}

/* ---- who is not offered anything ---- */

static void not_before_the_peer_is_known(void **state)
{
	tear_down(state);
	connect_with();
	side_post_recv(&pair->b, 1, 0, LENGTH);
	send(1, 0, LENGTH);
	pair_run(pair);
	assert_ptr_equal(strstr(pair->trace, "A SEND_FIRST 0\nA SEND_MIDDLE 1\n"), pair->trace);
	/* what is left when it is known is offered */
	assert_non_null(strstr(pair->trace, "OFFER"));
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	expect_message(1, 0, LENGTH);
	pair->trace[0] = '\0';
	side_post_recv(&pair->b, 7, 0, LENGTH);
	send(2, 0, LENGTH);
	pair_run(pair);
	pair_expect_trace(pair, "A OFFER 98 ack\n"
				"B ACK 195\n");
}

enum { GENERATION = 7 << 3 };

static int is_older(struct pair *flight, struct side *from, struct flying *packet)
{
	if (packet->bytes[4])
		packet->bytes[4] = (packet->bytes[4] & ~GENERATION) | GENERATION_JOINS << 3;
	return 1;
}

static void nor_to_one_that_is_older(void **state)
{
	tear_down(state);
	connect_with();
	pair->meddle = is_older;
	meet();
	assert_true(pair->a.qp->requester->is_peer_ours);
	expect_packets(1);
	expect_packets(2);
}

static void nor_to_another_host(void **state)
{
	is_near = false;
	expect_packets(1);
}

static void nor_what_is_short_or_invalidates(void **state)
{
	struct ibv_sge sge = side_sge(&pair->a, 0, LENGTH);
	struct ibv_send_wr wr = {.wr_id = 1,
				 .opcode = IBV_WR_SEND_WITH_INV,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .invalidate_rkey = 77};

	side_post_recv(&pair->b, 7, 0, LENGTH);
	send(1, 0, CONTEST_BYTES - 1);
	pair_run(pair);
	expect_message(7, 0, CONTEST_BYTES - 1);
	side_post_recv(&pair->b, 7, 0, LENGTH);
	side_post(&pair->a, &wr);
	pair_run(pair);
	assert_null(strstr(pair->trace, "OFFER"));
}

/* ---- the sender is stopped while it helps ---- */

static void a_fetch_that_takes_long_goes_on_and_nothing_is_lost(void **state)
{
	for (at_fetch = 0; at_fetch < 3; at_fetch++) {
		fetches = 0;
		late_times = 3;
		for (int i = 0; i < 5; i++)
			side_post_recv(&pair->b, i, i * LENGTH, LENGTH);
		memset(pair->b.memory, 0, PAIR_MEMORY);
		for (int i = 0; i < 5; i++)
			send(i, i * LENGTH, i == 4 ? 100 : LENGTH);
		pair_run(pair);
		assert_int_equal(fetches, at_fetch);
		assert_int_equal(late_times, 2);
		pair_run_out(pair);
		assert_int_equal(late_times, 0);
		for (int i = 0; i < 5; i++)
			side_expect(&pair->a, i, IBV_WC_SUCCESS);
		for (int i = 0; i < 5; i++)
			expect_message(i, i * LENGTH, i == 4 ? 100 : LENGTH);
		side_expect_none(&pair->b);
		pair->trace[0] = '\0';
		pair->a.qp->requester->has_packets = false;
	}
}

/* The requester loses patience: its packets of the same message are not taken meanwhile. */
static void one_that_takes_longer_than_the_ack_timeout(void **state)
{
	late_times = 900;
	for (int i = 0; i < 2; i++)
		side_post_recv(&pair->b, i, 0, LENGTH);
	send(1, 0, LENGTH);
	pair_run_out(pair);
	assert_int_equal(late_times, 0);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	expect_message(0, 0, LENGTH);
	side_expect_none(&pair->b);
	assert_true(transport_counters(pair->a.qp)->timeouts > 0);
}

static void its_receiver_may_go_into_error_or_reset_meanwhile(void **state)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_ERR, IBV_QPS_RESET};

	for (int i = 0; i < 2; i++) {
		late_times = 1000;
		side_post_recv(&pair->b, 7, 0, LENGTH);
		send(1, 0, LENGTH);
		pair_run(pair);
		assert_non_null(pair->b.qp->responder->fetch);
		assert_int_equal(side_modify(&pair->b, states[i]), 0);
		assert_null(pair->b.qp->responder->fetch);
		pair_run(pair);
		if (states[i] == IBV_QPS_ERR)
			side_expect(&pair->b, 7, IBV_WC_WR_FLUSH_ERR);
		side_expect_none(&pair->b);
		tear_down(state);
		connect_with();
		meet();
	}
}

/* ---- what could be a record too (contest.h) ---- */

static void meet_with_records(void)
{
	pair_free(pair);
	options.has_express = true;
	connect_with();
	meet();
}

static void pass(uint64_t wr_id, uint32_t length)
{
	side_post_recv(&pair->b, wr_id, 0, LENGTH);
	send(wr_id, 0, length);
	pair_run(pair);
	side_expect(&pair->a, wr_id, IBV_WC_SUCCESS);
	expect_message(wr_id, 0, length);
}

static void a_middling_one_goes_as_its_contest_has_it(void **state)
{
	struct contests *contests;

	pass(1, CONTEST_BYTES); /* that cannot be one */
	pair_expect_trace(pair, "A OFFER 1 ack\nB ACK 16\n");
	meet_with_records();
	contests = &pair->a.qp->requester->contests;
	pass(1, 65536);
	pair_expect_trace(pair, "A express 1\nB ACK 64\n");
	contests->of[0].duel.way = contests->of[1].duel.way = CONTEST_OFFERS;
	pair->trace[0] = '\0';
	pass(2, 65536);
	pass(3, CONTEST_BYTES);
	pair_expect_trace(pair, "A OFFER 65 ack\nB ACK 128\nA OFFER 129 ack\nB ACK 144\n");
	pair->trace[0] = '\0';
	pass(4, CONTEST_BYTES - 1);
	is_near = false;
	pass(5, CONTEST_BYTES);
	pair_expect_trace(pair, "A express 145\nB ACK 160\nA express 161\nB ACK 176\n");
	assert_int_equal(fetches, 2);
}

static void which_follows_what_they_take(void **state)
{
	enum { DECIDED = CONTEST_FIRST + 2 * CONTEST_TIMES * (CONTEST_WARM + CONTEST_WINDOW + 8) };
	const struct transport_counters *counters;

	meet_with_records();
	counters = transport_counters(pair->a.qp);
	for (uint64_t i = 1; i <= DECIDED + 500; i++) {
		uint64_t before = counters->offered;

		pair->trace[0] = '\0';
		pass(i, 40000);
		clock_now += counters->offered > before ? 2000 : 3000;
		assert_true(i <= DECIDED || counters->offered == before + 1);
	}
	assert_true(counters->expressed > CONTEST_FIRST);
}

/* ---- nonsense ---- */

static void put_offer(uint32_t psn, const uint8_t *payload, uint32_t length)
{
	struct flying flying = {.av = pair->a.qp->av};
	struct bth bth = {.opcode = OPCODE_OFFER,
			  .pkey = 0xffff,
			  .dest_qp = pair->b.qp->number,
			  .psn = psn_add(pair->a.psn, psn),
			  .ack_req = true};

	bth_pack(flying.bytes, &bth);
	memcpy(flying.bytes + BTH_BYTES, payload, length);
	flying.size = BTH_BYTES + length;
	side_receive(&pair->b, &flying);
}

static void an_offer_that_makes_no_sense_is_declined(void **state)
{
	static const struct {
		uint8_t version, flags;
		uint16_t pieces;
		uint32_t size, length;
	} wrongs[] = {
	    {0, 3, 1, 24, LENGTH},
	    {2, 3, 1, 24, LENGTH},
	    {1, 3, 0, 8, 0},
	    {1, 3, 2, 24, LENGTH},
	    {1, 3, 1, 40, LENGTH},
	    {1, 3, 1, 24, 0},
	    {1, 1, 1, 24, 1025},
	    {1, 2, 1, 24, LENGTH},
	    {1, 0, 1, 24, 1024},
	    {1, 3, 1, 24, PAIR_MEMORY + 1},
	    {1, 3, 33, 8 + 33 * 16, 1},
	    {1, 3, 1, 4, 1},
	};

	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		uint8_t payload[8 + 33 * 16] = {0};
		struct offer_head head = {.flags = wrongs[i].flags, .pieces = wrongs[i].pieces};
		struct reth piece = {(uintptr_t)pair->a.memory, pair->a.mr->rkey, wrongs[i].length};

		offer_pack(payload, &head);
		payload[0] = wrongs[i].version;
		for (uint32_t at = 8; at + 16 <= sizeof(payload); at += 16)
			reth_pack(payload + at, &piece);
		side_post_recv(&pair->b, 7, 0, LENGTH);
		pair->trace[0] = '\0';
		put_offer(1, payload, wrongs[i].size);
		pair_run(pair);
		pair_expect_trace(pair, "B NAK31 1\n");
		side_expect_none(&pair->b);
		assert_null(pair->b.qp->responder->fetch);
	}
	assert_int_equal(fetches, 0);
	/* and it goes on */
	send(1, 0, LENGTH);
	pair_run(pair);
	expect_message(7, 0, LENGTH);
}

/* In the middle of a message that came as packets, or of a WRITE. */
static void an_offer_in_the_middle_of_something_else(void **state)
{
	uint8_t payload[24];
	struct offer_head head = {.flags = OFFER_STARTS | OFFER_ENDS, .pieces = 1};
	struct reth piece = {(uintptr_t)pair->a.memory, pair->a.mr->rkey, 1000};

	offer_pack(payload, &head);
	reth_pack(payload + 8, &piece);
	pair->room = 1;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 3000);
	side_turn(&pair->a);
	pair_deliver(pair);
	assert_true(transport_is_amid(pair->b.qp));
	pair->room = UINT32_MAX;
	pair->trace[0] = '\0';
	put_offer(2, payload, sizeof(payload));
	pair_expect_trace(pair, "B NAK31 2\n");
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_memory_equal(pair->a.memory, pair->b.memory, 3000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	    TEST(a_long_send_is_fetched),
	    TEST(immediate_and_solicited_come_along),
	    TEST(lists_at_both_ends),
	    TEST(one_of_several_mib_is_several_offers),
	    TEST(short_ones_before_and_behind_keep_their_order),
	    TEST(shared_receives_are_taken_too),
	    TEST(without_a_receive_it_is_offered_again_when_the_peer_may_be_ready),
	    TEST(a_peer_that_is_never_ready_ends_it),
	    TEST(one_that_has_failed_is_withdrawn_before_the_program_is_told),
	    TEST(what_is_lost_comes_by_packets),
	    TEST(one_that_is_lost_before_another_comes_by_packets),
	    TEST(one_whose_ack_is_lost_is_received_once),
	    TEST(what_is_refused_goes_by_packets_and_so_do_the_next),
	    TEST(several_on_their_way_when_one_is_declined),
	    TEST(one_that_is_refused_in_the_middle),
	    TEST(a_receive_that_is_too_short),
	    TEST(a_senders_key_that_is_wrong),
	    TEST(a_receivers_key_that_is_wrong),
	    TEST(not_before_the_peer_is_known),
	    TEST(nor_to_one_that_is_older),
	    TEST(nor_to_another_host),
	    TEST(nor_what_is_short_or_invalidates),
	    TEST(a_fetch_that_takes_long_goes_on_and_nothing_is_lost),
	    TEST(one_that_takes_longer_than_the_ack_timeout),
	    TEST(its_receiver_may_go_into_error_or_reset_meanwhile),
	    TEST(a_middling_one_goes_as_its_contest_has_it),
	    TEST(which_follows_what_they_take),
	    TEST(an_offer_that_makes_no_sense_is_declined),
	    TEST(an_offer_in_the_middle_of_something_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
