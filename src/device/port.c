/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port: what its interface is like, the GID table and the P_Key table. Events are raised after
 * the lock is let go.
 */
#include <errno.h>
#include <string.h>

#include "device/adapter.h"
#include "device/port.h"
#include "wire/mtu.h"

/* Physical port states, 14.2.5.6. */
enum { PHYS_DISABLED = 3, PHYS_LINK_UP = 5 };

void port_init(struct port *port)
{
	memset(port, 0, sizeof(*port));
	pthread_mutex_init(&port->lock, NULL);
	port->state = IBV_PORT_NOP;
	port->max_mtu = port->active_mtu = IBV_MTU_1024;
	port->pkey_count = 1;
	port->pkeys[0] = DEFAULT_PKEY;
}

void port_fini(struct port *port)
{
	pthread_mutex_destroy(&port->lock);
}

enum ibv_mtu port_mtu_of_netdev(uint32_t netdev_mtu)
{
	int code = mtu_code_of_interface(netdev_mtu);

	return code ? (enum ibv_mtu)code : IBV_MTU_256;
}

static void port_event(struct adapter *adapter, enum ibv_event_type type)
{
	struct ibv_async_event event = {.event_type = type, .element.port_num = PORT_NUMBER};

	if (adapter->host->async_event)
		adapter->host->async_event(adapter, &event);
}

void port_set_link(struct adapter *adapter, enum ibv_port_state state, uint32_t netdev_mtu,
		   uint64_t speed_mbps)
{
	struct port *port = &adapter->port;
	enum ibv_port_state before;
	uint64_t speed_before;

	pthread_mutex_lock(&port->lock);
	before = port->state;
	speed_before = port->speed_mbps;
	port->state = state;
	port->netdev_mtu = netdev_mtu;
	port->max_mtu = IBV_MTU_4096;
	port->active_mtu = port_mtu_of_netdev(netdev_mtu);
	port->speed_mbps = speed_mbps;
	pthread_mutex_unlock(&port->lock);

	/* The first setting is not a change. */
	if (before == IBV_PORT_NOP)
		return;
	if (speed_before != speed_mbps && speed_mbps)
		port_event(adapter, IBV_EVENT_DEVICE_SPEED_CHANGE);
	if (before == state)
		return;
	if (state == IBV_PORT_ACTIVE)
		port_event(adapter, IBV_EVENT_PORT_ACTIVE);
	else if (before == IBV_PORT_ACTIVE)
		port_event(adapter, IBV_EVENT_PORT_ERR);
}

static bool gid_is_zero(const union ibv_gid *gid)
{
	static const union ibv_gid zero;

	return !memcmp(gid, &zero, sizeof(zero));
}

static bool is_listed(const union ibv_gid *gid, const union ibv_gid *gids, int count)
{
	for (int i = 0; i < count; i++)
		if (!memcmp(gid, &gids[i], sizeof(*gid)))
			return true;
	return false;
}

/* The entry a new address takes: the first empty one. False when the table is full. */
static bool add_gid(struct port *port, const union ibv_gid *gid)
{
	int i = 0;

	while (i < port->gid_count && !gid_is_zero(&port->gids[i]))
		i++;
	if (i == MAX_GIDS)
		return false;
	port->gids[i] = *gid;
	if (i == port->gid_count)
		port->gid_count++;
	return true;
}

void port_set_gids(struct adapter *adapter, const union ibv_gid *gids, int count)
{
	struct port *port = &adapter->port;
	bool is_changed = false, is_first;

	pthread_mutex_lock(&port->lock);
	is_first = !port->has_gids;
	port->has_gids = true;
	for (int i = 0; i < port->gid_count; i++) {
		if (gid_is_zero(&port->gids[i]) || is_listed(&port->gids[i], gids, count))
			continue;
		memset(&port->gids[i], 0, sizeof(port->gids[i]));
		is_changed = true;
	}
	for (int i = 0; i < count; i++)
		if (!gid_is_zero(&gids[i]) && !is_listed(&gids[i], port->gids, port->gid_count))
			is_changed |= add_gid(port, &gids[i]);
	pthread_mutex_unlock(&port->lock);

	if (is_changed && !is_first)
		port_event(adapter, IBV_EVENT_GID_CHANGE);
}

