/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: order, arming, overrun, resizing, and what goes with a QP. */
#include "fixture.h"

static struct cq *cq_new(uint32_t cqe)
{
	struct cq *cq;

	assert_int_equal(cq_create(&adapter, cqe, &cq), 0);
	return cq;
}

static int push(struct cq *cq, uint64_t wr_id, uint32_t qpn)
{
	struct ibv_wc wc = {.wr_id = wr_id, .qp_num = qpn};

	return cq_push(cq, &wc, false, wr_id * 10);
}

static void completions_come_in_order_around_the_ring(void **state)
{
	struct cq *cq = cq_new(3);
	struct ibv_wc wc[4];
	uint64_t pushed = 0, polled = 0;

	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 1 + round % 3; i++)
			assert_int_equal(push(cq, pushed++, 1), 0);
		assert_int_equal(cq_poll(cq, 4, wc), 1 + round % 3);
		for (int i = 0; i < 1 + round % 3; i++)
			assert_int_equal(wc[i].wr_id, polled++);
	}
	assert_int_equal(cq_poll(cq, 4, wc), 0);
	assert_int_equal(cq_destroy(cq), 0);
}

static void no_more_is_taken_than_asked_for(void **state)
{
	struct cq *cq = cq_new(8);
	struct ibv_wc wc[2];

	for (int i = 0; i < 5; i++)
		push(cq, i, 1);
	assert_int_equal(cq_poll(cq, 2, wc), 2);
	assert_int_equal(cq_poll(cq, 0, wc), 0);
	assert_int_equal(cq_poll(cq, 2, wc), 2);
	assert_int_equal(cq_poll(cq, 2, wc), 1);
	assert_int_equal(wc[0].wr_id, 4);
	cq_destroy(cq);
}

static void one_comes_with_its_time(void **state)
{
	struct cq *cq = cq_new(8);
	struct cqe cqe;

	push(cq, 7, 1);
	assert_int_equal(cq_poll_one(cq, &cqe), 0);
	assert_int_equal(cqe.wc.wr_id, 7);
	assert_int_equal(cqe.timestamp, 70);
	assert_int_equal(cq_poll_one(cq, &cqe), -ENOENT);
	cq_destroy(cq);
}

/* ---- arming ---- */

static void an_armed_cq_tells_once(void **state)
{
	struct cq *cq = cq_new(8);

	push(cq, 1, 1);
	assert_int_equal(fixture_cq_events, 0);
	cq_arm(cq, false);
	assert_int_equal(fixture_cq_events, 0);
	push(cq, 2, 1);
	assert_int_equal(fixture_cq_events, 1);
	push(cq, 3, 1);
	assert_int_equal(fixture_cq_events, 1);
	cq_destroy(cq);
}

static void armed_for_solicited_ones_it_waits_for_these_and_for_errors(void **state)
{
	struct cq *cq = cq_new(8);
	struct ibv_wc good = {0}, bad = {.status = IBV_WC_WR_FLUSH_ERR};

	cq_arm(cq, true);
	cq_push(cq, &good, false, 0);
	assert_int_equal(fixture_cq_events, 0);
	cq_push(cq, &good, true, 0);
	assert_int_equal(fixture_cq_events, 1);
	cq_arm(cq, true);
	cq_push(cq, &bad, false, 0);
	assert_int_equal(fixture_cq_events, 2);
	cq_destroy(cq);
}

static void the_stronger_arming_stays(void **state)
{
	struct cq *cq = cq_new(8);
	struct ibv_wc good = {0};

	cq_arm(cq, false);
	cq_arm(cq, true);
	cq_push(cq, &good, false, 0);
	assert_int_equal(fixture_cq_events, 1);
	cq_arm(cq, true);
	cq_arm(cq, false);
	cq_push(cq, &good, false, 0);
	assert_int_equal(fixture_cq_events, 2);
	cq_destroy(cq);
}

