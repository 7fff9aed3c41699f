/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Goodput in virtual time, which is the same on every machine and so can be asserted: one RC
 * connection over a line of 10 Gb/s with a round trip of some 45 us, of which one packet in a
 * hundred or twenty is lost. The limits lie a fair way below what is reached.
 *
 *	goodput			the tests
 *	goodput --table		a table of what is reached, for docs/performance.md
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"
#include "wire/headers.h"

enum {
	LENGTH = 64 << 10,
	DEPTH = 16,
	MESSAGES = 400,
	TABLE_DEPTH = 63,
	TABLE_MESSAGES = 3000,
	LINE_PS_PER_BYTE = 800,
	CHANCES = 4,
};

static bool is_quiet;

struct course {
	enum ibv_wr_opcode opcode;
	uint32_t loss;	   /* in ten thousand */
	uint32_t rx_limit; /* packets that a slow receiver holds; 0: a fast one */
	uint64_t delay;	   /* one way */
	uint32_t depth, messages;
	uint32_t ps_per_byte;
	bool are_strangers; /* neither shows the other that it recovers selectively */
	uint64_t seed;
};

static bool hide_signs(struct world *world, const struct parcel *parcel,
		       const struct wire_packet *packet)
{
	((struct parcel *)parcel)->bytes[4] &= ~0xf8;
	return false;
}

static void post_one(struct rig *rig, const struct course *course, uint32_t i)
{
	uint32_t at = i % course->depth * LENGTH;

	if (course->opcode == IBV_WR_SEND)
		rig_post_recv(rig, 1, at, LENGTH, i);
	rig_post(rig, 0, course->opcode, at, at, LENGTH, i);
}

/*
 * What was lost goes again, and not much else: going back would send a window each time.
 */
static void check_repairs(struct rig *rig)
{
	uint64_t resent = rig_counters(rig, 0)->resent, lost = rig->world.stats.dropped;

	if (resent > 2 * lost + 2)
		fail_msg("%llu packets were lost, and %llu went again", (unsigned long long)lost,
			 (unsigned long long)resent);
}

static double run_course(const struct course *course)
{
	static struct rig rig;
	struct ibv_wc wc;
	uint32_t posted, done;
	double share;

	rig_make(&rig, course->seed, IBV_QPT_RC, 4096);
	rig.world.weather.delay = course->delay;
	rig.world.weather.jitter = 1 * US;
	rig.world.weather.ps_per_byte = course->ps_per_byte;
	rig.world.weather.loss = course->loss;
	rig.world.weather.no_mercy = true;
	rig.world.weather.step_delay = 1 * US;
	if (course->rx_limit) {
		rig.world.weather.rx_limit = course->rx_limit;
		rig.world.weather.batch = 1; /* some 4 us a packet, which takes 3.3 on the line */
		rig.world.weather.step_delay = 8 * US;
	}
	rig_connect(&rig);
	if (course->are_strangers)
		rig.world.filter = hide_signs;
	for (posted = 0; posted < course->depth; posted++)
		post_one(&rig, course, posted);
	for (done = 0; done < course->messages; done++) {
		assert_true(rig_wait(&rig, 0, true, 10 * SEC, &wc));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, done);
		while (course->opcode == IBV_WR_SEND && cq_poll(rig.ends[1]->recv_cq->cq, 1, &wc))
			;
		if (posted < course->messages)
			post_one(&rig, course, posted++);
	}
	share = (double)course->messages * LENGTH * course->ps_per_byte / 1000 / rig.world.now;
	if (!is_quiet)
		print_message(
		    "opcode %d, loss %u.%02u %%, buffer of %u packets: %.1f %% of the line, %llu "
		    "lost, %llu resent, %llu probes, %llu timeouts\n",
		    course->opcode, course->loss / 100, course->loss % 100,
		    rig.world.weather.rx_limit, share * 100,
		    (unsigned long long)rig.world.stats.dropped,
		    (unsigned long long)rig_counters(&rig, 0)->resent,
		    (unsigned long long)rig_counters(&rig, 0)->probes,
		    (unsigned long long)rig_counters(&rig, 0)->timeouts);
	if (!is_quiet && !course->are_strangers && !course->rx_limit)
		check_repairs(&rig);
	rig_end(&rig);
	return share;
}

static void expect(double share, double least)
{
	if (share < least)
		fail_msg("%.1f %% of the line, at least %.1f %% are asked for", share * 100,
			 least * 100);
}

static void check(enum ibv_wr_opcode opcode, uint32_t loss, uint32_t rx_limit, double least)
{
	struct course course = {.opcode = opcode,
				.loss = loss,
				.rx_limit = rx_limit,
				.delay = 20 * US,
				.depth = DEPTH,
				.ps_per_byte = LINE_PS_PER_BYTE,
				.messages = MESSAGES,
				.seed = 1};

	expect(run_course(&course), least);
}

