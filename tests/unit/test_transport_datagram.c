/* SPDX-License-Identifier: BSD-2-Clause */
/* UC and UD: nothing is answered; what is lost, what is an error, and what stands before a
 * datagram. */
#include "transport_pair.h"
#include "wire/headers.h"

static struct pair_options options;

static struct pair *set_up(enum ibv_qp_type type)
{
	options = default_options;
	options.type = type;
	return pair_connected(&options);
}

/* ---- UC ---- */

static int lose_second(struct pair *pair, struct side *from, struct flying *packet)
{
	return pair->passed == 1 ? 0 : 1;
}

static int lose_last_of_three(struct pair *pair, struct side *from, struct flying *packet)
{
	return pair->passed == 2 ? 0 : 1;
}

static void a_uc_message_is_complete_when_it_has_left(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UC);

	fill(pair->a.memory, 3000, 1);
	side_post_recv(&pair->b, 7, 5000, 3000);
	side_request(&pair->a, IBV_WR_SEND_WITH_IMM, 1, 0, 3000);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 2, 20000, 10);
	side_turn(&pair->a);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->a, 2, IBV_WC_SUCCESS);
	pair_run(pair);
	pair_expect_trace(pair, "A SEND_FIRST 0\n"
				"A SEND_MIDDLE 1\n"
				"A SEND_LAST_IMM 2\n"
				"A WRITE_ONLY 3\n");
	assert_memory_equal(pair->a.memory, pair->b.memory + 5000, 3000);
	side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	pair_free(pair);
}

static void a_uc_message_with_a_gap_is_lost_and_its_receive_waits(void **state)
{
	int (*const losses[])(struct pair *, struct side *, struct flying *) = {lose_second,
										lose_last_of_three};
	struct pair *pair;

	for (int i = 0; i < 2; i++) {
		pair = set_up(IBV_QPT_UC);
		fill(pair->a.memory, 6000, 2);
		pair->meddle = losses[i];
		side_post_recv(&pair->b, 7, 10000, 3000);
		side_request(&pair->a, IBV_WR_SEND, 1, 0, 3000);
		side_request(&pair->a, IBV_WR_SEND, 2, 3000, 2500);
		pair_run(pair);
		side_expect(&pair->a, 1, IBV_WC_SUCCESS);
		side_expect(&pair->a, 2, IBV_WC_SUCCESS);
		assert_int_equal(side_expect(&pair->b, 7, IBV_WC_SUCCESS).byte_len, 2500);
		assert_memory_equal(pair->a.memory + 3000, pair->b.memory + 10000, 2500);
		side_expect_none(&pair->b);
		pair_free(pair);
	}
}

static void a_uc_message_without_receive_is_lost(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UC);

	side_request(&pair->a, IBV_WR_SEND, 1, 0, 3000);
	pair_run(pair);
	side_post_recv(&pair->b, 7, 0, 3000);
	side_request(&pair->a, IBV_WR_SEND, 2, 0, 30);
	pair_run(pair);
	assert_int_equal(side_expect(&pair->b, 7, IBV_WC_SUCCESS).byte_len, 30);
	pair_free(pair);
}

static void a_uc_write_with_a_wrong_key_is_dropped_in_silence(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UC);
	struct ibv_sge sge = side_sge(&pair->a, 0, 8);
	struct ibv_send_wr wr = {
	    .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};

	wr.wr.rdma.remote_addr = (uintptr_t)pair->b.memory;
	wr.wr.rdma.rkey = pair->b.mr->lkey;
	strcpy(pair->a.memory, "written");
	side_post(&pair->a, &wr);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_int_equal(pair->b.memory[0], 0);
	assert_int_equal(pair->b.qp->state, IBV_QPS_RTS);
	assert_int_equal(transport_counters(pair->b.qp)->dropped, 1);
	pair_free(pair);
}

