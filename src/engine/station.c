/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A station: an open device, with a group of sockets for each address of its interface, and a
 * socket a lane for each multicast group that its QPs are attached to.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/netdev.h"
#include "engine/state.h"
#include "engine/steer.h"
#include "explain/reason.h"
#include "link/samehost.h"
#include "link/udp.h"

enum { NEAR_TRIES = 50, NEAR_TRY_MS = 20 };

/* A local address. Its group has sockets for `lanes` lanes of the host's making; ours may be fewer.
 */
struct address {
	struct cds_list_head node;
	struct group *group;
	struct source sources[GROUP_MAX_LANES + 1]; /* the last is the GSI's, on lane 0 */
	uint32_t source_count;			    /* that are with their lanes */
	struct source near[NEAR_PORTS];
	uint32_t near_count;
};

/* A multicast group: one socket for each of our lanes. */
struct membership {
	struct cds_list_head node;
	union ibv_gid gid;
	struct source sources[GROUP_MAX_LANES];
	uint32_t source_count;
};

/* Socket number n goes to lane n mod the number of lanes: where they are equal, that is what
 * steering expects. */
static int add_source(struct station *station, struct source *source, uint32_t number, int fd,
		      const union ibv_gid *gid)
{
	struct lane *lane = station->engine->lanes[steer_lane(number, station->engine->lane_count)];
	int error;

	source->fd = fd;
	source->gid = *gid;
	source->scope = gid_scope(gid, station->info.ifindex);
	source->adapter = &station->adapter;
	lane_lock(lane);
	error = lane_add_source(lane, source);
	lane_unlock(lane);
	return error;
}

int station_add_source(struct station *station, struct source *source, uint32_t number, int fd,
		       const union ibv_gid *gid)
{
	return add_source(station, source, number, fd, gid);
}

static void remove_sources(struct station *station, struct source *sources, uint32_t count)
{
	while (count--) {
		struct lane *lane =
		    station->engine->lanes[steer_lane(count, station->engine->lane_count)];

		lane_lock(lane);
		lane_remove_source(lane, &sources[count]);
		lane_unlock(lane);
	}
}

void station_remove_sources(struct station *station, struct source *sources, uint32_t count)
{
	remove_sources(station, sources, count);
}

void station_for_each_group(struct station *station, void (*each)(struct group *group, void *data),
			    void *data)
{
	struct address *address;

	cds_list_for_each_entry (address, &station->addresses, node)
		each(address->group, data);
}

static void tell_links(struct station *station, const union ibv_gid *gid)
{
	struct engine *engine = station->engine;

	for (uint32_t i = 0; i < engine->lane_count; i++) {
		lane_lock(engine->lanes[i]);
		udp_link_set_interface(engine->lanes[i]->link, gid, station->info.ifindex);
		samehost_set_local(engine->lanes[i]->samehost, gid, station->info.ifindex);
		lane_unlock(engine->lanes[i]);
	}
}

/* For traffic within the host. A predecessor in our slot may still be on its way out. 0 or a
 * positive errno (noted). */
static int open_near(struct station *station, struct address *address)
{
	const union ibv_gid *gid = &address->group->gid;
	struct engine *engine = station->engine;
	int tries = NEAR_TRIES, error = 0;

	while (address->near_count < NEAR_PORTS && error >= 0) {
		uint16_t port =
		    udp_near_port(engine->slot.number << QPN_SLOT_SHIFT | address->near_count);
		int fd = udp_socket_bind_near(gid, station->info.ifindex, port);

		if (fd == -EADDRINUSE && tries-- > 0) {
			poll(NULL, 0, NEAR_TRY_MS);
			continue;
		}
		address->near[address->near_count].near_port = port;
		error = fd < 0 ? fd
			       : add_source(station, &address->near[address->near_count],
					    address->near_count, fd, gid);
		if (error >= 0) {
			address->near_count++;
			atomic_store_explicit(&station->adapter.socket_bytes, udp_socket_buffer(fd),
					      memory_order_relaxed);
		} else if (fd >= 0) {
			close(fd);
		}
	}
	if (error < 0)
		return refuse(REASON_NO_SOCKET, "%s, port %u: %s", station->info.name,
			      NEAR_PORT_BASE + engine->slot.number * NEAR_PORTS +
				  address->near_count,
			      strerror(-error));
	for (uint32_t i = 0; i < engine->lane_count; i++) {
		lane_lock(engine->lanes[i]);
		udp_link_set_near(engine->lanes[i]->link, gid);
		lane_unlock(engine->lanes[i]);
	}
	return 0;
}

static void close_near(struct station *station, struct address *address)
{
	remove_sources(station, address->near, address->near_count);
	while (address->near_count)
		close(address->near[--address->near_count].fd);
}

static void close_address(struct station *station, struct address *address)
{
	close_near(station, address);
	remove_sources(station, address->sources, address->source_count);
	group_leave(&station->engine->groups, address->group);
	free(address);
}

