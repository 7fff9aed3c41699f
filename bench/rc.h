/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the programs of the benchmarks share: RC queue pairs, completions, the clock. Where
 * something fails they say what and end; _exit(), as some of them are children of a fork.
 */
#ifndef BENCH_RC_H
#define BENCH_RC_H

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static inline void need(int fine, const char *what)
{
	if (fine)
		return;
	perror(what);
	_exit(1);
}

/* Nanoseconds. */
static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The last device that is listed, which is the loopback's. */
static inline struct ibv_context *open_last_device(void)
{
	struct ibv_context *context;
	struct ibv_device **list;
	int devices;

	list = ibv_get_device_list(&devices);
	need(list && devices > 0, "device");
	context = ibv_open_device(list[devices - 1]);
	need(context != NULL, "open");
	ibv_free_device_list(list);
	return context;
}

/* How a queue pair is connected. */
struct rc {
	uint32_t peer;
	union ibv_gid gid;
	enum ibv_mtu mtu;
	uint8_t depth; /* of READs and atomics, at both ends */
	uint8_t timeout;
};

static inline void rc_connect(struct ibv_qp *qp, const struct rc *rc)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_INIT,
	    .port_num = 1,
	    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	need(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "INIT");
	attr = (struct ibv_qp_attr){
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = rc->mtu,
	    .dest_qp_num = rc->peer,
	    .max_dest_rd_atomic = rc->depth,
	    .min_rnr_timer = 1,
	    .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = rc->gid, .hop_limit = 1}},
	};
	need(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	attr = (struct ibv_qp_attr){
	    .qp_state = IBV_QPS_RTS,
	    .timeout = rc->timeout,
	    .retry_cnt = 7,
	    .rnr_retry = 7,
	    .max_rd_atomic = rc->depth,
	};
	need(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

/* Polls; how many there were. */
static inline int rc_take(struct ibv_cq *cq)
{
	struct ibv_wc wc[16];
	int count = ibv_poll_cq(cq, 16, wc);

	for (int i = 0; i < count; i++)
		need(wc[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(wc[i].status));
	return count;
}

/* send, write or read, by a word's first letter. */
static inline enum ibv_wr_opcode rc_opcode(const char *word)
{
	return word[0] == 'w' ? IBV_WR_RDMA_WRITE : word[0] == 'r' ? IBV_WR_RDMA_READ : IBV_WR_SEND;
}

#endif
