/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A whole packet, taken apart and put together. Everything that comes in is hostile: wire_parse()
 * checks each length before it reads and says what is malformed. What the packet means for a QP (is
 * the payload one path MTU? is the opcode of the QP's transport? does the PSN fit?) is the
 * transport's to check.
 */
#ifndef WIRE_PARSE_H
#define WIRE_PARSE_H

#include <stddef.h>
#include "wire/headers.h"
#include "wire/opcode.h"

/* Headers that the opcode doesn't have are zero. */
struct wire_packet {
	const struct opcode *op;
	const uint8_t *payload;	 /* in the parsed bytes; never NULL after a parse */
	uint32_t payload_length; /* without the pad */
	struct bth bth;
	struct deth deth;
	struct reth reth;
	struct atomiceth atomic;
	struct aeth aeth;
	struct feth feth;
	uint64_t atomic_ack;
	uint32_t imm;
	uint32_t ieth;
	uint32_t xrceth;
};

enum parse_error {
	PARSE_OK = 0,
	PARSE_TOO_SHORT = -1,	/* no room for the headers that the opcode has */
	PARSE_BAD_VERSION = -2, /* TVer is not 0 */
	PARSE_UNKNOWN_OPCODE = -3,
	PARSE_UNALIGNED = -4, /* payload and pad are not a multiple of four bytes */
	PARSE_BAD_PAD = -5,   /* more pad than there are bytes after the headers */
	PARSE_UNEXPECTED_PAYLOAD =
	    -6, /* bytes behind the headers of an opcode that has no payload */
	PARSE_BAD_PAYLOAD_LENGTH =
	    -7, /* not the one length that the opcode allows: ATOMIC WRITE, CNP */
};

/*
 * Take apart `length` bytes from the BTH to the end of the pad (the ICRC is off already). 0 or an
 * enum parse_error; the BTH is valid unless the error is PARSE_TOO_SHORT with less than BTH_BYTES
 * given, the rest only when it was 0.
 */
int wire_parse(struct wire_packet *packet, const uint8_t *bytes, size_t length);

/*
 * Write the headers of packet->bth.opcode, which must be in the table; the pad count is set from
 * payload_length. Returns the number of bytes, at most HEADER_BYTES_MAX. The payload and wire_pad()
 * zero bytes follow.
 */
size_t wire_pack(uint8_t *bytes, const struct wire_packet *packet);

static inline uint32_t wire_pad(uint32_t payload_length)
{
	return -payload_length & 3;
}

const char *parse_error_name(int error);

#endif
