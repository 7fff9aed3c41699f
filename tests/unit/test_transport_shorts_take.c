/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Short SENDs, many of them at once, as a link has them in one batch: whatever is wrong with one of
 * them, or with what they are for, all is as if each had come by itself.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "trains.h"
#include "transport_case.h"
#include "transport/requester.h"
#include "wire/icrc.h"
#include "faults.h"

enum { LIST = TRAIN_MOST, EACH = 64, LENGTH = 9, ROOM = 32, TO = 1 << 19 };

static void run_out(struct pair *pair)
{
	run(pair);
	for (int i = 0; i < 100 && pair_wait(pair); i++)
		run(pair);
}

enum { WCS = 3 * LIST };

/* What programs and the wire see of it. */
struct outcome {
	char trace[PAIR_TRACE];
	struct cqe done[2][WCS];
	int count[2], events[2];
	struct transport_counters counters[2];
	char memory[LIST * EACH];
};

static void note_completions(struct side *side, int index, struct outcome *outcome)
{
	while (outcome->count[index] < WCS &&
	       !cq_poll_one(side->cq, &outcome->done[index][outcome->count[index]]))
		outcome->count[index]++;
}

static void note(struct side *side, int index, struct outcome *outcome)
{
	note_completions(side, index, outcome);
	outcome->events[index] = side->event_count;
	outcome->counters[index] = *transport_counters(side->qp);
	memcpy(outcome->memory, side->memory + TO, sizeof(outcome->memory));
}

static void (*prepare)(struct pair *pair); /* before all else; NULL: nothing */

static void act(void (*scenario)(struct pair *pair), bool is_together, struct outcome *outcome)
{
	struct pair *pair = pair_connected(&options);

	memset(outcome, 0, sizeof(*outcome));
	fill(pair->a.memory, LIST * EACH, 1);
	pair->a.qp->requester->signs_left = 0; /* they have met before */
	pair->b.qp->has_communicated = pair->a.qp->has_communicated = true;
	together = 0;
	are_together = is_together;
	scenario(pair);
	run_out(pair);
	memcpy(outcome->trace, pair->trace, sizeof(outcome->trace));
	note(&pair->a, 0, outcome);
	note(&pair->b, 1, outcome);
	pair_free(pair);
}

static void expect_alike(const struct ibv_wc *a, const struct ibv_wc *b)
{
	assert_int_equal(a->wr_id, b->wr_id);
	assert_int_equal(a->status, b->status);
	assert_int_equal(a->opcode, b->opcode);
	assert_int_equal(a->byte_len, b->byte_len);
	assert_int_equal(a->vendor_err, b->vendor_err);
	assert_int_equal(a->wc_flags, b->wc_flags);
	assert_int_equal(a->pkey_index, b->pkey_index);
	assert_int_equal(a->sl, b->sl);
}

/* The scenario has the same end either way, and `least` packets came with others in one of them. */
static const struct outcome *compare(void (*scenario)(struct pair *pair), uint32_t least)
{
	static struct outcome single, row;

	act(scenario, false, &single);
	assert_int_equal(together, 0);
	act(scenario, true, &row);
	assert_true(together >= least);
	assert_string_equal(row.trace, single.trace);
	assert_memory_equal(row.counters, single.counters, sizeof(single.counters));
	assert_memory_equal(row.events, single.events, sizeof(single.events));
	assert_memory_equal(row.memory, single.memory, sizeof(single.memory));
	for (int side = 0; side < 2; side++) {
		assert_int_equal(row.count[side], single.count[side]);
		for (int i = 0; i < single.count[side]; i++)
			expect_alike(&row.done[side][i].wc, &single.done[side][i].wc);
	}
	return &row;
}

static void expect_received(const struct outcome *outcome, int count)
{
	assert_true(outcome->count[1] >= count);
	for (int i = 0; i < count; i++) {
		const struct ibv_wc *wc = &outcome->done[1][i].wc;

		assert_int_equal(wc->wr_id, 100 + i);
		assert_int_equal(wc->status, IBV_WC_SUCCESS);
		assert_int_equal(wc->byte_len, LENGTH);
	}
}

static void post_receives(struct side *side, int count)
{
	for (int i = 0; i < count; i++)
		side_post_recv(side, 100 + i, TO + (size_t)i * EACH, EACH);
	side->is_scheduled = false;
}

