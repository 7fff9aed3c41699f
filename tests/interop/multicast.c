/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * multicast -d DEVICE -g GID_INDEX -p PORT [SERVER]: datagrams to a multicast group, each way. Who
 * receives is attached to the group and gets them; one who is attached to another group, or has
 * left, does not. The sender is not attached: Soft-RoCE cannot destroy a QP that heard itself.
 */
#define _GNU_SOURCE
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "peer.h"

enum { MESSAGES = 10, LENGTH = 700, GRH = 40, GROUP_QKEY = 0x11111111, QUIET_MS = 300 };

static const char soft_roce[] = "0.0.0"; /* its fw_ver */

static struct ibv_ah *ah;

/* The group of the address family that the GID is of: 239.77.0.n, or ff15::77:n. */
static union ibv_gid group(uint8_t number)
{
	static const uint8_t v4[16] = {[10] = 0xff, 0xff, 239, 77, 0, 0};
	static const uint8_t v6[16] = {0xff, 0x15, [13] = 0x77, 0, 0};
	union ibv_gid gid;
	bool is_v4 = !memcmp(me.gid.raw, v4, 12);

	memcpy(gid.raw, is_v4 ? v4 : v6, sizeof(gid.raw));
	gid.raw[15] = number;
	return gid;
}

/* The interface that has our address. */
static unsigned int interface(void)
{
	struct ifaddrs *list, *each;
	unsigned int index = 0;

	must(!getifaddrs(&list));
	for (each = list; each; each = each->ifa_next) {
		const struct sockaddr_in *v4 = (void *)each->ifa_addr;
		const struct sockaddr_in6 *v6 = (void *)each->ifa_addr;

		if ((v4 && v4->sin_family == AF_INET &&
		     !memcmp(&v4->sin_addr, me.gid.raw + 12, 4)) ||
		    (v6 && v6->sin6_family == AF_INET6 && !memcmp(&v6->sin6_addr, me.gid.raw, 16)))
			index = if_nametoindex(each->ifa_name);
	}
	freeifaddrs(list);
	must(index);
	return index;
}

/* Soft-RoCE takes in what the host takes in: it leaves joining the group to rdma_cm. */
static void join(const union ibv_gid *joined)
{
	struct group_req request = {.gr_interface = interface()};
	struct sockaddr_in *v4 = (void *)&request.gr_group;
	struct sockaddr_in6 *v6 = (void *)&request.gr_group;
	bool is_v4 = joined->raw[0] == 0;
	struct ibv_device_attr attr;
	int fd;

	must(!ibv_query_device(context, &attr));
	if (strcmp(attr.fw_ver, soft_roce))
		return;
	if (is_v4) {
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_addr, joined->raw + 12, 4);
	} else {
		v6->sin6_family = AF_INET6;
		memcpy(&v6->sin6_addr, joined->raw, 16);
	}
	fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM, 0); /* open until the end */
	must(!setsockopt(fd, is_v4 ? IPPROTO_IP : IPPROTO_IPV6, MCAST_JOIN_GROUP, &request,
			 sizeof(request)));
}

static void make_objects(void)
{
	struct ibv_qp_init_attr attr = {
	    .qp_type = IBV_QPT_UD,
	    .cap = {.max_send_wr = 8, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr modify = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = GROUP_QKEY};

	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 128, NULL, NULL, 0);
	memory = aligned_alloc(4096, SIZE);
	must(pd && cq && memory);
	mr = ibv_reg_mr(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE);
	attr.send_cq = attr.recv_cq = cq;
	qp = ibv_create_qp(pd, &attr);
	must(mr && qp);
	must(!ibv_modify_qp(qp, &modify,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	modify.qp_state = IBV_QPS_RTR;
	must(!ibv_modify_qp(qp, &modify, IBV_QP_STATE));
	modify.qp_state = IBV_QPS_RTS;
	must(!ibv_modify_qp(qp, &modify, IBV_QP_STATE | IBV_QP_SQ_PSN));
	me.qpn = qp->qp_num;
}

/* ---- who sends ---- */

static void send_all(const union ibv_gid *to, int gid_index, char seed)
{
	struct ibv_ah_attr attr = {
	    .is_global = 1,
	    .port_num = 1,
	    .grh = {.dgid = *to, .sgid_index = (uint8_t)gid_index, .hop_limit = 1}};

	ah = ibv_create_ah(pd, &attr);
	must(ah);
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = {(uintptr_t)memory, LENGTH, mr->lkey};
		struct ibv_send_wr wr = {.wr_id = 9,
					 .opcode = IBV_WR_SEND_WITH_IMM,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .send_flags = IBV_SEND_SIGNALED,
					 .imm_data = htonl((uint32_t)i)},
				   *bad;
		struct ibv_wc wc;

		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = 0xffffff;
		wr.wr.ud.remote_qkey = GROUP_QKEY;
		memset(memory, seed + i, LENGTH);
		must(!ibv_post_send(qp, &wr, &bad));
		wc = completion();
		must(wc.status == IBV_WC_SUCCESS && wc.wr_id == 9);
	}
	must(!ibv_destroy_ah(ah));
}

static void send_to_groups(int gid_index)
{
	union ibv_gid joined = group(1), other = group(2);

	wait_for_other(); /* attached */
	send_all(&joined, gid_index, 1);
	wait_for_other(); /* received */
	send_all(&other, gid_index, 50);
	wait_for_other(); /* nothing received; it has left */
	send_all(&joined, gid_index, 90);
	wait_for_other();
}

/* ---- who receives ---- */

static void post_receives(void)
{
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = {(uintptr_t)memory + i % 8 * 1024, 1024, mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1}, *bad;

		must(!ibv_post_recv(qp, &wr, &bad));
	}
}

static void receive_all(char seed)
{
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_wc wc = completion();
		const char *data = memory + i % 8 * 1024 + GRH;

		must(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
		must(wc.byte_len == LENGTH + GRH && wc.src_qp == peer.qpn);
		must(wc.wc_flags & IBV_WC_GRH && wc.imm_data == htonl((uint32_t)i));
		if (i >= MESSAGES - 8) /* the others' places have been used again */
			for (int at = 0; at < LENGTH; at++)
				must(data[at] == (char)(seed + i));
	}
}

static void hear_nothing(void)
{
	struct ibv_wc wc;

	usleep(QUIET_MS * 1000);
	must(ibv_poll_cq(cq, 1, &wc) == 0);
}

static void receive_from_group(void)
{
	union ibv_gid joined = group(1);

	post_receives();
	join(&joined);
	must(!ibv_attach_mcast(qp, &joined, 0));
	wait_for_other();
	receive_all(1);
	post_receives();
	wait_for_other();
	hear_nothing(); /* of another group */
	must(!ibv_detach_mcast(qp, &joined, 0));
	wait_for_other();
	hear_nothing(); /* of one that was left */
	wait_for_other();
}

int main(int argc, char **argv)
{
	const char *port, *server;
	int gid_index;

	server = begin(argc, argv, &port, &gid_index);
	make_objects();
	meet(server, port);
	if (server)
		send_to_groups(gid_index);
	else
		receive_from_group();
	must(!ibv_destroy_qp(qp));
	must(!ibv_dereg_mr(mr));
	must(!ibv_destroy_cq(cq));
	must(!ibv_dealloc_pd(pd));
	printf("multicast: all as it should be\n");
	return ibv_close_device(context);
}
