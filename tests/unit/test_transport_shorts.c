/* SPDX-License-Identifier: BSD-2-Clause */
/* Short SENDs that leave many at a time: the packets are those that leave one by one, whatever
 * stands between them in the send queue and whatever is wrong with one of them. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "transport_case.h"
#include "faults.h"

enum { LIST = 24, MTU = 1024, EACH = 2048, GAP = 20, ROOM = 62, PAGE = 4096, TO = 1 << 19 };
enum { SEEN_BYTES = 1 << 17 };

static uint8_t run[ROOM * (BTH_BYTES + MTU + GAP)];
static uint32_t room = ROOM;
static int packed; /* packets, of all runs */

struct seen {
	uint8_t bytes[SEEN_BYTES];
	size_t used;
};

static struct seen seen, before;

static uint32_t reserve_run(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
			    uint8_t opcode, size_t size, uint32_t count, uint8_t **bytes,
			    uint32_t *stride)
{
	struct side *side = (struct side *)outbox;

	assert_int_equal(dest_qp, side->qp->attr.dest_qp_num);
	assert_int_equal(opcode, TRANSPORT_RC | OP_SEND_ONLY);
	side->open = *av;
	*bytes = run;
	*stride = size + GAP;
	memset(run, 0xee, sizeof(run));
	return count < room ? count : room;
}

static void commit_run(struct outbox *outbox, size_t size, uint32_t count, bool is_summed)
{
	const struct side *side = (const struct side *)outbox;

	assert_false(is_summed);
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *packet = run + i * (size + GAP);

		assert_int_equal(get_le32(packet + size), 0xeeeeeeee);
		memcpy(outbox->reserve(outbox, &side->open, 0, size), packet, size);
		outbox->commit(outbox, size);
	}
	packed += (int)count;
}

/* What A sends, but for what differs from pair to pair: the number of B's QP, B's memory. */
static int note(struct pair *pair, struct side *from, struct flying *packet)
{
	uint8_t *to = seen.bytes + seen.used;

	if (from != &pair->a)
		return 1;
	assert_true(seen.used + packet->size <= sizeof(seen.bytes));
	memcpy(to, packet->bytes, packet->size);
	memset(to + 5, 0, 3);
	if (opcode_get(to[0])->reth_at)
		memset(to + opcode_get(to[0])->reth_at, 0, RETH_BYTES);
	seen.used += packet->size;
	return 1;
}

static void prepare(struct pair *pair, bool in_runs)
{
	pair->a.outbox.reserve_run = in_runs ? reserve_run : NULL;
	pair->a.outbox.commit_run = commit_run;
	pair->a.qp->requester->signs_left = 0; /* they have met before */
	fill(pair->a.memory, LIST * EACH, 7);
	packed = 0;
	seen.used = 0;
	pair->meddle = note;
}

struct plan {
	uint32_t length;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	int elements;
};

static void post_one(struct pair *pair, int index, const struct plan *plan)
{
	uint32_t part = plan->elements == 2 ? plan->length / 2 : plan->length;
	size_t at = (size_t)index * EACH;
	struct ibv_sge sge[2] = {side_sge(&pair->a, at, part),
				 side_sge(&pair->a, at + part, plan->length - part)};
	struct ibv_send_wr wr = {
	    .wr_id = (uint64_t)index,
	    .opcode = plan->opcode,
	    .send_flags = plan->flags,
	    .sg_list = sge,
	    .num_sge = plan->elements,
	    .imm_data = htobe32(0x12345678),
	    .wr.rdma = {.remote_addr = (uintptr_t)pair->b.memory, .rkey = pair->b.mr->rkey},
	};

	side_post(&pair->a, &wr);
}

static bool has_receive(const struct plan *plan)
{
	return plan->opcode == IBV_WR_SEND || plan->opcode == IBV_WR_SEND_WITH_IMM;
}

static void post_receives(struct pair *pair)
{
	for (int i = 0; i < LIST; i++)
		side_post_recv(&pair->b, 100 + i, TO + (size_t)i * EACH, EACH);
	pair->b.is_scheduled = false;
}