static void post_at(struct side *side, int index, unsigned int flags)
{
	struct ibv_sge sge = side_sge(side, (size_t)index * EACH, LENGTH);
	struct ibv_send_wr wr = {.wr_id = index,
				 .opcode = IBV_WR_SEND,
				 .send_flags = flags | IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;

	assert_int_equal(qp_post_send(side->qp, &wr, &bad), 0);
	pair_schedule(&side->adapter, side->qp);
}

static void send_all(struct pair *pair)
{
	for (int i = 0; i < LIST; i++)
		post_at(&pair->a, i, 0);
}

static void send_list(struct pair *pair)
{
	if (prepare)
		prepare(pair);
	post_receives(&pair->b, LIST);
	send_all(pair);
}

static void all_come_to_their_receives(void **state)
{
	const struct outcome *outcome = compare(send_list, LIST - 1);

	(void)state;
	assert_int_equal(outcome->count[1], LIST);
	expect_received(outcome, LIST);
	assert_int_equal(outcome->counters[1].received_packets, LIST);
	assert_int_equal(outcome->counters[1].acks_sent, 1);
}

static void payloads_are_their_own(void **state)
{
	char sent[LIST * EACH];
	const struct outcome *outcome = compare(send_list, LIST - 1);

	(void)state;
	fill(sent, sizeof(sent), 1);
	for (size_t i = 0; i < LIST; i++)
		assert_memory_equal(outcome->memory + i * EACH, sent + i * EACH, LENGTH);
}

static void psns_wrap(void **state)
{
	options.psn_a = PSN_MASK - LIST / 2;
	expect_received(compare(send_list, LIST - 2), LIST);
	options.psn_a = default_options.psn_a;
	(void)state;
}

/* Those that find one, then an RNR NAK, and the rest when there are more. */
static void send_with_few_receives(struct pair *pair)
{
	post_receives(&pair->b, ROOM / 2 + 5);
	send_all(pair);
	run(pair);
	for (int i = ROOM / 2 + 5; i < LIST; i++)
		side_post_recv(&pair->b, 100 + i, TO + (size_t)i * EACH, EACH);
}

static void without_a_receive_the_peer_is_told_to_wait(void **state)
{
	const struct outcome *outcome = compare(send_with_few_receives, LIST - 1);

	(void)state;
	assert_int_equal(outcome->counters[0].rnr_naks_received, 1);
	expect_received(outcome, LIST);
}

/* Of each kind that is not plain, in the midst of others. */
static int odd;

static void post_odd(struct side *side, int at)
{
	struct ibv_sge sge[] = {side_sge(side, TO + (size_t)at * EACH, 4),
				side_sge(side, TO + (size_t)at * EACH + 4, EACH - 4)};
	struct ibv_sge whole = side_sge(side, TO + (size_t)at * EACH, EACH);
	struct ibv_sge empty[] = {{.length = 0}, whole};
	struct ibv_recv_wr wr = {.wr_id = 100 + at, .sg_list = sge, .num_sge = 2}, *bad;

	if (odd == 1) {
		whole.lkey ^= 1;
		wr.sg_list = &whole;
		wr.num_sge = 1;
	} else if (odd == 2) {
		whole.length = LENGTH - 1;
		wr.sg_list = &whole;
		wr.num_sge = 1;
	} else if (odd == 3) {
		wr.num_sge = 0;
	} else if (odd == 4) {
		wr.sg_list = empty;
	}
	assert_int_equal(qp_post_recv(side->qp, &wr, &bad), 0);
}

static void send_to_an_odd_receive(struct pair *pair)
{
	post_receives(&pair->b, LIST / 2);
	post_odd(&pair->b, LIST / 2);
	for (int i = LIST / 2 + 1; i < LIST; i++)
		side_post_recv(&pair->b, 100 + i, TO + (size_t)i * EACH, EACH);
	send_all(pair);
}

static void receives_in_pieces_are_filled_between_others(void **state)
{
	(void)state;
	odd = 0;
	expect_received(compare(send_to_an_odd_receive, LIST - 1), LIST);
	odd = 4;
	expect_received(compare(send_to_an_odd_receive, LIST - 1), LIST);
}

static void expect_ended_at(const struct outcome *outcome, int index, enum ibv_wc_status status)
{
	expect_received(outcome, index);
	assert_int_equal(outcome->count[1], LIST);
	assert_int_equal(outcome->done[1][index].wc.status, status);
	for (int i = index + 1; i < LIST; i++)
		assert_int_equal(outcome->done[1][i].wc.status, IBV_WC_WR_FLUSH_ERR);
	for (int i = 0; i < index; i++)
		assert_int_equal(outcome->done[0][i].wc.status, IBV_WC_SUCCESS);
	assert_int_not_equal(outcome->done[0][index].wc.status, IBV_WC_SUCCESS);
}

static void a_wrong_receive_ends_the_queue_where_it_is(void **state)
{
	(void)state;
	odd = 1;
	expect_ended_at(compare(send_to_an_odd_receive, LIST - 1), LIST / 2, IBV_WC_LOC_PROT_ERR);
	odd = 2;
	expect_ended_at(compare(send_to_an_odd_receive, LIST - 1), LIST / 2, IBV_WC_LOC_LEN_ERR);
	odd = 3;
	expect_ended_at(compare(send_to_an_odd_receive, LIST - 1), LIST / 2, IBV_WC_LOC_LEN_ERR);
}

#ifdef FAULTS_ARE_FOUND
enum { PAGE = 4096, BEFORE = PAGE / EACH - 24 };

static struct mr *half_gone;
static char *pages;

static void send_to_memory_that_is_gone(struct pair *pair)
{
	pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(mr_create(pair->b.pd, pages, 2 * PAGE, (uintptr_t)pages,
				   IBV_ACCESS_LOCAL_WRITE, &half_gone),
			 0);
	munmap(pages + PAGE, PAGE);
	for (int i = 0; i < LIST; i++) {
		struct ibv_sge sge = {(uintptr_t)pages + (24 + i) * EACH, EACH, half_gone->lkey};
		struct ibv_recv_wr wr = {.wr_id = 100 + i, .sg_list = &sge, .num_sge = 1}, *bad;

		assert_int_equal(qp_post_recv(pair->b.qp, &wr, &bad), 0);
	}
	send_all(pair);
	run_out(pair);
	mr_destroy(half_gone);
	munmap(pages, PAGE);
}

static void memory_that_is_gone_ends_the_queue_where_it_is(void **state)
{
	(void)state;
	guard_faults();
	expect_ended_at(compare(send_to_memory_that_is_gone, LIST - 1), BEFORE,
			IBV_WC_LOC_PROT_ERR);
}
#endif

enum { SHARED = 15 };

static void send_to_a_shared_queue(struct pair *pair)
{
	post_receives(&pair->b, SHARED);
	send_all(pair);
	for (int i = SHARED; i < LIST; i++) {
		if (i % SHARED == 0)
			run(pair);
		side_post_recv(&pair->b, 100 + i, TO + (size_t)i * EACH, EACH);
		if (i % SHARED == SHARED - 1)
			pair_wait(pair);
	}
}

static void a_queue_that_others_share_gives_its_receives(void **state)
{
	(void)state;
	options.has_srq = true;
	expect_received(compare(send_to_a_shared_queue, LIST / 3), LIST);
	options.has_srq = false;
}

/* Behind the last that it has room for: the queue is lost, as its CQ is. */
static void a_cq_that_is_full_ends_the_queue(void **state)
{
	const struct outcome *outcome;

	(void)state;
	options.cqe = LIST / 2 + 3;
	outcome = compare(send_list, LIST - 1);
	expect_received(outcome, LIST / 2 + 3);
	assert_int_equal(outcome->count[1], LIST / 2 + 3);
	assert_true(outcome->events[1] >= 2);
	options.cqe = default_options.cqe;
}

static void count_receives(struct pair *pair)
{
	pair->b.qp->counted |= IBV_QP_ATTACH_COMP_CNTR_OP_RECV;
}

static void forget_communication(struct pair *pair)
{
	pair->b.qp->has_communicated = false;
}

static void what_is_not_plain_about_the_queue(void **state)
{
	static void (*const ways[])(struct pair *) = {count_receives, forget_communication};

	(void)state;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		prepare = ways[i];
		expect_received(compare(send_list, LIST - 1), LIST);
	}
	prepare = NULL;
}

