/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets: the socket calls, each with an r in front, over RDMA. They take and return what their
 * namesakes do; a descriptor of one kind is no descriptor of the other, but for rpoll(), rselect()
 * and repoll_ctl(), which take both. `verbatim run --sockets` gives them to programs that know
 * sockets only.
 *
 * Returns int: 0, or -1 with errno set.
 * Threads: any thread, at any time, with the same rsocket, too; what several send or receive at
 * once is not kept apart.
 * Man: rsocket(7).
 */
#ifndef RSOCKET_H
#define RSOCKET_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/mman.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes an rsocket: domain AF_INET or AF_INET6, type SOCK_STREAM or SOCK_DGRAM, perhaps with
 * SOCK_NONBLOCK.
 * Returns a descriptor, for these calls alone, or -1 with errno set.
 * Errors: EAFNOSUPPORT: another domain (AF_IB is taken for AF_INET6); EPROTONOSUPPORT: another
 * type, or a protocol that is not the type's; ENODEV: there is no device; EMFILE: no descriptor is
 * left; ENOMEM.
 */
int rsocket(int domain, int type, int protocol);

/*
 * Binds an rsocket to a local address and port; port 0 is a free one.
 * Errors: EBADF: no rsocket; EINVAL: no address, or it is bound already; EADDRINUSE: the port is
 * taken; ENODEV: no device has the address.
 */
int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen);

/*
 * Listens for connections. backlog 0 or less is a default one.
 * Errors: EBADF: no rsocket; EOPNOTSUPP: not a stream; EADDRINUSE: the port is taken; EINVAL: it is
 * connected; EMFILE: no descriptor is left.
 */
int rlisten(int socket, int backlog);

/*
 * Takes the next connection off a listener, waiting for one unless that is O_NONBLOCK. `addr`,
 * unless it is NULL, gets the peer's address.
 * Returns the descriptor of a new rsocket, or -1 with errno set.
 * Errors: EBADF: no rsocket, or it was closed while this waited; EINVAL: not a listener; EAGAIN:
 * none, and O_NONBLOCK; EINTR: a signal came while it waited; EMFILE: no descriptor is left.
 */
int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen);

/*
 * Connects an rsocket; a datagram's is only given its peer. With O_NONBLOCK it goes on after the
 * call: rpoll() for POLLOUT, then SO_ERROR.
 * Errors: EBADF: no rsocket; EINVAL: no address; EINPROGRESS: it goes on, with O_NONBLOCK;
 * EALREADY: it still does; EISCONN: it is connected; ECONNREFUSED: nobody listens; ETIMEDOUT:
 * nobody answers; ENETUNREACH, EHOSTUNREACH: no route.
 */
int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen);

/*
 * Ends sending (SHUT_WR), receiving (SHUT_RD) or both (SHUT_RDWR). The peer reads what was sent,
 * then 0. With SHUT_RDWR it waits a little for what is under way.
 * Errors: EBADF: no rsocket; EINVAL: another `how`; ENOTCONN: it is not connected.
 */
int rshutdown(int socket, int how);

/*
 * Closes an rsocket, or what repoll_create() gave. A stream is shut down first.
 * Errors: EBADF: neither of them.
 * Threads: not while another thread is in a call with it, but for raccept(), which fails.
 */
int rclose(int socket);

/*
 * Receives into a buffer: from a stream what is there, up to `len` bytes; from datagrams one, whose
 * rest is cut off. flags: MSG_PEEK, MSG_WAITALL and MSG_DONTWAIT.
 * Returns the number of bytes, 0 at the end of a stream, or -1 with errno set.
 * Errors: EBADF: no rsocket; EAGAIN: nothing is there, and O_NONBLOCK; ENOTCONN: a stream that was
 * never connected; ECONNRESET: the peer is gone; EINTR: a signal came while it waited.
 */
ssize_t rrecv(int socket, void *buf, size_t len, int flags);

/*
 * Receives into a buffer as rrecv() does, and tells the sender's address.
 * Returns the number of bytes, 0 at the end of a stream, or -1 with errno set.
 * Errors: EBADF: no rsocket; EAGAIN: nothing is there, and O_NONBLOCK; ENOTCONN: a stream that was
 * never connected; ECONNRESET: the peer is gone; EINTR: a signal came while it waited.
 */
ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
		  socklen_t *addrlen);

