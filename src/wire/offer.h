/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * OFFER: packets of a SEND whose payload stays where it is, as its receiver, a process of the same
 * host, can fetch it there. It stands for as many of them as its bytes would make, from its PSN on.
 * The opcode is of those that Table 38 leaves to manufacturers, and goes only to who has shown to
 * know it (transport/recovery.h). BTH (AckReq; the solicited event of the message), then
 *
 *	version 1; OFFER_ flags; how many pieces, 16 bits; the immediate
 *
 * and the pieces, each as an RETH. Who does not want it so answers a NAK of code NAK_DECLINED.
 */
#ifndef WIRE_OFFER_H
#define WIRE_OFFER_H

#include "wire/headers.h"

enum {
	OFFER_VERSION = 1,
	OFFER_HEAD_BYTES = 8,

	OFFER_STARTS = 1, /* flags: the message, */
	OFFER_ENDS = 2,
	OFFER_HAS_IMM = 4, /* where it ends */
};

struct offer_head {
	uint8_t flags;
	uint16_t pieces;
	uint32_t imm;
};

static inline uint32_t offer_size(uint32_t pieces)
{
	return OFFER_HEAD_BYTES + pieces * RETH_BYTES;
}

static inline void offer_pack(uint8_t *p, const struct offer_head *head)
{
	p[0] = OFFER_VERSION;
	p[1] = head->flags;
	put_be16(p + 2, head->pieces);
	put_be32(p + 4, head->imm);
}

/* Of a payload of `size` bytes. False: of no kind that is known here. */
static inline bool offer_unpack(struct offer_head *head, const uint8_t *p, uint32_t size)
{
	if (size < OFFER_HEAD_BYTES || p[0] != OFFER_VERSION)
		return false;
	head->flags = p[1];
	head->pieces = get_be16(p + 2);
	head->imm = get_be32(p + 4);
	return size == offer_size(head->pieces);
}

#endif
