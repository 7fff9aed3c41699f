/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ids: made, bound, resolved, moved to another channel, destroyed.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "rdmacm/face.h"

enum {
	ANY_UDP_PORT = 9,      /* for a look at the route */
	MAX_BACKLOG = 1 << 14, /* sixteen times the kernel's: thousands may come at once */
};

static CDS_LIST_HEAD(ids);

static enum ibv_qp_type type_of(enum rdma_port_space ps)
{
	return ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
}

struct id *id_create(struct channel *channel, void *context, enum rdma_port_space ps,
		     enum ibv_qp_type type)
{
	struct id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->cm.channel = &channel->cm;
	id->cm.context = context;
	id->cm.ps = ps;
	id->cm.qp_type = type;
	id->sgid_index = -1;
	CDS_INIT_LIST_HEAD(&id->groups);
	while (getrandom(&id->psn, sizeof(id->psn), 0) != sizeof(id->psn))
		;
	id->psn &= 0xffffff;
	cds_list_add_tail(&id->of_all, &ids);
	return id;
}

void ids_each(void (*visit)(struct id *id, void *data), void *data)
{
	struct id *id;

	cds_list_for_each_entry (id, &ids, of_all)
		visit(id, data);
}

void id_free(struct id *id)
{
	cds_list_del(&id->of_all);
	free(id->qp_attr);
	rdma_freeaddrinfo(id->info);
	free(id);
}

static int create(struct rdma_event_channel *channel, struct rdma_cm_id **result, void *context,
		  enum rdma_port_space ps, enum ibv_qp_type type)
{
	struct channel *own = NULL;
	struct id *id;
	int error;

	manager_lock();
	error = manager_start();
	manager_unlock();
	if (error)
		return cm_result(error);
	if (!channel) {
		own = channel_create();
		if (!own)
			return -1;
		channel = &own->cm;
	}
	manager_lock();
	id = id_create((struct channel *)channel, context, ps, type);
	manager_unlock();
	if (!id) {
		if (own)
			channel_free(own);
		return cm_result(ENOMEM);
	}
	id->is_sync = own != NULL;
	*result = &id->cm;
	return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	if (ps != RDMA_PS_TCP && ps != RDMA_PS_UDP && ps != RDMA_PS_IPOIB && ps != RDMA_PS_IB)
		return cm_result(refuse(REASON_CM_PORT_SPACE, "0x%x", (unsigned int)ps));
	return create(channel, id, context, ps, type_of(ps));
}

/* ---- destruction ---- */

/* A request of this listener's that nobody heard of yet; NULL if there is none. */
static struct id *untold_request(const struct id *id)
{
	struct channel *channel = (struct channel *)id->cm.channel;
	struct event *event;

	cds_list_for_each_entry (event, &channel->events, node)
		if (event->id == id && event->is_request)
			return id_of(event->cm.id);
	return NULL;
}

/* They go with their listener, and with all that was to be told of them. */
static void drop_requests(struct id *id)
{
	struct id *request;

	while ((request = untold_request(id))) {
		if (request->conn)
			cm_release(manager_cm(), request->conn, manager_now());
		events_drop(request);
		id_free(request);
	}
}

int rdma_destroy_id(struct rdma_cm_id *cm_id)
{
	struct id *id = id_of(cm_id);
	struct channel *own;

	if (id->cm.event)
		rdma_ack_cm_event(id->cm.event);
	manager_lock();
	id->is_destroying = true;
	if (id->conn)
		cm_release(manager_cm(), id->conn, manager_now());
	id->conn = NULL;
	groups_leave(id);
	port_release(id);
	id->state = ID_CLOSED;
	drop_requests(id);
	events_drop(id);
	while (id->delivered)
		manager_wait();
	own = id->is_sync ? (struct channel *)id->cm.channel : NULL;
	id_free(id);
	manager_unlock();
	manager_kick();
	if (own)
		channel_free(own);
	return 0;
}

/* ---- devices and addresses ---- */

int id_set_device(struct id *id, const union ibv_gid *sgid)
{
	struct ibv_context *context = device_find(sgid, &id->sgid_index);

	if (!context)
		return refuse(REASON_CM_NO_DEVICE_FOR_ADDRESS, NULL);
	id->cm.verbs = context;
	if (!id->cm.pd)
		id->cm.pd = device_pd(context);
	id->cm.port_num = 1;
	id->sgid = *sgid;
	id->cm.route.addr.addr.ibaddr.sgid = *sgid;
	id->cm.route.addr.addr.ibaddr.pkey = 0xffff;
	return 0;
}

