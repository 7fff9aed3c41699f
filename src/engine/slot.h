/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process's slot on this host: a number below QPN_SLOTS, the high bits of all its QP numbers. It
 * is held by having the abstract Unix socket "@verbatim/<number>" bound, which is atomic, belongs
 * to the network namespace as UDP ports do, and is undone by the kernel when the process dies,
 * however it dies. The same socket takes mail from other processes.
 *
 * Mail is datagrams; the kernel tells the sender's user with each, and descriptors are taken from
 * our own user only.
 */
#ifndef ENGINE_SLOT_H
#define ENGINE_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <infiniband/verbs.h>

#include "device/limits.h"

enum {
	MAIL_MAX_FDS = 6,
	MAIL_MAX_SIZE = 8192,
};

struct slot {
	uint32_t number;
	int fd; /* non-blocking */
};

/* The lowest free one. 0 or a positive errno (noted). */
int slot_take(struct slot *slot);
void slot_release(struct slot *slot);
/* Nobody has it, as far as can be told. */
bool slot_is_free(uint32_t number);

/* Its process is gone, and another one keeps it for QPs that live on (estate.h). */
bool slot_is_kept(uint32_t number, uint32_t ifindex);

/* Whom a datagram goes to, or came from. */
struct mail_address {
	struct sockaddr_un name;
	socklen_t length;
};

void mail_address_of_slot(uint32_t number, struct mail_address *address);

/* Where a process takes messages to its communication ids; and requests to a service, on one
 * address or on all of these families. Both are bound by those who take them, and only as long. */
enum { MAIL_IPV4 = 1, MAIL_IPV6 = 2 };
unsigned int mail_family(const union ibv_gid *gid);
void mail_address_of_manager(uint32_t slot, struct mail_address *address);
void mail_address_of_service(uint64_t service_id, const union ibv_gid *gid,
			     struct mail_address *address);
void mail_address_of_service_on_all(uint64_t service_id, unsigned int families,
				    struct mail_address *address);
/* That a process has an XRC domain open: its user, device and file. */
void mail_address_of_domain(uint32_t slot, uid_t user, uint32_t ifindex, uint64_t device,
			    uint64_t inode, struct mail_address *address);
/* Where the process that took a QP over has mail about it; and that a process keeps the sockets of
 * a slot whose owner is gone, on one interface. */
void mail_address_of_qp(uint32_t ifindex, uint32_t qpn, struct mail_address *address);
void mail_address_of_keeper(uint32_t slot, uint32_t ifindex, struct mail_address *address);
/* Where others of this host connect to hear of the process's end. */
void mail_address_of_life(uint32_t slot, struct mail_address *address);

/* A socket bound there, non-blocking, which tells its senders' users. -errno. */
int mail_bind(const struct mail_address *address);

/* A nameless mailbox for questions: answers come to it. The descriptor or -errno. */
int mail_open(void);

/* Sends to an address, never waits: -EAGAIN when the box is full, -ECONNREFUSED when nobody has it.
 * 0 or -errno. */
int mail_send(int fd, const struct mail_address *to, const struct iovec *iov, int iov_count,
	      const int *fds, int fd_count);

struct mail {
	uint8_t data[MAIL_MAX_SIZE];
	size_t length;
	struct mail_address from;
	pid_t pid;
	bool is_ours;	       /* from a process of our user */
	int fds[MAIL_MAX_FDS]; /* close-on-exec; the receiver's to close, -1: taken out */
	int fd_count;
};

/* Takes the next one in. 0, or -EAGAIN when there is none. */
int mail_receive(int fd, struct mail *mail);
void mail_close_fds(struct mail *mail);

#endif
