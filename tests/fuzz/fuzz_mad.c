/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_mad_unpack() on anything: it reads within bounds, and what it accepts packs to a message that
 * unpacks to the same again.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/mad.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A recorded packet's MAD starts behind BTH and DETH. */
enum { FRONT = 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t bytes[MAD_BYTES], again[MAD_BYTES], *exact;
	struct cm_mad mad, second;
	struct ip_cm ip;

	if (size < FRONT + MAD_BYTES)
		return 0;
	exact = malloc(MAD_BYTES); /* so that a sanitizer sees its end */
	if (!exact)
		abort();
	memcpy(exact, data + FRONT, MAD_BYTES);
	if (cm_mad_unpack(&mad, exact, MAD_BYTES)) {
		if (mad.private_data + mad.private_length > exact + MAD_BYTES)
			abort();
		cm_mad_pack(bytes, &mad);
		if (!cm_mad_unpack(&second, bytes, MAD_BYTES))
			abort();
		cm_mad_pack(again, &second);
		if (memcmp(bytes, again, MAD_BYTES) != 0)
			abort();
		if (mad.private_length >= IP_CM_BYTES)
			ip_cm_unpack(&ip, mad.private_data);
	}
	free(exact);
	return 0;
}
