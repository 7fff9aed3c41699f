/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GAPS: a responder of ours tells a requester of ours which requests it holds behind a gap. Its
 * opcode is of those that Table 38 leaves to manufacturers, and it goes only to who has shown to be
 * ours (transport/recovery.c). BTH (PSN: the first that is missing), an AETH as of a PSN sequence
 * NAK, then these bytes:
 *
 *	version 1, 3 reserved; bit i of the map, lowest bit of its bytes first: PSN + i is held
 */
#ifndef WIRE_GAPS_H
#define WIRE_GAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
	GAPS_VERSION = 1,
	GAPS_HEAD_BYTES = 4,
	GAPS_MAP_BYTES = 512, /* at most; a multiple of 4 */
	GAPS_PSNS = 8 * GAPS_MAP_BYTES,
};

/* Payload for a map of so many PSNs. */
static inline uint32_t gaps_size(uint32_t psns)
{
	return GAPS_HEAD_BYTES + (psns + 31) / 32 * 4;
}

static inline void gaps_init(uint8_t *payload, uint32_t size)
{
	memset(payload, 0, size);
	payload[0] = GAPS_VERSION;
}

static inline void gaps_set(uint8_t *payload, uint32_t i)
{
	payload[GAPS_HEAD_BYTES + i / 8] |= 1 << i % 8;
}

static inline bool gaps_get(const uint8_t *payload, uint32_t i)
{
	return payload[GAPS_HEAD_BYTES + i / 8] >> i % 8 & 1;
}

/* PSNs in the map of a payload of `size` bytes; 0: not of a kind that is known here. */
static inline uint32_t gaps_psns(const uint8_t *payload, uint32_t size)
{
	if (size < GAPS_HEAD_BYTES || size > GAPS_HEAD_BYTES + GAPS_MAP_BYTES ||
	    payload[0] != GAPS_VERSION)
		return 0;
	return 8 * (size - GAPS_HEAD_BYTES);
}

#endif
