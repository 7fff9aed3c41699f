/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim --seeds A..B	each seed; stops at the first that fails, says how to replay it
 * sim --seed N [-v]	one, with a trace of packets, work requests, completions
 * sim --corpus FILE	the seeds of a file: one a line, a number and a comment
 *
 *	--hostile	forged packets among the real ones (see model.c)
 *	--express	small SENDs and ACKs go as records of the express path
 *	--offers	long SENDs are fetched from their sender's memory
 *	-k		go on after a failure
 *	-q		say nothing but failures
 *	-j N		N processes share the seeds
 */
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim.h"

enum { MAX_JOBS = 64 };

/* What came of the seeds that one process has run. */
struct tally {
	struct statistics stats;
	uint64_t virtual_time, count, failures;
};

static struct world world;
static struct tally total;
static const char *program_name;
static int verbose, quiet;
static bool is_hostile, has_express, has_plain, has_offers;

static void add_statistics(struct statistics *sum, const struct statistics *stats)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)stats;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

/* 0, or 1 when it failed. */
static int run_seed(uint64_t seed)
{
	world_make(&world, seed, verbose);
	world.weather.is_hostile = is_hostile;
	world.weather.has_express = has_express;
	world.weather.has_plain = has_plain;
	world.weather.has_offers = has_offers;
	if (!setjmp(world.failed)) {
		program_make(&world);
		world_run(&world);
		program_finish(&world);
		world_end(&world);
	}
	total.virtual_time += world.now;
	total.count++;
	add_statistics(&total.stats, &world.stats);
	if (!world.failure[0])
		return 0;
	trace_ends(&world);
	world_end(&world);
	fflush(stdout);
	printf("seed %llu failed: %s\n  replay: %s%s%s%s%s --seed %llu -v\n",
	       (unsigned long long)seed, world.failure, program_name,
	       is_hostile ? " --hostile" : "", has_express ? " --express" : "",
	       has_plain ? " --plain" : "", has_offers ? " --offers" : "",
	       (unsigned long long)seed);
	fflush(stdout);
	return 1;
}

