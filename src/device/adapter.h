/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One software RDMA adapter: a port with its addresses, and the tables in which packets and work
 * requests find QPs and regions. Sans-IO: what it needs of its surroundings (a lane to run on,
 * somewhere to tell events) it asks of its host, which is the engine in a program and the harness
 * in the simulation.
 */
#ifndef DEVICE_ADAPTER_H
#define DEVICE_ADAPTER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include <urcu/list.h>

#include "base/depot.h"
#include "base/pool.h"
#include "base/table.h"
#include "device/flow.h"
#include "device/limits.h"
#include "device/mcast.h"
#include "device/mr_memo.h"
#include "device/port.h"

struct adapter;
struct cq;
struct mr;
struct packet;
struct qp;
struct reach_op;
struct xrcd_file;

enum reach_result {
	REACH_REFUSED, /* it can't, for whatever reason, and may have done some of it */
	REACH_DONE,
	REACH_LATER, /* somebody is at it: ask again in a moment */
};

enum { ADAPTER_FRAME_ROOM = 65536 + 256 };

struct adapter_host {
	/*
	 * The QP has something to do: work requests were posted, an ACK is owed, it went to the
	 * error state. The host calls transport_run() for it soon, under its lane's lock. Any
	 * thread, any number of times.
	 */
	void (*schedule)(struct adapter *adapter, struct qp *qp);

	/* An armed CQ got the completion that it waited for. Called with no lock of the CQ held. */
	void (*cq_event)(struct cq *cq);

	/* An asynchronous event; element is filled in. Called with the lane's lock held at most. */
	void (*async_event)(struct adapter *adapter, const struct ibv_async_event *event);

	/* 32 random bits, for keys and first PSNs. */
	uint32_t (*random)(struct adapter *adapter);

	/*
	 * Which lane a new QP is to be on, of how many, a power of two: the low bits of its number.
	 * Under the adapter's lock. NULL: there is one lane.
	 */
	uint32_t (*choose_lane)(struct adapter *adapter, const struct qp *qp, uint32_t *lanes);

	/*
	 * Returns once no lane can still use a pointer that it looked up before the call. The
	 * caller holds no lane's lock. NULL where there is one thread.
	 */
	void (*quiesce)(struct adapter *adapter);

	/*
	 * Whether the peer of a reliable QP, which does not answer, was of a process of this host
	 * that has ended, so that nobody ever will. Under the lane's lock. NULL: not known.
	 */
	bool (*is_peer_gone)(struct adapter *adapter, const struct qp *qp);

	/* Of raw packet QPs, under the lane's lock: room for an Ethernet frame, ADAPTER_FRAME_ROOM
	 * bytes, and what sends one: 0, -EAGAIN when busy, or -errno. Both or none (NULL). */
	uint8_t *(*frame_room)(struct qp *qp);
	int (*send_frame)(struct adapter *adapter, const void *frame, size_t length);

	/*
	 * All five or none (NULL): what QPs of this host may do to each other's memory without the
	 * packets that it would take. Published are regions and, under the lane's lock, connected
	 * QPs with what may be done through them; false if the host has no place for it. What is
	 * withdrawn may still be in use until a quiesce().
	 */
	bool (*publish_mr)(struct adapter *adapter, const struct mr *mr);
	void (*withdraw_mr)(struct adapter *adapter, const struct mr *mr);
	bool (*publish_qp)(struct adapter *adapter, const struct qp *qp, unsigned int access);
	void (*withdraw_qp)(struct adapter *adapter, const struct qp *qp);

	/*
	 * All five or none (NULL): XRC domains are shared with other processes. Between lock and
	 * unlock nobody of the host opens the domain of this file: 0 or a positive errno (noted),
	 * with what unlock wants. is_shared: whether another process has it open; share makes ours
	 * seen there, and gives what unshare wants, or -1.
	 */
	int (*lock_domain)(struct adapter *adapter, const struct xrcd_file *file, int *lock);
	void (*unlock_domain)(struct adapter *adapter, int lock);
	bool (*is_domain_shared)(struct adapter *adapter, const struct xrcd_file *file);
	int (*share_domain)(struct adapter *adapter, const struct xrcd_file *file);
	void (*unshare_domain)(struct adapter *adapter, int share);

	/* A packet to an XRC_RECV QP that names this SRQ: true if it goes to another process, or
	 * waits behind one that does. Under the lane's lock. NULL: never. */
	bool (*pass_on)(struct qp *qp, const struct packet *packet, uint32_t srqn);

