/* SPDX-License-Identifier: BSD-2-Clause */
/* The packets of long messages, packed many at a time: wherever the elements of a list end,
 * whatever is wrong with one of them, and with the message's ends where these are as long. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "transport_case.h"
#include "faults.h"
#include "wire/icrc.h"

enum { MTU = 1024, GAP = 20, ROOM = 64, LIST_MAX = 4, PAGE = 4096, LENGTH = 16 * MTU };

static uint8_t run[ROOM * (BTH_BYTES + MTU + GAP)];
static int packed, largest; /* packets, of all runs and of one */
static int packed_as[256];  /* of each opcode, with others */

static uint32_t reserve_run(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
			    uint8_t opcode, size_t size, uint32_t count, uint8_t **bytes,
			    uint32_t *stride)
{
	((struct side *)outbox)->open = *av;
	(void)dest_qp, (void)opcode;
	*bytes = run;
	*stride = size + GAP;
	memset(run, 0xee, sizeof(run));
	return count < ROOM ? count : ROOM;
}

static void commit_run(struct outbox *outbox, size_t size, uint32_t count, bool is_summed)
{
	struct side *side = (struct side *)outbox;

	assert_int_equal(is_summed, outbox->takes_sums);
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *packet = run + i * (size + GAP);

		if (is_summed)
			assert_int_equal(get_le32(packet + size),
					 icrc_sum(0, packet + BTH_BYTES, size - BTH_BYTES));
		else
			assert_int_equal(get_le32(packet + size), 0xeeeeeeee);
		memcpy(outbox->reserve(outbox, &side->open, 0, size), packet, size);
		outbox->commit(outbox, size);
		packed_as[packet[0]] += count > 1;
	}
	packed += count;
	if ((int)count > largest)
		largest = count;
}

static void pack_runs(struct pair *pair, bool with_sums)
{
	for (int i = 0; i < 2; i++) {
		struct outbox *outbox = i ? &pair->b.outbox : &pair->a.outbox;

		outbox->reserve_run = reserve_run;
		outbox->commit_run = commit_run;
		outbox->takes_sums = with_sums;
	}
	packed = largest = 0;
	memset(packed_as, 0, sizeof(packed_as));
	for (uint32_t i = 0; i < LENGTH; i++)
		pair->a.memory[i] = (char)(i * 7 + i / 251);
}

static void post_write(struct pair *pair, struct ibv_sge *sge, int count)
{
	struct ibv_send_wr wr = {
	    .wr_id = 1,
	    .opcode = IBV_WR_RDMA_WRITE,
	    .sg_list = sge,
	    .num_sge = count,
	    .wr.rdma = {.remote_addr = (uintptr_t)pair->b.memory, .rkey = pair->b.mr->rkey},
	};

	side_post(&pair->a, &wr);
	pair_run(pair);
}

/* The elements lie one after the other in the memory, so that a plain copy says what is to come. */
static void write_list(struct pair *pair, const uint32_t *lengths, int count)
{
	struct ibv_sge sge[LIST_MAX];
	uint32_t at = 0;

	memset(pair->b.memory, 0, LENGTH);
	for (int i = 0; i < count; at += lengths[i++])
		sge[i] = side_sge(&pair->a, at, lengths[i]);
	post_write(pair, sge, count);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_memory_equal(pair->b.memory, pair->a.memory, at);
}

static void write_lists(struct pair *pair)
{
	static const uint32_t lists[][LIST_MAX] = {
	    {LENGTH},
	    {MTU, LENGTH - MTU},
	    {4 * MTU, 4 * MTU, 8 * MTU},
	    {4 * MTU - 1, 2, 8 * MTU + 100, LENGTH - 12 * MTU - 101},
	    {1, 3 * MTU, 0, LENGTH - 3 * MTU - 1},
	    {5 * MTU, 3, 3 * MTU - 3, LENGTH - 8 * MTU},
	    {LENGTH - 5, 1, 1, 3},
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		packed = 0;
		write_list(pair, lists[i], LIST_MAX);
		assert_true(packed >= LENGTH / MTU / 2);
	}
	assert_true(largest >= LENGTH / MTU - 2);
}

static void elements_end_anywhere(void **state)
{
	pack_runs(*state, false);
	write_lists(*state);
}

static void so_they_do_where_payloads_are_summed(void **state)
{
	pack_runs(*state, true);
	write_lists(*state);
}

