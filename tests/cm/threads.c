/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads on one librdmacm: clients that connect, send and disconnect over and over, each by a
 * synchronous id of its own, against one server thread; and an rsocket on which one thread sends
 * while another receives, in both directions.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>

#include "own_network.h"

enum { CLIENTS = 6, ROUNDS = 15, BYTES = 1 << 20, PIECE = 10000 };

static atomic_uint received, failures;

static void check(bool is_good, const char *what)
{
	if (is_good)
		return;
	perror(what);
	atomic_fetch_add(&failures, 1);
}

static int network(void **state)
{
	return interface_up("lo");
}

static struct rdma_cm_id *endpoint(int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *info;
	struct ibv_qp_init_attr attr = {.cap = {2, 2, 1, 1, 0}, .sq_sig_all = 1};
	struct rdma_cm_id *id = NULL;

	if (rdma_getaddrinfo("127.0.0.1", "7001", &hints, &info))
		return NULL;
	attr.qp_context = NULL;
	if (rdma_create_ep(&id, info, NULL, &attr))
		id = NULL;
	rdma_freeaddrinfo(info);
	return id;
}

static void *client(void *data)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct rdma_cm_id *id = endpoint(0);
		char word[16] = "a word";
		struct ibv_mr *mr = id ? rdma_reg_msgs(id, word, sizeof(word)) : NULL;
		struct ibv_wc wc;

		check(id && mr, "endpoint");
		if (!id || !mr)
			return NULL;
		check(rdma_connect(id, NULL) == 0, "rdma_connect");
		check(rdma_post_send(id, NULL, word, sizeof(word), mr, 0) == 0, "post");
		check(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "sent");
		rdma_disconnect(id);
		rdma_dereg_mr(mr);
		rdma_destroy_ep(id);
	}
	return NULL;
}

static void *serve_one(void *data)
{
	struct rdma_cm_id *id = data;
	char word[16] = "";
	struct ibv_mr *mr = rdma_reg_msgs(id, word, sizeof(word));
	struct ibv_wc wc;

	check(mr && rdma_post_recv(id, NULL, word, sizeof(word), mr) == 0, "receive");
	check(rdma_accept(id, NULL) == 0, "rdma_accept");
	check(rdma_get_recv_comp(id, &wc) == 1, "received");
	if (wc.status == IBV_WC_SUCCESS && strcmp(word, "a word") == 0)
		atomic_fetch_add(&received, 1);
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	return NULL;
}

static void clients_connect_and_disconnect_at_once(void **state)
{
	struct rdma_cm_id *listener = endpoint(RAI_PASSIVE), *id;
	pthread_t clients[CLIENTS], servers[CLIENTS * ROUNDS];

	assert_non_null(listener);
	assert_int_equal(rdma_listen(listener, 0), 0);
	for (int i = 0; i < CLIENTS; i++)
		assert_int_equal(pthread_create(&clients[i], NULL, client, NULL), 0);
	for (int i = 0; i < CLIENTS * ROUNDS; i++) {
		assert_int_equal(rdma_get_request(listener, &id), 0);
		assert_int_equal(pthread_create(&servers[i], NULL, serve_one, id), 0);
	}
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(clients[i], NULL);
	for (int i = 0; i < CLIENTS * ROUNDS; i++)
		pthread_join(servers[i], NULL);
	rdma_destroy_ep(listener);
	assert_int_equal(failures, 0);
	assert_int_equal(received, CLIENTS * ROUNDS);
}

/* ---- one channel ---- */

enum { READERS = 4, WRITERS = 4, EVENTS = 300, LAST = 1 << 20 };

static struct rdma_event_channel *channel;
static atomic_uint told[WRITERS * EVENTS];

static void *read_events(void *data)
{
	struct rdma_cm_event *event;
	uint64_t arg;

	do {
		if (rdma_get_cm_event(channel, &event)) {
			check(false, "rdma_get_cm_event");
			return NULL;
		}
		arg = event->param.arg;
		if (arg < WRITERS * EVENTS)
			atomic_fetch_add(&told[arg], 1);
		check(rdma_ack_cm_event(event) == 0, "rdma_ack_cm_event");
	} while (arg != LAST);
	return NULL;
}

