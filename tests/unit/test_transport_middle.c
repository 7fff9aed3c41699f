/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The middle of a message, many packets of it at once, as a link has them in one batch: whatever is
 * wrong with one of them, all is as if each had come by itself. The same where they come under a
 * seal.
 */
#include "transport/requester.h"
#include "trains.h"
#include "transport_case.h"
#include "wire/icrc.h"

enum { MTU = 1024, LENGTH = 40 * MTU + 100 };

enum { WCS = 4 };

/* What programs and the wire see of it. */
struct outcome {
	char trace[PAIR_TRACE];
	struct cqe done[2][WCS];
	int count[2];
	uint64_t received[2];
	char memory[2][2 * LENGTH];
};

static void note(struct side *side, int index, struct outcome *outcome)
{
	while (outcome->count[index] < WCS &&
	       !cq_poll_one(side->cq, &outcome->done[index][outcome->count[index]]))
		outcome->count[index]++;
	outcome->received[index] = side->qp->requester->counters.received_packets;
	memcpy(outcome->memory[index], side->memory, sizeof(outcome->memory[index]));
}

enum manner { SINGLY, TOGETHER, SEALED };

static void act(void (*scenario)(struct pair *pair), enum manner manner, struct outcome *outcome)
{
	struct pair_options usual = default_options;
	struct pair *pair;

	usual.access = usual.access | IBV_ACCESS_REMOTE_READ;
	pair = pair_connected(&usual);
	memset(outcome, 0, sizeof(*outcome));
	fill(pair->a.memory, LENGTH, 1);
	fill(pair->b.memory, LENGTH, 2);
	together = opened = 0;
	are_together = manner != SINGLY;
	are_sealed = manner == SEALED;
	scenario(pair);
	run(pair);
	memcpy(outcome->trace, pair->trace, sizeof(outcome->trace));
	note(&pair->a, 0, outcome);
	note(&pair->b, 1, outcome);
	pair_free(pair);
}

static void assert_same(const struct outcome *a, const struct outcome *b)
{
	assert_string_equal(a->trace, b->trace);
	assert_memory_equal(a->received, b->received, sizeof(b->received));
	assert_memory_equal(a->memory, b->memory, sizeof(b->memory));
	for (int side = 0; side < 2; side++) {
		assert_int_equal(a->count[side], b->count[side]);
		for (int i = 0; i < b->count[side]; i++) {
			const struct ibv_wc *one = &a->done[side][i].wc,
					    *other = &b->done[side][i].wc;

			assert_int_equal(one->wr_id, other->wr_id);
			assert_int_equal(one->status, other->status);
			assert_int_equal(one->byte_len, other->byte_len);
			assert_int_equal(one->vendor_err, other->vendor_err);
		}
	}
}

/* The scenario has the same end any way, and `least` packets came with others in one of them. */
static const struct outcome *compare(void (*scenario)(struct pair *pair), uint32_t least)
{
	static struct outcome single, train, sealed;

	act(scenario, SINGLY, &single);
	assert_int_equal(together, 0);
	act(scenario, TOGETHER, &train);
	assert_true(together >= least);
	assert_same(&train, &single);
	act(scenario, SEALED, &sealed);
	assert_same(&sealed, &single);
	return &train;
}

static void expect(const struct outcome *outcome, int side, enum ibv_wc_status status)
{
	assert_int_equal(outcome->count[side], 1);
	assert_int_equal(outcome->done[side][0].wc.status, status);
}

static void write_one(struct pair *pair)
{
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, LENGTH);
}

static void a_write(void **state)
{
	const struct outcome *outcome = compare(write_one, 30);

	assert_int_equal(opened, 0); /* a program may look at each byte of it at once */
	expect(outcome, 0, IBV_WC_SUCCESS);
	assert_memory_equal(outcome->memory[1], outcome->memory[0], LENGTH);
}

static void read_one(struct pair *pair)
{
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 0, LENGTH);
}

