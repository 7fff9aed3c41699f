/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table is written once for an operation and spread over the transports that have it.
 * Extensions stand in the order of 9.3: a transport's own (DETH, XRCETH) first, so the rest begins
 * at BASE: 12, or 16 over XRC.
 */
#include "wire/headers.h"
#include "wire/opcode.h"

#define BASE_RC	 BTH_BYTES
#define BASE_UC	 BTH_BYTES
#define BASE_XRC (BTH_BYTES + XRCETH_BYTES)

#define OWN_RC
#define OWN_UC
#define OWN_XRC .xrceth_at = BTH_BYTES,

/* The extensions of an operation, beginning at b. */
#define NO_EXT(b) .header_bytes = (b)
#define IMM(b)	  .immdt_at = (b), .header_bytes = (b) + IMMDT_BYTES
#define INV(b)	  .ieth_at = (b), .header_bytes = (b) + IETH_BYTES
#define RETH(b)	  .reth_at = (b), .header_bytes = (b) + RETH_BYTES
#define RETH_IMM(b)                                                                                \
	.reth_at = (b), .immdt_at = (b) + RETH_BYTES, .header_bytes = (b) + RETH_BYTES + IMMDT_BYTES
#define ATOMIC(b) .atomiceth_at = (b), .header_bytes = (b) + ATOMICETH_BYTES
#define FETH_RETH(b)                                                                               \
	.feth_at = (b), .reth_at = (b) + FETH_BYTES, .header_bytes = (b) + FETH_BYTES + RETH_BYTES
/* Responses carry no XRCETH. */
#define AETH .aeth_at = BTH_BYTES, .header_bytes = BTH_BYTES + AETH_BYTES
#define AETH_ATOMIC                                                                                \
	.aeth_at = BTH_BYTES, .atomicacketh_at = BTH_BYTES + AETH_BYTES,                           \
	.header_bytes = BTH_BYTES + AETH_BYTES + ATOMICACKETH_BYTES

#define SEND	   (OPF_SEND | OPF_REQUEST | OPF_PAYLOAD)
#define WRITE	   (OPF_WRITE | OPF_REQUEST | OPF_PAYLOAD)
#define READ_REPLY (OPF_READ_RESPONSE | OPF_RESPONSE | OPF_PAYLOAD)
#define FIRST	   (OPF_START | OPF_PAYLOAD_MTU)
#define MIDDLE	   (OPF_MIDDLE | OPF_PAYLOAD_MTU)
#define LAST	   OPF_END
#define ONLY	   OPF_ONLY

