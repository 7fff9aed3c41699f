/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connections rate|open COUNT [ADDRESS]: connections between two processes, each end with a queue
 * pair of one work request each way.
 *	rate	one made and torn down after the other, AT_ONCE of them at a time: how many a second
 *	open	all made, then held, then torn down: how long that takes, and the memory of each
 *		process for each connection (anonymous and shared, of the process's resident set)
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

enum { AT_ONCE = 64, PORT = 7470, BACKLOG = 1024 };

static struct rdma_event_channel *channel;
static struct ibv_cq *cq;
static struct sockaddr_in address = {.sin_family = AF_INET};

static void need(int fine, const char *what)
{
	if (fine)
		return;
	perror(what);
	exit(1);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Of this or another process, in KiB. */
static long memory(pid_t pid)
{
	char path[64], line[128];
	long all = 0, some;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	file = fopen(path, "r");
	need(file != NULL, path);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "RssAnon: %ld", &some) == 1 ||
		    sscanf(line, "RssShmem: %ld", &some) == 1)
			all += some;
	fclose(file);
	return all;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	if (!cq)
		cq = ibv_create_cq(id->verbs, 1, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = cq;
	need(cq && rdma_create_qp(id, NULL, &attr) == 0, "rdma_create_qp");
}

static void end(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	need(rdma_destroy_id(id) == 0, "rdma_destroy_id");
}

/* ---- the server ---- */

static void serve(int ready)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
	struct rdma_cm_event *event;
	struct rdma_cm_id *listener = NULL, *id;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	channel = rdma_create_event_channel();
	need(channel && rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0,
	     "rdma_create_id");
	need(rdma_bind_addr(listener, (struct sockaddr *)&address) == 0, "rdma_bind_addr");
	need(rdma_listen(listener, BACKLOG) == 0 && write(ready, "", 1) == 1, "rdma_listen");
	while (rdma_get_cm_event(channel, &event) == 0) {
		enum rdma_cm_event_type type = event->event;

		id = event->id;
		rdma_ack_cm_event(event);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			make_qp(id);
			need(rdma_accept(id, &param) == 0, "rdma_accept");
		} else if (type == RDMA_CM_EVENT_DISCONNECTED) {
			rdma_disconnect(id);
			end(id);
		}
	}
}

/* ---- the client ---- */

static void begin(void)
{
	struct rdma_cm_id *id;

	need(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	need(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 2000) == 0,
	     "rdma_resolve_addr");
}

static enum rdma_cm_event_type step(struct rdma_cm_id **id)
{
	struct rdma_conn_param param = {
	    .responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;

	need(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
	type = event->event;
	*id = event->id;
	rdma_ack_cm_event(event);
	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		need(rdma_resolve_route(*id, 2000) == 0, "rdma_resolve_route");
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		make_qp(*id);
		need(rdma_connect(*id, &param) == 0, "rdma_connect");
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		fprintf(stderr, "%s\n", rdma_event_str(type));
		exit(1);
	}
	return type;
}

static void rate(int count)
{
	int begun = 0, ended = 0;
	double start = seconds();
	struct rdma_cm_id *id;

	while (begun < count && begun < AT_ONCE) {
		begin();
		begun++;
	}
	while (ended < count) {
		enum rdma_cm_event_type type = step(&id);

		if (type == RDMA_CM_EVENT_ESTABLISHED)
			need(rdma_disconnect(id) == 0, "rdma_disconnect");
		if (type != RDMA_CM_EVENT_DISCONNECTED)
			continue;
		end(id);
		ended++;
		if (begun < count) {
			begin();
			begun++;
		}
	}
	printf("%d connections made and torn down in %.2f s: %.0f a second\n", count,
	       seconds() - start, count / (seconds() - start));
}

static void say_memory(const char *who, long before, long after, int count)
{
	printf("%s: %.1f MiB more, %.0f bytes a connection\n", who, (double)(after - before) / 1024,
	       (double)(after - before) * 1024 / count);
}

static void hold(int count, pid_t server)
{
	long own = memory(getpid()), others = memory(server);
	struct rdma_cm_id **ids = calloc((size_t)count, sizeof(*ids)), *id;
	double start = seconds();
	int begun = 0, made = 0;

	need(ids != NULL, "calloc");
	while (made < count) {
		while (begun < count && begun < made + AT_ONCE) {
			begin();
			begun++;
		}
		if (step(&id) == RDMA_CM_EVENT_ESTABLISHED)
			ids[made++] = id;
	}
	printf("%d connections are open after %.2f s\n", count, seconds() - start);
	say_memory("client", own, memory(getpid()), count);
	say_memory("server", others, memory(server), count);
	start = seconds();
	for (int i = 0; i < count; i++)
		need(rdma_disconnect(ids[i]) == 0, "rdma_disconnect");
	while (made) {
		if (step(&id) != RDMA_CM_EVENT_DISCONNECTED)
			continue;
		end(id);
		made--;
	}
	printf("and gone %.2f s later\n", seconds() - start);
	free(ids);
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[2]) : 0, ready[2];
	pid_t server;
	char byte;

	if (count <= 0 || (strcmp(argv[1], "rate") && strcmp(argv[1], "open"))) {
		fprintf(stderr, "connections rate|open COUNT [ADDRESS]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	address.sin_port = htons(PORT);
	need(inet_pton(AF_INET, argc > 3 ? argv[3] : "127.0.0.1", &address.sin_addr) == 1,
	     "address");
	need(pipe(ready) == 0, "pipe");
	server = fork();
	if (server == 0) {
		serve(ready[1]);
		exit(1);
	}
	close(ready[1]);
	need(read(ready[0], &byte, 1) == 1, "server");
	channel = rdma_create_event_channel();
	need(channel != NULL, "rdma_create_event_channel");
	if (strcmp(argv[1], "rate") == 0)
		rate(count);
	else
		hold(count, server);
	return kill(server, SIGKILL);
}
