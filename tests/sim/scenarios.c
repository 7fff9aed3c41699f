/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Courses of events that chance meets too seldom, or that must go one exact way: which packet is
 * lost, how often something is tried again, what the wire shows.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"
#include "wire/aeth.h"

static struct rig rig;
static uint32_t seen; /* packets that the filter in use counts */
static uint32_t to_lose;

static bool is_request(const struct wire_packet *packet)
{
	return packet->op->flags & OPF_REQUEST;
}

/* ---- filters ---- */

static bool lose_all_requests(struct world *world, const struct parcel *parcel,
			      const struct wire_packet *packet)
{
	seen += is_request(packet);
	return is_request(packet);
}

static bool lose_first_atomic_ack(struct world *world, const struct parcel *parcel,
				  const struct wire_packet *packet)
{
	return packet->op->flags & OPF_ATOMIC_ACK && seen++ < to_lose;
}

static bool lose_first_read_response(struct world *world, const struct parcel *parcel,
				     const struct wire_packet *packet)
{
	return packet->op->flags & OPF_READ_RESPONSE && seen++ < to_lose;
}

static bool lose_first_acks(struct world *world, const struct parcel *parcel,
			    const struct wire_packet *packet)
{
	return packet->op->flags & OPF_ACK && seen++ < to_lose;
}

static bool count_rnr_naks(struct world *world, const struct parcel *parcel,
			   const struct wire_packet *packet)
{
	seen += packet->op->flags & OPF_ACK && aeth_kind(packet->aeth.syndrome) == AETH_RNR_NAK;
	return false;
}

static bool count_requests(struct world *world, const struct parcel *parcel,
			   const struct wire_packet *packet)
{
	seen += is_request(packet);
	return false;
}

static void begin(enum ibv_qp_type type, uint32_t mtu)
{
	seen = to_lose = 0;
	rig_make(&rig, 1, type, mtu);
}

static uint64_t far_word(uint32_t at)
{
	uint64_t value;

	memcpy(&value, rig.ends[1]->node->arena.memory + at, 8);
	return value;
}

/* ---- retries ---- */