/* ---- in place ---- */

static int add(struct cq *cq, uint64_t wr_id, bool is_solicited)
{
	struct cqe *cqe = cq_add(cq);

	if (!cqe)
		return -EOVERFLOW;
	cqe_begin(cqe, wr_id * 10);
	wc_fill(&cqe->wc, wr_id, IBV_WC_RECV, 100, 7);
	cq_added(cq, cqe, is_solicited);
	return 0;
}

static void what_is_filled_in_there_is_as_what_is_pushed(void **state)
{
	struct cq *cq = cq_new(3);
	uint64_t added = 0, polled = 0;
	struct cqe cqe;

	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 1 + round % 3; i++, added++)
			assert_int_equal(added % 2 ? push(cq, added, 7) : add(cq, added, false), 0);
		for (int i = 0; i < 1 + round % 3; i++, polled++) {
			assert_int_equal(cq_poll_one(cq, &cqe), 0);
			assert_int_equal(cqe.wc.wr_id, polled);
			assert_int_equal(cqe.wc.qp_num, 7);
			assert_int_equal(cqe.timestamp, polled * 10);
		}
	}
	cq_destroy(cq);
}

/* Whatever stood there. */
static void each_field_is_filled_in(void **state)
{
	struct cqe cqe,
	    expected = {.wc = {.wr_id = 1, .opcode = IBV_WC_RECV, .byte_len = 2, .qp_num = 3},
			.timestamp = 4};

	memset(&cqe, 0x55, sizeof(cqe));
	cqe_begin(&cqe, 4);
	wc_fill(&cqe.wc, 1, IBV_WC_RECV, 2, 3);
	assert_memory_equal(&cqe.wc, &expected.wc,
			    offsetof(struct ibv_wc, dlid_path_bits) + 1); /* padding follows */
	assert_int_equal(cqe.timestamp, 4);
	assert_int_equal(cqe.tm_tag, 0);
	assert_int_equal(cqe.tm_priv, 0);
	assert_int_equal(cqe.flow_tag, 0);
	assert_int_equal(cqe.cvlan, 0);
}

static void where_there_is_no_room_nothing_is_filled_in(void **state)
{
	struct cq *cq = cq_new(1);
	struct ibv_wc wc;

	assert_int_equal(add(cq, 1, false), 0);
	assert_null(cq_add(cq));
	assert_int_equal(cq_poll(cq, 1, &wc), 1);
	assert_int_equal(add(cq, 2, false), 0);
	assert_int_equal(push(cq, 3, 1), -EOVERFLOW);
	assert_int_equal(cq_poll(cq, 1, &wc), 1);
	assert_null(cq_add(cq)); /* in error */
	cq_destroy(cq);
}

static void it_tells_as_well(void **state)
{
	struct cq *cq = cq_new(8);

	cq_arm(cq, true);
	add(cq, 1, false);
	assert_int_equal(fixture_cq_events, 0);
	add(cq, 2, true);
	assert_int_equal(fixture_cq_events, 1);
	add(cq, 3, true);
	assert_int_equal(fixture_cq_events, 1);
	cq_destroy(cq);
}

/* ---- several in one go ---- */

/* As many as there is room for. */
static uint32_t add_row(struct cq *cq, uint64_t wr_id, uint32_t count, bool is_solicited)
{
	uint32_t room = cq_add_row(cq, count);

	for (uint32_t i = 0; i < room; i++) {
		struct cqe *cqe = cq_row_at(cq, i);

		cqe_begin(cqe, (wr_id + i) * 10);
		wc_fill(&cqe->wc, wr_id + i, IBV_WC_RECV, 100, 7);
	}
	if (room)
		cq_added_row(cq, room, is_solicited);
	return room;
}

