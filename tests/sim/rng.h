/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers out of a seed: splitmix64, one stream for each thing that is random (the link, the hosts,
 * the program), so that a change in one leaves the others as they were.
 */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng)
{
	uint64_t z = rng->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static inline void rng_seed(struct rng *rng, uint64_t seed, uint64_t stream)
{
	rng->state = seed * 0x2545f4914f6cdd1d + stream * 0xd1342543de82ef95;
	rng->state = rng_next(rng);
}

/* 0 .. n-1; 0 where n is 0. */
static inline uint32_t rng_below(struct rng *rng, uint32_t n)
{
	return (uint64_t)(uint32_t)(rng_next(rng) >> 32) * n >> 32;
}

/* low .. high, both included. */
static inline uint32_t rng_between(struct rng *rng, uint32_t low, uint32_t high)
{
	return low + rng_below(rng, high - low + 1);
}

/* True `share` times in ten thousand. */
static inline bool rng_chance(struct rng *rng, uint32_t share)
{
	return rng_below(rng, 10000) < share;
}

#endif
