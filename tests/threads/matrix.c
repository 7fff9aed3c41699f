// SPDX-License-Identifier: BSD-2-Clause
/*
 * matrix [PART OF [ROUNDS]]: any two verbs at once, in two threads: on the same objects, on others
 * of the same context, and on those of another context. The threads start each pair together and
 * wait for each other after it; so whoever looks for races (ThreadSanitizer, helgrind, drd) sees
 * what is between the two alone. With PART and OF (from 0 on) only each OFth pair, another one for
 * each PART. Who does not wait for chance needs few ROUNDS. Between pairs all completions and
 * events are taken and counted: none is lost or comes twice.
 *
 * matrix --list: the verbs.
 */
#include <pthread.h>
#include <string.h>

#include "matrix.h"

enum { MAX_VERBS = 128, MODES = 3, PATIENCE_S = 400 };

static const char *const mode_names[MODES] = {"the same objects", "other objects",
					      "another context"};
static const struct verb *const tables[] = {calls_context, calls_memory, calls_queue, calls_qp,
					    calls_post};

static const struct verb *verbs[MAX_VERBS];
static unsigned int verb_count;
static struct set sets[MODES]; /* the first thread's, and what the second one has in each mode */
static struct events events[2];
static unsigned int part, parts = 1, rounds = 20;
_Thread_local unsigned int matrix_thread;
static pthread_barrier_t barrier;
static unsigned int now[2]; /* which pair; written between the barriers */
static unsigned int mode;

static void gather(void)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		for (const struct verb *verb = tables[i]; verb->names; verb++) {
			CHECK(verb_count < MAX_VERBS);
			verbs[verb_count++] = verb;
		}
}

static void meet(void)
{
	int ret = pthread_barrier_wait(&barrier);

	CHECK(!ret || ret == PTHREAD_BARRIER_SERIAL_THREAD);
}

static void run_rounds(const struct verb *verb, struct set *set)
{
	for (unsigned int i = 0; i < rounds; i++)
		verb->round(set);
}

/* Ends when it finds no pair. */
static void *second_thread(void *unused)
{
	matrix_thread = 1;
	for (;;) {
		meet();
		if (now[1] == verb_count)
			return NULL;
		run_rounds(verbs[now[1]], &sets[mode]);
		meet();
	}
}

static void run_pair(unsigned int first, unsigned int second)
{
	now[0] = first;
	now[1] = second;
	rig_doing[0] = verbs[first]->names;
	rig_doing[1] = verbs[second]->names;
	meet();
	run_rounds(verbs[first], &sets[0]);
	meet();
	set_drain(&sets[0]);
	if (mode)
		set_drain(&sets[mode]);
}

/* A pair on the same objects is one pair whoever is first, and so it is on other ones. */
static unsigned int run_mode(void)
{
	unsigned int index = 0, count = 0;

	for (unsigned int i = 0; i < verb_count; i++)
		for (unsigned int j = i; j < verb_count; j++)
			if (index++ % parts == part) {
				run_pair(i, j);
				count++;
			}
	return count;
}

static void list(void)
{
	for (unsigned int i = 0; i < verb_count; i++)
		puts(verbs[i]->names);
}

static void run(void)
{
	pthread_t thread;

	rig_watchdog(PATIENCE_S);
	set_open(&sets[0], NULL, &events[0]);
	set_open(&sets[1], &sets[0], &events[0]);
	set_open(&sets[2], NULL, &events[1]);
	pthread_barrier_init(&barrier, NULL, 2);
	CHECK(!pthread_create(&thread, NULL, second_thread, NULL));
	for (mode = 0; mode < MODES; mode++) {
		uint64_t start = rig_ms();
		unsigned int count = run_mode();

		printf("%u pairs on %s, %u ms\n", count, mode_names[mode],
		       (unsigned int)(rig_ms() - start));
		fflush(stdout);
	}
	now[1] = verb_count;
	meet();
	CHECK(!pthread_join(thread, NULL));
	pthread_barrier_destroy(&barrier);
	set_close(&sets[2], true);
	set_close(&sets[1], false);
	set_close(&sets[0], true);
}

int main(int argc, char **argv)
{
	gather();
	if (argc == 2 && !strcmp(argv[1], "--list")) {
		list();
		return 0;
	}
	if (argc >= 3) {
		part = (unsigned int)atoi(argv[1]);
		parts = (unsigned int)atoi(argv[2]);
		CHECK(part < parts);
	}
	if (argc == 4)
		rounds = (unsigned int)atoi(argv[3]);
	run();
	return 0;
}
