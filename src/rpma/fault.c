/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which fault point fails; see fault.h.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "rpma/fault.h"

static atomic_uint passed, failing;

bool fault_is_due(void)
{
	if (atomic_fetch_add_explicit(&passed, 1, memory_order_relaxed) + 1 !=
	    atomic_load_explicit(&failing, memory_order_relaxed))
		return false;
	errno = EIO;
	return true;
}

void fault_set(unsigned int number)
{
	atomic_store(&passed, 0);
	atomic_store(&failing, number);
}

unsigned int fault_count(void)
{
	return atomic_load(&passed);
}

__attribute__((constructor)) static void fault_init(void)
{
	const char *number = getenv("VERBATIM_RPMA_FAULT");

	if (number)
		fault_set((unsigned int)strtoul(number, NULL, 10));
}
