/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of the same-host link: what samehost.c (rings and packets) and samehost_memory.c (the
 * memory of other processes) share. The lane's lock guards all of it, but for what both sides map.
 */
#ifndef LINK_SAMEHOST_LINK_H
#define LINK_SAMEHOST_LINK_H

#include "device/limits.h"
#include "link/assist.h"
#include "link/reach.h"
#include "link/ring.h"
#include "link/samehost.h"

enum { LOCALS_MAX = 64, WANTED_MAX = 16 };

/* How a RING_ADDRESS record looks. */
struct channel_address {
	union ibv_gid sgid, dgid;
	uint32_t ifindex, flow_label;
	uint8_t traffic_class, hop_limit;
};

_Static_assert(sizeof(struct channel_address) <= RING_SLOT_BYTES - 8, "fits one slot");

/* What both sides map. The offering side sends on the first ring, and is the first. */
struct channel_memory {
	struct ring_memory rings[2];
	struct channel_side {
		/* of its visits to the other's memory (reach.h) */
		_Alignas(64) atomic_uint hazard;
		/* it waits for the other's hazard; until then the other stays away */
		_Alignas(64) atomic_uint is_watching;
		_Alignas(64) atomic_uint poller; /* samehost_poller(); 0: none has said so */
		struct assist_board board;	 /* of its long copies */
	} sides[2];
};

struct channel {
	uint64_t number;
	struct reach *reach; /* the other side's memory; NULL: not to be had */
	int lifeline;	     /* -1: the other side is ours */
	struct channel_side *side, *their_side;
	struct assist assist;
	unsigned int answered; /* of the other side's calls for our thread */
	struct ring_producer out;
	struct ring_consumer in;
	struct channel_address sent; /* what the packets going out have now */
	struct packet packet;	     /* what those coming in have */
	uint32_t ifindex;
	void *owner; /* of those coming in; NULL: to be found */
	void *memory;
	int bell;
	bool is_bell_lent;
	bool is_touched;
	uint32_t heard; /* the lane's, when it was sent on last */
	uint8_t lane;	/* that takes in what comes */
};

enum way_state {
	WAY_UNKNOWN,
	WAY_ASKED,     /* for a channel: what goes there waits */
	WAY_ELSEWHERE, /* there is none to be had, for now */
};

struct local {
	union ibv_gid gid;
	uint32_t ifindex;
};

struct samehost {
	struct outbox outbox, *elsewhere;
	struct channel *way_to[QPN_SLOTS][SAMEHOST_WAYS];
	struct channel *own; /* to this very lane */
	struct channel **channels;
	uint32_t channel_count, channel_room;
	struct local locals[LOCALS_MAX];
	uint32_t local_count;
	struct channel *reserved; /* the open reservation is there; NULL: elsewhere */
	uint64_t assists;
	struct channel *helped;	   /* the last that was; NULL: none, or it is gone */
	struct channel *receiving; /* its packets are being delivered; NULL: none is */
	uint64_t copied;	   /* bytes, of this batch */
	bool has_touched, is_full;
	struct ring_place before; /* the record that was taken last, one by one */
	uint32_t heard;		  /* records that came in */
	unsigned long changes;	  /* samehost_changes() */
	uint32_t poller;
	bool is_off;
	uint8_t lane;				  /* which this is */
	uint8_t states[QPN_SLOTS][SAMEHOST_WAYS]; /* of a way without a channel */
	uint16_t passed[QPN_SLOTS];		  /* packets that went elsewhere */
	uint16_t wanted[WANTED_MAX];		  /* slot * SAMEHOST_WAYS + way */
	uint32_t wanted_count;
};

static inline struct channel *channel_to(const struct samehost *samehost, uint32_t qpn)
{
	return samehost->way_to[qpn >> QPN_SLOT_SHIFT][samehost_way(qpn)];
}

#endif
