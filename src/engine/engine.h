/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine: what runs. One a process, made when the first device is opened, ended with the last
 * or at exit.
 *
 * It finds the network interfaces (netdev), takes a slot on the host (slot), joins the group of
 * sockets of each address (group), and drives QPs on lanes (lane): whoever holds a lane's lock
 * makes progress, a thread of the lane's own or the program's inside a verb. Everything here may be
 * called from any thread; none of it with a lane's lock held.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "device/adapter.h"
#include "device/cq.h"
#include "device/qp.h"
#include "link/udp.h"

/* A network interface that carries a device: up, with an address. */
struct device_info {
	char name[IBV_SYSFS_NAME_MAX]; /* rxe0, or as VERBATIM_DEVICES=name=interface,... says */
	char dev_name[IBV_SYSFS_NAME_MAX]; /* uverbs0 */
	char netdev[16];
	uint32_t ifindex;
	uint64_t guid; /* network order, EUI-64 of the MAC */
	uint32_t mtu;
	bool is_up; /* carrier */
};

/*
 * Lists the devices: real interfaces by index, loopback last. Allocates; free(). The number or
 * -errno; 0 devices is not an error, but notes the reason (no interface is up, none has an
 * address). Does not start the engine.
 */
int engine_list_devices(struct device_info **devices);

/* What the face wants told. Set once, before the first open. */
struct engine_face {
	void (*cq_event)(struct cq *cq);
	void (*async_event)(struct adapter *adapter, const struct ibv_async_event *event);
	/*
	 * Another process opens an XRC_RECV QP, and has it open until leave_qp(), which ends the QP
	 * if nobody else has. False if it is about to go. The first is called with the lane's lock.
	 */
	bool (*visit_qp)(struct qp *qp);
	void (*leave_qp)(struct qp *qp);
};
void engine_set_face(const struct engine_face *face);

/*
 * Opens a device: the same adapter for all who open the same one, with a count. Starts the engine
 * with the first. 0 or a positive errno (noted): EADDRINUSE when port 4791 of its addresses belongs
 * to someone else, with who it is.
 */
int engine_open(const struct device_info *device, struct adapter **adapter);
void engine_close(struct adapter *adapter);

/*
 * For those who show an adapter from outside: calls `look` with the device of that name, the
 * engine's lock held. False if this process has not opened it.
 */
bool engine_look(const char *name, void (*look)(struct adapter *adapter, void *data), void *data);

/* What this process has sent and received so far, over all its lanes and devices; zeros when it has
 * none open. */
void engine_link_counters(struct udp_counters *counters);

/* transport_*_qp() with a lane chosen, locked and told. 0 or a positive errno. */
int engine_create_qp(struct pd *pd, struct ibv_qp_init_attr_ex *attr, struct qp **qp);
int engine_modify_qp(struct qp *qp, const struct ibv_qp_attr *attr, int mask);
int engine_query_qp(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);
int engine_destroy_qp(struct qp *qp);

/*
 * An XRC_RECV QP of another process: one that stands for it, which the calls above take as well.
 * EINVAL (noted) if there is none of that number in the domain.
 */
struct xrc_domain;
int engine_open_qp(struct adapter *adapter, struct xrc_domain *domain, uint32_t number,
		   struct qp **qp);
/* From now on its events are told: who hears of them is in place. */
void engine_follow_qp(struct qp *qp);

struct comp_cntr;

/* comp_cntr_attach() and qp_limit_rate(), on the QP's lane. */
int engine_attach_comp_cntr(struct qp *qp, struct comp_cntr *cntr,
			    const struct ibv_qp_attach_comp_cntr_attr *attr);
int engine_limit_rate(struct qp *qp, const struct ibv_qp_rate_limit_attr *attr);

/* UD multicast: membership of the group on the QP's lane as well. */
int engine_attach_mcast(struct qp *qp, const union ibv_gid *group);
int engine_detach_mcast(struct qp *qp, const union ibv_gid *group);

/*
 * After ibv_post_send(): work was posted. Makes progress at once if the lane is free, else leaves a
 * flag for whoever holds it. Cheap when called for a QP already scheduled.
 */
void engine_doorbell(struct qp *qp);

/*
 * The express path of ibv_post_send(): what is left of the list for the general one, NULL if
 * nothing is. *needs_doorbell: engine_doorbell() has to follow. No system call is made.
 */
struct ibv_send_wr *engine_post(struct qp *qp, struct ibv_send_wr *wr, bool *needs_doorbell);

/* And of ibv_poll_cq(): false if there is more to do, for engine_poll(). */
bool engine_glance(struct cq *cq, struct cq_taking *taking);

/*
 * A poll found its CQ empty: makes progress on the lanes of its QPs, without ever blocking or
 * waiting. True if something happened, so that looking again is worth it.
 */
bool engine_poll(struct cq *cq);

/*
 * This thread was told of a completion. What its peer had sent before is to be there as well, on
 * whichever QP: the next poll that finds its CQ empty waits for who is just taking it in.
 */
void engine_was_told(void);

/* QPs of any lane may complete here: that of an XRC SRQ. */
void engine_tie_cq(struct cq *cq);

/* The program is about to sleep on CQs of these lanes (a bit mask): the lanes' own threads take
 * over now. */
void engine_will_sleep(struct adapter *adapter, unsigned int lanes);

/* It is not yet, but would if nothing comes: one look, as that of a poll. */
void engine_look_out(struct adapter *adapter, unsigned int lanes);

/*
 * Management: MADs of 256 bytes to and from QP 1. They come in by mail (engine/slot.h): a request
 * to whoever bound its service's name, all else to the manager of the slot in the communication
 * id's high bits. 0 or a positive errno; EAGAIN: a mailbox of this host is full, try again soon.
 */
uint32_t engine_slot(const struct adapter *adapter);
int engine_send_mad(struct adapter *adapter, const struct av *av, const uint8_t *mad);

/* Of what this process took in at QP 1 of its addresses. */
struct gsi_counters {
	uint64_t received;
	uint64_t malformed; /* no message of a connection manager */
	uint64_t unclaimed; /* for nobody of this host: answered on the spot */
	uint64_t dropped;   /* whom it was for had no room */
};
void engine_gsi_counters(const struct adapter *adapter, struct gsi_counters *counters);

/* The Ethernet address of a peer and our VLAN, 0xffff for none. 0 or a positive errno (noted). */
int engine_resolve_mac(struct adapter *adapter, const union ibv_gid *gid, uint8_t mac[6],
		       uint16_t *vlan);

/* Coarse monotonic time of the lanes, ns: what completions are stamped with. */
uint64_t engine_now(void);

#endif
