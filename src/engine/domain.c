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
#include <unistd.h>

#include "device/adapter.h"
#include "device/xrcd.h"
#include "engine/domain.h"
#include "engine/join_lock.h"
#include "engine/state.h"
#include "explain/reason.h"

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

bool domain_is_shared(struct adapter *adapter, const struct xrcd_file *file)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_shared = false;

	for (uint32_t slot = 0; slot < QPN_SLOTS && fd >= 0 && !is_shared; slot++) {
		struct mail_address address;

		address_of(adapter, slot, file, &address);
		is_shared =
		    slot != adapter->slot &&
		    connect(fd, (const struct sockaddr *)&address.name, address.length) == 0;
	}
	if (fd >= 0)
		close(fd);
	return is_shared;
}

int domain_share(struct adapter *adapter, const struct xrcd_file *file)
{
	struct held *held = &station_of(adapter)->engine->held;
	struct mail_address address;
	int fd, share;

	address_of(adapter, adapter->slot, file, &address);
	fd = mail_bind(&address);
	if (fd < 0)
		return -1;
	share = held_add(held, fd);
	if (share < 0)
		close(fd);
	return share;
}

void domain_unshare(struct adapter *adapter, int share)
{
	held_close(&station_of(adapter)->engine->held, share);
}