static void a_read(void **state)
{
	const struct outcome *outcome = compare(read_one, 30);

	assert_int_equal(opened, LENGTH / MTU - 1);
	expect(outcome, 0, IBV_WC_SUCCESS);
	assert_memory_equal(outcome->memory[0], outcome->memory[1], LENGTH);
}

/* Elements that end anywhere, one of them empty. */
static void receive_parts(struct side *side, const uint32_t *lengths, int count)
{
	struct ibv_sge sge[4];
	struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = sge, .num_sge = count}, *bad;
	uint32_t at = 0;

	for (int i = 0; i < count; at += lengths[i++])
		sge[i] = side_sge(side, at, lengths[i]);
	assert_int_equal(qp_post_recv(side->qp, &wr, &bad), 0);
}

static const uint32_t (*parts)[4];

static void send_to_parts(struct pair *pair)
{
	receive_parts(&pair->b, *parts, 4);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, LENGTH);
}

static void a_send_to_a_list(void **state)
{
	static const uint32_t lists[][4] = {
	    {LENGTH, 0, 0, 0},
	    {MTU, LENGTH - MTU, 5, 0},
	    {4 * MTU, 4 * MTU, 0, LENGTH - 8 * MTU},
	    {4 * MTU - 1, 2, 8 * MTU + 100, LENGTH - 12 * MTU - 101},
	    {1, 3 * MTU, 30 * MTU, LENGTH - 33 * MTU - 1},
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const struct outcome *outcome;

		parts = &lists[i];
		outcome = compare(send_to_parts, 30);
		assert_in_range(opened, LENGTH / MTU - 6, LENGTH / MTU - 1);
		expect(outcome, 0, IBV_WC_SUCCESS);
		expect(outcome, 1, IBV_WC_SUCCESS);
		assert_memory_equal(outcome->memory[1], outcome->memory[0], LENGTH);
	}
}

/* By a packet of the middle, by the last one alone, at the end of a packet. */
static void a_send_that_is_too_long(void **state)
{
	static const uint32_t lists[][4] = {
	    {8 * MTU + 7, 0, 0, 0},
	    {LENGTH - 1, 0, 0, 0},
	    {20 * MTU, 0, 0, 0},
	    {20 * MTU - 1, 0, 0, 0},
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const struct outcome *outcome;

		parts = &lists[i];
		outcome = compare(send_to_parts, 30);
		expect(outcome, 0, IBV_WC_REM_INV_REQ_ERR);
		expect(outcome, 1, IBV_WC_LOC_LEN_ERR);
	}
}

/* A list whose second region is not there: what comes before it is placed. */
static void send_to_a_wrong_key(struct pair *pair)
{
	struct ibv_sge sge[] = {side_sge(&pair->b, 0, 9 * MTU + 8),
				side_sge(&pair->b, 9 * MTU + 8, LENGTH)};
	struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = sge, .num_sge = 2}, *bad;

	sge[1].lkey ^= 1;
	assert_int_equal(qp_post_recv(pair->b.qp, &wr, &bad), 0);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, LENGTH);
}

static void a_send_to_a_wrong_key(void **state)
{
	const struct outcome *outcome = compare(send_to_a_wrong_key, 30);

	expect(outcome, 1, IBV_WC_LOC_PROT_ERR);
	assert_memory_equal(outcome->memory[1], outcome->memory[0], 9 * MTU);
}

static int lost_at;

static int lose_some(struct pair *pair, struct side *from, struct flying *packet)
{
	(void)from, (void)packet;
	return pair->passed % 41 == lost_at ? 0 : 1;
}

static void write_read_and_lose(struct pair *pair)
{
	pair->meddle = lose_some;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, LENGTH);
	side_request(&pair->a, IBV_WR_RDMA_READ, 2, LENGTH, LENGTH);
	run(pair);
	for (int i = 0; i < 100 && pair_wait(pair); i++)
		run(pair);
}

