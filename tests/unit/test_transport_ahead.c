/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is offered behind the offer that is being fetched (transport/fetch.c): the host hears of it
 * if it may begin with it, and of nothing else; and when the place that it is for is the program's
 * again.
 */
#include "transport/fetch.h"
#include "transport/offer.h"
#include "transport/reach.h"
#include "transport_pair.h"
#include "wire/offer.h"

enum { LENGTH = 100000, SHORTER = 70000, FAR = 400000, ROOM = 4, RECEIVES = 65 };

static struct pair_options options;
static struct pair *pair;
static struct adapter_host host;
static int fetches, ends;
static struct reach_behind found[ROOM]; /* behind the first that was fetched */
static uint32_t behinds;		/* so many */
static bool is_late;
static uint32_t last_psn; /* of the last one that was fetched */

static enum reach_result fetch(struct qp *qp, const struct reach_op *op)
{
	const char *from = (const char *)(uintptr_t)op->remote_addr;

	if (!op->is_fetch)
		return REACH_REFUSED;
	if (is_late)
		return REACH_LATER;
	fetches++;
	last_psn = op->psn;
	for (uint32_t i = 0; i < op->count; i++) {
		memcpy(op->pieces[i].iov_base, from, op->pieces[i].iov_len);
		from += op->pieces[i].iov_len;
	}
	if (op->behind && !behinds)
		behinds = op->behind(op, found, ROOM);
	return REACH_DONE;
}

/* Packets arrive in the order of the pair's list. */
static const uint8_t *behind(struct qp *qp, uint32_t next, size_t *length)
{
	const struct flying *packet = &pair->packets[(pair->first + next) % PAIR_PACKETS];

	if (next >= pair->count)
		return NULL;
	*length = packet->size;
	return packet->bytes;
}

static void forget_reach(struct qp *qp)
{
	ends++;
}

static bool is_reached(const struct qp *qp)
{
	return true;
}

static int set_up(void **state)
{
	options = default_options;
	if (*state)
		options.has_srq = true;
	pair = pair_connected(&options);
	host = pair_host;
	host.reach = fetch;
	host.behind = behind;
	host.forget_reach = forget_reach;
	host.is_reached = is_reached;
	pair->a.adapter.host = pair->b.adapter.host = &host;
	fill(pair->a.memory, PAIR_MEMORY, 3);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 99, 0, 8); /* then both know what the other is */
	pair_run(pair);
	side_expect(&pair->a, 99, IBV_WC_SUCCESS);
	fetches = ends = 0;
	behinds = 0;
	is_late = false;
	return 0;
}

static int tear_down(void **state)
{
	pair_free(pair);
	return 0;
}

static void send(uint64_t wr_id, size_t offset, uint32_t length)
{
	side_request(&pair->a, IBV_WR_SEND, wr_id, offset, length);
}

/* Receives of the first and the second, and both are on their way. */
static void run_two(uint32_t first, uint32_t second)
{
	send(1, 0, first);
	send(2, FAR, second);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	assert_memory_equal(pair->a.memory, pair->b.memory, first);
	assert_memory_equal(pair->a.memory + FAR, pair->b.memory + FAR, second);
}

static void it_is_told(void **state)
{
	side_post_recv(&pair->b, 7, 0, LENGTH);
	side_post_recv(&pair->b, 8, FAR, SHORTER);
	run_two(LENGTH, SHORTER);
	assert_int_equal(fetches, 2);
	assert_int_equal(behinds, 1);
	assert_int_equal(found[0].rkey, pair->a.mr->rkey);
	assert_int_equal(found[0].remote_addr, (uintptr_t)pair->a.memory + FAR);
	assert_int_equal(found[0].length, SHORTER);
	assert_int_equal(found[0].psn, psn_add(pair->a.psn, 98 + 69)); /* its last */
	assert_int_equal(last_psn, found[0].psn);
	assert_ptr_equal(found[0].here, pair->b.memory + FAR);
	assert_int_equal(ends, 0);
}