/* 0 or a positive errno (noted). */
static int open_address(struct station *station, const union ibv_gid *gid)
{
	struct engine *engine = station->engine;
	struct address *address = calloc(1, sizeof(*address));
	int error;

	if (!address)
		return refuse(REASON_NO_ENGINE_MEMORY, "address of %s", station->info.name);
	error = group_join(&engine->groups, engine->slot.number, gid, station->info.ifindex,
			   host_lanes(), &address->group);
	if (error) {
		free(address);
		return error;
	}
	tell_links(station, gid);
	for (uint32_t i = 0; i <= address->group->lanes; i++) {
		bool is_gsi = i == address->group->lanes;

		if (is_gsi && address->group->gsi < 0)
			break;
		address->sources[i].is_shared = is_gsi;
		error = add_source(station, &address->sources[i], i,
				   is_gsi ? address->group->gsi : address->group->fds[i], gid);
		if (error < 0) {
			error = refuse(REASON_NO_DESCRIPTOR, "epoll: %s", strerror(-error));
			close_address(station, address);
			return error;
		}
		address->source_count++;
	}
	error = open_near(station, address);
	if (error) {
		close_address(station, address);
		return error;
	}
	pthread_mutex_lock(&engine->stations_lock);
	cds_list_add_tail(&address->node, &station->addresses);
	pthread_mutex_unlock(&engine->stations_lock);
	return 0;
}

static struct address *find_address(const struct station *station, const union ibv_gid *gid,
				    uint32_t scope)
{
	struct address *address;

	cds_list_for_each_entry (address, &station->addresses, node)
		if (memcmp(&address->group->gid, gid, sizeof(*gid)) == 0 &&
		    gid_scope(&address->group->gid, address->group->ifindex) == scope)
			return address;
	return NULL;
}

struct adapter *engine_find_adapter(struct engine *engine, const union ibv_gid *gid, uint32_t scope)
{
	struct station *station;

	cds_list_for_each_entry (station, &engine->stations, node)
		if (find_address(station, gid, scope))
			return &station->adapter;
	return NULL;
}

static bool is_listed(const struct netdev *netdev, const union ibv_gid *gid)
{
	for (int i = 0; i < netdev->gid_count; i++)
		if (memcmp(&netdev->gids[i], gid, sizeof(*gid)) == 0)
			return true;
	return false;
}

/* An address that two interfaces share is the first one's. */
static bool is_others(struct station *station, const union ibv_gid *gid)
{
	struct adapter *adapter =
	    engine_find_adapter(station->engine, gid, gid_scope(gid, station->info.ifindex));

	return adapter && adapter != &station->adapter;
}

/* Opens what is new; the table gets what is open. The first refusal, 0 if there was none. */
static int follow_addresses(struct station *station, const struct netdev *netdev)
{
	union ibv_gid gids[MAX_GIDS];
	int count = 0, first = 0;

	for (int i = 0; i < netdev->gid_count; i++) {
		const union ibv_gid *gid = &netdev->gids[i];
		int error = 0;

		if (is_others(station, gid))
			continue;
		if (!find_address(station, gid, gid_scope(gid, station->info.ifindex)))
			error = open_address(station, gid);
		if (error == 0)
			gids[count++] = *gid;
		else if (first == 0)
			first = error;
	}
	port_set_gids(&station->adapter, gids, count);
	return first;
}

static void set_link(struct station *station, const struct netdev *netdev)
{
	struct port *port = &station->adapter.port;

	pthread_mutex_lock(&port->lock);
	port->netdev_index = netdev->ifindex;
	snprintf(port->netdev_name, sizeof(port->netdev_name), "%s", netdev->name);
	pthread_mutex_unlock(&port->lock);
	port_set_link(&station->adapter, netdev->has_carrier ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
		      netdev->mtu, netdev->speed_mbps);
}

static void close_gone(struct station *station, const struct netdev *netdev)
{
	struct address *address, *next;

	cds_list_for_each_entry_safe (address, next, &station->addresses, node) {
		if (netdev && is_listed(netdev, &address->group->gid))
			continue;
		pthread_mutex_lock(&station->engine->stations_lock);
		cds_list_del(&address->node);
		pthread_mutex_unlock(&station->engine->stations_lock);
		close_address(station, address);
	}
}

void station_update(struct station *station, const struct netdev *netdev)
{
	struct netdev gone = {.ifindex = station->info.ifindex};

	if (!netdev) {
		snprintf(gone.name, sizeof(gone.name), "%s", station->info.netdev);
		gone.mtu = station->info.mtu;
		netdev = &gone;
	}
	set_link(station, netdev);
	follow_addresses(station, netdev);
	close_gone(station, netdev);
}

/* VERBATIM_PKEYS=0xffff,0x8001,...: the P_Key table that an open device begins with. */
static int set_partitions(struct station *station)
{
	const char *setting = getenv("VERBATIM_PKEYS"), *at = setting;
	uint16_t pkeys[MAX_PKEYS];
	int count = 0;

	if (!setting || !*setting)
		return 0;
	for (; count < MAX_PKEYS && *at; count++) {
		char *end;
		unsigned long key = strtoul(at, &end, 16);

		if (end == at || (*end && *end != ',') || key > UINT16_MAX)
			return refuse(REASON_PKEYS_SETTING, "VERBATIM_PKEYS=%s", setting);
		pkeys[count] = (uint16_t)key;
		at = *end ? end + 1 : end;
	}
	if (*at || port_set_pkeys(&station->adapter, pkeys, count))
		return refuse(REASON_PKEYS_SETTING, "VERBATIM_PKEYS=%s", setting);
	return 0;
}

