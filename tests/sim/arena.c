/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of a node, and a shadow of it. Work under way marks the bytes that it may write as in
 * flux; every other byte must equal its shadow at any time, in registered regions, between them and
 * around them. Work done says what its bytes must be now.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim.h"

/*
 * Always at the same address, as addresses go over the wire and forged packets turn bits of them: a
 * seed must replay. Nothing is mapped around it.
 */
static void *map_memory(int index, uint32_t size)
{
	char *place = (char *)0x200000000000 + ((uint64_t)index << 32);
	void *memory = mmap(place, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (memory != place) {
		perror("the simulation's memory at its fixed address");
		abort();
	}
	return memory;
}

void arena_make(struct arena *arena, struct world *world, int index, uint32_t size)
{
	size = (size + 4095) & ~4095u;
	arena->world = world;
	arena->size = size;
	arena->memory = map_memory(index, size);
	arena->shadow = aligned_alloc(4096, size);
	arena->flux = calloc(size, sizeof(*arena->flux));
	arena->readers = calloc(size, sizeof(*arena->readers));
	if (!arena->shadow || !arena->flux || !arena->readers)
		abort();
	for (uint32_t i = 0; i < size; i += 8) {
		uint64_t v = rng_next(&world->program);

		memcpy(arena->memory + i, &v, sizeof(v));
	}
	memcpy(arena->shadow, arena->memory, size);
}

void arena_free(struct arena *arena)
{
	if (arena->memory)
		munmap(arena->memory, arena->size);
	free(arena->shadow);
	free(arena->flux);
	free(arena->readers);
	memset(arena, 0, sizeof(*arena));
}

void arena_mark(uint16_t *counts, uint32_t at, uint32_t length, int change)
{
	for (uint32_t i = at; i < at + length; i++)
		counts[i] += change;
}

/* Whether any of `length` counts is not 0; four at a time, as this is most of what a simulation
 * does. */
static bool has_marks(const uint16_t *counts, uint32_t length)
{
	uint64_t some = 0, four;
	uint32_t i = 0;

	for (; i + 4 <= length && !some; i += 4) {
		memcpy(&four, counts + i, sizeof(four));
		some |= four;
	}
	for (; i < length; i++)
		some |= counts[i];
	return some;
}

bool arena_is_free(const struct arena *arena, uint32_t at, uint32_t length, bool to_write)
{
	return !has_marks(arena->flux + at, length) &&
	       !(to_write && has_marks(arena->readers + at, length));
}

bool arena_first_fit(const struct arena *arena, uint32_t from, uint32_t end, uint32_t length,
		     bool to_write, uint32_t *at)
{
	uint32_t busy;

	for (*at = from; *at + length <= end; *at = busy) {
		for (busy = *at + length; busy > *at; busy--)
			if (arena->flux[busy - 1] || (to_write && arena->readers[busy - 1]))
				break;
		if (busy == *at)
			return true;
	}
	return false;
}

void arena_scribble(struct arena *arena, uint32_t at, uint32_t length)
{
	struct rng *rng = &arena->world->program;

	for (uint32_t i = 0; i < length; i += 8) {
		uint64_t v = rng_next(rng);

		memcpy(arena->memory + at + i, &v, length - i < 8 ? length - i : 8);
	}
	memcpy(arena->shadow + at, arena->memory + at, length);
}

void arena_expect(struct arena *arena, uint32_t at, uint32_t length, const uint8_t *data,
		  const char *what)
{
	memcpy(arena->shadow + at, data, length);
	if (!memcmp(arena->memory + at, data, length))
		return;
	for (uint32_t i = 0; i < length; i++)
		sim_check(arena->world, arena->flux[at + i] || arena->memory[at + i] == data[i],
			  "%s: byte %u of %u (arena %u) is %02x, not %02x", what, i, length, at + i,
			  arena->memory[at + i], data[i]);
}

void arena_adopt(struct arena *arena, uint32_t at, uint32_t length)
{
	memcpy(arena->shadow + at, arena->memory + at, length);
}

void arena_check(struct arena *arena, const char *when)
{
	enum { BLOCK = 4096 };

	for (uint32_t at = 0; at < arena->size; at += BLOCK) {
		if (!memcmp(arena->memory + at, arena->shadow + at, BLOCK))
			continue;
		for (uint32_t i = at; i < at + BLOCK; i++)
			sim_check(
			    arena->world, arena->flux[i] || arena->memory[i] == arena->shadow[i],
			    "%s: byte %u of the arena was written, nothing may: %02x, not %02x",
			    when, i, arena->memory[i], arena->shadow[i]);
	}
}
