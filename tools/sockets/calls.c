/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The socket calls of the program. Each is the C library's for what is none of ours.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include "sockets.h"

/* Our libraries make sockets of their own inside the calls. */
static _Thread_local bool is_inside;

int socket(int domain, int type, int protocol)
{
	int rsocket_fd;

	table_find(-1);
	if (is_inside || (domain != AF_INET && domain != AF_INET6) || (type & 0xf) != SOCK_STREAM ||
	    (protocol && protocol != IPPROTO_TCP))
		return libc.socket(domain, type, protocol);
	is_inside = true;
	rsocket_fd = rsocket(domain, type & ~SOCK_CLOEXEC, 0);
	is_inside = false;
	if (rsocket_fd < 0)
		return libc.socket(domain, type, protocol);
	return table_place(rsocket_fd, type);
}

/* A TCP socket in the place of the rsocket, for where RDMA does not lead. */
static int give_up(int fd)
{
	struct sockaddr_storage name;
	socklen_t length = sizeof(name);
	int rs = table_find(fd), flags = rfcntl(rs, F_GETFL, 0);
	int tcp;

	rgetsockname(rs, (struct sockaddr *)&name, &length);
	tcp =
	    libc.socket(name.ss_family, SOCK_STREAM | (flags & O_NONBLOCK ? SOCK_NONBLOCK : 0), 0);
	if (tcp < 0)
		return -1;
	table_drop(fd);
	if (libc.dup2(tcp, fd) < 0)
		return -1;
	return libc.close(tcp);
}

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	int rs = table_find(fd), rc;

	if (rs < 0)
		return libc.bind(fd, address, length);
	is_inside = true;
	rc = rbind(rs, address, length);
	is_inside = false;
	if (rc == 0 || errno == EADDRINUSE || give_up(fd) < 0)
		return rc;
	return libc.bind(fd, address, length);
}

int listen(int fd, int backlog)
{
	int rs = table_find(fd), rc;

	if (rs < 0)
		return libc.listen(fd, backlog);
	is_inside = true;
	rc = rlisten(rs, backlog);
	is_inside = false;
	return rc;
}

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	int rs = table_find(fd), accepted;

	if (rs < 0)
		return libc.accept4(fd, address, length, flags);
	is_inside = true;
	accepted = raccept(rs, address, length);
	is_inside = false;
	if (accepted < 0)
		return -1;
	if (flags & SOCK_NONBLOCK)
		rfcntl(accepted, F_SETFL, O_NONBLOCK);
	return table_place(accepted, flags);
}

int accept(int fd, struct sockaddr *address, socklen_t *length)
{
	return accept4(fd, address, length, 0);
}

/* Waited for even where the program would not wait: it is a matter of a millisecond, and only then
 * it is known whether TCP has to do it. */
int connect(int fd, const struct sockaddr *address, socklen_t length)
{
	int rs = table_find(fd), flags, rc;

	if (rs < 0)
		return libc.connect(fd, address, length);
	is_inside = true;
	flags = rfcntl(rs, F_GETFL, 0);
	rfcntl(rs, F_SETFL, 0);
	rc = rconnect(rs, address, length);
	if (rc == 0)
		rfcntl(rs, F_SETFL, flags);
	is_inside = false;
	if (rc == 0 || errno == EISCONN)
		return rc;
	rfcntl(rs, F_SETFL, flags);
	if (give_up(fd) < 0)
		return -1;
	return libc.connect(fd, address, length);
}

int shutdown(int fd, int how)
{
	int rs = table_find(fd);

	return rs < 0 ? libc.shutdown(fd, how) : rshutdown(rs, how);
}

int close(int fd)
{
	if (table_find(fd) >= 0)
		table_drop(fd);
	else
		sets_close(fd);
	return libc.close(fd);
}

/* ---- data ---- */

ssize_t recvfrom(int fd, void *data, size_t length, int flags, struct sockaddr *from,
		 socklen_t *from_length)
{
	int rs = table_find(fd);

	return rs < 0 ? libc.recvfrom(fd, data, length, flags, from, from_length)
		      : rrecvfrom(rs, data, length, flags, from, from_length);
}

ssize_t recv(int fd, void *data, size_t length, int flags)
{
	int rs = table_find(fd);

	return rs < 0 ? libc.recv(fd, data, length, flags) : rrecv(rs, data, length, flags);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	int rs = table_find(fd);

	return rs < 0 ? libc.recvmsg(fd, message, flags) : rrecvmsg(rs, message, flags);
}

ssize_t read(int fd, void *data, size_t length)
{
	int rs = table_find(fd);

	return rs < 0 ? libc.read(fd, data, length) : rread(rs, data, length);
}

ssize_t readv(int fd, const struct iovec *iov, int count)
{
	int rs = table_find(fd);

	return rs < 0 ? libc.readv(fd, iov, count) : rreadv(rs, iov, count);
}

ssize_t send(int fd, const void *data, size_t length, int flags)
{
	int rs = table_find(fd);

	return rs < 0 ? libc.send(fd, data, length, flags) : rsend(rs, data, length, flags);
}

ssize_t sendto(int fd, const void *data, size_t length, int flags, const struct sockaddr *to,
	       socklen_t to_length)
{
	int rs = table_find(fd);

	return rs < 0 ? libc.sendto(fd, data, length, flags, to, to_length)
		      : rsendto(rs, data, length, flags, to, to_length);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	int rs = table_find(fd);

	return rs < 0 ? libc.sendmsg(fd, message, flags) : rsendmsg(rs, message, flags);
}

