/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's own state: one a process, and for each open device the addresses that it listens on.
 */
#ifndef ENGINE_STATE_H
#define ENGINE_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include "device/adapter.h"
#include "engine/engine.h"
#include "engine/estate.h"
#include "engine/group.h"
#include "engine/lane.h"
#include "engine/line.h"
#include "engine/neighbours.h"
#include "engine/opening.h"
#include "engine/reachable.h"
#include "engine/slot.h"

struct netdev;

struct engine {
	struct slot slot;
	uint32_t lane_count; /* a power of two */
	struct lane *lanes[GROUP_MAX_LANES];
	atomic_uint next_lane; /* for QPs of a CQ that has none yet */
	struct group_list groups;
	struct neighbours neighbours;
	struct reachable reachable;
	struct held held;
	struct pool pool; /* of packets on their way to a lane, and of lines */
	struct openings openings;
	struct estates estates;
	struct cds_list_head
	    stations; /* under the engine's lock; read by the mail thread under stations_lock */
	pthread_mutex_t stations_lock;
	int stop_fd, watch_fd;
	pthread_mutex_t mail_lock; /* while mail is read: descriptors are in hand, lists change */
	pthread_t mail_thread, watch_thread;
	bool has_mail_thread, has_watch_thread;
	atomic_uint orphans; /* branches whose home is gone: not 0 if there are some */
	atomic_bool is_dead; /* in the child of a fork */
	/* struct gsi_counters */
	atomic_ulong gsi_received, gsi_malformed, gsi_unclaimed, gsi_dropped;
};

/* An open device. */
struct station {
	struct cds_list_head node;
	struct engine *engine;
	struct adapter adapter;
	struct device_info info;
	unsigned int opens;
	pthread_mutex_t groups_lock; /* a group's members and our membership of it are one; held
				      * before all others */
	pthread_mutex_t lock;	     /* guards all below */
	struct cds_list_head addresses, memberships;
	unsigned int raw_users; /* raw packet QPs */
	struct source raw_source;
	int raw_fd;
	bool is_loopback;
};

static inline struct station *station_of(const struct adapter *adapter)
{
	return adapter->host_data;
}

/* Opens with all addresses that the interface has. 0 or a positive errno (noted). */
int station_open(struct engine *engine, const struct device_info *info, const struct netdev *netdev,
		 const struct adapter_host *host, struct station **station);
void station_close(struct station *station);

/* Follows a change of the interface; NULL: it is down or gone. New addresses that can't be had stay
 * out of the table. */
void station_update(struct station *station, const struct netdev *netdev);

/* The group's multicast packets come in on every lane. 0 or a positive errno (noted). */
int station_join(struct station *station, const union ibv_gid *group);
void station_leave(struct station *station, const union ibv_gid *group);

/* For a slot that is kept (estate.h): sources on the lanes of their numbers, 0 or -errno; and the
 * groups of its addresses, under stations_lock. */
int station_add_source(struct station *station, struct source *source, uint32_t number, int fd,
		       const union ibv_gid *gid);
void station_remove_sources(struct station *station, struct source *sources, uint32_t count);
void station_for_each_group(struct station *station, void (*each)(struct group *group, void *data),
			    void *data);

/* In the child of a fork. */
void station_abandon(struct station *station);

/* The adapter whose address this is; the engine's lock is not needed. NULL if it is none of ours.
 */
struct adapter *engine_find_adapter(struct engine *engine, const union ibv_gid *gid,
				    uint32_t scope);

/* mail.c: the thread that answers other processes and takes their packets; watch.c: the one that
 * follows interfaces. */
void *mail_thread(void *engine);
void mail_read(struct engine *engine, int fd);
void *watch_thread(void *engine);

/* What the face wants told; engine_modify_qp() for who must not wait for the mail thread. */
const struct engine_face *engine_face(void);
int engine_modify_qp_soon(struct qp *qp, const struct ibv_qp_attr *attr, int mask);

/* Sockets that a group has for each slot. */
uint32_t host_lanes(void);

/* The engine's lock: opening, closing, changes of interfaces. False when the engine is not (or no
 * more) the running one. */
bool engine_lock_running(struct engine *engine);
void engine_unlock(void);

#endif
