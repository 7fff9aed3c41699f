/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this library asks of the kernel is no cancellation point: a thread that ended there would
 * leave a lane's lock taken for ever. To disable cancellation around it is two locked instructions
 * a verb and two to allow it again, which is a hundredth of a message to another host, so the calls
 * themselves are made past the C library. The linker brings each of them here (--wrap, for the list
 * in CMakeLists.txt; abi/uncancelled says that none is missing). Those that tools answer in its
 * place, as `verbatim run` does with its view of /sys, still go by the library, with cancellation
 * disabled. What may wait for long is not among them, ppoll(), conditions and files of /proc: verbs
 * that come to such disable cancellation (UNCANCELLED), but for those that are to be a cancellation
 * point.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "base/cancel.h"
#include "link/syscalls.h"

#ifdef PAST_CANCELLATION

/* As the linker calls them. */
int __real_open(const char *path, int flags, ...);
int __real_msync(void *memory, size_t size, int flags);
int __wrap_close(int fd);
int __wrap_open(const char *path, int flags, ...);
ssize_t __wrap_read(int fd, void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_preadv(int fd, const struct iovec *pieces, int count, off_t at);
ssize_t __wrap_pwritev(int fd, const struct iovec *pieces, int count, off_t at);
ssize_t __wrap_splice(int in, off_t *in_at, int out, off_t *out_at, size_t size,
		      unsigned int flags);
ssize_t __wrap_vmsplice(int fd, const struct iovec *pieces, size_t count, unsigned int flags);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length);
ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *header, int flags);
int __wrap_recvmmsg(int fd, struct mmsghdr *headers, unsigned int count, int flags,
		    struct timespec *timeout);
ssize_t __wrap_send(int fd, const void *bytes, size_t size, int flags);
ssize_t __wrap_sendto(int fd, const void *bytes, size_t size, int flags,
		      const struct sockaddr *address, socklen_t length);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *header, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *headers, unsigned int count, int flags);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int room, int timeout);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned int flags);
int __wrap_msync(void *memory, size_t size, int flags);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
			   struct timespec *left);
int __wrap_usleep(useconds_t time);

int __wrap_close(int fd)
{
	return (int)kernel_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

int __wrap_open(const char *path, int flags, ...)
{
	UNCANCELLED;
	int mode = 0;
	va_list rest;

	if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {
		va_start(rest, flags);
		mode = va_arg(rest, int);
		va_end(rest);
	}
	return __real_open(path, flags, mode);
}

ssize_t __wrap_read(int fd, void *bytes, size_t size)
{
	return kernel_call(SYS_read, fd, (long)bytes, (long)size, 0, 0, 0);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
	return kernel_call(SYS_write, fd, (long)bytes, (long)size, 0, 0, 0);
}

/* (The place is two arguments, of which the first is enough for 64 bits.) */
ssize_t __wrap_preadv(int fd, const struct iovec *pieces, int count, off_t at)
{
	return kernel_call(SYS_preadv, fd, (long)pieces, count, at, 0, 0);
}

ssize_t __wrap_pwritev(int fd, const struct iovec *pieces, int count, off_t at)
{
	return kernel_call(SYS_pwritev, fd, (long)pieces, count, at, 0, 0);
}

ssize_t __wrap_splice(int in, off_t *in_at, int out, off_t *out_at, size_t size, unsigned int flags)
{
	return kernel_call(SYS_splice, in, (long)in_at, out, (long)out_at, (long)size, flags);
}

ssize_t __wrap_vmsplice(int fd, const struct iovec *pieces, size_t count, unsigned int flags)
{
	return kernel_call(SYS_vmsplice, fd, (long)pieces, (long)count, flags, 0, 0);
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
	return (int)kernel_call(SYS_connect, fd, (long)address, length, 0, 0, 0);
}

ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags)
{
	return socket_recv(fd, bytes, size, flags);
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *header, int flags)
{
	return socket_recvmsg(fd, header, flags);
}

int __wrap_recvmmsg(int fd, struct mmsghdr *headers, unsigned int count, int flags,
		    struct timespec *timeout)
{
	return (int)kernel_call(SYS_recvmmsg, fd, (long)headers, count, flags, (long)timeout, 0);
}

ssize_t __wrap_send(int fd, const void *bytes, size_t size, int flags)
{
	return socket_send(fd, bytes, size, flags);
}

ssize_t __wrap_sendto(int fd, const void *bytes, size_t size, int flags,
		      const struct sockaddr *address, socklen_t length)
{
	return kernel_call(SYS_sendto, fd, (long)bytes, (long)size, flags, (long)address, length);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *header, int flags)
{
	return kernel_call(SYS_sendmsg, fd, (long)header, flags, 0, 0, 0);
}

int __wrap_sendmmsg(int fd, struct mmsghdr *headers, unsigned int count, int flags)
{
	return (int)kernel_call(SYS_sendmmsg, fd, (long)headers, count, flags, 0, 0);
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
	struct timespec time = {timeout / 1000, timeout % 1000 * 1000000L};

	return (int)kernel_call(SYS_ppoll, (long)fds, (long)count, timeout < 0 ? 0 : (long)&time, 0,
				0, 0);
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int room, int timeout)
{
	return (int)kernel_call(SYS_epoll_pwait, fd, (long)events, room, timeout, 0, 0);
}

ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned int flags)
{
	return kernel_call(SYS_getrandom, (long)bytes, (long)size, flags, 0, 0, 0);
}

int __wrap_msync(void *memory, size_t size, int flags)
{
	UNCANCELLED;

	return __real_msync(memory, size, flags);
}

int __wrap_fallocate(int fd, int mode, off_t offset, off_t length)
{
	return (int)kernel_call(SYS_fallocate, fd, mode, offset, length, 0, 0);
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	return (int)kernel_call(SYS_nanosleep, (long)time, (long)left, 0, 0, 0, 0);
}

/* It returns what went wrong. */
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
			   struct timespec *left)
{
	int saved = errno, error = 0;

	if (kernel_call(SYS_clock_nanosleep, clock, flags, (long)time, (long)left, 0, 0) < 0)
		error = errno;
	errno = saved;
	return error;
}

int __wrap_usleep(useconds_t time)
{
	struct timespec duration = {time / 1000000, time % 1000000 * 1000L};

	return __wrap_nanosleep(&duration, NULL);
}

#endif
