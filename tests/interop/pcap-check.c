/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pcap-check FILE [SOURCE...]: is the ICRC right in each RoCEv2 packet of a capture, and can the
 * packet be taken apart? Only packets from one of the SOURCE addresses count; all, if none is
 * named. The ICRC is computed here by the specification's words, bit by bit, with nothing of
 * src/wire, so that an error there cannot hide itself. Reads the classic pcap format of Ethernet
 * frames.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "wire/filled.h"
#include "wire/parse.h"

enum {
	FILE_HEADER = 24,
	RECORD_HEADER = 16,
	ETHERNET = 14,
	FRAME_MAX = 262144,
	FLUSH = 0x1c,
	SHOWN = 5, /* wrong packets that are described */
};

struct packet {
	uint8_t *ip;
	uint8_t *udp;
	size_t ip_bytes; /* of the header alone */
	size_t length;	 /* of the UDP payload */
	char source[INET6_ADDRSTRLEN];
};

static uint32_t crc_bits(uint32_t crc, const uint8_t *bytes, size_t count)
{
	while (count--) {
		crc ^= *bytes++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
	}
	return crc;
}

/* A17.3.3: what may change on the way is taken as ones. */
static uint32_t icrc_by_the_book(const struct packet *p)
{
	uint8_t head[8 + 40 + 8 + BTH_BYTES], *ip = head + 8, *udp = ip + p->ip_bytes;
	uint32_t crc;

	memset(head, 0xff, 8);
	memcpy(ip, p->ip, p->ip_bytes);
	memcpy(udp, p->udp, 8 + BTH_BYTES);
	if (p->ip_bytes == 20) {
		ip[1] = 0xff;		/* type of service */
		ip[8] = 0xff;		/* time to live */
		ip[10] = ip[11] = 0xff; /* checksum */
	} else {
		ip[0] |= 0x0f; /* traffic class and flow label */
		ip[1] = ip[2] = ip[3] = 0xff;
		ip[7] = 0xff; /* hop limit */
	}
	udp[6] = udp[7] = 0xff;
	udp[8 + 4] = 0xff; /* FECN, BECN and reserved bits */
	crc = crc_bits(0xffffffff, head, 8 + p->ip_bytes + 8 + BTH_BYTES);
	return ~crc_bits(crc, p->udp + 8 + BTH_BYTES, p->length - BTH_BYTES - ICRC_BYTES);
}

/* Soft-RoCE covers all of its FLUSHes from the BTH on a second time, and drops those of others that
 * are not so (docs/conformance.md). */
static uint32_t icrc_of_a_flush(const struct packet *p)
{
	return ~crc_bits(~icrc_by_the_book(p), p->udp + 8, p->length - ICRC_BYTES);
}

/* Whether the frame is a RoCEv2 packet, and if so its parts. */
static bool packet_find(struct packet *p, uint8_t *frame, size_t length)
{
	uint16_t type;

	if (length < ETHERNET + 20 + 8)
		return false;
	type = get_be16(frame + 12);
	p->ip = frame + ETHERNET;
	p->ip_bytes = type == 0x0800 ? 20 : 40;
	if ((type != 0x0800 && type != 0x86dd) || (type == 0x0800 && p->ip[0] != 0x45) ||
	    length < ETHERNET + p->ip_bytes + 8 || p->ip[type == 0x0800 ? 9 : 6] != IPPROTO_UDP)
		return false;
	p->udp = p->ip + p->ip_bytes;
	if (get_be16(p->udp + 2) != ROCE_PORT)
		return false;
	if (type == 0x0800)
		inet_ntop(AF_INET, p->ip + 12, p->source, sizeof(p->source));
	else
		inet_ntop(AF_INET6, p->ip + 8, p->source, sizeof(p->source));
	p->length = get_be16(p->udp + 4) - 8;
	return true;
}

/* NULL, or what is wrong with the packet. */
static const char *packet_fault(const struct packet *p, size_t captured)
{
	struct wire_packet parsed;
	const uint8_t *bth = p->udp + 8;
	uint32_t icrc, length = p->length - ICRC_BYTES;

	if (p->length > captured)
		return "longer than what was captured";
	if (p->length < BTH_BYTES + ICRC_BYTES)
		return "too short for a BTH and an ICRC";
	icrc = get_le32(p->udp + 8 + p->length - ICRC_BYTES);
	if (icrc_by_the_book(p) != icrc && (p->udp[8] != FLUSH || icrc_of_a_flush(p) != icrc))
		return "wrong ICRC";
	if (bth[0] == OPCODE_FILLED && !packet_empty(p->udp + 8, &length))
		return "filled up as nobody does";
	if (bth[0] == OPCODE_ACK_AND && length >= BTH_BYTES + AETH_BYTES + BTH_BYTES) {
		bth += BTH_BYTES + AETH_BYTES;
		length -= BTH_BYTES + AETH_BYTES;
	}
	if (wire_parse(&parsed, bth, length) != PARSE_OK)
		return "malformed";
	return NULL;
}

static bool is_wanted(const struct packet *p, char **sources, int count)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(p->source, sources[i]))
			return true;
	return count == 0;
}

int main(int argc, char **argv)
{
	static uint8_t frame[FRAME_MAX];
	uint8_t header[FILE_HEADER];
	long record = 0, seen = 0, wrong = 0;
	FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;

	if (!file || fread(header, FILE_HEADER, 1, file) != 1 || get_le32(header) != 0xa1b2c3d4 ||
	    get_le32(header + 20) != 1) {
		fprintf(stderr,
			"usage: pcap-check FILE [SOURCE...]; FILE: pcap of Ethernet frames\n");
		return 2;
	}
	while (fread(header, RECORD_HEADER, 1, file) == 1) {
		size_t length = get_le32(header + 8);
		struct packet p;
		const char *fault;

		record++;
		if (length > sizeof(frame) || fread(frame, length, 1, file) != 1)
			break; /* the capture ended within a record */
		if (!packet_find(&p, frame, length) || !is_wanted(&p, argv + 2, argc - 2))
			continue;
		seen++;
		fault = packet_fault(&p, length - (p.udp + 8 - frame));
		if (fault && wrong++ < SHOWN)
			printf("packet %ld from %s: %s (opcode %#x, %zu bytes of UDP payload)\n",
			       record, p.source, fault, p.udp[8], p.length);
	}
	fclose(file);
	printf("pcap-check: %ld RoCE packets%s, %ld wrong\n", seen,
	       argc > 2 ? " from these sources" : "", wrong);
	return wrong || !seen;
}
