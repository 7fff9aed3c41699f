/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adapter's one port: state, MTU, GID table, P_Key table. The host sets them from the network
 * interface; changes raise the async events (PORT_ACTIVE, PORT_ERR,
 * GID_CHANGE, PKEY_CHANGE, DEVICE_SPEED_CHANGE).
 */
#ifndef DEVICE_PORT_H
#define DEVICE_PORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "device/limits.h"

struct adapter;

enum { PORT_NUMBER = 1 };

struct port {
	pthread_mutex_t lock; /* guards all below */
	enum ibv_port_state state;
	enum ibv_mtu max_mtu, active_mtu;
	uint32_t netdev_mtu;   /* bytes */
	uint32_t netdev_index; /* ifindex, 0 in a simulation */
	char netdev_name[16];
	uint64_t speed_mbps;
	bool has_gids; /* were set once: from now on a change is an event */
	int gid_count; /* entries in use are 0 .. gid_count-1, but some may be zero GIDs (removed)
			*/
	union ibv_gid gids[MAX_GIDS];
	int pkey_count;
	uint16_t pkeys[MAX_PKEYS]; /* host order */
};

void port_init(struct port *port);
void port_fini(struct port *port);

/* Largest path MTU whose packets fit into an interface's MTU: 1500 gives 1024, 9000 and 65536 give
 * 4096. */
enum ibv_mtu port_mtu_of_netdev(uint32_t netdev_mtu);

/*
 * Set by the host; each raises its event on a change (none before the first open). An address keeps
 * its index while it lives; a removed one leaves a zero GID that the next new address takes.
 */
void port_set_link(struct adapter *adapter, enum ibv_port_state state, uint32_t netdev_mtu,
		   uint64_t speed_mbps);
void port_set_gids(struct adapter *adapter, const union ibv_gid *gids, int count);

/*
 * The P_Key table, all of it: index 0 onwards, the rest empty. P_Keys are full (top bit set) or
 * limited members; two limited ones cannot talk (10.9.1.2). PKEY_CHANGE if it is a change. QPs keep
 * what they have taken until their pkey_index is set again. -EINVAL: more than MAX_PKEYS, none, or
 * one whose low 15 bits are zero.
 */
int port_set_pkeys(struct adapter *adapter, const uint16_t *pkeys, int count);

/* The GID at an index: 0, -EINVAL past the table (MAX_GIDS entries), -ENOENT for an empty entry,
 * *gid being zero. */
int port_gid(struct port *port, unsigned int index, union ibv_gid *gid);
/* The same for a P_Key, of MAX_PKEYS. */
int port_pkey(struct port *port, unsigned int index, uint16_t *pkey);

/* 10.9.3: the same partition, and one of the two a full member. */
static inline bool pkey_is_match(uint16_t a, uint16_t b)
{
	if (a == b) /* as mostly */
		return a > 0x8000;
	return ((a ^ b) & 0x7fff) == 0 && (a & 0x7fff) && ((a | b) & 0x8000);
}

/* 0 in a simulation. */
uint32_t port_netdev_index(struct port *port);

/* In bytes; of the interface, not of a path. */
uint32_t port_netdev_mtu(struct port *port);

/* What the interface says of its speed, 0 if nothing. */
uint64_t port_speed_mbps(struct port *port);

void port_describe(struct adapter *adapter, struct ibv_port_attr *attr);

#endif