static void a_uc_send_error_costs_the_send_queue_only(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UC);
	struct ibv_sge sge = side_sge(&pair->a, 0, 8);
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};

	sge.lkey ^= 1;
	side_post(&pair->a, &wr);
	side_request(&pair->a, IBV_WR_SEND, 2, 0, 8);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_LOC_PROT_ERR);
	side_expect(&pair->a, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(pair->a.qp->state, IBV_QPS_SQE);
	side_request(&pair->a, IBV_WR_SEND, 3, 0, 8);
	pair_run(pair);
	side_expect(&pair->a, 3, IBV_WC_WR_FLUSH_ERR);
	/* receives go on */
	side_post_recv(&pair->a, 7, 0, 8);
	side_request(&pair->b, IBV_WR_SEND, 9, 0, 8);
	pair_run(pair);
	side_expect(&pair->a, 7, IBV_WC_SUCCESS);
	/* and so do sends when told to */
	assert_int_equal(side_modify(&pair->a, IBV_QPS_RTS), 0);
	side_post_recv(&pair->b, 8, 0, 8);
	side_request(&pair->a, IBV_WR_SEND, 4, 0, 8);
	pair_run(pair);
	side_expect(&pair->a, 4, IBV_WC_SUCCESS);
	side_expect(&pair->b, 9, IBV_WC_SUCCESS);
	side_expect(&pair->b, 8, IBV_WC_SUCCESS);
	pair_free(pair);
}

static void a_uc_message_too_long_for_the_receive_is_its_error(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UC);

	side_post_recv(&pair->b, 7, 0, 1500);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 1501);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect(&pair->b, 7, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(pair->b.qp->state, IBV_QPS_ERR);
	pair_free(pair);
}

static void a_receiver_of_ours_sets_the_pace(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UC);

	fill(pair->a.memory, 300000, 9);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 300000);
	side_turn(&pair->a);
	side_turn(&pair->a);
	assert_int_equal(pair->count, 64);
	assert_true(transport_deadline(pair->a.qp) != NO_DEADLINE);
	pair_run(pair);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_memory_equal(pair->a.memory, pair->b.memory, 300000);
	assert_int_equal(transport_counters(pair->b.qp)->sent_packets, 293 / 32);
	pair_free(pair);
}

static int lose_answers(struct pair *pair, struct side *from, struct flying *packet)
{
	return from->name == 'A';
}

static void one_that_answers_no_notification_is_waited_for_three_times(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UC);

	pair->meddle = lose_answers;
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 1, 0, 900000);
	pair_run(pair);
	for (int i = 0; i < 3; i++) {
		side_expect_none(&pair->a);
		assert_true(pair_wait(pair));
	}
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_false(pair_wait(pair));
	pair_free(pair);
}

/* ---- UD ---- */

static void send_datagram_to(struct side *side, const struct side *to, uint32_t qpn, uint64_t wr_id,
			     uint32_t length, uint32_t qkey)
{
	struct ibv_ah_attr attr = {
	    .is_global = 1, .port_num = 1, .grh = {.dgid = to->gid, .hop_limit = 33}};
	struct ibv_sge sge = side_sge(side, 0, length);
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = htobe32(77),
				 .sg_list = &sge,
				 .num_sge = 1};
	struct ah *ah;

	assert_int_equal(ah_create(side->pd, &attr, &ah), 0);
	wr.wr.ud.ah = &ah->ibv;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	side_post(side, &wr);
	ah_destroy(ah);
	pair_run(side->pair);
}

static void send_datagram(struct side *side, const struct side *to, uint64_t wr_id, uint32_t length,
			  uint32_t qkey)
{
	send_datagram_to(side, to, to->qp->number, wr_id, length, qkey);
}

static void a_datagram_stands_behind_its_network_header(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UD);
	const uint8_t *area = (const uint8_t *)pair->b.memory + 500;
	struct ibv_wc wc;

	fill(pair->a.memory, 1001, 3);
	side_post_recv(&pair->b, 7, 500, 1041);
	send_datagram(&pair->a, &pair->b, 1, 1001, 0x11111111);
	pair_expect_trace(pair, "A SEND_ONLY_IMM 0\n");
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	wc = side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 1041);
	assert_int_equal(wc.src_qp, pair->a.qp->number);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.sl, 8 | 2); /* RoCE v2 over IPv4, as ConnectX says it */
	assert_int_equal(wc.imm_data, htobe32(77));
	assert_memory_equal(area + 40, pair->a.memory, 1001);
	for (int i = 0; i < 20; i++)
		assert_int_equal(area[i], 0);
	assert_int_equal(area[20], 0x45);
	assert_int_equal(get_be16(area + 22), 20 + 8 + 12 + 8 + 4 + 1004 + 4);
	assert_memory_equal(area + 32, pair->a.gid.raw + 12, 4);
	assert_memory_equal(area + 36, pair->b.gid.raw + 12, 4);
	pair_free(pair);
}

