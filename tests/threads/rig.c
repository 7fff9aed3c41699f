// SPDX-License-Identifier: BSD-2-Clause
/*
 * The loopback device and RC queue pairs on it, for the tests with threads.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rig.h"

const char *rig_doing[2];

_Noreturn void rig_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: not so: %s (errno %d, %s)\n", file, line, what, errno,
		strerror(errno));
	if (rig_doing[0])
		fprintf(stderr, "(%s, and %s)\n", rig_doing[0], rig_doing[1]);
	fflush(NULL);
	_exit(1);
}

static void stuck(int signal)
{
	static const char text[] = "stuck\n";

	_exit(write(STDERR_FILENO, text, sizeof(text) - 1) > 0 ? 124 : 125);
}

void rig_watchdog(unsigned int seconds)
{
	signal(SIGALRM, stuck);
	alarm(seconds);
}

uint64_t rig_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool has_loopback_gid(struct rig *rig)
{
	static const uint8_t loopback[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};

	for (uint8_t i = 0; i < 16; i++)
		if (!ibv_query_gid(rig->context, 1, i, &rig->gid) &&
		    !memcmp(rig->gid.raw, loopback, sizeof(loopback))) {
			rig->gid_index = i;
			return true;
		}
	return false;
}

void rig_open(struct rig *rig)
{
	rig->list = ibv_get_device_list(NULL);
	CHECK(rig->list);
	for (struct ibv_device **device = rig->list; *device; device++) {
		rig->context = ibv_open_device(*device);
		CHECK(rig->context);
		if (has_loopback_gid(rig)) {
			rig->pd = ibv_alloc_pd(rig->context);
			CHECK(rig->pd);
			return;
		}
		CHECK(!ibv_close_device(rig->context));
	}
	rig_fail(__FILE__, __LINE__, "a device has 127.0.0.1");
}

void rig_close(struct rig *rig)
{
	CHECK(!ibv_dealloc_pd(rig->pd));
	CHECK(!ibv_close_device(rig->context));
	ibv_free_device_list(rig->list);
}

struct ibv_qp *rig_qp(struct rig *rig, struct ibv_cq *send_cq, struct ibv_cq *recv_cq, uint32_t wrs)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = send_cq,
	    .recv_cq = recv_cq,
	    .cap = {.max_send_wr = wrs, .max_recv_wr = wrs, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(rig->pd, &attr);

	CHECK(qp);
	return qp;
}

void rig_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_INIT,
	    .port_num = 1,
	    .qp_access_flags =
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};

	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

void rig_connect(struct rig *rig, struct ibv_qp *qp, uint32_t dest_qpn)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = dest_qpn,
	    .rq_psn = dest_qpn & 0xffffff,
	    .max_dest_rd_atomic = 4,
	    .min_rnr_timer = 1,
	    .ah_attr = {.grh = {.dgid = rig->gid, .sgid_index = rig->gid_index, .hop_limit = 64},
			.is_global = 1,
			.port_num = 1},
	};

	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = qp->qp_num & 0xffffff;
	attr.timeout = 16; /* a machine under load and under sanitizers answers late */
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 4;
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}
