/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram rsockets: their calls, and the thread that takes what comes by UDP.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/thread.h"
#include "rdmacm/face.h"
#include "rdmacm/rs_endpoint.h"

/* The thread that reads the UDP sockets of all. */
static struct {
	pthread_mutex_t lock;
	bool is_running;
	int epoll, stop;
	pthread_t thread;
} service = {.lock = PTHREAD_MUTEX_INITIALIZER, .epoll = -1, .stop = -1};

/* ---- by UDP ---- */

struct udp_message {
	uint32_t tag;
	uint8_t version, op, length, reserved;
	uint32_t qpn;
	uint8_t address[16];
};

static ssize_t send_udp(struct rsock *rs, const struct rs_peer *peer, int op, const void *data,
			size_t length, int flags)
{
	const union rs_address *local = &peer->endpoint->local;
	bool is_ipv4 = local->any.sa_family == AF_INET;
	struct udp_message head = {.tag = htobe32(RS_UDP_TAG),
				   .version = RS_UDP_VERSION,
				   .op = (uint8_t)op,
				   .length = is_ipv4 ? RS_UDP_HEAD + 4 : RS_UDP_HEAD + 16,
				   .qpn = htobe32(peer->endpoint->id->qp->qp_num)};
	struct iovec iov[2] = {{&head, head.length}, {(void *)data, length}};
	union rs_address to = peer->address;
	struct msghdr message = {.msg_name = &to, .msg_iov = iov, .msg_iovlen = 2};

	rs_address_out(&to, rs->domain);
	message.msg_namelen = address_length(&to.any);
	if (is_ipv4)
		memcpy(head.address, &local->in.sin_addr, 4);
	else
		memcpy(head.address, &local->in6.sin6_addr, 16);
	return sendmsg(rs->fd, &message, flags | MSG_NOSIGNAL) < 0 ? -1 : (ssize_t)length;
}

static void take_udp(struct rsock *rs, const uint8_t *bytes, size_t length, union rs_address *from)
{
	struct udp_message head;
	struct rs_peer *peer;

	if (length < RS_UDP_HEAD + 4)
		return;
	memcpy(&head, bytes, length < sizeof(head) ? length : sizeof(head));
	if (be32toh(head.tag) != RS_UDP_TAG || head.version != RS_UDP_VERSION ||
	    head.length > length ||
	    head.length != RS_UDP_HEAD + (from->any.sa_family == AF_INET ? 4 : 16))
		return;
	if (rs_peer_find(rs, from, &peer) ||
	    rs_peer_answered(rs, peer, be32toh(head.qpn) & 0xffffff))
		return;
	if (head.op != RS_UDP_DATA)
		return;
	send_udp(rs, peer, RS_UDP_ANSWER, NULL, 0, MSG_DONTWAIT);
	rs_letter_put(rs, from, bytes + head.length, length - head.length);
}

static void read_udp(struct rsock *rs)
{
	static uint8_t bytes[1 << 16]; /* the thread's own */
	uint64_t one = 1;

	rs_lock(rs);
	for (;;) {
		union rs_address from;
		socklen_t from_length = sizeof(from);
		ssize_t length =
		    recvfrom(rs->fd, bytes, sizeof(bytes), MSG_DONTWAIT, &from.any, &from_length);

		if (length < 0)
			break;
		rs_address_in(&from);
		take_udp(rs, bytes, (size_t)length, &from);
	}
	if (write(rs->datagram->news, &one, sizeof(one)) < 0)
		errno = 0;
	rs_wake_pollers(rs);
	rs_unlock(rs);
}

static void *serve(void *data)
{
	struct epoll_event events[16];

	for (;;) {
		int count = epoll_wait(service.epoll, events, 16, -1);

		pthread_mutex_lock(&service.lock);
		for (int i = 0; i < count; i++) {
			struct rsock *rs = rs_find(events[i].data.fd);

			if (events[i].data.fd == service.stop) {
				pthread_mutex_unlock(&service.lock);
				return NULL;
			}
			if (rs && rs->type == SOCK_DGRAM)
				read_udp(rs);
		}
		pthread_mutex_unlock(&service.lock);
	}
}

