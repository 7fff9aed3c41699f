/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inside send|write|read SIZE COUNT [DEPTH]: messages between two RC queue pairs of one process, by
 * one thread that posts and polls. Prints nanoseconds a message; with DEPTH 1 that is one way of a
 * message, its completion at both ends included.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RECEIVES = 256 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_mr *mr;
static char *buffer;
static size_t size;

static void need(int fine, const char *what)
{
	if (fine)
		return;
	perror(what);
	exit(1);
}

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr init = {
	    .send_cq = send_cq,
	    .recv_cq = recv_cq,
	    .cap = {.max_send_wr = 256,
		    .max_recv_wr = RECEIVES,
		    .max_send_sge = 1,
		    .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	need(qp != NULL, "QP");
	return qp;
}

static void connect(struct ibv_qp *qp, const struct ibv_qp *peer, const union ibv_gid *gid)
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
	    .path_mtu = IBV_MTU_4096,
	    .dest_qp_num = peer->qp_num,
	    .max_dest_rd_atomic = 16,
	    .min_rnr_timer = 1,
	    .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 1}},
	};
	need(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	attr = (struct ibv_qp_attr){
	    .qp_state = IBV_QPS_RTS,
	    .timeout = 14,
	    .retry_cnt = 7,
	    .rnr_retry = 7,
	    .max_rd_atomic = 16,
	};
	need(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

static void post_recv(struct ibv_qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)buffer + size, (uint32_t)size, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	need(!ibv_post_recv(qp, &wr, &bad), "receive");
}

static void post_send(struct ibv_qp *qp, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {(uintptr_t)buffer, (uint32_t)size, mr->lkey};
	struct ibv_send_wr wr = {
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = opcode,
	    .send_flags = IBV_SEND_SIGNALED,
	    .wr = {.rdma = {(uintptr_t)buffer + size, mr->rkey}},
	};
	struct ibv_send_wr *bad;

	need(!ibv_post_send(qp, &wr, &bad), "send");
}

static int take(struct ibv_cq *cq)
{
	struct ibv_wc wc[16];
	int count = ibv_poll_cq(cq, 16, wc);

	for (int i = 0; i < count; i++)
		need(wc[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(wc[i].status));
	return count;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
	enum ibv_wr_opcode opcode = argc > 1 && argv[1][0] == 'w'   ? IBV_WR_RDMA_WRITE
				    : argc > 1 && argv[1][0] == 'r' ? IBV_WR_RDMA_READ
								    : IBV_WR_SEND;
	long count = argc > 3 ? atol(argv[3]) : 100000, depth = argc > 4 ? atol(argv[4]) : 1;
	long posted = 0, sent = 0, received = 0;
	struct ibv_device **list;
	struct ibv_qp *a, *b;
	union ibv_gid gid;
	double begin;
	int devices;

	size = argc > 2 ? (size_t)atol(argv[2]) : 8;
	list = ibv_get_device_list(&devices);
	need(list && devices > 0, "device");
	context = ibv_open_device(list[devices - 1]);
	need(context != NULL, "open");
	pd = ibv_alloc_pd(context);
	send_cq = ibv_create_cq(context, 1024, NULL, NULL, 0);
	recv_cq = ibv_create_cq(context, 1024, NULL, NULL, 0);
	buffer = aligned_alloc(4096, (2 * size + 4095) / 4096 * 4096);
	memset(buffer, 1, 2 * size);
	mr = ibv_reg_mr(pd, buffer, 2 * size,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	need(mr && !ibv_query_gid(context, 1, 0, &gid), "set up");
	a = make_qp();
	b = make_qp();
	connect(a, b, &gid);
	connect(b, a, &gid);
	for (int i = 0; i < RECEIVES && opcode == IBV_WR_SEND; i++)
		post_recv(b);
	begin = now();
	while (sent < count || (opcode == IBV_WR_SEND && received < count)) {
		int arrived;

		while (posted < count && posted - sent < depth) {
			post_send(a, opcode);
			posted++;
		}
		sent += take(send_cq);
		if (opcode != IBV_WR_SEND)
			continue;
		arrived = take(recv_cq);
		received += arrived;
		while (arrived--)
			post_recv(b);
	}
	printf("%.0f\n", (now() - begin) / (double)count);
	return 0;
}
