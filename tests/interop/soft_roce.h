/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FLUSH posted on Soft-RoCE by a user library that does not know it (Debian 12's, where the kernel
 * is newer). The work request is begun as a WRITE, and changed in the queue that library and kernel
 * share before the doorbell rings; the layout is that of the kernel's rdma/rdma_user_rxe.h.
 */
#ifndef TESTS_INTEROP_SOFT_ROCE_H
#define TESTS_INTEROP_SOFT_ROCE_H

#include <stdint.h>

#include "peer.h"

enum { SOFT_ROCE_WRITE = 0, SOFT_ROCE_FLUSH = 14 };

struct soft_roce_request {
	uint64_t wr_id;
	uint32_t reserved, opcode, send_flags, immediate;
	uint64_t remote_addr;
	uint32_t length, rkey;
	uint8_t type, level;
};

static inline bool has_file(const char *name)
{
	char path[300];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/%s",
		 ibv_get_device_name(context->device), name);
	return access(path, F_OK) == 0;
}

/* The kernel's: ours has its files, and a board's name besides. */
static inline bool is_soft_roce(void)
{
	return has_file("parent") && !has_file("board_id");
}

/* A work request for WRITE with this wr_id, in a mapping of the device's. */
static inline struct soft_roce_request *soft_roce_find(uint64_t wr_id)
{
	struct soft_roce_request *found = NULL;
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end;
	char line[512];

	must(maps);
	while (!found && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "/dev/infiniband/uverbs") ||
		    sscanf(line, "%lx-%lx rw", &start, &end) != 2)
			continue;
		for (uint64_t *at = (uint64_t *)start;
		     !found && at + sizeof(*found) / 8 <= (uint64_t *)end; at++)
			if (*at == wr_id &&
			    ((struct soft_roce_request *)at)->opcode == SOFT_ROCE_WRITE)
				found = (struct soft_roce_request *)at;
	}
	fclose(maps);
	return found;
}

/* Between ibv_wr_start() and ibv_wr_complete(); ex->wr_id has to be nobody else's. */
static inline void soft_roce_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
				   uint32_t length, uint8_t type, uint8_t level)
{
	struct soft_roce_request *request;

	ibv_wr_rdma_write(ex, rkey, addr);
	if (length) /* the kernel takes the length to flush from that of the payload */
		ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory, length);
	request = soft_roce_find(ex->wr_id);
	must(request);
	request->opcode = SOFT_ROCE_FLUSH;
	request->remote_addr = addr;
	request->length = length;
	request->rkey = rkey;
	request->type = type;
	request->level = level;
}

#endif