static void responses_are_packed_as_requests(void **state)
{
	struct pair *pair = *state;

	pack_runs(pair, true);
	memcpy(pair->b.memory, pair->a.memory, LENGTH);
	memset(pair->a.memory, 0, LENGTH);
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 0, LENGTH);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_memory_equal(pair->a.memory, pair->b.memory, LENGTH);
	assert_true(packed >= LENGTH / MTU - 2);
}

enum { MESSAGES = 8, EACH = 4 * MTU };

/* In one list, so that what comes behind each is known. */
static void post_messages(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t length,
			  unsigned int flags)
{
	struct ibv_sge sge[MESSAGES];
	struct ibv_send_wr wr[MESSAGES];

	pair_meet(pair);
	pack_runs(pair, true);
	for (int i = 0; i < MESSAGES; i++) {
		if (opcode != IBV_WR_RDMA_WRITE)
			side_post_recv(&pair->b, i, i * EACH, EACH);
		sge[i] = side_sge(&pair->a, i * EACH, length);
		wr[i] = (struct ibv_send_wr){
		    .wr_id = i,
		    .next = i < MESSAGES - 1 ? wr + i + 1 : NULL,
		    .sg_list = sge + i,
		    .num_sge = 1,
		    .opcode = opcode,
		    .send_flags = IBV_SEND_SIGNALED | flags,
		    .imm_data = htobe32(i),
		    .wr.rdma = {(uintptr_t)pair->b.memory + (uintptr_t)i * EACH, pair->b.mr->rkey},
		};
	}
	side_post(&pair->a, wr);
	pair_run(pair);
	for (int i = 0; i < MESSAGES; i++) {
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
		if (opcode != IBV_WR_RDMA_WRITE)
			side_expect(&pair->b, i, IBV_WC_SUCCESS);
		assert_memory_equal(pair->b.memory + (ptrdiff_t)i * EACH,
				    pair->a.memory + (ptrdiff_t)i * EACH, length);
	}
}

static int packed_of(uint8_t operation)
{
	return packed_as[TRANSPORT_RC | operation];
}

/* All but those that ask for an ACK. */
static void sends_are_packed_from_end_to_end(void **state)
{
	post_messages(*state, IBV_WR_SEND, EACH, 0);
	assert_int_equal(packed_of(OP_SEND_FIRST), MESSAGES);
	assert_int_equal(packed_of(OP_SEND_MIDDLE), 2 * MESSAGES);
	assert_in_range(packed_of(OP_SEND_LAST), MESSAGES / 2, MESSAGES - 1);
}

/* Their first packet says where they go. */
static void writes_are_packed_behind_their_first(void **state)
{
	post_messages(*state, IBV_WR_RDMA_WRITE, EACH, 0);
	assert_int_equal(packed_of(OP_WRITE_FIRST), 0);
	assert_int_equal(packed_of(OP_WRITE_MIDDLE), 2 * MESSAGES);
	assert_in_range(packed_of(OP_WRITE_LAST), MESSAGES / 2, MESSAGES - 1);
}

static void an_end_that_is_shorter_goes_by_itself(void **state)
{
	post_messages(*state, IBV_WR_SEND, EACH - 4, 0);
	assert_int_equal(packed_of(OP_SEND_FIRST), MESSAGES);
	assert_int_equal(packed_of(OP_SEND_MIDDLE), 2 * MESSAGES);
	assert_int_equal(packed_of(OP_SEND_LAST), 0);
}

/* So does one that says more. */
static void an_end_with_immediate_data_goes_by_itself(void **state)
{
	post_messages(*state, IBV_WR_SEND_WITH_IMM, EACH, 0);
	assert_int_equal(packed_of(OP_SEND_FIRST), MESSAGES);
	assert_int_equal(packed_of(OP_SEND_LAST_IMM), 0);
}

static int solicited; /* packets */

static int count_solicited(struct pair *pair, struct side *from, struct flying *packet)
{
	solicited += packet->bytes[1] >> 7;
	return 1;
}

static void an_end_that_is_solicited_goes_by_itself(void **state)
{
	struct pair *pair = *state;

	solicited = 0;
	pair->meddle = count_solicited;
	post_messages(pair, IBV_WR_SEND, EACH, IBV_SEND_SOLICITED);
	assert_int_equal(solicited, MESSAGES);
	assert_int_equal(packed_of(OP_SEND_LAST), 0);
}

