/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames come from anywhere: each length is checked before it is believed.
 */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/frame.h"

enum {
	IPV4_MIN = 20,
	IPV6_SIZE = 40,
	TCP_MIN = 20,
	UDP_SIZE = 8,
	VXLAN_SIZE = 8,
	GRE_MIN = 4,
	ESP_SIZE = 8,
	FRAGMENT_OFFSET = 0x1fff,
};

static bool has(const struct frame *frame, const uint8_t *at, size_t size)
{
	return size <= frame->length - (size_t)(at - frame->bytes);
}

static void parse_transport(struct frame *frame, const uint8_t *at)
{
	switch (frame->protocol) {
	case FRAME_TCP:
		if (has(frame, at, TCP_MIN))
			frame->tcp = at;
		break;
	case FRAME_UDP:
		if (!has(frame, at, UDP_SIZE))
			break;
		frame->udp = at;
		if (get_be16(at + 2) == FRAME_PORT_VXLAN && has(frame, at + UDP_SIZE, VXLAN_SIZE))
			frame->vxlan = at + UDP_SIZE;
		break;
	case FRAME_GRE:
		if (has(frame, at, GRE_MIN))
			frame->gre = at;
		break;
	case FRAME_ESP:
		if (has(frame, at, ESP_SIZE))
			frame->esp = at;
		break;
	default:
		break;
	}
}

static void parse_ipv4(struct frame *frame, const uint8_t *at)
{
	size_t size;

	if (!has(frame, at, IPV4_MIN) || at[0] >> 4 != 4)
		return;
	size = (size_t)(at[0] & 15) * 4;
	if (size < IPV4_MIN || !has(frame, at, size))
		return;
	frame->ipv4 = at;
	if (get_be16(at + 6) & FRAGMENT_OFFSET)
		return;
	frame->protocol = at[9];
	parse_transport(frame, at + size);
}

static void parse_ipv6(struct frame *frame, const uint8_t *at)
{
	if (!has(frame, at, IPV6_SIZE) || at[0] >> 4 != 6)
		return;
	frame->ipv6 = at;
	frame->protocol = at[6];
	parse_transport(frame, at + IPV6_SIZE);
}

int frame_parse(struct frame *frame, const uint8_t *bytes, size_t length)
{
	const uint8_t *at = bytes + 2 * FRAME_MAC;

	memset(frame, 0, sizeof(*frame));
	if (length < FRAME_MIN)
		return -1;
	frame->bytes = bytes;
	frame->length = length;
	frame->type = get_be16(at);
	while ((frame->type == FRAME_TYPE_VLAN || frame->type == FRAME_TYPE_QINQ) &&
	       has(frame, at, FRAME_VLAN + 2)) {
		frame->vlan_tag = get_be16(at + 2);
		at += FRAME_VLAN;
		frame->type = get_be16(at);
	}
	if (frame->type == FRAME_TYPE_IPV4)
		parse_ipv4(frame, at + 2);
	else if (frame->type == FRAME_TYPE_IPV6)
		parse_ipv6(frame, at + 2);
	return 0;
}

/* ---- the hash ---- */

struct hash {
	const uint8_t *key;
	uint32_t window; /* the key's 32 bits from `place` on */
	uint32_t place;	 /* bits of the input so far */
	uint32_t value;
};

static void hash_add(struct hash *hash, const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length * 8; i++, hash->place++) {
		uint32_t next = hash->place + 32;

		if (bytes[i / 8] & 0x80 >> i % 8)
			hash->value ^= hash->window;
		hash->window <<= 1;
		if (next < TOEPLITZ_KEY * 8)
			hash->window |= hash->key[next / 8] >> (7 - next % 8) & 1;
	}
}

uint32_t frame_hash(const struct frame *frame, const uint8_t key[TOEPLITZ_KEY], uint64_t fields)
{
	struct hash hash = {.key = key, .window = get_be32(key)};

	if (frame->ipv4 && fields & IBV_RX_HASH_SRC_IPV4)
		hash_add(&hash, frame->ipv4 + 12, 4);
	if (frame->ipv4 && fields & IBV_RX_HASH_DST_IPV4)
		hash_add(&hash, frame->ipv4 + 16, 4);
	if (frame->ipv6 && fields & IBV_RX_HASH_SRC_IPV6)
		hash_add(&hash, frame->ipv6 + 8, 16);
	if (frame->ipv6 && fields & IBV_RX_HASH_DST_IPV6)
		hash_add(&hash, frame->ipv6 + 24, 16);
	if (frame->tcp && fields & IBV_RX_HASH_SRC_PORT_TCP)
		hash_add(&hash, frame->tcp, 2);
	if (frame->tcp && fields & IBV_RX_HASH_DST_PORT_TCP)
		hash_add(&hash, frame->tcp + 2, 2);
	if (frame->udp && fields & IBV_RX_HASH_SRC_PORT_UDP)
		hash_add(&hash, frame->udp, 2);
	if (frame->udp && fields & IBV_RX_HASH_DST_PORT_UDP)
		hash_add(&hash, frame->udp + 2, 2);
	return hash.value;
}
