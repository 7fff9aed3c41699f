/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork() with ids and rsockets open. A child that touches nothing disturbs nobody, however it ends;
 * what it inherits refuses, and what it makes itself works; and while it lives, its parent's death
 * is heard all the same.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>

#include "own_network.h"

enum { PORT = 7100, IDS_PORT = 7101, CHILDREN = 5, QUIET_MS = 300, STUCK_SECONDS = 20 };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *client, *server, *listener;
static int stream;   /* to the echo */
static int leash[2]; /* a child's child lives as long as we hold this end */

static struct sockaddr_in at(uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
	return address;
}

/* ---- rsockets: an echo in a thread of the parent ---- */

static int rsocket_listening(uint16_t port)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = at(port);

	if (fd < 0 || rbind(fd, (struct sockaddr *)&address, sizeof(address)) || rlisten(fd, 8))
		return -1;
	return fd;
}

static int rsocket_to(uint16_t port)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = at(port);

	if (fd < 0 || rconnect(fd, (struct sockaddr *)&address, sizeof(address)))
		return -1;
	return fd;
}

static void *echo_one(void *data)
{
	int fd = (int)(intptr_t)data;
	char bytes[64];
	ssize_t length;

	while ((length = rrecv(fd, bytes, sizeof(bytes), 0)) > 0)
		rsend(fd, bytes, (size_t)length, 0);
	rclose(fd);
	return NULL;
}

static void *echo(void *data)
{
	int fd = (int)(intptr_t)data, one;

	while ((one = raccept(fd, NULL, NULL)) >= 0) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, echo_one, (void *)(intptr_t)one) == 0)
			pthread_detach(thread);
	}
	return NULL;
}

static bool echoes(int fd)
{
	char word[] = "a word", back[sizeof(word)] = "";

	return rsend(fd, word, sizeof(word), 0) == sizeof(word) &&
	       rrecv(fd, back, sizeof(back), MSG_WAITALL) == sizeof(back) &&
	       strcmp(word, back) == 0;
}

/* ---- ids: both ends of a connection on one channel ---- */

static struct rdma_cm_id *expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
	id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

static struct rdma_cm_id *new_listener(uint16_t port)
{
	struct sockaddr_in address = at(port);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_listen(id, 8), 0);
	return id;
}

static struct rdma_cm_id *start_client(uint16_t port)
{
	struct sockaddr_in address = at(port);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(id);
	assert_int_equal(rdma_connect(id, NULL), 0);
	return id;
}

static struct rdma_cm_id *serve(void)
{
	struct rdma_cm_id *id = expect(RDMA_CM_EVENT_CONNECT_REQUEST);

	make_qp(id);
	assert_int_equal(rdma_accept(id, NULL), 0);
	return id;
}

static void end_both(struct rdma_cm_id *ours, struct rdma_cm_id *peer)
{
	assert_int_equal(rdma_disconnect(ours), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_DISCONNECTED), peer);
	assert_int_equal(rdma_disconnect(peer), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_DISCONNECTED), ours);
	rdma_destroy_qp(ours);
	rdma_destroy_qp(peer);
	assert_int_equal(rdma_destroy_id(ours), 0);
	assert_int_equal(rdma_destroy_id(peer), 0);
}

static int open_all(void **state)
{
	int fd;
	pthread_t thread;

	if (interface_up("lo") < 0)
		return -1;
	channel = rdma_create_event_channel();
	fd = rsocket_listening(PORT);
	if (!channel || fd < 0 || pthread_create(&thread, NULL, echo, (void *)(intptr_t)fd))
		return -1;
	pthread_detach(thread);
	stream = rsocket_to(PORT);
	listener = new_listener(IDS_PORT);
	client = start_client(IDS_PORT);
	server = serve();
	expect(RDMA_CM_EVENT_ESTABLISHED);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	return stream < 0;
}

static int close_all(void **state)
{
	end_both(client, server);
	return rclose(stream) || rdma_destroy_id(listener);
}

/* Nothing was told, and both kinds of connection carry on. */
static void all_is_as_before(void)
{
	struct pollfd readable = {.fd = channel->fd, .events = POLLIN};

	assert_int_equal(poll(&readable, 1, QUIET_MS), 0);
	assert_true(echoes(stream));
}