static void whatever_is_lost(void **state)
{
	for (lost_at = 1; lost_at < 41; lost_at += 3) {
		const struct outcome *outcome = compare(write_read_and_lose, 20);

		assert_int_equal(outcome->count[0], 2);
		assert_int_equal(outcome->done[0][0].wc.status, IBV_WC_SUCCESS);
		assert_int_equal(outcome->done[0][1].wc.status, IBV_WC_SUCCESS);
	}
}

/* The peer goes on where its request ends. */
static int without_an_end(struct pair *pair, struct side *from, struct flying *packet)
{
	uint8_t *opcode = packet->bytes;

	if (from == &pair->b && *opcode == (TRANSPORT_RC | OP_READ_RESPONSE_LAST)) {
		*opcode = TRANSPORT_RC | OP_READ_RESPONSE_MIDDLE;
		packet->bytes[1] = 0;
	}
	if (from == &pair->a && *opcode == (TRANSPORT_RC | OP_WRITE_LAST)) {
		*opcode = TRANSPORT_RC | OP_WRITE_MIDDLE;
		packet->bytes[1] = 0;
		packet->bytes[8] = 0;
	}
	return 1;
}

static void read_without_an_end(struct pair *pair)
{
	pair->meddle = without_an_end;
	side_request(&pair->a, IBV_WR_RDMA_READ, 1, 0, 16 * MTU);
}

static void write_without_an_end(struct pair *pair)
{
	pair->meddle = without_an_end;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 16 * MTU);
}

static void what_goes_on_beyond_its_end(void **state)
{
	const struct outcome *outcome = compare(read_without_an_end, 13);

	assert_string_not_equal(outcome->trace, "");
	assert_false(outcome->count[0] && outcome->done[0][0].wc.status == IBV_WC_SUCCESS);
	outcome = compare(write_without_an_end, 13);
	assert_false(outcome->count[0] && outcome->done[0][0].wc.status == IBV_WC_SUCCESS);
}

static uint32_t sound_at_first;

static void send_and_read_with_unsound(struct pair *pair)
{
	static const uint32_t whole[4] = {LENGTH};

	sound = sound_at_first;
	receive_parts(&pair->b, whole, 1);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, LENGTH);
	side_request(&pair->a, IBV_WR_RDMA_READ, 2, LENGTH, LENGTH);
	run(pair);
	for (int i = 0; i < 100 && pair_wait(pair); i++)
		run(pair);
}

/* It is lost, those behind it are not taken for it, and what it left in memory is written anew. */
static void what_is_not_sound_under_its_seal(void **state)
{
	static struct outcome outcome;

	for (sound_at_first = 0; sound_at_first < 70; sound_at_first += 3) {
		act(send_and_read_with_unsound, SEALED, &outcome);
		assert_int_equal(sound, UINT32_MAX);
		assert_true(opened >= sound_at_first);
		assert_int_equal(outcome.count[0], 2);
		assert_int_equal(outcome.done[0][0].wc.status, IBV_WC_SUCCESS);
		assert_int_equal(outcome.done[0][1].wc.status, IBV_WC_SUCCESS);
		expect(&outcome, 1, IBV_WC_SUCCESS);
		assert_memory_equal(outcome.memory[1], outcome.memory[0], LENGTH);
		assert_memory_equal(outcome.memory[0] + LENGTH, outcome.memory[1] + LENGTH, LENGTH);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_write),
	    cmocka_unit_test(a_read),
	    cmocka_unit_test(a_send_to_a_list),
	    cmocka_unit_test(a_send_that_is_too_long),
	    cmocka_unit_test(a_send_to_a_wrong_key),
	    cmocka_unit_test(whatever_is_lost),
	    cmocka_unit_test(what_goes_on_beyond_its_end),
	    cmocka_unit_test(what_is_not_sound_under_its_seal),
	};

	longest = 16;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
