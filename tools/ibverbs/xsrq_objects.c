/* SPDX-License-Identifier: BSD-2-Clause */
/* The objects of ibv_xsrq_pingpong: made in this order and unmade in reverse, and the way from INIT
 * to RTS. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "xsrq.h"

static int fail(const char *message)
{
	fprintf(stderr, "%s\n", message);
	return 1;
}

static int make_buffer(struct xsrq *x)
{
	const struct pp_options *options = &x->pp.options;
	size_t size = 2 * (size_t)options->size;

	x->peers = calloc((size_t)x->count, sizeof(*x->peers));
	for (int i = 0; x->peers && i < x->count; i++)
		x->peers[i].fd = -1;
	if (posix_memalign((void **)&x->pp.buffer, (size_t)sysconf(_SC_PAGESIZE), size ? size : 1))
		x->pp.buffer = NULL;
	if (!x->peers || !x->pp.buffer)
		return fail("Couldn't allocate work buf.");
	memset(x->pp.buffer, 0, size);
	x->receive_area = x->pp.buffer + options->size;
	return 0;
}

static int make_domain(struct xsrq *x)
{
	struct ibv_xrcd_init_attr attr = {
	    .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
	    .oflags = O_CREAT,
	};

	x->domain_fd =
	    open(XSRQ_DOMAIN, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IRGRP);
	if (x->domain_fd < 0) {
		perror("Couldn't open the file of the XRC domain, " XSRQ_DOMAIN);
		return 1;
	}
	attr.fd = x->domain_fd;
	x->xrcd = ibv_open_xrcd(x->pp.context, &attr);
	if (x->xrcd)
		return 0;
	perror("Couldn't open the XRC domain");
	return 1;
}

static int make_queues(struct xsrq *x)
{
	struct ibv_srq_init_attr_ex attr = {
	    .attr = {.max_wr = (uint32_t)x->count, .max_sge = 1},
	    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ |
			 IBV_SRQ_INIT_ATTR_PD,
	    .srq_type = IBV_SRQT_XRC,
	    .xrcd = x->xrcd,
	    .pd = x->pp.pd,
	};

	if (x->pp.options.events) {
		x->pp.channel = ibv_create_comp_channel(x->pp.context);
		if (!x->pp.channel)
			return fail("Couldn't create completion channel");
	}
	x->pp.cq = ibv_create_cq(x->pp.context, x->count, NULL, x->pp.channel, 0);
	if (!x->pp.cq)
		return fail("Couldn't create recv CQ");
	x->send_cq = ibv_create_cq(x->pp.context, 2 * x->count, NULL, x->pp.channel, 0);
	if (!x->send_cq)
		return fail("Couldn't create send CQ");
	if (x->pp.channel && (ibv_req_notify_cq(x->pp.cq, 0) || ibv_req_notify_cq(x->send_cq, 0)))
		return fail("Couldn't request CQ notification");
	attr.cq = x->pp.cq;
	x->pp.srq = ibv_create_srq_ex(x->pp.context, &attr);
	return x->pp.srq ? 0 : fail("Couldn't create SRQ");
}

static int init_qp(const struct xsrq *x, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_INIT,
	    .port_num = (uint8_t)x->pp.options.ib_port,
	};

	if (!ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return 0;
	return fail("Failed to modify QP to INIT");
}

static int make_peer(struct xsrq *x, struct xsrq_peer *peer, const union ibv_gid *gid)
{
	struct ibv_qp_init_attr_ex receiving =
				       {
					   .qp_type = IBV_QPT_XRC_RECV,
					   .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					   .xrcd = x->xrcd,
				       },
				   sending = {
				       .qp_type = IBV_QPT_XRC_SEND,
				       .comp_mask = IBV_QP_INIT_ATTR_PD,
				       .pd = x->pp.pd,
				       .send_cq = x->send_cq,
				       .cap = {.max_send_wr = 2 * (uint32_t)x->count,
					       .max_send_sge = 1},
				   };

	peer->recv = ibv_create_qp_ex(x->pp.context, &receiving);
	if (!peer->recv)
		return fail("Couldn't create TGT QP");
	peer->send = ibv_create_qp_ex(x->pp.context, &sending);
	if (!peer->send)
		return fail("Couldn't create INI QP");
	peer->local = (struct xsrq_address){
	    .path = {.lid = x->pp.port.lid,
		     .qpn = peer->recv->qp_num,
		     .psn = (uint32_t)lrand48() & 0xffffff,
		     .gid = *gid},
	    .send_qpn = peer->send->qp_num,
	};
	if (ibv_get_srq_num(x->pp.srq, &peer->local.srqn))
		return fail("Couldn't get SRQ num");
	return init_qp(x, peer->recv) || init_qp(x, peer->send);
}

int xsrq_open(struct xsrq *x)
{
	struct pingpong *pp = &x->pp;
	int access = IBV_ACCESS_LOCAL_WRITE | (pp->options.odp ? IBV_ACCESS_ON_DEMAND : 0);
	union ibv_gid gid;

	if (make_buffer(x) || pp_open_device(pp) || pp_query_port(pp) || pp_choose_gid(pp, &gid))
		return 1;
	pp->pd = ibv_alloc_pd(pp->context);
	if (!pp->pd)
		return fail("Couldn't allocate PD");
	pp->mr = ibv_reg_mr(pp->pd, pp->buffer, 2 * (size_t)pp->options.size, access);
	if (!pp->mr)
		return fail("Couldn't register MR");
	if (make_domain(x) || make_queues(x))
		return 1;
	for (int i = 0; i < x->count; i++)
		if (make_peer(x, &x->peers[i], &gid))
			return 1;
	return 0;
}

static int to_rtr(const struct xsrq *x, struct ibv_qp *qp, uint32_t remote_qpn,
		  const struct xsrq_peer *peer)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = x->pp.options.mtu,
	    .dest_qp_num = remote_qpn,
	    .rq_psn = peer->remote.path.psn,
	    .min_rnr_timer = 12,
	    .ah_attr = pp_path_to(&x->pp, &peer->remote.path),
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (qp == peer->recv)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp, &attr, mask);
}

static int to_rts(struct ibv_qp *qp, const struct xsrq_peer *peer)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTS,
	    .timeout = 14,
	    .retry_cnt = 7,
	    .rnr_retry = 7,
	    .sq_psn = peer->local.path.psn,
	};
	int mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN;

	if (qp == peer->send)
		mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp, &attr, mask);
}

int xsrq_connect(struct xsrq *x, struct xsrq_peer *peer)
{
	if (to_rtr(x, peer->recv, peer->remote.send_qpn, peer) ||
	    to_rtr(x, peer->send, peer->remote.path.qpn, peer))
		return fail("Failed to modify QP to RTR");
	if (to_rts(peer->recv, peer) || to_rts(peer->send, peer))
		return fail("Failed to modify QP to RTS");
	return 0;
}

static bool destroyed(int rc, const char *what)
{
	if (rc)
		fprintf(stderr, "Couldn't %s\n", what);
	return !rc;
}

static bool close_peer(struct xsrq_peer *peer)
{
	bool ok = true;

	if (peer->fd >= 0)
		close(peer->fd);
	ok &= !peer->send || destroyed(ibv_destroy_qp(peer->send), "destroy INI QP");
	ok &= !peer->recv || destroyed(ibv_destroy_qp(peer->recv), "destroy TGT QP");
	return ok;
}

int xsrq_close(struct xsrq *x)
{
	struct pingpong *pp = &x->pp;
	bool ok = true;

	for (int i = 0; x->peers && i < x->count; i++)
		ok &= close_peer(&x->peers[i]);
	ok &= !pp->srq || destroyed(ibv_destroy_srq(pp->srq), "destroy SRQ");
	ok &= !x->xrcd || destroyed(ibv_close_xrcd(x->xrcd), "close the XRC domain");
	if (x->domain_fd >= 0)
		close(x->domain_fd);
	ok &= !x->send_cq || destroyed(ibv_destroy_cq(x->send_cq), "destroy send CQ");
	ok &= !pp->cq || destroyed(ibv_destroy_cq(pp->cq), "destroy recv CQ");
	ok &= !pp->channel ||
	      destroyed(ibv_destroy_comp_channel(pp->channel), "destroy completion channel");
	ok &= !pp->mr || destroyed(ibv_dereg_mr(pp->mr), "deregister MR");
	ok &= !pp->pd || destroyed(ibv_dealloc_pd(pp->pd), "deallocate PD");
	ok &= !pp->context || destroyed(ibv_close_device(pp->context), "release context");
	free(pp->buffer);
	free(x->peers);
	return !ok;
}
