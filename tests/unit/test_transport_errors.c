/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC errors: who gets which completion or event, with which reason, and what goes over the wire.
 * Forged packets stand in for a peer that breaks the protocol.
 */
#define _GNU_SOURCE /* REG_RIP */
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "transport_case.h"
#include "faults.h"

static void post_to(struct side *side, enum ibv_wr_opcode opcode, uint64_t remote, uint32_t rkey,
		    uint32_t length)
{
	struct ibv_sge sge = side_sge(side, 0, length);
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = opcode, .sg_list = &sge, .num_sge = 1};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	side_post(side, &wr);
	wr.wr_id = 2;
	side_post(side, &wr);
}

/* The first request fails with `status`, the second is flushed; both QPs are in error, B was told
 * by `event`. */
static void expect_refused(struct pair *pair, enum ibv_wc_status status, enum reason reason,
			   enum ibv_event_type event)
{
	pair_run(pair);
	assert_int_equal(side_expect(&pair->a, 1, status).vendor_err, reason);
	assert_int_equal(side_expect(&pair->a, 2, IBV_WC_WR_FLUSH_ERR).vendor_err,
			 REASON_SEND_FLUSHED);
	side_expect_none(&pair->a);
	assert_int_equal(pair->a.qp->state, IBV_QPS_ERR);
	assert_int_equal(pair->b.qp->state, IBV_QPS_ERR);
	assert_true(side_had_event(&pair->b, event));
	assert_int_equal(transport_counters(pair->b.qp)->error_naks_sent, 1);
}

static void expect_access_error(struct pair *pair)
{
	expect_refused(pair, IBV_WC_REM_ACCESS_ERR, REASON_PEER_REFUSED_ACCESS,
		       IBV_EVENT_QP_ACCESS_ERR);
}

static void expect_invalid_request(struct pair *pair)
{
	expect_refused(pair, IBV_WC_REM_INV_REQ_ERR, REASON_PEER_INVALID_REQUEST,
		       IBV_EVENT_QP_REQ_ERR);
}

static void a_wrong_rkey_is_a_remote_access_error(void **state)
{
	const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
					      IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct pair *pair;

	for (int i = 0; i < 3; i++) {
		pair = pair_connected(&options);
		post_to(&pair->a, opcodes[i], (uintptr_t)pair->b.memory, pair->b.mr->rkey ^ 1, 8);
		expect_access_error(pair);
		pair_free(pair);
		pair = pair_connected(&options);
		post_to(&pair->a, opcodes[i], (uintptr_t)pair->b.memory, pair->b.mr->lkey, 8);
		expect_access_error(pair);
		pair_free(pair);
	}
}

static void a_range_past_the_region_is_refused_before_anything_is_written(void **state)
{
	struct pair *pair = *state;

	fill(pair->a.memory, 4096, 1);
	post_to(&pair->a, IBV_WR_RDMA_WRITE, (uintptr_t)pair->b.memory + PAIR_MEMORY - 4095,
		pair->b.mr->rkey, 4096);
	expect_access_error(pair);
	for (int i = 1; i < 5000; i++)
		assert_int_equal(pair->b.memory[PAIR_MEMORY - i], 0);
}

static void an_operation_that_the_qp_does_not_allow_is_an_invalid_request(void **state)
{
	const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
					      IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct pair *pair;

	options.access = IBV_ACCESS_LOCAL_WRITE;
	for (int i = 0; i < 3; i++) {
		pair = pair_connected(&options);
		post_to(&pair->a, opcodes[i], (uintptr_t)pair->b.memory, pair->b.mr->rkey, 8);
		expect_invalid_request(pair);
		pair_free(pair);
	}
}

static void an_unaligned_atomic_is_an_invalid_request(void **state)
{
	struct pair *pair = *state;

	post_to(&pair->a, IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)pair->b.memory + 4,
		pair->b.mr->rkey, 8);
	expect_invalid_request(pair);
}

static void more_reads_than_the_peer_takes_are_an_invalid_request(void **state)
{
	struct pair *pair;

	options.max_dest_rd = 1;
	pair = pair_connected(&options);
	post_to(&pair->a, IBV_WR_RDMA_READ, (uintptr_t)pair->b.memory, pair->b.mr->rkey, 8);
	pair_run(pair);
	/* the first is answered, for a READ is a promise; the second is refused */
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(pair->b.qp->state, IBV_QPS_ERR);
	pair_free(pair);
}

