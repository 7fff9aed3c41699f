/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a poll and a post ask of the kernel for each message, past the C library: there each of
 * these is a cancellation point, which a verb must not be, and in a program of several threads,
 * as all of ours are, costs two locked instructions and what they wait for. The rare ones
 * (several messages, a header to send with, several pieces of a file) go by the library.
 */
#ifndef LINK_SYSCALLS_H
#define LINK_SYSCALLS_H

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) /* which takes order among threads from the library's calls */
#define PAST_LIBRARY 0
#else
#define PAST_LIBRARY 1
#endif

static inline ssize_t socket_recv(int fd, void *bytes, size_t size, int flags)
{
	if (!PAST_LIBRARY)
		return recv(fd, bytes, size, flags);
	return syscall(SYS_recvfrom, fd, bytes, size, flags, NULL, NULL);
}

static inline ssize_t socket_recvmsg(int fd, struct msghdr *header, int flags)
{
	if (!PAST_LIBRARY)
		return recvmsg(fd, header, flags);
	return syscall(SYS_recvmsg, fd, header, flags);
}

static inline ssize_t socket_send(int fd, const void *bytes, size_t size, int flags)
{
	if (!PAST_LIBRARY)
		return send(fd, bytes, size, flags);
	return syscall(SYS_sendto, fd, bytes, size, flags, NULL, 0);
}

static inline ssize_t file_read(int fd, void *bytes, size_t size, off_t at)
{
	if (!PAST_LIBRARY)
		return pread(fd, bytes, size, at);
	return syscall(SYS_pread64, fd, bytes, size, at);
}

static inline ssize_t file_write(int fd, const void *bytes, size_t size, off_t at)
{
	if (!PAST_LIBRARY)
		return pwrite(fd, bytes, size, at);
	return syscall(SYS_pwrite64, fd, bytes, size, at);
}

#endif
