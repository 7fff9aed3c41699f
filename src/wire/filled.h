/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FILLED: a packet between ends of ours that is made as long as those before it. One segmented send
 * takes packets of one length, and the first packet of a WRITE or READ response is a header longer
 * than those behind it. The opcode is of those that Table 38 leaves to manufacturers, and goes only
 * to who has shown to be ours (transport/recovery.c). Behind the pad stand
 *
 *	zeros; the packet's own opcode; how many bytes were filled in, these two included
 *
 * and then the ICRC, of all.
 */
#ifndef WIRE_FILLED_H
#define WIRE_FILLED_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "wire/headers.h"
#include "wire/opcode.h"

enum { FILL_MAX = 20 }; /* a RETH and an immediate; a multiple of 4, as each filling is */

/* What stands behind the pad of a packet with that opcode. */
static inline void fill_make(uint8_t fill[FILL_MAX], uint8_t opcode, uint32_t count)
{
	memset(fill, 0, FILL_MAX);
	fill[count - 2] = opcode;
	fill[count - 1] = count;
}

/* Behind `length` bytes, BTH to pad. */
static inline void fill_put(const uint8_t fill[FILL_MAX], uint32_t count, uint8_t *packet,
			    uint32_t length)
{
	for (uint32_t i = 0; i < count; i += 4)
		memcpy(packet + length + i, fill + i, 4);
	packet[0] = OPCODE_FILLED;
}

/* From `length` bytes to `filled`. */
static inline void packet_fill(uint8_t *packet, uint32_t length, uint32_t filled)
{
	uint8_t fill[FILL_MAX];

	fill_make(fill, packet[0], filled - length);
	fill_put(fill, filled - length, packet, length);
}

/* The packet as it was, and its length. False if nobody fills so. */
static inline bool packet_empty(uint8_t *packet, uint32_t *length)
{
	uint32_t fill = packet[*length - 1];

	if (fill == 0 || fill > FILL_MAX || fill % 4 || *length < BTH_BYTES + fill)
		return false;
	packet[0] = packet[*length - 2];
	*length -= fill;
	return true;
}

#endif