static void a_message_too_long_for_the_receive_fails_at_both_ends(void **state)
{
	struct pair *pair = *state;

	side_post_recv(&pair->b, 7, 0, 1500);
	side_post_recv(&pair->b, 8, 0, 1500);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 1501);
	side_request(&pair->a, IBV_WR_SEND, 2, 0, 1);
	pair_run(pair);
	assert_int_equal(side_expect(&pair->b, 7, IBV_WC_LOC_LEN_ERR).vendor_err,
			 REASON_RECEIVE_TOO_SMALL);
	assert_int_equal(side_expect(&pair->b, 8, IBV_WC_WR_FLUSH_ERR).vendor_err,
			 REASON_RECV_FLUSHED);
	side_expect(&pair->a, 1, IBV_WC_REM_INV_REQ_ERR);
	side_expect(&pair->a, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(pair->b.event_count, 0); /* the completion tells */
}

static void a_receive_with_a_wrong_lkey_fails_at_both_ends(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->b, 0, 100);
	struct ibv_recv_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1}, *bad;

	sge.lkey = pair->b.mr->rkey;
	assert_int_equal(qp_post_recv(pair->b.qp, &wr, &bad), 0);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 10);
	pair_run(pair);
	assert_int_equal(side_expect(&pair->b, 7, IBV_WC_LOC_PROT_ERR).vendor_err,
			 REASON_LKEY_IS_RKEY);
	assert_int_equal(side_expect(&pair->a, 1, IBV_WC_REM_OP_ERR).vendor_err,
			 REASON_PEER_FAILED);
}

static void a_send_with_a_wrong_lkey_waits_its_turn_to_fail(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->a, 0, 100);
	struct ibv_send_wr wr = {.wr_id = 2, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};

	sge.lkey ^= 1;
	side_post_recv(&pair->b, 7, 0, 100);
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 0, 3000);
	side_post(&pair->a, &wr);
	side_request(&pair->a, IBV_WR_SEND, 3, 0, 10);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_LOC_PROT_ERR);
	side_expect(&pair->a, 3, IBV_WC_WR_FLUSH_ERR);
	side_expect_none(&pair->b);
}

#ifdef FAULTS_ARE_FOUND
static void memory_that_is_gone_is_an_error_on_the_side_that_lost_it(void **state)
{
	const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE,
					      IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct pair *pair;
	struct mr *mine, *theirs;
	char *page;

	guard_faults();
	for (int i = 0; i < 4; i++) {
		struct ibv_sge sge = {.length = 8};
		struct ibv_send_wr wr = {
		    .wr_id = 1, .opcode = opcodes[i], .sg_list = &sge, .num_sge = 1};

		page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pair = pair_connected(&options);
		assert_int_equal(mr_create(pair->a.pd, page, 8192, 0, options.access, &mine), 0);
		assert_int_equal(mr_create(pair->b.pd, page, 8192, 0, options.access, &theirs), 0);
		munmap(page, 8192);
		/* ours for what we send or get, theirs for what is theirs */
		sge.lkey = i < 2 ? mine->lkey : pair->a.mr->lkey;
		sge.addr = i < 2 ? 0 : (uintptr_t)pair->a.memory;
		wr.wr.rdma.rkey = i < 2 ? pair->b.mr->rkey : theirs->rkey;
		wr.wr.rdma.remote_addr = i < 2 ? (uintptr_t)pair->b.memory : 0;
		if (opcodes[i] == IBV_WR_ATOMIC_FETCH_AND_ADD)
			wr.wr.atomic.rkey = theirs->rkey;
		side_post(&pair->a, &wr);
		pair_run(pair);
		if (i < 2)
			assert_int_equal(side_expect(&pair->a, 1, IBV_WC_LOC_PROT_ERR).vendor_err,
					 REASON_LOCAL_MEMORY_GONE);
		else
			side_expect(&pair->a, 1, IBV_WC_REM_ACCESS_ERR);
		mr_destroy(mine);
		mr_destroy(theirs);
		pair_free(pair);
	}
}
#endif

static void a_region_that_goes_during_a_read_ends_it(void **state)
{
	struct pair *pair = *state;
	char *memory = calloc(1, 100000);
	struct mr *mr;

	assert_int_equal(mr_create(pair->b.pd, memory, 100000, 0, options.access, &mr), 0);
	post_to(&pair->a, IBV_WR_RDMA_READ, 0, mr->rkey, 60000);
	side_turn(&pair->a);
	pair_deliver(pair);
	pair->room = 10;
	side_turn(&pair->b);
	mr_destroy(mr);
	pair->room = UINT32_MAX;
	expect_access_error(pair);
	free(memory);
}

