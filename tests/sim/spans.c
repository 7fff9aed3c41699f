/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The local buffers of work requests: pieces of registered pools that nothing else is using.
 * Receives have pools of their own, so that sends under way, which may wait for receives, never
 * take the room that these need.
 */
#include <string.h>

#include "sim.h"

/* By chance, else where there is room. Long pieces have regions of their own, which short ones
 * can't cut up. */
static bool span_take(struct node *node, enum mr_pool pool, uint32_t length, bool is_sink,
		      struct span *span)
{
	enum { SHORT = 4096 + GRH_SIZE, TRIES = 16 };
	uint32_t room, start;
	bool is_found;

	pool += length > SHORT;
	room = node->pool[pool]->length;
	start = node->pool_at[pool];
	span->mr = node->pool[pool];
	span->length = length;
	for (int tries = 0; tries <= TRIES; tries++) {
		span->at = start + rng_below(&node->world->program, room - length + 1);
		is_found = tries < TRIES ? arena_is_free(&node->arena, span->at, length, is_sink)
					 : arena_first_fit(&node->arena, start, start + room,
							   length, is_sink, &span->at);
		if (!is_found)
			continue;
		arena_mark(is_sink ? node->arena.flux : node->arena.readers, span->at, length, 1);
		return true;
	}
	return false;
}

static void spans_give(struct node *node, struct span *spans, uint32_t count, bool is_sink)
{
	for (uint32_t i = 0; i < count; i++)
		arena_mark(is_sink ? node->arena.flux : node->arena.readers, spans[i].at,
			   spans[i].length, -1);
}

/* Splits `total` bytes over up to max_sge elements, some perhaps empty. */
bool spans_take(struct node *node, enum mr_pool pool, uint32_t total, uint32_t max_sge,
		bool is_sink, struct span **spans, uint32_t *count)
{
	struct world *world = node->world;
	struct rng *rng = &world->program;
	uint32_t n = rng_chance(rng, 6000) ? 1 : rng_between(rng, 1, max_sge), left = total;

	if (!total && rng_chance(rng, 7000))
		n = 0;
	*spans = world_alloc(world, (n + 1) * sizeof(**spans));
	for (*count = 0; *count < n; (*count)++) {
		uint32_t part =
		    *count + 1 == n ? left : rng_below(rng, 2 * left / (n - *count) + 1);

		if (part > left)
			part = left;
		if (!part && !rng_chance(rng, 500))
			part = left ? 1 : 0;
		if (!span_take(node, pool, part, is_sink, &(*spans)[*count])) {
			spans_give(node, *spans, *count, is_sink);
			return false;
		}
		left -= part;
	}
	return true;
}

uint32_t spans_sges(struct node *node, const struct span *spans, uint32_t count,
		    struct ibv_sge *sges)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct mr *mr = spans[i].mr;
		char *place = (char *)node->arena.memory + spans[i].at;

		sges[i].addr = mr->iova + (place - mr->base);
		sges[i].length = spans[i].length;
		sges[i].lkey = mr->lkey;
	}
	return count;
}

void spans_spoil(struct node *node, const struct span *spans, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (arena_is_free(&node->arena, spans[i].at, spans[i].length, true))
			arena_scribble(&node->arena, spans[i].at, spans[i].length);
}

/* What the program has in these bytes; sources that nobody else reads get fresh ones first. */
uint8_t *spans_gather(struct node *node, const struct span *spans, uint32_t count, uint32_t length)
{
	uint8_t *data = world_alloc(node->world, length), *to = data;

	for (uint32_t i = 0; i < count; i++) {
		arena_mark(node->arena.readers, spans[i].at, spans[i].length, -1);
		if (rng_chance(&node->world->program, 5000) &&
		    arena_is_free(&node->arena, spans[i].at, spans[i].length, true))
			arena_scribble(&node->arena, spans[i].at, spans[i].length);
		arena_mark(node->arena.readers, spans[i].at, spans[i].length, 1);
	}
	for (uint32_t i = 0; i < count; i++) {
		memcpy(to, node->arena.shadow + spans[i].at, spans[i].length);
		to += spans[i].length;
	}
	return data;
}
