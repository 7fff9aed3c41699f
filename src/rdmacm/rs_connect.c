/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams made and ended. Connecting goes from step to step as the connection manager's events
 * come; a listener's requests are answered by a thread of its own kind, as a listening socket's are
 * by the kernel, so that a program that connects to itself need not be in raccept() meanwhile.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <infiniband/ib.h>

#include "engine/thread.h"
#include "rdmacm/face.h"
#include "rdmacm/rs.h"

enum { RESOLVE_MS = 2000, CLOSE_MS = 5000, DEFAULT_BACKLOG = 128 };

/* The listeners' thread. */
static struct {
	pthread_mutex_t lock;
	bool is_running;
	int epoll, stop;
	pthread_t thread;
} listeners = {.lock = PTHREAD_MUTEX_INITIALIZER, .epoll = -1, .stop = -1};

/* ---- making ---- */

static int open_id(struct rsock *rs)
{
	rs->channel = rdma_create_event_channel();
	if (!rs->channel)
		return errno;
	fcntl(rs->channel->fd, F_SETFL, O_NONBLOCK);
	if (rdma_create_id(rs->channel, &rs->id, rs, RDMA_PS_TCP))
		return errno;
	rs->fd = rs->channel->fd;
	return 0;
}

int rsocket(int domain, int type, int protocol)
{
	struct rsock *rs;
	int error;

	if (domain == AF_IB)
		domain = AF_INET6;
	if (domain != AF_INET && domain != AF_INET6)
		return rs_fail(EAFNOSUPPORT);
	if ((type & 0xf) != SOCK_STREAM && (type & 0xf) != SOCK_DGRAM)
		return rs_fail(EPROTONOSUPPORT);
	if (protocol && protocol != ((type & 0xf) == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP))
		return rs_fail(EPROTONOSUPPORT);
	rs = rs_create(domain, type & 0xf);
	if (!rs)
		return rs_fail(ENOMEM);
	if (type & SOCK_NONBLOCK)
		rs->fd_flags |= O_NONBLOCK;
	error = rs->type == SOCK_STREAM ? open_id(rs) : rs_datagram_open(rs);
	if (error == 0)
		error = rs_insert(rs);
	if (error) {
		rs_free(rs);
		return rs_fail(error);
	}
	return rs->fd;
}

static void set_id_options(struct rsock *rs)
{
	int one = 1;

	if (rs->reuse_address)
		rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one,
				sizeof(one));
	if (rs->v6_only)
		rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &one, sizeof(one));
}

/* The length of what `addr` is then. */
static socklen_t plain(const struct sockaddr **addr, socklen_t length,
		       struct sockaddr_storage *room)
{
	if (!*addr || length < sizeof(struct sockaddr_ib) || (*addr)->sa_family != AF_IB)
		return length;
	*addr = address_plain(*addr, room);
	return address_length(*addr);
}

int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct rsock *rs = rs_find(socket);
	struct sockaddr_storage room;
	int rc;

	if (!rs)
		return -1;
	addrlen = plain(&addr, addrlen, &room);
	if (!addr || addrlen < address_length(addr) || !address_length(addr))
		return rs_fail(EINVAL);
	if (rs->type == SOCK_DGRAM)
		return rs_datagram_bind(rs, addr, addrlen);
	rs_lock(rs);
	set_id_options(rs);
	rc = rs->state == RS_INIT ? rdma_bind_addr(rs->id, (struct sockaddr *)addr)
				  : rs_fail(EINVAL);
	if (rc == 0)
		rs->state = RS_BOUND;
	rs_unlock(rs);
	return rc;
}

/* ---- the active side ---- */

static void fail(struct rsock *rs, int error)
{
	rs->state = RS_ERROR;
	rs->error = error;
	rs->can_read = rs->can_write = false;
}

static void set_connected(struct rsock *rs)
{
	rs->state = RS_CONNECTED;
	rs->can_read = rs->can_write = true;
}

static void ask(struct rsock *rs)
{
	struct rs_conn_data data;
	struct rdma_conn_param param = {
	    .private_data = &data,
	    .private_data_len = sizeof(data),
	    .retry_count = 7,
	    .rnr_retry_count = 7,
	};
	int error = rs_make_queues(rs);

	if (error) {
		fail(rs, error);
		return;
	}
	rs_fill_conn_data(rs, &data);
	rs->state = RS_CONNECTING;
	if (rdma_connect(rs->id, &param))
		fail(rs, errno);
}

static void find_route(struct rsock *rs)
{
	int rc = rs->route ? rdma_set_option(rs->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, rs->route,
					     rs->route_length)
			   : rdma_resolve_route(rs->id, RESOLVE_MS);

	if (rc)
		fail(rs, errno);
}

