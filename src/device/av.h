/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An address vector, resolved: whom a packet goes to and from which of our addresses. What an AH
 * holds, what a connected QP gets on its way to RTR, and all that a link needs in order to send.
 */
#ifndef DEVICE_AV_H
#define DEVICE_AV_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct adapter;

struct av {
	union ibv_gid dgid; /* of the peer; a v4-mapped address is sent by IPv4 */
	union ibv_gid sgid; /* ours, the GID table's entry at the time of resolving */
	uint32_t flow_label;
	uint8_t traffic_class; /* as the program has it */
	uint8_t ecn;	       /* what packets carry beside it (transport/congestion.c) */
	uint8_t hop_limit;     /* never 0: 0 in the attributes means the default, 64 */
	uint8_t sgid_index;
	uint8_t sl;
	uint8_t lends;	      /* at most so many windows of 256 KiB are under way at a time, and
				 what is lost goes again (link/udp_lend.c); 0: more, or not */
	bool is_doubted;      /* something was not answered: the way it went may be no good */
	uint16_t carrier_max; /* longest packet that may have an ACK before it; 0: the peer is not
				 known to be ours, so none */
	uint16_t rounds;      /* so often was all answered that had left by the time before, and
				 nothing had gone again: two more, and what left now has come */
};

static inline bool gid_is_same(const union ibv_gid *a, const union ibv_gid *b)
{
	return a->global.subnet_prefix == b->global.subnet_prefix &&
	       a->global.interface_id == b->global.interface_id;
}

static inline bool gid_is_ipv4(const union ibv_gid *gid)
{
	return gid->global.subnet_prefix == 0 && gid->raw[8] == 0 && gid->raw[9] == 0 &&
	       gid->raw[10] == 0xff && gid->raw[11] == 0xff;
}

/* ff00::/8, or the v4-mapped form of 224.0.0.0/4. */
static inline bool gid_is_multicast(const union ibv_gid *gid)
{
	return gid_is_ipv4(gid) ? (gid->raw[12] & 0xf0) == 0xe0 : gid->raw[0] == 0xff;
}

/*
 * Resolves attributes as the caller of ibv_create_ah() or ibv_modify_qp() gave them. RoCE demands a
 * GRH, a port that exists and an sgid_index in the GID table. 0, or the positive errno of the
 * reason that it has noted.
 */
int av_resolve(struct adapter *adapter, const struct ibv_ah_attr *attr, struct av *av);

/* The attributes back, for ibv_query_qp(). */
void av_describe(const struct av *av, struct ibv_ah_attr *attr);

#endif
