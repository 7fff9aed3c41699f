/* SPDX-License-Identifier: BSD-2-Clause */
/* RC as it should go: which packets each operation makes, what reaches memory, which completions
 * come of it. */
#include <sys/mman.h>
#include <unistd.h>

#include "transport_case.h"

static void a_send_is_one_packet_and_one_ack(void **state)
{
	struct pair *pair = *state;
	struct ibv_wc wc;

	strcpy(pair->a.memory, "hello");
	side_post_recv(&pair->b, 7, 1000, 100);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 6);
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\n"
				"B ACK 0\n");
	assert_string_equal(pair->b.memory + 1000, "hello");
	wc = side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 6);
	assert_int_equal(wc.qp_num, pair->b.qp->number);
	assert_int_equal(wc.wc_flags, 0);
	wc = side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	assert_int_equal(wc.qp_num, pair->a.qp->number);
	side_expect_none(&pair->a);
	assert_int_equal(transport_deadline(pair->a.qp), NO_DEADLINE);
}

static void a_long_message_is_first_middle_last(void **state)
{
	struct pair *pair = *state;

	fill(pair->a.memory, 3000, 1);
	side_post_recv(&pair->b, 7, 5000, 3000);
	side_request(&pair->a, IBV_WR_SEND_WITH_IMM, 1, 0, 3000);
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_FIRST 0\n"
				"A SEND_MIDDLE 1\n"
				"A SEND_LAST_IMM 2 ack\n"
				"B ACK 2\n");
	assert_memory_equal(pair->a.memory, pair->b.memory + 5000, 3000);
	assert_int_equal(pair->b.memory[8000], 0);
	assert_int_equal(side_expect(&pair->b, 7, IBV_WC_SUCCESS).imm_data, htobe32(0x12345678));
}

static void a_message_of_no_bytes_is_a_message(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND};

	side_post_recv(&pair->b, 7, 0, 0);
	side_post(&pair->a, &wr);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr_id = 2;
	side_post(&pair->a, &wr);
	wr.opcode = IBV_WR_RDMA_READ;
	wr.wr_id = 3;
	side_post(&pair->a, &wr);
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\n"
				"A WRITE_ONLY 1 ack\n"
				"A READ_REQUEST 2 ack\n"
				"B READ_RESPONSE_ONLY 2\n");
	assert_int_equal(side_expect(&pair->b, 7, IBV_WC_SUCCESS).byte_len, 0);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	side_expect(&pair->a, 3, IBV_WC_SUCCESS);
}

static void a_batch_of_messages_gets_one_ack(void **state)
{
	struct pair *pair = *state;

	for (int i = 0; i < 4; i++) {
		side_post_recv(&pair->b, 10 + i, 1000 * i, 100);
		side_request(&pair->a, IBV_WR_SEND, i, 0, 100);
	}
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_ONLY 0 ack\n"
				"A SEND_ONLY 1 ack\n"
				"A SEND_ONLY 2 ack\n"
				"A SEND_ONLY 3 ack\n"
				"B ACK 3\n");
	for (int i = 0; i < 4; i++) {
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
		side_expect(&pair->b, 10 + i, IBV_WC_SUCCESS);
	}
}

static void a_write_reaches_memory_and_wakes_nobody(void **state)
{
	struct pair *pair = *state;

	fill(pair->a.memory + 64, 2049, 2);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 64, 2049);
	pair_run(pair);
	pair_expect_trace(pair, "A WRITE_FIRST 0\n"
				"A WRITE_MIDDLE 1\n"
				"A WRITE_LAST 2 ack\n"
				"B ACK 2\n");
	assert_memory_equal(pair->a.memory + 64, pair->b.memory + 64, 2049);
	assert_int_equal(side_expect(&pair->a, 1, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
	side_expect_none(&pair->b);
}

static void a_write_with_immediate_completes_a_receive(void **state)
{
	struct pair *pair = *state;
	struct ibv_wc wc;

	side_post_recv(&pair->b, 7, 0, 0);
	side_request(&pair->a, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 64, 1500);
	pair_run(pair);
	pair_expect_trace(pair, "A WRITE_FIRST 0\n"
				"A WRITE_LAST_IMM 1 ack\n"
				"B ACK 1\n");
	wc = side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 1500);
	assert_int_equal(wc.imm_data, htobe32(0x12345678));
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
}

