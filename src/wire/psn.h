/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet sequence numbers: 24 bits, compared within a window of half the range (9.7.1). MSNs follow
 * the same rule.
 */
#ifndef WIRE_PSN_H
#define WIRE_PSN_H

#include <stdbool.h>
#include <stdint.h>

enum { PSN_MASK = 0xffffff };

static inline uint32_t psn_add(uint32_t psn, int32_t n)
{
	return (psn + (uint32_t)n) & PSN_MASK;
}

static inline uint32_t psn_next(uint32_t psn)
{
	return psn_add(psn, 1);
}

/* How far a is after b: -2^23 .. 2^23 - 1; bits above the 24 don't count. */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/* How far psn is into a run of PSNs that begins at `first`: 0 .. 2^24 - 1, for runs longer than a
 * window. */
static inline uint32_t psn_into(uint32_t psn, uint32_t first)
{
	return (psn - first) & PSN_MASK;
}

/* Negative, zero or positive as a is before, at or after b. */
static inline int psn_compare(uint32_t a, uint32_t b)
{
	return psn_diff(a, b);
}

/* Whether psn is one of the `count` numbers from `first` on. */
static inline bool psn_is_within(uint32_t psn, uint32_t first, uint32_t count)
{
	return psn_into(psn, first) < count;
}

#endif