static void told_established(struct rsock *rs, const struct rdma_cm_event *event)
{
	int error;

	if (rs->state == RS_ACCEPTING) {
		set_connected(rs);
		return;
	}
	if (rs->state != RS_CONNECTING)
		return;
	error = rs_take_conn_data(rs, event->param.conn.private_data,
				  event->param.conn.private_data_len);
	if (error)
		fail(rs, error);
	else
		set_connected(rs);
}

/* The peer's data that came before the end is still to be read. */
static void told_end(struct rsock *rs)
{
	rs_progress(rs);
	if (rs->state == RS_CONNECTED) {
		rs->can_write = rs->can_read = false;
		rs->state = RS_DISCONNECTED;
		if (!rs->is_closing)
			rs->error = ECONNRESET;
	}
}

void rs_cm_event(struct rsock *rs, const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		find_route(rs);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		ask(rs);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		told_established(rs, event);
		break;
	case RDMA_CM_EVENT_REJECTED:
		fail(rs, ECONNREFUSED);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		fail(rs, ETIMEDOUT);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		fail(rs, EHOSTUNREACH);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		told_end(rs);
		break;
	default:
		break;
	}
}

bool rs_is_settled(const struct rsock *rs)
{
	return rs->state != RS_RESOLVING && rs->state != RS_CONNECTING && rs->state != RS_ACCEPTING;
}

static int finish_connect(struct rsock *rs)
{
	int error = rs_wait(rs, rs_is_settled, rs->fd_flags & O_NONBLOCK ? 0 : -1);

	if (error)
		return error == EAGAIN ? EINPROGRESS : error;
	if (rs->state == RS_CONNECTED)
		return 0;
	error = rs->error ? rs->error : ECONNREFUSED;
	rs->error = 0;
	return error;
}

int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct rsock *rs = rs_find(socket);
	struct sockaddr_storage room;
	int error = 0;

	if (!rs)
		return -1;
	addrlen = plain(&addr, addrlen, &room);
	if (!addr || addrlen < address_length(addr) || !address_length(addr))
		return rs_fail(EINVAL);
	if (rs->type == SOCK_DGRAM)
		return rs_datagram_connect(rs, addr, addrlen);
	rs_lock(rs);
	if (rs->state == RS_INIT || rs->state == RS_BOUND) {
		set_id_options(rs);
		if (rdma_resolve_addr(rs->id, NULL, (struct sockaddr *)addr, RESOLVE_MS))
			error = errno;
		else
			rs->state = RS_RESOLVING;
	} else if (rs->state == RS_CONNECTED) {
		error = EISCONN;
	} else if (rs_is_settled(rs)) {
		error = rs->error ? rs->error : EINVAL;
	} else if (rs->fd_flags & O_NONBLOCK) {
		error = finish_connect(rs);
		rs_unlock(rs);
		return error ? rs_fail(error == EINPROGRESS ? EALREADY : error) : 0;
	}
	if (error == 0)
		error = finish_connect(rs);
	rs_unlock(rs);
	return error ? rs_fail(error) : 0;
}

/* ---- the passive side ---- */

static void drop_embryo(struct rsock *rs)
{
	cds_list_del(&rs->node);
	rs->channel = NULL; /* the listener's */
	rs_free(rs);
}

static void take_request(struct rsock *listener, struct rdma_cm_event *event)
{
	struct rsock *rs = rs_create(listener->domain, SOCK_STREAM);
	struct rs_conn_data data;
	struct rdma_conn_param param = {.private_data = &data,
					.private_data_len = sizeof(data),
					.retry_count = 7,
					.rnr_retry_count = 7};
	int error;

	if (!rs) {
		rdma_reject(event->id, NULL, 0);
		rdma_destroy_id(event->id);
		return;
	}
	rs->id = event->id;
	rs->id->context = rs;
	rs->parent = listener;
	rs->state = RS_ACCEPTING;
	rs->sq_size = listener->sq_size;
	rs->rq_size = listener->rq_size;
	rs->sbuf_size = listener->sbuf_size;
	rs->rbuf_size = listener->rbuf_size;
	rs->inline_size = listener->inline_size;
	rs->iomap_size = listener->iomap_size;
	rs->keepalive = listener->keepalive;
	rs->keep_idle = listener->keep_idle;
	cds_list_add_tail(&rs->node, &listener->embryos);
	error = rs_make_queues(rs);
	if (error == 0)
		error = rs_take_conn_data(rs, event->param.conn.private_data,
					  event->param.conn.private_data_len);
	if (error == 0) {
		rs_fill_conn_data(rs, &data);
		if (rdma_accept(rs->id, &param))
			error = errno;
	} else {
		rdma_reject(rs->id, NULL, 0);
	}
	if (error)
		drop_embryo(rs);
}

