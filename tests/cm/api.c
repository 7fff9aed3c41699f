/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm's calls, within one process: what they refuse and how, ports, options, private data to
 * its limits, and what goes with a connection.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/ib.h>
#include <infiniband/sa.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>

#include "own_network.h"
#include "refused.h"

static struct rdma_event_channel *channel;

static struct sockaddr_in at(const char *ip, uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, ip, &address.sin_addr);
	return address;
}

static struct rdma_cm_id *new_id(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, ps), 0);
	return id;
}

static struct rdma_cm_id *listen_at(const char *ip, uint16_t port, int backlog)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct sockaddr_in address = at(ip, port);

	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_listen(id, backlog), 0);
	return id;
}

static struct rdma_cm_event *next_event(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_int_equal(event->event, type);
	return event;
}

static void expect(enum rdma_cm_event_type type)
{
	assert_int_equal(rdma_ack_cm_event(next_event(type)), 0);
}

static struct rdma_cm_id *route_to(uint16_t port)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct sockaddr_in address = at("127.0.0.1", port);

	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 100), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 100), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

static void destroy(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static int open_channel(void **state)
{
	if (interface_up("lo") < 0)
		return -1;
	channel = rdma_create_event_channel();
	return !channel;
}

static int close_channel(void **state)
{
	rdma_destroy_event_channel(channel);
	return 0;
}

/* ---- what is refused ---- */

static void arguments_that_make_no_sense_are_refused(void **state)
{
	struct sockaddr_storage strange = {.ss_family = AF_UNIX};
	struct sockaddr_in nowhere = at("203.0.113.7", 0);
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct rdma_cm_event *event;
	struct rdma_addrinfo *info;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct ibv_ece ece = {0};
	int mask, number = 1;

	refused(rdma_create_id(channel, &id, NULL, 0x7777), EPROTONOSUPPORT);
	refused(rdma_bind_addr(id, NULL), EINVAL);
	refused(rdma_bind_addr(id, (struct sockaddr *)&strange), EAFNOSUPPORT);
	refused(rdma_bind_addr(id, (struct sockaddr *)&nowhere), ENODEV);
	refused(rdma_resolve_addr(id, NULL, NULL, 100), EINVAL);
	refused(rdma_resolve_addr(id, NULL, (struct sockaddr *)&strange, 100), EAFNOSUPPORT);
	refused(rdma_init_qp_attr(id, NULL, &mask), EINVAL);
	refused(rdma_init_qp_attr(id, &attr, &mask), EINVAL);
	refused(rdma_set_option(id, 99, 0, &number, sizeof(number)), ENOSYS);
	refused(rdma_set_option(id, RDMA_OPTION_ID, 99, &number, sizeof(number)), ENOSYS);
	refused(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &number, sizeof(number)),
		EINVAL);
	refused(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1), EINVAL);
	refused(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &number, sizeof(number)),
		EINVAL);
	refused(rdma_set_local_ece(id, &ece), EINVAL);
	refused(rdma_get_remote_ece(id, NULL), EINVAL);
	refused(rdma_query_addrinfo(id, &info), ENODATA);
	refused(rdma_resolve_addrinfo(id, NULL, NULL, NULL), EINVAL);
	refused(rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), EINVAL);
	refused(rdma_get_cm_event(NULL, &event), EINVAL);
	refused(rdma_ack_cm_event(NULL), EINVAL);
	refused(rdma_getaddrinfo(NULL, NULL, NULL, &info), EINVAL);
	assert_int_not_equal(rdma_getaddrinfo("no such host.", "1", NULL, &info), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void calls_in_the_wrong_state_are_refused(void **state)
{
	struct rdma_cm_join_mc_attr_ex join = {.comp_mask = 0x80};
	struct sockaddr_in group = at("239.1.1.1", 0);
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP), *other;
	struct rdma_conn_param param = {0};

	refused(rdma_resolve_route(id, 100), EINVAL);
	refused(rdma_connect(id, &param), EINVAL);
	refused(rdma_accept(id, &param), EINVAL);
	refused(rdma_establish(id), EINVAL);
	refused(rdma_reject(id, NULL, 0), EINVAL);
	refused(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	refused(rdma_disconnect(id), EINVAL);
	refused(rdma_get_request(id, &other), EINVAL);
	refused(rdma_join_multicast_ex(id, &join, NULL), EINVAL);
	refused(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), EINVAL);
	refused(rdma_leave_multicast(id, (struct sockaddr *)&group), EADDRNOTAVAIL);
	assert_int_equal(rdma_listen(id, 1), 0);
	refused(rdma_listen(id, 1), EINVAL);
	refused(rdma_connect(id, &param), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	refused(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	refused(rsocket(AF_INET, SOCK_RAW, 0), EPROTONOSUPPORT);
}

static void descriptors_that_are_no_rsockets_are_refused(void **state)
{
	struct sockaddr_in address = at("127.0.0.1", 1);
	socklen_t length = sizeof(address);
	struct epoll_event event = {0};
	struct iovec iov = {0};
	struct msghdr message = {0};
	int number = 0;
	char byte = 0;

	refused(rbind(99, (struct sockaddr *)&address, length), EBADF);
	refused(rlisten(99, 1), EBADF);
	refused(raccept(99, NULL, NULL), EBADF);
	refused(rconnect(99, (struct sockaddr *)&address, length), EBADF);
	refused(rshutdown(99, SHUT_WR), EBADF);
	refused(rclose(99), EBADF);
	refused(rrecv(99, &byte, 1, 0), EBADF);
	refused(rsend(99, &byte, 1, 0), EBADF);
	refused(rrecvmsg(99, &message, 0), EBADF);
	refused(rsendmsg(99, &message, 0), EBADF);
	refused(rreadv(99, &iov, 1), EBADF);
	refused(rwritev(99, &iov, 1), EBADF);
	refused(rgetpeername(99, (struct sockaddr *)&address, &length), EBADF);
	refused(rgetsockname(99, (struct sockaddr *)&address, &length), EBADF);
	refused(rsetsockopt(99, SOL_SOCKET, SO_REUSEADDR, &number, sizeof(number)), EBADF);
	refused(rgetsockopt(99, SOL_SOCKET, SO_ERROR, &number, &length), EBADF);
	refused(rfcntl(99, F_GETFL, 0), EBADF);
	refused((int)riomap(99, &byte, 1, PROT_WRITE, 0, 0), EBADF);
	refused(riounmap(99, &byte, 1), EBADF);
	refused((int)riowrite(99, &byte, 1, 0, 0), EBADF);
	refused(repoll_ctl(99, EPOLL_CTL_ADD, 0, &event), EBADF);
	refused(repoll_wait(99, &event, 1, 0), EBADF);
}

/* ---- ports ---- */

static void a_port_is_taken_once(void **state)
{
	struct rdma_cm_id *first = listen_at("127.0.0.1", 5001, 1), *second = new_id(RDMA_PS_TCP);
	struct sockaddr_in same = at("127.0.0.1", 5001), any = at("0.0.0.0", 5001);
	int one = 1;

	refused(rdma_bind_addr(second, (struct sockaddr *)&same), EADDRINUSE);
	refused(rdma_bind_addr(second, (struct sockaddr *)&any), EADDRINUSE);
	assert_int_equal(
	    rdma_set_option(second, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof(one)),
	    0);
	refused(rdma_bind_addr(second, (struct sockaddr *)&same), EADDRINUSE);
	assert_int_equal(rdma_destroy_id(first), 0);
	assert_int_equal(rdma_bind_addr(second, (struct sockaddr *)&any), 0);
	assert_int_equal(ntohs(rdma_get_src_port(second)), 5001);
	assert_int_equal(rdma_destroy_id(second), 0);
}

static int bind_to_all(struct rdma_cm_id *id, bool is_ipv6, bool is_alone)
{
	struct sockaddr_in four = at("0.0.0.0", 5013);
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(5013)};
	int option = is_alone;

	assert_int_equal(
	    rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &option, sizeof(option)), 0);
	return rdma_bind_addr(id, is_ipv6 ? (struct sockaddr *)&six : (struct sockaddr *)&four);
}

