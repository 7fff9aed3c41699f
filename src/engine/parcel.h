/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A packet that came in on another lane, or in another process, on its way to its own lane.
 */
#ifndef ENGINE_PARCEL_H
#define ENGINE_PARCEL_H

#include "transport/packet.h"

struct adapter;

struct parcel {
	struct parcel *next;
	struct adapter *adapter;
	struct packet packet; /* packet.bth is `bytes` */
	uint8_t bytes[];
};

#endif