int id_need_device(struct id *id)
{
	const struct sockaddr *own = &id->cm.route.addr.src_addr;
	union ibv_gid gid;

	if (id->cm.verbs)
		return 0;
	if (id->state != ID_BOUND || address_is_any(own))
		return EINVAL;
	gid_of_address(own, &gid);
	return id_set_device(id, &gid);
}

/*
 * The device of a local address. To Linux a loopback address is as good as any, and the id has no
 * device: libfabric binds to "localhost" so, and asks which devices there are. Here loopback has
 * one, and programs look at it, so only for that name there is none, until one is needed.
 */
static int find_own_device(struct id *id, const struct sockaddr *address)
{
	union ibv_gid gid;

	if (address_is_any(address))
		return 0;
	gid_of_address(address, &gid);
	if (address_is_this_host(address) && device_find(&gid, NULL))
		return 0;
	return id_set_device(id, &gid);
}

static int bind_address(struct id *id, const struct sockaddr *address)
{
	socklen_t length = address_length(address);
	int error;

	if (id->state != ID_IDLE)
		return EINVAL;
	if (!length)
		return refuse(REASON_CM_ADDRESS_FAMILY, "family %u", address->sa_family);
	error = find_own_device(id, address);
	if (error)
		return error;
	memcpy(&id->cm.route.addr.src_storage, address, length);
	if (address_is_this_host(address))
		memset(id->cm.route.addr.src_sin.sin_zero, 0,
		       sizeof(id->cm.route.addr.src_sin.sin_zero));
	error = port_take(id);
	if (error) {
		memset(&id->cm.route.addr.src_storage, 0, sizeof(struct sockaddr_storage));
		id->cm.verbs = NULL;
		return error;
	}
	id->state = ID_BOUND;
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	struct sockaddr_storage room;
	int error;

	if (!address)
		return cm_result(EINVAL);
	manager_lock();
	error = bind_address(id_of(id), address_plain(address, &room));
	manager_unlock();
	return cm_result(error);
}

int rdma_listen(struct rdma_cm_id *cm_id, int backlog)
{
	struct id *id = id_of(cm_id);
	struct sockaddr_in any = {.sin_family = AF_INET};
	int error = 0;

	manager_lock();
	if (id->state == ID_IDLE)
		error = bind_address(id, (struct sockaddr *)&any);
	if (error == 0 && id->state != ID_BOUND)
		error = EINVAL;
	if (error == 0 && !address_is_any(&id->cm.route.addr.src_addr))
		error = id_need_device(id);
	if (error == 0) {
		id->backlog =
		    backlog > 0 && backlog < MAX_BACKLOG ? (unsigned int)backlog : MAX_BACKLOG;
		port_listen(id);
	}
	manager_unlock();
	return cm_result(error);
}

/* From which of our addresses the kernel's routes lead there. 0 or a positive errno. */
static int find_source(const struct sockaddr *to, const struct sockaddr *from,
		       struct sockaddr_storage *source)
{
	struct sockaddr_storage destination = {0};
	socklen_t length = sizeof(*source);
	int error = 0;
	int fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno;
	memcpy(&destination, to, address_length(to));
	*address_port((struct sockaddr *)&destination) = htons(ANY_UDP_PORT);
	if (from) {
		memset(source, 0, sizeof(*source));
		memcpy(source, from, address_length(from));
		*address_port((struct sockaddr *)source) = 0;
		if (bind(fd, (struct sockaddr *)source, address_length(from)) < 0)
			error = errno;
	}
	if (error == 0 && connect(fd, (struct sockaddr *)&destination, address_length(to)) < 0)
		error = errno;
	if (error == 0 && getsockname(fd, (struct sockaddr *)source, &length) < 0)
		error = errno;
	close(fd);
	return error;
}

