// SPDX-License-Identifier: BSD-2-Clause
/*
 * The longest message there is, 2 GiB, by SEND, WRITE and READ; and one that is a byte longer. The
 * source is memory that nobody touched but at its ends and in the middle, the sink is the same 2
 * MiB a thousand times in a row: so this takes a few pages.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "live.h"

enum { STRIP = 2 << 20 };

#define HUGE_BYTES (UINT64_C(1) << 31)

static char *source, *sink;
static struct ibv_mr *source_mr, *sink_mr;
static struct end a, b;

static int make(void **state)
{
	size_t room = HUGE_BYTES + STRIP;
	int fd = memfd_create("strip", MFD_CLOEXEC);

	source = mmap(NULL, room, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	sink = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (source == MAP_FAILED || sink == MAP_FAILED || fd < 0 || ftruncate(fd, STRIP) < 0)
		return -1;
	for (size_t at = 0; at < room; at += STRIP)
		if (mmap(sink + at, STRIP, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		    MAP_FAILED)
			return -1;
	close(fd);
	if (live_open(state))
		return -1;
	source_mr = ibv_reg_mr(pd, source, room, live_access);
	sink_mr = ibv_reg_mr(pd, sink, room, live_access);
	return !source_mr || !sink_mr;
}

static int unmake(void **state)
{
	return ibv_dereg_mr(source_mr) || ibv_dereg_mr(sink_mr) || live_close(state);
}

/* Half of it ends the strip, the other half begins one: what is written last stays. */
static void mark(char what)
{
	memset(source, what + 1, 8);
	memset(source + HUGE_BYTES - STRIP, what, 8);
	memset(source + HUGE_BYTES - 8, what + 2, 8);
	memset(sink, 0, STRIP);
}

static void assert_marked(char what)
{
	assert_int_equal(sink[0], what); /* the last strip's first byte, over the first one's */
	assert_int_equal(sink[STRIP - 1], what + 2);
	assert_int_equal(sink[STRIP / 2], 0);
}

static struct ibv_wc patient_wc(struct ibv_cq *cq)
{
	return next_wc_within(cq, 50);
}

static struct ibv_sge whole(const struct ibv_mr *mr)
{
	return (struct ibv_sge){(uintptr_t)mr->addr, (uint32_t)HUGE_BYTES, mr->lkey};
}

static void two_gib_are_sent(void **state)
{
	struct ibv_sge from = whole(source_mr);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &from);
	struct ibv_wc wc;

	mark(10);
	pair_create(&a, &b, IBV_QPT_RC);
	assert_int_equal(post_recv_sge(b.qp, 1, whole(sink_mr)), 0);
	post_send_wr(&a, &wr);
	assert_wc(patient_wc(a.cq), 0x5e4d, IBV_WC_SUCCESS);
	wc = patient_wc(b.cq);
	assert_wc(wc, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, HUGE_BYTES);
	assert_marked(10);
	pair_destroy(&a, &b);
}

static void two_gib_are_written_and_read(void **state)
{
	struct ibv_sge from = whole(source_mr), to = whole(sink_mr);
	struct ibv_send_wr wr = make_send(IBV_WR_RDMA_WRITE, &from);

	pair_create(&a, &b, IBV_QPT_RC);
	mark(20);
	wr.wr.rdma.remote_addr = (uintptr_t)sink;
	wr.wr.rdma.rkey = sink_mr->rkey;
	post_send_wr(&a, &wr);
	assert_wc(patient_wc(a.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_marked(20);
	mark(30);
	wr = make_send(IBV_WR_RDMA_READ, &to);
	wr.wr.rdma.remote_addr = (uintptr_t)source;
	wr.wr.rdma.rkey = source_mr->rkey;
	post_send_wr(&a, &wr);
	assert_wc(patient_wc(a.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_marked(30);
	pair_destroy(&a, &b);
}

static void one_byte_more_is_refused(void **state)
{
	struct ibv_sge from[2] = {whole(source_mr), whole(source_mr)};
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, from);

	from[1].length = 1;
	wr.num_sge = 2;
	pair_create(&a, &b, IBV_QPT_RC);
	post_send_wr(&a, &wr);
	assert_failed(next_wc(a.cq), 0x5e4d, IBV_WC_LOC_LEN_ERR, REASON_MESSAGE_TOO_LONG);
	pair_destroy(&a, &b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(two_gib_are_sent),
	    cmocka_unit_test(two_gib_are_written_and_read),
	    cmocka_unit_test(one_byte_more_is_refused),
	};

	return cmocka_run_group_tests(tests, make, unmake);
}
