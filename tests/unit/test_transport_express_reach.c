/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WRITEs and READs in memory that is mapped here, in steps: which of them, what is to be copied,
 * and what a queue pair is left as. Nobody copies here.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "express_pair.h"
#include "faults.h"

enum { THERE = 0x123450, RKEY = 0x777 };

static struct express_reach found;
static struct ibv_sge sges[2];

static struct ibv_send_wr request(struct pair *pair, enum ibv_wr_opcode opcode)
{
	sges[0] = side_sge(&pair->a, 16, 8);
	sges[1] = side_sge(&pair->a, 32, 8);
	return (struct ibv_send_wr){
	    .wr_id = 7,
	    .opcode = opcode,
	    .send_flags = IBV_SEND_SIGNALED,
	    .sg_list = sges,
	    .num_sge = 1,
	    .wr.rdma = {THERE, RKEY},
	};
}

static bool is_found(struct pair *pair, const struct ibv_send_wr *wr)
{
	bool is;

	assert_true(express_begin_reach(pair->a.qp));
	is = express_find_reach(pair->a.qp, wr, &found);
	sq_abort(pair->a.qp);
	return is;
}

static void expect_op(bool is_read, uint32_t length)
{
	assert_int_equal(found.op.is_read, is_read);
	assert_false(found.op.is_fetch);
	assert_true(found.op.is_prompt);
	assert_int_equal(found.op.rkey, RKEY);
	assert_int_equal(found.op.remote_addr, THERE);
	assert_int_equal(found.op.length, length);
	assert_int_equal(found.op.offset, 0);
	assert_int_equal(found.op.bytes, length);
	assert_int_equal(found.op.count, 1);
	assert_int_equal(found.op.pieces[0].iov_len, length);
}

/* ---- which ---- */

static void from_where_to_where(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = request(pair, IBV_WR_RDMA_WRITE);

	assert_true(is_found(pair, &wr));
	expect_op(false, 8);
	assert_ptr_equal(found.op.pieces[0].iov_base, pair->a.memory + 16);
	wr.opcode = IBV_WR_RDMA_READ;
	wr.send_flags = IBV_SEND_FENCE | IBV_SEND_SOLICITED;
	assert_true(is_found(pair, &wr));
	expect_op(true, 8);
	assert_ptr_equal(found.op.pieces[0].iov_base, pair->a.memory + 16);
}

static void inline_data_are_taken_at_once(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = request(pair, IBV_WR_RDMA_WRITE);
	char data[MAX_INLINE + 1], before[MAX_INLINE];
	uint32_t most = pair->a.qp->sq.max_inline;

	assert_in_range(most, 8, MAX_INLINE);
	fill(data, sizeof(data), 3);
	memcpy(before, data, most);
	sges[0] = (struct ibv_sge){(uintptr_t)data, most, 0}; /* whatever the key */
	wr.send_flags |= IBV_SEND_INLINE;
	assert_true(is_found(pair, &wr));
	memset(data, 0, sizeof(data));
	expect_op(false, most);
	assert_memory_equal(found.op.pieces[0].iov_base, before, most);
	sges[0].length++;
	assert_false(is_found(pair, &wr));
}

static void no_other_kind(void **state)
{
	static const enum ibv_wr_opcode others[] = {
	    IBV_WR_SEND,	  IBV_WR_SEND_WITH_IMM,	     IBV_WR_RDMA_WRITE_WITH_IMM,
	    IBV_WR_FLUSH,	  IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
	    IBV_WR_SEND_WITH_INV, IBV_WR_ATOMIC_WRITE,	     IBV_WR_LOCAL_INV,
	};
	struct pair *pair = *state;
	struct ibv_send_wr wr;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		wr = request(pair, others[i]);
		assert_false(is_found(pair, &wr));
	}
	wr = request(pair, IBV_WR_RDMA_WRITE);
	wr.num_sge = 2;
	assert_false(is_found(pair, &wr));
	wr.num_sge = 0;
	assert_false(is_found(pair, &wr));
	wr = request(pair, IBV_WR_RDMA_WRITE);
	wr.send_flags |= IBV_SEND_IP_CSUM;
	assert_false(is_found(pair, &wr));
	wr = request(pair, IBV_WR_RDMA_READ);
	wr.send_flags |= IBV_SEND_INLINE;
	assert_false(is_found(pair, &wr));
}

static void of_some_length(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = request(pair, IBV_WR_RDMA_WRITE);
	static char memory[EXPRESS_ONE_BYTES + 1];
	struct mr *mr;

	assert_int_equal(mr_create(pair->a.pd, memory, sizeof(memory), (uintptr_t)memory, 0, &mr),
			 0);
	sges[0].length = 0;
	assert_false(is_found(pair, &wr));
	sges[0] = (struct ibv_sge){(uintptr_t)memory, EXPRESS_ONE_BYTES, mr->lkey};
	assert_true(is_found(pair, &wr));
	sges[0].length++;
	assert_false(is_found(pair, &wr));
	assert_int_equal(mr_destroy(mr), 0);
}

