/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two nodes, a connection between them, and calls to do one thing after another: for scenarios with
 * a fixed course and for the goodput of the transport. No model: the test says what it expects.
 */
#ifndef SIM_RIG_H
#define SIM_RIG_H

#include "sim.h"

enum { RIG_ARENA = 4 << 20, RIG_CQE = 4096, RIG_ENDS = 4 };

struct rig {
	struct world world;
	struct endpoint *ends[RIG_ENDS]; /* 0 and 1 are connected, 2 and 3 */
	struct mr *mrs[RIG_ENDS];	 /* of the whole arena */
	struct pair pairs[RIG_ENDS / 2];
	int count; /* of ends */
};

/* Attributes may be changed between these two. */
void rig_make(struct rig *rig, uint64_t seed, enum ibv_qp_type type, uint32_t mtu);
/* Two nodes more, with a connection of their own. */
void rig_add(struct rig *rig, enum ibv_qp_type type, uint32_t mtu);
void rig_connect(struct rig *rig);
void rig_end(struct rig *rig);

/* One signaled request of end `from`: `length` bytes between local `at` and the peer's `far`. */
void rig_post(struct rig *rig, int from, enum ibv_wr_opcode opcode, uint32_t at, uint32_t far,
	      uint32_t length, uint64_t wr_id);
/* The same with all that the caller wants changed. */
void rig_post_wr(struct rig *rig, int from, struct ibv_send_wr *wr);
void rig_fill_wr(struct rig *rig, int from, enum ibv_wr_opcode opcode, uint32_t at, uint32_t far,
		 uint32_t length, struct ibv_send_wr *wr, struct ibv_sge *sge);
void rig_post_recv(struct rig *rig, int at_end, uint32_t at, uint32_t length, uint64_t wr_id);

/* Lets so much virtual time pass. */
void rig_pass(struct rig *rig, uint64_t time);
/* Lets time pass until a completion is there; false after `most`. */
bool rig_wait(struct rig *rig, int end, bool is_send, uint64_t most, struct ibv_wc *wc);
/* Until a completion is there, which is as said. */
void rig_expect(struct rig *rig, int end, bool is_send, uint64_t wr_id, enum ibv_wc_status status);

const struct transport_counters *rig_counters(struct rig *rig, int end);

#endif
