/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two coded times of the protocol, in nanoseconds: the RNR NAK timer (9.7.5.2.8, Table 47) and
 * the local ACK timeout (9.7.6.1.3).
 */
#ifndef WIRE_TIMERS_H
#define WIRE_TIMERS_H

#include <stdint.h>

/* Code 0 is the longest one; only the low five bits count. */
static inline uint64_t rnr_timer_ns(uint8_t code)
{
	static const uint16_t ten_us[32] = {
	    0,	  1,	2,    3,    4,	  6,	 8,	12,    16,    24,    32,
	    48,	  64,	96,   128,  192,  256,	 384,	512,   768,   1024,  1536,
	    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};
	uint32_t units = code & 31 ? ten_us[code & 31] : 65536;

	return units * 10000ull;
}

/* 0 means: no timeout. The code has five bits. */
static inline uint64_t ack_timeout_ns(uint8_t code)
{
	return code & 31 ? 4096ull << (code & 31) : 0;
}

#endif