static void a_null_region_sends_zeros(void **state)
{
	static const char zeros[6 * MTU];
	struct pair *pair = *state;
	struct ibv_sge sge[3] = {side_sge(&pair->a, 0, 4 * MTU + 8),
				 {0, sizeof(zeros), 0},
				 side_sge(&pair->a, 8 * MTU, 4 * MTU)};
	struct mr *null;

	pack_runs(pair, true);
	assert_int_equal(mr_create_null(pair->a.pd, &null), 0);
	sge[1].lkey = null->lkey;
	memset(pair->b.memory, 0xff, LENGTH);
	post_write(pair, sge, 3);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_memory_equal(pair->b.memory, pair->a.memory, 4 * MTU + 8);
	assert_memory_equal(pair->b.memory + 4 * MTU + 8, zeros, sizeof(zeros));
	assert_memory_equal(pair->b.memory + 10 * MTU + 8, pair->a.memory + 8 * MTU, 4 * MTU);
	mr_destroy(null);
}

/* What comes before the end of the region leaves, as it does packet by packet. */
static void an_element_that_leaves_its_region_fails_where_it_does(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = {(uintptr_t)pair->a.memory, LENGTH, 0};
	struct mr *mr;

	pack_runs(pair, true);
	assert_int_equal(
	    mr_create(pair->a.pd, pair->a.memory, 6 * MTU + 100, (uintptr_t)pair->a.memory, 0, &mr),
	    0);
	sge.lkey = mr->lkey;
	post_write(pair, &sge, 1);
	side_expect(&pair->a, 1, IBV_WC_LOC_PROT_ERR);
	assert_memory_equal(pair->b.memory, pair->a.memory, 6 * MTU);
	assert_int_equal(pair->b.memory[6 * MTU], 0);
	mr_destroy(mr);
}

static void so_does_one_with_a_wrong_key(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge[2] = {side_sge(&pair->a, 0, 5 * MTU),
				 side_sge(&pair->a, 5 * MTU, 5 * MTU)};

	pack_runs(pair, true);
	sge[1].lkey ^= 1;
	post_write(pair, sge, 2);
	side_expect(&pair->a, 1, IBV_WC_LOC_PROT_ERR);
	assert_memory_equal(pair->b.memory, pair->a.memory, 5 * MTU);
	assert_int_equal(pair->b.memory[5 * MTU], 0);
}

#ifdef FAULTS_ARE_FOUND
static void memory_that_is_gone_fails_where_it_is(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = {0, LENGTH, 0};
	struct mr *mr;
	char *pages =
	    mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	pack_runs(pair, true);
	assert_ptr_not_equal(pages, MAP_FAILED);
	memcpy(pages, pair->a.memory, LENGTH);
	assert_int_equal(mr_create(pair->a.pd, pages, LENGTH, (uintptr_t)pages, 0, &mr), 0);
	assert_int_equal(munmap(pages + 2 * PAGE, LENGTH - 2 * PAGE), 0);
	guard_faults();
	sge.addr = (uintptr_t)pages;
	sge.lkey = mr->lkey;
	post_write(pair, &sge, 1);
	side_expect(&pair->a, 1, IBV_WC_LOC_PROT_ERR);
	assert_memory_equal(pair->b.memory, pair->a.memory, 2 * PAGE);
	assert_int_equal(pair->b.memory[2 * PAGE], 0);
	mr_destroy(mr);
	munmap(pages, 2 * PAGE);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(elements_end_anywhere, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(so_they_do_where_payloads_are_summed, set_up,
					    tear_down),
	    cmocka_unit_test_setup_teardown(responses_are_packed_as_requests, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(sends_are_packed_from_end_to_end, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(writes_are_packed_behind_their_first, set_up,
					    tear_down),
	    cmocka_unit_test_setup_teardown(an_end_that_is_shorter_goes_by_itself, set_up,
					    tear_down),
	    cmocka_unit_test_setup_teardown(an_end_with_immediate_data_goes_by_itself, set_up,
					    tear_down),
	    cmocka_unit_test_setup_teardown(an_end_that_is_solicited_goes_by_itself, set_up,
					    tear_down),
	    cmocka_unit_test_setup_teardown(a_null_region_sends_zeros, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(an_element_that_leaves_its_region_fails_where_it_does,
					    set_up, tear_down),
	    cmocka_unit_test_setup_teardown(so_does_one_with_a_wrong_key, set_up, tear_down),
#ifdef FAULTS_ARE_FOUND
	    cmocka_unit_test_setup_teardown(memory_that_is_gone_fails_where_it_is, set_up,
					    tear_down),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