static int lost_at;

static int lose_one(struct pair *pair, struct side *from, struct flying *packet)
{
	(void)from, (void)packet;
	return pair->passed % 97 == lost_at ? 0 : 1;
}

static void lose(struct pair *pair)
{
	pair->meddle = lose_one;
}

static void whatever_is_lost(void **state)
{
	(void)state;
	prepare = lose;
	for (lost_at = 1; lost_at < 64; lost_at += 3) {
		const struct outcome *outcome = compare(send_list, LIST / 3);

		assert_int_equal(outcome->count[1], LIST);
		expect_received(outcome, LIST);
	}
	prepare = NULL;
}

/* Seen before, and seen before in part. */
static int again(struct pair *pair, struct side *from, struct flying *packet)
{
	if (from == &pair->b && packet->bytes[0] == (TRANSPORT_RC | OP_ACKNOWLEDGE))
		return pair->passed % 200 > 61;
	return 1;
}

static void lose_acks(struct pair *pair)
{
	pair->meddle = again;
}

static void what_comes_twice_is_received_once(void **state)
{
	const struct outcome *outcome;

	(void)state;
	prepare = lose_acks;
	outcome = compare(send_list, LIST - 1);
	assert_int_equal(outcome->count[1], LIST);
	assert_true(outcome->counters[1].duplicates > 0);
	expect_received(outcome, LIST);
	prepare = NULL;
}

