/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One or two connections, each between two nodes of its own, over one line of 1 Gb/s: each gets its
 * share, the line stays busy, what waits for it stays short of what it has room for, and where that
 * is little, little is lost. In virtual time.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "rig.h"

enum {
	LENGTH = 64 << 10,
	DEPTH = 128, /* messages posted, */
	PLACES = 60, /* which take turns in the memory that there is */
	LINE_PS_PER_BYTE = 8000,
	MARK_FROM = 256 << 10,
	CHANCES = 3,
};

/* Of a second, each. */
static const uint64_t WARM_UP = 4, MEASURED = 6;

struct line {
	uint64_t round_trip;
	uint64_t room, mark_from; /* bytes; mark_from 0: no marks */
	uint32_t loss;		  /* by chance, in ten thousand */
	uint64_t seed;
};

/* What came of it: of all, and of what was measured after the warm-up. */
struct outcome {
	double used, fairness;
	double crowded; /* share of the packets that found no room */
	uint64_t crowded_ever, longest_ever, longest, marked;
};

static const struct line plain = {.round_trip = 10 * MS, .room = 3 << 20},
			 marking = {.round_trip = 10 * MS, .room = 3 << 20, .mark_from = MARK_FROM};

struct stream {
	struct rig *rig;
	int end;
	enum ibv_wr_opcode opcode;
	uint32_t posted;
	uint64_t done;
};