/* In their order, as far as there is room for them. */
static void of_several_as_well(void **state)
{
	for (int i = 0; i < 2 + ROOM; i++)
		side_post_recv(&pair->b, i, i * SHORTER, SHORTER);
	for (int i = 0; i < 2 + ROOM; i++)
		send(i, i * SHORTER, SHORTER);
	pair_run(pair);
	for (int i = 0; i < 2 + ROOM; i++)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	assert_memory_equal(pair->a.memory, pair->b.memory, (2 + ROOM) * SHORTER);
	assert_int_equal(fetches, 2 + ROOM);
	assert_int_equal(behinds, ROOM);
	for (int i = 0; i < ROOM; i++) {
		assert_int_equal(found[i].remote_addr,
				 (uintptr_t)pair->a.memory + (i + 1) * SHORTER);
		assert_ptr_equal(found[i].here, pair->b.memory + (i + 1) * SHORTER);
		assert_int_equal(found[i].psn, psn_add(pair->a.psn, 69 * (i + 2)));
	}
}

/* Up to what may not be begun. */
static void as_far_as_there_are_receives(void **state)
{
	for (int i = 0; i < 3; i++)
		side_post_recv(&pair->b, i, i * LENGTH, i < 2 ? LENGTH : SHORTER);
	send(0, 0, LENGTH);
	send(1, LENGTH, SHORTER);
	send(2, 2 * LENGTH, LENGTH);
	pair_run(pair);
	side_expect(&pair->a, 0, IBV_WC_SUCCESS);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(behinds, 1);
}

/* ---- not of these ---- */

static void expect_untold(void)
{
	assert_true(fetches > 0);
	assert_int_equal(behinds, 0);
}

static void not_where_there_is_no_room(void **state)
{
	side_post_recv(&pair->b, 7, 0, LENGTH);
	side_post_recv(&pair->b, 8, FAR, SHORTER - 1);
	send(1, 0, LENGTH);
	send(2, FAR, SHORTER);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_REM_INV_REQ_ERR);
	expect_untold();
}

/* Also where one was before that is taken. */
static void not_without_a_receive(void **state)
{
	for (int i = 0; i < RECEIVES; i++) {
		side_post_recv(&pair->b, 7, 0, LENGTH);
		send(1, 0, LENGTH);
		if (i == RECEIVES - 1)
			send(2, FAR, SHORTER);
		pair_run(pair);
		side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	}
	expect_untold();
}

/* Which are not done by one call. */
static void not_behind_several_pieces(void **state)
{
	struct ibv_sge list[] = {side_sge(&pair->a, 0, 60000), side_sge(&pair->a, 60000, 40000)};
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = list, .num_sge = 2};

	side_post_recv(&pair->b, 7, 0, LENGTH);
	side_post_recv(&pair->b, 8, FAR, SHORTER);
	side_post(&pair->a, &wr);
	send(2, FAR, SHORTER);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	assert_int_equal(fetches, 3);
	expect_untold();
}

static void not_into_several_pieces(void **state)
{
	struct ibv_sge list[] = {side_sge(&pair->b, FAR, 100),
				 side_sge(&pair->b, FAR + 100, SHORTER)};
	struct ibv_recv_wr wr = {.wr_id = 8, .sg_list = list, .num_sge = 2}, *bad;

	side_post_recv(&pair->b, 7, 0, LENGTH);
	assert_int_equal(qp_post_recv(pair->b.qp, &wr, &bad), 0);
	run_two(LENGTH, SHORTER);
	expect_untold();
}

static void not_into_memory_of_another_key(void **state)
{
	struct ibv_sge sge = side_sge(&pair->b, FAR, SHORTER);
	struct ibv_recv_wr wr = {.wr_id = 8, .sg_list = &sge, .num_sge = 1}, *bad;

	sge.lkey ^= 1;
	side_post_recv(&pair->b, 7, 0, LENGTH);
	assert_int_equal(qp_post_recv(pair->b.qp, &wr, &bad), 0);
	send(1, 0, LENGTH);
	send(2, FAR, SHORTER);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	expect_untold();
}

/* Whose receives others may take first. */
static void not_into_shared_receives(void **state)
{
	side_post_recv(&pair->b, 7, 0, LENGTH);
	side_post_recv(&pair->b, 8, FAR, SHORTER);
	run_two(LENGTH, SHORTER);
	assert_int_equal(fetches, 2);
	expect_untold();
}

static void not_what_is_no_offer(void **state)
{
	side_post_recv(&pair->b, 7, 0, LENGTH);
	side_post_recv(&pair->b, 8, FAR, SHORTER);
	run_two(LENGTH, 1000);
	expect_untold();
}

