/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCEv2 packets recorded between two kernels (tests/data/rxe-wire.pcap.gz): rc, uc, ud, srq, send,
 * write, read, atomic and CM, IPv4 and IPv6. A reader of the classic pcap format, so that building
 * the tests needs no further library.
 */
#ifndef TESTS_RECORDED_H
#define TESTS_RECORDED_H

#include <stdio.h>
#include <stdlib.h>
#include "wire/icrc.h"

enum {
	RECORDED_PACKETS = 6777,
	RECORDED_BYTES_MAX = 16384,
	PCAP_FILE_HEADER = 24,
	PCAP_RECORD_HEADER = 16,
	ETHERNET_BYTES = 14,
};

struct recorded {
	const uint8_t *bth; /* the UDP payload */
	size_t length;	    /* with the ICRC */
	const uint8_t *ip;
	bool is_ipv4;
	uint16_t ipv4_id;
	struct icrc_flow flow;
};

/* Whether the frame is a RoCEv2 packet, and if so where its parts are. */
static inline bool recorded_find(struct recorded *r, const uint8_t *frame, size_t length)
{
	const uint8_t *ip = frame + ETHERNET_BYTES, *udp;
	uint16_t type = get_be16(frame + 12);

	if (length < ETHERNET_BYTES + 28 || (type != 0x0800 && type != 0x86dd))
		return false;
	r->is_ipv4 = type == 0x0800;
	udp = ip + (r->is_ipv4 ? 20 : 40);
	if (ip[r->is_ipv4 ? 9 : 6] != 17 || udp + 8 > frame + length ||
	    get_be16(udp + 2) != ROCE_PORT)
		return false;
	r->ip = ip;
	r->bth = udp + 8;
	r->length = get_be16(udp + 4) - 8;
	if (r->bth + r->length > frame + length)
		return false;
	if (r->is_ipv4) {
		r->ipv4_id = get_be16(ip + 4);
		icrc_flow_ipv4(&r->flow, ip + 12, ip + 16, get_be16(udp), ROCE_PORT);
	} else {
		r->ipv4_id = 0;
		icrc_flow_ipv6(&r->flow, ip + 8, ip + 24, get_be16(udp), ROCE_PORT);
	}
	return true;
}

static inline void recorded_fail(const char *what)
{
	fprintf(stderr, "tests/data/rxe-wire.pcap.gz: %s\n", what);
	abort();
}

/* Call `see` with each recorded packet. Returns how many there were. */
static inline int recorded_each(void (*see)(const struct recorded *, void *), void *context)
{
	static uint8_t frame[RECORDED_BYTES_MAX];
	FILE *file = popen("gzip -dc tests/data/rxe-wire.pcap.gz", "r");
	uint8_t header[PCAP_FILE_HEADER];
	struct recorded r;
	int count = 0;

	if (!file || fread(header, PCAP_FILE_HEADER, 1, file) != 1 ||
	    get_le32(header) != 0xa1b2c3d4 || get_le32(header + 20) != 1)
		recorded_fail("not a little-endian pcap file of Ethernet frames");
	while (fread(header, PCAP_RECORD_HEADER, 1, file) == 1) {
		size_t length = get_le32(header + 8);

		if (length > sizeof(frame) || fread(frame, length, 1, file) != 1)
			recorded_fail("a record is cut off");
		if (recorded_find(&r, frame, length)) {
			see(&r, context);
			count++;
		}
	}
	if (pclose(file) != 0)
		recorded_fail("gzip failed");
	return count;
}

#endif
