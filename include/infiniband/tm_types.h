/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Headers of tag matching, as they lead the messages to a tag matching SRQ.
 */
#ifndef _TM_TYPES_H
#define _TM_TYPES_H

#include <stdint.h>
#include <linux/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ibv_tmh_op {
	IBV_TMH_NO_TAG = 0,
	IBV_TMH_RNDV = 1, /* a struct ibv_rvh follows */
	IBV_TMH_FIN = 2,
	IBV_TMH_EAGER = 3,
};

struct ibv_tmh {
	uint8_t opcode;	     /* enum ibv_tmh_op */
	uint8_t reserved[3]; /* 0 */
	__be32 app_ctx;	     /* the program's */
	__be64 tag;
};

/* Where the receiver of a rendezvous reads the message from. */
struct ibv_rvh {
	__be64 va;
	__be32 rkey;
	__be32 len; /* bytes */
};

#ifdef __cplusplus
}
#endif

#endif
