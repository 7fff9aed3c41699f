/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive queues and SRQs: order, the limit event, resizing, and each refusal. */
#include "fixture.h"

static struct pd *pd;

static int setup(void **state)
{
	return fixture_setup(state) || pd_create(&adapter, &pd);
}

static int teardown(void **state)
{
	return pd_destroy(pd) || fixture_teardown(state);
}

#define SRQ_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static struct srq *srq_new(uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = max_wr, .max_sge = max_sge}};
	struct srq *srq;

	assert_int_equal(srq_create(pd, &attr, &srq), 0);
	assert_true(attr.attr.max_wr >= max_wr);
	return srq;
}

static int post(struct srq *srq, uint64_t wr_id, int num_sge)
{
	struct ibv_sge sge[MAX_SGE + 1] = {{.addr = wr_id, .length = 10, .lkey = 1},
					   {.addr = wr_id + 1, .length = 20, .lkey = 2}};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = sge, .num_sge = num_sge}, *bad;

	return recv_queue_post(&srq->queue, &wr, &bad);
}

static struct recv_wqe *room(void)
{
	return calloc(1, sizeof(struct recv_wqe) + MAX_SGE * sizeof(struct ibv_sge));
}

static void receives_are_taken_in_order_with_their_elements(void **state)
{
	struct srq *srq = srq_new(4, 2);
	struct recv_wqe *wqe = room();
	uint64_t posted = 0, taken = 0;

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 3; i++)
			assert_int_equal(post(srq, posted++, i), 0);
		for (int i = 0; i < 3; i++) {
			assert_int_equal(srq_take(srq, wqe), 0);
			assert_int_equal(wqe->wr_id, taken++);
			assert_int_equal(wqe->num_sge, i);
			assert_int_equal(wqe->length, i == 0 ? 0 : i == 1 ? 10 : 30);
		}
		assert_int_equal(srq_take(srq, wqe), -ENOENT);
	}
	free(wqe);
	assert_int_equal(srq_destroy(srq), 0);
}

static void a_list_stops_at_its_first_bad_one(void **state)
{
	struct srq *srq = srq_new(4, 1);
	struct ibv_sge sge[2] = {{0}};
	struct ibv_recv_wr third = {.wr_id = 3, .sg_list = sge, .num_sge = 1};
	struct ibv_recv_wr second = {.wr_id = 2, .sg_list = sge, .num_sge = 2, .next = &third};
	struct ibv_recv_wr first = {.wr_id = 1, .sg_list = sge, .num_sge = 1, .next = &second};
	struct recv_wqe *wqe = room();
	struct ibv_recv_wr *bad = NULL;

	assert_refused(recv_queue_post(&srq->queue, &first, &bad), EINVAL, REASON_RECV_TOO_MANY_SGE,
		       "wr_id 0x2");
	assert_ptr_equal(bad, &second);
	assert_int_equal(srq_take(srq, wqe), 0);
	assert_int_equal(wqe->wr_id, 1);
	assert_int_equal(srq_take(srq, wqe), -ENOENT);
	free(wqe);
	srq_destroy(srq);
}

static void a_full_queue_refuses(void **state)
{
	struct srq *srq = srq_new(4, 1);

	for (int i = 0; i < 4; i++)
		assert_int_equal(post(srq, i, 1), 0);
	assert_refused(post(srq, 9, 1), ENOMEM, REASON_RECV_QUEUE_FULL, "wr_id 0x9");
	srq_destroy(srq);
}

static void a_negative_number_of_elements_is_refused(void **state)
{
	struct srq *srq = srq_new(4, 1);

	assert_refused(post(srq, 9, -1), EINVAL, REASON_RECV_TOO_MANY_SGE, "-1");
	srq_destroy(srq);
}

static void one_of_one_element_is_taken_and_another_stays(void **state)
{
	struct srq *srq = srq_new(4, 2);
	struct recv_wqe *wqe = malloc(RECV_WQE_SINGLE);

	assert_int_equal(srq_take_single(srq, wqe), -ENOENT);
	post(srq, 5, 1);
	post(srq, 6, 2);
	post(srq, 7, 0);
	assert_int_equal(srq_take_single(srq, wqe), 0);
	assert_int_equal(wqe->wr_id, 5);
	assert_int_equal(wqe->num_sge, 1);
	assert_int_equal(wqe->length, 10);
	assert_int_equal(wqe->sge[0].addr, 5);
	assert_int_equal(wqe->sge[0].length, 10);
	free(wqe);
	wqe = room();
	for (int i = 2; i >= 0; i -= 2) {
		assert_int_equal(srq_take_single(srq, wqe), -ENOENT);
		assert_int_equal(srq_take(srq, wqe), 0);
		assert_int_equal(wqe->num_sge, i);
	}
	free(wqe);
	assert_int_equal(srq_destroy(srq), 0);
}

