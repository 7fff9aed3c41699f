/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two connections, each between two nodes of its own, over one line of 1 Gb/s with a round trip of
 * 10 ms: each gets its share, the line stays busy, and what waits for it stays short of what it has
 * room for. In virtual time.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "rig.h"

enum {
	LENGTH = 64 << 10,
	DEPTH = 60,
	LINE_PS_PER_BYTE = 8000,
	LINE_ROOM = 3 << 20, /* some 25 ms */
	MARK_FROM = 256 << 10,
};

/* Of a second, each. */
static const uint64_t WARM_UP = 4, MEASURED = 6;

struct stream {
	struct rig *rig;
	int end;
	enum ibv_wr_opcode opcode;
	uint32_t posted;
	uint64_t done;
};

static void post_one(struct stream *stream)
{
	uint32_t at = stream->posted % DEPTH * LENGTH;

	rig_post(stream->rig, stream->end, stream->opcode, at, at, LENGTH, stream->posted++);
}

static void go_on(struct stream *stream)
{
	struct cq *cq = stream->rig->ends[stream->end]->node->cqs[0].cq;
	struct ibv_wc wc;

	while (cq_poll(cq, 1, &wc) > 0) {
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		stream->done += LENGTH;
		post_one(stream);
	}
}

static void run_for(struct stream *streams, int count, uint64_t seconds)
{
	struct rig *rig = streams[0].rig;
	uint64_t until = rig->world.now + seconds * SEC;

	while (rig->world.now < until) {
		for (int i = 0; i < count; i++)
			go_on(&streams[i]);
		rig_pass(rig, 200 * US);
	}
}

static void make_line(struct rig *rig, bool has_marks)
{
	struct weather *weather = &rig->world.weather;

	rig_make(rig, IBV_QPT_RC, 4096);
	rig_add(rig, IBV_QPT_RC, 4096);
	weather->delay = 5 * MS;
	weather->jitter = 20 * US;
	weather->ps_per_byte = LINE_PS_PER_BYTE;
	weather->line_limit = LINE_ROOM;
	weather->step_delay = 5 * US;
	rig->world.nodes[2].line_of = &rig->world.nodes[0];
	rig->world.nodes[3].line_of = &rig->world.nodes[1];
	if (has_marks)
		weather->mark_from = MARK_FROM;
	rig_connect(rig);
}

/* The second comes `late` seconds after the first. How much waited at most, in bytes. */
static uint64_t share(enum ibv_wr_opcode opcode, uint64_t late, bool has_marks)
{
	static struct rig rig;
	struct statistics *stats = &rig.world.stats;
	struct stream streams[2] = {{.rig = &rig, .end = 0, .opcode = opcode},
				    {.rig = &rig, .end = 2, .opcode = opcode}};
	double a, b, fairness, used;
	uint64_t longest;

	make_line(&rig, has_marks);
	for (int i = 0; i < 2; i++) {
		for (int posted = 0; posted < DEPTH; posted++)
			post_one(&streams[i]);
		if (i == 0)
			run_for(streams, 1, late);
	}
	run_for(streams, 2, WARM_UP);
	streams[0].done = streams[1].done = stats->crowded = stats->longest_queue = 0;
	run_for(streams, 2, MEASURED);
	a = streams[0].done;
	b = streams[1].done;
	fairness = (a + b) * (a + b) / (2 * (a * a + b * b));
	used = (a + b) * LINE_PS_PER_BYTE / 1000 / (MEASURED * SEC);
	print_message("%.0f and %.0f MB/s: %.1f %% of the line, fairness %.3f, %llu KiB waited at "
		      "most, %llu crowded out, %llu marked\n",
		      a / MEASURED / 1e6, b / MEASURED / 1e6, used * 100, fairness,
		      (unsigned long long)stats->longest_queue / 1024,
		      (unsigned long long)stats->crowded, (unsigned long long)stats->marked);
	assert_true(fairness >= 0.9);
	assert_true(used >= 0.96);
	assert_int_equal(stats->crowded, 0);
	assert_true(stats->longest_queue < LINE_ROOM / 2);
	assert_int_equal(stats->marked > 0, has_marks);
	longest = stats->longest_queue;
	rig_end(&rig);
	return longest;
}

static void two_that_begin_at_once_share_the_line(void **state)
{
	share(IBV_WR_RDMA_WRITE, 0, false);
	share(IBV_WR_RDMA_READ, 0, false);
}

static void who_comes_late_gets_a_share(void **state)
{
	share(IBV_WR_RDMA_WRITE, 2, false);
	share(IBV_WR_RDMA_READ, 2, false);
}

/* Marks tell sooner than the round trip does. */
static void marks_keep_the_queue_short(void **state)
{
	uint64_t longest = share(IBV_WR_RDMA_WRITE, 2, false);

	assert_true(share(IBV_WR_RDMA_WRITE, 0, true) < longest);
	assert_true(share(IBV_WR_RDMA_WRITE, 2, true) < longest);
	share(IBV_WR_RDMA_READ, 2, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(two_that_begin_at_once_share_the_line),
	    cmocka_unit_test(who_comes_late_gets_a_share),
	    cmocka_unit_test(marks_keep_the_queue_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