static void a_read_without_depth_fails_here(void **state)
{
	struct pair *pair;

	options.max_rd = 0;
	pair = pair_connected(&options);
	post_to(&pair->a, IBV_WR_RDMA_READ, (uintptr_t)pair->b.memory, pair->b.mr->rkey, 8);
	pair_run(pair);
	assert_int_equal(side_expect(&pair->a, 1, IBV_WC_LOC_QP_OP_ERR).vendor_err,
			 REASON_NO_READ_DEPTH);
	side_expect(&pair->a, 2, IBV_WC_WR_FLUSH_ERR);
	pair_free(pair);
}

static void a_read_into_a_wrong_place_sends_nothing(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->a, PAIR_MEMORY - 10, 11);
	struct ibv_send_wr wr = {
	    .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1};

	wr.wr.rdma.remote_addr = (uintptr_t)pair->b.memory;
	wr.wr.rdma.rkey = pair->b.mr->rkey;
	side_post(&pair->a, &wr);
	pair_run(pair);
	assert_int_equal(side_expect(&pair->a, 1, IBV_WC_LOC_PROT_ERR).vendor_err,
			 REASON_LKEY_RANGE);
	pair_expect_trace(pair, "");
}

static void more_than_two_gib_is_too_long(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge[2] = {side_sge(&pair->a, 0, UINT32_C(1) << 31),
				 side_sge(&pair->a, 0, 1)};
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 2};

	side_post(&pair->a, &wr);
	pair_run(pair);
	assert_int_equal(side_expect(&pair->a, 1, IBV_WC_LOC_LEN_ERR).vendor_err,
			 REASON_MESSAGE_TOO_LONG);
}

static void a_local_invalidate_of_a_region_is_refused(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_LOCAL_INV};

	wr.invalidate_rkey = pair->a.mr->rkey;
	side_post(&pair->a, &wr);
	pair_run(pair);
	assert_int_equal(side_expect(&pair->a, 1, IBV_WC_MW_BIND_ERR).vendor_err,
			 REASON_INVALIDATE_MR);
}

static void a_send_with_invalidate_of_a_region_is_refused(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->a, 0, 10);
	struct ibv_send_wr wr = {
	    .wr_id = 1, .opcode = IBV_WR_SEND_WITH_INV, .sg_list = &sge, .num_sge = 1};

	wr.invalidate_rkey = pair->b.mr->rkey;
	side_post_recv(&pair->b, 7, 0, 10);
	side_post(&pair->a, &wr);
	pair_run(pair);
	assert_int_equal(side_expect(&pair->b, 7, IBV_WC_REM_ACCESS_ERR).vendor_err,
			 REASON_INVALIDATE_MR);
	side_expect(&pair->a, 1, IBV_WC_REM_ACCESS_ERR);
}

static void a_full_cq_stops_its_qp(void **state)
{
	struct pair *pair;

	options.cqe = 2;
	pair = pair_connected(&options);
	for (int i = 0; i < 4; i++)
		side_request(&pair->a, IBV_WR_RDMA_WRITE, i, 0, 8);
	pair_run(pair);
	assert_true(side_had_event(&pair->a, IBV_EVENT_CQ_ERR));
	assert_true(side_had_event(&pair->a, IBV_EVENT_QP_FATAL));
	assert_int_equal(pair->a.qp->state, IBV_QPS_ERR);
	side_expect(&pair->a, 0, IBV_WC_SUCCESS);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
	pair_free(pair);
}

/* ---- packets that no honest peer sends ---- */

/* A request from A to B with the next PSN, or `ahead` of it. */
static void forge(struct pair *pair, uint8_t operation, uint32_t ahead, uint32_t payload,
		  uint32_t announced)
{
	static struct flying flying;
	struct wire_packet wire = {
	    .bth = {.opcode = TRANSPORT_RC | operation,
		    .pkey = 0xffff,
		    .ack_req = true,
		    .dest_qp = pair->b.qp->number,
		    .psn = psn_add(pair->a.psn, ahead)},
	    .payload_length = payload,
	    .reth = {(uintptr_t)pair->b.memory, pair->b.mr->rkey, announced},
	};
	size_t headers = wire_pack(flying.bytes, &wire);

	memset(flying.bytes + headers, 0x55, payload);
	flying.size = headers + payload + wire_pad(payload);
	flying.av = pair->a.qp->av;
	side_receive(&pair->b, &flying);
	pair_run(pair);
}