static void not_what_something_is_to_be_said_of(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = request(pair, IBV_WR_RDMA_WRITE);

	sges[0].lkey ^= 1;
	assert_false(is_found(pair, &wr));
	sges[0] = side_sge(&pair->a, PAIR_MEMORY - 4, 8);
	assert_false(is_found(pair, &wr));
}

#ifdef FAULTS_ARE_FOUND
static void nor_inline_data_that_are_not_there(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = request(pair, IBV_WR_RDMA_WRITE);
	void *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	guard_faults();
	sges[0].addr = (uintptr_t)nothing;
	wr.send_flags |= IBV_SEND_INLINE;
	assert_false(is_found(pair, &wr));
	munmap(nothing, 4096);
}
#endif

static void not_what_is_counted(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr write = request(pair, IBV_WR_RDMA_WRITE);
	struct ibv_send_wr read = request(pair, IBV_WR_RDMA_READ);

	pair->a.qp->counted = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE;
	assert_false(is_found(pair, &write));
	assert_true(is_found(pair, &read));
	pair->a.qp->counted = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ;
	assert_true(is_found(pair, &write));
	assert_false(is_found(pair, &read));
	pair->a.qp->counted = 0;
	pair->a.qp->attr.max_rd_atomic = 0;
	assert_true(is_found(pair, &write));
	assert_false(is_found(pair, &read));
}

/* A completion too many, of others, may have ended it behind the one before. */
static void not_of_a_queue_pair_that_has_ended(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = request(pair, IBV_WR_RDMA_WRITE);

	assert_true(is_found(pair, &wr));
	pair->a.qp->state = IBV_QPS_ERR;
	assert_false(is_found(pair, &wr));
	pair->a.qp->state = IBV_QPS_RTS;
}

/* ---- when ---- */

static void not_in_front_of_what_waits(void **state)
{
	struct pair *pair = *state;
	struct qp *qp = pair->a.qp;

	qp->requester->current--;
	assert_false(express_begin_reach(qp));
	qp->requester->current++;
	qp->requester->una--;
	assert_false(express_begin_reach(qp));
	qp->requester->una++;
	qp->responder->is_owed = true;
	assert_false(express_begin_reach(qp));
	qp->responder->is_owed = false;
	qp->requester->has_failed = true;
	assert_false(express_begin_reach(qp));
	qp->requester->has_failed = false;
	assert_true(express_begin_reach(qp));
	assert_false(express_begin_reach(qp)); /* somebody posts */
	sq_abort(qp);
}

/* ---- what is left ---- */

static void write_one(struct pair *pair, struct ibv_send_wr *wr)
{
	assert_true(express_begin_reach(pair->a.qp));
	assert_true(express_find_reach(pair->a.qp, wr, &found));
	express_end_reach(pair->a.qp, wr, 0);
	sq_commit(pair->a.qp);
}

static void it_is_complete(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = request(pair, IBV_WR_RDMA_WRITE);
	uint32_t tail = sq_tail(pair->a.qp);
	struct ibv_wc wc;

	write_one(pair, &wr);
	wc = side_expect(&pair->a, 7, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
	assert_int_equal(wc.byte_len, 8);
	wr.opcode = IBV_WR_RDMA_READ;
	write_one(pair, &wr);
	assert_int_equal(side_expect(&pair->a, 7, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_READ);
	wr.send_flags = 0;
	pair->a.qp->sq_sig_all = false;
	write_one(pair, &wr);
	side_expect_none(&pair->a);
	assert_int_equal(sq_tail(pair->a.qp), tail + 3);
	assert_int_equal(sq_head(pair->a.qp), tail + 3);
	assert_int_equal(transport_counters(pair->a.qp)->reached, 3);
	pair_expect_trace(pair, "");
}

/* What comes behind takes up where it left off. */
static void messages_follow(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = request(pair, IBV_WR_RDMA_WRITE);

	receive(pair, 1);
	pair_run(pair);
	write_one(pair, &wr);
	side_expect(&pair->a, 7, IBV_WC_SUCCESS);
	send(pair, 1);
	pair_run_out(pair);
	expect_message(pair, 1, 1);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	expect_coherent(pair);
}

static void not_without_room_for_its_completion(void **state)
{
	struct pair *pair = *state;
	struct ibv_send_wr wr = request(pair, IBV_WR_RDMA_WRITE);
	unsigned int room = 0;

	while (is_found(pair, &wr)) {
		write_one(pair, &wr);
		room++;
	}
	assert_int_equal(room, atomic_load(&pair->a.cq->capacity));
	side_expect(&pair->a, 7, IBV_WC_SUCCESS);
	assert_true(is_found(pair, &wr));
}

#define TEST(name) express_test(name)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(from_where_to_where),
	    TEST(inline_data_are_taken_at_once),
	    TEST(no_other_kind),
	    TEST(of_some_length),
	    TEST(not_what_something_is_to_be_said_of),
#ifdef FAULTS_ARE_FOUND
	    TEST(nor_inline_data_that_are_not_there),
#endif
	    TEST(not_what_is_counted),
	    TEST(not_of_a_queue_pair_that_has_ended),
	    TEST(not_in_front_of_what_waits),
	    TEST(it_is_complete),
	    TEST(messages_follow),
	    TEST(not_without_room_for_its_completion),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