#define REQUEST(t, op, what, extensions)                                                           \
	[TRANSPORT_##t | OP_##                                                                     \
	    op] = {.name = #t " " #op, .flags = (what), OWN_##t extensions(BASE_##t)}
#define ENTRY(t, op, what, ...)                                                                    \
	[TRANSPORT_##t | OP_##op] = {.name = #t " " #op, .flags = (what), __VA_ARGS__}

/* SEND and WRITE: what RC, UC and XRC have. */
#define CONNECTED(t)                                                                               \
	REQUEST(t, SEND_FIRST, SEND | FIRST, NO_EXT),                                              \
	    REQUEST(t, SEND_MIDDLE, SEND | MIDDLE, NO_EXT),                                        \
	    REQUEST(t, SEND_LAST, SEND | LAST | OPF_RECV, NO_EXT),                                 \
	    REQUEST(t, SEND_LAST_IMM, SEND | LAST | OPF_RECV | OPF_IMM, IMM),                      \
	    REQUEST(t, SEND_ONLY, SEND | ONLY | OPF_RECV, NO_EXT),                                 \
	    REQUEST(t, SEND_ONLY_IMM, SEND | ONLY | OPF_RECV | OPF_IMM, IMM),                      \
	    REQUEST(t, WRITE_FIRST, WRITE | FIRST, RETH),                                          \
	    REQUEST(t, WRITE_MIDDLE, WRITE | MIDDLE, NO_EXT),                                      \
	    REQUEST(t, WRITE_LAST, WRITE | LAST, NO_EXT),                                          \
	    REQUEST(t, WRITE_LAST_IMM, WRITE | LAST | OPF_RECV | OPF_IMM, IMM),                    \
	    REQUEST(t, WRITE_ONLY, WRITE | ONLY, RETH),                                            \
	    REQUEST(t, WRITE_ONLY_IMM, WRITE | ONLY | OPF_RECV | OPF_IMM, RETH_IMM)

/* What is acknowledged: RC and XRC. */
#define RELIABLE(t)                                                                                \
	REQUEST(t, READ_REQUEST, OPF_READ_REQUEST | OPF_REQUEST | ONLY, RETH),                     \
	    ENTRY(t, READ_RESPONSE_FIRST, READ_REPLY | FIRST, AETH),                               \
	    ENTRY(t, READ_RESPONSE_MIDDLE, READ_REPLY | MIDDLE, NO_EXT(BTH_BYTES)),                \
	    ENTRY(t, READ_RESPONSE_LAST, READ_REPLY | LAST, AETH),                                 \
	    ENTRY(t, READ_RESPONSE_ONLY, READ_REPLY | ONLY, AETH),                                 \
	    ENTRY(t, ACKNOWLEDGE, OPF_ACK | OPF_RESPONSE | ONLY, AETH),                            \
	    ENTRY(t, ATOMIC_ACKNOWLEDGE, OPF_ATOMIC_ACK | OPF_RESPONSE | ONLY, AETH_ATOMIC),       \
	    REQUEST(t, COMPARE_SWAP, OPF_ATOMIC | OPF_REQUEST | ONLY, ATOMIC),                     \
	    REQUEST(t, FETCH_ADD, OPF_ATOMIC | OPF_REQUEST | ONLY, ATOMIC),                        \
	    REQUEST(t, SEND_LAST_INV, SEND | LAST | OPF_RECV | OPF_INVALIDATE, INV),               \
	    REQUEST(t, SEND_ONLY_INV, SEND | ONLY | OPF_RECV | OPF_INVALIDATE, INV),               \
	    REQUEST(t, FLUSH, OPF_FLUSH | OPF_REQUEST | ONLY, FETH_RETH),                          \
	    REQUEST(t, ATOMIC_WRITE, OPF_ATOMIC_WRITE | OPF_REQUEST | OPF_PAYLOAD | ONLY, RETH)

#define DATAGRAM .deth_at = BTH_BYTES

const struct opcode opcode_table[256] = {
    CONNECTED(RC),
    RELIABLE(RC),
    CONNECTED(UC),
    CONNECTED(XRC),
    RELIABLE(XRC),
    ENTRY(UD, SEND_ONLY, SEND | ONLY | OPF_RECV, DATAGRAM, .header_bytes = BTH_BYTES + DETH_BYTES),
    ENTRY(UD, SEND_ONLY_IMM, SEND | ONLY | OPF_RECV | OPF_IMM, DATAGRAM,
	  IMM(BTH_BYTES + DETH_BYTES)),
    [OPCODE_GAPS] = {.name = "GAPS",
		     .flags = OPF_GAPS | OPF_RESPONSE | OPF_PAYLOAD | OPF_ONLY,
		     AETH},
    [OPCODE_OFFER] = {.name = "OFFER",
		      .flags = OPF_OFFER | OPF_REQUEST | OPF_PAYLOAD | OPF_ONLY,
		      NO_EXT(BTH_BYTES)},
    [OPCODE_CNP] = {.name = "CNP",
		    .flags = OPF_CNP | OPF_PAYLOAD | OPF_ONLY,
		    .header_bytes = BTH_BYTES},
};

const char *opcode_name(uint8_t opcode)
{
	const char *name = opcode_table[opcode].name;

	return name ? name : "unknown opcode";
}
