/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The detour: 64 KiB at a time, gathered from the program's pieces and handed on in one, or fetched
 * in one and spread over them.
 */
#include <stdlib.h>

#include "device/memory.h"
#include "link/detour.h"

enum {
	PAGE = 4096,
	BEHIND = 16,  /* from here on it is fast again */
	LEAST = 1024, /* less is not worth a copy more */
};

struct detour {
	char room[DETOUR_BYTES + 2 * PAGE];
};

struct detour *detour_open(void)
{
	return malloc(sizeof(struct detour)); /* nothing of it is touched before it is used */
}

void detour_close(struct detour *detour)
{
	free(detour);
}

static bool is_behind(uint64_t to, uint64_t from)
{
	uint64_t by = (to - from) % PAGE;

	return by && by < BEHIND;
}

bool detour_pays(const struct reach_op *op, uint64_t place)
{
	for (uint32_t i = 0; i < op->count; i++) {
		uint64_t here = (uintptr_t)op->pieces[i].iov_base;
		bool is_slow = op->is_read ? is_behind(here, place) : is_behind(place, here);

		if (is_slow && op->pieces[i].iov_len >= LEAST)
			return true;
		place += op->pieces[i].iov_len;
	}
	return false;
}

/* ---- between the pieces and the room ---- */

/* Where in the pieces the copy is. */
struct cursor {
	const struct iovec *piece;
	size_t into;
};

static bool move(struct cursor *cursor, char *room, size_t bytes, bool is_read)
{
	while (bytes) {
		char *here = (char *)cursor->piece->iov_base + cursor->into;
		size_t left = cursor->piece->iov_len - cursor->into;
		size_t length = bytes < left ? bytes : left;

		if (is_read ? memory_move(here, room, length) : memory_load(room, here, length))
			return false;
		room += length;
		bytes -= length;
		cursor->into += length;
		if (cursor->into == cursor->piece->iov_len)
			*cursor = (struct cursor){cursor->piece + 1, 0};
	}
	return true;
}

bool detour_copy(struct detour *detour, const struct reach_op *op, uint64_t place, detour_leg *leg,
		 void *context)
{
	char *start = detour->room + PAGE - (uintptr_t)detour->room % PAGE + place % PAGE;
	struct cursor cursor = {op->pieces, 0};
	struct iovec piece = {.iov_base = start};
	struct reach_op part = *op;

	part.pieces = &piece;
	part.count = 1;
	for (uint64_t done = 0; done < op->bytes; done += part.bytes) {
		part.offset = op->offset + done;
		part.bytes = op->bytes - done < DETOUR_BYTES ? op->bytes - done : DETOUR_BYTES;
		piece.iov_len = part.bytes;
		if (!op->is_read && !move(&cursor, start, part.bytes, false))
			return false;
		if (!leg(context, &part, place + done))
			return false;
		if (op->is_read && !move(&cursor, start, part.bytes, true))
			return false;
	}
	return true;
}
