/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hold listen|connect ADDRESS PORT [SECONDS]: makes a connection and does nothing with it. Says
 * "listening", "connected" and, when it ends without our doing, "disconnected"; status 0 then, 3
 * when SECONDS (60) went by.
 */
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>

static struct rdma_event_channel *channel;

static struct rdma_cm_id *expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	if (rdma_get_cm_event(channel, &event)) {
		perror("rdma_get_cm_event");
		exit(1);
	}
	if (event->event != type) {
		printf("%s, status %d\n", rdma_event_str(event->event), event->status);
		exit(1);
	}
	id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

static void check(int result, const char *what)
{
	if (result == 0)
		return;
	perror(what);
	exit(1);
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	check(rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
}

int main(int argc, char **argv)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
	struct addrinfo *address, hints = {.ai_flags = AI_NUMERICHOST};
	struct pollfd readable = {.events = POLLIN};
	struct rdma_cm_id *id;

	if (argc < 4 || getaddrinfo(argv[2], argv[3], &hints, &address))
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	channel = rdma_create_event_channel();
	check(!channel, "rdma_create_event_channel");
	check(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	if (strcmp(argv[1], "listen") == 0) {
		check(rdma_bind_addr(id, address->ai_addr), "rdma_bind_addr");
		check(rdma_listen(id, 1), "rdma_listen");
		puts("listening");
		id = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
		make_qp(id);
		check(rdma_accept(id, &param), "rdma_accept");
	} else {
		check(rdma_resolve_addr(id, NULL, address->ai_addr, 1000), "rdma_resolve_addr");
		expect(RDMA_CM_EVENT_ADDR_RESOLVED);
		check(rdma_resolve_route(id, 1000), "rdma_resolve_route");
		expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
		make_qp(id);
		check(rdma_connect(id, &param), "rdma_connect");
	}
	expect(RDMA_CM_EVENT_ESTABLISHED);
	puts("connected");
	readable.fd = channel->fd;
	if (poll(&readable, 1, argc > 4 ? atoi(argv[4]) * 1000 : 60000) != 1)
		return 3;
	expect(RDMA_CM_EVENT_DISCONNECTED);
	puts("disconnected");
	return 0;
}
