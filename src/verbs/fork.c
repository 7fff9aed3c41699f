// SPDX-License-Identifier: BSD-2-Clause
/*
 * fork() and registered memory. Adapters that pin pages lose them to the child when the parent
 * writes first. Here memory is reached through the parent's own page tables, so a copy on write
 * moves nothing away from under a registration: fork needs no protection.
 *
 * What does need it are our own locks, for a child that opens devices itself: whatever the
 * program's other threads do in the library, they are let out of it first. The engine, which calls
 * us with its lock held, registers after us, and so has its lock first.
 */
#include <pthread.h>

#include <infiniband/verbs.h>
#include "verbs/face.h"
#include "verbs/fault.h"
#include "verbs/fork.h"
#include "verbs/share.h"

static void before_fork(void)
{
	shared_qp_hold();
	async_hold();
	device_hold();
	share_hold();
	fault_hold();
}

static void release_others(void)
{
	device_release();
	async_release();
	shared_qp_release();
}

static void after_fork(void)
{
	fault_release();
	share_release();
	release_others();
}

static void after_fork_in_child(void)
{
	fault_release();
	share_forked();
	release_others();
}

__attribute__((constructor)) static void follow_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

int ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	return 0;
}
