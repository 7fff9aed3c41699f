/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fault points: each call of this library to something that can fail goes through one, and the
 * process's N-th can be made to fail, by VERBATIM_RPMA_FAULT=N in the environment. So a test can
 * see each way out of each function. A call that makes something is not made then; one that
 * destroys something is, and its failure is a lie.
 */
#ifndef RPMA_FAULT_H
#define RPMA_FAULT_H

#include <errno.h>
#include <stdbool.h>

/* Counts, and says whether this is the one; errno is EIO then. */
bool fault_is_due(void);
/* The N-th from now on, 0: none; and how many were passed since. For tests. */
void fault_set(unsigned int number);
unsigned int fault_count(void);

/* A call that returns a pointer, -1 and errno, or an errno. */
#define FAULT_NULL(call)  (fault_is_due() ? NULL : (call))
#define FAULT_MINUS(call) (fault_is_due() ? -1 : (call))
#define FAULT_ERRNO(call) (fault_is_due() ? EIO : (call))
/* Those that destroy: 0 is success. */
#define FAULT_END(call)                                                                            \
	({                                                                                         \
		int fault_end_result = (call);                                                     \
		fault_is_due() ? EIO : fault_end_result;                                           \
	})

#endif