static void a_read_is_answered_with_one_psn_for_each_packet(void **state)
{
	struct pair *pair = *state;
	struct ibv_wc wc;

	fill(pair->b.memory, 2500, 3);
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 0, 2500);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 4000, 8);
	pair_run(pair);
	pair_expect_trace(pair, "A READ_REQUEST 0 ack\n"
				"A WRITE_ONLY 3 ack\n"
				"B READ_RESPONSE_FIRST 0\n"
				"B READ_RESPONSE_MIDDLE 1\n"
				"B READ_RESPONSE_LAST 2\n"
				"B ACK 3\n");
	assert_memory_equal(pair->a.memory, pair->b.memory, 2500);
	wc = side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
	assert_int_equal(wc.byte_len, 2500);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
}

static void a_long_read_goes_out_in_requests_within_the_window(void **state)
{
	struct pair *pair = *state;
	const struct transport_counters *counters = transport_counters(pair->a.qp);

	fill(pair->b.memory, 700000, 4);
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 0, 700000);
	pair_run(pair);
	assert_memory_equal(pair->a.memory, pair->b.memory, 700000);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
	assert_in_range(counters->sent_packets, 2, 20);
	assert_int_equal(counters->resent, 0);
}

static void atomics_return_the_value_before(void **state)
{
	struct pair *pair = *state;
	uint64_t *word = (uint64_t *)(void *)(pair->b.memory + 512);
	const uint64_t *result = (const uint64_t *)(void *)pair->a.memory;

	*word = 40;
	side_atomic(&pair->a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 512, 2, 0);
	side_atomic(&pair->a, IBV_WR_ATOMIC_CMP_AND_SWP, 2, 8, 512, 42, 0x0102030405060708);
	side_atomic(&pair->a, IBV_WR_ATOMIC_CMP_AND_SWP, 3, 16, 512, 42, 9);
	pair_run(pair);
	pair_expect_trace(pair, "A FETCH_ADD 0 ack\n"
				"A COMPARE_SWAP 1 ack\n"
				"A COMPARE_SWAP 2 ack\n"
				"B ATOMIC_ACKNOWLEDGE 0\n"
				"B ATOMIC_ACKNOWLEDGE 1\n"
				"B ATOMIC_ACKNOWLEDGE 2\n");
	assert_true(*word == 0x0102030405060708);
	assert_int_equal(result[0], 40);
	assert_int_equal(result[1], 42);
	assert_true(result[2] == 0x0102030405060708);
	assert_int_equal(side_expect(&pair->a, 1, IBV_WC_SUCCESS).opcode, IBV_WC_FETCH_ADD);
	assert_int_equal(side_expect(&pair->a, 2, IBV_WC_SUCCESS).opcode, IBV_WC_COMP_SWAP);
	assert_int_equal(side_expect(&pair->a, 3, IBV_WC_SUCCESS).byte_len, 8);
}

static struct send_wqe *begin(struct side *side, enum ibv_wr_opcode opcode, uint64_t remote)
{
	const struct side *peer = side == &side->pair->a ? &side->pair->b : &side->pair->a;
	struct send_wqe *wqe;

	sq_begin(side->qp);
	wqe = sq_next(side->qp);
	wqe->opcode = opcode;
	wqe->flags = IBV_SEND_SIGNALED;
	wqe->remote_addr = (uintptr_t)peer->memory + remote;
	wqe->rkey = peer->mr->rkey;
	return wqe;
}

