/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opcodes of the base transport header: 3 bits of transport, 5 of operation. Table 38 of the
 * specification. Programs use the joined names, IBV_OPCODE_RC_SEND_ONLY and so on.
 */
#ifndef INFINIBAND_OPCODE_H
#define INFINIBAND_OPCODE_H

/* Defines the joined name of a transport and an operation. */
#define IBV_OPCODE(transport, op)                                                                  \
	IBV_OPCODE_##transport##_##op = IBV_OPCODE_##transport + IBV_OPCODE_##op

enum {
	IBV_OPCODE_RC = 0x00,
	IBV_OPCODE_UC = 0x20,
	IBV_OPCODE_RD = 0x40,
	IBV_OPCODE_UD = 0x60,

	IBV_OPCODE_SEND_FIRST = 0x00,
	IBV_OPCODE_SEND_MIDDLE = 0x01,
	IBV_OPCODE_SEND_LAST = 0x02,
	IBV_OPCODE_SEND_LAST_WITH_IMMEDIATE = 0x03,
	IBV_OPCODE_SEND_ONLY = 0x04,
	IBV_OPCODE_SEND_ONLY_WITH_IMMEDIATE = 0x05,
	IBV_OPCODE_RDMA_WRITE_FIRST = 0x06,
	IBV_OPCODE_RDMA_WRITE_MIDDLE = 0x07,
	IBV_OPCODE_RDMA_WRITE_LAST = 0x08,
	IBV_OPCODE_RDMA_WRITE_LAST_WITH_IMMEDIATE = 0x09,
	IBV_OPCODE_RDMA_WRITE_ONLY = 0x0a,
	IBV_OPCODE_RDMA_WRITE_ONLY_WITH_IMMEDIATE = 0x0b,
	IBV_OPCODE_RDMA_READ_REQUEST = 0x0c,
	IBV_OPCODE_RDMA_READ_RESPONSE_FIRST = 0x0d,
	IBV_OPCODE_RDMA_READ_RESPONSE_MIDDLE = 0x0e,
	IBV_OPCODE_RDMA_READ_RESPONSE_LAST = 0x0f,
	IBV_OPCODE_RDMA_READ_RESPONSE_ONLY = 0x10,
	IBV_OPCODE_ACKNOWLEDGE = 0x11,
	IBV_OPCODE_ATOMIC_ACKNOWLEDGE = 0x12,
	IBV_OPCODE_COMPARE_SWAP = 0x13,
	IBV_OPCODE_FETCH_ADD = 0x14,

/* What all three transports with streams of packets can do. */
#define IBV_OPCODE_STREAM(transport)                                                               \
	IBV_OPCODE(transport, SEND_FIRST), IBV_OPCODE(transport, SEND_MIDDLE),                     \
	    IBV_OPCODE(transport, SEND_LAST), IBV_OPCODE(transport, SEND_LAST_WITH_IMMEDIATE),     \
	    IBV_OPCODE(transport, SEND_ONLY), IBV_OPCODE(transport, SEND_ONLY_WITH_IMMEDIATE),     \
	    IBV_OPCODE(transport, RDMA_WRITE_FIRST), IBV_OPCODE(transport, RDMA_WRITE_MIDDLE),     \
	    IBV_OPCODE(transport, RDMA_WRITE_LAST),                                                \
	    IBV_OPCODE(transport, RDMA_WRITE_LAST_WITH_IMMEDIATE),                                 \
	    IBV_OPCODE(transport, RDMA_WRITE_ONLY),                                                \
	    IBV_OPCODE(transport, RDMA_WRITE_ONLY_WITH_IMMEDIATE)

/* What the reliable ones can do beyond. */
#define IBV_OPCODE_RELIABLE(transport)                                                             \
	IBV_OPCODE(transport, RDMA_READ_REQUEST), IBV_OPCODE(transport, RDMA_READ_RESPONSE_FIRST), \
	    IBV_OPCODE(transport, RDMA_READ_RESPONSE_MIDDLE),                                      \
	    IBV_OPCODE(transport, RDMA_READ_RESPONSE_LAST),                                        \
	    IBV_OPCODE(transport, RDMA_READ_RESPONSE_ONLY), IBV_OPCODE(transport, ACKNOWLEDGE),    \
	    IBV_OPCODE(transport, ATOMIC_ACKNOWLEDGE), IBV_OPCODE(transport, COMPARE_SWAP),        \
	    IBV_OPCODE(transport, FETCH_ADD)

	IBV_OPCODE_STREAM(RC),
	IBV_OPCODE_RELIABLE(RC),
	IBV_OPCODE_STREAM(UC),
	IBV_OPCODE_STREAM(RD),
	IBV_OPCODE_RELIABLE(RD),
	IBV_OPCODE(UD, SEND_ONLY),
	IBV_OPCODE(UD, SEND_ONLY_WITH_IMMEDIATE)

#undef IBV_OPCODE_STREAM
#undef IBV_OPCODE_RELIABLE
};

#endif
