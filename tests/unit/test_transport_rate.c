/* SPDX-License-Identifier: BSD-2-Clause */
/* The rate that ibv_modify_qp_rate_limit() asks for: how long what takes, the burst, and refusals;
 * and that of a long way. */
#include "transport/requester.h"
#include "transport_pair.h"

static struct pair_options options;

static struct pair *limited(enum ibv_qp_type type, uint32_t kbps, uint32_t burst)
{
	struct ibv_qp_rate_limit_attr attr = {.rate_limit = kbps, .max_burst_sz = burst};
	struct pair *pair;

	options = default_options;
	options.type = type;
	pair = pair_connected(&options);
	assert_int_equal(qp_limit_rate(pair->a.qp, &attr), 0);
	return pair;
}

/* How long until all that was posted is acknowledged; nothing else takes time here. */
static uint64_t run_through(struct pair *pair)
{
	uint64_t start = pair->now;

	pair_run(pair);
	for (int i = 0; i < 100000 && sq_head(pair->a.qp) != sq_tail(pair->a.qp); i++)
		assert_true(pair_wait(pair));
	return pair->now - start;
}

static void a_megabyte_takes_the_time_that_the_rate_says(void **state)
{
	struct pair *pair = limited(IBV_QPT_RC, 80000, 4096); /* 10 bytes a us */
	uint64_t took;

	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 1000000);
	took = run_through(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	/* 977 packets of 12 bytes more, less the burst */
	assert_in_range(took, 100000000, 102000000);
	assert_int_equal(transport_counters(pair->a.qp)->resent, 0);
	pair_free(pair);
}

static void a_burst_goes_at_once(void **state)
{
	struct pair *pair = limited(IBV_QPT_RC, 8, 5000); /* a byte in a ms */

	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 4096);
	assert_int_equal(run_through(pair), 0);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 0, 4096);
	assert_in_range(run_through(pair), UINT64_C(3000000000), UINT64_C(5000000000));
	pair_free(pair);
}

static void datagrams_are_paced_as_well(void **state)
{
	struct pair *pair = limited(IBV_QPT_UC, 80000, 1024);

	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 100000);
	assert_in_range(run_through(pair), 9900000, 10300000);
	pair_free(pair);
}

static void without_a_limit_nothing_waits(void **state)
{
	struct pair *pair = limited(IBV_QPT_RC, 8, 1);
	struct ibv_qp_rate_limit_attr none = {.rate_limit = 0};

	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 100000);
	pair_run(pair);
	assert_true(transport_deadline(pair->a.qp) != NO_DEADLINE);
	assert_int_equal(qp_limit_rate(pair->a.qp, &none), 0);
	pair_schedule(&pair->a.adapter, pair->a.qp); /* as the engine does */
	assert_int_equal(run_through(pair), 0);
	assert_true(transport_deadline(pair->a.qp) == NO_DEADLINE);
	pair_free(pair);
}

static void the_way_to_rts_takes_a_rate(void **state)
{
	struct ibv_qp_attr attr = {.rate_limit = 1234}, told;
	struct ibv_qp_init_attr init;
	struct pair *pair;

	options = default_options;
	pair = pair_connected(&options);
	assert_int_equal(transport_modify_qp(pair->a.qp, &attr, IBV_QP_RATE_LIMIT, pair->now), 0);
	transport_query_qp(pair->a.qp, &told, &init);
	assert_int_equal(told.rate_limit, 1234);
	pair_free(pair);
}

static void limits_that_cannot_be_are_refused(void **state)
{
	struct ibv_qp_rate_limit_attr attr = {.rate_limit = 1, .comp_mask = 1};
	struct pair *pair;

	options = default_options;
	options.type = IBV_QPT_XRC_SEND;
	pair = pair_new(&options);
	assert_int_equal(qp_limit_rate(pair->a.qp, &attr), EINVAL);
	assert_int_equal(reason_last(NULL), REASON_COMP_MASK);
	attr.comp_mask = 0;
	assert_int_equal(qp_limit_rate(pair->a.qp, &attr), EINVAL);
	assert_int_equal(reason_last(NULL), REASON_RATE_STATE);
	assert_int_equal(qp_limit_rate(pair->b.qp, &attr), EINVAL);
	assert_int_equal(reason_last(NULL), REASON_RATE_TYPE);
	pair_free(pair);
}

/* A connection whose window of 512 KiB goes in so many ns. Round trips of the test's, which take no
 * time, are not measured. */
static struct pair *far(uint64_t round_trip)
{
	struct pair *pair;
	struct requester *requester;

	options = default_options;
	pair = pair_connected(&options);
	requester = pair->a.qp->requester;
	requester->probe.is_far = false;
	requester->probe.rtt.least = requester->probe.rtt.smoothed = round_trip;
	requester->window.packets = requester->window.max = requester->window.threshold =
	    (512 << 10) / pair->a.qp->mtu;
	return pair;
}

static void over_a_long_way_a_window_takes_a_round_trip(void **state)
{
	struct pair *pair = far(20000000);

	assert_true(window_is_long(&pair->a.qp->requester->window));
	/* twice the window, and a little faster */
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 1 << 20);
	assert_in_range(run_through(pair), 30000000, 34000000);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	/* a READ takes the time of its responses, but for those of the last one */
	for (int i = 0; i < 8; i++)
		side_request(&pair->a, IBV_WR_RDMA_READ, 2 + i, 0, 128 << 10);
	assert_in_range(run_through(pair), 25000000, 34000000);
	pair_free(pair);
}

static void over_a_short_way_nothing_waits(void **state)
{
	struct pair *pair = far(900000);

	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 1 << 20);
	assert_int_equal(run_through(pair), 0);
	pair_free(pair);
}

/* Bytes that may go at once. */
static uint32_t stride(struct pair *pair, uint64_t now)
{
	uint32_t bytes = 0;

	while (rate_may_send(pair->a.qp, now)) {
		rate_sent(pair->a.qp, 1024, 1, now);
		bytes += 1024;
	}
	assert_true(pair->a.qp->requester->rate_deadline > now);
	return bytes;
}

static void who_was_late_has_a_stride_more_and_not_all(void **state)
{
	struct pair *pair = far(20000000); /* 33 bytes a us: strides of 16 KiB */
	struct requester *requester = pair->a.qp->requester;
	uint64_t now = pair->now + 1000000000;

	assert_in_range(stride(pair, now), 30 << 10, 34 << 10);
	assert_int_equal(stride(pair, now + 1000), 0);
	assert_in_range(stride(pair, requester->rate_deadline), 15 << 10, 18 << 10);
	requester->window.trial.wary = 1;
	now = requester->rate_deadline;
	stride(pair, now);
	assert_in_range(stride(pair, requester->rate_deadline), 7 << 10, 9 << 10);
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_megabyte_takes_the_time_that_the_rate_says),
	    cmocka_unit_test(a_burst_goes_at_once),
	    cmocka_unit_test(datagrams_are_paced_as_well),
	    cmocka_unit_test(without_a_limit_nothing_waits),
	    cmocka_unit_test(the_way_to_rts_takes_a_rate),
	    cmocka_unit_test(limits_that_cannot_be_are_refused),
	    cmocka_unit_test(over_a_long_way_a_window_takes_a_round_trip),
	    cmocka_unit_test(over_a_short_way_nothing_waits),
	    cmocka_unit_test(who_was_late_has_a_stride_more_and_not_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
