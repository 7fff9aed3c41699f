/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ethernet frames, as raw packet QPs send and receive them: where each header is, as far as it is
 * there whole; and the hash that spreads them over receive queues.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

enum {
	FRAME_MIN = 14, /* two addresses and a type */
	FRAME_MAC = 6,
	FRAME_VLAN = 4,
	FRAME_TYPE_IPV4 = 0x0800,
	FRAME_TYPE_IPV6 = 0x86dd,
	FRAME_TYPE_VLAN = 0x8100,
	FRAME_TYPE_QINQ = 0x88a8,
	FRAME_TCP = 6,
	FRAME_UDP = 17,
	FRAME_GRE = 47,
	FRAME_ESP = 50,
	FRAME_PORT_VXLAN = 4789,
	TOEPLITZ_KEY = 40,
};

/* NULL for a header that the frame does not have. */
struct frame {
	const uint8_t *bytes;
	size_t length;
	uint16_t vlan_tag; /* 0 without one */
	uint16_t type;	   /* behind the last VLAN tag */
	const uint8_t *ipv4, *ipv6;
	uint8_t protocol; /* of IP; 0: none, or a fragment that is not the first */
	const uint8_t *tcp, *udp, *vxlan, *gre, *esp;
};

/* 0, or -1 if it is shorter than an Ethernet header. */
int frame_parse(struct frame *frame, const uint8_t *bytes, size_t length);

/*
 * The Toeplitz hash over what `fields` (IBV_RX_HASH_*) selects and the frame has, in the order
 * source and destination address, source and destination port.
 */
uint32_t frame_hash(const struct frame *frame, const uint8_t key[TOEPLITZ_KEY], uint64_t fields);

#endif
