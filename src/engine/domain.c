/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names of XRC domains. Looking for one asks each slot for its name, a system call each; it
 * happens when a domain is opened, and then no other process opens the same.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "device/adapter.h"
#include "device/xrcd.h"
#include "engine/domain.h"
#include "engine/join_lock.h"
#include "engine/state.h"
#include "explain/reason.h"

enum { NAME_TRIES = 200 }; /* a millisecond each */

/* Its file in place of an address: no interface has this number. */
int domain_lock(struct adapter *adapter, const struct xrcd_file *file, int *lock)
{
	union ibv_gid gid;

	memcpy(gid.raw, &file->device, sizeof(file->device));
	memcpy(gid.raw + sizeof(file->device), &file->inode, sizeof(file->inode));
	/* nobody forks while the lock's descriptor is in hand */
	if (!engine_lock_running(station_of(adapter)->engine))
		return refuse(REASON_FORKED, NULL);
	*lock = join_lock(&gid, UINT32_MAX);
	if (*lock >= 0)
		return 0;
	engine_unlock();
	return -*lock;
}

void domain_unlock(struct adapter *adapter, int lock)
{
	join_unlock(lock);
	engine_unlock();
}

static void address_of(const struct adapter *adapter, uint32_t slot, const struct xrcd_file *file,
		       struct mail_address *address)
{
	mail_address_of_domain(slot, getuid(), station_of(adapter)->info.ifindex, file->device,
			       file->inode, address);
}

/* `probe` is a socket to try the name with: there is one only as long as its process lives. */
static bool has_name(const struct adapter *adapter, uint32_t slot, const struct xrcd_file *file,
		     int probe)
{
	struct mail_address address;

	address_of(adapter, slot, file, &address);
	return connect(probe, (const struct sockaddr *)&address.name, address.length) == 0;
}

bool domain_is_shared(struct adapter *adapter, const struct xrcd_file *file)
{
	int probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_shared = false;

	for (uint32_t slot = 0; slot < QPN_SLOTS && probe >= 0 && !is_shared; slot++)
		is_shared = slot != adapter->slot && has_name(adapter, slot, file, probe);
	if (probe >= 0)
		close(probe);
	return is_shared;
}

bool domain_is_of(const struct adapter *adapter, uint32_t slot, const struct xrcd_file *file)
{
	int probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_theirs = probe < 0 || has_name(adapter, slot, file, probe);

	if (probe >= 0)
		close(probe);
	return is_theirs;
}

/* The name of a slot's domain is in use only while a child of ours that is about to exec has it. */
static int bind_name(const struct mail_address *address)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	int fd = mail_bind(address);

	for (int tries = 0; fd == -EADDRINUSE && tries < NAME_TRIES; tries++) {
		nanosleep(&moment, NULL);
		fd = mail_bind(address);
	}
	return fd;
}

int domain_share(struct adapter *adapter, const struct xrcd_file *file)
{
	struct held *held = &station_of(adapter)->engine->held;
	struct mail_address address;
	int fd, share;

	address_of(adapter, adapter->slot, file, &address);
	fd = bind_name(&address);
	if (fd < 0)
		return fd;
	share = held_add(held, fd);
	if (share >= 0)
		return share;
	close(fd);
	return -EMFILE;
}

void domain_unshare(struct adapter *adapter, int share)
{
	held_close(&station_of(adapter)->engine->held, share);
}