static void retry_count_is_exact(void **state)
{
	begin(IBV_QPT_RC, 1024);
	rig.ends[0]->retry_cnt = 3;
	rig_connect(&rig);
	rig.world.filter = lose_all_requests;
	rig_post(&rig, 0, IBV_WR_RDMA_WRITE, 0, 0, 100, 7);
	rig_expect(&rig, 0, true, 7, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(seen, 4);
	assert_int_equal(rig.ends[0]->qp->state, IBV_QPS_ERR);
	rig_end(&rig);
}

static void rnr_retry_count_is_exact(void **state)
{
	begin(IBV_QPT_RC, 1024);
	rig.ends[0]->rnr_retry = 3;
	rig_connect(&rig);
	rig.world.filter = count_rnr_naks;
	rig_post(&rig, 0, IBV_WR_SEND, 0, 0, 100, 7);
	rig_expect(&rig, 0, true, 7, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(seen, 4);
	rig_end(&rig);
}

static void rnr_retry_seven_waits_for_ever(void **state)
{
	struct ibv_wc wc;

	begin(IBV_QPT_RC, 1024);
	rig_connect(&rig);
	rig.world.filter = count_rnr_naks;
	rig_post(&rig, 0, IBV_WR_SEND, 0, 0, 100, 7);
	assert_false(rig_wait(&rig, 0, true, 100 * MS, &wc));
	assert_true(seen > 7);
	rig_post_recv(&rig, 1, 4096, 100, 8);
	rig_expect(&rig, 0, true, 7, IBV_WC_SUCCESS);
	rig_expect(&rig, 1, false, 8, IBV_WC_SUCCESS);
	rig_end(&rig);
}

/* A READ whose peer is gone fails too, and what stands behind it is flushed. */
static void silence_fails_the_oldest_and_flushes_the_rest(void **state)
{
	begin(IBV_QPT_RC, 1024);
	rig.ends[0]->retry_cnt = 1;
	rig_connect(&rig);
	rig.world.filter = lose_all_requests;
	rig_post(&rig, 0, IBV_WR_RDMA_READ, 0, 0, 5000, 1);
	rig_post(&rig, 0, IBV_WR_RDMA_WRITE, 0, 0, 100, 2);
	rig_post(&rig, 0, IBV_WR_SEND, 0, 0, 100, 3);
	rig_expect(&rig, 0, true, 1, IBV_WC_RETRY_EXC_ERR);
	rig_expect(&rig, 0, true, 2, IBV_WC_WR_FLUSH_ERR);
	rig_expect(&rig, 0, true, 3, IBV_WC_WR_FLUSH_ERR);
	rig_end(&rig);
}

/* ---- lost answers ---- */

static void lost_atomic_answer_is_repeated_not_redone(void **state)
{
	uint64_t old, start;

	begin(IBV_QPT_RC, 1024);
	rig_connect(&rig);
	start = far_word(64);
	rig.world.filter = lose_first_atomic_ack;
	to_lose = 3;
	rig_post(&rig, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 64, 8, 1);
	rig_expect(&rig, 0, true, 1, IBV_WC_SUCCESS);
	memcpy(&old, rig.ends[0]->node->arena.memory, 8);
	assert_int_equal(old, start);
	assert_int_equal(far_word(64), start + 1);
	rig_end(&rig);
}

/* As many as are agreed on may be under way, and each must find its saved answer. */
static void lost_answers_of_all_atomics_under_way(void **state)
{
	uint64_t start;

	begin(IBV_QPT_RC, 1024);
	rig_connect(&rig);
	start = far_word(64);
	rig.world.filter = lose_first_atomic_ack;
	to_lose = 16;
	for (uint32_t i = 0; i < 40; i++)
		rig_post(&rig, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, i * 8, 64, 8, i);
	for (uint32_t i = 0; i < 40; i++) {
		uint64_t old;

		rig_expect(&rig, 0, true, i, IBV_WC_SUCCESS);
		memcpy(&old, rig.ends[0]->node->arena.memory + i * 8, 8);
		assert_int_equal(old, start + i);
	}
	assert_int_equal(far_word(64), start + 40);
	rig_end(&rig);
}

static void lost_read_response_is_read_again(void **state)
{
	begin(IBV_QPT_RC, 256);
	rig_connect(&rig);
	rig.world.filter = lose_first_read_response;
	to_lose = 1;
	rig_post(&rig, 0, IBV_WR_RDMA_READ, 0, 8192, 3000, 1);
	rig_expect(&rig, 0, true, 1, IBV_WC_SUCCESS);
	assert_memory_equal(rig.ends[0]->node->arena.memory, rig.ends[1]->node->arena.memory + 8192,
			    3000);
	rig_end(&rig);
}

/* The message came, its ACK did not: it must not be delivered again. */
static void lost_acks_do_not_deliver_twice(void **state)
{
	struct ibv_wc wc;

	begin(IBV_QPT_RC, 1024);
	rig_connect(&rig);
	rig.world.filter = lose_first_acks;
	to_lose = 2;
	for (int i = 0; i < 4; i++)
		rig_post_recv(&rig, 1, 8192 * i, 4096, i);
	rig_post(&rig, 0, IBV_WR_SEND, 0, 0, 3000, 1);
	rig_expect(&rig, 0, true, 1, IBV_WC_SUCCESS);
	rig_expect(&rig, 1, false, 0, IBV_WC_SUCCESS);
	assert_false(rig_wait(&rig, 1, false, 50 * MS, &wc));
	rig_end(&rig);
}

/* ---- what a link without fault shows ---- */

static void nothing_is_sent_twice_on_a_good_link(void **state)
{
	const struct transport_counters *counters;

	begin(IBV_QPT_RC, 1024);
	rig_connect(&rig);
	for (uint32_t i = 0; i < 50; i++) {
		rig_post_recv(&rig, 1, i * 4096, 4096, i);
		rig_post(&rig, 0, IBV_WR_SEND, 0, 0, 3000, 4 * i);
		rig_post(&rig, 0, IBV_WR_RDMA_READ, 65536, 0, 5000, 4 * i + 1);
		rig_post(&rig, 0, IBV_WR_RDMA_WRITE, 0, 300000, 5000, 4 * i + 2);
		rig_post(&rig, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 200000, 400000, 8, 4 * i + 3);
	}
	for (uint32_t i = 0; i < 200; i++)
		rig_expect(&rig, 0, true, i, IBV_WC_SUCCESS);
	counters = rig_counters(&rig, 0);
	assert_int_equal(counters->resent, 0);
	assert_int_equal(counters->timeouts, 0);
	assert_int_equal(counters->implied_naks, 0);
	counters = rig_counters(&rig, 1);
	assert_int_equal(counters->sequence_naks_sent, 0);
	assert_int_equal(counters->duplicates, 0);
	assert_int_equal(counters->out_of_order, 0);
	rig_end(&rig);
}

static void a_large_message_arrives_whole(void **state)
{
	begin(IBV_QPT_RC, 256);
	rig.world.weather.loss = 100;
	rig_connect(&rig);
	rig_post(&rig, 0, IBV_WR_RDMA_WRITE, 0, 0, RIG_ARENA, 1);
	rig_expect(&rig, 0, true, 1, IBV_WC_SUCCESS);
	assert_memory_equal(rig.ends[0]->node->arena.memory, rig.ends[1]->node->arena.memory,
			    RIG_ARENA);
	rig_end(&rig);
}

/* 9.7.4.1.4: the first one too many is an invalid request; those before it are answered. */
static void more_reads_than_the_peer_holds_are_refused(void **state)
{
	struct ibv_wc wc;
	int done = 0;

	begin(IBV_QPT_RC, 1024);
	rig.ends[0]->max_rd = 8;
	rig.ends[1]->max_dest_rd = 1;
	rig_connect(&rig);
	for (int i = 0; i < 8; i++)
		rig_post(&rig, 0, IBV_WR_RDMA_READ, 0, 0, 1000, i);
	while (rig_wait(&rig, 0, true, SEC, &wc) && wc.status == IBV_WC_SUCCESS)
		assert_int_equal(wc.wr_id, done++);
	assert_int_equal(wc.wr_id, done);
	assert_int_equal(wc.status, IBV_WC_REM_INV_REQ_ERR);
	rig_end(&rig);
}

/* ---- regions that go ---- */

/* The last packet is lost; when it leaves again, the others have long come, the region goes. */
static bool deregister_under_way(struct world *world, const struct parcel *parcel,
				 const struct wire_packet *packet)
{
	struct node *node = &world->nodes[1];

	if (!is_request(packet) || !(packet->op->flags & OPF_END))
		return false;
	if (++seen != 2)
		return seen == 1;
	assert_int_equal(mr_destroy(rig.mrs[1]), 0);
	assert_int_equal(mr_create(node->pd, node->arena.memory, RIG_ARENA,
				   (uintptr_t)node->arena.memory, IBV_ACCESS_LOCAL_WRITE,
				   &rig.mrs[1]),
			 0);
	return false;
}

static void region_gone_under_a_write_is_refused(void **state)
{
	begin(IBV_QPT_RC, 1024);
	rig_connect(&rig);
	rig.world.filter = deregister_under_way;
	rig_post(&rig, 0, IBV_WR_RDMA_WRITE, 0, 0, 1500, 1);
	rig_expect(&rig, 0, true, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(rig.ends[1]->qp->state, IBV_QPS_ERR);
	rig_end(&rig);
}

/* It is gone when the last packet comes, which has taken the receive: 11.6.2, local access error.
 */
static void region_gone_under_the_last_packet_fails_the_receive(void **state)
{
	struct ibv_recv_wr recv = {.wr_id = 5}, *bad;

	begin(IBV_QPT_RC, 1024);
	rig_connect(&rig);
	rig.world.filter = deregister_under_way;
	assert_int_equal(qp_post_recv(rig.ends[1]->qp, &recv, &bad), 0);
	rig_post(&rig, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 1500, 1);
	rig_expect(&rig, 0, true, 1, IBV_WC_REM_ACCESS_ERR);
	rig_expect(&rig, 1, false, 5, IBV_WC_LOC_ACCESS_ERR);
	rig_end(&rig);
}

/* ---- queues ---- */

static void drained_send_queue_is_silent_until_it_goes_on(void **state)
{
	struct ibv_wc wc;
	uint32_t before;

	begin(IBV_QPT_RC, 1024);
	rig_connect(&rig);
	rig.world.filter = count_requests;
	rig_post(&rig, 0, IBV_WR_RDMA_WRITE, 0, 0, 200000, 1);
	rig_pass(&rig, 20 * US);
	rig.ends[0]->is_drain_awaited = true;
	endpoint_modify(rig.ends[0], IBV_QPS_SQD);
	rig_post(&rig, 0, IBV_WR_RDMA_WRITE, 0, 0, 200000, 2);
	rig_expect(&rig, 0, true, 1, IBV_WC_SUCCESS);
	rig_pass(&rig, 1 * MS);
	assert_true(rig.ends[0]->is_drained);
	before = seen;
	assert_false(rig_wait(&rig, 0, true, 100 * MS, &wc));
	assert_int_equal(seen, before);
	rig.ends[0]->is_drained = false;
	endpoint_modify(rig.ends[0], IBV_QPS_RTS);
	rig_expect(&rig, 0, true, 2, IBV_WC_SUCCESS);
	rig_end(&rig);
}

/* ---- windows ---- */

static struct mw *far_window(uint32_t *rkey)
{
	struct endpoint *end = rig.ends[1];
	struct mw_bind bind = {.lkey = end->node->pool[0]->lkey,
			       .access = IBV_ACCESS_REMOTE_WRITE,
			       .addr = end->node->pool[0]->iova,
			       .length = 4096};
	struct mw *mw;

	assert_int_equal(mw_create(end->node->pd, IBV_MW_TYPE_2, &mw), 0);
	bind.index = mw->index;
	*rkey = bind.rkey = ibv_inc_rkey(mw->ibv.rkey);
	assert_int_equal(mw_bind(end->qp, &bind), REASON_NONE);
	return mw;
}

static void make_far_region(struct mr **mr)
{
	struct node *node = rig.ends[1]->node;

	assert_int_equal(mr_create(node->pd, node->arena.memory, 4096,
				   (uintptr_t)node->arena.memory,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, mr),
			 0);
	node->pool[0] = *mr;
}

static void write_far_window(uint32_t rkey, uint64_t wr_id)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	rig_fill_wr(&rig, 0, IBV_WR_RDMA_WRITE, 0, 0, 4096, &wr, &sge);
	wr.wr_id = wr_id;
	wr.wr.rdma.rkey = rkey;
	rig_post_wr(&rig, 0, &wr);
}

/* The repeated SEND finds the window bound again, under the key that it names, and lets it be. */
static void a_repeated_invalidation_is_no_second_one(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct mw_bind bind;
	struct mw *mw;
	uint32_t rkey;
	struct mr *mr;

	begin(IBV_QPT_RC, 1024);
	rig_connect(&rig);
	make_far_region(&mr);
	mw = far_window(&rkey);
	write_far_window(rkey, 1);
	rig_expect(&rig, 0, true, 1, IBV_WC_SUCCESS);
	seen = 0;
	to_lose = 1;
	rig.world.filter = lose_first_acks;
	rig_post_recv(&rig, 1, 8192, 100, 8);
	rig_fill_wr(&rig, 0, IBV_WR_SEND_WITH_INV, 0, 0, 100, &wr, &sge);
	wr.wr_id = 2;
	wr.invalidate_rkey = rkey;
	rig_post_wr(&rig, 0, &wr);
	rig_expect(&rig, 1, false, 8, IBV_WC_SUCCESS);
	assert_null(mw->mr);
	bind = (struct mw_bind){mw->index, rkey, mr->lkey, IBV_ACCESS_REMOTE_WRITE, mr->iova, 4096};
	assert_int_equal(mw_bind(rig.ends[1]->qp, &bind), REASON_NONE);
	rig_expect(&rig, 0, true, 2, IBV_WC_SUCCESS);
	assert_true(rig_counters(&rig, 0)->resent > 0);
	assert_ptr_equal(mw->mr, mr);
	write_far_window(rkey, 3);
	rig_expect(&rig, 0, true, 3, IBV_WC_SUCCESS);
	mw_destroy(mw);
	rig_end(&rig);
}

/* Invalidated between two packets of one WRITE: the rest of it does not land. */
static void a_window_gone_under_a_write_is_refused(void **state)
{
	struct mw *mw;
	uint32_t rkey;
	struct mr *mr;

	begin(IBV_QPT_RC, 1024);
	rig.world.weather.ps_per_byte = 1000000; /* a packet takes a millisecond */
	rig_connect(&rig);
	make_far_region(&mr);
	mw = far_window(&rkey);
	memset(rig.ends[0]->node->arena.memory, 0x77, 4096);
	write_far_window(rkey, 1);
	rig_pass(&rig, 1500 * US);
	assert_int_equal(mr->base[0], 0x77);
	assert_int_equal(mw_invalidate(rig.ends[1]->qp, rig.ends[1]->node->pd, rkey), REASON_NONE);
	rig_expect(&rig, 0, true, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_not_equal(mr->base[4095], 0x77);
	mw_destroy(mw);
	rig_end(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(retry_count_is_exact),
	    cmocka_unit_test(rnr_retry_count_is_exact),
	    cmocka_unit_test(rnr_retry_seven_waits_for_ever),
	    cmocka_unit_test(silence_fails_the_oldest_and_flushes_the_rest),
	    cmocka_unit_test(lost_atomic_answer_is_repeated_not_redone),
	    cmocka_unit_test(lost_answers_of_all_atomics_under_way),
	    cmocka_unit_test(lost_read_response_is_read_again),
	    cmocka_unit_test(lost_acks_do_not_deliver_twice),
	    cmocka_unit_test(nothing_is_sent_twice_on_a_good_link),
	    cmocka_unit_test(a_large_message_arrives_whole),
	    cmocka_unit_test(more_reads_than_the_peer_holds_are_refused),
	    cmocka_unit_test(region_gone_under_a_write_is_refused),
	    cmocka_unit_test(region_gone_under_the_last_packet_fails_the_receive),
	    cmocka_unit_test(drained_send_queue_is_silent_until_it_goes_on),
	    cmocka_unit_test(a_repeated_invalidation_is_no_second_one),
	    cmocka_unit_test(a_window_gone_under_a_write_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