/*
 * Receives into the buffers of a message; for datagrams one buffer. There is no ancillary data.
 * Returns the number of bytes, 0 at the end of a stream, or -1 with errno set.
 * Errors: ENOSYS: a datagram into several buffers; and those of rrecv().
 */
ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags);

/*
 * Sends a buffer: on a stream all of it, unless it is O_NONBLOCK or fails half-way; as a datagram
 * to the peer of rconnect(). flags: MSG_DONTWAIT. No signal is raised when the peer is gone.
 * Returns the number of bytes, or -1 with errno set.
 * Errors: EBADF: no rsocket; EAGAIN: no room, and O_NONBLOCK; EPIPE: shut down for sending;
 * ECONNRESET: the peer is gone; ENOTCONN: a stream that is not connected; EDESTADDRREQ: a datagram
 * without a peer; EINTR: a signal came while it waited.
 */
ssize_t rsend(int socket, const void *buf, size_t len, int flags);

/*
 * Sends a buffer as rsend() does; a datagram to dest_addr, unless that is NULL.
 * Returns the number of bytes, or -1 with errno set.
 * Errors: EINVAL: no such address; and those of rsend().
 */
ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		const struct sockaddr *dest_addr, socklen_t addrlen);

/*
 * Sends the buffers of a message; of a datagram one buffer.
 * Returns the number of bytes, or -1 with errno set.
 * Errors: EOPNOTSUPP: with ancillary data; EMSGSIZE: a datagram of several buffers; and those of
 * rsend().
 */
ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags);

/*
 * Reads: rrecv() without flags.
 * Returns the number of bytes, 0 at the end of a stream, or -1 with errno set.
 * Errors: EBADF: no rsocket; and the others of rrecv().
 */
ssize_t rread(int socket, void *buf, size_t count);

/*
 * Reads into several buffers: rrecvmsg() without flags.
 * Returns the number of bytes, 0 at the end of a stream, or -1 with errno set.
 * Errors: EBADF: no rsocket; and the others of rrecvmsg().
 */
ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt);

/*
 * Writes: rsend() without flags.
 * Returns the number of bytes, or -1 with errno set.
 * Errors: EBADF: no rsocket; and the others of rsend().
 */
ssize_t rwrite(int socket, const void *buf, size_t count);

/*
 * Writes several buffers: rsendmsg() without flags.
 * Returns the number of bytes, or -1 with errno set.
 * Errors: EBADF: no rsocket; and the others of rsendmsg().
 */
ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt);

/*
 * Waits until one of the descriptors, rsockets or others, is ready, up to `timeout` milliseconds
 * (less than 0: for ever). It polls for some microseconds before it sleeps.
 * Returns the number of ready ones, 0 when the time is over, or -1 with errno set.
 * Errors: EINTR: a signal came while it waited; ENOMEM.
 * Threads: any thread; several may wait for one rsocket.
 */
int rpoll(struct pollfd *fds, nfds_t nfds, int timeout);

/*
 * Waits until one of the descriptors in the sets is ready, as select() does; by rpoll(), so
 * rsockets may be among them.
 * Returns the number of ready ones, 0 when the time is over, or -1 with errno set.
 * Errors: EINVAL: nfds is less than 0 or above FD_SETSIZE; EINTR: a signal came while it waited;
 * ENOMEM.
 * Threads: any thread; several may wait for one rsocket.
 */
int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
	    struct timeval *timeout);

/*
 * Makes a set of descriptors, rsockets and others, to wait for: epoll_create1() for both. flags:
 * EPOLL_CLOEXEC. rclose() ends it.
 * Returns a descriptor, or -1 with errno set.
 * Errors: EINVAL: another flag; EMFILE: no descriptor is left; ENOMEM.
 */
int repoll_create(int flags);

/*
 * Adds, changes or removes a descriptor of a set, as epoll_ctl() does. EPOLLET and EPOLLONESHOT are
 * known.
 * Errors: EBADF: no such set or descriptor; EEXIST: ADD of one that is there; ENOENT: MOD or DEL of
 * one that is not; EFAULT: event is NULL; EINVAL: no such operation; ENOMEM.
 */
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);

