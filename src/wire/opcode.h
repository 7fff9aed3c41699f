/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The opcode table: all that follows from the first byte of a BTH (9.2.1, Table 38; FLUSH and
 * ATOMIC WRITE from the memory placement annex A19; XRC from annex A14). An opcode is a transport
 * (high three bits) and an operation (low five), so TRANSPORT_UC | OP_SEND_FIRST is one; what no
 * transport defines has no name in the table.
 */
#ifndef WIRE_OPCODE_H
#define WIRE_OPCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TRANSPORT_MASK = 0xe0,
	TRANSPORT_RC = 0x00,
	TRANSPORT_UC = 0x20,
	TRANSPORT_RD = 0x40, /* reliable datagram: nobody has it, its opcodes are refused */
	TRANSPORT_UD = 0x60,
	TRANSPORT_CNP = 0x80,
	TRANSPORT_XRC = 0xa0,
	TRANSPORT_MAKER = 0xc0, /* 0xc0 to 0xff are each manufacturer's own */
};

enum {
	OP_MASK = 0x1f,
	OP_SEND_FIRST = 0x00,
	OP_SEND_MIDDLE = 0x01,
	OP_SEND_LAST = 0x02,
	OP_SEND_LAST_IMM = 0x03,
	OP_SEND_ONLY = 0x04,
	OP_SEND_ONLY_IMM = 0x05,
	OP_WRITE_FIRST = 0x06,
	OP_WRITE_MIDDLE = 0x07,
	OP_WRITE_LAST = 0x08,
	OP_WRITE_LAST_IMM = 0x09,
	OP_WRITE_ONLY = 0x0a,
	OP_WRITE_ONLY_IMM = 0x0b,
	OP_READ_REQUEST = 0x0c,
	OP_READ_RESPONSE_FIRST = 0x0d,
	OP_READ_RESPONSE_MIDDLE = 0x0e,
	OP_READ_RESPONSE_LAST = 0x0f,
	OP_READ_RESPONSE_ONLY = 0x10,
	OP_ACKNOWLEDGE = 0x11,
	OP_ATOMIC_ACKNOWLEDGE = 0x12,
	OP_COMPARE_SWAP = 0x13,
	OP_FETCH_ADD = 0x14,
	OP_SEND_LAST_INV = 0x16,
	OP_SEND_ONLY_INV = 0x17,
	OP_FLUSH = 0x1c,
	OP_ATOMIC_WRITE = 0x1d,

	OPCODE_CNP = TRANSPORT_CNP | 0x01,    /* congestion notification, A17.9.4 */
	OPCODE_GAPS = TRANSPORT_MAKER | 0x11, /* our own: what came in behind a gap (wire/gaps.h) */
	OPCODE_ACK_AND = TRANSPORT_MAKER | 0x12, /* our own: an ACK, and a packet behind its AETH */
	OPCODE_FILLED = TRANSPORT_MAKER | 0x13,	 /* our own: as long as others (wire/filled.h) */
	OPCODE_OFFER = TRANSPORT_MAKER | 0x14,	 /* our own: where payload lies (wire/offer.h) */
};

/* What an operation is. */
enum {
	/* the kind: one of these */
	OPF_SEND = 1 << 0,
	OPF_WRITE = 1 << 1,
	OPF_READ_REQUEST = 1 << 2,
	OPF_READ_RESPONSE = 1 << 3,
	OPF_ACK = 1 << 4,    /* ACKNOWLEDGE: an ACK or a NAK by its AETH */
	OPF_ATOMIC = 1 << 5, /* compare and swap, fetch and add */
	OPF_ATOMIC_ACK = 1 << 6,
	OPF_FLUSH = 1 << 7,
	OPF_ATOMIC_WRITE = 1 << 8,
	OPF_CNP = 1 << 9,
	OPF_GAPS = 1 << 20,
	OPF_OFFER = 1 << 21,
	/* the side that gets it */
	OPF_REQUEST = 1 << 10,	/* for the responder */
	OPF_RESPONSE = 1 << 11, /* for the requester */
	/* the place in a message */
	OPF_START = 1 << 12,
	OPF_MIDDLE = 1 << 13, /* neither first nor last */
	OPF_END = 1 << 14,
	OPF_ONLY = OPF_START | OPF_END,
	/* what it brings */
	OPF_IMM = 1 << 15,
	OPF_INVALIDATE = 1 << 16,
	OPF_PAYLOAD = 1 << 17,	   /* payload is allowed, of zero bytes too */
	OPF_PAYLOAD_MTU = 1 << 18, /* exactly one path MTU of it: first and middle packets */
	OPF_RECV =
	    1 << 19, /* takes a receive work request when it ends: SEND, WRITE with immediate */
};

/* A header that a packet doesn't have is at offset 0, where the BTH is. */
struct opcode {
	const char *name;     /* NULL: no such opcode */
	uint32_t flags;	      /* OPF_ */
	uint8_t header_bytes; /* BTH and extensions: where the payload begins */
	uint8_t deth_at;
	uint8_t reth_at;
	uint8_t atomiceth_at;
	uint8_t aeth_at;
	uint8_t atomicacketh_at;
	uint8_t immdt_at;
	uint8_t ieth_at;
	uint8_t xrceth_at;
	uint8_t feth_at;
};

extern const struct opcode opcode_table[256];

static inline const struct opcode *opcode_get(uint8_t opcode)
{
	return &opcode_table[opcode];
}

static inline bool is_opcode(uint8_t opcode)
{
	return opcode_table[opcode].name != NULL;
}

static inline uint8_t opcode_transport(uint8_t opcode)
{
	return opcode & TRANSPORT_MASK;
}

static inline uint8_t opcode_operation(uint8_t opcode)
{
	return opcode & OP_MASK;
}

/* "RC SEND_FIRST" and so on, "unknown opcode" for the rest. */
const char *opcode_name(uint8_t opcode);

/* Of RC: nothing but payload, nobody waits for it, and most packets of a stream are such. */
static inline bool opcode_is_middle(uint8_t opcode)
{
	return opcode == (TRANSPORT_RC | OP_SEND_MIDDLE) ||
	       opcode == (TRANSPORT_RC | OP_WRITE_MIDDLE) ||
	       opcode == (TRANSPORT_RC | OP_READ_RESPONSE_MIDDLE);
}

/* Nobody may look at what it brings before the message is over (struct seal). */
static inline bool opcode_may_be_sealed(uint8_t opcode)
{
	return opcode == (TRANSPORT_RC | OP_SEND_MIDDLE) ||
	       opcode == (TRANSPORT_RC | OP_READ_RESPONSE_MIDDLE);
}

/* What mostly comes many in a row, alike but for PSN and payload: such, and short messages. */
static inline bool opcode_comes_in_rows(uint8_t opcode)
{
	return opcode_is_middle(opcode) || opcode == (TRANSPORT_RC | OP_SEND_ONLY);
}

#endif
