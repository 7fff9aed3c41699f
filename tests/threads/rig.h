/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the tests with threads share: the loopback device opened through the public verbs, RC queue
 * pairs brought up, and a traffic that checks itself (traffic.c): rig_open(), rig_qp(),
 * rig_connect(), then traffic_run() in a thread of each end.
 */
#ifndef THREADS_RIG_H
#define THREADS_RIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

/* Ends the program with what did not hold. */
#define CHECK(what) ((what) ? (void)0 : rig_fail(__FILE__, __LINE__, #what))
extern const char *rig_doing[2]; /* what the two threads are about, if it is worth being told */
_Noreturn void rig_fail(const char *file, int line, const char *what);

struct rig {
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_pd *pd;
	union ibv_gid gid;
	uint8_t gid_index;
};

/* The device that has 127.0.0.1, and a PD. */
void rig_open(struct rig *rig);
void rig_close(struct rig *rig);

struct ibv_qp *rig_qp(struct rig *rig, struct ibv_cq *send_cq, struct ibv_cq *recv_cq,
		      uint32_t wrs);

/* From RESET to INIT; from INIT to RTS, towards the QP of that number on this host. */
void rig_init(struct ibv_qp *qp);
void rig_connect(struct rig *rig, struct ibv_qp *qp, uint32_t dest_qpn);

/* Ends the program after that many seconds, saying that it is stuck. */
void rig_watchdog(unsigned int seconds);
uint64_t rig_ms(void);

/* ---- traffic ---- */

enum { TRAFFIC_DEPTH = 8, TRAFFIC_SLOT = 4096 };

/*
 * One end: its own CQ, QP and memory. `line` is a socket to whoever runs the other end, for
 * addresses at the start and totals at the end.
 */
struct traffic {
	struct rig *rig;
	int line;
	atomic_bool *stop;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct area *own;
	uint64_t peer_addr;
	uint32_t peer_rkey;
	uint32_t next, outstanding; /* work requests posted, and not complete */
	uint64_t sent, received, added;
};

void traffic_open(struct traffic *traffic, struct rig *rig, int line, atomic_bool *stop);
void *traffic_run(void *traffic); /* until *stop, at least once; both ends have to run */
void traffic_close(struct traffic *traffic);

#endif
