/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A socket that a lane receives from.
 */
#ifndef ENGINE_SOURCE_H
#define ENGINE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <urcu/list.h>

struct adapter;

struct source {
	struct cds_list_head node;
	int fd;
	union ibv_gid gid;
	uint32_t scope;
	struct adapter *adapter;
	uint16_t near_port; /* udp.h; 0: it is none of those */
	bool is_raw;	    /* frames of raw packet QPs (raw.h) */
	bool is_shared;	    /* the GSI's: other processes read from it too */
	bool is_line;	    /* to another part of an XRC QP (line.h) */
};

#endif
