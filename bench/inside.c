/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inside send|write|read SIZE COUNT [DEPTH [LIST]]: messages between two RC queue pairs of one
 * process, by one thread that posts and polls; LIST of them by one call. Prints nanoseconds a
 * message; with DEPTH 1 that is one way of a message, its completion at both ends included.
 */
#include <string.h>

#include "rc.h"

enum { RECEIVES = 256, LIST_MAX = 64 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_mr *mr;
static char *buffer;
static size_t size;

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

static void post_recv(struct ibv_qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)buffer + size, (uint32_t)size, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	need(!ibv_post_recv(qp, &wr, &bad), "receive");
}

static void post_send(struct ibv_qp *qp, enum ibv_wr_opcode opcode, long list)
{
	struct ibv_sge sge = {(uintptr_t)buffer, (uint32_t)size, mr->lkey};
	struct ibv_send_wr wrs[LIST_MAX], *bad;

	for (long i = 0; i < list; i++)
		wrs[i] = (struct ibv_send_wr){
		    .next = i + 1 < list ? &wrs[i + 1] : NULL,
		    .sg_list = &sge,
		    .num_sge = 1,
		    .opcode = opcode,
		    .send_flags = IBV_SEND_SIGNALED,
		    .wr = {.rdma = {(uintptr_t)buffer + size, mr->rkey}},
		};
	need(!ibv_post_send(qp, wrs, &bad), "send");
}

int main(int argc, char **argv)
{
	enum ibv_wr_opcode opcode = rc_opcode(argc > 1 ? argv[1] : "send");
	long count = argc > 3 ? atol(argv[3]) : 100000, depth = argc > 4 ? atol(argv[4]) : 1;
	long list = argc > 5 ? atol(argv[5]) : 1, posted = 0, sent = 0, received = 0;
	struct rc rc = {.mtu = IBV_MTU_4096, .depth = 16, .timeout = 14};
	struct ibv_qp *a, *b;
	double begin;

	size = argc > 2 ? (size_t)atol(argv[2]) : 8;
	context = open_last_device();
	pd = ibv_alloc_pd(context);
	send_cq = ibv_create_cq(context, 1024, NULL, NULL, 0);
	recv_cq = ibv_create_cq(context, 1024, NULL, NULL, 0);
	buffer = aligned_alloc(4096, (2 * size + 4095) / 4096 * 4096);
	memset(buffer, 1, 2 * size);
	mr = ibv_reg_mr(pd, buffer, 2 * size,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	need(mr && !ibv_query_gid(context, 1, 0, &rc.gid), "set up");
	a = make_qp();
	b = make_qp();
	rc.peer = b->qp_num;
	rc_connect(a, &rc);
	rc.peer = a->qp_num;
	rc_connect(b, &rc);
	for (int i = 0; i < RECEIVES && opcode == IBV_WR_SEND; i++)
		post_recv(b);
	begin = now();
	need(list > 0 && list <= LIST_MAX && list <= depth && count % list == 0, "list");
	while (sent < count || (opcode == IBV_WR_SEND && received < count)) {
		int arrived;

		while (posted < count && posted - sent + list <= depth) {
			post_send(a, opcode, list);
			posted += list;
		}
		sent += rc_take(send_cq);
		if (opcode != IBV_WR_SEND)
			continue;
		arrived = rc_take(recv_cq);
		received += arrived;
		while (arrived--)
			post_recv(b);
	}
	printf("%.0f\n", (now() - begin) / (double)count);
	return 0;
}
