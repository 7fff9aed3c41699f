/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints and peers of datagram rsockets.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rdmacm/face.h"
#include "rdmacm/rs_endpoint.h"

#define WR_SEND (UINT64_C(1) << 63)

static bool is_same(const union rs_address *a, const union rs_address *b, bool with_port)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (with_port && a->in.sin_port != b->in.sin_port)
		return false;
	return a->any.sa_family == AF_INET
		   ? a->in.sin_addr.s_addr == b->in.sin_addr.s_addr
		   : !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(struct in6_addr));
}

void rs_address_in(union rs_address *address)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = address->in6.sin6_port};

	if (address->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&address->in6.sin6_addr))
		return;
	memcpy(&in.sin_addr, address->in6.sin6_addr.s6_addr + 12, 4);
	memset(address, 0, sizeof(*address));
	address->in = in;
}

void rs_address_out(union rs_address *address, int domain)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = address->in.sin_port};

	if (address->any.sa_family != AF_INET || domain != AF_INET6)
		return;
	in6.sin6_addr.s6_addr[10] = in6.sin6_addr.s6_addr[11] = 0xff;
	memcpy(in6.sin6_addr.s6_addr + 12, &address->in.sin_addr, 4);
	address->in6 = in6;
}

/* ---- endpoints ---- */

static uint8_t *buffer_of(const struct rs_endpoint *endpoint, uint32_t number)
{
	return endpoint->buffers + (size_t)number * RS_MESSAGE_MAX;
}

static int post_receive(struct rs_endpoint *endpoint, uint32_t number)
{
	struct ibv_sge sge = {(uintptr_t)buffer_of(endpoint, number), RS_MESSAGE_MAX,
			      endpoint->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(endpoint->id->qp, &wr, &bad);
}

static int make_queues(struct rsock *rs, struct rs_endpoint *endpoint)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = endpoint};
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = RS_DATAGRAM_QUEUE,
						.max_recv_wr = RS_DATAGRAM_QUEUE,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = IBV_QPT_UD,
					.sq_sig_all = 1};
	size_t bytes = (size_t)2 * RS_DATAGRAM_QUEUE * RS_MESSAGE_MAX;
	struct ibv_port_attr port;
	int error = 0;

	endpoint->comp = ibv_create_comp_channel(endpoint->id->verbs);
	if (!endpoint->comp)
		return errno;
	fcntl(endpoint->comp->fd, F_SETFL, O_NONBLOCK);
	endpoint->cq =
	    ibv_create_cq(endpoint->id->verbs, 2 * RS_DATAGRAM_QUEUE, NULL, endpoint->comp, 0);
	endpoint->buffers = malloc(bytes);
	if (!endpoint->cq || !endpoint->buffers)
		return ENOMEM;
	attr.send_cq = attr.recv_cq = endpoint->cq;
	if (rdma_create_qp(endpoint->id, NULL, &attr))
		return errno;
	endpoint->mr =
	    ibv_reg_mr(endpoint->id->pd, endpoint->buffers, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!endpoint->mr || ibv_query_port(endpoint->id->verbs, 1, &port))
		return errno;
	endpoint->mtu = 128u << port.active_mtu;
	endpoint->sends = RS_DATAGRAM_QUEUE;
	for (uint32_t i = 0; i < RS_DATAGRAM_QUEUE && error == 0; i++)
		error = post_receive(endpoint, i);
	if (error == 0 &&
	    epoll_ctl(rs->datagram->epoll, EPOLL_CTL_ADD, endpoint->comp->fd, &event) < 0)
		error = errno;
	ibv_req_notify_cq(endpoint->cq, 0);
	return error;
}

void rs_endpoint_free(struct rs_endpoint *endpoint)
{
	if (endpoint->id && endpoint->id->qp)
		rdma_destroy_qp(endpoint->id);
	if (endpoint->mr)
		ibv_dereg_mr(endpoint->mr);
	if (endpoint->cq)
		ibv_destroy_cq(endpoint->cq);
	if (endpoint->comp)
		ibv_destroy_comp_channel(endpoint->comp);
	if (endpoint->id)
		rdma_destroy_id(endpoint->id);
	free(endpoint->buffers);
	free(endpoint);
}

