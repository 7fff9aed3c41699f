/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names and options of rsockets.
 */
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/face.h"
#include "rdmacm/rs.h"

static int give_address(const struct sockaddr *from, struct sockaddr *to, socklen_t *length)
{
	socklen_t own = address_length(from);

	if (!to || !length)
		return rs_fail(EFAULT);
	memcpy(to, from, own < *length ? own : *length);
	*length = own;
	return 0;
}

/* Of what has no address yet: the family, and zeros. */
static int give_nothing(const struct rsock *rs, struct sockaddr *to, socklen_t *length)
{
	struct sockaddr_storage none = {.ss_family = (sa_family_t)rs->domain};

	return give_address((struct sockaddr *)&none, to, length);
}

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rsock *rs = rs_find(socket);

	if (!rs)
		return -1;
	if (rs->type == SOCK_DGRAM)
		return getpeername(rs->fd, addr, addrlen);
	if (rs->state != RS_CONNECTED && rs->state != RS_DISCONNECTED)
		return rs_fail(ENOTCONN);
	return give_address(rdma_get_peer_addr(rs->id), addr, addrlen);
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rsock *rs = rs_find(socket);
	struct sockaddr *own;

	if (!rs)
		return -1;
	if (rs->type == SOCK_DGRAM)
		return getsockname(rs->fd, addr, addrlen);
	own = rdma_get_local_addr(rs->id);
	return own->sa_family ? give_address(own, addr, addrlen) : give_nothing(rs, addr, addrlen);
}

int rfcntl(int socket, int cmd, ...)
{
	struct rsock *rs = rs_find(socket);
	va_list values;
	long value;

	if (!rs)
		return -1;
	va_start(values, cmd);
	value = va_arg(values, long);
	va_end(values);
	switch (cmd) {
	case F_GETFL:
		return O_RDWR | rs->fd_flags;
	case F_SETFL:
		rs->fd_flags = (int)value & O_NONBLOCK;
		return 0;
	case F_GETFD:
	case F_SETFD:
		return fcntl(rs->fd, cmd, value);
	default:
		return rs_fail(ENOTSUP);
	}
}

/* ---- setting ---- */

static int set_size(uint32_t *size, const void *value, uint32_t least, uint32_t most)
{
	int number;

	memcpy(&number, value, sizeof(number));
	if (number < 0)
		return EINVAL;
	*size = (uint32_t)number < least  ? least
		: (uint32_t)number > most ? most
					  : (uint32_t)number;
	return 0;
}

/* Buffers are in halves of equal size. */
static int set_buffer(struct rsock *rs, uint32_t *size, const void *value)
{
	int error;

	if (rs->cq)
		return 0; /* as it is: the kernel too takes it for a hint */
	error = set_size(size, value, RS_BUFFER_MIN, 1 << 28);
	*size &= ~1u;
	return error;
}

static int set_socket(struct rsock *rs, int name, const void *value, socklen_t length)
{
	const struct linger *linger = value;
	int number = 0;

	if (length >= sizeof(number))
		memcpy(&number, value, sizeof(number));
	switch (name) {
	case SO_REUSEADDR:
		rs->reuse_address = number != 0;
		return 0;
	case SO_RCVBUF:
		return set_buffer(rs, &rs->rbuf_size, value);
	case SO_SNDBUF:
		return set_buffer(rs, &rs->sbuf_size, value);
	case SO_LINGER:
		rs->has_linger = linger->l_onoff;
		rs->linger_seconds = linger->l_linger;
		return 0;
	case SO_KEEPALIVE:
		rs->keepalive = number != 0;
		return 0;
	case SO_OOBINLINE:
		rs->oob_inline = number != 0;
		return 0;
	default:
		return ENOPROTOOPT;
	}
}

static int set_tcp(struct rsock *rs, int name, const void *value)
{
	int number;

	memcpy(&number, value, sizeof(number));
	switch (name) {
	case TCP_NODELAY:
		rs->is_no_delay = number != 0;
		return 0;
	case TCP_KEEPIDLE:
		if (number <= 0)
			return EINVAL;
		rs->keep_idle = number;
		return 0;
	case TCP_KEEPCNT:
	case TCP_KEEPINTVL:
	case TCP_MAXSEG:
		return 0;
	default:
		return ENOPROTOOPT;
	}
}

static int set_rdma(struct rsock *rs, int name, const void *value, socklen_t length)
{
	if (rs->cq)
		return EINVAL;
	switch (name) {
	case RDMA_SQSIZE:
		return set_size(&rs->sq_size, value, 2 * RS_CTRL_MESSAGES, RS_QUEUE_MAX);
	case RDMA_RQSIZE:
		return set_size(&rs->rq_size, value, 2 * RS_CTRL_MESSAGES, RS_QUEUE_MAX);
	case RDMA_INLINE:
		return set_size(&rs->inline_size, value, 0, 4096);
	case RDMA_IOMAPSIZE:
		if (set_size(&rs->iomap_size, value, 0, RS_IOMAPS_MAX))
			return EINVAL;
		rs->iomap_size = (rs->iomap_size + 7) & ~7u;
		return 0;
	case RDMA_ROUTE:
		free(rs->route);
		rs->route = malloc(length);
		if (!rs->route)
			return ENOMEM;
		memcpy(rs->route, value, length);
		rs->route_length = length;
		return 0;
	default:
		return ENOPROTOOPT;
	}
}

