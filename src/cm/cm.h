/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager: both ends of the exchanges of 12.9, for connections (REQ REP RTU, DREQ
 * DREP) and for looking up datagram services (SIDR_REQ SIDR_REP). Sans-IO: messages and the time
 * (ns, monotonic) come in, messages, events and a deadline go out.
 *
 *	active:  cm_create() cm_connect() -> REP: cm_establish()        -> DISCONNECTED
 *	passive: REQ (a new id): cm_accept() -> RTU; or cm_reject()     -> DISCONNECTED
 *	both:    cm_disconnect(), and in the end cm_release()
 *
 * A connection ends as well when its peer's process is found dead: the caller says so where it can
 * (cm_peer_died()), and from other hosts an answer to a probe is asked for every two seconds.
 *
 * Lost messages are sent again, duplicates are answered again, and each event is told once. Nobody
 * here knows listeners: each REQ is told, and whoever is told rejects what nobody listens for.
 *
 * One lock, the caller's, around all calls; the callbacks are called inside them, and may call back
 * in.
 */
#ifndef CM_CM_H
#define CM_CM_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <urcu/list.h>

#include "base/timer.h"
#include "wire/mad.h"

struct cm;
struct cm_id;

enum cm_limits {
	CM_TRIES = 15,
	CM_DREQ_TRIES = 8,
	CM_MAX_IDS = 1 << 16,
	CM_CROWDED = CM_MAX_IDS / 2, /* beyond it rejections are not remembered */
	CM_ID_SLOT_SHIFT = 24,	     /* a communication id's high bits: the process it belongs to */
	CM_RESPONSE_TIMEOUT = 20,    /* as messages tell it: 4.096 us x 2^n */
	CM_MRA_TIMEOUT = 22,
	CM_BUCKETS = 4096,
	CM_PEER_BUCKETS = 64,
	CM_REFUSALS = 4,	   /* by a host where nobody listens yet, before it is told */
	CM_PROBES_UNANSWERED = 20, /* and the peer is dead */
};

/* Where messages go and come from. `sgid` is ours, whoever sends. */
struct cm_path {
	union ibv_gid sgid, dgid;
	uint32_t flow_label;
	uint8_t traffic_class, hop_limit;
	bool is_here; /* both ends are on this host */
	void *port;   /* the caller's own: which device */
};

enum cm_event_type {
	CM_EVENT_REQ,	       /* passive: `id` is new, its `user` is to be set */
	CM_EVENT_REP,	       /* active: cm_establish() or cm_reject() is due */
	CM_EVENT_RTU,	       /* passive: established */
	CM_EVENT_REJ,	       /* mad->rej says why */
	CM_EVENT_UNREACHABLE,  /* nobody answered */
	CM_EVENT_DISCONNECTED, /* no mad when it was we who disconnected and nobody answered */
	CM_EVENT_TIMEWAIT_EXIT,
	CM_EVENT_SIDR_REQ, /* passive: new id; cm_sidr_reply() is due */
	CM_EVENT_SIDR_REP,
};

struct cm_event {
	enum cm_event_type type;
	const struct cm_mad *mad; /* valid during the call; NULL if it was the time that passed */
};

struct cm_host {
	void (*send)(struct cm *cm, const struct cm_path *path, const uint8_t *mad);
	/* Nothing of the id is touched after this call, so that it may be released in it. */
	void (*event)(struct cm *cm, struct cm_id *id, const struct cm_event *event);
	uint32_t (*random)(struct cm *cm);
	/* Connections with that process of this host begin: cm_peer_died() is due when it dies, or
	 * after this call if it is dead. */
	void (*watch)(struct cm *cm, uint32_t slot);
};

enum cm_state {
	CM_IDLE,
	CM_REQ_SENT,
	CM_REQ_RCVD,
	CM_REP_SENT,
	CM_REP_RCVD,
	CM_ESTABLISHED,
	CM_DREQ_SENT,
	CM_DREQ_RCVD, /* cm_disconnect() answers; the peer waits for it */
	CM_TIMEWAIT,  /* closed; answers duplicates */
	CM_SIDR_SENT,
	CM_SIDR_RCVD,
	CM_CLOSED,
};

/* "REQ_SENT" */
const char *cm_state_name(enum cm_state state);

