/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm: connections between queue pairs by IP address and port.
 *
 * An rdma_cm_id is to RDMA what a socket is to TCP. The client: rdma_create_id(),
 * rdma_resolve_addr(), rdma_resolve_route(), rdma_create_qp(), rdma_connect(). The server:
 * rdma_create_id(), rdma_bind_addr(), rdma_listen(), and for each CONNECT_REQUEST rdma_create_qp()
 * and rdma_accept() on the id that comes with it. Each step that takes time ends with an event,
 * read by rdma_get_cm_event() from the id's channel. An id made without a channel is synchronous:
 * its calls return when the event is there.
 *
 * Returns int: 0, or -1 with errno set.
 * Returns pointer: what was made, or NULL with errno set.
 * Returns void: nothing.
 * Threads: different ids may be used by different threads at once; one id must not.
 * Man: rdma_cm(7).
 */
#ifndef RDMA_CMA_H
#define RDMA_CMA_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <infiniband/verbs.h>
#include <infiniband/sa.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- events ---- */

enum rdma_cm_event_type {
	RDMA_CM_EVENT_ADDR_RESOLVED,  /* of rdma_resolve_addr() */
	RDMA_CM_EVENT_ADDR_ERROR,     /* the same, failed: status is -errno */
	RDMA_CM_EVENT_ROUTE_RESOLVED, /* of rdma_resolve_route() */
	RDMA_CM_EVENT_ROUTE_ERROR,
	RDMA_CM_EVENT_CONNECT_REQUEST,	/* to a listener; `id` is new, `listen_id` the listener */
	RDMA_CM_EVENT_CONNECT_RESPONSE, /* the server accepted, and the id has no QP:
					   rdma_establish() is due */
	RDMA_CM_EVENT_CONNECT_ERROR,	/* while connecting: status is -errno */
	RDMA_CM_EVENT_UNREACHABLE,	/* nobody answered: status is -errno */
	RDMA_CM_EVENT_REJECTED, /* status is the reason (IB CM, 12.6.7.2): 8 nobody listens, 28 by
				   rdma_reject() */
	RDMA_CM_EVENT_ESTABLISHED, /* connected; or, for datagrams, param.ud is how to reach it */
	RDMA_CM_EVENT_DISCONNECTED,
	RDMA_CM_EVENT_DEVICE_REMOVAL, /* the id is dead: destroy it */
	RDMA_CM_EVENT_MULTICAST_JOIN, /* of rdma_join_multicast(): param.ud is the group */
	RDMA_CM_EVENT_MULTICAST_ERROR,
	RDMA_CM_EVENT_ADDR_CHANGE,	 /* the interface's address is another one now */
	RDMA_CM_EVENT_TIMEWAIT_EXIT,	 /* no packet of the connection is left: the QP may be used
					    again */
	RDMA_CM_EVENT_ADDRINFO_RESOLVED, /* of rdma_resolve_addrinfo() */
	RDMA_CM_EVENT_ADDRINFO_ERROR,
	RDMA_CM_EVENT_USER,    /* of rdma_write_cm_event() */
	RDMA_CM_EVENT_INTERNAL /* the library's own, never delivered */
};

/* A port space: the same port number in another one is another service. */
enum rdma_port_space {
	RDMA_PS_IPOIB = 0x0002, /* datagrams that share IPoIB's multicast groups */
	RDMA_PS_TCP = 0x0106,	/* connected */
	RDMA_PS_UDP = 0x0111,	/* datagrams */
	RDMA_PS_IB = 0x013F,	/* any QP type, any service id */
};

/* A service id is one of these and the port number. */
#define RDMA_IB_IP_PS_MASK   0xFFFFFFFFFFFF0000ULL
#define RDMA_IB_IP_PORT_MASK 0x000000000000FFFFULL
#define RDMA_IB_IP_PS_TCP    0x0000000001060000ULL
#define RDMA_IB_IP_PS_UDP    0x0000000001110000ULL
#define RDMA_IB_PS_IB	     0x00000000013F0000ULL

/* The Q_Key of all datagram QPs and groups that are made here. */
#define RDMA_UDP_QKEY 0x01234567

/* ---- ids ---- */

struct rdma_ib_addr {
	union ibv_gid sgid;
	union ibv_gid dgid;
	__be16 pkey;
};

