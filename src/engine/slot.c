/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slots and mail: abstract Unix datagram sockets, descriptors and credentials in their control
 * messages.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/slot.h"
#include "explain/reason.h"

union mail_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * MAIL_MAX_FDS) + CMSG_SPACE(sizeof(struct ucred))];
};

static void set_name(struct mail_address *address, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Behind a zero byte: abstract. */
static void set_name(struct mail_address *address, const char *format, ...)
{
	va_list values;
	int length;

	memset(address, 0, sizeof(*address));
	address->name.sun_family = AF_UNIX;
	va_start(values, format);
	length = vsnprintf(address->name.sun_path + 1, sizeof(address->name.sun_path) - 1, format,
			   values);
	va_end(values);
	address->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

void mail_address_of_slot(uint32_t number, struct mail_address *address)
{
	set_name(address, "verbatim/%u", number);
}

void mail_address_of_manager(uint32_t slot, struct mail_address *address)
{
	set_name(address, "verbatim/%u/cm", slot);
}

void mail_address_of_life(uint32_t slot, struct mail_address *address)
{
	set_name(address, "verbatim/%u/life", slot);
}

void mail_address_of_qp(uint32_t ifindex, uint32_t qpn, struct mail_address *address)
{
	set_name(address, "verbatim/qp/%u/%06x", ifindex, qpn);
}

void mail_address_of_keeper(uint32_t slot, uint32_t ifindex, struct mail_address *address)
{
	set_name(address, "verbatim/%u/keeper/%u", slot, ifindex);
}

void mail_address_of_domain(uint32_t slot, uid_t user, uint32_t ifindex, uint64_t device,
			    uint64_t inode, struct mail_address *address)
{
	set_name(address, "verbatim/%u/xrcd/%u/%u/%llx.%llx", slot, (unsigned int)user, ifindex,
		 (unsigned long long)device, (unsigned long long)inode);
}

unsigned int mail_family(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw) ? MAIL_IPV4 : MAIL_IPV6;
}

void mail_address_of_service(uint64_t service_id, const union ibv_gid *gid,
			     struct mail_address *address)
{
	set_name(address, "verbatim/cm/%016llx/%016llx%016llx", (unsigned long long)service_id,
		 (unsigned long long)be64toh(gid->global.subnet_prefix),
		 (unsigned long long)be64toh(gid->global.interface_id));
}

void mail_address_of_service_on_all(uint64_t service_id, unsigned int families,
				    struct mail_address *address)
{
	set_name(address, "verbatim/cm/%016llx/*%u", (unsigned long long)service_id, families);
}

/* With credentials told, and not bound yet. */
static int mail_socket(void)
{
	int on = 1;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	int error;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0)
		return fd;
	error = errno;
	close(fd);
	return -error;
}

int mail_bind(const struct mail_address *address)
{
	int fd = mail_socket();
	int error;

	if (fd < 0 || bind(fd, (const struct sockaddr *)&address->name, address->length) == 0)
		return fd;
	error = errno;
	close(fd);
	return -error;
}

int mail_open(void)
{
	struct sockaddr_un any = {.sun_family = AF_UNIX};
	int fd = mail_socket();
	int error;

	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any.sun_family)) == 0)
		return fd;
	error = errno;
	close(fd);
	return -error;
}

int slot_take(struct slot *slot)
{
	int fd = mail_socket();

	if (fd < 0)
		return refuse(REASON_NO_DESCRIPTOR, "slot socket: %s", strerror(-fd));
	for (uint32_t number = 0; number < QPN_SLOTS; number++) {
		struct mail_address address;

		mail_address_of_slot(number, &address);
		if (bind(fd, (struct sockaddr *)&address.name, address.length) == 0) {
			slot->number = number;
			slot->fd = fd;
			return 0;
		}
		if (errno != EADDRINUSE)
			break;
	}
	close(fd);
	return refuse(REASON_NO_SLOT, "%s", strerror(errno));
}

/* 0: somebody has bound it; or -errno. */
static int call(const struct mail_address *address)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&address->name, address->length) < 0)
		error = -errno;
	close(fd);
	return error;
}

bool slot_is_free(uint32_t number)
{
	struct mail_address address;

	mail_address_of_slot(number, &address);
	return call(&address) == -ECONNREFUSED;
}

bool slot_is_kept(uint32_t number, uint32_t ifindex)
{
	struct mail_address address;

	mail_address_of_keeper(number, ifindex, &address);
	return call(&address) == 0;
}

void slot_release(struct slot *slot)
{
	if (slot->fd >= 0)
		close(slot->fd);
	slot->fd = -1;
}

int mail_send(int fd, const struct mail_address *to, const struct iovec *iov, int iov_count,
	      const int *fds, int fd_count)
{
	union mail_control control;
	struct msghdr msg = {
	    .msg_name = (void *)&to->name,
	    .msg_namelen = to->length,
	    .msg_iov = (struct iovec *)iov,
	    .msg_iovlen = (size_t)iov_count,
	};

	if (fd_count) {
		size_t size = sizeof(int) * (size_t)fd_count;
		struct cmsghdr *cmsg;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(size);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(size);
		memcpy(CMSG_DATA(cmsg), fds, size);
	}
	return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

void mail_close_fds(struct mail *mail)
{
	while (mail->fd_count--)
		if (mail->fds[mail->fd_count] >= 0)
			close(mail->fds[mail->fd_count]);
	mail->fd_count = 0;
}

/* Takes descriptors and the sender out of the control messages. What another user sent has no
 * descriptors for us. */
static void read_control(struct msghdr *msg, struct mail *mail)
{
	mail->is_ours = false;
	mail->fd_count = 0;
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		struct ucred cred;

		if (cmsg->cmsg_level != SOL_SOCKET)
			continue;
		if (cmsg->cmsg_type == SCM_CREDENTIALS) {
			memcpy(&cred, CMSG_DATA(cmsg), sizeof(cred));
			mail->pid = cred.pid;
			mail->is_ours = cred.uid == getuid();
		} else if (cmsg->cmsg_type == SCM_RIGHTS) {
			mail->fd_count = (int)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(mail->fds, CMSG_DATA(cmsg), sizeof(int) * (size_t)mail->fd_count);
		}
	}
	if (!mail->is_ours)
		mail_close_fds(mail);
}

int mail_receive(int fd, struct mail *mail)
{
	for (;;) {
		union mail_control control;
		struct iovec iov = {mail->data, sizeof(mail->data)};
		struct msghdr msg = {
		    .msg_name = &mail->from.name,
		    .msg_namelen = sizeof(mail->from.name),
		    .msg_iov = &iov,
		    .msg_iovlen = 1,
		    .msg_control = control.bytes,
		    .msg_controllen = sizeof(control.bytes),
		};
		ssize_t length = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

		if (length < 0)
			return errno == EINTR ? -EAGAIN : -errno;
		mail->length = (size_t)length;
		mail->from.length = msg.msg_namelen;
		read_control(&msg, mail);
		if (!(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
			return 0;
		mail_close_fds(mail);
	}
}