int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
	struct rsock *rs = rs_find(socket);
	int error = ENOPROTOOPT, number = 0;

	if (!rs)
		return -1;
	if (!optval)
		return rs_fail(EFAULT);
	if (optlen < sizeof(number))
		return rs_fail(EINVAL);
	if (rs->type == SOCK_DGRAM && level != SOL_RDMA)
		return setsockopt(rs->fd, level, optname, optval, optlen);
	memcpy(&number, optval, sizeof(number));
	rs_lock(rs);
	if (level == SOL_SOCKET) {
		error = set_socket(rs, optname, optval, optlen);
	} else if (level == IPPROTO_TCP) {
		error = set_tcp(rs, optname, optval);
	} else if (level == IPPROTO_IPV6 && optname == IPV6_V6ONLY) {
		rs->v6_only = number != 0;
		error = 0;
	} else if (level == SOL_RDMA) {
		error = set_rdma(rs, optname, optval, optlen);
	}
	rs_unlock(rs);
	return error ? rs_fail(error) : 0;
}

/* ---- asking ---- */

static int take_error(struct rsock *rs)
{
	int error;

	rs_events(rs); /* connecting may have come to an end */
	error = rs->error;
	rs->error = 0;
	return error;
}

static int get_socket(struct rsock *rs, int name, int *number)
{
	switch (name) {
	case SO_ERROR:
		*number = take_error(rs);
		return 0;
	case SO_TYPE:
		*number = rs->type;
		return 0;
	case SO_DOMAIN:
		*number = rs->domain;
		return 0;
	case SO_PROTOCOL:
		*number = IPPROTO_TCP;
		return 0;
	case SO_ACCEPTCONN:
		*number = rs->state == RS_LISTENING;
		return 0;
	case SO_REUSEADDR:
		*number = rs->reuse_address;
		return 0;
	case SO_KEEPALIVE:
		*number = rs->keepalive;
		return 0;
	case SO_OOBINLINE:
		*number = rs->oob_inline;
		return 0;
	case SO_RCVBUF:
		*number = (int)rs->rbuf_size;
		return 0;
	case SO_SNDBUF:
		*number = (int)rs->sbuf_size;
		return 0;
	default:
		return ENOPROTOOPT;
	}
}

static int get_tcp(const struct rsock *rs, int name, int *number)
{
	switch (name) {
	case TCP_NODELAY:
		*number = rs->is_no_delay;
		return 0;
	case TCP_KEEPIDLE:
		*number = rs->keep_idle;
		return 0;
	case TCP_MAXSEG:
		*number =
		    (rs->id && rs->id->route.path_rec) ? 128 << rs->id->route.path_rec->mtu : 2048;
		return 0;
	case TCP_KEEPCNT:
		*number = 1;
		return 0;
	case TCP_KEEPINTVL:
		*number = rs->keep_idle;
		return 0;
	default:
		return ENOPROTOOPT;
	}
}

static int get_rdma(const struct rsock *rs, int name, int *number)
{
	switch (name) {
	case RDMA_SQSIZE:
		*number = (int)rs->sq_size;
		return 0;
	case RDMA_RQSIZE:
		*number = (int)rs->rq_size;
		return 0;
	case RDMA_INLINE:
		*number = (int)rs->inline_size;
		return 0;
	case RDMA_IOMAPSIZE:
		*number = (int)rs->iomap_size;
		return 0;
	default:
		return ENOPROTOOPT;
	}
}

int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
	struct rsock *rs = rs_find(socket);
	struct linger linger;
	int error = ENOPROTOOPT, number = 0;

	if (!rs)
		return -1;
	if (!optval || !optlen)
		return rs_fail(EFAULT);
	if (rs->type == SOCK_DGRAM && level != SOL_RDMA)
		return getsockopt(rs->fd, level, optname, optval, optlen);
	rs_lock(rs);
	if (level == SOL_SOCKET && optname == SO_LINGER) {
		linger = (struct linger){rs->has_linger, rs->linger_seconds};
		memcpy(optval, &linger, *optlen < sizeof(linger) ? *optlen : sizeof(linger));
		*optlen = sizeof(linger);
		rs_unlock(rs);
		return 0;
	}
	if (level == SOL_SOCKET) {
		error = get_socket(rs, optname, &number);
	} else if (level == IPPROTO_TCP) {
		error = get_tcp(rs, optname, &number);
	} else if (level == IPPROTO_IPV6 && optname == IPV6_V6ONLY) {
		number = rs->v6_only;
		error = 0;
	} else if (level == SOL_RDMA) {
		error = get_rdma(rs, optname, &number);
	}
	rs_unlock(rs);
	if (error)
		return rs_fail(error);
	memcpy(optval, &number, *optlen < sizeof(number) ? *optlen : sizeof(number));
	*optlen = sizeof(number);
	return 0;
}