static void post_one(struct stream *stream)
{
	uint32_t at = stream->posted % PLACES * LENGTH;

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

static void make_line(struct rig *rig, const struct line *line, int flows)
{
	struct weather *weather = &rig->world.weather;

	rig_make(rig, 1 + line->seed, IBV_QPT_RC, 4096);
	weather->delay = line->round_trip / 2;
	weather->jitter = 20 * US;
	weather->ps_per_byte = LINE_PS_PER_BYTE;
	weather->line_limit = line->room;
	weather->mark_from = line->mark_from;
	weather->loss = line->loss;
	weather->no_mercy = true;
	weather->step_delay = 5 * US;
	if (flows > 1) {
		rig_add(rig, IBV_QPT_RC, 4096);
		rig->world.nodes[2].line_of = &rig->world.nodes[0];
		rig->world.nodes[3].line_of = &rig->world.nodes[1];
	}
	rig_connect(rig);
}

static struct outcome outcome_of(const struct stream *streams, int flows, uint64_t packets)
{
	const struct statistics *stats = &streams[0].rig->world.stats;
	double a = streams[0].done, b = flows > 1 ? streams[1].done : 0;

	return (struct outcome){
	    .fairness = (a + b) * (a + b) / (flows * (a * a + b * b)),
	    .used = (a + b) * LINE_PS_PER_BYTE / 1000 / (MEASURED * SEC),
	    .crowded = (double)stats->crowded / packets,
	    .longest = stats->longest_queue,
	    .marked = stats->marked,
	};
}

/* The second comes `late` seconds after the first. */
static struct outcome run(enum ibv_wr_opcode opcode, const struct line *line, int flows,
			  uint64_t late)
{
	static struct rig rig;
	struct statistics *stats = &rig.world.stats;
	struct stream streams[2] = {{.rig = &rig, .end = 0, .opcode = opcode},
				    {.rig = &rig, .end = 2, .opcode = opcode}};
	uint64_t crowded_ever, longest_ever, packets;
	struct outcome outcome;

	make_line(&rig, line, flows);
	for (int i = 0; i < flows; i++) {
		for (int posted = 0; posted < DEPTH; posted++)
			post_one(&streams[i]);
		if (i == 0)
			run_for(streams, 1, late);
	}
	run_for(streams, flows, WARM_UP);
	crowded_ever = stats->crowded;
	longest_ever = stats->longest_queue;
	packets = stats->packets;
	streams[0].done = streams[1].done = stats->crowded = stats->longest_queue = 0;
	run_for(streams, flows, MEASURED);
	outcome = outcome_of(streams, flows, stats->packets - packets);
	outcome.crowded_ever = crowded_ever + stats->crowded;
	outcome.longest_ever = outcome.longest > longest_ever ? outcome.longest : longest_ever;
	print_message(
	    "%s, %d, %g ms, room for %llu KiB, loss %g %%: %.1f %% of the line, fairness "
	    "%.3f, %.2f %% crowded out, %llu KiB waited at most, %llu ever, %llu marked\n",
	    opcode == IBV_WR_RDMA_READ ? "READ" : "WRITE", flows, line->round_trip / 1e6,
	    (unsigned long long)line->room / 1024, line->loss / 100.0, outcome.used * 100,
	    outcome.fairness, outcome.crowded * 100, (unsigned long long)outcome.longest / 1024,
	    (unsigned long long)outcome.longest_ever / 1024, (unsigned long long)outcome.marked);
	rig_end(&rig);
	return outcome;
}

/* Two share it, and nothing is lost. How much waited at most, in bytes. */
static uint64_t share(enum ibv_wr_opcode opcode, uint64_t late, const struct line *line)
{
	struct outcome outcome = run(opcode, line, 2, late);

	assert_true(outcome.fairness >= 0.98);
	assert_true(outcome.used >= 0.96);
	assert_int_equal(outcome.crowded_ever, 0);
	assert_true(outcome.longest < line->room / 2);
	assert_int_equal(outcome.marked > 0, line->mark_from > 0);
	return outcome.longest;
}

static void two_that_begin_at_once_share_the_line(void **state)
{
	share(IBV_WR_RDMA_WRITE, 0, &plain);
	share(IBV_WR_RDMA_READ, 0, &plain);
}

static void who_comes_late_gets_a_share(void **state)
{
	share(IBV_WR_RDMA_WRITE, 2, &plain);
	share(IBV_WR_RDMA_READ, 2, &plain);
}

/* Marks tell sooner than the round trip does. */
static void marks_keep_the_queue_short(void **state)
{
	uint64_t longest = share(IBV_WR_RDMA_WRITE, 2, &plain);

	assert_true(share(IBV_WR_RDMA_WRITE, 0, &marking) < longest);
	assert_true(share(IBV_WR_RDMA_WRITE, 2, &marking) < longest);
	share(IBV_WR_RDMA_READ, 2, &marking);
}

/* The line holds 2.5 MB. Doubling ends before the queue, less than twice that, is full. */
static void who_begins_over_a_long_way_drops_nothing(void **state)
{
	static const struct line line = {.round_trip = 20 * MS, .room = 4 << 20},
				 marks = {.round_trip = 20 * MS,
					  .room = 4 << 20,
					  .mark_from = MARK_FROM};

	share(IBV_WR_RDMA_WRITE, 0, &line);
	share(IBV_WR_RDMA_WRITE, 2, &line);
	share(IBV_WR_RDMA_WRITE, 0, &marks);
}

/* Over runs that differ by chance alone. */
static struct outcome on_average(struct line line, int flows)
{
	struct outcome average = {0};

	for (line.seed = 0; line.seed < CHANCES; line.seed++) {
		struct outcome outcome = run(IBV_WR_RDMA_WRITE, &line, flows, 0);

		average.used += outcome.used / CHANCES;
		average.fairness += outcome.fairness / CHANCES;
		average.crowded += outcome.crowded / CHANCES;
	}
	return average;
}

/* Queues that no round trip tells of. */
static void little_room_is_enough(void **state)
{
	static const uint64_t round_trips[] = {1 * MS, 5 * MS, 20 * MS};
	static const uint64_t rooms[] = {64 << 10, 128 << 10, 256 << 10};
	static const double used[] = {0.65, 0.75, 0.85};

	for (int i = 0; i < 9; i++) {
		struct line line = {.round_trip = round_trips[i / 3], .room = rooms[i % 3]};

		for (int flows = 1; flows <= 2; flows++) {
			struct outcome outcome = on_average(line, flows);

			assert_true(outcome.crowded <= 0.0125);
			assert_true(outcome.used >= used[i % 3]);
			assert_true(outcome.fairness >= 0.8);
		}
	}
}

/* The responses to one READ come at once, here 64 KiB. */
static void reads_need_room_for_their_responses(void **state)
{
	struct line line = {.round_trip = 5 * MS, .room = 128 << 10};

	for (int flows = 1; flows <= 2; flows++) {
		struct outcome outcome = run(IBV_WR_RDMA_READ, &line, flows, 0);

		assert_true(outcome.crowded <= 0.025);
		assert_true(outcome.used >= 0.5);
	}
}

static void what_is_lost_by_chance_costs_little(void **state)
{
	static const struct {
		uint32_t loss;
		double used;
	} cases[] = {{1, 0.93}, {10, 0.9}, {100, 0.85}, {500, 0.75}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct line line = {.round_trip = 20 * MS, .room = 4 << 20, .loss = cases[i].loss};

		assert_true(run(IBV_WR_RDMA_WRITE, &line, 1, 0).used >= cases[i].used);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(two_that_begin_at_once_share_the_line),
	    cmocka_unit_test(who_comes_late_gets_a_share),
	    cmocka_unit_test(marks_keep_the_queue_short),
	    cmocka_unit_test(who_begins_over_a_long_way_drops_nothing),
	    cmocka_unit_test(little_room_is_enough),
	    cmocka_unit_test(reads_need_room_for_their_responses),
	    cmocka_unit_test(what_is_lost_by_chance_costs_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
