/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The 40 bytes before a UD message: an IPv6 header, or an IPv4 header in the last 20 of them
 * (RoCEv2 annex, A17.4.5.2).
 */
#include "wire/headers.h"

enum { IPV4_OFFSET = 20, IPV4_BYTES = 20, IPV4_DF = 0x4000, IPPROTO_UDP_NUMBER = 17 };

void grh_pack(uint8_t *p, const struct grh *grh)
{
	put_be32(p, 6u << 28 | (uint32_t)grh->traffic_class << 20 | (grh->flow_label & 0xfffff));
	put_be16(p + 4, grh->payload_length);
	p[6] = grh->next_header;
	p[7] = grh->hop_limit;
	memcpy(p + 8, grh->sgid, 16);
	memcpy(p + 24, grh->dgid, 16);
}

void grh_unpack(struct grh *grh, const uint8_t *p)
{
	uint32_t first = get_be32(p);

	grh->traffic_class = first >> 20;
	grh->flow_label = first & 0xfffff;
	grh->payload_length = get_be16(p + 4);
	grh->next_header = p[6];
	grh->hop_limit = p[7];
	memcpy(grh->sgid, p + 8, 16);
	memcpy(grh->dgid, p + 24, 16);
}

static uint16_t ipv4_checksum(const uint8_t *p)
{
	uint32_t sum = 0;

	for (int i = 0; i < IPV4_BYTES; i += 2)
		sum += get_be16(p + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	return ~sum;
}

void grh_ipv4_pack(uint8_t *p, const struct grh_ipv4 *grh)
{
	uint8_t *ip = p + IPV4_OFFSET;

	memset(p, 0, GRH_BYTES);
	ip[0] = 0x45;
	ip[1] = grh->tos;
	put_be16(ip + 2, grh->total_length);
	put_be16(ip + 4, grh->id);
	put_be16(ip + 6, IPV4_DF);
	ip[8] = grh->ttl;
	ip[9] = IPPROTO_UDP_NUMBER;
	memcpy(ip + 12, grh->saddr, 4);
	memcpy(ip + 16, grh->daddr, 4);
	put_be16(ip + 10, ipv4_checksum(ip));
}