int port_set_pkeys(struct adapter *adapter, const uint16_t *pkeys, int count)
{
	struct port *port = &adapter->port;
	uint16_t table[MAX_PKEYS] = {0};
	bool is_changed;

	if (count < 1 || count > MAX_PKEYS)
		return -EINVAL;
	for (int i = 0; i < count; i++) {
		if (!(pkeys[i] & 0x7fff))
			return -EINVAL;
		table[i] = pkeys[i];
	}
	pthread_mutex_lock(&port->lock);
	is_changed = memcmp(port->pkeys, table, sizeof(table)) != 0;
	memcpy(port->pkeys, table, sizeof(table));
	port->pkey_count = count;
	pthread_mutex_unlock(&port->lock);
	if (is_changed)
		port_event(adapter, IBV_EVENT_PKEY_CHANGE);
	return 0;
}

int port_gid(struct port *port, unsigned int index, union ibv_gid *gid)
{
	int ret = 0;

	if (index >= MAX_GIDS)
		return -EINVAL;
	pthread_mutex_lock(&port->lock);
	*gid = port->gids[index];
	if (gid_is_zero(gid))
		ret = -ENOENT;
	pthread_mutex_unlock(&port->lock);
	return ret;
}

int port_pkey(struct port *port, unsigned int index, uint16_t *pkey)
{
	int ret = 0;

	if (index >= MAX_PKEYS)
		return -EINVAL;
	pthread_mutex_lock(&port->lock);
	*pkey = port->pkeys[index];
	/* A P_Key whose low 15 bits are zero is no key (10.9.2). */
	if (!(*pkey & 0x7fff))
		ret = -ENOENT;
	pthread_mutex_unlock(&port->lock);
	return ret;
}

/*
 * InfiniBand's codes for width and speed whose product is nearest to what the interface does, not
 * above it; without a known speed 1x at 2.5 Gb/s, the least there is.
 */
static void describe_speed(uint64_t mbps, struct ibv_port_attr *attr)
{
	static const struct {
		uint32_t mbps;
		uint8_t width, speed;
	} rates[] = {
	    {400000, 2, 128}, {200000, 2, 64}, {100000, 2, 32}, {56000, 2, 16}, {40000, 2, 8},
	    {25000, 1, 32},   {20000, 2, 2},   {14000, 1, 16},	{10000, 1, 8},	{5000, 1, 2},
	};

	attr->active_width = 1;
	attr->active_speed = 1;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		if (mbps < rates[i].mbps)
			continue;
		attr->active_width = rates[i].width;
		attr->active_speed = rates[i].speed;
		return;
	}
}

uint32_t port_netdev_index(struct port *port)
{
	uint32_t index;

	pthread_mutex_lock(&port->lock);
	index = port->netdev_index;
	pthread_mutex_unlock(&port->lock);
	return index;
}

uint32_t port_netdev_mtu(struct port *port)
{
	uint32_t mtu;

	pthread_mutex_lock(&port->lock);
	mtu = port->netdev_mtu;
	pthread_mutex_unlock(&port->lock);
	return mtu;
}

uint64_t port_speed_mbps(struct port *port)
{
	uint64_t mbps;

	pthread_mutex_lock(&port->lock);
	mbps = port->speed_mbps;
	pthread_mutex_unlock(&port->lock);
	return mbps;
}

void port_describe(struct adapter *adapter, struct ibv_port_attr *attr)
{
	struct port *port = &adapter->port;

	memset(attr, 0, sizeof(*attr));
	pthread_mutex_lock(&port->lock);
	attr->state = port->state == IBV_PORT_NOP ? IBV_PORT_DOWN : port->state;
	attr->max_mtu = port->max_mtu;
	attr->active_mtu = port->active_mtu;
	describe_speed(port->speed_mbps, attr);
	pthread_mutex_unlock(&port->lock);
	attr->gid_tbl_len = MAX_GIDS;
	attr->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
	attr->max_msg_sz = MAX_MESSAGE_SIZE;
	attr->bad_pkey_cntr = atomic_load_explicit(&adapter->bad_pkey, memory_order_relaxed);
	attr->qkey_viol_cntr = atomic_load_explicit(&adapter->bad_qkey, memory_order_relaxed);
	attr->pkey_tbl_len = MAX_PKEYS;
	attr->max_vl_num = 1;
	attr->phys_state = attr->state == IBV_PORT_ACTIVE ? PHYS_LINK_UP : PHYS_DISABLED;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	attr->flags = IBV_QPF_GRH_REQUIRED;
}
