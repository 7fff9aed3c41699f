/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's membarrier(), and what else locks that lean need of the host.
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/bias.h"
#include "engine/fence.h"

enum { YIELDS = 20, NAP_NS = 20000, DRAIN_NS = 10000000 };

static bool membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0) == 0;
}

static void nap(long ns)
{
	const struct timespec time = {.tv_nsec = ns};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

/* A filter of system calls that came after we were allowed it may be in the way: then all stores
 * have long arrived, and that was the last time. */
static bool fence(void)
{
	if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		return true;
	nap(DRAIN_NS);
	return false;
}

static void wait(unsigned int round)
{
	if (round < YIELDS)
		sched_yield();
	else
		nap(NAP_NS);
}

void fence_prepare(void)
{
	static const struct bias_host host = {fence, wait};

	if (!bias_is_allowed() && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
		bias_allow(&host);
}
