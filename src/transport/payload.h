/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Payload between packets and scatter/gather lists. Every element's key is looked up for each
 * packet, so a region that is deregistered in mid-message is noticed. A cursor remembers where the
 * last packet ended: messages mostly go on there, and finding the place again costs nothing.
 */
#ifndef TRANSPORT_PAYLOAD_H
#define TRANSPORT_PAYLOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include <infiniband/verbs.h>

#include "explain/reason.h"

struct adapter;
struct pd;
struct seal;

struct sge_cursor {
	uint64_t
	    offset; /* of the message, in bytes; that of the byte that `index` and `into` name */
	uint32_t index;
	uint32_t into; /* bytes into element `index` */
};

/* A list, and whose memory it is. */
struct sge_list {
	struct adapter *adapter;
	const struct pd *pd;
	const struct ibv_sge *sge;
	uint32_t count;
};

/* Forget the place: another list comes, or another part of it. */
static inline void cursor_reset(struct sge_cursor *cursor)
{
	cursor->offset = UINT64_MAX;
}

/* On by what was taken from one element. */
static inline void cursor_move(struct sge_cursor *cursor, uint32_t piece)
{
	cursor->into += piece;
	cursor->offset += piece;
}

/*
 * Copies `length` bytes at `offset` of the message; the caller has checked that the list is that
 * long. payload_gather_sum() sums them as well, on from *sum (memory_load_sum()). REASON_NONE, or
 * the reason (not noted).
 */
enum reason payload_gather(const struct sge_list *list, struct sge_cursor *cursor, uint64_t offset,
			   void *to, uint32_t length);
enum reason payload_gather_sum(const struct sge_list *list, struct sge_cursor *cursor,
			       uint64_t offset, void *to, uint32_t length, uint32_t *sum);
enum reason payload_scatter(const struct sge_list *list, struct sge_cursor *cursor, uint64_t offset,
			    const void *from, uint32_t length);

/* Pieces of `each` bytes, each `stride` behind the one before, in packets that may have a seal. */
struct payload_row {
	const uint8_t *from;
	uint32_t stride, each, count;
	struct seal *seal;
};

/* The first of them, as many as one element takes; a piece that several take by itself, without a
 * seal. How many: none where there is something to say about a key, or no memory. */
uint32_t payload_scatter_row(const struct sge_list *list, struct sge_cursor *cursor,
			     uint64_t offset, const struct payload_row *row);

/*
 * Where the bytes from `offset` on lie, as many of `length` as one element has, for who copies them
 * himself and then moves the cursor. NULL where there is something to say about a key, or no
 * memory.
 */
const char *payload_stretch(const struct sge_list *list, struct sge_cursor *cursor, uint64_t offset,
			    uint32_t length, uint32_t *piece);

/* What is left of a part of a list, in bytes; all zero but these two at first. */
struct sge_part {
	uint64_t offset, length;
	uint32_t index; /* the element that the offset counts from */
};

/* Takes from it what lies in the next element. False where nothing is left, of it (no length any
 * more) or of the list. */
bool sge_part_next(const struct sge_list *list, struct sge_part *part, struct ibv_sge *piece);

/* Where `length` bytes at `offset` lie, in as many pieces as the list has at most. False where
 * there is something to say about a key, or no memory. */
bool payload_find(const struct sge_list *list, unsigned int need, uint64_t offset, uint64_t length,
		  struct iovec *pieces, uint32_t *count);

/* Whether all of the list may be used: `need` as for mr_resolve_local(). */
enum reason payload_check(const struct sge_list *list, unsigned int need);

#endif
