/* SPDX-License-Identifier: BSD-2-Clause */
/* Explicit congestion notification: whose packets may be marked, and who gives way to a mark. */
#include "transport/requester.h"
#include "transport_case.h"

enum { ECT0 = 2, CE = 3, FECN_BECN_BYTE = 4, US = 1000 };

static uint8_t ecn_of_last[2]; /* of A's, of B's */
static const struct side *marked;

static int mark(struct pair *pair, struct side *from, struct flying *packet)
{
	ecn_of_last[from->name == 'B'] = packet->av.ecn;
	if (from == marked)
		packet->av.ecn = CE;
	return 1;
}

static void send_some(struct pair *pair, enum ibv_wr_opcode opcode, uint64_t id)
{
	side_request(&pair->a, opcode, id, 0, 3000);
	pair_run(pair);
	side_expect(&pair->a, id, IBV_WC_SUCCESS);
}

static uint64_t told(const struct side *side)
{
	return transport_counters(side->qp)->congestion;
}

static uint32_t room(const struct side *side)
{
	return side->qp->requester->window.packets;
}

static void packets_may_be_marked_once_the_peer_is_known(void **state)
{
	struct pair *pair = *state;

	marked = NULL;
	pair->meddle = mark;
	send_some(pair, IBV_WR_RDMA_WRITE, 1);
	send_some(pair, IBV_WR_RDMA_READ, 2);
	assert_int_equal(ecn_of_last[0], ECT0);
	assert_int_equal(ecn_of_last[1], ECT0);
}

/* As the program has it. */
static void queries_do_not_show_it(void **state)
{
	struct pair *pair = *state;
	struct ibv_ah_attr attr;

	send_some(pair, IBV_WR_RDMA_WRITE, 1);
	assert_int_equal(pair->a.qp->av.ecn, ECT0);
	av_describe(&pair->a.qp->av, &attr);
	assert_int_equal(attr.grh.traffic_class, 0);
}

static int hide_signs(struct pair *pair, struct side *from, struct flying *packet)
{
	packet->bytes[FECN_BECN_BYTE] = 0;
	return mark(pair, from, packet);
}

static void other_makes_are_sent_none_that_may(void **state)
{
	struct pair *pair = *state;

	marked = NULL;
	pair->meddle = hide_signs;
	for (int i = 0; i < 40; i++)
		send_some(pair, i & 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, i);
	assert_int_equal(ecn_of_last[0], 0);
	assert_int_equal(ecn_of_last[1], 0);
}

/* Nor is the program's own word overwritten. */
static void the_programs_bits_stay(void **state)
{
	struct pair *pair = *state;

	pair->a.qp->av.traffic_class = 1;
	send_some(pair, IBV_WR_RDMA_WRITE, 1);
	assert_int_equal(pair->a.qp->av.ecn, 0);
}

static void a_marked_request_is_told_of(void **state)
{
	struct pair *pair = *state;
	uint32_t before;

	send_some(pair, IBV_WR_RDMA_WRITE, 1);
	before = room(&pair->a);
	marked = &pair->a;
	pair->meddle = mark;
	send_some(pair, IBV_WR_RDMA_WRITE, 2);
	assert_int_equal(told(&pair->a), 1);
	assert_true(room(&pair->a) < before);
}

/* It is a state, not an event: one in 50 us is enough. */
static void not_each_of_them_is(void **state)
{
	struct pair *pair = *state;

	marked = &pair->a;
	pair->meddle = mark;
	for (int i = 0; i < 10; i++)
		send_some(pair, IBV_WR_RDMA_WRITE, i);
	assert_int_equal(told(&pair->a), 1);
	pair->now += 51 * US;
	send_some(pair, IBV_WR_RDMA_WRITE, 10);
	assert_int_equal(told(&pair->a), 2);
}

static void a_marked_response_tells_the_requester(void **state)
{
	struct pair *pair = *state;
	uint32_t before;

	send_some(pair, IBV_WR_RDMA_READ, 1);
	before = room(&pair->a);
	marked = &pair->b;
	pair->meddle = mark;
	send_some(pair, IBV_WR_RDMA_READ, 2);
	assert_true(told(&pair->a) > 0);
	assert_int_equal(told(&pair->b), 0);
	assert_true(room(&pair->a) < before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(packets_may_be_marked_once_the_peer_is_known),
	    TEST(queries_do_not_show_it),
	    TEST(other_makes_are_sent_none_that_may),
	    TEST(the_programs_bits_stay),
	    TEST(a_marked_request_is_told_of),
	    TEST(not_each_of_them_is),
	    TEST(a_marked_response_tells_the_requester),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