static void expect_nak(struct pair *pair, int code, enum reason reason)
{
	char nak[8];

	snprintf(nak, sizeof(nak), "B NAK%d", code);
	assert_non_null(strstr(pair->trace, nak));
	assert_int_equal(pair->b.qp->state, IBV_QPS_ERR);
	assert_int_equal(reason_last(NULL), reason);
}

static void broken_sequences_are_invalid_requests(void **state)
{
	const struct {
		uint8_t first, second;
	} sequences[] = {
	    {OP_SEND_FIRST, OP_WRITE_MIDDLE}, {OP_SEND_FIRST, OP_SEND_FIRST},
	    {OP_SEND_FIRST, OP_SEND_ONLY},    {OP_WRITE_FIRST, OP_SEND_LAST},
	    {OP_WRITE_FIRST, OP_WRITE_FIRST}, {OP_WRITE_FIRST, OP_READ_REQUEST},
	};
	const uint8_t alone[] = {OP_SEND_MIDDLE, OP_SEND_LAST, OP_WRITE_MIDDLE, OP_WRITE_LAST_IMM};
	struct pair *pair;

	for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++) {
		pair = pair_connected(&options);
		side_post_recv(&pair->b, 7, 0, 8000);
		forge(pair, sequences[i].first, 0, 1024, 8000);
		assert_int_equal(pair->b.qp->state, IBV_QPS_RTS);
		forge(pair, sequences[i].second, 1,
		      sequences[i].second == OP_READ_REQUEST ? 0 : 1024, 8000);
		expect_nak(pair, NAK_INVALID_REQUEST, REASON_OPCODE_SEQUENCE);
		if (sequences[i].first == OP_SEND_FIRST)
			side_expect(&pair->b, 7, IBV_WC_REM_INV_REQ_ERR);
		pair_free(pair);
	}
	for (size_t i = 0; i < sizeof(alone); i++) {
		pair = pair_connected(&options);
		forge(pair, alone[i], 0, 1024, 0);
		expect_nak(pair, NAK_INVALID_REQUEST, REASON_OPCODE_SEQUENCE);
		pair_free(pair);
	}
}

static void payloads_of_the_wrong_length_are_invalid_requests(void **state)
{
	const struct {
		uint8_t operation;
		uint32_t payload, announced;
		enum reason reason;
	} packets[] = {
	    {OP_SEND_FIRST, 1020, 0, REASON_PAYLOAD_LENGTH},
	    {OP_SEND_FIRST, 1028, 0, REASON_PAYLOAD_LENGTH},
	    {OP_SEND_ONLY, 1025, 0, REASON_PAYLOAD_LENGTH},
	    {OP_WRITE_FIRST, 1024, 1024, REASON_ANNOUNCED_LENGTH},
	    {OP_WRITE_FIRST, 1024, 5, REASON_ANNOUNCED_LENGTH},
	    {OP_WRITE_ONLY, 100, 101, REASON_ANNOUNCED_LENGTH},
	    {OP_WRITE_ONLY, 100, 99, REASON_ANNOUNCED_LENGTH},
	    {OP_WRITE_FIRST, 1024, 0x80000001, REASON_ANNOUNCED_LENGTH},
	    {OP_READ_REQUEST, 0, 0x80000001, REASON_ANNOUNCED_LENGTH},
	};
	struct pair *pair;

	for (size_t i = 0; i < sizeof(packets) / sizeof(packets[0]); i++) {
		pair = pair_connected(&options);
		side_post_recv(&pair->b, 7, 0, 8000);
		forge(pair, packets[i].operation, 0, packets[i].payload, packets[i].announced);
		expect_nak(pair, NAK_INVALID_REQUEST, packets[i].reason);
		pair_free(pair);
	}
}

static void a_last_packet_without_payload_is_an_invalid_request(void **state)
{
	struct pair *pair = *state;

	side_post_recv(&pair->b, 7, 0, 8000);
	forge(pair, OP_SEND_FIRST, 0, 1024, 0);
	forge(pair, OP_SEND_LAST, 1, 0, 0);
	expect_nak(pair, NAK_INVALID_REQUEST, REASON_PAYLOAD_LENGTH);
}

