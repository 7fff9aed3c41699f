/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire_parse() on anything: it reads within bounds, what it accepts is consistent and packs to a
 * packet that parses to the same again.
 */
#include <stdlib.h>
#include "wire/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

/* Reads all of it, so that a sanitizer sees where it ends. */
static void touch(const uint8_t *bytes, size_t length)
{
	volatile uint8_t sum = 0;

	for (size_t i = 0; i < length; i++)
		sum = sum + bytes[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t bytes[HEADER_BYTES_MAX], again[HEADER_BYTES_MAX];
	struct wire_packet packet, second;
	size_t headers;

	if (wire_parse(&packet, data, size) != PARSE_OK)
		return 0;
	must(packet.payload >= data + BTH_BYTES);
	must(packet.payload + packet.payload_length + packet.bth.pad_count == data + size);
	must(packet.payload_length == 0 || packet.op->flags & OPF_PAYLOAD);
	touch(packet.payload, packet.payload_length);
	headers = wire_pack(bytes, &packet);
	must(data + headers == packet.payload);
	if (packet.op->flags & OPF_PAYLOAD)
		return 0; /* a second parse would need the payload behind the headers */
	must(wire_parse(&second, bytes, headers) == PARSE_OK);
	must(wire_pack(again, &second) == headers && memcmp(again, bytes, headers) == 0);
	return 0;
}