/* All of the list in one turn. */
static void send_list(struct pair *pair, const struct plan *plans)
{
	int received = 0;

	post_receives(pair);
	for (int i = 0; i < LIST; i++)
		post_one(pair, i, plans + i);
	pair_run(pair);
	for (int i = 0; i < LIST; i++) {
		struct ibv_wc wc;

		side_expect(&pair->a, i, IBV_WC_SUCCESS);
		if (!has_receive(plans + i))
			continue;
		wc = side_expect(&pair->b, 100 + received, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, plans[i].length);
		assert_memory_equal(pair->b.memory + TO + received * EACH,
				    pair->a.memory + i * EACH, plans[i].length);
		received++;
	}
	expect_settled(&pair->a, &pair->b);
}

/* One by one, and then in runs: how many have left so. */
static int compare(struct pair *pair, const struct plan *plans)
{
	struct pair *other = pair_connected(&options);

	prepare(other, false);
	send_list(other, plans);
	before = seen;
	prepare(pair, true);
	send_list(pair, plans);
	assert_int_equal(seen.used, before.used);
	assert_memory_equal(seen.bytes, before.bytes, seen.used);
	assert_int_equal(transport_counters(pair->a.qp)->sent_packets,
			 transport_counters(other->a.qp)->sent_packets);
	assert_int_equal(transport_counters(pair->a.qp)->sent_bytes,
			 transport_counters(other->a.qp)->sent_bytes);
	pair_free(other);
	return packed;
}

static struct plan *alike(uint32_t length)
{
	static struct plan plans[LIST];

	for (int i = 0; i < LIST; i++)
		plans[i] = (struct plan){length, IBV_WR_SEND, 0, 1};
	return plans;
}

static void those_behind_the_first_leave_together(void **state)
{
	assert_int_equal(compare(*state, alike(8)), LIST - 1);
}

static void lengths_are_padded(void **state)
{
	static const uint32_t lengths[] = {1, 2, 3, 61, MTU - 1};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct pair *pair = pair_connected(&options);

		assert_int_equal(compare(pair, alike(lengths[i])), LIST - 1);
		pair_free(pair);
	}
	(void)state;
}

static void all_may_be_solicited_or_inline(void **state)
{
	struct plan *plans = alike(8);
	struct pair *pair = pair_connected(&options);

	for (int i = 0; i < LIST; i++)
		plans[i].flags = IBV_SEND_SOLICITED;
	assert_int_equal(compare(pair, plans), LIST - 1);
	for (int i = 0; i < LIST; i++)
		plans[i].flags = i % 3 ? IBV_SEND_INLINE : 0;
	assert_int_equal(compare(*state, plans), LIST - 1);
	pair_free(pair);
}

/* Two in their midst. */
static void what_is_of_another_kind_ends_a_run(void **state)
{
	static const struct plan others[] = {
	    {16, IBV_WR_SEND, 0, 1},
	    {0, IBV_WR_SEND, 0, 1},
	    {0, IBV_WR_SEND, 0, 0},
	    {MTU, IBV_WR_SEND, 0, 1},
	    {MTU + 8, IBV_WR_SEND, 0, 1},
	    {8, IBV_WR_SEND, 0, 2},
	    {8, IBV_WR_SEND, IBV_SEND_SOLICITED, 1},
	    {8, IBV_WR_SEND, IBV_SEND_FENCE, 1},
	    {8, IBV_WR_SEND_WITH_IMM, 0, 1},
	    {8, IBV_WR_RDMA_WRITE, 0, 1},
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct pair *pair = pair_connected(&options);
		struct plan *plans = alike(8);

		plans[4] = plans[12] = others[i];
		assert_in_range(compare(pair, plans), LIST - 6, LIST - 1);
		pair_free(pair);
	}
	(void)state;
}

static void a_link_may_have_room_for_few(void **state)
{
	room = 5;
	assert_true(compare(*state, alike(8)) > 0);
	room = 0;
	prepare(*state, true);
	send_list(*state, alike(8));
	assert_int_equal(packed, 0);
	room = ROOM;
}

static void the_window_holds(void **state)
{
	enum { OPEN = 6 };
	struct pair *pair = *state;
	struct window *window = &pair->a.qp->requester->window;

	prepare(pair, true);
	window->packets = window->max = window->threshold = OPEN;
	window->smalls = 1;
	post_receives(pair);
	for (int i = 0; i < LIST; i++)
		post_one(pair, i, alike(8));
	side_turn(&pair->a);
	assert_int_equal(pair->count, OPEN);
	assert_int_equal(packed, OPEN - 1);
	pair_run(pair);
	for (int i = 0; i < LIST; i++)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
}

