/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets, which this version does not implement: each call refuses by name. When the real one is
 * written, its stand-in here goes.
 */
#include <rdma/rsocket.h>

#include "rdmacm/unsupported.h"

int rsocket(int domain, int type, int protocol)
{
	return CM_NOT_IMPLEMENTED();
}

int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	return CM_NOT_IMPLEMENTED();
}

int rlisten(int socket, int backlog)
{
	return CM_NOT_IMPLEMENTED();
}

int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return CM_NOT_IMPLEMENTED();
}

int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	return CM_NOT_IMPLEMENTED();
}

int rshutdown(int socket, int how)
{
	return CM_NOT_IMPLEMENTED();
}

int rclose(int socket)
{
	return CM_NOT_IMPLEMENTED();
}

ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	return CM_NOT_IMPLEMENTED();
}

ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
		  socklen_t *addrlen)
{
	return CM_NOT_IMPLEMENTED();
}

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	return CM_NOT_IMPLEMENTED();
}

ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	return CM_NOT_IMPLEMENTED();
}

ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		const struct sockaddr *dest_addr, socklen_t addrlen)
{
	return CM_NOT_IMPLEMENTED();
}

ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	return CM_NOT_IMPLEMENTED();
}

ssize_t rread(int socket, void *buf, size_t count)
{
	return CM_NOT_IMPLEMENTED();
}

ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	return CM_NOT_IMPLEMENTED();
}

ssize_t rwrite(int socket, const void *buf, size_t count)
{
	return CM_NOT_IMPLEMENTED();
}

ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	return CM_NOT_IMPLEMENTED();
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	return CM_NOT_IMPLEMENTED();
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	return CM_NOT_IMPLEMENTED();
}

int repoll_create(int flags)
{
	return CM_NOT_IMPLEMENTED();
}

int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	return CM_NOT_IMPLEMENTED();
}

int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
	return CM_NOT_IMPLEMENTED();
}

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return CM_NOT_IMPLEMENTED();
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return CM_NOT_IMPLEMENTED();
}

int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
	return CM_NOT_IMPLEMENTED();
}

int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
	return CM_NOT_IMPLEMENTED();
}

int rfcntl(int socket, int cmd, ...)
{
	return CM_NOT_IMPLEMENTED();
}

off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	return CM_NOT_IMPLEMENTED();
}

int riounmap(int socket, void *buf, size_t len)
{
	return CM_NOT_IMPLEMENTED();
}

size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	return (size_t)CM_NOT_IMPLEMENTED();
}
