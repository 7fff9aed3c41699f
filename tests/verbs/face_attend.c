/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long copies to and from a program that sleeps: a thread of its adapter's comes to help while they
 * last, what is copied is right, and it goes back to sleep. Each test is between two processes.
 */
#define _GNU_SOURCE
#include <time.h>

#include "contact.h"

enum { REGION = 4 << 20, MIB = 1 << 20, STREAM = 100, GUARD = 4096 };

/* ---- two processes ---- */

/* In the child: one QP, and it sleeps; when it is asked again it tells how often it took a share.
 */
static void serve_asleep(void)
{
	char *memory = pages(REGION);
	struct contact own = {.access = live_access}, peer;
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, REGION, live_access);
	struct end end;

	assert_non_null(mr);
	own.rkeys[0] = mr->rkey;
	own.addrs[0] = (uintptr_t)memory;
	assert_true(hear(&peer));
	end_create(&end, peer.type);
	own.qpn = end.qp->qp_num;
	qp_init(end.qp, peer.access);
	tell(&own);
	qp_connect(end.qp, peer.qpn);
	tell(&own);
	while (hear(&peer)) {
		own.assists = assists(&end);
		tell(&own);
	}
}

struct two {
	struct end end;
	struct contact peer;
	struct ibv_mr *mr;
	char *sent, *read;
};

static void begin(struct two *two)
{
	start(serve_asleep);
	two->peer = meet(&two->end, IBV_QPT_RC, live_access);
	two->mr = ibv_reg_mr(pd, pages(2 * REGION), 2 * REGION, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(two->mr);
	two->sent = two->mr->addr;
	two->read = two->sent + REGION;
}

static void finish(struct two *two)
{
	ibv_dereg_mr(two->mr);
	end_destroy(&two->end);
	stop();
}

static uint64_t told_assists(const struct two *two)
{
	struct contact told;

	tell(&two->peer);
	assert_true(hear(&told));
	return told.assists;
}

/* ---- copies ---- */

static void one(struct two *two, enum ibv_wr_opcode opcode, uint32_t length)
{
	char *here = opcode == IBV_WR_RDMA_READ ? two->read : two->sent;
	struct ibv_sge sge = {(uintptr_t)here + GUARD, length, two->mr->lkey};

	assert_wc(transfer(&two->end, opcode, sge, two->peer.addrs[0] + GUARD, two->peer.rkeys[0]),
		  0x5e4d, IBV_WC_SUCCESS);
}

/* What is written is read back, and no more than it. */
static void there_and_back(struct two *two, uint32_t length, uint32_t seed)
{
	fill(two->sent + GUARD, length, seed);
	one(two, IBV_WR_RDMA_WRITE, length);
	memset(two->read, 0x77, (size_t)length + 2 * GUARD);
	one(two, IBV_WR_RDMA_READ, length);
	assert_memory_equal(two->read + GUARD, two->sent + GUARD, length);
	for (uint32_t i = 0; i < GUARD; i++) {
		assert_int_equal(two->read[i], 0x77);
		assert_int_equal(two->read[GUARD + length + i], 0x77);
	}
}

static void stream(struct two *two, enum ibv_wr_opcode opcode, uint32_t length)
{
	for (int i = 0; i < STREAM; i++)
		one(two, opcode, length);
}

/* Of that kind and length, until some of them were helped with: both have to have a core at once,
 * which a busy machine may not give them. */
static void until_helped(struct two *two, enum ibv_wr_opcode opcode, uint32_t length)
{
	double until = seconds() + PATIENCE_S;
	uint64_t before = told_assists(two);

	do
		stream(two, opcode, length);
	while (told_assists(two) == before && seconds() < until);
	assert_true(told_assists(two) > before);
}

static const uint32_t lengths[] = {49152, 65535, 65536, 65600, 131072, 196608, 262145, MIB};

enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

static void who_sleeps_is_called_to_help(void **state)
{
	struct two two;

	begin(&two);
	until_helped(&two, IBV_WR_RDMA_WRITE, MIB);
	until_helped(&two, IBV_WR_RDMA_READ, MIB);
	for (uint32_t round = 0; round < 5; round++)
		for (uint32_t i = 0; i < LENGTHS; i++) {
			stream(&two, round % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, lengths[i]);
			there_and_back(&two, lengths[i], round * 10 + i);
		}
	finish(&two);
}

static void of_middling_ones_as_well(void **state)
{
	struct two two;

	begin(&two);
	until_helped(&two, IBV_WR_RDMA_READ, 65536);
	until_helped(&two, IBV_WR_RDMA_WRITE, 65536);
	there_and_back(&two, 65536, 1);
	finish(&two);
}

static uint64_t servers_ns(void)
{
	struct timespec time;
	clockid_t clock;

	assert_int_equal(clock_getcpuclockid(server, &clock), 0);
	assert_int_equal(clock_gettime(clock, &time), 0);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void and_sleeps_again_when_it_is_over(void **state)
{
	const struct timespec moment = {.tv_nsec = 200000000};
	struct two two;
	uint64_t before;

	begin(&two);
	until_helped(&two, IBV_WR_RDMA_WRITE, MIB);
	nanosleep(&moment, NULL);
	before = servers_ns();
	nanosleep(&moment, NULL);
	assert_true(servers_ns() - before < 20000000);
	until_helped(&two, IBV_WR_RDMA_WRITE, MIB);
	finish(&two);
}

static void nobody_is_where_that_is_off(void **state)
{
	struct two two;

	setenv("VERBATIM_ASSIST", "off", 1);
	begin(&two);
	unsetenv("VERBATIM_ASSIST");
	for (int i = 0; i < 5; i++) {
		stream(&two, IBV_WR_RDMA_WRITE, MIB);
		there_and_back(&two, MIB, (uint32_t)i);
	}
	assert_int_equal(told_assists(&two), 0);
	finish(&two);
}

/* In the midst of a copy of its own, most likely: what it has claimed nobody else does. */
static void who_helps_and_is_killed_is_given_up(void **state)
{
	struct two two;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	int status;

	begin(&two);
	until_helped(&two, IBV_WR_RDMA_WRITE, MIB);
	sge = (struct ibv_sge){(uintptr_t)two.sent, MIB, two.mr->lkey};
	for (int i = 0; i < 12; i++) {
		wr = make_send(IBV_WR_RDMA_WRITE, &sge);
		wr.wr.rdma.remote_addr = two.peer.addrs[0];
		wr.wr.rdma.rkey = two.peer.rkeys[0];
		if (i == 6)
			kill(server, SIGKILL);
		post_send_wr(&two.end, &wr);
		if (next_wc(two.end.cq).status != IBV_WC_SUCCESS)
			break;
	}
	assert_int_equal(waitpid(server, &status, 0), server);
	close(line);
	ibv_dereg_mr(two.mr);
	end_destroy(&two.end);
	assert_int_equal(live_close(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, only_the_parent_goes_on)
	    TEST(who_sleeps_is_called_to_help),	       TEST(of_middling_ones_as_well),
	    TEST(and_sleeps_again_when_it_is_over),    TEST(nobody_is_where_that_is_off),
	    TEST(who_helps_and_is_killed_is_given_up),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, network, NULL);
}