/* With the lock. 0 or a positive errno. */
static int start_thread(void)
{
	struct epoll_event event = {.events = EPOLLIN};

	service.epoll = epoll_create1(EPOLL_CLOEXEC);
	service.stop = eventfd(0, EFD_CLOEXEC);
	event.data.fd = service.stop;
	if (service.epoll < 0 || service.stop < 0 ||
	    epoll_ctl(service.epoll, EPOLL_CTL_ADD, service.stop, &event) < 0)
		return errno;
	return -thread_start(&service.thread, "verbatim/ds", serve, NULL);
}

void rs_datagrams_hold(void)
{
	pthread_mutex_lock(&service.lock);
}

void rs_datagrams_release(void)
{
	pthread_mutex_unlock(&service.lock);
}

void rs_datagrams_abandon(void)
{
	if (service.epoll >= 0)
		close(service.epoll);
	if (service.stop >= 0)
		close(service.stop);
	service.epoll = service.stop = -1;
	service.is_running = false;
}

__attribute__((destructor)) static void stop_thread(void)
{
	uint64_t one = 1;

	if (service.is_running && write(service.stop, &one, sizeof(one)) == sizeof(one))
		thread_join(service.thread);
	service.is_running = false;
}

/* ---- opening and closing ---- */

static int watch(struct rsock *rs)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = rs->fd};
	int error = 0;

	pthread_mutex_lock(&service.lock);
	if (!service.is_running) {
		error = start_thread();
		service.is_running = error == 0;
	}
	if (error == 0 && epoll_ctl(service.epoll, EPOLL_CTL_ADD, rs->fd, &event) < 0)
		error = errno;
	pthread_mutex_unlock(&service.lock);
	return error;
}