static void a_row_stands_around_the_ring_as_others_do(void **state)
{
	struct cq *cq = cq_new(5);
	uint64_t added = 0, polled = 0;
	struct cqe cqe;

	for (uint32_t round = 0; round < 50; round++) {
		assert_int_equal(push(cq, added++, 7), 0);
		assert_int_equal(add_row(cq, added, 1 + round % 4, false), 1 + round % 4);
		added += 1 + round % 4;
		for (; polled < added; polled++) {
			assert_int_equal(cq_poll_one(cq, &cqe), 0);
			assert_int_equal(cqe.wc.wr_id, polled);
			assert_int_equal(cqe.timestamp, polled * 10);
		}
	}
	cq_destroy(cq);
}

static void a_row_ends_where_the_room_does(void **state)
{
	struct cq *cq = cq_new(4);
	struct ibv_wc wc[4];

	assert_int_equal(cq_room(cq), 4);
	assert_int_equal(push(cq, 1, 7), 0);
	assert_int_equal(cq_room(cq), 3);
	assert_int_equal(add_row(cq, 2, 9, false), 3);
	assert_int_equal(add_row(cq, 5, 1, false), 0);
	assert_int_equal(cq_room(cq), 0);
	assert_int_equal(cq_poll(cq, 4, wc), 4);
	assert_int_equal(wc[3].wr_id, 4);
	assert_int_equal(add_row(cq, 5, 4, false), 4);
	assert_int_equal(push(cq, 9, 7), -EOVERFLOW);
	assert_int_equal(cq_poll(cq, 4, wc), 4);
	assert_int_equal(add_row(cq, 9, 1, false), 0); /* in error */
	cq_destroy(cq);
}

static void a_row_tells_once_and_of_what_is_asked_for(void **state)
{
	struct cq *cq = cq_new(64);

	add_row(cq, 1, 3, true);
	assert_int_equal(fixture_cq_events, 0);
	cq_arm(cq, true);
	add_row(cq, 4, 3, false);
	assert_int_equal(fixture_cq_events, 0);
	add_row(cq, 7, 3, true);
	assert_int_equal(fixture_cq_events, 1);
	cq_arm(cq, false);
	add_row(cq, 10, 3, false);
	assert_int_equal(fixture_cq_events, 2);
	add_row(cq, 13, 3, false);
	assert_int_equal(fixture_cq_events, 2);
	cq_destroy(cq);
}

static void a_moderated_cq_counts_each_of_a_row(void **state)
{
	struct cq *cq = cq_new(64);

	cq_moderate(cq, 5, 0);
	assert_int_equal(cq_room(cq), 64);
	cq_arm(cq, false);
	add_row(cq, 1, 4, false);
	assert_int_equal(fixture_cq_events, 0);
	add_row(cq, 5, 4, false);
	assert_int_equal(fixture_cq_events, 1);
	cq_arm(cq, false);
	add_row(cq, 9, 4, false); /* none of those before */
	assert_int_equal(fixture_cq_events, 1);
	cq_moderate(cq, 5, 10);
	assert_int_equal(cq_room(cq), 0); /* for what nobody would look at in time */
	cq_destroy(cq);
}

/* ---- moderation ---- */

static void push_at(struct cq *cq, uint64_t now)
{
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	assert_int_equal(cq_push(cq, &wc, false, now), 0);
}

static void a_moderated_cq_tells_of_so_many(void **state)
{
	struct cq *cq = cq_new(16);

	cq_moderate(cq, 3, 0);
	for (int round = 1; round <= 2; round++) {
		cq_arm(cq, false);
		push_at(cq, 1);
		push_at(cq, 2);
		assert_int_equal(fixture_cq_events, round - 1);
		push_at(cq, 3);
		assert_int_equal(fixture_cq_events, round);
		push_at(cq, 4);
		assert_int_equal(fixture_cq_events, round);
	}
	assert_true(cq_event_at(cq) == CQ_NO_EVENT);
	cq_destroy(cq);
}