struct rdma_addr {
	__extension__ union {
		struct sockaddr src_addr;
		struct sockaddr_in src_sin;
		struct sockaddr_in6 src_sin6;
		struct sockaddr_storage src_storage;
	};
	__extension__ union {
		struct sockaddr dst_addr;
		struct sockaddr_in dst_sin;
		struct sockaddr_in6 dst_sin6;
		struct sockaddr_storage dst_storage;
	};
	__extension__ union {
		struct rdma_ib_addr ibaddr;
	} addr;
};

struct rdma_route {
	struct rdma_addr addr;
	struct ibv_sa_path_rec *path_rec; /* num_paths of them, once the route is resolved */
	int num_paths;
};

struct rdma_event_channel {
	int fd; /* readable while an event waits; O_NONBLOCK may be set */
};

struct rdma_cm_id {
	struct ibv_context *verbs; /* NULL until it is bound to a device */
	struct rdma_event_channel *channel;
	void *context; /* the program's */
	struct ibv_qp *qp;
	struct rdma_route route;
	enum rdma_port_space ps;
	uint8_t port_num;
	struct rdma_cm_event *event; /* a synchronous id's last, until its next call */
	struct ibv_comp_channel
	    *send_cq_channel; /* what rdma_create_qp() made itself, or was given */
	struct ibv_cq *send_cq;
	struct ibv_comp_channel *recv_cq_channel;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_pd *pd;
	enum ibv_qp_type qp_type;
};

enum { RDMA_MAX_RESP_RES = 0xFF, RDMA_MAX_INIT_DEPTH = 0xFF };

/* Of rdma_connect() and rdma_accept(), and what the other side said in an event. */
struct rdma_conn_param {
	const void *private_data; /* at most 56 bytes in a request, 196 in an acceptance */
	uint8_t
	    private_data_len; /* in an event, what the message has room for: more than was sent */
	uint8_t responder_resources; /* READs and atomics that we serve at once */
	uint8_t initiator_depth;     /* those that we send at once */
	uint8_t flow_control;
	uint8_t retry_count;	 /* 0-7; not used by rdma_accept() */
	uint8_t rnr_retry_count; /* 0-7; 7 is for ever */
	/* these two only where the id has no QP */
	uint8_t srq;
	uint32_t qp_num;
};

struct rdma_ud_param {
	const void *private_data;
	uint8_t private_data_len;
	struct ibv_ah_attr ah_attr;
	uint32_t qp_num;
	uint32_t qkey;
};

struct rdma_cm_event {
	struct rdma_cm_id *id;
	struct rdma_cm_id *listen_id;
	enum rdma_cm_event_type event;
	int status;
	__extension__ union {
		struct rdma_conn_param conn;
		struct rdma_ud_param ud;
		uint64_t arg; /* of RDMA_CM_EVENT_USER */
	} param;
};

/* ---- channels and events ---- */

/*
 * Opens an event channel: a descriptor that is readable while an event waits, for any number of
 * ids.
 * Returns the channel, or NULL with errno set.
 * Errors: ENODEV: there is no device, or none could be opened; EADDRINUSE: a second librdmacm of
 * this process; EMFILE: no descriptor is left; ENOMEM.
 * Man: rdma_create_event_channel(3).
 */
struct rdma_event_channel *rdma_create_event_channel(void);
/*
 * Closes an event channel. Its ids must be gone and its events acknowledged; events that nobody
 * took are dropped. NULL is nothing to do.
 * Errors: None.
 * Man: rdma_destroy_event_channel(3).
 */
void rdma_destroy_event_channel(struct rdma_event_channel *channel);

/*
 * Takes the oldest event of a channel, waiting for one unless the descriptor is O_NONBLOCK.
 * rdma_ack_cm_event() frees it. A CONNECT_REQUEST has a new id, on the listener's channel, with the
 * listener's context.
 * Errors: EAGAIN: none, on an O_NONBLOCK descriptor; EINTR: a signal came while it waited; EINVAL:
 * channel is NULL.
 * Threads: several threads may wait on one channel: each event goes to one of them.
 * Man: rdma_get_cm_event(3).
 */
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
/*
 * Acknowledges an event and frees it, its private data with it. rdma_destroy_id() waits for this.
 * Errors: EINVAL: event is NULL.
 * Threads: any thread, once for each event.
 * Man: rdma_ack_cm_event(3).
 */