/* Nor what another packet is: it is looked at once more when it is at the head. */
static int change_second(struct pair *of, struct side *from, struct flying *packet)
{
	static int seen;
	struct wire_packet wire;

	assert_int_equal(wire_parse(&wire, packet->bytes, packet->size), PARSE_OK);
	if (!(wire.op->flags & OPF_OFFER))
		return 1;
	if (++seen % 2 == 0)
		packet->bytes[11] ^= 1; /* its PSN */
	return 1;
}

static void not_one_that_comes_later(void **state)
{
	side_post_recv(&pair->b, 7, 0, LENGTH);
	side_post_recv(&pair->b, 8, FAR, SHORTER);
	pair->meddle = change_second;
	send(1, 0, LENGTH);
	send(2, FAR, SHORTER);
	pair_run(pair);
	expect_untold();
}

static int to_another(struct pair *of, struct side *from, struct flying *packet)
{
	struct wire_packet wire;

	assert_int_equal(wire_parse(&wire, packet->bytes, packet->size), PARSE_OK);
	if (wire.op->flags & OPF_OFFER && fetches == 0 && wire.bth.psn != psn_add(of->a.psn, 1))
		packet->bytes[7] ^= 8; /* whose it is */
	return 1;
}

static void not_one_of_another_queue_pair(void **state)
{
	side_post_recv(&pair->b, 7, 0, LENGTH);
	side_post_recv(&pair->b, 8, FAR, SHORTER);
	pair->meddle = to_another;
	send(1, 0, LENGTH);
	send(2, FAR, SHORTER);
	pair_run(pair);
	expect_untold();
}

/* Of which each part is an offer. */
static void post_long(uint64_t wr_id)
{
	struct ibv_sge from[2], to[2];
	struct ibv_recv_wr recv = {.wr_id = wr_id, .sg_list = to, .num_sge = 2}, *bad;
	struct ibv_send_wr wr = {
	    .wr_id = wr_id, .opcode = IBV_WR_SEND, .sg_list = from, .num_sge = 2};

	for (int i = 0; i < 2; i++) {
		from[i] = side_sge(&pair->a, 0, PAIR_MEMORY);
		to[i] = side_sge(&pair->b, 0, PAIR_MEMORY);
	}
	assert_int_equal(qp_post_recv(pair->b.qp, &recv, &bad), 0);
	side_post(&pair->a, &wr);
}

static void not_within_a_message(void **state)
{
	side_post_recv(&pair->b, 0, 0, LENGTH);
	send(0, 0, LENGTH);
	for (uint64_t i = 1; i < 3; i++)
		post_long(i);
	pair_run(pair);
	for (uint64_t i = 0; i < 3; i++)
		side_expect(&pair->a, i, IBV_WC_SUCCESS);
	assert_int_equal(fetches, 5);
	expect_untold();
}

/* ---- its end ---- */

/* Also while the fetch itself stands. */
static void who_goes_into_error_or_reset_has_an_end_of_it(void **state)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_ERR, IBV_QPS_RESET};

	for (int i = 0; i < 2; i++) {
		is_late = i;
		side_post_recv(&pair->b, 7, 0, LENGTH);
		side_post_recv(&pair->b, 8, FAR, SHORTER);
		send(1, 0, LENGTH);
		pair_run(pair);
		assert_int_equal(ends, 0);
		assert_int_equal(side_modify(&pair->b, states[i]), 0);
		assert_int_equal(ends, 1);
		tear_down(state);
		set_up(state);
	}
}

int main(void)
{
	static bool is_shared = true;
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	    TEST(it_is_told),
	    TEST(of_several_as_well),
	    TEST(as_far_as_there_are_receives),
	    TEST(not_where_there_is_no_room),
	    TEST(not_without_a_receive),
	    TEST(not_behind_several_pieces),
	    TEST(not_into_several_pieces),
	    TEST(not_into_memory_of_another_key),
	    cmocka_unit_test_prestate_setup_teardown(not_into_shared_receives, set_up, tear_down,
						     &is_shared),
	    TEST(not_what_is_no_offer),
	    TEST(not_one_that_comes_later),
	    TEST(not_one_of_another_queue_pair),
	    TEST(not_within_a_message),
	    TEST(who_goes_into_error_or_reset_has_an_end_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