static void flush_and_atomic_write_are_answered_by_an_empty_read_response(void **state)
{
	struct pair *pair = *state;
	struct send_wqe *wqe;

	wqe = begin(&pair->a, IBV_WR_ATOMIC_WRITE, 64);
	wqe->length = 8;
	memcpy(&wqe->atomic_write, "8 bytes!", 8);
	sq_commit(pair->a.qp);
	wqe = begin(&pair->a, IBV_WR_FLUSH, 64);
	wqe->length = 8;
	wqe->flush.type = IBV_FLUSH_GLOBAL;
	wqe->flush.level = IBV_FLUSH_RANGE;
	sq_commit(pair->a.qp);
	pair_schedule(&pair->a.adapter, pair->a.qp);
	pair_run(pair);
	pair_expect_trace(pair, "A ATOMIC_WRITE 0 ack\n"
				"A FLUSH 1 ack\n"
				"B READ_RESPONSE_ONLY 0\n"
				"B READ_RESPONSE_ONLY 1\n");
	assert_memory_equal(pair->b.memory + 64, "8 bytes!", 8);
	assert_int_equal(side_expect(&pair->a, 0, IBV_WC_SUCCESS).opcode, IBV_WC_ATOMIC_WRITE);
	assert_int_equal(side_expect(&pair->a, 0, IBV_WC_SUCCESS).opcode, IBV_WC_FLUSH);
}

static void a_flush_of_a_region_needs_no_address_and_reaches_the_file(void **state)
{
	struct pair *pair;
	struct send_wqe *wqe;
	char path[] = "/tmp/flush-XXXXXX", *file;
	struct mr *mr;
	int fd;

	options.access |= IBV_ACCESS_FLUSH_PERSISTENT;
	pair = pair_connected(&options);
	fd = mkstemp(path);
	unlink(path);
	assert_int_equal(ftruncate(fd, 8192), 0);
	file = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_int_equal(mr_create(pair->b.pd, file + 100, 5000, 0, options.access, &mr), 0);
	wqe = begin(&pair->a, IBV_WR_FLUSH, 0);
	wqe->remote_addr = 0xdead0000;
	wqe->rkey = mr->rkey;
	wqe->length = 1;
	wqe->flush.type = IBV_FLUSH_PERSISTENT;
	wqe->flush.level = IBV_FLUSH_MR;
	sq_commit(pair->a.qp);
	wqe = begin(&pair->a, IBV_WR_FLUSH, 0);
	wqe->remote_addr = 4999;
	wqe->rkey = mr->rkey;
	wqe->length = 2;
	wqe->flush.type = IBV_FLUSH_PERSISTENT;
	sq_commit(pair->a.qp);
	pair_schedule(&pair->a.adapter, pair->a.qp);
	pair_run(pair);
	side_expect(&pair->a, 0, IBV_WC_SUCCESS);
	side_expect(&pair->a, 0, IBV_WC_REM_ACCESS_ERR);
	mr_destroy(mr);
	munmap(file, 8192);
	close(fd);
	pair_free(pair);
}

static void max_rd_atomic_bounds_what_is_outstanding(void **state)
{
	struct pair *pair = *state;

	for (int i = 0; i < 6; i++)
		side_request(&pair->a, IBV_WR_RDMA_READ, i, 64 * i, 64);
	side_turn(&pair->a);
	assert_int_equal(pair->count, 4);
	pair_run(pair);
	for (int i = 0; i < 6; i++)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
}

static void a_fenced_request_waits_for_the_read_before_it(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->a, 0, 8);
	struct ibv_send_wr wr = {
	    .wr_id = 2,
	    .opcode = IBV_WR_RDMA_WRITE,
	    .send_flags = IBV_SEND_FENCE,
	    .sg_list = &sge,
	    .num_sge = 1,
	    .wr.rdma = {(uintptr_t)pair->b.memory + 100, pair->b.mr->rkey},
	};

	strcpy(pair->b.memory, "to be copied");
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 0, 8);
	side_post(&pair->a, &wr);
	pair_run(pair);
	pair_expect_trace(pair, "A READ_REQUEST 0 ack\n"
				"B READ_RESPONSE_ONLY 0\n"
				"A WRITE_ONLY 1 ack\n"
				"B ACK 1\n");
	assert_memory_equal(pair->b.memory + 100, "to be copied", 8);
}