static void the_high_bit_of_the_qkey_means_the_own_one(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UD);

	side_post_recv(&pair->b, 7, 0, 100);
	send_datagram(&pair->a, &pair->b, 1, 10, 0x80000000);
	side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	pair_free(pair);
}

static void a_wrong_qkey_is_dropped_and_counted(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UD);

	side_post_recv(&pair->b, 7, 0, 100);
	send_datagram(&pair->a, &pair->b, 1, 10, 0x11111112);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	side_expect_none(&pair->b);
	assert_int_equal(pair->b.adapter.bad_qkey, 1);
	pair_free(pair);
}

static void a_datagram_without_receive_is_lost(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UD);

	send_datagram(&pair->a, &pair->b, 1, 10, 0x11111111);
	side_post_recv(&pair->b, 7, 0, 100);
	side_expect_none(&pair->b);
	send_datagram(&pair->a, &pair->b, 2, 20, 0x11111111);
	assert_int_equal(side_expect(&pair->b, 7, IBV_WC_SUCCESS).byte_len, 60);
	pair_free(pair);
}

/* So many, and no more than it may be ahead. */
static int send_until_it_waits(struct pair *pair, uint32_t qpn, uint32_t length)
{
	int count = 0;

	while (transport_deadline(pair->a.qp) == NO_DEADLINE && count < 70)
		send_datagram_to(&pair->a, &pair->b, qpn, count++, length, 0x11111111);
	return count;
}

/* Who has never answered is known when its turn comes again, after datagrams to another. */
static void a_silent_receiver_is_waited_for_once(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UD);
	uint32_t silent = pair->b.qp->number ^ 1;
	int waits = 0;

	assert_int_equal(send_until_it_waits(pair, silent, 10), 65);
	while (pair_wait(pair)) {
		waits++;
		send_until_it_waits(pair, silent, 10);
	}
	assert_int_equal(waits, 3);
	send_datagram(&pair->a, &pair->b, 1, 10, 0x11111111);
	assert_int_equal(send_until_it_waits(pair, silent, 10), 70);
	assert_false(pair_wait(pair));
	pair_free(pair);
}

/* Who has our address is one of us, and answers as soon as he has a processor. */
static void one_of_this_host_has_more_patience(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UD);
	uint64_t stranger, neighbour;

	send_until_it_waits(pair, pair->b.qp->number ^ 1, 10);
	stranger = transport_deadline(pair->a.qp) - pair->now;
	pair_free(pair);
	pair = set_up(IBV_QPT_UD);
	for (int i = 0; i < 65; i++)
		send_datagram_to(&pair->a, &pair->a, pair->a.qp->number ^ 1, i, 10, 0x11111111);
	neighbour = transport_deadline(pair->a.qp) - pair->now;
	assert_true(neighbour > 5 * stranger);
	pair_free(pair);
}

/* 64 KiB, and 64 of them. */
static void long_ones_may_be_fewer_ahead(void **state)
{
	static const struct {
		uint32_t length;
		int count;
	} each[] = {{0, 65}, {1024, 65}, {1025, 64}, {2048, 33}, {4096, 17}};

	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		struct pair *pair = set_up(IBV_QPT_UD);

		assert_int_equal(send_until_it_waits(pair, pair->b.qp->number ^ 1, each[i].length),
				 each[i].count);
		pair_free(pair);
	}
}

/* Of the short ones before it none has asked; so it does, and what is behind it waits. */
static void a_long_one_behind_short_ones_asks(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UD);
	uint32_t to = pair->b.qp->number;

	for (int i = 0; i < 30; i++)
		send_datagram_to(&pair->a, &pair->b, to, i, 8, 0x11111111);
	assert_null(strstr(pair->trace, "CNP"));
	send_datagram_to(&pair->a, &pair->b, to, 30, 4096, 0x11111111);
	assert_non_null(strstr(pair->trace, "CNP"));
	assert_int_equal(transport_deadline(pair->a.qp), NO_DEADLINE);
	for (int i = 0; i < 200; i++) { /* in any order */
		send_datagram_to(&pair->a, &pair->b, to, i, i % 3 ? 1500 : i % 50, 0x11111111);
		side_expect(&pair->a, i < 31 ? i : i - 31, IBV_WC_SUCCESS);
		assert_int_equal(transport_deadline(pair->a.qp), NO_DEADLINE);
	}
	pair_free(pair);
}