/* A request to this address comes to this listener. */
static void comes_to(const char *ip, const struct rdma_cm_id *listener)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
	struct rdma_conn_param param = {.qp_num = 0x1234};
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP), *peer;
	struct rdma_cm_event *event;

	assert_int_equal(rdma_getaddrinfo(ip, "5013", &hints, &info), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, info->ai_dst_addr, 100), 0);
	rdma_freeaddrinfo(info);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 100), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_connect(id, &param), 0);
	event = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event->listen_id, listener);
	peer = event->id;
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_reject(peer, NULL, 0), 0);
	assert_int_equal(rdma_destroy_id(peer), 0);
	expect(RDMA_CM_EVENT_REJECTED);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* As programs do that listen to each address of getaddrinfo(). */
static void all_addresses_of_each_family_have_a_listener_if_asked(void **state)
{
	struct rdma_cm_id *four = new_id(RDMA_PS_TCP), *six = new_id(RDMA_PS_TCP);
	struct rdma_cm_id *both = new_id(RDMA_PS_TCP), *one = new_id(RDMA_PS_TCP);
	struct sockaddr_in address = at("127.0.0.1", 5013);

	assert_int_equal(bind_to_all(four, false, false), 0);
	refused(bind_to_all(six, true, false), EADDRINUSE);
	assert_int_equal(bind_to_all(six, true, true), 0);
	refused(bind_to_all(both, true, false), EADDRINUSE);
	refused(bind_to_all(both, true, true), EADDRINUSE);
	refused(bind_to_all(both, false, true), EADDRINUSE);
	refused(rdma_bind_addr(one, (struct sockaddr *)&address), EADDRINUSE);
	assert_int_equal(rdma_listen(four, 1), 0);
	assert_int_equal(rdma_listen(six, 1), 0);
	comes_to("127.0.0.1", four);
	comes_to("::1", six);
	assert_int_equal(rdma_destroy_id(four), 0);
	refused(bind_to_all(both, true, false), EADDRINUSE);
	assert_int_equal(rdma_bind_addr(one, (struct sockaddr *)&address), 0); /* beside IPv6 */
	assert_int_equal(rdma_destroy_id(six), 0);
	refused(bind_to_all(both, true, false), EADDRINUSE);
	assert_int_equal(rdma_destroy_id(one), 0);
	assert_int_equal(bind_to_all(both, true, false), 0);
	assert_int_equal(rdma_listen(both, 1), 0);
	comes_to("127.0.0.1", both);
	comes_to("::1", both);
	assert_int_equal(rdma_destroy_id(both), 0);
}

