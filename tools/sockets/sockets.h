/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The preload library of `verbatim run --sockets`: the TCP sockets of an unmodified program as
 * rsockets. The program holds a descriptor that is open on nothing, a place in the table; what we
 * and our libraries do with descriptors of our own never meets the table, so the C library's calls
 * are looked through at no cost for them.
 *
 * Where RDMA does not lead, to another host without it or to nobody who listens that way, a
 * connection is made by TCP in its place.
 */
#ifndef TOOLS_SOCKETS_H
#define TOOLS_SOCKETS_H

#include <poll.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* The C library's own. */
struct libc {
	int (*socket)(int, int, int);
	int (*bind)(int, const struct sockaddr *, socklen_t);
	int (*listen)(int, int);
	int (*accept4)(int, struct sockaddr *, socklen_t *, int);
	int (*connect)(int, const struct sockaddr *, socklen_t);
	int (*shutdown)(int, int);
	int (*close)(int);
	ssize_t (*recvfrom)(int, void *, size_t, int, struct sockaddr *, socklen_t *);
	ssize_t (*recvmsg)(int, struct msghdr *, int);
	ssize_t (*read)(int, void *, size_t);
	ssize_t (*readv)(int, const struct iovec *, int);
	ssize_t (*recv)(int, void *, size_t, int);
	ssize_t (*send)(int, const void *, size_t, int);
	ssize_t (*sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
	ssize_t (*sendmsg)(int, const struct msghdr *, int);
	ssize_t (*write)(int, const void *, size_t);
	ssize_t (*writev)(int, const struct iovec *, int);
	ssize_t (*sendfile)(int, int, off_t *, size_t);
	int (*poll)(struct pollfd *, nfds_t, int);
	int (*select)(int, fd_set *, fd_set *, fd_set *, struct timeval *);
	int (*getpeername)(int, struct sockaddr *, socklen_t *);
	int (*getsockname)(int, struct sockaddr *, socklen_t *);
	int (*setsockopt)(int, int, int, const void *, socklen_t);
	int (*getsockopt)(int, int, int, void *, socklen_t *);
	int (*fcntl)(int, int, ...);
	int (*ioctl)(int, unsigned long, ...);
	int (*dup)(int);
	int (*dup2)(int, int);
	int (*dup3)(int, int, int);
	int (*epoll_ctl)(int, int, int, struct epoll_event *);
	int (*epoll_wait)(int, struct epoll_event *, int, int);
};

extern struct libc libc;
void libc_find(void);

/* table.c: the rsocket behind a descriptor of the program; -1 if it is none. */
int table_find(int fd);
void table_set(int fd, int rsocket);
/* The descriptor goes; the rsocket with the last that leads to it. */
void table_drop(int fd);

/* A place for an rsocket: a descriptor on nothing. -1 and errno. */
int table_place(int rsocket, int flags);

/* epoll.c: sets that rsockets were added to. */
int sets_ctl(int set, int op, int fd, struct epoll_event *event);
int sets_wait(int set, struct epoll_event *events, int most, int timeout);
void sets_forget(int rsocket);
void sets_close(int set);

#endif