int rdma_ack_cm_event(struct rdma_cm_event *event);
/*
 * Puts an event of the program's own on the id's channel; its `status` and `arg` come out as they
 * are. The type is RDMA_CM_EVENT_USER.
 * Errors: EINVAL: another type; ENOMEM.
 * Threads: any thread, at any time.
 * Man: rdma_write_cm_event(3).
 */
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);
/*
 * Gives an event's name: "RDMA_CM_EVENT_ADDR_RESOLVED" and so on.
 * Returns a string that is never NULL nor to be freed: "UNKNOWN EVENT" for other values.
 * Errors: None.
 * Threads: any thread, at any time.
 * Man: rdma_event_str(3).
 */
const char *rdma_event_str(enum rdma_cm_event_type event);

/* ---- ids: making, binding, resolving ---- */

/*
 * Makes an id: a connection, datagram service or listener to be, in a port space. `context` is the
 * program's. With channel NULL it is synchronous: calls return when their event is there, which is
 * id->event until the next call.
 * Errors: EPROTONOSUPPORT: no such port space; ENODEV: there is no device, or none could be opened;
 * EMFILE: no descriptor is left; ENOMEM.
 * Man: rdma_create_id(3).
 */
int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps);
/*
 * Destroys an id. Its connection is given up, its groups are left, its events dropped; waits for
 * those that were taken to be acknowledged. Its QP has to be destroyed before.
 * Errors: None: it gives 0.
 * Threads: the last call with this id; not from who is to acknowledge its events.
 * Man: rdma_destroy_id(3).
 */
int rdma_destroy_id(struct rdma_cm_id *id);

/*
 * Binds an id to a local address and port: with any address it is of all devices, with port 0 it
 * gets a free one, see rdma_get_src_port(). Bound to what rdma_getaddrinfo(3)
 * says of "localhost" without a service it has no device (id->verbs is NULL) until it needs one,
 * when it listens, resolves, or gets a QP: as on Linux with any loopback address, where programs
 * learn so which devices there are.
 * Errors: EINVAL: addr is NULL, or it is bound already; EAFNOSUPPORT: neither IPv4 nor IPv6;
 * ENODEV: no device has the address; EADDRINUSE: the port is taken on this host; ENOMEM.
 * Man: rdma_bind_addr(3).
 */
int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
/*
 * Finds the device and source address by which the kernel's routes lead to dst_addr, and binds the
 * id to them. src_addr is NULL, or what to bind to first. That is done in the call, so timeout_ms
 * is not looked at. Event: ADDR_RESOLVED.
 * Errors: EINVAL: dst_addr is NULL, or the id is resolved already; EAFNOSUPPORT: neither IPv4 nor
 * IPv6; ENETUNREACH, EHOSTUNREACH: no route; EADDRNOTAVAIL: src_addr is not ours; ENODEV: no device
 * has the source address; EADDRINUSE: its port is taken.
 * Man: rdma_resolve_addr(3).
 */
int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
		      int timeout_ms);
/*
 * Finds the path to the address that is resolved: with RoCE there is one, the kernel's route.
 * id->route.path_rec describes it then; timeout_ms is not looked at. Event: ROUTE_RESOLVED.
 * Errors: EINVAL: the address is not resolved.
 * Man: rdma_resolve_route(3).
 */
int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms);

/*
 * Moves an id, with its events, to another channel; waits until those taken are acknowledged. With
 * NULL it is synchronous from then on.
 * Errors: EMFILE: no descriptor is left, for NULL; ENOMEM.
 * Man: rdma_migrate_id(3).
 */
int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);

/*
 * Gives the local port of an id, in network byte order.
 * Returns the port, 0 if it is not bound.
 * Errors: None.
 * Man: rdma_get_src_port(3).
 */
__be16 rdma_get_src_port(struct rdma_cm_id *id);

/*
 * Gives the peer's port of an id, in network byte order.
 * Returns the port, 0 if it has no peer.
 * Errors: None.
 * Man: rdma_get_dst_port(3).
 */
__be16 rdma_get_dst_port(struct rdma_cm_id *id);

/*
 * Gives the local address of an id.
 * Returns a pointer into the id, never NULL; sa_family is 0 as long as it has none.
 * Errors: None.
 * Man: rdma_get_local_addr(3).
 */
static inline struct sockaddr *rdma_get_local_addr(struct rdma_cm_id *id)
{
	return &id->route.addr.src_addr;
}

/*
 * Gives the peer's address of an id.
 * Returns a pointer into the id, never NULL; sa_family is 0 as long as it has none.
 * Errors: None.
 * Man: rdma_get_peer_addr(3).
 */
