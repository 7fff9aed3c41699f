/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The syndrome of an AETH (9.7.5.1.1): two bits of kind, five of value. An ACK carries a credit
 * count (of receive work requests, coded), an RNR NAK a timer code, a NAK the reason.
 */
#ifndef WIRE_AETH_H
#define WIRE_AETH_H

#include <stdint.h>

enum {
	AETH_KIND_MASK = 0xe0,
	AETH_VALUE_MASK = 0x1f,

	AETH_ACK = 0x00,
	AETH_RNR_NAK = 0x20,
	AETH_NAK = 0x60,

	AETH_CREDIT_NONE = 0x1f, /* an ACK that says nothing about credits */

	NAK_PSN_SEQUENCE = 0,
	NAK_INVALID_REQUEST = 1,
	NAK_REMOTE_ACCESS = 2,
	NAK_REMOTE_OPERATIONAL = 3,
	NAK_INVALID_RD_REQUEST = 4,
	NAK_DECLINED = 0x1f, /* our own, of reserved codes: an OFFER is to come as packets */
};

static inline uint8_t aeth_kind(uint8_t syndrome)
{
	return syndrome & AETH_KIND_MASK;
}

static inline uint8_t aeth_value(uint8_t syndrome)
{
	return syndrome & AETH_VALUE_MASK;
}

/* Credit codes, Table 45: 0 1 2 3 4 6 8 12 16 24 ... 32768; AETH_CREDIT_NONE is not a count. */
static inline uint32_t aeth_credits(uint8_t code)
{
	if (code < 4)
		return code;
	return (code & 1 ? 3u : 2u) << (code / 2 - 1);
}

/* The greatest code whose count is at most `credits`. */
static inline uint8_t aeth_credit_code(uint32_t credits)
{
	uint8_t code = 0;

	while (code + 1 < AETH_CREDIT_NONE && aeth_credits(code + 1) <= credits)
		code++;
	return code;
}

#endif