static void port_0_is_any_that_is_free_and_port_spaces_have_their_own(void **state)
{
	struct rdma_cm_id *tcp = new_id(RDMA_PS_TCP), *udp = new_id(RDMA_PS_UDP);
	struct sockaddr_in address = at("127.0.0.1", 0);

	assert_int_equal(rdma_bind_addr(tcp, (struct sockaddr *)&address), 0);
	assert_int_not_equal(rdma_get_src_port(tcp), 0);
	address.sin_port = rdma_get_src_port(tcp);
	assert_int_equal(rdma_bind_addr(udp, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_destroy_id(tcp), 0);
	assert_int_equal(rdma_destroy_id(udp), 0);
}

/* As on Linux, where libfabric binds so to ask which devices there are. */
static void localhost_has_no_device_until_one_is_needed(void **state)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *info;
	struct rdma_cm_id *listener = new_id(RDMA_PS_TCP), *user = new_id(RDMA_PS_UDP), *other;
	struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	struct sockaddr_in plain = at("127.0.0.1", 0);

	assert_int_equal(rdma_getaddrinfo("localhost", NULL, &hints, &info), 0);
	assert_int_equal(rdma_bind_addr(listener, info->ai_src_addr), 0);
	assert_int_equal(rdma_bind_addr(user, info->ai_src_addr), 0);
	rdma_freeaddrinfo(info);
	assert_null(listener->verbs);
	assert_null(user->verbs);
	plain.sin_port = rdma_get_src_port(user);
	assert_memory_equal(rdma_get_local_addr(user), &plain, sizeof(plain));
	assert_int_equal(rdma_listen(listener, 1), 0);
	assert_non_null(listener->verbs);
	assert_int_equal(rdma_create_qp(user, NULL, &attr), 0);
	assert_ptr_equal(user->verbs, listener->verbs);
	destroy(user);
	other = new_id(RDMA_PS_TCP);
	plain.sin_port = 0;
	assert_int_equal(rdma_bind_addr(other, (struct sockaddr *)&plain), 0);
	assert_ptr_equal(other->verbs, listener->verbs);
	assert_int_equal(rdma_destroy_id(other), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
}

/* ---- connections ---- */

static void nobody_listens_and_the_program_is_told(void **state)
{
	struct rdma_cm_id *id = route_to(5002);
	struct rdma_conn_param param = {0};
	struct rdma_cm_event *event;

	make_qp(id);
	assert_int_equal(rdma_connect(id, &param), 0);
	event = next_event(RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event->status, 8);
	rdma_ack_cm_event(event);
	destroy(id);
}

static void private_data_goes_to_its_limits_and_no_further(void **state)
{
	struct rdma_cm_id *listener = listen_at("127.0.0.1", 5003, 1), *id = route_to(5003);
	uint8_t data[255];
	struct rdma_conn_param param = {.private_data = data, .private_data_len = 57};
	struct rdma_cm_event *event;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i + 1);
	make_qp(id);
	refused(rdma_connect(id, &param), EINVAL);
	param.private_data_len = 56;
	assert_int_equal(rdma_connect(id, &param), 0);
	event = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event->listen_id, listener);
	assert_memory_equal(event->param.conn.private_data, data, 56);
	refused(rdma_reject(event->id, data, 149), EINVAL);
	assert_int_equal(rdma_reject(event->id, data, 148), 0);
	listener->context = event->id;
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_destroy_id(listener->context), 0);
	event = next_event(RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event->status, 28);
	assert_memory_equal(event->param.conn.private_data, data, 148);
	rdma_ack_cm_event(event);
	destroy(id);
	assert_int_equal(rdma_destroy_id(listener), 0);
}

