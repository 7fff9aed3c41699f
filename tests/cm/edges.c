/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where librdmacm's calls meet an end that is not theirs: no device, no descriptor left, a signal;
 * and synchronous ids, which wait in the call.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>

#include "own_network.h"
#include "refused.h"

static const char where[] = "127.0.0.1", port[] = "7301";

#define refused_null(call, error)                                                                  \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_null(call);                                                                 \
		assert_int_equal(errno, error);                                                    \
	} while (0)

static void without_a_device_there_is_neither_list_nor_channel(void **state)
{
	int count = 17;

	refused_null(rdma_get_devices(&count), ENODEV);
	refused_null(rdma_create_event_channel(), ENODEV);
	assert_int_equal(interface_up("lo"), 0);
}

/* From now on no descriptor can be opened, until the limit is `before` again. (poll() goes by it as
 * well: it is not 0.) */
static struct rlimit use_up_descriptors(void)
{
	struct rlimit before, now;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	now = (struct rlimit){.rlim_cur = STDERR_FILENO + 1, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
	return before;
}

static void without_a_descriptor_there_is_no_channel_and_an_id_stays_where_it_is(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	struct rlimit before;

	assert_non_null(channel);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 0, 7), 0);
	before = use_up_descriptors();
	refused_null(rdma_create_event_channel(), EMFILE);
	refused(rdma_migrate_id(id, NULL), EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_ptr_equal(id->channel, channel);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_int_equal(event->param.ud.qp_num | event->event, RDMA_CM_EVENT_USER);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_migrate_id(id, NULL), 0);
	assert_ptr_not_equal(id->channel, channel);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void on_alarm(int number)
{
}

static void a_signal_ends_a_wait_for_rsockets(void **state)
{
	struct sigaction action = {.sa_handler = on_alarm};
	struct itimerval soon = {.it_value.tv_usec = 30000, .it_interval.tv_usec = 30000};
	struct itimerval never = {0};
	struct sockaddr_in address = {.sin_family = AF_INET};
	struct pollfd readable = {.fd = rsocket(AF_INET, SOCK_STREAM, 0), .events = POLLIN};

	assert_true(readable.fd >= 0);
	inet_pton(AF_INET, where, &address.sin_addr);
	assert_int_equal(rbind(readable.fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(rlisten(readable.fd, 1), 0);
	assert_int_equal(rpoll(&readable, 1, 1), 0);
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	refused(rpoll(&readable, 1, 20000), EINTR);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	assert_int_equal(rclose(readable.fd), 0);
}

/* ---- synchronous ids ---- */

static struct rdma_cm_id *endpoint(int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags | RAI_NUMERICHOST,
				      .ai_port_space = RDMA_PS_TCP};
	struct ibv_qp_init_attr attr = {.cap = {2, 2, 1, 1, 0}, .sq_sig_all = 1};
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;

	assert_int_equal(rdma_getaddrinfo(where, port, &hints, &info), 0);
	assert_int_equal(rdma_create_ep(&id, info, NULL, &attr), 0);
	rdma_freeaddrinfo(info);
	return id;
}

static void *serve(void *data)
{
	static char word[8];
	struct rdma_cm_id *listener = data, *id;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	if (rdma_get_request(listener, &id))
		return "no request";
	mr = rdma_reg_msgs(id, word, sizeof(word));
	if (!mr || rdma_post_recv(id, NULL, word, sizeof(word), mr) || rdma_accept(id, NULL))
		return "not accepted";
	if (rdma_get_recv_comp(id, &wc) != 1 || strcmp(word, "hello") != 0)
		return "nothing received";
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	return NULL;
}

static void a_listening_endpoint_gives_requests_and_their_queue_pairs(void **state)
{
	struct rdma_cm_id *listener = endpoint(RAI_PASSIVE), *id, *none;
	char word[8] = "hello";
	struct ibv_mr *mr;
	struct ibv_wc wc;
	pthread_t server;
	void *fault;

	assert_int_equal(rdma_listen(listener, 2), 0);
	assert_int_equal(pthread_create(&server, NULL, serve, listener), 0);
	id = endpoint(0);
	refused(rdma_get_request(id, &none), EINVAL);
	mr = rdma_reg_msgs(id, word, sizeof(word));
	assert_non_null(mr);
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(rdma_post_send(id, NULL, word, sizeof(word), mr, 0), 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	rdma_disconnect(id); /* the server's waits for it */
	assert_int_equal(pthread_join(server, &fault), 0);
	if (fault)
		fail_msg("%s", (char *)fault);
	assert_int_equal(rdma_dereg_mr(mr), 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

static void listed_devices_are_those_of_ids(void **state)
{
	struct rdma_cm_id *id = endpoint(0);
	struct ibv_context **devices;
	int count = 0, found = 0;

	devices = rdma_get_devices(&count);
	assert_non_null(devices);
	for (int i = 0; i < count; i++)
		found += devices[i] == id->verbs;
	assert_int_equal(found, 1);
	assert_null(devices[count]);
	rdma_free_devices(devices);
	assert_int_equal(rdma_get_dst_port(id), htons(7301));
	rdma_destroy_ep(id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(without_a_device_there_is_neither_list_nor_channel),
	    cmocka_unit_test(without_a_descriptor_there_is_no_channel_and_an_id_stays_where_it_is),
	    cmocka_unit_test(a_signal_ends_a_wait_for_rsockets),
	    cmocka_unit_test(a_listening_endpoint_gives_requests_and_their_queue_pairs),
	    cmocka_unit_test(listed_devices_are_those_of_ids),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
