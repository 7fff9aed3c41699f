/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path MTU: the payload of one packet, as a code (1 to 5, the values of enum ibv_mtu) and in bytes
 * (256 to 4096).
 */
#ifndef WIRE_MTU_H
#define WIRE_MTU_H

#include <stdbool.h>
#include <stdint.h>

enum { MTU_CODE_MIN = 1, MTU_CODE_MAX = 5, MTU_BYTES_MIN = 256, MTU_BYTES_MAX = 4096 };

static inline bool is_mtu_code(int code)
{
	return code >= MTU_CODE_MIN && code <= MTU_CODE_MAX;
}

/* The code must be a valid one. */
static inline uint32_t mtu_bytes(int code)
{
	return 128u << code;
}

/* The greatest code whose payload fits into `bytes`, 0 if none does. */
static inline int mtu_code(uint32_t bytes)
{
	int code = 0;

	while (code < MTU_CODE_MAX && mtu_bytes(code + 1) <= bytes)
		code++;
	return code;
}

/*
 * So much longer than its payload a packet may be that has an ACK before it (OPCODE_ACK_AND): BTH
 * 12, RETH 16, immediate 4, ICRC 4.
 */
enum { MTU_CARRIER = 12 + 16 + 4 + 4 };

/*
 * The code for an interface MTU: what is left beside the longest that can stand around a payload:
 * IPv6 40, UDP 8, BTH and AETH of such an ACK, and the packet. (XRCETH has room in that: no ACK
 * goes before it.) 1500 gives 1024, 9000 gives 4096.
 */
enum { MTU_OVERHEAD = 40 + 8 + 12 + 4 + MTU_CARRIER };

static inline int mtu_code_of_interface(uint32_t interface_mtu)
{
	return interface_mtu > MTU_OVERHEAD ? mtu_code(interface_mtu - MTU_OVERHEAD) : 0;
}

#endif