/*
 * Waits until a descriptor of the set is ready, up to `timeout` milliseconds, as epoll_wait() does.
 * What is added to the set meanwhile counts from the next call on.
 * Returns the number of events, 0 when the time is over, or -1 with errno set.
 * Errors: EBADF: no such set; EINVAL: maxevents is not above 0, or events is NULL; EINTR: a signal
 * came while it waited; ENOMEM.
 */
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

/*
 * Asks for the peer's address. What does not fit into *addrlen bytes is cut off; *addrlen is its
 * length.
 * Errors: EBADF: no rsocket; ENOTCONN: it is not connected; EFAULT: addr or addrlen is NULL.
 */
int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen);

/*
 * Asks for the rsocket's own address, zeros if it has none yet. What does not fit into *addrlen
 * bytes is cut off; *addrlen is its length.
 * Errors: EBADF: no rsocket; EFAULT: addr or addrlen is NULL.
 */
int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen);

/* Options of our own level, all but the last int and set before rconnect() or rlisten(). */
#define SOL_RDMA 0x10000
enum {
	RDMA_SQSIZE, /* work requests */
	RDMA_RQSIZE,
	RDMA_INLINE,	/* bytes */
	RDMA_IOMAPSIZE, /* mappings that the peer may make at once */
	RDMA_ROUTE	/* struct ibv_path_data[] */
};

/*
 * Sets an option. Of SOL_SOCKET there are REUSEADDR, RCVBUF, SNDBUF, LINGER, KEEPALIVE and
 * OOBINLINE; of IPPROTO_TCP NODELAY and KEEPIDLE, while KEEPCNT, KEEPINTVL and MAXSEG are taken and
 * have no effect; of IPPROTO_IPV6 V6ONLY; and all of SOL_RDMA. The sizes of buffers count before
 * the connection is made.
 * Errors: EBADF: no rsocket; ENOPROTOOPT: no such option; EINVAL: optlen is below 4, a value below
 * 0, or one of SOL_RDMA after connecting; EFAULT: optval is NULL.
 */
int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen);

/*
 * Asks for an option: those of rsetsockopt(), and of SOL_SOCKET ERROR (which clears it), TYPE,
 * DOMAIN, PROTOCOL and ACCEPTCONN.
 * Errors: EBADF: no rsocket; ENOPROTOOPT: no such option; EFAULT: optval or optlen is NULL.
 */
int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen);

/*
 * Does F_GETFL and F_SETFL (O_NONBLOCK), F_GETFD and F_SETFD as fcntl() does.
 * Returns the flags that were asked for, 0 for F_SETFL and F_SETFD, or -1 with errno set.
 * Errors: EBADF: no rsocket; ENOTSUP: another command.
 */
int rfcntl(int socket, int cmd, ... /* arg */);

/*
 * Maps memory for the peer, which writes to it by riowrite() at the offset that this returns:
 * `offset`, or with -1 one that is chosen. prot is PROT_WRITE, PROT_READ or both. Of a connected
 * stream; the peer's RDMA_IOMAPSIZE says how many there may be.
 * Returns the offset, or -1 with errno set.
 * Errors: EBADF: no rsocket; EINVAL: not a connected stream, another `prot`, or no buffer, or one
 * above 4 GiB; ENOTCONN: no longer connected; ENOBUFS: the peer takes no more mappings; and others
 * of ibv_reg_mr().
 */
off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset);

/*
 * Takes such memory back: buf and len are those of riomap(). When it returns the peer writes there
 * no more.
 * Errors: EBADF: no rsocket; EINVAL: no such mapping.
 */
int riounmap(int socket, void *buf, size_t len);

/*
 * Writes to memory that the peer mapped, at its offset, in place: the peer is not told. flags:
 * MSG_DONTWAIT.
 * Returns the number of bytes, or -1 (as size_t) with errno set.
 * Errors: EBADF: no rsocket; ENOTCONN: not a connected stream; EINVAL: nothing is mapped there;
 * EAGAIN: no room, and O_NONBLOCK; ECONNRESET: the peer is gone.
 */
size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags);

#ifdef __cplusplus
}
#endif

#endif
