/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ICRC check on anything, over IPv4 and IPv6: it reads within bounds, and what it accepts has
 * the ICRC that a sender with the found identification would compute.
 */
#include <stdlib.h>
#include "wire/icrc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct icrc_flow *flow, const uint8_t *data, size_t size, uint16_t id)
{
	if (!icrc_is_right(flow, data, size, &id))
		return;
	if (size < BTH_BYTES + ICRC_BYTES ||
	    icrc_compute(flow, data, size - ICRC_BYTES, id) != get_le32(data + size - ICRC_BYTES))
		abort();
}

/* A packet that is sealed must be accepted, whatever is in it. */
static void check_sealed(const struct icrc_flow *flow, const uint8_t *data, size_t size,
			 uint16_t id)
{
	size_t length = size & ~(size_t)3;
	struct icrc_run run = {0};
	uint16_t found = 0;
	uint8_t *bytes;

	if (length < BTH_BYTES || length > 9000)
		return;
	bytes = malloc(length + ICRC_BYTES);
	if (!bytes)
		abort();
	memcpy(bytes, data, length);
	icrc_seal(flow, bytes, length, id);
	if (!icrc_is_right(flow, bytes, length + ICRC_BYTES, &found) ||
	    found != (icrc_flow_is_ipv4(flow) ? id : 0))
		abort();
	icrc_run_begin(&run, flow, length);
	if (icrc_run_compute(&run, data, id) != icrc_compute(flow, data, length, id))
		abort();
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t address[16] = {192, 168, 77, 1,  5,  6,  7,  8,
					    9,	 10,  11, 12, 13, 14, 15, 16};
	struct icrc_flow ipv4, ipv6;
	uint16_t id = size ? data[size - 1] * 257 : 0;

	icrc_flow_ipv4(&ipv4, address, address + 4, 50000, ROCE_PORT);
	icrc_flow_ipv6(&ipv6, address, address, 50000, ROCE_PORT);
	check(&ipv4, data, size, id);
	check(&ipv6, data, size, id);
	check_sealed(&ipv4, data, size, id);
	check_sealed(&ipv6, data, size, id);
	return 0;
}