static void lossless_link_is_full(void **state)
{
	check(IBV_WR_RDMA_WRITE, 0, 0, 0.9);
	check(IBV_WR_SEND, 0, 0, 0.9);
	check(IBV_WR_RDMA_READ, 0, 0, 0.9);
}

static void one_percent_loss(void **state)
{
	check(IBV_WR_RDMA_WRITE, 100, 0, 0.85);
	check(IBV_WR_SEND, 100, 0, 0.85);
	check(IBV_WR_RDMA_READ, 100, 0, 0.8);
}

static void five_percent_loss(void **state)
{
	check(IBV_WR_RDMA_WRITE, 500, 0, 0.6);
	check(IBV_WR_SEND, 500, 0, 0.6);
	check(IBV_WR_RDMA_READ, 500, 0, 0.5);
}

/*
 * A round trip of 20 ms, 1 Gb/s: the window holds what is on the way, 2.5 MB, and opens again after
 * what is lost by chance. READs are 16 at most, of 64 KiB.
 */
static void long_way(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t loss;
		double least;
	} cases[] = {
	    {IBV_WR_RDMA_WRITE, 0, 0.8},    {IBV_WR_RDMA_WRITE, 1, 0.8},
	    {IBV_WR_RDMA_WRITE, 10, 0.7},   {IBV_WR_RDMA_WRITE, 100, 0.5},
	    {IBV_WR_RDMA_WRITE, 500, 0.25}, {IBV_WR_RDMA_READ, 0, 0.3},
	    {IBV_WR_RDMA_READ, 10, 0.25},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct course course = {.opcode = cases[i].opcode,
					.loss = cases[i].loss,
					.delay = 10 * MS,
					.depth = TABLE_DEPTH,
					.messages = 4000,
					.ps_per_byte = 8000,
					.seed = 1};

		expect(run_course(&course), cases[i].least);
	}
}

/* At 10 Gb/s, where a timeout now and then must not be paid for longer than it takes. How many of
 * those there are is chance: it takes several runs to tell. */
static void fast_long_way(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		double least;
	} cases[] = {{IBV_WR_SEND, 0.045}, {IBV_WR_RDMA_WRITE, 0.045}, {IBV_WR_RDMA_READ, 0.0125}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct course course = {.opcode = cases[i].opcode,
					.loss = 500,
					.delay = 10 * MS,
					.depth = TABLE_DEPTH,
					.messages = TABLE_MESSAGES,
					.ps_per_byte = LINE_PS_PER_BYTE};
		double shares = 0;

		for (course.seed = 1; course.seed <= CHANCES; course.seed++)
			shares += run_course(&course);
		expect(shares / CHANCES, cases[i].least);
	}
}

/* A receiver slower than the line that holds a dozen packets, as small socket buffers do: the
 * window must find that out. */
static void small_receive_buffer(void **state)
{
	check(IBV_WR_RDMA_WRITE, 0, 12, 0.3);
	check(IBV_WR_RDMA_READ, 0, 12, 0.3);
}

static void print_row(enum ibv_wr_opcode opcode, const char *name, uint64_t delay)
{
	static const uint32_t losses[] = {0, 1, 10, 100, 500};
	struct course course = {.opcode = opcode,
				.delay = delay,
				.depth = TABLE_DEPTH,
				.ps_per_byte = LINE_PS_PER_BYTE,
				.seed = 1};

	for (int strangers = 1; strangers >= 0; strangers--) {
		printf("| %s, %s | %.1f ms |", name, strangers ? "another make" : "ours",
		       2 * delay / 1e6);
		for (size_t i = 0; i < sizeof(losses) / sizeof(*losses); i++) {
			course.loss = losses[i];
			course.are_strangers = strangers;
			course.messages =
			    strangers && losses[i] > 10 ? TABLE_MESSAGES / 10 : TABLE_MESSAGES;
			printf(" %.0f |", run_course(&course) * 1e6 / LINE_PS_PER_BYTE);
			fflush(stdout);
		}
		printf("\n");
	}
}

static int print_table(void)
{
	is_quiet = true;
	printf("| MB/s of 1250; loss in %% | round trip | 0 | 0.01 | 0.1 | 1 | 5 |\n"
	       "|---|---|---|---|---|---|---|\n");
	for (int i = 0; i < 2; i++) {
		uint64_t delay = i ? 10 * MS : 50 * US;

		print_row(IBV_WR_SEND, "SEND", delay);
		print_row(IBV_WR_RDMA_WRITE, "WRITE", delay);
		print_row(IBV_WR_RDMA_READ, "READ", delay);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lossless_link_is_full), cmocka_unit_test(one_percent_loss),
	    cmocka_unit_test(five_percent_loss),     cmocka_unit_test(long_way),
	    cmocka_unit_test(fast_long_way),	     cmocka_unit_test(small_receive_buffer),
	};

	if (argc > 1 && !strcmp(argv[1], "--table"))
		return print_table();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
