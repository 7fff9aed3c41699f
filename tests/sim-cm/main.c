/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim-cm --seeds A..B	each seed; stops at the first that fails
 * sim-cm --seed N	one, with a trace
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

static struct world world;

/* All that may have to be sent again has been, all timeouts and probes are over. */
#define SETTLED (400 * SECOND)

static void check_empty(void)
{
	for (int i = 0; i < PROCESSES; i++) {
		struct process *process = &world.processes[i];
		struct cm *cm = &process->cm;

		if (process->is_dead)
			continue;
		if (cm->count)
			world_fail(&world, "process %d.%u still has %u ids", process->host,
				   process->slot, cm->count);
		if (cm->timers.count || cm->peer_timers.count)
			world_fail(&world, "process %d.%u still has timers", process->host,
				   process->slot);
		if (cm->counters.malformed)
			world_fail(&world, "messages were malformed");
	}
}

static bool run_seed(uint64_t seed, bool is_verbose)
{
	world_make(&world, seed, is_verbose);
	if (!setjmp(world.failed)) {
		program_make(&world);
		world_run(&world, world.now + SETTLED);
		program_compare(&world);
		program_release_all(&world);
		world.weather.calm_at = world.now;
		world_run(&world, world.now + SETTLED);
		check_empty();
	}
	world_end(&world);
	if (world.failure[0])
		printf("seed %" PRIu64 " failed at %.3f s: %s\n  replay: sim-cm --seed %" PRIu64
		       "\n",
		       seed, (double)world.now / SECOND, world.failure, seed);
	return !world.failure[0];
}

int main(int argc, char **argv)
{
	uint64_t first, last, established = 0, delivered = 0, deaths = 0;
	bool is_one = argc == 3 && strcmp(argv[1], "--seed") == 0;

	if (argc == 3 && strcmp(argv[1], "--seeds") == 0 &&
	    sscanf(argv[2], "%" SCNu64 "..%" SCNu64, &first, &last) == 2) {
		for (uint64_t seed = first; seed <= last; seed++) {
			if (!run_seed(seed, false))
				return 1;
			established += world.established;
			delivered += world.delivered;
			deaths += world.deaths;
		}
		printf("%" PRIu64 " seeds: %" PRIu64 " connections, %" PRIu64 " messages, %" PRIu64
		       " deaths\n",
		       last - first + 1, established, delivered, deaths);
		return established == 0 || deaths == 0;
	}
	if (is_one)
		return !run_seed(strtoull(argv[2], NULL, 10), true);
	fprintf(stderr, "sim-cm --seeds A..B | --seed N\n");
	return 2;
}