static void psns_wrap(void **state)
{
	struct pair *pair;

	options.psn_a = 0xfffffe;
	pair = pair_connected(&options);
	side_post_recv(&pair->b, 7, 9000, 5000);
	fill(pair->a.memory, 5000, 5);
	fill(pair->b.memory, 3000, 6);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 5000);
	side_request(&pair->a, IBV_WR_RDMA_READ, 2, 0, 3000);
	pair_run(pair);
	assert_memory_equal(pair->b.memory, pair->a.memory, 3000);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	pair_free(pair);
}

static void unsignaled_requests_complete_in_silence_and_make_room(void **state)
{
	struct pair *pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};

	options.sq_sig_all = false;
	pair = pair_connected(&options);
	sge = side_sge(&pair->a, 0, 8);
	wr.wr.rdma.remote_addr = (uintptr_t)pair->b.memory;
	wr.wr.rdma.rkey = pair->b.mr->rkey;
	for (int i = 0; i < 200; i++) {
		wr.wr_id = i;
		wr.send_flags = i % 50 == 49 ? IBV_SEND_SIGNALED : 0;
		side_post(&pair->a, &wr);
		pair_run(pair);
	}
	for (int i = 49; i < 200; i += 50)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
	pair_free(pair);
}

static void an_element_list_is_gathered_and_scattered(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge from[3] = {side_sge(&pair->a, 0, 700), side_sge(&pair->a, 5000, 0),
				  side_sge(&pair->a, 2000, 1500)};
	struct ibv_sge to[4] = {side_sge(&pair->b, 100, 1), side_sge(&pair->b, 300, 1099),
				side_sge(&pair->b, 2000, 600), side_sge(&pair->b, 4000, 5000)};
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = from, .num_sge = 3};
	struct ibv_recv_wr recv = {.wr_id = 7, .sg_list = to, .num_sge = 4}, *bad;
	char sent[2200], got[2200];

	fill(pair->a.memory, 4000, 7);
	memcpy(sent, pair->a.memory, 700);
	memcpy(sent + 700, pair->a.memory + 2000, 1500);
	assert_int_equal(qp_post_recv(pair->b.qp, &recv, &bad), 0);
	side_post(&pair->a, &wr);
	pair_run(pair);
	memcpy(got, pair->b.memory + 100, 1);
	memcpy(got + 1, pair->b.memory + 300, 1099);
	memcpy(got + 1100, pair->b.memory + 2000, 600);
	memcpy(got + 1700, pair->b.memory + 4000, 500);
	assert_memory_equal(sent, got, sizeof(sent));
	assert_int_equal(side_expect(&pair->b, 7, IBV_WC_SUCCESS).byte_len, 2200);
}

static void a_full_outbox_only_delays(void **state)
{
	struct pair *pair = *state;

	fill(pair->a.memory, 20000, 8);
	side_post_recv(&pair->b, 7, 50000, 20000);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 20000);
	side_request(&pair->a, IBV_WR_RDMA_READ, 2, 100000, 20000);
	for (int i = 0; i < 200; i++) {
		pair->room = 1;
		if (pair->a.is_scheduled)
			side_turn(&pair->a);
		if (pair->b.is_scheduled)
			side_turn(&pair->b);
		pair_deliver(pair);
	}
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	assert_memory_equal(pair->a.memory, pair->b.memory + 50000, 20000);
}

static void solicited_is_told_apart(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

	side_post_recv(&pair->b, 7, 0, 8);
	side_post_recv(&pair->b, 8, 0, 8);
	cq_arm(pair->b.cq, true);
	side_post(&pair->a, &wr);
	pair_run(pair);
	assert_int_equal(pair->b.cq->arm, CQ_ARMED_SOLICITED);
	wr.send_flags = IBV_SEND_SOLICITED;
	side_post(&pair->a, &wr);
	pair_run(pair);
	assert_int_equal(pair->b.cq->arm, CQ_NOT_ARMED);
}

static void the_window_is_never_overrun_and_always_asks_for_an_ack(void **state)
{
	struct pair *pair = *state;

	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 900000);
	while (pair->a.is_scheduled)
		side_turn(&pair->a);
	assert_true(pair->count > 48 && pair->count <= 64);
	assert_true(pair->packets[pair->count - 1].bytes[8] & 0x80);
	assert_true(pair->packets[31].bytes[8] & 0x80);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