int rs_datagram_open(struct rsock *rs)
{
	struct rs_datagram *datagram = calloc(1, sizeof(*datagram));
	struct epoll_event event = {.events = EPOLLIN};

	if (!datagram)
		return ENOMEM;
	rs->datagram = datagram;
	CDS_INIT_LIST_HEAD(&datagram->endpoints);
	CDS_INIT_LIST_HEAD(&datagram->peers);
	CDS_INIT_LIST_HEAD(&datagram->inbox);
	datagram->epoll = epoll_create1(EPOLL_CLOEXEC);
	datagram->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rs->fd = socket(rs->domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (datagram->epoll < 0 || datagram->news < 0 || rs->fd < 0 ||
	    epoll_ctl(datagram->epoll, EPOLL_CTL_ADD, datagram->news, &event) < 0) {
		int error = errno;

		rs_datagram_close(rs);
		return error;
	}
	return watch(rs);
}

void rs_datagram_close(struct rsock *rs)
{
	struct rs_datagram *datagram = rs->datagram;
	struct rs_endpoint *endpoint, *next_endpoint;
	struct rs_letter *letter, *next_letter;
	struct rs_peer *peer, *next_peer;

	pthread_mutex_lock(&service.lock); /* the thread is done with it */
	if (service.epoll >= 0)
		epoll_ctl(service.epoll, EPOLL_CTL_DEL, rs->fd, NULL);
	pthread_mutex_unlock(&service.lock);
	cds_list_for_each_entry_safe (peer, next_peer, &datagram->peers, node) {
		if (peer->ah)
			ibv_destroy_ah(peer->ah);
		free(peer);
	}
	cds_list_for_each_entry_safe (endpoint, next_endpoint, &datagram->endpoints, node)
		rs_endpoint_free(endpoint);
	cds_list_for_each_entry_safe (letter, next_letter, &datagram->inbox, node)
		free(letter);
	if (datagram->epoll >= 0)
		close(datagram->epoll);
	if (datagram->news >= 0)
		close(datagram->news);
	if (rs->fd >= 0)
		close(rs->fd);
	free(datagram);
	rs->datagram = NULL;
}

int rs_datagram_bind(struct rsock *rs, const struct sockaddr *address, socklen_t length)
{
	return bind(rs->fd, address, length);
}

int rs_datagram_connect(struct rsock *rs, const struct sockaddr *address, socklen_t length)
{
	if (connect(rs->fd, address, length) < 0)
		return -1;
	rs_lock(rs);
	memset(&rs->datagram->connected, 0, sizeof(rs->datagram->connected));
	memcpy(&rs->datagram->connected, address, address_length(address));
	rs_address_in(&rs->datagram->connected);
	rs_unlock(rs);
	return 0;
}

/* ---- messages ---- */

static void arm(struct rsock *rs)
{
	struct rs_endpoint *endpoint;
	struct ibv_cq *cq;
	uint64_t ignored;
	void *context;

	if (read(rs->datagram->news, &ignored, sizeof(ignored)) < 0)
		errno = 0;
	cds_list_for_each_entry (endpoint, &rs->datagram->endpoints, node) {
		while (ibv_get_cq_event(endpoint->comp, &cq, &context) == 0)
			ibv_ack_cq_events(cq, 1);
		ibv_req_notify_cq(endpoint->cq, 0);
	}
	rs_endpoints_progress(rs);
}

/* With the lock, until something came. 0 or a positive errno. */
static int wait_for_news(struct rsock *rs, int flags)
{
	struct pollfd news = {.fd = rs->datagram->epoll, .events = POLLIN};
	uint32_t before = rs->news;
	int count;

	if (rs_is_nonblocking(rs, flags))
		return EAGAIN;
	arm(rs);
	if (rs->news != before)
		return 0;
	rs_unlock(rs);
	count = poll(&news, 1, -1);
	rs_lock(rs);
	return count < 0 ? errno : 0;
}

static ssize_t send_to(struct rsock *rs, struct rs_peer *peer, const void *data, size_t length,
		       int flags)
{
	int error;

	if (!peer->ah)
		return send_udp(rs, peer, RS_UDP_DATA, data, length, flags);
	while ((error = rs_endpoint_send(peer, rs, data, length)) == EAGAIN) {
		rs_endpoints_progress(rs);
		if (!peer->endpoint->sends)
			error = wait_for_news(rs, flags);
		if (error && error != EAGAIN)
			break;
		if (error && rs_is_nonblocking(rs, flags))
			break;
	}
	return error ? rs_fail(error) : (ssize_t)length;
}

ssize_t rs_datagram_send(struct rsock *rs, const void *data, size_t length, int flags,
			 const struct sockaddr *to, socklen_t to_length)
{
	union rs_address address = rs->datagram->connected;
	struct rs_peer *peer;
	ssize_t sent;
	int error;

	if (to) {
		if (!address_length(to) || to_length < address_length(to))
			return rs_fail(EINVAL);
		memset(&address, 0, sizeof(address));
		memcpy(&address, to, address_length(to));
		rs_address_in(&address);
	} else if (!address.any.sa_family) {
		return rs_fail(EDESTADDRREQ);
	}
	rs_lock(rs);
	rs_endpoints_progress(rs);
	error = rs_peer_find(rs, &address, &peer);
	sent = error ? rs_fail(error) : send_to(rs, peer, data, length, flags);
	rs_unlock(rs);
	return sent;
}

static ssize_t take_letter(struct rsock *rs, void *data, size_t length, int flags,
			   struct sockaddr *from, socklen_t *from_length)
{
	struct rs_letter *letter =
	    cds_list_first_entry(&rs->datagram->inbox, struct rs_letter, node);
	size_t taken = letter->length < length ? letter->length : length;
	union rs_address sender = letter->from;
	socklen_t own;

	memcpy(data, letter->data, taken);
	rs_address_out(&sender, rs->domain);
	own = address_length(&sender.any);
	if (from && from_length) {
		memcpy(from, &sender, own < *from_length ? own : *from_length);
		*from_length = own;
	}
	if (!(flags & MSG_PEEK)) {
		cds_list_del(&letter->node);
		rs->datagram->inbox_count--;
		free(letter);
	}
	return (ssize_t)taken;
}

ssize_t rs_datagram_receive(struct rsock *rs, void *data, size_t length, int flags,
			    struct sockaddr *from, socklen_t *from_length)
{
	ssize_t taken = 0;
	int error = 0;

	rs_lock(rs);
	rs_endpoints_progress(rs);
	while (!rs->datagram->inbox_count && error == 0)
		error = wait_for_news(rs, flags);
	taken = error ? rs_fail(error) : take_letter(rs, data, length, flags, from, from_length);
	rs_unlock(rs);
	return taken;
}

short rs_datagram_events(struct rsock *rs)
{
	rs_endpoints_progress(rs);
	return (rs->datagram->inbox_count ? POLLIN | POLLRDNORM : 0) | POLLOUT | POLLWRNORM;
}

int rs_datagram_arm(struct rsock *rs)
{
	arm(rs);
	return rs->datagram->epoll;
}
