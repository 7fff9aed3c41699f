/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pace: what two processes at once get of their cores. One number on stdout: picoseconds a step of
 * the slower one, the median of short runs. A virtual core is often one of two threads of a real
 * core, and as soon as the other one has work, this one has half of it: it stays as near to its
 * neighbour as before, and no load is seen in this machine, but all that is computed takes up to
 * twice as long. So a step keeps the core's units as busy as one thread can.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

enum { STEPS = 20000, RUNS = 101 };

/* Six sums, none of which waits for another one. */
static void step(uint64_t *sums)
{
	uint64_t a = sums[0], b = sums[1], c = sums[2], d = sums[3], e = sums[4], f = sums[5];

	for (unsigned int i = 0; i < STEPS; i++) {
		a += i;
		b ^= i;
		c -= i;
		d += i;
		e ^= i;
		f -= i;
		__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	}
	sums[0] = a;
	sums[1] = b;
	sums[2] = c;
	sums[3] = d;
	sums[4] = e;
	sums[5] = f;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t measure(void)
{
	uint64_t sums[6] = {0}, runs[RUNS];

	for (unsigned int i = 0; i < RUNS; i++) {
		uint64_t begin = now_ns();

		step(sums);
		runs[i] = (now_ns() - begin) * 1000 / STEPS;
	}
	qsort(runs, RUNS, sizeof(*runs), compare);
	return runs[RUNS / 2];
}

/* Both go on until each has its figure, so that neither measures alone. */
static uint64_t measure_beside(atomic_int *done)
{
	uint64_t figure = measure(), sums[6] = {0};

	atomic_fetch_add(done, 1);
	while (atomic_load(done) < 2)
		step(sums);
	return figure;
}

struct shared {
	atomic_int done;
	uint64_t figure; /* the child's, once it has ended */
};

int main(void)
{
	struct shared *shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t mine;
	pid_t child;

	if (shared == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	child = fork();
	if (child < 0) {
		perror("fork");
		return 1;
	}
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		shared->figure = measure_beside(&shared->done);
		_exit(0);
	}
	mine = measure_beside(&shared->done);
	if (waitpid(child, NULL, 0) != child || !shared->figure) {
		fprintf(stderr, "pace: the other process failed\n");
		return 1;
	}
	printf("%llu\n", (unsigned long long)(mine > shared->figure ? mine : shared->figure));
	return 0;
}