/* Destroying an id waits for whoever has taken an event of it. */
static void *write_events(void *data)
{
	unsigned int number = (unsigned int)(uintptr_t)data;
	struct rdma_cm_id *id, *other;

	check(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	for (unsigned int i = 0; i < EVENTS; i++) {
		check(rdma_create_id(channel, &other, NULL, RDMA_PS_UDP) == 0, "rdma_create_id");
		check(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 0, number * EVENTS + i) == 0,
		      "rdma_write_cm_event");
		rdma_write_cm_event(other, RDMA_CM_EVENT_USER, 0, LAST + 1);
		check(rdma_destroy_id(other) == 0, "rdma_destroy_id");
	}
	return id;
}

static void each_event_of_a_channel_is_taken_by_one_of_its_readers(void **state)
{
	pthread_t readers[READERS], writers[WRITERS];
	struct rdma_cm_id *last;
	void *ids[WRITERS];

	failures = 0;
	channel = rdma_create_event_channel();
	assert_non_null(channel);
	for (uintptr_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&writers[i], NULL, write_events, (void *)i), 0);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&readers[i], NULL, read_events, NULL), 0);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(writers[i], &ids[i]);
	assert_int_equal(rdma_create_id(channel, &last, NULL, RDMA_PS_TCP), 0);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(rdma_write_cm_event(last, RDMA_CM_EVENT_USER, 0, LAST), 0);
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(rdma_destroy_id(ids[i]), 0);
	assert_int_equal(rdma_destroy_id(last), 0);
	rdma_destroy_event_channel(channel);
	assert_int_equal(failures, 0);
	for (int i = 0; i < WRITERS * EVENTS; i++)
		assert_int_equal(told[i], 1);
}

/* ---- rsockets ---- */

static void *send_all(void *data)
{
	static const char bytes[PIECE];
	int socket = *(int *)data;

	for (size_t done = 0; done < BYTES;) {
		size_t piece = BYTES - done < PIECE ? BYTES - done : PIECE;
		ssize_t sent = rsend(socket, bytes, piece, 0);

		check(sent > 0, "rsend");
		if (sent <= 0)
			break;
		done += (size_t)sent;
	}
	return NULL;
}

static void *receive_all(void *data)
{
	int socket = *(int *)data;
	char bytes[PIECE];
	size_t done = 0;

	while (done < BYTES) {
		struct pollfd readable = {.fd = socket, .events = POLLIN};
		ssize_t got;

		check(rpoll(&readable, 1, 10000) == 1, "rpoll");
		got = rrecv(socket, bytes, sizeof(bytes), 0);
		check(got > 0, "rrecv");
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return NULL;
}

static void an_rsocket_is_written_by_one_thread_and_read_by_another(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(7002)};
	int listener = rsocket(AF_INET, SOCK_STREAM, 0), ends[2] = {-1, -1};
	pthread_t threads[4];

	failures = 0;
	inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
	assert_int_equal(rbind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(rlisten(listener, 1), 0);
	ends[0] = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rconnect(ends[0], (struct sockaddr *)&address, sizeof(address)), 0);
	ends[1] = raccept(listener, NULL, NULL);
	assert_true(ends[1] >= 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(
		    pthread_create(&threads[i], NULL, i < 2 ? send_all : receive_all, &ends[i % 2]),
		    0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(failures, 0);
	assert_int_equal(rclose(ends[0]), 0);
	assert_int_equal(rclose(ends[1]), 0);
	assert_int_equal(rclose(listener), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(clients_connect_and_disconnect_at_once),
	    cmocka_unit_test(each_event_of_a_channel_is_taken_by_one_of_its_readers),
	    cmocka_unit_test(an_rsocket_is_written_by_one_thread_and_read_by_another),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, network, NULL);
}