/* In one process both ends' events come on the channel in no certain order. */
static void expect_both(enum rdma_cm_event_type type)
{
	expect(type);
	expect(type);
}

static void ece_and_depths_go_with_a_connection_of_the_programs_own_qps(void **state)
{
	struct rdma_cm_id *listener = listen_at("127.0.0.1", 5004, 1), *id = route_to(5004), *peer;
	struct rdma_conn_param param = {.responder_resources = 3,
					.initiator_depth = 2,
					.qp_num = 0x1234,
					.retry_count = 5,
					.rnr_retry_count = 6};
	struct ibv_ece ece = {.vendor_id = 0x123456, .options = 0x89abcdef}, told;
	struct rdma_cm_event *event;

	assert_int_equal(rdma_set_local_ece(id, &ece), 0);
	assert_int_equal(rdma_connect(id, &param), 0);
	event = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
	peer = event->id;
	assert_int_equal(event->param.conn.qp_num, 0x1234);
	assert_int_equal(event->param.conn.responder_resources, 2);
	assert_int_equal(event->param.conn.initiator_depth, 3);
	assert_int_equal(event->param.conn.retry_count, 5);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_get_remote_ece(peer, &told), 0);
	assert_int_equal(told.vendor_id, ece.vendor_id);
	assert_int_equal(told.options, ece.options);
	ece.vendor_id = 0x654321;
	assert_int_equal(rdma_set_local_ece(peer, &ece), 0);
	param.qp_num = 0x4321;
	assert_int_equal(rdma_accept(peer, &param), 0);
	event = next_event(RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(event->param.conn.qp_num, 0x4321);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_get_remote_ece(id, &told), 0);
	assert_int_equal(told.vendor_id, 0x654321);
	assert_int_equal(rdma_establish(id), 0);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(rdma_disconnect(id), 0);
	expect(RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rdma_disconnect(peer), 0);
	expect(RDMA_CM_EVENT_DISCONNECTED);
	expect_both(RDMA_CM_EVENT_TIMEWAIT_EXIT);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(peer), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
}

static void a_full_backlog_is_only_a_delay(void **state)
{
	enum { CLIENTS = 5 };
	struct rdma_cm_id *listener = listen_at("127.0.0.1", 5005, 1), *ids[CLIENTS];
	struct rdma_conn_param param = {0};
	int requests = 0, rejected = 0;

	for (int i = 0; i < CLIENTS; i++)
		ids[i] = route_to(5005);
	for (int i = 0; i < CLIENTS; i++) {
		param.qp_num = 0x100 + (unsigned int)i;
		assert_int_equal(rdma_connect(ids[i], &param), 0);
	}
	while (requests < CLIENTS || rejected < CLIENTS) {
		struct rdma_cm_event *event;
		struct rdma_cm_id *request = NULL;

		assert_int_equal(rdma_get_cm_event(channel, &event), 0);
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			requests++;
			request = event->id;
			assert_int_equal(rdma_reject(request, NULL, 0), 0);
		} else {
			assert_int_equal(event->event, RDMA_CM_EVENT_REJECTED);
			rejected++;
		}
		rdma_ack_cm_event(event);
		if (request)
			assert_int_equal(rdma_destroy_id(request), 0);
	}
	for (int i = 0; i < CLIENTS; i++)
		assert_int_equal(rdma_destroy_id(ids[i]), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
}