static void expect_limit_told_once(int (*take)(struct srq *srq, struct recv_wqe *wqe))
{
	struct ibv_srq_attr attr = {.srq_limit = 3};
	struct srq *srq = srq_new(8, 1);
	struct recv_wqe *wqe = room();

	for (int i = 0; i < 5; i++)
		post(srq, i, 1);
	assert_int_equal(srq_modify(srq, &attr, IBV_SRQ_LIMIT), 0);
	assert_int_equal(srq_query(srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 3);
	take(srq, wqe);
	take(srq, wqe);
	assert_int_equal(fixture_event_count, 0);
	take(srq, wqe);
	assert_int_equal(fixture_event_count, 1);
	assert_int_equal(fixture_events[0].event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(fixture_events[0].element.srq, &srq->ibv);
	take(srq, wqe);
	assert_int_equal(fixture_event_count, 1);
	srq_query(srq, &attr);
	assert_int_equal(attr.srq_limit, 0);
	free(wqe);
	srq_destroy(srq);
}

static void the_limit_is_told_once(void **state)
{
	expect_limit_told_once(srq_take);
}

static void and_where_one_element_is_wanted(void **state)
{
	expect_limit_told_once(srq_take_single);
}

static void resizing_keeps_what_is_posted(void **state)
{
	struct ibv_srq_attr attr = {.max_wr = 16};
	struct srq *srq = srq_new(4, 1);
	struct recv_wqe *wqe = room();

	post(srq, 0, 1);
	srq_take(srq, wqe);
	for (int i = 1; i <= 4; i++)
		post(srq, i, 1);
	assert_int_equal(srq_modify(srq, &attr, IBV_SRQ_MAX_WR), 0);
	for (int i = 5; i <= 16; i++)
		assert_int_equal(post(srq, i, 1), 0);
	for (uint64_t i = 1; i <= 16; i++) {
		assert_int_equal(srq_take(srq, wqe), 0);
		assert_int_equal(wqe->wr_id, i);
	}
	free(wqe);
	srq_destroy(srq);
}

/* ---- refusals ---- */

static void a_size_below_what_is_posted_is_refused(void **state)
{
	struct ibv_srq_attr attr = {.max_wr = 2};
	struct srq *srq = srq_new(4, 1);

	for (int i = 0; i < 3; i++)
		post(srq, i, 1);
	assert_refused(srq_modify(srq, &attr, IBV_SRQ_MAX_WR), EINVAL, REASON_SRQ_RESIZE,
		       "3 work requests");
	srq_destroy(srq);
}

static void a_limit_above_the_queue_is_refused(void **state)
{
	struct ibv_srq_attr attr = {.srq_limit = 5};
	struct srq *srq = srq_new(4, 1);

	assert_refused(srq_modify(srq, &attr, IBV_SRQ_LIMIT), EINVAL, REASON_SRQ_LIMIT,
		       "srq_limit is 5");
	srq_destroy(srq);
}

static void an_unknown_mask_is_refused(void **state)
{
	struct ibv_srq_attr attr = {0};
	struct srq *srq = srq_new(4, 1);

	assert_refused(srq_modify(srq, &attr, 0x10), EINVAL, REASON_SRQ_MASK, "0x10");
	srq_destroy(srq);
}

static void sizes_out_of_range_are_refused(void **state)
{
	struct ibv_srq_init_attr none = {.attr = {.max_wr = 0, .max_sge = 1}};
	struct ibv_srq_init_attr many = {.attr = {.max_wr = MAX_SRQ_WR + 1, .max_sge = 1}};
	struct ibv_srq_init_attr wide = {.attr = {.max_wr = 1, .max_sge = MAX_SGE + 1}};
	struct srq *srq;

	assert_refused(srq_create(pd, &none, &srq), EINVAL, REASON_SRQ_SIZE, "max_wr is 0");
	assert_refused(srq_create(pd, &many, &srq), EINVAL, REASON_SRQ_SIZE, "65537");
	assert_refused(srq_create(pd, &wide, &srq), EINVAL, REASON_SRQ_SGE, "33");
}

static void an_srq_in_use_cannot_go_nor_its_pd(void **state)
{
	struct srq *srq = srq_new(4, 1);

	atomic_fetch_add(&srq->users, 1);
	assert_refused(srq_destroy(srq), EBUSY, REASON_SRQ_BUSY, "1 QP");
	atomic_fetch_sub(&srq->users, 1);
	assert_refused(pd_destroy(pd), EBUSY, REASON_PD_BUSY, "1 MR");
	assert_int_equal(srq_destroy(srq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    SRQ_TEST(receives_are_taken_in_order_with_their_elements),
	    SRQ_TEST(a_list_stops_at_its_first_bad_one),
	    SRQ_TEST(a_full_queue_refuses),
	    SRQ_TEST(a_negative_number_of_elements_is_refused),
	    SRQ_TEST(one_of_one_element_is_taken_and_another_stays),
	    SRQ_TEST(the_limit_is_told_once),
	    SRQ_TEST(and_where_one_element_is_wanted),
	    SRQ_TEST(resizing_keeps_what_is_posted),
	    SRQ_TEST(a_size_below_what_is_posted_is_refused),
	    SRQ_TEST(a_limit_above_the_queue_is_refused),
	    SRQ_TEST(an_unknown_mask_is_refused),
	    SRQ_TEST(sizes_out_of_range_are_refused),
	    SRQ_TEST(an_srq_in_use_cannot_go_nor_its_pd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
