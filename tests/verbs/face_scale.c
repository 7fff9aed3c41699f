/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What threads share, and what a queue pair takes. The lane of a QP shows in its number's low bits.
 */
#define _GNU_SOURCE
#include <malloc.h>

#include "live.h"

enum {
	LANES = 2,
	CROWD = 300,
	QP_BYTES = 7000, /* of one with a work request each way */
	WQE_BYTES = 400, /* and at most this for each further one of both queues */
};

static uint32_t lanes; /* a machine of one processor has one */

static int open_with_lanes(void **state)
{
	setenv("VERBATIM_LANES", "2", 1);
	lanes = sysconf(_SC_NPROCESSORS_ONLN) >= LANES ? LANES : 1;
	return live_open(state);
}

static struct ibv_cq *make_cq(void)
{
	struct ibv_cq *cq = ibv_create_cq(context, CQE, NULL, NULL, 0);

	assert_non_null(cq);
	return cq;
}

static struct ibv_qp *make_qp_of(struct ibv_cq *send_cq, struct ibv_cq *recv_cq)
{
	struct ibv_qp_init_attr attr = end_qp_attr(send_cq, IBV_QPT_RC);
	struct ibv_qp *qp;

	attr.recv_cq = recv_cq;
	qp = ibv_create_qp(pd, &attr);
	assert_non_null(qp);
	return qp;
}

static uint32_t lane_of(const struct ibv_qp *qp)
{
	return qp->qp_num % lanes;
}

/* So a poll takes one lock, and threads with CQs of their own none in common. */
static void qps_of_a_cq_are_on_one_lane_and_those_of_others_are_not(void **state)
{
	struct ibv_cq *send_cqs[LANES], *recv_cqs[LANES];
	struct ibv_qp *qps[LANES][8];
	uint32_t seen = 0;

	for (int i = 0; i < LANES; i++) {
		send_cqs[i] = make_cq();
		recv_cqs[i] = make_cq();
	}
	for (int k = 0; k < 8; k++) /* in turn: which comes first does not matter */
		for (int i = 0; i < LANES; i++)
			qps[i][k] = make_qp_of(send_cqs[i], recv_cqs[i]);
	for (int i = 0; i < LANES; i++) {
		for (int k = 1; k < 8; k++)
			assert_int_equal(lane_of(qps[i][k]), lane_of(qps[i][0]));
		seen |= 1u << lane_of(qps[i][0]);
	}
	assert_int_equal(seen, (1u << lanes) - 1);
	for (int i = 0; i < LANES; i++) {
		for (int k = 0; k < 8; k++)
			assert_int_equal(ibv_destroy_qp(qps[i][k]), 0);
		assert_int_equal(ibv_destroy_cq(send_cqs[i]), 0);
		assert_int_equal(ibv_destroy_cq(recv_cqs[i]), 0);
	}
}

/* So all lanes' threads serve a program that sleeps on one CQ for many peers. */
static void a_crowd_of_one_cq_is_on_all_lanes(void **state)
{
	struct ibv_cq *cq = make_cq();
	struct ibv_qp *qps[CROWD];
	uint32_t seen = 0;

	for (int i = 0; i < CROWD; i++) {
		qps[i] = make_qp_of(cq, cq);
		seen |= 1u << lane_of(qps[i]);
	}
	assert_int_equal(seen, (1u << lanes) - 1);
	for (int i = 0; i < CROWD; i++)
		assert_int_equal(ibv_destroy_qp(qps[i]), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* Heap and mappings of the heap, without what pages of it were touched. */
static size_t allocated(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static size_t bytes_of_a_qp(uint32_t work_requests)
{
	struct ibv_cq *cq = make_cq();
	struct ibv_qp_init_attr attr = end_qp_attr(cq, IBV_QPT_RC);
	struct ibv_qp *qps[CROWD];
	size_t before, after;

	attr.cap = (struct ibv_qp_cap){work_requests, work_requests, 1, 1, 0};
	before = allocated();
	for (int i = 0; i < CROWD; i++) {
		qps[i] = ibv_create_qp(pd, &attr);
		assert_non_null(qps[i]);
		qp_init(qps[i], live_access);
		qp_connect(qps[i], qps[i]->qp_num);
	}
	after = allocated();
	for (int i = 0; i < CROWD; i++)
		assert_int_equal(ibv_destroy_qp(qps[i]), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	return (after - before) / CROWD;
}

static void a_qp_takes_memory_as_its_queues_do(void **state)
{
	size_t one = bytes_of_a_qp(1), many = bytes_of_a_qp(128);

	if (one > QP_BYTES || many > one + 128 * WQE_BYTES)
		fail_msg("%zu bytes with a work request each way, %zu with 128", one, many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(qps_of_a_cq_are_on_one_lane_and_those_of_others_are_not),
	    cmocka_unit_test(a_crowd_of_one_cq_is_on_all_lanes),
	    cmocka_unit_test(a_qp_takes_memory_as_its_queues_do),
	};

	return cmocka_run_group_tests(tests, open_with_lanes, live_close);
}
