// SPDX-License-Identifier: BSD-2-Clause
/*
 * A program as people write them for rdma-core: a device, a connected QP, sends and receives,
 * events. It is compiled, against our headers and the system's, and not run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <infiniband/verbs.h>

struct endpoint {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	char buffer[4096];
};

static int open_first(struct endpoint *e)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !list[0])
		return -1;
	printf("%s %016llx\n", ibv_get_device_name(list[0]),
	       (unsigned long long)ibv_get_device_guid(list[0]));
	e->context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	return e->context ? 0 : -1;
}

static int create(struct endpoint *e, int access)
{
	struct ibv_qp_init_attr init = {
	    .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC};
	struct ibv_port_attr port;
	struct ibv_device_attr_ex device;
	union ibv_gid gid;

	if (ibv_query_port(e->context, 1, &port) || ibv_query_device_ex(e->context, NULL, &device))
		return -1;
	if (port.state != IBV_PORT_ACTIVE || port.link_layer != IBV_LINK_LAYER_ETHERNET)
		return -1;
	e->pd = ibv_alloc_pd(e->context);
	e->mr = ibv_reg_mr(e->pd, e->buffer, sizeof(e->buffer), IBV_ACCESS_LOCAL_WRITE);
	e->mr = ibv_reg_mr(e->pd, e->buffer, sizeof(e->buffer), access);
	e->mr = ibv_reg_mr_iova(e->pd, e->buffer, sizeof(e->buffer), 0, access);
	e->channel = ibv_create_comp_channel(e->context);
	init.send_cq = init.recv_cq = e->cq = ibv_create_cq(e->context, 32, e, e->channel, 0);
	e->qp = ibv_create_qp(e->pd, &init);
	return e->qp ? ibv_query_gid(e->context, 1, 0, &gid) : -1;
}

static int connect_to(struct endpoint *e, uint32_t qpn, union ibv_gid gid)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = qpn,
	    .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}},
	};

	return ibv_modify_qp(e->qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int exchange(struct endpoint *e)
{
	struct ibv_sge sge = {(uintptr_t)e->buffer, sizeof(e->buffer), e->mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND_WITH_IMM,
				   .send_flags = IBV_SEND_SIGNALED,
				   .imm_data = 7};
	struct ibv_send_wr *bad_send;
	struct ibv_wc wc[2];
	struct ibv_cq *cq;
	void *context;
	int n;

	send.wr.rdma.remote_addr = 1;
	if (ibv_post_recv(e->qp, &recv, &bad_recv) || ibv_req_notify_cq(e->cq, 0) ||
	    ibv_post_send(e->qp, &send, &bad_send) || ibv_get_cq_event(e->channel, &cq, &context))
		return -1;
	ibv_ack_cq_events(cq, 1);
	n = ibv_poll_cq(cq, 2, wc);
	for (int i = 0; i < n; i++)
		if (wc[i].status != IBV_WC_SUCCESS || (wc[i].opcode & IBV_WC_RECV))
			fprintf(stderr, "%s %u\n", ibv_wc_status_str(wc[i].status), wc[i].imm_data);
	return n;
}

int main(void)
{
	struct endpoint *e = calloc(1, sizeof(*e));
	struct ibv_async_event event;
	union ibv_gid gid = {.raw = {0}};

	if (!e || open_first(e) || create(e, rand()) || connect_to(e, 1, gid) || exchange(e) < 0)
		return 1;
	if (!ibv_get_async_event(e->context, &event)) {
		puts(ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
	ibv_destroy_qp(e->qp);
	ibv_destroy_cq(e->cq);
	ibv_destroy_comp_channel(e->channel);
	ibv_dereg_mr(e->mr);
	ibv_dealloc_pd(e->pd);
	return ibv_close_device(e->context);
}
