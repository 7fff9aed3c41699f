/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a poll and a post ask of the kernel for each message, past the C library: there each of
 * these is a cancellation point, which a verb must not be, and in a program of several threads,
 * as all of ours are, costs two locked instructions and what they wait for. Its syscall() moves
 * each argument once more: where the processor is known, not even that is called. The rare ones
 * (several messages, a header to send with, several pieces of a file) go by the library.
 */
#ifndef LINK_SYSCALLS_H
#define LINK_SYSCALLS_H

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) /* which takes order among threads from the library's calls */
#define PAST_LIBRARY 0
#else
#define PAST_LIBRARY 1
#endif

/* As syscall(2), also in what it says of failures. */
#ifdef __x86_64__
static inline ssize_t kernel_call(long number, long a, long b, long c, long d, long e, long f)
{
	register long fourth __asm__("r10") = d;
	register long fifth __asm__("r8") = e;
	register long sixth __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
			 : "rcx", "r11", "memory");
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}
#else
#define kernel_call syscall
#endif

static inline ssize_t socket_recv(int fd, void *bytes, size_t size, int flags)
{
	if (!PAST_LIBRARY)
		return recv(fd, bytes, size, flags);
	return kernel_call(SYS_recvfrom, fd, (long)bytes, (long)size, flags, 0, 0);
}

static inline ssize_t socket_recvmsg(int fd, struct msghdr *header, int flags)
{
	if (!PAST_LIBRARY)
		return recvmsg(fd, header, flags);
	return kernel_call(SYS_recvmsg, fd, (long)header, flags, 0, 0, 0);
}

static inline ssize_t socket_send(int fd, const void *bytes, size_t size, int flags)
{
	if (!PAST_LIBRARY)
		return send(fd, bytes, size, flags);
	return kernel_call(SYS_sendto, fd, (long)bytes, (long)size, flags, 0, 0);
}

static inline ssize_t file_read(int fd, void *bytes, size_t size, off_t at)
{
	if (!PAST_LIBRARY)
		return pread(fd, bytes, size, at);
	return kernel_call(SYS_pread64, fd, (long)bytes, (long)size, at, 0, 0);
}

static inline ssize_t file_write(int fd, const void *bytes, size_t size, off_t at)
{
	if (!PAST_LIBRARY)
		return pwrite(fd, bytes, size, at);
	return kernel_call(SYS_pwrite64, fd, (long)bytes, (long)size, at, 0, 0);
}

#endif