static int make_id(struct rsock *rs, struct rs_endpoint *endpoint)
{
	int error;

	if (rdma_create_id(NULL, &endpoint->id, rs, RDMA_PS_UDP) ||
	    rdma_bind_addr(endpoint->id, &endpoint->local.any))
		return errno;
	manager_lock();
	error = id_need_device(id_of(endpoint->id));
	manager_unlock();
	return error;
}

int rs_endpoint_find(struct rsock *rs, const union rs_address *local, struct rs_endpoint **found)
{
	struct rs_endpoint *endpoint;
	int error;

	cds_list_for_each_entry (endpoint, &rs->datagram->endpoints, node)
		if (is_same(&endpoint->local, local, false)) {
			*found = endpoint;
			return 0;
		}
	endpoint = calloc(1, sizeof(*endpoint));
	if (!endpoint)
		return ENOMEM;
	endpoint->local = *local;
	*address_port(&endpoint->local.any) = 0;
	error = make_id(rs, endpoint);
	if (error == 0)
		error = make_queues(rs, endpoint);
	if (error) {
		rs_endpoint_free(endpoint);
		return error;
	}
	cds_list_add(&endpoint->node, &rs->datagram->endpoints);
	*found = endpoint;
	return 0;
}

/* ---- messages ---- */

int rs_letter_put(struct rsock *rs, const union rs_address *from, const void *data, size_t length)
{
	struct rs_letter *letter;

	if (rs->datagram->inbox_count >= RS_INBOX_MAX)
		return ENOBUFS; /* a datagram may get lost */
	letter = malloc(sizeof(*letter) + length);
	if (!letter)
		return ENOMEM;
	letter->from = *from;
	letter->length = length;
	memcpy(letter->data, data, length);
	cds_list_add_tail(&letter->node, &rs->datagram->inbox);
	rs->datagram->inbox_count++;
	rs->news++;
	return 0;
}

/* Version, its own length, and who sent it. */
static size_t read_head(const uint8_t *head, size_t length, union rs_address *from)
{
	memset(from, 0, sizeof(*from));
	if (length >= RS_HEAD_IPV4 && head[0] == 4 && head[1] == RS_HEAD_IPV4) {
		from->in.sin_family = AF_INET;
		memcpy(&from->in.sin_port, head + 2, 2);
		memcpy(&from->in.sin_addr, head + 4, 4);
		return RS_HEAD_IPV4;
	}
	if (length >= RS_HEAD_IPV6 && head[0] == 6 && head[1] == RS_HEAD_IPV6) {
		from->in6.sin6_family = AF_INET6;
		memcpy(&from->in6.sin6_port, head + 2, 2);
		memcpy(&from->in6.sin6_flowinfo, head + 4, 4);
		memcpy(&from->in6.sin6_addr, head + 8, 16);
		return RS_HEAD_IPV6;
	}
	return 0;
}

static size_t write_head(uint8_t *head, const union rs_address *local, __be16 port)
{
	memcpy(head + 2, &port, 2);
	if (local->any.sa_family == AF_INET) {
		head[0] = 4;
		head[1] = RS_HEAD_IPV4;
		memcpy(head + 4, &local->in.sin_addr, 4);
		return RS_HEAD_IPV4;
	}
	head[0] = 6;
	head[1] = RS_HEAD_IPV6;
	memset(head + 4, 0, 4);
	memcpy(head + 8, &local->in6.sin6_addr, 16);
	return RS_HEAD_IPV6;
}