/* A crash must name its seed as well. Only async-signal-safe calls. */
static void on_crash(int signal_number)
{
	char text[] = "crash at seed                      \n", *p = text + sizeof(text) - 3;
	uint64_t seed = world.seed;

	do {
		*p-- = '0' + seed % 10;
	} while (seed /= 10);
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		_exit(3);
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

static int run_corpus(const char *path, bool keep_going)
{
	FILE *file = fopen(path, "r");
	char line[512];
	int failures = 0, count = 0;

	if (!file) {
		perror(path);
		return 2;
	}
	while (fgets(line, sizeof(line), file)) {
		char *end;
		uint64_t seed = strtoull(line, &end, 10);

		if (end == line)
			continue;
		count++;
		failures += run_seed(seed);
		if (failures && !keep_going)
			break;
	}
	fclose(file);
	printf("%d seeds of the corpus, %d failed\n", count, failures);
	return failures || !count;
}

/* The seeds that are left, `step` apart, until one fails here or in another process. */
static void run_seeds(uint64_t first, uint64_t last, uint64_t step, bool keep_going,
		      atomic_bool *has_failed)
{
	for (uint64_t seed = first; seed <= last; seed += step) {
		if (!keep_going && atomic_load(has_failed))
			return;
		if (run_seed(seed)) {
			total.failures++;
			atomic_store(has_failed, true);
		}
	}
}

/* Of N processes each takes every Nth seed. One that crashes counts as a failure. */
static void share_seeds(uint64_t first, uint64_t last, int jobs, bool keep_going)
{
	struct {
		atomic_bool has_failed;
		struct tally tallies[MAX_JOBS];
	} *shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status, failed = 0;

	if (shared == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	for (int i = 0; i < jobs; i++) {
		if (fork())
			continue;
		run_seeds(first + (uint64_t)i, last, (uint64_t)jobs, keep_going,
			  &shared->has_failed);
		shared->tallies[i] = total;
		exit(0); /* a sanitizer looks for leaks then, and changes the status */
	}
	for (int i = 0; i < jobs; i++)
		failed += wait(&status) < 0 || status != 0;
	for (int i = 0; i < jobs; i++) {
		add_statistics(&total.stats, &shared->tallies[i].stats);
		total.virtual_time += shared->tallies[i].virtual_time;
		total.count += shared->tallies[i].count;
		total.failures += shared->tallies[i].failures;
	}
	total.failures += (uint64_t)failed;
	munmap(shared, sizeof(*shared));
}

static void report(void)
{
	printf("%llu seeds, %llu failed; %.1f s of virtual time, %llu packets (%llu lost, %llu "
	       "doubled, %llu late, %llu corrupted, %llu overflowed, %llu forged), %llu sends, "
	       "%llu receives, "
	       "%llu failed on purpose or by the link, %llu flushed; %llu SENDs left as they were "
	       "posted; %llu records, %llu taken "
	       "without a turn, %llu ACKs behind another; %llu pieces fetched, %llu not, "
	       "%llu as their region was gone, %llu as their QP was\n",
	       (unsigned long long)total.count, (unsigned long long)total.failures,
	       (double)total.virtual_time / 1e9, (unsigned long long)total.stats.packets,
	       (unsigned long long)total.stats.dropped, (unsigned long long)total.stats.duplicated,
	       (unsigned long long)total.stats.reordered, (unsigned long long)total.stats.corrupted,
	       (unsigned long long)total.stats.overflowed, (unsigned long long)total.stats.forged,
	       (unsigned long long)total.stats.sends, (unsigned long long)total.stats.recvs,
	       (unsigned long long)total.stats.failed, (unsigned long long)total.stats.flushed,
	       (unsigned long long)total.stats.plain, (unsigned long long)total.stats.expressed,
	       (unsigned long long)total.stats.glanced, (unsigned long long)total.stats.together,
	       (unsigned long long)total.stats.fetched, (unsigned long long)total.stats.unfetched,
	       (unsigned long long)total.stats.vanished, (unsigned long long)total.stats.orphaned);
}

static int usage(void)
{
	fprintf(stderr,
		"usage: %s --seeds A..B | --seed N [-v] | --corpus FILE  [-k] [-q] [-j N]\n",
		program_name);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
	    {"seeds", required_argument, NULL, 's'},  {"seed", required_argument, NULL, 'n'},
	    {"corpus", required_argument, NULL, 'c'}, {"hostile", no_argument, NULL, 'h'},
	    {"express", no_argument, NULL, 'e'},      {"plain", no_argument, NULL, 'p'},
	    {"offers", no_argument, NULL, 'o'},	      {0}};
	unsigned long long first = 1, last = 0;
	atomic_bool has_failed = false;
	const char *corpus = NULL;
	bool keep_going = false;
	int option, jobs = 1;

	program_name = argv[0];
	while ((option = getopt_long(argc, argv, "vkqj:", options, NULL)) != -1) {
		switch (option) {
		case 's':
			if (sscanf(optarg, "%llu..%llu", &first, &last) != 2)
				return usage();
			break;
		case 'n':
			first = last = strtoull(optarg, NULL, 10);
			break;
		case 'c':
			corpus = optarg;
			break;
		case 'h':
			is_hostile = true;
			break;
		case 'e':
			has_express = true;
			break;
		case 'p':
			has_plain = true;
			break;
		case 'o':
			has_offers = true;
			break;
		case 'v':
			verbose = 1;
			break;
		case 'k':
			keep_going = true;
			break;
		case 'q':
			quiet = 1;
			break;
		case 'j':
			jobs = atoi(optarg);
			break;
		default:
			return usage();
		}
	}
	signal(SIGSEGV, on_crash);
	signal(SIGABRT, on_crash);
	signal(SIGBUS, on_crash);
	signal(SIGFPE, on_crash);
	signal(SIGTERM, on_crash); /* a time limit: say where it was */
	if (corpus)
		return run_corpus(corpus, keep_going);
	if (last < first || jobs < 1 || jobs > MAX_JOBS)
		return usage();
	if (jobs > 1)
		share_seeds(first, last, jobs, keep_going);
	else
		run_seeds(first, last, 1, keep_going, &has_failed);
	if (!quiet)
		report();
	return total.failures || (has_offers && total.count > 9 && !total.stats.fetched) ||
	       (has_offers && total.count > 99 && !(total.stats.vanished && total.stats.orphaned));
}
