/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of librdmacm share: ids and channels behind the ABI's structs, and the process's
 * one connection manager, with a thread that takes its messages and keeps its deadlines.
 *
 * One lock, manager_lock(), guards everything: the manager, ids, channels, ports. It is held while
 * verbs are called (QPs change state when messages come), and never while waiting.
 */
#ifndef RDMACM_FACE_H
#define RDMACM_FACE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <urcu/list.h>

#include "cm/cm.h"
#include "explain/reason.h"

struct service;

struct channel {
	struct rdma_event_channel cm; /* first */
	struct cds_list_head events;  /* oldest first */
	bool is_own;		      /* of a synchronous id */
};

enum id_state {
	ID_IDLE,
	ID_BOUND,
	ID_RESOLVED,
	ID_ROUTED,
	ID_LISTENING,
	ID_CONNECTING,
	ID_REQUESTED, /* passive: rdma_accept() or rdma_reject() is due */
	ID_ACCEPTED,
	ID_RESPONDED, /* active, no QP: rdma_establish() is due */
	ID_CONNECTED,
	ID_CLOSED,
};

struct group {
	struct cds_list_head node;
	struct sockaddr_storage address;
	union ibv_gid gid;
	bool is_attached;
};

struct id {
	struct rdma_cm_id cm; /* first */
	enum id_state state;
	bool is_sync, is_destroying;
	bool reuse_address, af_only;
	uint8_t tos, ack_timeout;
	unsigned int delivered;	   /* events taken and not acknowledged */
	struct cds_list_head node; /* of all listeners, while listening */
	struct cds_list_head of_all;
	bool is_stray;		       /* its address is no longer its interface's */
	struct service *service;       /* the port that it has */
	struct id *listener;	       /* whose request it is, until that is destroyed */
	unsigned int backlog, pending; /* requests: at most, and not taken yet */
	union ibv_gid sgid, dgid;
	int sgid_index;
	struct cm_id *conn;
	struct ibv_qp_init_attr *qp_attr; /* what rdma_get_request() makes QPs with */
	struct ibv_sa_path_rec path;
	struct cds_list_head groups;
	struct ibv_ece local_ece, remote_ece;

	/* Of the connection. A message's PSN is where the other side is to begin (12.7.31): ours is
	 * what we expect first. */
	uint32_t qpn, psn, remote_qpn, remote_psn, qkey;
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
	uint8_t mtu;
	bool srq, owns_cqs, owns_pd, owns_srq_cqs;
	struct rdma_addrinfo *info; /* of rdma_resolve_addrinfo() */
};

struct event {
	struct rdma_cm_event cm; /* first */
	struct cds_list_head node;
	struct id *id; /* whose acknowledgement it counts for */
	bool is_request;
	uint8_t private_data[MAD_BYTES];
};

static inline struct id *id_of(struct rdma_cm_id *id)
{
	return (struct id *)id;
}

/* An errno as this library returns it. */
static inline int cm_result(int error)
{
	if (error == 0)
		return 0;
	errno = error;
	return -1;
}

/* ---- manager.c ---- */

void manager_lock(void);
void manager_unlock(void);
/* Waits for an acknowledgement, with the lock. */
void manager_wait(void);
void manager_wake(void);
/* With the lock, and devices open. 0 or a positive errno. */
int manager_start(void);
struct cm *manager_cm(void);
uint64_t manager_now(void);
/* The text of its counters; its length. */
size_t manager_counters(char *bytes, size_t room);
/* After calls into the manager: its thread looks at its deadline again. */
void manager_kick(void);
/* What the thread's descriptors are. */
enum watch { WATCH_KICK, WATCH_MAIL, WATCH_LIFE, WATCH_PEER, WATCH_WATCHER, WATCH_INTERFACES };
/* 0 or a positive errno. */
int manager_watch(int fd, enum watch kind, uint32_t slot);
void manager_unwatch(int fd);

/* ---- life.c: with the lock ---- */

int life_open(uint32_t slot); /* 0 or a positive errno */
void life_abandon(void);
void life_watch(uint32_t slot);
void life_ended(uint32_t slot);
void life_accept(void);
/* Who watches us hangs up, or asks for the counters. */
void life_read(int fd);
/* Tells of those that were found dead when they were to be watched. */
void life_run(void);

/* In the child of a fork: the thread is gone, its descriptors are closed, and nothing is said. */
void manager_abandon(void);

/* ---- fork.c: when devices are open ---- */

void fork_follow(void);

/* ---- interface.c: with the lock ---- */