static int resolve(struct id *id, const struct sockaddr *from, const struct sockaddr *to)
{
	struct sockaddr_storage source = {0};
	struct sockaddr *own = &id->cm.route.addr.src_addr;
	__be16 port = 0;
	union ibv_gid gid;
	int error;

	if (id->state == ID_IDLE && from && address_length(from) &&
	    (*address_port((struct sockaddr *)from) || !address_is_any(from))) {
		error = bind_address(id, from);
		if (error)
			return error;
	}
	if (id->state != ID_IDLE && id->state != ID_BOUND)
		return EINVAL;
	if (!address_length(to))
		return refuse(REASON_CM_ADDRESS_FAMILY, "family %u", to->sa_family);
	if (id->state == ID_BOUND)
		port = *address_port(own);
	error = find_source(
	    to, id->state == ID_BOUND && own->sa_family == to->sa_family ? own : NULL, &source);
	if (error)
		return error;
	gid_of_address((struct sockaddr *)&source, &gid);
	error = id_set_device(id, &gid);
	if (error)
		return error;
	*address_port((struct sockaddr *)&source) =
	    port ? port : htons((uint16_t)(32768 + id->psn % 28000));
	id->cm.route.addr.src_storage = source;
	memcpy(&id->cm.route.addr.dst_storage, to, address_length(to));
	gid_of_address(to, &id->dgid);
	id->cm.route.addr.addr.ibaddr.dgid = id->dgid;
	id->state = ID_RESOLVED;
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *cm_id, struct sockaddr *src_addr,
		      struct sockaddr *dst_addr, int timeout_ms)
{
	struct sockaddr_storage from, to;
	struct id *id = id_of(cm_id);
	int error;

	if (!dst_addr)
		return cm_result(EINVAL);
	manager_lock();
	error = resolve(id, address_plain(src_addr, &from), address_plain(dst_addr, &to));
	if (error == 0)
		event_tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	manager_unlock();
	return error ? cm_result(error) : id_complete(id);
}

/* There is one path, the kernel's route. */
static void fill_path(struct id *id)
{
	struct ibv_port_attr port;

	memset(&id->path, 0, sizeof(id->path));
	id->path.dgid = id->dgid;
	id->path.sgid = id->sgid;
	id->path.hop_limit = 64;
	id->path.traffic_class = id->tos;
	id->path.reversible = 1;
	id->path.numb_path = 1;
	id->path.pkey = 0xffff;
	id->path.mtu_selector = 2;
	id->path.rate_selector = 2;
	id->path.packet_life_time_selector = 2;
	id->path.packet_life_time = 13;
	id->mtu = IBV_MTU_1024;
	if (ibv_query_port(id->cm.verbs, 1, &port) == 0)
		id->mtu = (uint8_t)port.active_mtu;
	id->path.mtu = id->mtu;
	id->cm.route.path_rec = &id->path;
	id->cm.route.num_paths = 1;
}

void id_set_route(struct id *id, uint8_t mtu, uint8_t traffic_class, uint8_t hop_limit)
{
	fill_path(id);
	if (mtu && mtu < id->mtu)
		id->path.mtu = id->mtu = mtu;
	id->path.traffic_class = id->tos = traffic_class;
	if (hop_limit)
		id->path.hop_limit = hop_limit;
	id->state = ID_ROUTED;
	event_tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

int rdma_resolve_route(struct rdma_cm_id *cm_id, int timeout_ms)
{
	struct id *id = id_of(cm_id);
	int error = 0;

	manager_lock();
	if (id->state == ID_RESOLVED) {
		fill_path(id);
		id->state = ID_ROUTED;
		event_tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	} else {
		error = EINVAL;
	}
	manager_unlock();
	return error ? cm_result(error) : id_complete(id);
}

/* ---- moving ---- */

int rdma_migrate_id(struct rdma_cm_id *cm_id, struct rdma_event_channel *cm_channel)
{
	struct id *id = id_of(cm_id);
	struct channel *old = (struct channel *)cm_id->channel;
	struct channel *channel = cm_channel ? (struct channel *)cm_channel : channel_create();
	bool was_sync = id->is_sync;
	struct event *event, *next;
	CDS_LIST_HEAD(moved);

	if (!channel)
		return -1;
	if (was_sync && cm_id->event) {
		rdma_ack_cm_event(cm_id->event);
		cm_id->event = NULL;
	}
	manager_lock();
	while (id->delivered)
		manager_wait();
	cds_list_for_each_entry_safe (event, next, &old->events, node)
		if (event->id == id) {
			cds_list_del(&event->node);
			channel_take_token(old);
			cds_list_add_tail(&event->node, &moved);
		}
	id->cm.channel = &channel->cm;
	id->is_sync = cm_channel == NULL;
	cds_list_for_each_entry_safe (event, next, &moved, node) {
		cds_list_del(&event->node);
		event_post(event);
	}
	manager_unlock();
	if (was_sync)
		channel_free(old);
	return 0;
}
