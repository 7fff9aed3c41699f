/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program's descriptors and the rsockets behind them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include <rdma/rsocket.h>

#include "sockets.h"

enum { DESCRIPTORS = 1 << 20 };

struct libc libc;

static atomic_int rsockets[DESCRIPTORS];   /* + 1 */
static atomic_int references[DESCRIPTORS]; /* by rsocket */

void libc_find(void)
{
	static const struct {
		const char *name;
		size_t place;
	} calls[] = {
#define CALL(name) {#name, offsetof(struct libc, name)}
	    CALL(socket),      CALL(bind),	  CALL(listen),	    CALL(accept4),
	    CALL(connect),     CALL(shutdown),	  CALL(close),	    CALL(recvfrom),
	    CALL(recvmsg),     CALL(read),	  CALL(readv),	    CALL(recv),
	    CALL(send),	       CALL(sendto),	  CALL(sendmsg),    CALL(write),
	    CALL(writev),      CALL(sendfile),	  CALL(poll),	    CALL(select),
	    CALL(getpeername), CALL(getsockname), CALL(setsockopt), CALL(getsockopt),
	    CALL(fcntl),       CALL(ioctl),	  CALL(dup),	    CALL(dup2),
	    CALL(dup3),	       CALL(epoll_ctl),	  CALL(epoll_wait),
#undef CALL
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		*(void **)((char *)&libc + calls[i].place) = dlsym(RTLD_NEXT, calls[i].name);
}

__attribute__((constructor)) static void start(void)
{
	if (!libc.socket)
		libc_find();
}

int table_find(int fd)
{
	if (!libc.socket)
		libc_find();
	if (fd < 0 || fd >= DESCRIPTORS)
		return -1;
	return atomic_load_explicit(&rsockets[fd], memory_order_acquire) - 1;
}

void table_set(int fd, int rsocket)
{
	if (fd < 0 || fd >= DESCRIPTORS || rsocket >= DESCRIPTORS)
		return;
	atomic_fetch_add(&references[rsocket], 1);
	atomic_store(&rsockets[fd], rsocket + 1);
}

void table_drop(int fd)
{
	int rsocket = table_find(fd);

	if (rsocket < 0)
		return;
	atomic_store(&rsockets[fd], 0);
	if (atomic_fetch_sub(&references[rsocket], 1) > 1)
		return;
	sets_forget(rsocket);
	rclose(rsocket);
}

int table_place(int rsocket, int flags)
{
	int fd = open("/dev/null", O_RDWR | (flags & SOCK_CLOEXEC ? O_CLOEXEC : 0));

	if (fd < 0 || fd >= DESCRIPTORS) {
		int error = fd < 0 ? errno : EMFILE;

		if (fd >= 0)
			libc.close(fd);
		rclose(rsocket);
		errno = error;
		return -1;
	}
	table_set(fd, rsocket);
	return fd;
}
