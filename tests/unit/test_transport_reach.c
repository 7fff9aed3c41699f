/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long WRITEs into a peer's memory that can't be had, at first or at all: what follows one that was
 * refused waits for its answer and is tried, or goes by packets as well.
 */
#include "transport/reach.h"
#include "transport_pair.h"

enum { LENGTH = 64 << 10, MOST = 35 };

static struct pair *pair;
static struct adapter_host host;
static int asked, refusals;

static enum reach_result reach(struct qp *qp, const struct reach_op *op)
{
	asked++;
	if (refusals) {
		refusals--;
		return REACH_REFUSED;
	}
	return REACH_DONE;
}

static bool is_reached(const struct qp *qp)
{
	return true;
}

static int set_up(void **state)
{
	struct pair_options options = default_options;

	options.mtu = IBV_MTU_4096;
	pair = pair_connected(&options);
	host = pair_host;
	host.reach = reach;
	host.is_reached = is_reached;
	pair->a.adapter.host = pair->b.adapter.host = &host;
	asked = 0;
	return 0;
}

static int tear_down(void **state)
{
	pair_free(pair);
	return 0;
}

/* So many at once, and all of them complete. */
static void write_all(int count)
{
	for (int i = 0; i < count; i++)
		side_request(&pair->a, IBV_WR_RDMA_WRITE, (uint64_t)i, 0, LENGTH);
	pair_run(pair);
	for (int i = 0; i < count; i++)
		side_expect(&pair->a, (uint64_t)i, IBV_WC_SUCCESS);
}

static void behind_a_first_refusal_all_wait(void **state)
{
	refusals = 1;
	write_all(20);
	assert_int_equal(asked, 20);
	assert_int_equal(transport_counters(pair->a.qp)->reached, 19);
}

/* It is asked for the 1st, 2nd, 4th, 7th, 12th and 21st. */
static void behind_further_ones_ever_more_go_by_packets(void **state)
{
	refusals = MOST;
	write_all(MOST);
	assert_int_equal(asked, 6);
	assert_int_equal(transport_counters(pair->a.qp)->reached, 0);
}

/* It has its PSNs by then, so it is not asked anew whether it waits. */
static void one_that_finds_no_room_counts_once(void **state)
{
	refusals = 3;
	write_all(3);
	assert_int_equal(asked, 2);
	/* the first of these is refused, the next two don't wait */
	for (int i = 0; i < 4; i++)
		side_request(&pair->a, IBV_WR_RDMA_WRITE, (uint64_t)i, 0, LENGTH);
	pair->room = LENGTH / 4096; /* for the first */
	for (int i = 0; i < 3; i++)
		side_turn(&pair->a);
	assert_int_equal(pair->room, 0);
	assert_int_equal(asked, 3);
	pair->room = UINT32_MAX;
	pair_run(pair);
	for (int i = 0; i < 4; i++)
		side_expect(&pair->a, (uint64_t)i, IBV_WC_SUCCESS);
	assert_int_equal(asked, 4);
	assert_int_equal(transport_counters(pair->a.qp)->reached, 1);
}

static void what_was_reached_is_a_new_beginning(void **state)
{
	refusals = 4;
	write_all(20);
	assert_int_equal(refusals, 0);
	asked = 0;
	refusals = 1;
	write_all(20);
	assert_int_equal(asked, 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    TEST(behind_a_first_refusal_all_wait),
	    TEST(behind_further_ones_ever_more_go_by_packets),
	    TEST(one_that_finds_no_room_counts_once),
	    TEST(what_was_reached_is_a_new_beginning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
