/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP 1, the general services interface: every process of the host reads its socket, and passes each
 * message on to the process that it is for.
 */
#ifndef ENGINE_GSI_H
#define ENGINE_GSI_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "transport/packet.h"

struct adapter;
struct lane;

/* A packet for QP 1, which came in at this address. With the lane's lock. */
void gsi_receive(struct lane *lane, struct adapter *adapter, const union ibv_gid *gid,
		 uint32_t scope, const struct packet *packet);

#endif