static void a_moderated_cq_tells_when_the_oldest_has_waited(void **state)
{
	struct cq *cq = cq_new(16);

	cq_moderate(cq, 100, 50);
	cq_arm(cq, false);
	assert_true(cq_event_at(cq) == CQ_NO_EVENT);
	push_at(cq, 1000);
	push_at(cq, 2000);
	assert_int_equal(cq_event_at(cq), 51000);
	cq_expire(cq, 50999);
	assert_int_equal(fixture_cq_events, 0);
	cq_expire(cq, 51000);
	assert_int_equal(fixture_cq_events, 1);
	cq_expire(cq, 99999);
	assert_int_equal(fixture_cq_events, 1);
	assert_true(cq_event_at(cq) == CQ_NO_EVENT);
	cq_destroy(cq);
}

static void errors_are_not_held_back(void **state)
{
	struct ibv_wc bad = {.status = IBV_WC_RETRY_EXC_ERR};
	struct cq *cq = cq_new(16);

	cq_moderate(cq, 100, 50);
	cq_arm(cq, false);
	push_at(cq, 1);
	cq_push(cq, &bad, false, 2);
	assert_int_equal(fixture_cq_events, 1);
	assert_true(cq_event_at(cq) == CQ_NO_EVENT);
	cq_destroy(cq);
}

static void what_is_held_is_told_when_moderation_changes(void **state)
{
	struct cq *cq = cq_new(16);

	cq_moderate(cq, 100, 0);
	cq_arm(cq, false);
	push_at(cq, 1);
	assert_int_equal(fixture_cq_events, 0);
	cq_moderate(cq, 0, 0);
	assert_int_equal(fixture_cq_events, 1);
	cq_arm(cq, false);
	push_at(cq, 2);
	assert_int_equal(fixture_cq_events, 2);
	cq_destroy(cq);
}

/* ---- overrun ---- */