static inline struct sockaddr *rdma_get_peer_addr(struct rdma_cm_id *id)
{
	return &id->route.addr.dst_addr;
}

/* ---- queue pairs ---- */

/*
 * Makes a QP for an id that is bound to a device. The id then drives its states; a datagram's goes
 * to RTS at once. `pd` NULL is the id's, or a default one of the device. CQs that are missing are
 * made, with channels, for rdma_get_send_comp() and rdma_get_recv_comp(); id->srq serves where no
 * srq is given.
 * Errors: EINVAL: the id has no device or a QP already, the PD is of another context (see
 * rdma_get_devices()), or what ibv_create_qp() refuses; EMFILE: no descriptor is left for a
 * channel; and others of ibv_create_qp() and ibv_create_cq().
 * Man: rdma_create_qp(3).
 */
int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr);

/*
 * Makes a QP for an id, as rdma_create_qp() does, with all that ibv_create_qp_ex() knows. PD and,
 * for XRC_RECV, XRC domain that are missing are the device's default ones.
 * Errors: EINVAL: the id has no device or a QP already, the PD is of another context, or what
 * ibv_create_qp_ex() refuses; and others of that.
 * Man: rdma_create_qp_ex(3).
 */
int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr);

/*
 * Destroys the id's QP, and the CQs and channels that were made with it; the id's multicast groups
 * are left. Without a QP it does nothing.
 * Errors: None.
 * Man: rdma_destroy_qp(3).
 */
void rdma_destroy_qp(struct rdma_cm_id *id);

/*
 * Fills in the attributes, and their mask, that a QP needs to go to qp_attr->qp_state, for programs
 * that drive its states themselves: INIT, RTR, RTS or ERR.
 * Errors: EINVAL: another state, a NULL pointer, or the id has no device.
 * Man: rdma_init_qp_attr(3).
 */
int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask);

/*
 * Sets the enhanced connection establishment options that go with the next request or acceptance,
 * of a QP that was not made here.
 * Errors: EINVAL: the id has a QP, ece is NULL, vendor_id is 0 or has more than 24 bits, or
 * comp_mask is not 0.
 * Man: rdma_set_local_ece(3).
 */
int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece);

/*
 * Gives the enhanced connection establishment options that the peer sent, for ibv_set_ece(). All 0:
 * it sent none.
 * Errors: EINVAL: the id has a QP, or ece is NULL.
 * Man: rdma_get_remote_ece(3).
 */
int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece);

/* ---- connections ---- */

/*
 * Asks the peer for a connection; or, for datagrams, where its service is. conn_param NULL: no
 * private data, as many READs as the device can, 7 retries. Private data: 56 bytes, 180 for
 * datagrams. Event: ESTABLISHED (CONNECT_RESPONSE where the id has no QP), REJECTED with the reason
 * in its status, UNREACHABLE (nobody answered) or CONNECT_ERROR.
 * Errors: EINVAL: the route is not resolved, or too much private data; ENOMEM; and for a
 * synchronous id ECONNREFUSED: it was rejected; ETIMEDOUT: nobody answered.
 * Man: rdma_connect(3).
 */
int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);
/*
 * Says the client's last word, after CONNECT_RESPONSE, where it drives its QP itself and that is in
 * RTS.
 * Errors: EINVAL: the id has a QP, or there was no CONNECT_RESPONSE.
 * Man: rdma_establish(3).
 */
int rdma_establish(struct rdma_cm_id *id);
/*
 * Listens for requests. An id that is not bound is bound to any address and a free port. `backlog`
 * is how many requests wait to be read, 1024 if it is 0, less, or more; one that finds it full is
 * welcome when the peer repeats it. Event, for each: CONNECT_REQUEST.
 * Errors: EINVAL: the id is used otherwise; EADDRINUSE: the port is taken on this host; ENOMEM.
 * Man: rdma_listen(3).
 */
int rdma_listen(struct rdma_cm_id *id, int backlog);
/*
 * Waits for a request, for a synchronous listener. The new id is synchronous, has id->event, and a
 * QP if rdma_create_ep() got attributes for one.
 * Errors: EINVAL: the id is not synchronous, or has a peer, or another event came; EINTR: a signal
 * came while it waited; and those of rdma_create_qp().
 * Man: rdma_get_request(3).
 */
