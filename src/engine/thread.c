/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Starting and joining our threads.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "engine/thread.h"

enum {
	STACK_BYTES = 256 << 10, /* the C library takes its thread-local storage out of it */
	JOIN_SECONDS = 5,
};

int thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *data)
{
	pthread_attr_t attr;
	sigset_t all, before;
	cpu_set_t cpus;
	int error;

	memset(&cpus, 0xff, sizeof(cpus));
	sigfillset(&all);
	/* Faults in copies of the program's memory: blocked, they would end the process. */
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(thread, &attr, run, data);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (error)
		return -error;
	pthread_setname_np(*thread, name);
	pthread_setaffinity_np(*thread, sizeof(cpus), &cpus); /* a cpuset still bounds it */
	return 0;
}

bool thread_leave_core(int but_for)
{
	cpu_set_t all, others;
	int core = sched_getcpu();

	if (core < 0 || sched_getaffinity(0, sizeof(all), &all) < 0)
		return false;
	others = all;
	CPU_CLR(core, &others);
	if (but_for >= 0)
		CPU_CLR(but_for, &others);
	if (!CPU_COUNT(&others) || sched_setaffinity(0, sizeof(others), &others) < 0)
		return false;
	sched_setaffinity(0, sizeof(all), &all);
	return true;
}

bool thread_was_preempted(void)
{
	static _Thread_local long switches;
	struct rusage usage;
	long before = switches;

	if (getrusage(RUSAGE_THREAD, &usage) < 0)
		return false;
	switches = usage.ru_nivcsw;
	return switches != before;
}

void thread_join(pthread_t thread)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += JOIN_SECONDS;
	pthread_timedjoin_np(thread, NULL, &until);
}
