/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One walk over a scatter/gather list serves both directions; only the copy differs.
 */
#include <string.h>

#include "device/memory.h"
#include "device/mr.h"
#include "transport/packet.h"
#include "transport/payload.h"
#include "wire/icrc.h"
#include "wire/mtu.h"

static void cursor_seek(const struct sge_list *list, struct sge_cursor *cursor, uint64_t offset)
{
	uint64_t into = offset;
	uint32_t index = 0;

	if (offset && cursor->offset == offset)
		return;
	while (index < list->count && into >= list->sge[index].length)
		into -= list->sge[index++].length;
	*cursor = (struct sge_cursor){.offset = offset, .index = index, .into = into};
}

/* The next piece: as much as stays within one element. */
static enum reason cursor_piece(const struct sge_list *list, struct sge_cursor *cursor,
				uint32_t length, unsigned int need, char **place, uint32_t *piece)
{
	const struct ibv_sge *sge;
	uint32_t left;

	while (cursor->index < list->count && cursor->into == list->sge[cursor->index].length) {
		cursor->index++;
		cursor->into = 0;
	}
	if (cursor->index >= list->count)
		return REASON_LOCAL_LIST_SHORT;
	sge = &list->sge[cursor->index];
	left = sge->length - cursor->into;
	*piece = length < left ? length : left;
	return mr_resolve_local(list->adapter, list->pd, sge->lkey, sge->addr + cursor->into,
				*piece, need, place);
}

/* A null region has no place. */
static bool load(char *to, const char *place, uint32_t length, uint32_t *sum)
{
	if (place)
		return !(sum ? memory_load_sum(to, place, length, sum)
			     : memory_load(to, place, length));
	memset(to, 0, length);
	if (sum)
		*sum = icrc_sum(*sum, (const uint8_t *)to, length);
	return true;
}

static enum reason gather(const struct sge_list *list, struct sge_cursor *cursor, uint64_t offset,
			  void *to, uint32_t length, uint32_t *sum)
{
	uint32_t piece;
	enum reason reason;
	char *place;

	cursor_seek(list, cursor, offset);
	for (char *at = to; length; at += piece, length -= piece) {
		reason = cursor_piece(list, cursor, length, 0, &place, &piece);
		if (!reason && !load(at, place, piece, sum))
			reason = REASON_LOCAL_MEMORY_GONE;
		if (reason)
			return reason;
		cursor_move(cursor, piece);
	}
	return REASON_NONE;
}

enum reason payload_gather(const struct sge_list *list, struct sge_cursor *cursor, uint64_t offset,
			   void *to, uint32_t length)
{
	return gather(list, cursor, offset, to, length, NULL);
}

enum reason payload_gather_sum(const struct sge_list *list, struct sge_cursor *cursor,
			       uint64_t offset, void *to, uint32_t length, uint32_t *sum)
{
	return gather(list, cursor, offset, to, length, sum);
}

enum reason payload_scatter(const struct sge_list *list, struct sge_cursor *cursor, uint64_t offset,
			    const void *from, uint32_t length)
{
	uint32_t piece;
	enum reason reason;
	char *place;

	cursor_seek(list, cursor, offset);
	for (const char *at = from; length; at += piece, length -= piece) {
		reason = cursor_piece(list, cursor, length, IBV_ACCESS_LOCAL_WRITE, &place, &piece);
		if (!reason && place && memory_move(place, at, piece))
			reason = REASON_LOCAL_MEMORY_GONE;
		if (reason)
			return reason;
		cursor_move(cursor, piece);
	}
	return REASON_NONE;
}

static bool place_piece(const struct payload_row *row, const uint8_t *from, char *place)
{
	return row->seal ? row->seal->open(row->seal, from, place, row->each)
			 : !memory_move(place, (const char *)from, row->each);
}

uint32_t payload_scatter_row(const struct sge_list *list, struct sge_cursor *cursor,
			     uint64_t offset, const struct payload_row *row)
{
	const uint8_t *from = row->from;
	uint32_t piece, done = 0;
	char *place;

	if (!row->count)
		return 0;
	cursor_seek(list, cursor, offset);
	if (cursor_piece(list, cursor, row->count * row->each, IBV_ACCESS_LOCAL_WRITE, &place,
			 &piece))
		return 0;
	if (!place || piece < row->each)
		return !row->seal && !payload_scatter(list, cursor, offset, from, row->each);
	for (; done < piece / row->each && place_piece(row, from, place);
	     done++, place += row->each)
		from += row->stride;
	cursor_move(cursor, done * row->each);
	return done;
}

const char *payload_stretch(const struct sge_list *list, struct sge_cursor *cursor, uint64_t offset,
			    uint32_t length, uint32_t *piece)
{
	char *place;

	cursor_seek(list, cursor, offset);
	return cursor_piece(list, cursor, length, 0, &place, piece) ? NULL : place;
}

bool sge_part_next(const struct sge_list *list, struct sge_part *part, struct ibv_sge *piece)
{
	while (part->index < list->count && part->length) {
		const struct ibv_sge *sge = &list->sge[part->index++];
		uint64_t left;

		if (part->offset >= sge->length) {
			part->offset -= sge->length;
			continue;
		}
		left = sge->length - part->offset;
		left = left < part->length ? left : part->length;
		*piece = (struct ibv_sge){sge->addr + part->offset, (uint32_t)left, sge->lkey};
		part->length -= left;
		part->offset = 0;
		return true;
	}
	return false;
}

bool payload_find(const struct sge_list *list, unsigned int need, uint64_t offset, uint64_t length,
		  struct iovec *pieces, uint32_t *count)
{
	struct sge_part part = {.offset = offset, .length = length};
	struct ibv_sge piece;
	char *place;

	*count = 0;
	while (sge_part_next(list, &part, &piece)) {
		if (mr_resolve_local(list->adapter, list->pd, piece.lkey, piece.addr, piece.length,
				     need, &place) ||
		    !place)
			return false;
		pieces[(*count)++] = (struct iovec){place, piece.length};
	}
	return part.length == 0;
}

enum reason payload_check(const struct sge_list *list, unsigned int need)
{
	enum reason reason = REASON_NONE;
	char *place;

	for (uint32_t i = 0; i < list->count && !reason; i++)
		reason = mr_resolve_local(list->adapter, list->pd, list->sge[i].lkey,
					  list->sge[i].addr, list->sge[i].length, need, &place);
	return reason;
}