static void take(struct rsock *rs, struct rs_endpoint *endpoint, const struct ibv_wc *wc)
{
	const uint8_t *message;
	union rs_address from;
	size_t head, length;

	if (wc->wr_id & WR_SEND) {
		endpoint->sends++;
		return;
	}
	if (wc->status != IBV_WC_SUCCESS)
		return;
	message = buffer_of(endpoint, (uint32_t)wc->wr_id) + RS_GRH;
	length = wc->byte_len - RS_GRH;
	head = read_head(message, length, &from);
	if (head)
		rs_letter_put(rs, &from, message + head, length - head);
	post_receive(endpoint, (uint32_t)wc->wr_id);
}

void rs_endpoints_progress(struct rsock *rs)
{
	struct rs_endpoint *endpoint;

	cds_list_for_each_entry (endpoint, &rs->datagram->endpoints, node) {
		struct ibv_wc wc;

		while (ibv_poll_cq(endpoint->cq, 1, &wc) > 0)
			take(rs, endpoint, &wc);
	}
}

int rs_endpoint_send(struct rs_peer *peer, const struct rsock *rs, const void *data, size_t length)
{
	struct rs_endpoint *endpoint = peer->endpoint;
	uint8_t *message = buffer_of(endpoint, RS_DATAGRAM_QUEUE + endpoint->next);
	union rs_address own;
	socklen_t own_length = sizeof(own);
	struct ibv_sge sge = {(uintptr_t)message, 0, endpoint->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = WR_SEND,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .wr.ud = {peer->ah, peer->qpn, RDMA_UDP_QKEY}},
			   *bad;
	size_t head;

	if (length + RS_HEAD_IPV6 > endpoint->mtu)
		return EMSGSIZE;
	if (!endpoint->sends)
		return EAGAIN;
	if (getsockname(rs->fd, &own.any, &own_length) < 0)
		return errno;
	head = write_head(message, &endpoint->local, own.in.sin_port);
	memcpy(message + head, data, length);
	sge.length = (uint32_t)(head + length);
	endpoint->sends--;
	endpoint->next = (endpoint->next + 1) % RS_DATAGRAM_QUEUE;
	return ibv_post_send(endpoint->id->qp, &wr, &bad);
}

/* ---- peers ---- */

/* From which of our addresses the kernel's routes lead there. */
static int find_local(const struct rsock *rs, const union rs_address *address,
		      union rs_address *local)
{
	socklen_t length = sizeof(*local);
	int error = 0;
	int fd;

	if (getsockname(rs->fd, &local->any, &length) == 0 && !address_is_any(&local->any)) {
		rs_address_in(local);
		return 0;
	}
	fd = socket(address->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	length = sizeof(*local);
	if (fd < 0)
		return errno;
	if (connect(fd, &address->any, address_length(&address->any)) < 0 ||
	    getsockname(fd, &local->any, &length) < 0)
		error = errno;
	close(fd);
	return error;
}

int rs_peer_find(struct rsock *rs, const union rs_address *address, struct rs_peer **found)
{
	union rs_address local;
	struct rs_peer *peer;
	int error;

	cds_list_for_each_entry (peer, &rs->datagram->peers, node)
		if (is_same(&peer->address, address, true)) {
			*found = peer;
			return 0;
		}
	memset(&local, 0, sizeof(local));
	error = find_local(rs, address, &local);
	if (error)
		return error;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return ENOMEM;
	peer->address = *address;
	error = rs_endpoint_find(rs, &local, &peer->endpoint);
	if (error) {
		free(peer);
		return error;
	}
	cds_list_add(&peer->node, &rs->datagram->peers);
	*found = peer;
	return 0;
}

int rs_peer_answered(struct rsock *rs, struct rs_peer *peer, uint32_t qpn)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 64};
	struct id *id = id_of(peer->endpoint->id);

	if (peer->ah && peer->qpn == qpn)
		return 0;
	if (peer->ah)
		ibv_destroy_ah(peer->ah);
	gid_of_address(&peer->address.any, &attr.grh.dgid);
	attr.grh.sgid_index = (uint8_t)id->sgid_index;
	peer->ah = ibv_create_ah(id->cm.pd, &attr);
	peer->qpn = qpn;
	return peer->ah ? 0 : errno;
}
