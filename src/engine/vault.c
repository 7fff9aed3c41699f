/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors in flight, for good.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/vault.h"

enum {
	VAULT_FDS = 16,
	VAULT_BUFFER = 1 << 20, /* all slots' messages, at some 1 KiB each; capped by wmem_max,
				   which holds 256 */
};

struct vault_entry {
	uint32_t slot, count;
};

union vault_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * VAULT_FDS)];
};

int vault_create(struct vault *vault)
{
	int pair[2], size = VAULT_BUFFER;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	vault->in = pair[0];
	vault->out = pair[1];
	return 0;
}

void vault_close(struct vault *vault)
{
	close(vault->in);
	close(vault->out);
	vault->in = vault->out = -1;
}

int vault_put(struct vault *vault, uint32_t slot, const int *fds, unsigned int count)
{
	struct vault_entry entry = {slot, count};
	struct iovec iov = {&entry, sizeof(entry)};
	union vault_control control;
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes};
	struct cmsghdr *cmsg;

	if (count > VAULT_FDS)
		return -EINVAL;
	memset(&control, 0, sizeof(control));
	msg.msg_controllen = CMSG_SPACE(sizeof(int) * count);
	cmsg = CMSG_FIRSTHDR(&msg);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int) * count);
	memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * count);
	return sendmsg(vault->in, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The descriptors of a peeked message, at most VAULT_FDS; how many. */
static unsigned int read_fds(struct msghdr *msg, int *fds)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	unsigned int count;

	if (!cmsg || cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
		return 0;
	count = (unsigned int)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds, CMSG_DATA(cmsg), sizeof(int) * count);
	return count;
}

int vault_get(struct vault *vault, uint32_t slot, int *fds, unsigned int count)
{
	struct vault_entry entry = {0};
	struct iovec iov = {&entry, sizeof(entry)};
	union vault_control control;
	struct msghdr msg = {
	    .msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control.bytes,
	    .msg_controllen = sizeof(control.bytes),
	};
	int offset = (int)(slot * sizeof(entry));
	int got[VAULT_FDS];
	unsigned int got_count;

	if (setsockopt(vault->out, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset)) < 0)
		return -errno;
	if (recvmsg(vault->out, &msg, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
		return errno == EAGAIN ? -ENOENT : -errno;
	got_count = read_fds(&msg, got);
	if (entry.slot == slot && got_count == count && entry.count == count) {
		memcpy(fds, got, sizeof(int) * count);
		return 0;
	}
	while (got_count)
		close(got[--got_count]);
	return msg.msg_flags & MSG_CTRUNC ? -EMFILE : -EPROTO;
}
