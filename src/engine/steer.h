/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which socket of a group takes a packet: a classic BPF program, which needs no privilege, reads
 * the destination QP number out of the BTH and answers with the socket's index: 0 for QP 1, else
 * 1 + slot * lanes + the number's low bits.
 */
#ifndef ENGINE_STEER_H
#define ENGINE_STEER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * False when VERBATIM_STEERING is "hash": no program, for a kernel that takes none. The kernel then
 * picks a socket by the sender's port; what it sends to the wrong one is passed on. Traffic within
 * the host does not depend on either (udp.h, near ports).
 */
bool steer_is_wanted(void);

/* `lanes` is a power of two. Replaces the group's program at once. 0 or -errno. */
int steer_attach(int fd, uint32_t lanes);

static inline uint32_t steer_lane(uint32_t qpn, uint32_t lanes)
{
	return qpn & (lanes - 1);
}

#endif