static void take_established(struct rsock *listener, struct rsock *rs)
{
	uint64_t one = 1;

	set_connected(rs);
	cds_list_del(&rs->node);
	cds_list_add_tail(&rs->node, &listener->ready);
	listener->ready_count++;
	if (write(listener->ready_fd, &one, sizeof(one)) < 0)
		return;
	pthread_cond_broadcast(&listener->changed);
	rs_wake_pollers(listener);
}

/* An id whose request is on the list of those that are ready may end before it is accepted: its end
 * is told again on its own channel by what is in its queues. */
static void take_listener_events(struct rsock *listener)
{
	struct rdma_cm_event *event, copy;
	struct rsock *gone;

	rs_lock(listener);
	while (!listener->is_closing && rdma_get_cm_event(listener->channel, &event) == 0) {
		copy = *event;
		gone = NULL;
		if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			take_request(listener, event);
		} else if (copy.id != listener->id) {
			struct rsock *rs = copy.id->context;

			if (rs->state == RS_ACCEPTING && copy.event == RDMA_CM_EVENT_ESTABLISHED)
				take_established(listener, rs);
			else if (rs->state == RS_ACCEPTING)
				gone = rs;
			else
				rs_cm_event(rs, &copy);
		}
		rdma_ack_cm_event(event);
		if (gone)
			drop_embryo(gone);
	}
	rs_unlock(listener);
}

static void *serve_listeners(void *data)
{
	struct epoll_event events[16];

	for (;;) {
		int count = epoll_wait(listeners.epoll, events, 16, -1);

		pthread_mutex_lock(&listeners.lock);
		for (int i = 0; i < count; i++) {
			struct rsock *rs = rs_find(events[i].data.fd);

			if (events[i].data.fd == listeners.stop) {
				pthread_mutex_unlock(&listeners.lock);
				return NULL;
			}

			if (rs && rs->state == RS_LISTENING)
				take_listener_events(rs);
		}
		pthread_mutex_unlock(&listeners.lock);
	}
	return NULL;
}

/* With the lock. 0 or a positive errno. */
static int start_thread(void)
{
	struct epoll_event event = {.events = EPOLLIN};

	listeners.epoll = epoll_create1(EPOLL_CLOEXEC);
	listeners.stop = eventfd(0, EFD_CLOEXEC);
	event.data.fd = listeners.stop;
	if (listeners.epoll < 0 || listeners.stop < 0 ||
	    epoll_ctl(listeners.epoll, EPOLL_CTL_ADD, listeners.stop, &event) < 0)
		return errno;
	return -thread_start(&listeners.thread, "verbatim/rs", serve_listeners, NULL);
}

void rs_listeners_hold(void)
{
	pthread_mutex_lock(&listeners.lock);
}

void rs_listeners_release(void)
{
	pthread_mutex_unlock(&listeners.lock);
}

void rs_listeners_abandon(void)
{
	if (listeners.epoll >= 0)
		close(listeners.epoll);
	if (listeners.stop >= 0)
		close(listeners.stop);
	listeners.epoll = listeners.stop = -1;
	listeners.is_running = false;
}

__attribute__((destructor)) static void stop_thread(void)
{
	uint64_t one = 1;

	if (listeners.is_running && write(listeners.stop, &one, sizeof(one)) == sizeof(one))
		thread_join(listeners.thread);
	listeners.is_running = false;
}

static int start_serving(struct rsock *rs)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = rs->fd};
	int error = 0;

	pthread_mutex_lock(&listeners.lock);
	if (!listeners.is_running) {
		error = start_thread();
		listeners.is_running = error == 0;
	}
	if (error == 0 && epoll_ctl(listeners.epoll, EPOLL_CTL_ADD, rs->fd, &event) < 0 &&
	    errno != EEXIST)
		error = errno;
	pthread_mutex_unlock(&listeners.lock);
	return error;
}

static int listen_now(struct rsock *rs, int backlog)
{
	if (rs->state == RS_LISTENING)
		return 0;
	if (rs->state != RS_INIT && rs->state != RS_BOUND)
		return EINVAL;
	rs->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE | EFD_NONBLOCK);
	if (rs->ready_fd < 0)
		return errno;
	if (rdma_listen(rs->id, backlog > 0 ? backlog : DEFAULT_BACKLOG))
		return errno;
	rs->state = RS_LISTENING;
	return 0;
}

int rlisten(int socket, int backlog)
{
	struct rsock *rs = rs_find(socket);
	int error;

	if (!rs)
		return -1;
	if (rs->type != SOCK_STREAM)
		return rs_fail(EOPNOTSUPP);
	rs_lock(rs);
	error = listen_now(rs, backlog);
	rs_unlock(rs);
	if (error == 0)
		error = start_serving(rs); /* that lock comes first */
	return error ? rs_fail(error) : 0;
}

