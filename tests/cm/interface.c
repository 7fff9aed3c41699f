/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * interface ADDRESS PEER: three ids, one that listens on the address, one that listens on all, one
 * with a route to the peer; says whatever they are told, one line each, until it is ended.
 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#include <rdma/rdma_cma.h>

static struct rdma_event_channel *channel;

static void check(int result, const char *what)
{
	if (result == 0)
		return;
	perror(what);
	exit(1);
}

static struct sockaddr *address(const char *node, const char *port)
{
	struct addrinfo *found, hints = {.ai_flags = node ? AI_NUMERICHOST : AI_PASSIVE};

	check(getaddrinfo(node, port, &hints, &found), "getaddrinfo");
	return found->ai_addr;
}

static struct rdma_cm_id *new_id(const char *name)
{
	struct rdma_cm_id *id;

	check(rdma_create_id(channel, &id, (void *)name, RDMA_PS_TCP), "rdma_create_id");
	return id;
}

static void listen_at(const char *name, struct sockaddr *at)
{
	struct rdma_cm_id *id = new_id(name);

	check(rdma_bind_addr(id, at), "rdma_bind_addr");
	check(rdma_listen(id, 1), "rdma_listen");
}

int main(int argc, char **argv)
{
	struct rdma_cm_event *event;

	if (argc < 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	channel = rdma_create_event_channel();
	check(!channel, "rdma_create_event_channel");
	listen_at("one", address(argv[1], "7001"));
	listen_at("all", address(NULL, "7002"));
	check(rdma_resolve_addr(new_id("routed"), NULL, address(argv[2], "7003"), 1000),
	      "rdma_resolve_addr");
	while (rdma_get_cm_event(channel, &event) == 0) {
		printf("%s %s %d\n", (char *)event->id->context, rdma_event_str(event->event),
		       event->status);
		rdma_ack_cm_event(event);
	}
	return 1;
}