static void events_of_the_programs_own_and_of_names_are_told(void **state)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct rdma_addrinfo *info;
	struct rdma_cm_event *event;

	assert_int_equal(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 7, 0x123456789), 0);
	event = next_event(RDMA_CM_EVENT_USER);
	assert_int_equal(event->status, 7);
	assert_true(event->param.arg == 0x123456789);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "80", NULL), 0);
	expect(RDMA_CM_EVENT_ADDRINFO_RESOLVED);
	assert_int_equal(rdma_query_addrinfo(id, &info), 0);
	assert_int_equal(ntohs(((struct sockaddr_in *)info->ai_dst_addr)->sin_port), 80);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* On Ethernet a GID is an IP address, and the service id ends with the port. */
static void an_address_of_infiniband_is_a_gid_and_a_service_id(void **state)
{
	struct sockaddr_ib from = {.sib_family = AF_IB, .sib_sid = htobe64(7)}, to = from;
	struct rdma_addrinfo hints = {.ai_family = AF_IB,
				      .ai_port_space = RDMA_PS_IB,
				      .ai_src_len = sizeof(from),
				      .ai_dst_len = sizeof(to),
				      .ai_src_addr = (struct sockaddr *)&from,
				      .ai_dst_addr = (struct sockaddr *)&to};
	struct rdma_cm_id *id = new_id(RDMA_PS_IB);
	struct rdma_addrinfo *info;

	to.sib_sid = htobe64(8);
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &info), 0);
	assert_int_equal(info->ai_family, AF_IB);
	assert_int_equal(info->ai_port_space, RDMA_PS_IB);
	assert_int_equal(info->ai_src_len, sizeof(from));
	assert_memory_equal(info->ai_src_addr, &from, sizeof(from));
	assert_int_equal(info->ai_dst_len, sizeof(to));
	assert_memory_equal(info->ai_dst_addr, &to, sizeof(to));
	rdma_freeaddrinfo(info);
	hints = (struct rdma_addrinfo){.ai_family = AF_IB, .ai_flags = RAI_FAMILY};
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7", &hints, &info), EAI_FAMILY);
	hints.ai_flags |= RAI_NUMERICHOST;
	assert_int_equal(rdma_getaddrinfo("::ffff:127.0.0.1", "5011", &hints, &info), 0);
	assert_int_equal(info->ai_dst_len, sizeof(to));
	memcpy(&to, info->ai_dst_addr, sizeof(to));
	assert_int_equal(to.sib_family, AF_IB);
	assert_true(be64toh(to.sib_sid) == (UINT64_C(0x1060000) | 5011));
	assert_int_equal(rdma_resolve_addr(id, NULL, info->ai_dst_addr, 100), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(ntohs(rdma_get_dst_port(id)), 5011);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void an_id_moves_to_another_channel_with_its_events(void **state)
{
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct rdma_cm_event *event;
	struct pollfd readable = {.events = POLLIN};

	assert_int_equal(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 0, 1), 0);
	assert_int_equal(rdma_migrate_id(id, other), 0);
	assert_ptr_equal(id->channel, other);
	readable.fd = channel->fd;
	assert_int_equal(poll(&readable, 1, 0), 0);
	assert_int_equal(rdma_get_cm_event(other, &event), 0);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(arguments_that_make_no_sense_are_refused),
	    cmocka_unit_test(calls_in_the_wrong_state_are_refused),
	    cmocka_unit_test(descriptors_that_are_no_rsockets_are_refused),
	    cmocka_unit_test(a_port_is_taken_once),
	    cmocka_unit_test(all_addresses_of_each_family_have_a_listener_if_asked),
	    cmocka_unit_test(localhost_has_no_device_until_one_is_needed),
	    cmocka_unit_test(port_0_is_any_that_is_free_and_port_spaces_have_their_own),
	    cmocka_unit_test(nobody_listens_and_the_program_is_told),
	    cmocka_unit_test(private_data_goes_to_its_limits_and_no_further),
	    cmocka_unit_test(ece_and_depths_go_with_a_connection_of_the_programs_own_qps),
	    cmocka_unit_test(a_full_backlog_is_only_a_delay),
	    cmocka_unit_test(events_of_the_programs_own_and_of_names_are_told),
	    cmocka_unit_test(an_address_of_infiniband_is_a_gid_and_a_service_id),
	    cmocka_unit_test(an_id_moves_to_another_channel_with_its_events),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, open_channel, close_channel);
}
