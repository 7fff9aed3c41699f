/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A record that acknowledges messages of many queue pairs, more than are looked at ahead: each of
 * them completes in its turn, and those alone that have something left to do are told of.
 */
#include "transport/express.h"
#include "transport_pair.h"

enum { MANY = 30, BYTES = 8 };

static struct pair *pair;
static struct side senders[MANY]; /* of A's adapter, memory and CQ: their QPs are their own */
static struct qp *told[MANY];
static int told_count;

static int set_up(void **state)
{
	struct pair_options options = default_options;

	options.has_express = true;
	pair = pair_connected(&options);
	for (int i = 0; i < MANY; i++) {
		senders[i] = pair->a;
		side_create_qp(&senders[i], &options);
		side_to_init(&senders[i], &options);
		side_to_rtr(&senders[i], &pair->b, &options);
		side_to_rts(&senders[i], &options);
		senders[i].qp->has_communicated = true;
	}
	told_count = 0;
	return 0;
}

static int tear_down(void **state)
{
	for (int i = 0; i < MANY; i++) {
		qp_unlist(senders[i].qp);
		transport_free_qp(senders[i].qp);
	}
	pair_free(pair);
	return 0;
}

static void post(int sender, uint64_t wr_id)
{
	struct ibv_sge sge = side_sge(&pair->a, 0, BYTES);
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .opcode = IBV_WR_SEND,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED};

	assert_null(express_post(senders[sender].qp, &wr, &pair->a.outbox));
}

static void post_all(void)
{
	for (int i = 0; i < MANY; i++)
		post(i, i);
}

static void note(struct qp *qp, const struct packet *packet, void *data)
{
	(void)packet, (void)data;
	assert_true(told_count < MANY);
	told[told_count++] = qp;
}

/* `count` ACKs of each one's first message in turn. */
static bool acknowledge_so_many(int count)
{
	struct {
		struct express head;
		struct express_ack acks[EXPRESS_ACKS];
	} record = {.head = {.ack = pair->a.psn, .pkey = senders[0].qp->pkey}};
	struct packet packet = {.bth = (const uint8_t *)&record,
				.length = sizeof(record.head) +
					  (size_t)(count - 1) * sizeof(record.acks[0]),
				.is_express = true,
				.sgid = pair->b.gid,
				.dgid = pair->a.gid};
	struct glance glance = {.now = pair->now, .taken = note};

	record.head.to = senders[0].qp->number | (EXPRESS_ACK | EXPRESS_MANY) << 24;
	for (int i = 1; i < count; i++)
		record.acks[i - 1] =
		    (struct express_ack){senders[i % MANY].qp->number, pair->a.psn};
	return transport_glance(&pair->a.adapter, &packet, &glance);
}

static bool acknowledge(void)
{
	return acknowledge_so_many(MANY);
}

static void expect_first(int count)
{
	for (int i = 0; i < count; i++)
		side_expect(&pair->a, (uint64_t)i, IBV_WC_SUCCESS);
	side_expect_none(&pair->a);
}

static void each_completes_in_its_turn(void **state)
{
	post_all();
	assert_true(acknowledge());
	expect_first(MANY);
	assert_int_equal(told_count, 0);
}

static void what_is_still_in_flight_is_told_of(void **state)
{
	post_all();
	post(7, MANY);
	assert_true(acknowledge());
	expect_first(MANY);
	assert_int_equal(told_count, 1);
	assert_ptr_equal(told[0], senders[7].qp);
	assert_true(transport_is_untimed(told[0]));
}

/* The room that it waits for came with this very ACK. */
static void what_waits_for_room_is_told_of(void **state)
{
	post_all();
	pair->room = 0;
	post(MANY - 1, MANY);
	assert_true(transport_waits(senders[MANY - 1].qp));
	assert_true(acknowledge());
	expect_first(MANY);
	assert_int_equal(told_count, 1);
	assert_ptr_equal(told[0], senders[MANY - 1].qp);
}

/* It is for the general path, to which those before it are duplicates. */
static void one_of_a_queue_pair_that_was_reset_ends_it(void **state)
{
	post_all();
	assert_int_equal(side_modify(&senders[20], IBV_QPS_RESET), 0);
	assert_false(acknowledge());
	expect_first(20);
}

static void one_of_another_lane_ends_it(void **state)
{
	post_all();
	senders[20].qp->lane = 1;
	assert_false(acknowledge());
	expect_first(20);
}

/* Nobody sends those, and there is no room to look ahead at them. */
static void more_than_a_record_has_are_left_alone(void **state)
{
	post_all();
	assert_false(acknowledge_so_many(EXPRESS_ACKS + 1));
	side_expect_none(&pair->a);
	assert_true(acknowledge());
	expect_first(MANY);
}

static void the_last_of_a_full_record_ends_it(void **state)
{
	post_all();
	assert_false(acknowledge_so_many(EXPRESS_ACKS)); /* from MANY on they are duplicates */
	expect_first(MANY);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    TEST(each_completes_in_its_turn),
	    TEST(what_is_still_in_flight_is_told_of),
	    TEST(what_waits_for_room_is_told_of),
	    TEST(one_of_a_queue_pair_that_was_reset_ends_it),
	    TEST(one_of_another_lane_ends_it),
	    TEST(more_than_a_record_has_are_left_alone),
	    TEST(the_last_of_a_full_record_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