/* Off the listener's channel, to one of its own. */
static int settle(struct rsock *rs)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	if (!channel)
		return errno;
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	rs->channel = channel;
	rs->fd = channel->fd;
	if (rdma_migrate_id(rs->id, channel))
		return errno;
	return rs_insert(rs);
}

static struct rsock *take_ready(struct rsock *listener)
{
	struct rsock *rs = cds_list_first_entry(&listener->ready, struct rsock, node);
	uint64_t token;

	cds_list_del(&rs->node);
	listener->ready_count--;
	if (read(listener->ready_fd, &token, sizeof(token)) < 0)
		return rs; /* the list counts */
	return rs;
}

int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rsock *listener = rs_find(socket), *rs;
	int error = 0;

	if (!listener)
		return -1;
	rs_lock(listener);
	if (listener->state != RS_LISTENING)
		error = EINVAL;
	else if (!listener->ready_count && listener->fd_flags & O_NONBLOCK)
		error = EAGAIN;
	while (error == 0 && !listener->ready_count && !listener->is_closing) {
		struct pollfd ready = {.fd = listener->ready_fd, .events = POLLIN};

		rs_unlock(listener);
		error = poll(&ready, 1, -1) < 0 ? errno : 0;
		rs_lock(listener);
	}
	if (error || listener->is_closing) {
		rs_unlock(listener);
		return rs_fail(error ? error : EBADF);
	}
	rs = take_ready(listener);
	error = settle(rs);
	rs_unlock(listener);
	if (error) {
		rs_free(rs);
		return rs_fail(error);
	}
	if (addr && addrlen)
		rgetpeername(rs->fd, addr, addrlen);
	return rs->fd;
}

/* ---- the end ---- */

static int shut_down(struct rsock *rs, int how)
{
	enum rs_ctrl word = RS_CTRL_DISCONNECT;

	if (rs->state == RS_DISCONNECTED)
		return 0;
	if (rs->state != RS_CONNECTED)
		return ENOTCONN;
	if (how == SHUT_RD && rs->can_write) {
		rs->can_read = false;
		return 0;
	}
	if (how == SHUT_WR && rs->can_read)
		word = RS_CTRL_SHUTDOWN;
	if (how == SHUT_WR && !rs->can_write)
		return 0;
	rs->can_write = false;
	if (word == RS_CTRL_DISCONNECT)
		rs->can_read = false;
	rs_send_ctrl(rs, word);
	if (word == RS_CTRL_DISCONNECT) {
		rs->is_closing = true;
		rs_wait(rs, rs_is_sent, CLOSE_MS);
		rs->state = RS_DISCONNECTED;
	}
	pthread_cond_broadcast(&rs->changed);
	rs_wake_pollers(rs);
	return 0;
}

int rshutdown(int socket, int how)
{
	struct rsock *rs = rs_find(socket);
	int error;

	if (!rs)
		return -1;
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return rs_fail(EINVAL);
	rs_lock(rs);
	error = rs->type == SOCK_DGRAM ? 0 : shut_down(rs, how);
	rs_unlock(rs);
	return error ? rs_fail(error) : 0;
}

static void close_listener(struct rsock *rs)
{
	struct rsock *one, *next;
	uint64_t one_token = 1;

	pthread_mutex_lock(&listeners.lock);
	rs_lock(rs);
	rs->is_closing = true;
	epoll_ctl(listeners.epoll, EPOLL_CTL_DEL, rs->fd, NULL);
	cds_list_for_each_entry_safe (one, next, &rs->embryos, node)
		drop_embryo(one);
	cds_list_for_each_entry_safe (one, next, &rs->ready, node)
		drop_embryo(one);
	if (write(rs->ready_fd, &one_token, sizeof(one_token)) < 0)
		errno = 0;
	rs_unlock(rs);
	pthread_mutex_unlock(&listeners.lock);
}

int rclose(int socket)
{
	struct rsock *rs = rs_find(socket);

	if (!rs)
		return rs_is_epoll(socket) ? rs_epoll_close(socket) : rs_fail(EBADF);
	rs_remove(rs);
	if (rs->type == SOCK_DGRAM) {
		rs_datagram_close(rs);
		rs_free(rs);
		return 0;
	}
	if (rs->state == RS_LISTENING) {
		close_listener(rs);
	} else {
		rs_lock(rs);
		shut_down(rs, SHUT_RDWR);
		if (rs->state == RS_DISCONNECTED && !rs_is_sent(rs)) {
			rs->is_closing = true;
			rs_progress(rs);
		}
		rs_unlock(rs);
		if (rs->id && rs->cq)
			rdma_disconnect(rs->id);
	}
	rs_free(rs);
	return 0;
}
