/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_xsrq_pingpong: bounce messages over XRC, whose receives come from a shared receive queue
 * (xsrq.h). */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "xsrq.h"

static int post_receive(struct xsrq *x)
{
	struct ibv_sge sge = {(uintptr_t)x->receive_area, x->pp.options.size, x->pp.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = PP_RECV, .sg_list = &sge, .num_sge = 1}, *bad;

	if (!ibv_post_srq_recv(x->pp.srq, &wr, &bad))
		return 0;
	fprintf(stderr, "Couldn't post receives\n");
	return 1;
}

/* Takes the send completions that are there: a side whose sends fail must not wait for answers. */
static int take_sends(struct xsrq *x)
{
	struct ibv_wc wc;
	int count;

	while ((count = ibv_poll_cq(x->send_cq, 1, &wc)) > 0) {
		if (wc.status) {
			fprintf(stderr, "Work completion error %s\n", ibv_wc_status_str(wc.status));
			return 1;
		}
		x->pending_sends--;
	}
	if (count < 0)
		fprintf(stderr, "Error polling cq %d\n", count);
	return count < 0;
}

/* Until at most `left` are pending. */
static int wait_sends(struct xsrq *x, int left)
{
	while (x->pending_sends > left)
		if (take_sends(x))
			return 1;
	return 0;
}

/* To that peer's SRQ, each time by the next one's QP. */
static int send_to(struct xsrq *x, int index)
{
	struct xsrq_peer *peer = &x->peers[index];
	struct ibv_qp *qp = x->peers[(index + peer->sent) % x->count].send;
	struct ibv_sge sge = {(uintptr_t)x->pp.buffer, x->pp.options.size, x->pp.mr->lkey};
	struct ibv_send_wr wr =
			       {
				   .wr_id = PP_SEND,
				   .sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED,
				   .qp_type.xrc.remote_srqn = peer->remote.srqn,
			       },
			   *bad;

	if (wait_sends(x, 2 * x->count - 1))
		return 1;
	if (ibv_post_send(qp, &wr, &bad)) {
		fprintf(stderr, "Couldn't post send\n");
		return 1;
	}
	x->pending_sends++;
	peer->sent++;
	return 0;
}

static int take_receive(struct xsrq *x, const struct ibv_wc *wc)
{
	int index = 0;

	if (wc->status) {
		fprintf(stderr, "Work completion error %s\n", ibv_wc_status_str(wc->status));
		return 1;
	}
	while (index < x->count && x->peers[index].recv->qp_num != wc->qp_num)
		index++;
	/* A client hears of its own QPs or, by the domain, of another client's. */
	if (index == x->count && x->pp.options.server)
		index = 0;
	if (index == x->count) {
		fprintf(stderr, "Unable to find qp %x\n", wc->qp_num);
		return 1;
	}
	if (post_receive(x))
		return 1;
	return x->peers[index].sent < x->pp.options.iters ? send_to(x, index) : 0;
}

static int wait_for_event(struct xsrq *x)
{
	struct ibv_cq *cq;
	void *data;

	if (ibv_get_cq_event(x->pp.channel, &cq, &data)) {
		fprintf(stderr, "Failed to get cq_event\n");
		return 1;
	}
	if (cq == x->send_cq)
		x->send_events++;
	else
		x->pp.cq_events++;
	/* Armed before looking: what comes in between is found by the poll or raises an event. */
	if (ibv_req_notify_cq(cq, 0)) {
		fprintf(stderr, "Couldn't request CQ notification\n");
		return 1;
	}
	return 0;
}

/* Each of the messages is sent by the server and answered by the client. */
static int play(struct xsrq *x)
{
	const int all = x->count * x->pp.options.iters;
	int received = 0;

	for (int i = 0; !x->pp.options.server && all && i < x->count; i++)
		if (send_to(x, i))
			return 1;
	while (received < all) {
		struct ibv_wc wc;
		int count;

		if (x->pp.channel && wait_for_event(x))
			return 1;
		if (take_sends(x))
			return 1;
		while ((count = ibv_poll_cq(x->pp.cq, 1, &wc)) > 0) {
			if (take_receive(x, &wc))
				return 1;
			received++;
		}
		if (count < 0) {
			fprintf(stderr, "Error polling cq %d\n", count);
			return 1;
		}
	}
	return wait_sends(x, 0);
}

static int run(struct xsrq *x)
{
	srand48((long)getpid() * time(NULL));
	if (xsrq_open(x))
		return 1;
	for (int i = 0; i < x->count; i++)
		if (post_receive(x))
			return 1;
	if (xsrq_meet(x) || play(x) || xsrq_part(x))
		return 1;
	printf("success\n");
	return 0;
}

int main(int argc, char **argv)
{
	static const struct pp_kind kind = {
	    .type = IBV_QPT_XRC_SEND,
	    .letters = "pdismcnleog",
	    .default_size = 4096,
	};
	struct xsrq x = {.pp.kind = &kind, .domain_fd = -1};
	int rc = pp_parse(&kind, argc, argv, &x.pp.options);

	if (rc)
		return rc;
	x.count = x.pp.options.server ? 1 : x.pp.options.clients;
	rc = run(&x);
	if (x.pp.cq && x.pp.cq_events)
		ibv_ack_cq_events(x.pp.cq, (unsigned int)x.pp.cq_events);
	if (x.send_cq && x.send_events)
		ibv_ack_cq_events(x.send_cq, x.send_events);
	return xsrq_close(&x) || rc;
}
