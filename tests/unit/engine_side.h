/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests of the engine as a whole, below the verbs: devices in a network namespace of the test's
 * own, and one side of a connection.
 */
#ifndef TEST_ENGINE_SIDE_H
#define TEST_ENGINE_SIDE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "device/mr.h"
#include "device/pd.h"
#include "engine/engine.h"
#include "own_network.h"

enum { PATIENCE_MS = 10000, SIZE = 20000 };

/* ---- what the engine tells ---- */

static atomic_uint cq_events, gid_changes, port_errors, port_actives;

static inline void on_cq_event(struct cq *cq)
{
	atomic_fetch_add(&cq_events, 1);
}

static inline void on_async_event(struct adapter *adapter, const struct ibv_async_event *event)
{
	if (event->event_type == IBV_EVENT_GID_CHANGE)
		atomic_fetch_add(&gid_changes, 1);
	if (event->event_type == IBV_EVENT_PORT_ERR)
		atomic_fetch_add(&port_errors, 1);
	if (event->event_type == IBV_EVENT_PORT_ACTIVE)
		atomic_fetch_add(&port_actives, 1);
}

static const struct engine_face face = {.cq_event = on_cq_event, .async_event = on_async_event};

static inline uint64_t now_ms(void)
{
	return engine_now() / 1000000;
}

/* Voluntary switches of all threads but the caller's. */
static inline unsigned long wakeups(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	unsigned long sum = 0;

	while ((entry = readdir(dir))) {
		char path[300], line[256];
		unsigned long n;
		FILE *file;

		if (entry->d_name[0] == '.' || atoi(entry->d_name) == gettid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		file = fopen(path, "r");
		while (file && fgets(line, sizeof(line), file))
			if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1)
				sum += n;
		if (file)
			fclose(file);
	}
	closedir(dir);
	return sum;
}

/* ---- the surroundings ---- */

static inline int surroundings(void **state)
{
	engine_set_face(&face);
	return system("ip link set lo up && ip link add va type veth peer name vb &&"
		      "sysctl -qw net.ipv6.conf.va.disable_ipv6=1 && ip link set va up &&"
		      "ip link set vb up && ip addr add 192.0.2.1/24 dev va");
}

static inline struct adapter *open_device(const char *netdev)
{
	struct device_info *devices;
	struct adapter *adapter = NULL;
	int count = engine_list_devices(&devices);

	for (int i = 0; i < count; i++)
		if (strcmp(devices[i].netdev, netdev) == 0)
			assert_int_equal(engine_open(&devices[i], &adapter), 0);
	assert_non_null(adapter);
	free(devices);
	return adapter;
}

/* ---- a side of a connection ---- */

struct contact {
	uint32_t qpn, rkey;
	uint64_t addr;
	union ibv_gid gid;
};

struct side {
	struct adapter *adapter;
	struct pd *pd;
	struct cq *cq;
	struct mr *mr;
	struct qp *qp;
	struct contact self, peer;
	bool sleeps;	       /* on completion events, instead of polling */
	char buffer[2 * SIZE]; /* what is sent, what is received */
};

static inline void side_open(struct side *side, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex init = {
	    .qp_type = type,
	    .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
	};

	memset(side, 0, sizeof(*side));
	side->adapter = open_device("lo");
	assert_int_equal(pd_create(side->adapter, &side->pd), 0);
	assert_int_equal(cq_create(side->adapter, 64, &side->cq), 0);
	assert_int_equal(mr_create(side->pd, side->buffer, sizeof(side->buffer),
				   (uintptr_t)side->buffer,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &side->mr),
			 0);
	init.send_cq = init.recv_cq = &side->cq->ibv;
	assert_int_equal(engine_create_qp(side->pd, &init, &side->qp), 0);
	side->self.qpn = side->qp->number;
	side->self.rkey = side->mr->rkey;
	side->self.addr = (uintptr_t)side->buffer;
	assert_int_equal(port_gid(&side->adapter->port, 0, &side->self.gid), 0);
}

static inline void side_connect(struct side *side)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_INIT,
	    .port_num = 1,
	    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};

	assert_int_equal(
	    engine_modify_qp(side->qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	    0);
	attr = (struct ibv_qp_attr){
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = side->peer.qpn,
	    .rq_psn = side->peer.qpn,
	    .max_dest_rd_atomic = 1,
	    .min_rnr_timer = 1,
	    .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = side->peer.gid}},
	};
	assert_int_equal(engine_modify_qp(side->qp, &attr,
					  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	attr = (struct ibv_qp_attr){
	    .qp_state = IBV_QPS_RTS,
	    .timeout = 14,
	    .retry_cnt = 7,
	    .rnr_retry = 7,
	    .sq_psn = side->self.qpn,
	    .max_rd_atomic = 1,
	};
	assert_int_equal(engine_modify_qp(side->qp, &attr,
					  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					      IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static inline void side_close(struct side *side)
{
	assert_int_equal(engine_destroy_qp(side->qp), 0);
	assert_int_equal(mr_destroy(side->mr), 0);
	assert_int_equal(cq_destroy(side->cq), 0);
	assert_int_equal(pd_destroy(side->pd), 0);
	engine_close(side->adapter);
}

#endif