static void a_datagram_longer_than_the_mtu_is_a_local_error(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UD);

	send_datagram(&pair->a, &pair->b, 1, 4097, 0x11111111);
	assert_int_equal(side_expect(&pair->a, 1, IBV_WC_LOC_LEN_ERR).vendor_err,
			 REASON_DATAGRAM_TOO_LONG);
	assert_int_equal(pair->a.qp->state, IBV_QPS_SQE);
	pair_expect_trace(pair, "");
	pair_free(pair);
}

static void a_receive_without_room_for_the_header_is_an_error(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UD);

	side_post_recv(&pair->b, 7, 0, 49);
	send_datagram(&pair->a, &pair->b, 1, 10, 0x11111111);
	side_expect(&pair->b, 7, IBV_WC_LOC_LEN_ERR);
	pair_free(pair);
}

static void a_qp_may_send_to_itself(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UD);

	strcpy(pair->a.memory, "myself");
	side_post_recv(&pair->a, 7, 1000, 100);
	send_datagram(&pair->a, &pair->a, 1, 7, 0x11111111);
	side_expect(&pair->a, 1, IBV_WC_SUCCESS);
	assert_int_equal(side_expect(&pair->a, 7, IBV_WC_SUCCESS).src_qp, pair->a.qp->number);
	assert_string_equal(pair->a.memory + 1040, "myself");
	pair_free(pair);
}

static void multicast_reaches_who_is_attached_on_this_lane(void **state)
{
	struct pair *pair = set_up(IBV_QPT_UD);
	union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [15] = 1}};
	static struct flying flying;
	bool is_first, was_last;

	side_post_recv(&pair->b, 7, 0, 100);
	side_post_recv(&pair->b, 8, 0, 100);
	send_datagram(&pair->a, &pair->b, 1, 10, 0x11111111);
	side_expect(&pair->b, 7, IBV_WC_SUCCESS);
	flying = pair->packets[(pair->first + PAIR_PACKETS - 1) % PAIR_PACKETS];
	flying.av.dgid = group;
	memset(flying.bytes + 5, 0xff, 3);
	side_receive(&pair->b, &flying);
	side_expect_none(&pair->b);
	assert_int_equal(mcast_attach(&pair->b.adapter, pair->b.qp, &group, &is_first), 0);
	pair->b.qp->lane = 1;
	side_receive(&pair->b, &flying);
	side_expect_none(&pair->b);
	pair->b.qp->lane = 0;
	side_receive(&pair->b, &flying);
	side_expect(&pair->b, 8, IBV_WC_SUCCESS);
	assert_int_equal(mcast_detach(&pair->b.adapter, pair->b.qp, &group, &was_last), 0);
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_uc_message_is_complete_when_it_has_left),
	    cmocka_unit_test(a_uc_message_with_a_gap_is_lost_and_its_receive_waits),
	    cmocka_unit_test(a_uc_message_without_receive_is_lost),
	    cmocka_unit_test(a_uc_write_with_a_wrong_key_is_dropped_in_silence),
	    cmocka_unit_test(a_uc_send_error_costs_the_send_queue_only),
	    cmocka_unit_test(a_uc_message_too_long_for_the_receive_is_its_error),
	    cmocka_unit_test(a_receiver_of_ours_sets_the_pace),
	    cmocka_unit_test(a_silent_receiver_is_waited_for_once),
	    cmocka_unit_test(one_of_this_host_has_more_patience),
	    cmocka_unit_test(long_ones_may_be_fewer_ahead),
	    cmocka_unit_test(a_long_one_behind_short_ones_asks),
	    cmocka_unit_test(one_that_answers_no_notification_is_waited_for_three_times),
	    cmocka_unit_test(a_datagram_stands_behind_its_network_header),
	    cmocka_unit_test(the_high_bit_of_the_qkey_means_the_own_one),
	    cmocka_unit_test(a_wrong_qkey_is_dropped_and_counted),
	    cmocka_unit_test(a_datagram_without_receive_is_lost),
	    cmocka_unit_test(a_datagram_longer_than_the_mtu_is_a_local_error),
	    cmocka_unit_test(a_receive_without_room_for_the_header_is_an_error),
	    cmocka_unit_test(a_qp_may_send_to_itself),
	    cmocka_unit_test(multicast_reaches_who_is_attached_on_this_lane),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