static void an_overrun_is_an_error_of_the_cq_for_good(void **state)
{
	struct cq *cq = cq_new(2);
	struct ibv_wc wc[3];
	const char *live;

	push(cq, 1, 1);
	push(cq, 2, 1);
	assert_int_equal(push(cq, 3, 0x77), -EOVERFLOW);
	assert_int_equal(reason_last(&live), REASON_CQ_OVERRUN);
	assert_non_null(strstr(live, "QP 0x77"));
	assert_int_equal(fixture_event_count, 1);
	assert_int_equal(fixture_events[0].event_type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(fixture_events[0].element.cq, &cq->ibv);
	assert_int_equal(push(cq, 4, 1), -EOVERFLOW);
	assert_int_equal(fixture_event_count, 1);
	assert_int_equal(cq_poll(cq, 3, wc), 2);
	assert_int_equal(wc[1].wr_id, 2);
	assert_int_equal(cq_poll(cq, 3, wc), -EOVERFLOW);
	assert_int_equal(push(cq, 5, 1), -EOVERFLOW);
	cq_destroy(cq);
}

static void an_overrun_that_is_ignored_loses_the_oldest(void **state)
{
	struct cq *cq = cq_new(2);
	struct ibv_wc wc[3];

	cq->ignore_overrun = true;
	for (int i = 1; i <= 5; i++)
		assert_int_equal(push(cq, i, 1), 0);
	assert_int_equal(fixture_event_count, 0);
	assert_int_equal(cq_poll(cq, 3, wc), 2);
	assert_int_equal(wc[0].wr_id, 4);
	assert_int_equal(wc[1].wr_id, 5);
	cq_destroy(cq);
}

/* ---- resizing, forgetting ---- */

static void resizing_keeps_what_is_there(void **state)
{
	struct cq *cq = cq_new(3);
	struct ibv_wc wc[8];

	push(cq, 0, 1);
	cq_poll(cq, 1, wc);
	for (int i = 1; i <= 3; i++)
		push(cq, i, 1);
	assert_int_equal(cq_resize(cq, 7), 0);
	assert_int_equal(cq->ibv.cqe, 7);
	for (int i = 4; i <= 7; i++)
		assert_int_equal(push(cq, i, 1), 0);
	assert_int_equal(cq_poll(cq, 8, wc), 7);
	for (int i = 0; i < 7; i++)
		assert_int_equal(wc[i].wr_id, i + 1);
	cq_destroy(cq);
}

static void a_size_below_what_it_holds_is_refused(void **state)
{
	struct cq *cq = cq_new(4);
	struct ibv_wc wc[4];

	push(cq, 1, 1);
	push(cq, 2, 1);
	assert_refused(cq_resize(cq, 1), EINVAL, REASON_CQ_RESIZE, "2 completions");
	assert_int_equal(cq->ibv.cqe, 4);
	assert_int_equal(cq_poll(cq, 4, wc), 2);
	cq_destroy(cq);
}

static void a_qp_takes_its_completions_along(void **state)
{
	struct cq *cq = cq_new(5);
	struct ibv_wc wc[5];

	push(cq, 0, 1);
	cq_poll(cq, 1, wc);
	for (int i = 1; i <= 5; i++)
		push(cq, i, i % 2 ? 0xa : 0xb);
	cq_forget(cq, 0xa);
	assert_int_equal(cq_poll(cq, 5, wc), 2);
	assert_int_equal(wc[0].wr_id, 2);
	assert_int_equal(wc[1].wr_id, 4);
	cq_destroy(cq);
}

/* ---- refusals ---- */

static void sizes_out_of_range_are_refused(void **state)
{
	struct cq *cq;

	assert_refused(cq_create(&adapter, 0, &cq), EINVAL, REASON_CQ_SIZE, "cqe is 0");
	assert_refused(cq_create(&adapter, MAX_CQE + 1, &cq), EINVAL, REASON_CQ_SIZE, "4194304");
	cq = cq_new(1);
	assert_refused(cq_resize(cq, 0), EINVAL, REASON_CQ_SIZE, "cqe is 0");
	cq_destroy(cq);
}

static void a_cq_in_use_cannot_go(void **state)
{
	struct cq *cq = cq_new(1);

	atomic_fetch_add(&cq->users, 2);
	assert_refused(cq_destroy(cq), EBUSY, REASON_CQ_BUSY, "2 queues");
	atomic_fetch_sub(&cq->users, 2);
	assert_int_equal(cq_destroy(cq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(completions_come_in_order_around_the_ring),
	    TEST(no_more_is_taken_than_asked_for),
	    TEST(one_comes_with_its_time),
	    TEST(an_armed_cq_tells_once),
	    TEST(armed_for_solicited_ones_it_waits_for_these_and_for_errors),
	    TEST(the_stronger_arming_stays),
	    TEST(what_is_filled_in_there_is_as_what_is_pushed),
	    TEST(each_field_is_filled_in),
	    TEST(where_there_is_no_room_nothing_is_filled_in),
	    TEST(it_tells_as_well),
	    TEST(a_row_stands_around_the_ring_as_others_do),
	    TEST(a_row_ends_where_the_room_does),
	    TEST(a_row_tells_once_and_of_what_is_asked_for),
	    TEST(a_moderated_cq_counts_each_of_a_row),
	    TEST(a_moderated_cq_tells_of_so_many),
	    TEST(a_moderated_cq_tells_when_the_oldest_has_waited),
	    TEST(errors_are_not_held_back),
	    TEST(what_is_held_is_told_when_moderation_changes),
	    TEST(an_overrun_is_an_error_of_the_cq_for_good),
	    TEST(an_overrun_that_is_ignored_loses_the_oldest),
	    TEST(resizing_keeps_what_is_there),
	    TEST(a_size_below_what_it_holds_is_refused),
	    TEST(a_qp_takes_its_completions_along),
	    TEST(sizes_out_of_range_are_refused),
	    TEST(a_cq_in_use_cannot_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
