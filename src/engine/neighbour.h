/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ethernet addresses of IP neighbours, as the kernel knows them or finds them out.
 */
#ifndef ENGINE_NEIGHBOUR_H
#define ENGINE_NEIGHBOUR_H

#include <stdint.h>

#include <infiniband/verbs.h>

enum { NEIGHBOUR_NO_VLAN = 0xffff };

/*
 * The MAC that packets to `gid` leave an interface with, that of a router where the way leads over
 * one, and the interface's VLAN. Waits a second at most. 0 or a positive errno (noted).
 */
int neighbour_resolve(uint32_t ifindex, const union ibv_gid *gid, uint8_t mac[6], uint16_t *vlan);

#endif