	/* Whether its peer, of a QP in RTR or RTS, is on this host. No lock is held. */
	bool (*is_near)(struct qp *qp);

	/* Does a part of a WRITE or READ to the QP's peer (transport/reach.h). Under the lane's
	 * lock. */
	enum reach_result (*reach)(struct qp *qp, const struct reach_op *op);

	/* Both or none (NULL), under the lane's lock: of packets of this host the next one behind
	 * that which is being received, from 0, if it is there; and that the QP asks no more for
	 * what reach() has begun or done. As far as nobody is stopped in it, that is over then. */
	const uint8_t *(*behind)(struct qp *qp, uint32_t next, size_t *length);
	void (*forget_reach)(struct qp *qp);

	/* Whether that may be done at all, for what is known of the peer. Under the lane's lock. */
	bool (*is_reached)(const struct qp *qp);

	/* The time of now (ns), where a verb's way has none. NULL: nothing is timed there. */
	uint64_t (*time)(const struct adapter *adapter);

	/* The QP's peer, if it is of this process and its lane's lock is to be had at once: with
	 * that, until leave_peer(). Else NULL. Under the QP's lane's lock. */
	struct qp *(*enter_peer)(struct qp *qp);
	void (*leave_peer)(struct qp *qp, struct qp *peer);
};

enum { ADOPTED_MAX = 256, RECENT_QPS = 256, ADAPTER_POOL = 32 << 20 };

struct adapter {
	char name[IBV_SYSFS_NAME_MAX];
	uint64_t node_guid; /* network order */
	uint32_t slot;	    /* of this process, the high bits of its QP numbers */
	const struct adapter_host *host;
	void *host_data; /* the host's own */

	struct table qps;			   /* by the low 16 bits of the QP number */
	_Atomic(struct qp *) adopted[ADOPTED_MAX]; /* QPs with numbers of other slots */
	atomic_uint adopted_count;
	atomic_ulong qp_changes; /* see qp_changed() */
	struct table mrs;	 /* by the index part of a key, see mr.h */
	atomic_ulong mr_changes; /* regions that ended or changed */
	struct mr_memos mr_memos[MAX_LANES];
	struct table mws; /* the same, see mw.h */
	struct table srqs;
	struct port port;
	struct mcast mcast;
	struct flow_table flows;

	pthread_mutex_t lock;	      /* of creation and destruction, never on a packet's way */
	struct cds_list_head domains; /* of XRC; under the lock */
	uint32_t recent_qps[RECENT_QPS], recent_qp; /* places in `qps`; under the lock */
	atomic_uint pd_count, cq_count, ah_count, mcast_count, comp_cntr_count;
	atomic_ulong dm_bytes;	  /* device memory in use */
	atomic_ulong held_bytes;  /* packets that came before their turn (transport/hold.h) */
	struct depot depot;	  /* of its QPs */
	struct pool pool;	  /* for what comes up on a packet's way: no malloc() there */
	atomic_uint socket_bytes; /* what a socket holds that receives; relaxed; 0: not known */
	atomic_uint last_handle;  /* of the objects' `handle`, which names them in messages */

	/* packets dropped before they found a QP, and what devices count; relaxed */
	atomic_ulong bad_packets, bad_pkey, bad_qkey, no_qp;
};

/*
 * `slot` < QPN_SLOTS. The port is down and has no addresses until the host sets them (port.h). 0 or
 * -ENOMEM.
 */
int adapter_init(struct adapter *adapter, const char *name, uint64_t guid, uint32_t slot,
		 const struct adapter_host *host, void *host_data);

/* Every object of the adapter must be gone. */
void adapter_fini(struct adapter *adapter);

/* What ibv_query_device_ex() tells of it. */
void adapter_describe(const struct adapter *adapter, struct ibv_device_attr_ex *attr);

/* The QP of a number that is ours, NULL if there is none. Valid while the lane's lock is held. */
struct qp *adapter_find_qp(struct adapter *adapter, uint32_t qpn);

/* Asks for the memory that it will look at. */
void adapter_fetch_qp(const struct adapter *adapter, uint32_t qpn);

/* A QP that another process created, and that is in ours from now on; found by its number, which is
 * of the other's slot, until qp_unlist(). 0 or -ENOSPC. */
int adapter_adopt_qp(struct adapter *adapter, struct qp *qp);
void adapter_disown_qp(struct adapter *adapter, const struct qp *qp);

#endif