int station_open(struct engine *engine, const struct device_info *info, const struct netdev *netdev,
		 const struct adapter_host *host, struct station **result)
{
	struct station *station = calloc(1, sizeof(*station));
	int error;

	if (!station)
		return refuse(REASON_NO_ENGINE_MEMORY, "device %s", info->name);
	station->engine = engine;
	station->info = *info;
	CDS_INIT_LIST_HEAD(&station->addresses);
	CDS_INIT_LIST_HEAD(&station->memberships);
	pthread_mutex_init(&station->lock, NULL);
	pthread_mutex_init(&station->groups_lock, NULL);
	if (adapter_init(&station->adapter, info->name, info->guid, engine->slot.number, host,
			 station) < 0) {
		free(station);
		return refuse(REASON_NO_ENGINE_MEMORY, "device %s", info->name);
	}
	station->opens = 1;
	station->is_loopback = netdev->is_loopback;
	pthread_mutex_lock(&engine->stations_lock);
	cds_list_add_tail(&station->node, &engine->stations);
	pthread_mutex_unlock(&engine->stations_lock);
	set_link(station, netdev);
	error = set_partitions(station);
	if (!error)
		error = follow_addresses(station, netdev);
	if (error) {
		station_close(station);
		return error;
	}
	*result = station;
	return 0;
}

static void close_membership(struct station *station, struct membership *membership)
{
	remove_sources(station, membership->sources, membership->source_count);
	for (uint32_t i = 0; i < membership->source_count; i++)
		close(membership->sources[i].fd);
	free(membership);
}

void station_close(struct station *station)
{
	struct engine *engine = station->engine;
	struct membership *membership, *next;

	pthread_mutex_lock(&engine->stations_lock);
	cds_list_del(&station->node);
	pthread_mutex_unlock(&engine->stations_lock);
	openings_close(engine, &station->adapter);
	estates_close(engine, station);
	close_gone(station, NULL);
	cds_list_for_each_entry_safe (membership, next, &station->memberships, node)
		close_membership(station, membership);
	for (uint32_t i = 0; i < engine->lane_count; i++) {
		lane_lock(engine->lanes[i]);
		lane_purge(engine->lanes[i], &station->adapter);
		branches_close(engine->lanes[i], &station->adapter);
		samehost_forget(engine->lanes[i]->samehost, &station->adapter);
		lane_unlock(engine->lanes[i]);
	}
	adapter_fini(&station->adapter);
	pthread_mutex_destroy(&station->groups_lock);
	pthread_mutex_destroy(&station->lock);
	free(station);
}

int station_join(struct station *station, const union ibv_gid *gid)
{
	struct membership *membership = calloc(1, sizeof(*membership));
	int error = 0;

	if (!membership)
		return refuse(REASON_NO_ENGINE_MEMORY, "multicast group");
	membership->gid = *gid;
	for (uint32_t i = 0; i < station->engine->lane_count && error >= 0; i++) {
		int fd = udp_socket_join(gid, station->info.ifindex);

		error = fd;
		if (fd >= 0)
			error = add_source(station, &membership->sources[i], i, fd, gid);
		if (error >= 0)
			membership->source_count++;
		else if (fd >= 0)
			close(fd);
	}
	if (error < 0) {
		close_membership(station, membership);
		return refuse(REASON_MCAST_JOIN, "on %s: %s", station->info.netdev,
			      strerror(-error));
	}
	pthread_mutex_lock(&station->lock);
	cds_list_add_tail(&membership->node, &station->memberships);
	pthread_mutex_unlock(&station->lock);
	return 0;
}

void station_leave(struct station *station, const union ibv_gid *gid)
{
	struct membership *membership, *found = NULL;

	pthread_mutex_lock(&station->lock);
	cds_list_for_each_entry (membership, &station->memberships, node)
		if (memcmp(&membership->gid, gid, sizeof(*gid)) == 0)
			found = membership;
	if (found)
		cds_list_del(&found->node);
	pthread_mutex_unlock(&station->lock);
	if (found)
		close_membership(station, found);
}

static void abandon_sources(const struct source *sources, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		close(sources[i].fd);
}

void station_abandon(struct station *station)
{
	struct membership *membership;
	struct address *address;

	cds_list_for_each_entry (address, &station->addresses, node) {
		abandon_sources(address->sources, address->source_count);
		abandon_sources(address->near, address->near_count);
		close(address->group->vault.in);
		close(address->group->vault.out);
	}
	cds_list_for_each_entry (membership, &station->memberships, node)
		abandon_sources(membership->sources, membership->source_count);
	if (station->raw_users) {
		close(station->raw_source.fd);
		close(station->raw_fd);
	}
}