int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id);
/*
 * Accepts a request, on the id that came with it. conn_param NULL: as many READs as asked for.
 * Private data: 196 bytes, 136 for datagrams, whose id needs qp_num if it has no QP. Event:
 * ESTABLISHED, for connections.
 * Errors: EINVAL: no request, or too much private data; those of ibv_modify_qp(), of the id's QP;
 * and for a synchronous id ETIMEDOUT: the peer did not confirm.
 * Man: rdma_accept(3).
 */
int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);
/*
 * Rejects a request. Private data: 148 bytes, 136 for datagrams. The peer gets REJECTED with status
 * 28.
 * Errors: EINVAL: no request, or too much private data.
 * Man: rdma_reject(3).
 */
int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
/*
 * Rejects a request because its ECE options do not suit: the peer gets REJECTED with status 35.
 * Errors: EINVAL: no request, or too much private data.
 * Man: rdma_reject(3).
 */
int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
/*
 * Tells of an event that came on the QP before the connection was there: IBV_EVENT_COMM_EST, a
 * packet came before the peer's confirmation. The connection is established then.
 * Errors: EINVAL: another event, or the id has no connection.
 * Man: rdma_notify(3).
 */
int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event);
/*
 * Ends a connection: the id's QP goes to the error state, where what is posted is flushed. Event,
 * at both ends: DISCONNECTED.
 * Errors: EINVAL: the id is not connected.
 * Man: rdma_disconnect(3); 12.9.8.
 */
int rdma_disconnect(struct rdma_cm_id *id);

/* ---- multicast ---- */

/* Which members of struct rdma_cm_join_mc_attr_ex are set. */
enum rdma_cm_join_mc_attr_mask {
	RDMA_CM_JOIN_MC_ATTR_ADDRESS = 1 << 0,
	RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS = 1 << 1,
	RDMA_CM_JOIN_MC_ATTR_RESERVED = 1 << 2,
};

enum rdma_cm_mc_join_flags {
	RDMA_MC_JOIN_FLAG_FULLMEMBER,
	RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
	RDMA_MC_JOIN_FLAG_RESERVED,
};

struct rdma_cm_join_mc_attr_ex {
	uint32_t comp_mask;  /* enum rdma_cm_join_mc_attr_mask */
	uint32_t join_flags; /* enum rdma_cm_mc_join_flags */
	struct sockaddr *addr;
};

/*
 * Joins a multicast group and attaches the id's QP, if it has one. Event: MULTICAST_JOIN, whose
 * param.ud has the group's address for ibv_create_ah(), and `context` as its private_data.
 * Errors: EINVAL: the id has no device, or addr is no multicast address; ENOMEM; and those of
 * ibv_attach_mcast().
 * Man: rdma_join_multicast(3).
 */
int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context);

/*
 * Leaves a multicast group, and detaches the id's QP.
 * Errors: EADDRNOTAVAIL: the id has not joined it.
 * Man: rdma_leave_multicast(3).
 */
int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);

/*
 * Joins a multicast group, as rdma_join_multicast() does; with
 * RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER only to send to it.
 * Errors: EINVAL: no addr, an unknown bit in comp_mask or flag, the id has no device, or addr is no
 * multicast address; ENOMEM; and those of ibv_attach_mcast().
 * Man: rdma_join_multicast_ex(3).
 */
int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr,
			   void *context);

/* ---- devices ---- */

/*
 * Lists all devices, opened, with a NULL behind the last; their number goes to *num_devices unless
 * that is NULL. They are those of the ids: PDs and CQs for rdma_create_qp() are made on these. They
 * stay open.
 * Returns the array, or NULL with errno set.
 * Errors: ENODEV: there is no device, or none could be opened; ENOMEM.
 * Threads: any thread, at any time.
 * Man: rdma_get_devices(3).
 */
struct ibv_context **rdma_get_devices(int *num_devices);

/*
 * Frees that array. The devices stay open.
 * Errors: None.
 * Threads: any thread, at any time.
 * Man: rdma_free_devices(3).
 */
void rdma_free_devices(struct ibv_context **list);

/* ---- options ---- */

enum { RDMA_OPTION_ID = 0, RDMA_OPTION_IB = 1 };

enum {
	RDMA_OPTION_ID_TOS = 0,		/* uint8_t: of all packets */
	RDMA_OPTION_ID_REUSEADDR = 1,	/* int: bind to a port that is bound already */
	RDMA_OPTION_ID_AFONLY = 2,	/* int: an IPv6 listener takes no IPv4 */
	RDMA_OPTION_ID_ACK_TIMEOUT = 3, /* uint8_t: of the QP, 4.096 us x 2^n, below 32 */
};

