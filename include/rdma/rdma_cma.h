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
 * All calls return 0, or -1 with errno set, unless it says otherwise. Different ids may be used by
 * different threads at once; one id must not. Man: rdma_cm(7).
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

/* NULL and errno if there is none. Man: rdma_create_event_channel(3). */
struct rdma_event_channel *rdma_create_event_channel(void);
/* Its ids must be gone, its events acknowledged. Man: rdma_destroy_event_channel(3). */
void rdma_destroy_event_channel(struct rdma_event_channel *channel);

/* The oldest event; waits for one unless the descriptor is O_NONBLOCK (then EAGAIN). Man:
 * rdma_get_cm_event(3). */
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
/* Frees it: its private data with it. rdma_destroy_id() waits for this. Man: rdma_ack_cm_event(3).
 */
int rdma_ack_cm_event(struct rdma_cm_event *event);
/* Puts an event of the program's own on the id's channel; RDMA_CM_EVENT_USER alone. Man:
 * rdma_write_cm_event(3). */
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);
/* "RDMA_CM_EVENT_ADDR_RESOLVED" and so on. Man: rdma_event_str(3). */
const char *rdma_event_str(enum rdma_cm_event_type event);

/* ---- ids: making, binding, resolving ---- */

/* With channel NULL the id is synchronous. Man: rdma_create_id(3). */
int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps);
/* Leaves its groups, drops its events; waits for those that were taken and not acknowledged. Its QP
 * must be gone. Man: rdma_destroy_id(3). */
int rdma_destroy_id(struct rdma_cm_id *id);

/* A local address and port: any address for all devices, port 0 for a free one. EADDRINUSE,
 * EADDRNOTAVAIL. Man: rdma_bind_addr(3). */
int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
/* Finds the device that reaches dst_addr, and binds the id to it. Event: ADDR_RESOLVED or
 * ADDR_ERROR. Man: rdma_resolve_addr(3). */
int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
		      int timeout_ms);
/* Then the path there. Event: ROUTE_RESOLVED or ROUTE_ERROR. Man: rdma_resolve_route(3). */
int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms);

/* Moves an id, with its events, to another channel; waits until those taken are acknowledged. NULL
 * makes it synchronous. Man: rdma_migrate_id(3). */
int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);

__be16 rdma_get_src_port(struct rdma_cm_id *id);
__be16 rdma_get_dst_port(struct rdma_cm_id *id);

static inline struct sockaddr *rdma_get_local_addr(struct rdma_cm_id *id)
{
	return &id->route.addr.src_addr;
}

static inline struct sockaddr *rdma_get_peer_addr(struct rdma_cm_id *id)
{
	return &id->route.addr.dst_addr;
}

/* ---- queue pairs ---- */

/* A QP for the id, which then drives its states. pd NULL: the device's default one. CQs that are
 * missing are made, with channels. Man: rdma_create_qp(3). */
int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr);
int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr);
void rdma_destroy_qp(struct rdma_cm_id *id);

/* For programs that drive a QP's states themselves: the attributes for the state asked for in
 * qp_attr->qp_state. Man: rdma_init_qp_attr(3). */
int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask);

/* Enhanced connection establishment, for QPs not made here. Man: rdma_set_local_ece(3). */
int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece);
int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece);

/* ---- connections ---- */

/* Event: ESTABLISHED (CONNECT_RESPONSE where the id has no QP), REJECTED, UNREACHABLE or
 * CONNECT_ERROR. Man: rdma_connect(3). */
int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);
/* The client's last word where it drives its QP itself. Man: rdma_establish(3). */
int rdma_establish(struct rdma_cm_id *id);
/* Man: rdma_listen(3). */
int rdma_listen(struct rdma_cm_id *id, int backlog);
/* Of a synchronous listener: waits for a request. Man: rdma_get_request(3). */
int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id);
/* Answers a request. Event: ESTABLISHED. Man: rdma_accept(3). */
int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);
/* At most 148 bytes of private data, 136 for datagrams. Man: rdma_reject(3). */
int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
/* The same because the ECE options do not suit. */
int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
/* Tells of an event that came on the QP before the connection was there: IBV_EVENT_COMM_EST. Man:
 * rdma_notify(3). */
int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event);
/* The QP goes to the error state. Event, at both ends: DISCONNECTED. Man: rdma_disconnect(3). */
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

/* Joins, and attaches the QP. Event: MULTICAST_JOIN or MULTICAST_ERROR, with `context` as its
 * param.ud.private_data. Man: rdma_join_multicast(3). */
int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context);
int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);
int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr,
			   void *context);

/* ---- devices ---- */

/* All, opened, with a NULL behind the last; they stay open. Man: rdma_get_devices(3). */
struct ibv_context **rdma_get_devices(int *num_devices);
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

/* Man: rdma_set_option(3). */
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

/* What getaddrinfo() is to sockets: 0, an EAI_* code, or -1 and errno. Man: rdma_getaddrinfo(3). */
int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res);
void rdma_freeaddrinfo(struct rdma_addrinfo *res);

/* The same with an event, ADDRINFO_RESOLVED or ADDRINFO_ERROR, and its result afterwards. Man:
 * rdma_resolve_addrinfo(3). */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);

/* An id for what rdma_getaddrinfo() found, synchronous, with a QP if attributes are given. Man:
 * rdma_create_ep(3). */
int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *qp_init_attr);
void rdma_destroy_ep(struct rdma_cm_id *id);

#ifdef __cplusplus
}
#endif

#endif