/* A segmented send takes 62 packets of 1024 bytes; here of the window's 64. */
static void what_a_segmented_send_leaves_over_waits_for_an_answer(void **state)
{
	struct pair *pair = *state;

	for (int i = 0; i < 4; i++)
		side_post_recv(&pair->b, 10 + i, 300000, 20480);
	for (int i = 0; i < 4; i++) {
		side_request(&pair->a, IBV_WR_SEND, i, 0, 20480);
		while (pair->a.is_scheduled)
			side_turn(&pair->a);
	}
	assert_int_equal(pair->count, 60);
	assert_true(pair->packets[59].bytes[8] & 0x80);
	pair_run(pair);
	for (int i = 0; i < 4; i++)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
}

static void a_message_alone_waits_for_nothing(void **state)
{
	struct pair *pair = *state;

	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 65536);
	while (pair->a.is_scheduled)
		side_turn(&pair->a);
	assert_int_equal(pair->count, 64);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
}

static int set_up_large(void **state)
{
	options = default_options;
	options.mtu = IBV_MTU_4096;
	*state = pair_connected(&options);
	return 0;
}

/* Posts SENDs of that length until there are `count`, and lets no answer in. */
static void post_unanswered(struct pair *pair, int count, uint32_t length)
{
	for (int i = 0; i < count; i++) {
		side_post_recv(&pair->b, i, 0, 4096);
		side_request(&pair->a, IBV_WR_SEND, i, 0, length);
		while (pair->a.is_scheduled)
			side_turn(&pair->a);
	}
}

/* The window is 16 packets of 4096 bytes. */
static void of_small_packets_the_window_has_room_for_more(void **state)
{
	struct pair *pair = *state;

	post_unanswered(pair, 40, 1024);
	assert_int_equal(pair->count, 40);
	pair_run(pair);
	for (int i = 0; i < 40; i++)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
}

static void not_so_while_a_large_one_is_among_them(void **state)
{
	struct pair *pair = *state;

	post_unanswered(pair, 1, 1025);
	post_unanswered(pair, 20, 8);
	assert_int_equal(pair->count, 16);
	pair_run(pair);
	for (int i = 0; i < 21; i++)
		side_expect(&pair->a, i ? i - 1 : 0, IBV_WC_SUCCESS);
	post_unanswered(pair, 40, 8);
	assert_int_equal(pair->count, 40);
	pair_run(pair);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(a_send_is_one_packet_and_one_ack),
	    TEST(a_long_message_is_first_middle_last),
	    TEST(a_message_of_no_bytes_is_a_message),
	    TEST(a_batch_of_messages_gets_one_ack),
	    TEST(a_write_reaches_memory_and_wakes_nobody),
	    TEST(a_write_with_immediate_completes_a_receive),
	    TEST(a_read_is_answered_with_one_psn_for_each_packet),
	    TEST(a_long_read_goes_out_in_requests_within_the_window),
	    TEST(atomics_return_the_value_before),
	    TEST(flush_and_atomic_write_are_answered_by_an_empty_read_response),
	    TEST(a_flush_of_a_region_needs_no_address_and_reaches_the_file),
	    TEST(max_rd_atomic_bounds_what_is_outstanding),
	    TEST(a_fenced_request_waits_for_the_read_before_it),
	    TEST(psns_wrap),
	    TEST(unsignaled_requests_complete_in_silence_and_make_room),
	    TEST(an_element_list_is_gathered_and_scattered),
	    TEST(a_full_outbox_only_delays),
	    TEST(solicited_is_told_apart),
	    TEST(the_window_is_never_overrun_and_always_asks_for_an_ack),
	    TEST(what_a_segmented_send_leaves_over_waits_for_an_answer),
	    TEST(a_message_alone_waits_for_nothing),
	    cmocka_unit_test_setup_teardown(of_small_packets_the_window_has_room_for_more,
					    set_up_large, tear_down),
	    cmocka_unit_test_setup_teardown(not_so_while_a_large_one_is_among_them, set_up_large,
					    tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
