// SPDX-License-Identifier: BSD-2-Clause
/*
 * fork() and registered memory. Adapters that pin pages lose them to the child when the parent
 * writes first. Here memory is reached through the parent's own page tables, so a copy on write
 * moves nothing away from under a registration: fork needs no protection.
 */
#include <infiniband/verbs.h>
#include "verbs/fork.h"

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
