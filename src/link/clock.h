/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock that never goes back, in ns. */
#ifndef LINK_CLOCK_H
#define LINK_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#endif