enum { RDMA_OPTION_IB_PATH = 1 /* struct ibv_path_data[] */ };

/*
 * Sets an option of an id: those of RDMA_OPTION_ID before it is bound or resolved,
 * RDMA_OPTION_IB_PATH instead of rdma_resolve_route(). Event of the latter: ROUTE_RESOLVED.
 * Errors: ENOSYS: no such level or option; EINVAL: optval is NULL, a length that is not the
 * option's, an ack timeout above 31, or a path before the address is resolved.
 * Man: rdma_set_option(3).
 */
int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen);

/* ---- names ---- */

#define RAI_PASSIVE	0x00000001 /* for a listener */
#define RAI_NUMERICHOST 0x00000002 /* no look-up of names */
#define RAI_NOROUTE	0x00000004 /* no look-up of the route */
#define RAI_FAMILY	0x00000008 /* ai_family says how to read `node` */
#define RAI_SA		0x00000010 /* rdma_resolve_addrinfo(): ask the subnet's administration */
#define RAI_DNS		0x00000020 /* rdma_resolve_addrinfo(): ask the name service */

struct rdma_addrinfo {
	int ai_flags; /* RAI_* */
	int ai_family;
	int ai_qp_type;
	int ai_port_space;
	socklen_t ai_src_len;
	socklen_t ai_dst_len;
	struct sockaddr *ai_src_addr;
	struct sockaddr *ai_dst_addr;
	char *ai_src_canonname;
	char *ai_dst_canonname;
	size_t ai_route_len;
	void *ai_route;
	size_t ai_connect_len;
	void *ai_connect;
	struct rdma_addrinfo *ai_next;
};

/*
 * Looks a name and service up, as getaddrinfo() does for sockets: the address is ai_dst_addr, or
 * with RAI_PASSIVE ai_src_addr. `hints` may say QP type, port space, family and the other address.
 * At least one of node, service and hints is not NULL. There is one entry; rdma_freeaddrinfo()
 * frees it.
 * Returns 0, an EAI_ code of getaddrinfo(), or -1 with errno set.
 * Errors: EINVAL: all three are NULL; EAI_FAMILY: the family AF_IB, but not a GID with
 * RAI_NUMERICHOST and RAI_FAMILY; EAI_MEMORY: no memory.
 * Threads: any thread, at any time.
 * Man: rdma_getaddrinfo(3).
 */
int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res);

/*
 * Frees what rdma_getaddrinfo() or rdma_query_addrinfo() gave. NULL is nothing to do.
 * Errors: None.
 * Threads: any thread, at any time.
 * Man: rdma_getaddrinfo(3).
 */
void rdma_freeaddrinfo(struct rdma_addrinfo *res);

/*
 * Looks a name and service up as rdma_getaddrinfo() does, for an id. Names are looked up in the
 * call. Event: ADDRINFO_RESOLVED, after which rdma_query_addrinfo() gives the result, or
 * ADDRINFO_ERROR.
 * Errors: EINVAL: node, service and hints are NULL; for a synchronous id EADDRNOTAVAIL: there is no
 * such name.
 * Man: rdma_resolve_addrinfo(3).
 */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);

/*
 * Gives what rdma_resolve_addrinfo() found, as a copy for rdma_freeaddrinfo().
 * Errors: ENODATA: nothing was found, or asked for; EINVAL: info is NULL; ENOMEM.
 * Man: rdma_resolve_addrinfo(3).
 */
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);

/*
 * Makes a synchronous id from what rdma_getaddrinfo() found. With RAI_PASSIVE it is bound, and
 * rdma_get_request() gives each request a QP of these attributes; else it is resolved, and gets its
 * QP at once. Without attributes there is no QP.
 * Errors: EADDRINUSE: the port is taken on this host; and those of rdma_create_id(),
 * rdma_bind_addr(), rdma_resolve_addr() and rdma_create_qp().
 * Man: rdma_create_ep(3).
 */
int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *qp_init_attr);

/*
 * Destroys an id with its QP and SRQ.
 * Errors: None.
 * Man: rdma_destroy_ep(3).
 */
void rdma_destroy_ep(struct rdma_cm_id *id);

#ifdef __cplusplus
}
#endif

#endif