/* ---- children ---- */

static void end(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* In the child; it ends by exit(), with all that the libraries do then. */
static pid_t child_that(int (*acts)(void))
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		alarm(STUCK_SECONDS);
		exit(acts());
	}
	return child;
}

static int does_nothing(void)
{
	return 0;
}

static int runs_another_program(void)
{
	execl("/bin/true", "true", (char *)NULL);
	return 1;
}

static void a_child_that_touches_nothing_disturbs_nobody(void **state)
{
	for (int i = 0; i < CHILDREN; i++) {
		end(child_that(does_nothing));
		end(child_that(runs_another_program));
	}
	all_is_as_before();
}

static bool is_refused(int result, int error)
{
	return result == -1 && errno == error;
}

static int tries_what_it_inherited(void)
{
	struct sockaddr_in address = at(IDS_PORT);
	char byte = 0;

	if (rdma_disconnect(server)) /* closed: there is nothing to do */
		return 1;
	if (!is_refused(rdma_connect(client, NULL), EINVAL))
		return 2;
	if (!is_refused(rdma_resolve_addr(client, NULL, (struct sockaddr *)&address, 100), EINVAL))
		return 3;
	if (!is_refused((int)rsend(stream, &byte, 1, 0), EBADF) ||
	    !is_refused(rclose(stream), EBADF))
		return 4;
	rdma_destroy_qp(client);
	rdma_destroy_qp(server);
	if (rdma_destroy_id(client) || rdma_destroy_id(server) || rdma_destroy_id(listener))
		return 5;
	rdma_destroy_event_channel(channel);
	return 0;
}

static void what_a_child_inherits_refuses_and_its_end_is_nobodys_business(void **state)
{
	end(child_that(tries_what_it_inherited));
	all_is_as_before();
}

static int talks_to_its_parent(void)
{
	int fd = rsocket_to(PORT);

	if (fd < 0 || !echoes(fd))
		return 1;
	channel = rdma_create_event_channel();
	client = start_client(IDS_PORT);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	rdma_disconnect(client);
	expect(RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(client);
	return rdma_destroy_id(client) || rclose(fd);
}

static void what_a_child_makes_itself_works(void **state)
{
	pid_t child = child_that(talks_to_its_parent);
	struct rdma_cm_id *peer = serve();

	assert_ptr_equal(expect(RDMA_CM_EVENT_ESTABLISHED), peer);
	assert_ptr_equal(expect(RDMA_CM_EVENT_DISCONNECTED), peer);
	assert_int_equal(rdma_disconnect(peer), 0);
	rdma_destroy_qp(peer);
	assert_int_equal(rdma_destroy_id(peer), 0);
	end(child);
	all_is_as_before();
}

/* A peer of the parent's that forks, and is killed while its own child lives. */
static int peer_that_is_killed(void)
{
	channel = rdma_create_event_channel();
	client = start_client(IDS_PORT);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	if (fork() == 0) {
		char byte;

		alarm(STUCK_SECONDS);
		close(leash[1]);
		_exit((int)read(leash[0], &byte, 1));
	}
	close(leash[1]);
	usleep(QUIET_MS * 1000);
	return kill(getpid(), SIGKILL);
}

static void a_parents_death_is_heard_while_its_child_lives(void **state)
{
	struct pollfd readable = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_id *peer;
	int status;
	pid_t child;

	assert_int_equal(pipe(leash), 0);
	child = child_that(peer_that_is_killed);
	peer = serve();
	assert_ptr_equal(expect(RDMA_CM_EVENT_ESTABLISHED), peer);
	assert_int_equal(poll(&readable, 1, STUCK_SECONDS / 2 * 1000), 1);
	assert_ptr_equal(expect(RDMA_CM_EVENT_DISCONNECTED), peer);
	rdma_disconnect(peer);
	rdma_destroy_qp(peer);
	assert_int_equal(rdma_destroy_id(peer), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	close(leash[1]);
	close(leash[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_child_that_touches_nothing_disturbs_nobody),
	    cmocka_unit_test(what_a_child_inherits_refuses_and_its_end_is_nobodys_business),
	    cmocka_unit_test(what_a_child_makes_itself_works),
	    cmocka_unit_test(a_parents_death_is_heard_while_its_child_lives),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, open_all, close_all);
}
