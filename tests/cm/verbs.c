/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What <rdma/rdma_verbs.h> does with ids, and the calls of <rdma/rdma_cma.h> that go with a
 * connection that is there: both ends in one process, and each call also as it refuses.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "own_network.h"
#include "refused.h"

enum { PORT = 7201, WORK = 4, BYTES = 64 };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener, *a, *b;
static char there[BYTES], here[BYTES];
static struct ibv_mr *there_mr, *here_mr;

static struct sockaddr_in at(const char *ip, uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, ip, &address.sin_addr);
	return address;
}

static struct rdma_cm_event *next(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
	return event;
}

static struct rdma_cm_id *expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = next(type);
	struct rdma_cm_id *id = event->id;

	assert_int_equal(rdma_ack_cm_event(event), 0);
	return id;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.cap = {WORK, WORK, 2, 2, 0}, .sq_sig_all = 1};

	attr.qp_type = id->qp_type;
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

static int listen_here(void **state)
{
	struct sockaddr_in address = at("127.0.0.1", PORT);

	if (interface_up("lo") < 0)
		return -1;
	channel = rdma_create_event_channel();
	return !channel || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	       rdma_bind_addr(listener, (struct sockaddr *)&address) || rdma_listen(listener, 4);
}

static int stop(void **state)
{
	int rc = rdma_destroy_id(listener);

	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(NULL);
	return rc;
}

static struct rdma_cm_id *resolved(enum rdma_port_space ps)
{
	struct sockaddr_in address = at("127.0.0.1", PORT);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, ps), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

static void connect_with(uint8_t depth)
{
	struct rdma_conn_param param = {.responder_resources = depth,
					.initiator_depth = depth,
					.retry_count = 7,
					.rnr_retry_count = 7};

	a = resolved(RDMA_PS_TCP);
	make_qp(a);
	assert_int_equal(rdma_connect(a, &param), 0);
	b = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	make_qp(b);
	assert_int_equal(rdma_accept(b, &param), 0);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	expect(RDMA_CM_EVENT_ESTABLISHED);
}

static int connect_both(void **state)
{
	connect_with(2);
	memset(here, 0, sizeof(here));
	memset(there, 0, sizeof(there));
	here_mr = rdma_reg_msgs(a, here, sizeof(here));
	there_mr = rdma_reg_write(b, there, sizeof(there));
	return !here_mr || !there_mr;
}

static void part(void)
{
	rdma_disconnect(a);
	expect(RDMA_CM_EVENT_DISCONNECTED);
	rdma_disconnect(b);
	expect(RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(a);
	rdma_destroy_qp(b);
	assert_int_equal(rdma_destroy_id(a) | rdma_destroy_id(b), 0);
}

static int part_both(void **state)
{
	int rc = rdma_dereg_mr(here_mr) | rdma_dereg_mr(there_mr);

	part();
	return rc;
}

static void sent(struct rdma_cm_id *id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(wc.status, status);
}

static void received(struct rdma_cm_id *id, uint32_t length)
{
	struct ibv_wc wc;

	assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, length);
}

/* ---- work ---- */

static void messages_go_with_one_buffer_and_with_several(void **state)
{
	struct ibv_sge in[2] = {{(uintptr_t)there, 3, there_mr->lkey},
				{(uintptr_t)there + 10, 3, there_mr->lkey}};
	struct ibv_sge out[2] = {{(uintptr_t)here, 2, here_mr->lkey},
				 {(uintptr_t)here + 4, 4, here_mr->lkey}};

	memcpy(here, "abcdefgh", 8);
	assert_int_equal(rdma_post_recv(b, NULL, there, BYTES, there_mr), 0);
	assert_int_equal(rdma_post_send(a, NULL, here, 5, here_mr, 0), 0);
	sent(a, IBV_WC_SUCCESS);
	received(b, 5);
	assert_memory_equal(there, "abcde", 5);
	assert_int_equal(rdma_post_recvv(b, NULL, in, 2), 0);
	assert_int_equal(rdma_post_sendv(a, NULL, out, 2, 0), 0);
	sent(a, IBV_WC_SUCCESS);
	received(b, 6);
	assert_memory_equal(there, "abe", 3);
	assert_memory_equal(there + 10, "fgh", 3);
}