/* The process at the other end of connections. */
struct cm_peer {
	struct cm_peer *next; /* of its bucket */
	union ibv_gid gid;
	uint32_t slot; /* as far as its ids say */
	bool is_here, answers, is_mute;
	unsigned int unanswered;  /* probes */
	struct cds_list_head ids; /* established; the next that is asked for first */
	uint64_t deadline;
	struct timer timer;
};

struct cm_id {
	void *user; /* the caller's */
	enum cm_state state;
	bool is_passive, is_released, tells_exit, sent_mra;
	bool is_confirmed; /* the peer took our REP, so its REQ does not come again */
	uint8_t refusals;
	uint32_t local, remote; /* communication ids */
	uint32_t local_qpn, remote_qpn;
	uint64_t service_id, transaction;
	struct cm_path path;

	/* the message that is sent until it is answered, or that answers duplicates */
	uint8_t mad[MAD_BYTES];
	unsigned int tries;
	uint64_t interval, deadline;
	struct timer timer;
	struct cm_id *next_by_id, *next_by_qpn; /* of their buckets */
	bool is_by_id, is_by_qpn;
	struct cm_peer *peer; /* while established */
	struct cds_list_head of_peer;
};

/* Messages in and out, and what became of them. */
struct cm_counters {
	uint64_t sent, received, resent, duplicates, malformed, unknown, stale, refused, forgotten,
	    probes, dead;
};

struct cm {
	const struct cm_host *host;
	void *data; /* the host's */
	uint32_t slot;
	struct cm_id **ids; /* by the low bits of a communication id */
	uint32_t capacity, count, cursor;
	struct timer_queue timers, peer_timers;
	struct cm_peer *peers[CM_PEER_BUCKETS];
	uint32_t peer_count;
	struct cm_id *by_id[CM_BUCKETS], *by_qpn[CM_BUCKETS];
	struct cm_counters counters;
};

void cm_init(struct cm *cm, uint32_t slot, const struct cm_host *host, void *data);
/* Frees all ids; sends nothing. */
void cm_fini(struct cm *cm);

/* For the active side. NULL: no memory, or CM_MAX_IDS are there. */
struct cm_id *cm_create(struct cm *cm, const struct cm_path *path, void *user);

/* `mad` has the attribute's part and private data; ids and retries are filled in. 0 or -EINVAL in
 * the wrong state. */
int cm_connect(struct cm *cm, struct cm_id *id, struct cm_mad *mad, uint64_t now);
int cm_accept(struct cm *cm, struct cm_id *id, struct cm_mad *mad, uint64_t now);
int cm_establish(struct cm *cm, struct cm_id *id, uint64_t now);
int cm_reject(struct cm *cm, struct cm_id *id, uint16_t reason, const void *data, size_t length,
	      uint64_t now);
/* 1: the peer had disconnected, and is answered; no event follows. */
int cm_disconnect(struct cm *cm, struct cm_id *id, uint64_t now);
int cm_sidr_request(struct cm *cm, struct cm_id *id, struct cm_mad *mad, uint64_t now);
int cm_sidr_reply(struct cm *cm, struct cm_id *id, struct cm_mad *mad, uint64_t now);

/* Of a request that nobody here wants, during its event: answered and gone, without a memory of it.
 * The same request is told anew if it comes again. */
void cm_refuse(struct cm *cm, struct cm_id *id, uint16_t reason);
/* Gone without an answer: it will come again. */
void cm_forget(struct cm *cm, struct cm_id *id);

/* The passive side learnt by a packet on the QP that the connection is there (IBV_EVENT_COMM_EST).
 */
int cm_notify_established(struct cm *cm, struct cm_id *id, uint64_t now);

/* The caller is through with it: no more events. What the peer is still owed is sent. */
void cm_release(struct cm *cm, struct cm_id *id, uint64_t now);

/* The process ends: all that is left is released, and what other hosts may have missed is said once
 * more, since nobody will be there to answer. */
void cm_farewell(struct cm *cm, uint64_t now);

void cm_receive(struct cm *cm, const struct cm_path *path, const uint8_t *bytes, size_t length,
		uint64_t now);

/* That process of this host is no more. */
void cm_peer_died(struct cm *cm, uint32_t slot, uint64_t now);

/* What is due; the next deadline is cm_deadline(), UINT64_MAX for none. */
void cm_run(struct cm *cm, uint64_t now);
uint64_t cm_deadline(const struct cm *cm);

/* Without any manager: the answer to a message that no process of the host takes. False: none. */
bool cm_answer_for_nobody(const struct cm_mad *to, struct cm_mad *answer);

#endif
