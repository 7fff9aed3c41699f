/* SPDX-License-Identifier: BSD-2-Clause */
/* The middle of long messages, packed many at a time: wherever the elements of a list end, whatever
 * is wrong with one of them. */
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

static uint32_t reserve_run(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
			    size_t size, uint32_t count, uint8_t **bytes, uint32_t *stride)
{
	((struct side *)outbox)->open = *av;
	(void)dest_qp;
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