static void memory_is_read_and_written(void **state)
{
	struct ibv_sge list = {(uintptr_t)here, 4, here_mr->lkey};
	struct ibv_mr *readable = rdma_reg_read(b, there, BYTES);
	uint64_t remote = (uintptr_t)there;

	assert_non_null(readable);
	memcpy(here, "data", 4);
	assert_int_equal(rdma_post_write(a, NULL, here, 4, here_mr, 0, remote, there_mr->rkey), 0);
	sent(a, IBV_WC_SUCCESS);
	assert_memory_equal(there, "data", 4);
	memcpy(there + 8, "back", 4);
	assert_int_equal(rdma_post_read(a, NULL, here, 4, here_mr, 0, remote + 8, readable->rkey),
			 0);
	sent(a, IBV_WC_SUCCESS);
	assert_memory_equal(here, "back", 4);
	assert_int_equal(rdma_post_writev(a, NULL, &list, 1, 0, remote + 16, there_mr->rkey), 0);
	sent(a, IBV_WC_SUCCESS);
	assert_memory_equal(there + 16, "back", 4);
	memcpy(there + 8, "list", 4);
	assert_int_equal(rdma_post_readv(a, NULL, &list, 1, 0, remote + 8, readable->rkey), 0);
	sent(a, IBV_WC_SUCCESS);
	assert_memory_equal(here, "list", 4);
	assert_int_equal(rdma_dereg_mr(readable), 0);
}