ssize_t write(int fd, const void *data, size_t length)
{
	int rs = table_find(fd);

	return rs < 0 ? libc.write(fd, data, length) : rwrite(rs, data, length);
}

ssize_t writev(int fd, const struct iovec *iov, int count)
{
	int rs = table_find(fd);

	return rs < 0 ? libc.writev(fd, iov, count) : rwritev(rs, iov, count);
}

ssize_t sendfile(int out, int in, off_t *offset, size_t count)
{
	enum { PIECE = 1 << 16 };
	int rs = table_find(out);
	char piece[PIECE];
	size_t done = 0;

	if (rs < 0)
		return libc.sendfile(out, in, offset, count);
	while (done < count) {
		size_t want = count - done < PIECE ? count - done : PIECE;
		ssize_t got = offset ? pread(in, piece, want, *offset) : libc.read(in, piece, want);
		ssize_t sent = got > 0 ? rsend(rs, piece, (size_t)got, 0) : got;

		if (sent < 0)
			return done ? (ssize_t)done : -1;
		if (!offset && sent < got)
			lseek(in, sent - got, SEEK_CUR);
		if (offset)
			*offset += sent;
		done += (size_t)sent;
		if (sent == 0 || sent < got)
			break;
	}
	return (ssize_t)done;
}

ssize_t sendfile64(int out, int in, off_t *offset, size_t count)
{
	return sendfile(out, in, offset, count);
}

/* What _FORTIFY_SOURCE makes of them. */
ssize_t __read_chk(int fd, void *data, size_t length, size_t room);
ssize_t __recv_chk(int fd, void *data, size_t length, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *data, size_t length, size_t room, int flags,
		       struct sockaddr *from, socklen_t *from_length);

ssize_t __read_chk(int fd, void *data, size_t length, size_t room)
{
	if (length > room)
		abort();
	return read(fd, data, length);
}

ssize_t __recv_chk(int fd, void *data, size_t length, size_t room, int flags)
{
	if (length > room)
		abort();
	return recv(fd, data, length, flags);
}

ssize_t __recvfrom_chk(int fd, void *data, size_t length, size_t room, int flags,
		       struct sockaddr *from, socklen_t *from_length)
{
	if (length > room)
		abort();
	return recvfrom(fd, data, length, flags, from, from_length);
}

/* ---- names and options ---- */

int getpeername(int fd, struct sockaddr *address, socklen_t *length)
{
	int rs = table_find(fd);

	return rs < 0 ? libc.getpeername(fd, address, length) : rgetpeername(rs, address, length);
}

int getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
	int rs = table_find(fd);

	return rs < 0 ? libc.getsockname(fd, address, length) : rgetsockname(rs, address, length);
}

/* What means nothing to a stream over RDMA is taken, as far as programs set it for speed alone. */
int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	int rs = table_find(fd), rc;

	if (rs < 0)
		return libc.setsockopt(fd, level, name, value, length);
	rc = rsetsockopt(rs, level, name, value, length);
	return rc < 0 && errno == ENOPROTOOPT ? 0 : rc;
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	int rs = table_find(fd);

	return rs < 0 ? libc.getsockopt(fd, level, name, value, length)
		      : rgetsockopt(rs, level, name, value, length);
}

int fcntl(int fd, int command, ...)
{
	int rs = table_find(fd), copy;
	va_list values;
	void *value;

	va_start(values, command);
	value = va_arg(values, void *);
	va_end(values);
	if (rs < 0 || command == F_GETFD || command == F_SETFD)
		return libc.fcntl(fd, command, value);
	if (command != F_DUPFD && command != F_DUPFD_CLOEXEC)
		return rfcntl(rs, command, (long)value);
	copy = libc.fcntl(fd, command, value);
	if (copy >= 0)
		table_set(copy, rs);
	return copy;
}

int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

int ioctl(int fd, unsigned long request, ...)
{
	int rs = table_find(fd);
	va_list values;
	char byte;
	void *value;

	va_start(values, request);
	value = va_arg(values, void *);
	va_end(values);
	if (rs < 0)
		return libc.ioctl(fd, request, value);
	if (request == FIONBIO)
		return rfcntl(rs, F_SETFL, *(int *)value ? (long)O_NONBLOCK : 0L);
	if (request == FIONREAD) {
		ssize_t has = rrecv(rs, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

		*(int *)value = has > 0;
		return 0;
	}
	errno = EINVAL;
	return -1;
}

/* ---- copies of descriptors ---- */

static int copied(int fd, int copy)
{
	int rs = table_find(fd);

	if (copy >= 0 && rs >= 0 && copy != fd)
		table_set(copy, rs);
	return copy;
}

int dup(int fd)
{
	table_find(-1);
	return copied(fd, libc.dup(fd));
}

int dup2(int fd, int copy)
{
	table_find(-1);
	if (fd != copy && fcntl(fd, F_GETFD) >= 0)
		table_drop(copy);
	return copied(fd, libc.dup2(fd, copy));
}

int dup3(int fd, int copy, int flags)
{
	table_find(-1);
	if (fd != copy && fcntl(fd, F_GETFD) >= 0)
		table_drop(copy);
	return copied(fd, libc.dup3(fd, copy, flags));
}