static int mark(struct pair *pair, struct side *from, struct flying *packet)
{
	if (from == &pair->a)
		packet->av.ecn = 3;
	return 1;
}

static int sign(struct pair *pair, struct side *from, struct flying *packet)
{
	if (from == &pair->a)
		packet->bytes[4] = 0x80;
	return 1;
}

static int shorten(struct pair *pair, struct side *from, struct flying *packet)
{
	if (from == &pair->a)
		packet->size = BTH_BYTES;
	return 1;
}

static int of_another_partition(struct pair *pair, struct side *from, struct flying *packet)
{
	if (from == &pair->a && pair->passed > 20 && pair->passed < 200)
		packet->bytes[3] ^= 1;
	return 1;
}

static int (*meddle)(struct pair *pair, struct side *from, struct flying *packet);

static void meddle_with(struct pair *pair)
{
	pair->meddle = meddle;
}

static void what_is_not_plain_about_the_packets(void **state)
{
	static int (*const ways[])(struct pair *, struct side *,
				   struct flying *) = {mark, sign, shorten, of_another_partition};

	(void)state;
	prepare = meddle_with;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		meddle = ways[i];
		compare(send_list, LIST / 3);
	}
	prepare = NULL;
}

/* ---- events ---- */

static unsigned int send_flags;

static void send_with_flags(struct pair *pair)
{
	post_receives(&pair->b, LIST);
	cq_arm(pair->b.cq, true);
	for (int i = 0; i < LIST; i++)
		post_at(&pair->a, i, send_flags);
	run(pair);
	assert_int_equal(pair->b.cq->arm, send_flags ? CQ_NOT_ARMED : CQ_ARMED_SOLICITED);
}

static void an_event_is_for_what_is_solicited(void **state)
{
	(void)state;
	send_flags = IBV_SEND_SOLICITED;
	expect_received(compare(send_with_flags, LIST - 1), LIST);
	send_flags = 0;
	expect_received(compare(send_with_flags, LIST - 1), LIST);
}

/* ---- who polls ---- */

enum { ARRAY = 7 };

/* As much as the array takes goes there, and what is behind it to the CQ. */
static void who_polls_has_them_in_his_array(void **state)
{
	struct pair *pair = *state;
	struct ibv_wc wcs[ARRAY];
	struct cq_taking taking;
	struct cqe cqe;

	pair->a.qp->requester->signs_left = 0;
	pair->b.qp->has_communicated = true;
	post_receives(&pair->b, LIST);
	send_all(pair);
	side_turn(&pair->a);
	cq_take_begin(&taking, pair->b.cq, ARRAY, wcs);
	cq_take_share(&taking);
	deliver_together(pair);
	assert_int_equal(cq_take_end(&taking), ARRAY);
	for (int i = 0; i < LIST; i++) {
		struct ibv_wc *wc = i < ARRAY ? wcs + i : &cqe.wc;

		if (i >= ARRAY)
			assert_int_equal(cq_poll_one(pair->b.cq, &cqe), 0);
		assert_int_equal(wc->wr_id, 100 + i);
		assert_int_equal(wc->status, IBV_WC_SUCCESS);
		assert_int_equal(wc->opcode, IBV_WC_RECV);
		assert_int_equal(wc->byte_len, LENGTH);
		assert_int_equal(wc->wc_flags, 0);
		assert_int_equal(wc->qp_num, pair->b.qp->number);
		assert_int_equal(wc->src_qp, pair->a.qp->number);
	}
	side_expect_none(&pair->b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_come_to_their_receives),
	    cmocka_unit_test(payloads_are_their_own),
	    cmocka_unit_test(psns_wrap),
	    cmocka_unit_test(without_a_receive_the_peer_is_told_to_wait),
	    cmocka_unit_test(receives_in_pieces_are_filled_between_others),
	    cmocka_unit_test(a_wrong_receive_ends_the_queue_where_it_is),
#ifdef FAULTS_ARE_FOUND
	    cmocka_unit_test(memory_that_is_gone_ends_the_queue_where_it_is),
#endif
	    cmocka_unit_test(a_queue_that_others_share_gives_its_receives),
	    cmocka_unit_test(a_cq_that_is_full_ends_the_queue),
	    cmocka_unit_test(what_is_not_plain_about_the_queue),
	    cmocka_unit_test(whatever_is_lost),
	    cmocka_unit_test(what_comes_twice_is_received_once),
	    cmocka_unit_test(what_is_not_plain_about_the_packets),
	    cmocka_unit_test(an_event_is_for_what_is_solicited),
	    cmocka_unit_test_setup_teardown(who_polls_has_them_in_his_array, set_up, tear_down),
	};

	options = default_options;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