/* Registered for reading is not for writing. */
static void what_is_not_allowed_ends_the_connection(void **state)
{
	struct ibv_mr *readable = rdma_reg_read(b, there, BYTES);

	assert_int_equal(
	    rdma_post_write(a, NULL, here, 4, here_mr, 0, (uintptr_t)there, readable->rkey), 0);
	sent(a, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(rdma_dereg_mr(readable), 0);
}

static void posting_refuses_more_than_there_is_room_for(void **state)
{
	struct ibv_sge many[8] = {{0}};
	uint64_t remote = (uintptr_t)there;
	uint32_t key = there_mr->rkey;

	refused(rdma_post_recvv(b, NULL, many, 8), EINVAL);
	refused(rdma_post_sendv(a, NULL, many, 8, 0), EINVAL);
	refused(rdma_post_readv(a, NULL, many, 8, 0, remote, key), EINVAL);
	refused(rdma_post_writev(a, NULL, many, 8, 0, remote, key), EINVAL);
	for (int i = 0; i < WORK; i++)
		assert_int_equal(rdma_post_recv(b, NULL, there, BYTES, there_mr), 0);
	refused(rdma_post_recv(b, NULL, there, BYTES, there_mr), ENOMEM);
	assert_int_equal(rdma_seterrno(0), 0);
	refused(rdma_seterrno(EIO), EIO);
}

static void posting_refuses_before_there_is_a_connection(void **state)
{
	struct rdma_cm_id *id = resolved(RDMA_PS_TCP);
	struct ibv_mr *mr;

	make_qp(id);
	mr = rdma_reg_msgs(id, here, BYTES);
	assert_non_null(mr);
	refused(rdma_post_send(id, NULL, here, 1, mr, 0), EINVAL);
	refused(rdma_post_read(id, NULL, here, 1, mr, 0, 0, 0), EINVAL);
	refused(rdma_post_write(id, NULL, here, 1, mr, 0, 0, 0), EINVAL);
	assert_int_equal(rdma_dereg_mr(mr), 0);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void nothing_unmapped_is_registered(void **state)
{
	void *nowhere = (void *)(uintptr_t)4096;

	assert_null(rdma_reg_msgs(a, nowhere, BYTES));
	assert_int_equal(errno, EFAULT);
	assert_null(rdma_reg_read(a, nowhere, BYTES));
	assert_null(rdma_reg_write(a, nowhere, BYTES));
}

static void completions_that_are_not_there_are_eagain(void **state)
{
	struct ibv_wc wc;

	assert_int_equal(fcntl(a->send_cq_channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(fcntl(a->recv_cq_channel->fd, F_SETFL, O_NONBLOCK), 0);
	refused(rdma_get_send_comp(a, &wc), EAGAIN);
	refused(rdma_get_recv_comp(a, &wc), EAGAIN);
}

static void a_queue_that_overran_is_eoverflow(void **state)
{
	struct ibv_comp_channel *events = ibv_create_comp_channel(a->verbs);
	struct ibv_cq *little = ibv_create_cq(a->verbs, 1, NULL, events, 0), *own = a->send_cq;
	struct ibv_qp_init_attr attr = {.cap = {8, 8, 1, 1, 0}, .sq_sig_all = 1};
	struct rdma_cm_id *id = resolved(RDMA_PS_UDP);
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_wc wc;
	int rc = 1;

	attr.qp_type = IBV_QPT_UD;
	attr.send_cq = attr.recv_cq = little;
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(ibv_post_recv(id->qp, &wr, &bad), 0);
	assert_int_equal(
	    ibv_modify_qp(id->qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE), 0);
	id->send_cq = little;
	for (int i = 0; i < 16 && rc == 1; i++)
		rc = rdma_get_send_comp(id, &wc);
	assert_int_equal(rc, -1);
	assert_int_equal(errno, EOVERFLOW);
	id->send_cq = NULL;
	a->send_cq = own;
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(ibv_destroy_cq(little) | ibv_destroy_comp_channel(events), 0);
}

/* ---- queues ---- */

static unsigned int access_of(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_ACCESS_FLAGS, &init), 0);
	return attr.qp_access_flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE);
}

static void a_qp_allows_what_its_connection_says(void **state)
{
	connect_with(0);
	assert_int_equal(access_of(a), IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(access_of(b), IBV_ACCESS_REMOTE_WRITE);
	part();
	connect_with(1);
	assert_int_equal(access_of(a), IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					   IBV_ACCESS_REMOTE_ATOMIC);
	assert_int_equal(access_of(b), access_of(a));
	part();
}

static void the_attributes_of_each_state_are_told(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int mask = 0;

	assert_int_equal(rdma_init_qp_attr(a, &attr, &mask), 0);
	assert_true(mask & IBV_QP_AV && mask & IBV_QP_DEST_QPN && mask & IBV_QP_RQ_PSN);
	assert_int_equal(attr.dest_qp_num, b->qp->qp_num);
	assert_memory_equal(&attr.ah_attr.grh.dgid, &a->route.addr.addr.ibaddr.dgid, 16);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(rdma_init_qp_attr(a, &attr, &mask), 0);
	assert_true(mask & IBV_QP_TIMEOUT && mask & IBV_QP_RETRY_CNT && mask & IBV_QP_SQ_PSN);
	attr.qp_state = IBV_QPS_SQD;
	refused(rdma_init_qp_attr(a, &attr, &mask), EINVAL);
}

static void a_qp_is_made_once_and_of_the_ids_device(void **state)
{
	struct rdma_cm_id *nowhere, *id = resolved(RDMA_PS_TCP);
	struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_qp_init_attr_ex full = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	assert_int_equal(rdma_create_id(channel, &nowhere, NULL, RDMA_PS_TCP), 0);
	refused(rdma_create_qp(nowhere, NULL, &attr), EINVAL);
	refused(rdma_create_qp_ex(nowhere, &full), EINVAL);
	assert_int_equal(rdma_create_qp_ex(id, &full), 0);
	assert_non_null(id->qp);
	assert_non_null(id->send_cq_channel);
	refused(rdma_create_qp(id, NULL, &attr), EINVAL);
	rdma_destroy_qp(id);
	assert_null(id->qp);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id) | rdma_destroy_id(nowhere), 0);
}

