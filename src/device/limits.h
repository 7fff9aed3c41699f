/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every limit of the adapter, in one place. What ibv_query_device() reports comes from here.
 */
#ifndef DEVICE_LIMITS_H
#define DEVICE_LIMITS_H

enum limits {
	/* A QP number is slot (8 bits, one a process of the host) and number within the process (16
	   bits). */
	QPN_SLOT_SHIFT = 16,
	QPN_SLOTS = 256,
	QPN_MULTICAST = 0xffffff,
	QPN_GSI = 1,
	MAX_LANES = 4, /* a power of two */

	MAX_QP = 65533, /* of one process: numbers 0 and 1 are the specification's (SMI, GSI) */
	MAX_QP_WR = 65536,
	MAX_SGE = 32,
	MAX_INLINE = 1024,
	MAX_RD_ATOMIC = 128,
	MAX_CQ = 65536,
	MAX_CQE = (1 << 22) - 1,
	MAX_SRQ = 65536,
	MAX_SRQ_WR = 65536,
	MAX_TAGS = 8192,    /* in the list of a tag matching SRQ */
	MAX_TAG_OPS = 8192, /* they are done at once, so that any number would do */
	MAX_RNDV_HEADER = 64,
	MAX_RNDV = 16, /* of one QP: READs that the adapter makes by itself, each with its FIN */
	MAX_MR = 1 << 19,
	MAX_MW = 1 << 19,
	MAX_DM_SIZE = 16 << 20,
	MAX_PD = 65536,
	MAX_AH = 1 << 20,
	MAX_MCAST_GRP = 8192,
	MAX_MCAST_QP_ATTACH = 65536,
	MAX_GIDS = 256,
	MAX_PKEYS = 64,
	MAX_LOG_TABLE = 10, /* of an indirection table of WQs */
	HASH_FIELDS = 0xff, /* IBV_RX_HASH_ of addresses and ports */
	MAX_COMP_CNTR = 65536,
	MAX_COMP_VECTORS = 16,
	DEFAULT_BURST = 16384, /* bytes that a limited rate may send at once */

	DEFAULT_PKEY = 0xffff,
	GRH_SIZE = 40, /* area at the head of a UD receive buffer */
};

/* Longest message of a connected transport: 2 GiB (9.2.1, "message size"). */
#define MAX_MESSAGE_SIZE (UINT32_C(1) << 31)

#endif