static void a_write_that_brings_more_than_announced_stops_at_its_end(void **state)
{
	struct pair *pair = *state;

	forge(pair, OP_WRITE_FIRST, 0, 1024, 1500);
	forge(pair, OP_WRITE_LAST, 1, 1000, 0);
	expect_nak(pair, NAK_INVALID_REQUEST, REASON_ANNOUNCED_LENGTH);
	assert_int_equal(pair->b.memory[1024], 0);
}

static void a_stranger_is_not_listened_to(void **state)
{
	struct pair *pair = *state;
	static struct flying flying;

	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 8);
	side_turn(&pair->a);
	flying = pair->packets[pair->first];
	flying.av.sgid.raw[15] ^= 1;
	side_receive(&pair->b, &flying);
	flying.av.sgid.raw[15] ^= 1;
	flying.bytes[3] ^= 1; /* P_Key */
	side_receive(&pair->b, &flying);
	flying.bytes[3] ^= 1;
	flying.bytes[0] |= TRANSPORT_UC;
	side_receive(&pair->b, &flying);
	assert_int_equal(transport_counters(pair->b.qp)->dropped, 3);
	assert_int_equal(transport_counters(pair->b.qp)->received_packets, 0);
	assert_int_equal(pair->b.adapter.bad_pkey, 1);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

static void a_duplicate_read_of_a_region_that_is_gone_is_ignored(void **state)
{
	struct pair *pair = *state;
	static struct flying flying;
	char *memory = calloc(1, 4096);
	struct ibv_sge sge = side_sge(&pair->a, 0, 4096);
	struct ibv_send_wr wr = {
	    .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1};
	struct mr *mr;

	assert_int_equal(mr_create(pair->b.pd, memory, 4096, 0, options.access, &mr), 0);
	wr.wr.rdma.rkey = mr->rkey;
	side_post(&pair->a, &wr);
	side_turn(&pair->a);
	flying = pair->packets[pair->first];
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	mr_destroy(mr);
	side_receive(&pair->b, &flying);
	pair_run(pair);
	assert_int_equal(pair->b.qp->state, IBV_QPS_RTS);
	assert_int_equal(transport_counters(pair->b.qp)->duplicates, 1);
	free(memory);
}

static int wrong_length(struct pair *pair, struct side *from, struct flying *packet)
{
	if (from->name == 'B')
		packet->size -= 4;
	return 1;
}

static void a_response_that_does_not_fit_is_a_bad_response(void **state)
{
	struct pair *pair = *state;

	pair->meddle = wrong_length;
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 0, 2000);
	pair_run(pair);
	assert_int_equal(side_expect(&pair->a, 1, IBV_WC_BAD_RESP_ERR).vendor_err,
			 REASON_BAD_RESPONSE);
	assert_int_equal(pair->a.qp->state, IBV_QPS_ERR);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(a_wrong_rkey_is_a_remote_access_error),
	    TEST(a_range_past_the_region_is_refused_before_anything_is_written),
	    TEST(an_operation_that_the_qp_does_not_allow_is_an_invalid_request),
	    TEST(an_unaligned_atomic_is_an_invalid_request),
	    TEST(more_reads_than_the_peer_takes_are_an_invalid_request),
	    TEST(a_message_too_long_for_the_receive_fails_at_both_ends),
	    TEST(a_receive_with_a_wrong_lkey_fails_at_both_ends),
	    TEST(a_send_with_a_wrong_lkey_waits_its_turn_to_fail),
#ifdef FAULTS_ARE_FOUND
	    TEST(memory_that_is_gone_is_an_error_on_the_side_that_lost_it),
#endif
	    TEST(a_region_that_goes_during_a_read_ends_it),
	    TEST(a_read_without_depth_fails_here),
	    TEST(a_read_into_a_wrong_place_sends_nothing),
	    TEST(more_than_two_gib_is_too_long),
	    TEST(a_local_invalidate_of_a_region_is_refused),
	    TEST(a_send_with_invalidate_of_a_region_is_refused),
	    TEST(a_full_cq_stops_its_qp),
	    TEST(broken_sequences_are_invalid_requests),
	    TEST(payloads_of_the_wrong_length_are_invalid_requests),
	    TEST(a_last_packet_without_payload_is_an_invalid_request),
	    TEST(a_write_that_brings_more_than_announced_stops_at_its_end),
	    TEST(a_stranger_is_not_listened_to),
	    TEST(a_duplicate_read_of_a_region_that_is_gone_is_ignored),
	    TEST(a_response_that_does_not_fit_is_a_bad_response),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