int interfaces_open(void); /* 0 or a positive errno */
void interfaces_abandon(void);
/* The descriptor has something to say. */
void interfaces_changed(void);
/* Tells ids, when it is time to; when it is next, UINT64_MAX for never. */
uint64_t interfaces_run(uint64_t now);

/* ---- device.c: with the lock ---- */

struct device {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint32_t ifindex;
	uint64_t guid; /* of its interface's MAC */
	bool is_gone;
};

/* All of them, as they were opened. */
struct device *devices_all(int *count);
/* They are the parent's. */
void devices_abandon(void);

/* Opens all devices, once. 0 or a positive errno. */
int devices_open(void);
/* The device and the index of one of its addresses. NULL if none has it. */
struct ibv_context *device_find(const union ibv_gid *gid, int *index);
/* The XRC domain that a device has for all ids without one. NULL and errno. */
struct ibv_xrcd *device_xrcd(struct ibv_context *context);
/* The protection domain that a device has for all ids without one. NULL and errno. */
struct ibv_pd *device_pd(struct ibv_context *context);

/* ---- address.c ---- */

void gid_of_address(const struct sockaddr *address, union ibv_gid *gid);
void address_of_gid(const union ibv_gid *gid, uint16_t port, struct sockaddr_storage *address);
/* One of AF_IB is a GID and a service id: as the IP address and the port that they are here. Others
 * as they are. */
const struct sockaddr *address_plain(const struct sockaddr *address, struct sockaddr_storage *room);
socklen_t address_length(const struct sockaddr *address);
bool address_is_any(const struct sockaddr *address);
/* Of loopback, and asked for by "localhost" without a port: no device in particular is meant. */
void address_make_this_host(struct sockaddr *address);
bool address_is_this_host(const struct sockaddr *address);
__be16 *address_port(struct sockaddr *address);
uint64_t service_id_of(const struct id *id, uint16_t port);

/* ---- port.c: with the lock ---- */

/* Takes the port of the id's source address, or a free one. 0 or a positive errno. */
int port_take(struct id *id);
void port_release(struct id *id);
bool port_is_mailbox(int fd);
/* Who listens for a service on an address; NULL if nobody does. */
struct id *port_listener(uint64_t service_id, const union ibv_gid *gid);
void port_listen(struct id *id);
void ports_abandon(void);
struct port_load {
	unsigned int listeners, pending;
};
struct port_load ports_load(void);

/* ---- counters.c: with the lock ---- */

/* As much as there is room for; the length. */
size_t counters_write(const struct cm *cm, unsigned int waiting, uint64_t lost, char *bytes,
		      size_t room);

/* ---- channel.c ---- */

/* With the lock: a new event of this id, its private data copied; NULL if there is no memory. */
struct event *event_create(struct id *id, enum rdma_cm_event_type type, int status);
void event_set_data(struct event *event, const void *data, size_t length);
void event_post(struct event *event);
/* In one. */
void event_tell(struct id *id, enum rdma_cm_event_type type, int status);
/* Drops those of an id that nobody took yet. */
void events_drop(struct id *id);
/* A synchronous id waits for the event of what it began. 0, or -1 and errno. */
int id_complete(struct id *id);
struct channel *channel_create(void);
/* In the child of a fork: its events are the parent's, and so are the tokens in its descriptor. */
void channel_forsake(struct channel *channel);
void channel_free(struct channel *channel);
/* With the lock: one less for its readers. */
void channel_take_token(struct channel *channel);

/* ---- id.c ---- */

/* With the lock. */
struct id *id_create(struct channel *channel, void *context, enum rdma_port_space ps,
		     enum ibv_qp_type type);
void id_free(struct id *id);
int id_set_device(struct id *id, const union ibv_gid *sgid);
/* Of an id that may have none yet (address_is_this_host()). 0, or EINVAL. */
int id_need_device(struct id *id);
/* With the lock. */
void ids_each(void (*visit)(struct id *id, void *data), void *data);

/* ---- qp.c ---- */

int qp_attr_of(struct id *id, enum ibv_qp_state state, struct ibv_qp_attr *attr, int *mask);
/* Moves the id's QP; 0 or a positive errno. */
int qp_move(struct id *id, enum ibv_qp_state state);
/* To RTS, from INIT once more: what the QP allows is known by now. */
int qp_connect(struct id *id);
bool id_is_datagram(const struct id *id);
/* ROUTE_RESOLVED is told. */
void id_set_route(struct id *id, uint8_t mtu, uint8_t traffic_class, uint8_t hop_limit);

/* ---- connect.c ---- */

void connect_event(struct cm *cm, struct cm_id *conn, const struct cm_event *event);
void groups_leave(struct id *id);

#endif