static void an_srq_is_what_the_ids_qp_receives_from(void **state)
{
	struct rdma_cm_id *nowhere, *id = resolved(RDMA_PS_TCP);
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq_init_attr_ex full = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_mr *mr;

	assert_int_equal(rdma_create_id(channel, &nowhere, NULL, RDMA_PS_TCP), 0);
	refused(rdma_create_srq(nowhere, NULL, &attr), EINVAL);
	refused(rdma_create_srq_ex(nowhere, &full), EINVAL);
	assert_int_equal(rdma_create_srq(id, NULL, &attr), 0);
	make_qp(id);
	assert_ptr_equal(id->qp->srq, id->srq);
	mr = rdma_reg_msgs(id, here, BYTES);
	assert_int_equal(rdma_post_recv(id, NULL, here, BYTES, mr), 0);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_dereg_mr(mr), 0);
	rdma_destroy_srq(id);
	assert_null(id->srq);
	assert_int_equal(rdma_create_srq_ex(id, &full), 0);
	rdma_destroy_srq(id);
	assert_int_equal(rdma_destroy_id(id) | rdma_destroy_id(nowhere), 0);
}

/* ---- ids ---- */

static void each_end_knows_both_addresses(void **state)
{
	struct sockaddr_in *own = (struct sockaddr_in *)rdma_get_local_addr(b);
	struct sockaddr_in *peer = (struct sockaddr_in *)rdma_get_peer_addr(b);

	assert_int_equal(ntohs(rdma_get_dst_port(a)), PORT);
	assert_int_equal(own->sin_port, rdma_get_dst_port(a));
	assert_int_equal(peer->sin_port, rdma_get_src_port(a));
	assert_int_equal(rdma_get_dst_port(b), rdma_get_src_port(a));
	assert_int_equal(ntohl(peer->sin_addr.s_addr), INADDR_LOOPBACK);
}

static void devices_are_told_and_stay_open(void **state)
{
	int count = -1;
	struct ibv_context **list = rdma_get_devices(&count);
	bool has_ours = false;

	assert_non_null(list);
	assert_true(count > 0);
	assert_null(list[count]);
	for (int i = 0; i < count; i++)
		has_ours |= list[i] == a->verbs;
	assert_true(has_ours);
	rdma_free_devices(list);
	rdma_free_devices(rdma_get_devices(NULL));
	rdma_freeaddrinfo(NULL);
}

static void an_early_packet_is_as_good_as_the_rtu(void **state)
{
	refused(rdma_notify(a, IBV_EVENT_PATH_MIG), EINVAL);
	assert_int_equal(rdma_notify(a, IBV_EVENT_COMM_EST), 0);
	assert_int_equal(rdma_notify(b, IBV_EVENT_COMM_EST), 0);
}

static void a_request_is_rejected_for_its_enhancements(void **state)
{
	struct rdma_cm_id *id = resolved(RDMA_PS_TCP), *request;
	struct rdma_cm_event *event;

	make_qp(id);
	refused(rdma_reject_ece(id, NULL, 0), EINVAL);
	assert_int_equal(rdma_connect(id, NULL), 0);
	request = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(rdma_reject_ece(request, "no", 3), 0);
	event = next(RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event->status, 35);
	assert_string_equal(event->param.conn.private_data, "no");
	rdma_ack_cm_event(event);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(request) | rdma_destroy_id(id), 0);
}