/* A peer of another make, which has to be asked what it is first. */
static void who_is_asked_what_it_is_gets_them_one_by_one(void **state)
{
	struct pair *pair = *state;

	prepare(pair, true);
	pair->a.qp->requester->signs_left = 1 + 4;
	post_receives(pair);
	for (int i = 0; i < LIST; i++)
		post_one(pair, i, alike(8));
	side_turn(&pair->a);
	assert_int_equal(packed, LIST - (1 + 4));
}

/* All but the first are lost; then they go again, one by one. */
static int lose_runs(struct pair *pair, struct side *from, struct flying *packet)
{
	(void)packet;
	return from != &pair->a || !pair->passed;
}

static void what_is_lost_goes_again(void **state)
{
	struct pair *pair = *state;

	prepare(pair, true);
	pair->meddle = lose_runs;
	post_receives(pair);
	for (int i = 0; i < LIST; i++)
		post_one(pair, i, alike(8));
	pair_run(pair);
	assert_int_equal(packed, LIST - 1);
	pair->meddle = NULL;
	pair_run_out(pair);
	for (int i = 0; i < LIST; i++) {
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
		side_expect(&pair->b, 100 + i, IBV_WC_SUCCESS);
		assert_memory_equal(pair->b.memory + TO + i * EACH, pair->a.memory + i * EACH, 8);
	}
	assert_int_equal(packed, LIST - 1);
	expect_settled(&pair->a, &pair->b);
}

static void expect_failed_at(struct pair *pair, int index)
{
	for (int i = 0; i < index; i++) {
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
		side_expect(&pair->b, 100 + i, IBV_WC_SUCCESS);
	}
	side_expect(&pair->a, index, IBV_WC_LOC_PROT_ERR);
	for (int i = index + 1; i < LIST; i++)
		side_expect(&pair->a, i, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(packed, index - 1);
}

static void a_wrong_key_fails_where_it_is(void **state)
{
	struct pair *pair = *state;
	uint32_t lkey = pair->a.mr->lkey;

	prepare(pair, true);
	post_receives(pair);
	for (int i = 0; i < LIST; i++) {
		pair->a.mr->lkey = i == LIST / 2 ? lkey ^ 1 : lkey;
		post_one(pair, i, alike(8));
	}
	pair->a.mr->lkey = lkey;
	pair_run(pair);
	expect_failed_at(pair, LIST / 2);
}

#ifdef FAULTS_ARE_FOUND
static void memory_that_is_gone_fails_where_it_is(void **state)
{
	struct pair *pair = *state;
	struct mr *mr;
	char *pages =
	    mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(mr_create(pair->a.pd, pages, 2 * PAGE, (uintptr_t)pages, 0, &mr), 0);
	assert_int_equal(munmap(pages + PAGE, PAGE), 0);
	guard_faults();
	prepare(pair, true);
	post_receives(pair);
	for (int i = 0; i < LIST; i++) {
		struct ibv_sge sge = {(uintptr_t)pages + (i < LIST / 2 ? 0 : PAGE), 8, mr->lkey};
		struct ibv_send_wr wr = {
		    .wr_id = i, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};

		side_post(&pair->a, &wr);
	}
	pair_run(pair);
	expect_failed_at(pair, LIST / 2);
	mr_destroy(mr);
	munmap(pages, PAGE);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(those_behind_the_first_leave_together, set_up,
					    tear_down),
	    cmocka_unit_test_setup_teardown(lengths_are_padded, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(all_may_be_solicited_or_inline, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(what_is_of_another_kind_ends_a_run, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_link_may_have_room_for_few, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(the_window_holds, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(who_is_asked_what_it_is_gets_them_one_by_one, set_up,
					    tear_down),
	    cmocka_unit_test_setup_teardown(what_is_lost_goes_again, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_wrong_key_fails_where_it_is, set_up, tear_down),
#ifdef FAULTS_ARE_FOUND
	    cmocka_unit_test_setup_teardown(memory_that_is_gone_fails_where_it_is, set_up,
					    tear_down),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
