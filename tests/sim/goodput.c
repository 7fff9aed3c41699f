/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Goodput in virtual time, which is the same on every machine and so can be asserted: one RC
 * connection over a line of 10 Gb/s with a round trip of some 45 us, of which one packet in a
 * hundred or twenty is lost. Go-back-N repeats about a window at each loss, and a lost last packet
 * costs an ACK timeout; the limits lie a fair way below what that gives.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"

enum { LENGTH = 64 << 10, DEPTH = 16, MESSAGES = 400, LINE_PS_PER_BYTE = 800 };

struct course {
	enum ibv_wr_opcode opcode;
	uint32_t loss;	   /* in ten thousand */
	uint32_t rx_limit; /* packets that a slow receiver holds; 0: a fast one */
};

static void post_one(struct rig *rig, const struct course *course, uint32_t i)
{
	uint32_t at = i % DEPTH * LENGTH;

	if (course->opcode == IBV_WR_SEND)
		rig_post_recv(rig, 1, at, LENGTH, i);
	rig_post(rig, 0, course->opcode, at, at, LENGTH, i);
}

static double run_course(const struct course *course)
{
	static struct rig rig;
	struct ibv_wc wc;
	uint32_t posted, done;
	double share;

	rig_make(&rig, IBV_QPT_RC, 4096);
	rig.world.weather.delay = 20 * US;
	rig.world.weather.jitter = 1 * US;
	rig.world.weather.ps_per_byte = LINE_PS_PER_BYTE;
	rig.world.weather.loss = course->loss;
	rig.world.weather.no_mercy = true;
	rig.world.weather.step_delay = 1 * US;
	if (course->rx_limit) {
		rig.world.weather.rx_limit = course->rx_limit;
		rig.world.weather.batch = 1; /* some 4 us a packet, which takes 3.3 on the line */
		rig.world.weather.step_delay = 8 * US;
	}
	rig.ends[0]->timeout = rig.ends[1]->timeout = 8; /* 1 ms */
	rig_connect(&rig);
	for (posted = 0; posted < DEPTH; posted++)
		post_one(&rig, course, posted);
	for (done = 0; done < MESSAGES; done++) {
		assert_true(rig_wait(&rig, 0, true, 10 * SEC, &wc));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, done);
		while (course->opcode == IBV_WR_SEND && cq_poll(rig.ends[1]->recv_cq->cq, 1, &wc))
			;
		if (posted < MESSAGES)
			post_one(&rig, course, posted++);
	}
	share = (double)MESSAGES * LENGTH * LINE_PS_PER_BYTE / 1000 / rig.world.now;
	print_message("opcode %d, loss %u.%02u %%, buffer of %u packets: %.1f %% of the line, %llu "
		      "resent, %llu timeouts\n",
		      course->opcode, course->loss / 100, course->loss % 100,
		      rig.world.weather.rx_limit, share * 100,
		      (unsigned long long)rig_counters(&rig, 0)->resent,
		      (unsigned long long)rig_counters(&rig, 0)->timeouts);
	rig_end(&rig);
	return share;
}

static void check(enum ibv_wr_opcode opcode, uint32_t loss, uint32_t rx_limit, double least)
{
	struct course course = {opcode, loss, rx_limit};
	double share = run_course(&course);

	if (share < least)
		fail_msg("%.1f %% of the line, at least %.1f %% are asked for", share * 100,
			 least * 100);
}

static void lossless_link_is_full(void **state)
{
	check(IBV_WR_RDMA_WRITE, 0, 0, 0.9);
	check(IBV_WR_SEND, 0, 0, 0.9);
	check(IBV_WR_RDMA_READ, 0, 0, 0.9);
}

static void one_percent_loss(void **state)
{
	check(IBV_WR_RDMA_WRITE, 100, 0, 0.4);
	check(IBV_WR_SEND, 100, 0, 0.4);
	check(IBV_WR_RDMA_READ, 100, 0, 0.28);
}

static void five_percent_loss(void **state)
{
	check(IBV_WR_RDMA_WRITE, 500, 0, 0.13);
	check(IBV_WR_SEND, 500, 0, 0.13);
	check(IBV_WR_RDMA_READ, 500, 0, 0.07);
}

/* A receiver slower than the line that holds a dozen packets, as small socket buffers do: the
 * window must find that out. */
static void small_receive_buffer(void **state)
{
	check(IBV_WR_RDMA_WRITE, 0, 12, 0.3);
	check(IBV_WR_RDMA_READ, 0, 12, 0.3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lossless_link_is_full),
	    cmocka_unit_test(one_percent_loss),
	    cmocka_unit_test(five_percent_loss),
	    cmocka_unit_test(small_receive_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