static void groups_are_joined_and_left(void **state)
{
	struct sockaddr_in group = at("239.1.2.3", 0), other = at("239.1.2.4", 0);
	struct rdma_cm_join_mc_attr_ex attr = {
	    .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
	    .join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
	    .addr = (struct sockaddr *)&other,
	};
	struct rdma_cm_id *id = resolved(RDMA_PS_UDP);
	struct rdma_cm_event *event;

	make_qp(id);
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, &group), 0);
	event = next(RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_ptr_equal(event->param.ud.private_data, &group);
	assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), 0);
	expect(RDMA_CM_EVENT_MULTICAST_JOIN);
	attr.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
	refused(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	refused(rdma_leave_multicast(id, (struct sockaddr *)&group), EADDRNOTAVAIL);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&other), 0);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void datagrams_are_posted_with_their_address(void **state)
{
	struct rdma_cm_id *from = resolved(RDMA_PS_UDP), *to = resolved(RDMA_PS_UDP);
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct ibv_mr *in, *out;
	struct ibv_ah *ah;

	make_qp(from);
	make_qp(to);
	attr.grh.dgid = from->route.addr.addr.ibaddr.sgid;
	attr.grh.hop_limit = 1;
	for (int i = 0; i < 16; i++) {
		union ibv_gid gid;

		if (ibv_query_gid(from->verbs, 1, i, &gid) == 0 &&
		    memcmp(&gid, &attr.grh.dgid, sizeof(gid)) == 0)
			attr.grh.sgid_index = (uint8_t)i;
	}
	ah = ibv_create_ah(from->pd, &attr);
	in = rdma_reg_msgs(to, there, BYTES);
	out = rdma_reg_msgs(from, here, BYTES);
	assert_true(ah && in && out);
	assert_int_equal(rdma_post_recv(to, NULL, there, BYTES, in), 0);
	memcpy(here, "datagram", 8);
	assert_int_equal(rdma_post_ud_send(from, NULL, here, 8, out, 0, ah, to->qp->qp_num), 0);
	sent(from, IBV_WC_SUCCESS);
	received(to, 40 + 8);
	assert_memory_equal(there + 40, "datagram", 8);
	for (int i = 0; i < WORK; i++)
		rdma_post_recv(to, NULL, there, BYTES, in);
	assert_int_equal(
	    ibv_modify_qp(from->qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE),
	    0);
	refused(rdma_post_ud_send(from, NULL, here, 8, out, 0, ah, to->qp->qp_num), EINVAL);
	assert_int_equal(ibv_destroy_ah(ah) | rdma_dereg_mr(in) | rdma_dereg_mr(out), 0);
	rdma_destroy_qp(from);
	rdma_destroy_qp(to);
	assert_int_equal(rdma_destroy_id(from) | rdma_destroy_id(to), 0);
}

/* ---- endpoints ---- */

static void an_endpoint_that_cannot_be_leaves_nothing(void **state)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE | RAI_NUMERICHOST,
				      .ai_port_space = RDMA_PS_TCP};
	struct ibv_qp_init_attr attr = {.cap = {1 << 30, 1, 1, 1, 0}};
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;

	assert_int_equal(rdma_getaddrinfo("203.0.113.7", "80", &hints, &info), 0);
	refused(rdma_create_ep(&id, info, NULL, &attr), ENODEV);
	rdma_freeaddrinfo(info);
	hints.ai_flags = RAI_NUMERICHOST;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7201", &hints, &info), 0);
	refused(rdma_create_ep(&id, info, NULL, &attr), EINVAL);
	attr.cap.max_send_wr = 1;
	assert_int_equal(rdma_create_ep(&id, info, NULL, &attr), 0);
	assert_non_null(id->qp);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(info);
}

#define CONNECTED(test) cmocka_unit_test_setup_teardown(test, connect_both, part_both)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CONNECTED(messages_go_with_one_buffer_and_with_several),
	    CONNECTED(memory_is_read_and_written),
	    CONNECTED(what_is_not_allowed_ends_the_connection),
	    CONNECTED(posting_refuses_more_than_there_is_room_for),
	    CONNECTED(posting_refuses_before_there_is_a_connection),
	    CONNECTED(nothing_unmapped_is_registered),
	    CONNECTED(completions_that_are_not_there_are_eagain),
	    CONNECTED(a_queue_that_overran_is_eoverflow),
	    cmocka_unit_test(a_qp_allows_what_its_connection_says),
	    CONNECTED(the_attributes_of_each_state_are_told),
	    CONNECTED(a_qp_is_made_once_and_of_the_ids_device),
	    CONNECTED(an_srq_is_what_the_ids_qp_receives_from),
	    CONNECTED(each_end_knows_both_addresses),
	    CONNECTED(devices_are_told_and_stay_open),
	    CONNECTED(an_early_packet_is_as_good_as_the_rtu),
	    CONNECTED(a_request_is_rejected_for_its_enhancements),
	    CONNECTED(groups_are_joined_and_left),
	    CONNECTED(datagrams_are_posted_with_their_address),
	    CONNECTED(an_endpoint_that_cannot_be_leaves_nothing),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, listen_here, stop);
}
