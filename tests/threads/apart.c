// SPDX-License-Identifier: BSD-2-Clause
/*
 * Two processes of one host, several threads each, a queue pair an end: traffic that checks itself
 * for some seconds. Each process opens the device for itself, after the fork.
 */
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

enum { PAIRS = 4 };

static atomic_bool stop;

static void run(const int lines[PAIRS], unsigned long ms)
{
	static struct traffic ends[PAIRS];
	pthread_t threads[PAIRS];
	uint64_t until;
	struct rig rig;

	rig_watchdog(110);
	rig_open(&rig);
	for (int i = 0; i < PAIRS; i++) {
		traffic_open(&ends[i], &rig, lines[i], &stop);
		CHECK(!pthread_create(&threads[i], NULL, traffic_run, &ends[i]));
	}
	until = rig_ms() + ms;
	while (rig_ms() < until)
		usleep(10000);
	atomic_store(&stop, true);
	for (int i = 0; i < PAIRS; i++) {
		CHECK(!pthread_join(threads[i], NULL));
		CHECK(ends[i].received && ends[i].sent);
		traffic_close(&ends[i]);
	}
	rig_close(&rig);
}

int main(int argc, char **argv)
{
	unsigned long ms = argc > 1 ? strtoul(argv[1], NULL, 10) : 2500;
	int lines[2][PAIRS];
	int status;
	pid_t child;

	for (int i = 0; i < PAIRS; i++) {
		int line[2];

		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, line));
		lines[0][i] = line[0];
		lines[1][i] = line[1];
	}
	child = fork();
	CHECK(child >= 0);
	for (int i = 0; i < PAIRS; i++)
		close(lines[child ? 1 : 0][i]);
	run(lines[child ? 0 : 1], ms);
	if (child == 0)
		return 0;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return 0;
}
