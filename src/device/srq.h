/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive queues: a ring of receive work requests, which a QP has of its own or shares (SRQ).
 */
#ifndef DEVICE_SRQ_H
#define DEVICE_SRQ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "base/spin.h"
#include "device/tag.h"

struct depot;
struct adapter;
struct cq;
struct pd;
struct xrcd;

struct recv_wqe {
	uint64_t wr_id;
	uint64_t length; /* of all elements together */
	uint32_t num_sge;
	struct ibv_sge sge[]; /* max_sge of the queue */
};

/* The bytes of one that has one element. */
enum { RECV_WQE_SINGLE = sizeof(struct recv_wqe) + sizeof(struct ibv_sge) };

/* Into room for as many elements. */
static inline void recv_wqe_copy(struct recv_wqe *to, const struct recv_wqe *from)
{
	memcpy(to, from, sizeof(*from) + from->num_sge * sizeof(from->sge[0]));
}

struct recv_queue {
	struct pd *pd; /* whose allocators its memory is from, and as what */
	uint64_t type;
	struct spin lock; /* guards all below */
	char *ring;
	uint16_t stride; /* bytes from one WQE to the next */
	uint16_t max_sge;
	uint32_t max_wr;
	atomic_uint head; /* next that the responder takes; free-running. Of a QP's own queue it is
			     the lane's lock that guards it */
	atomic_uint tail; /* next to post; free-running */
};

/* max_wr is rounded up to a power of two. 0 or -ENOMEM. */
int recv_queue_init(struct recv_queue *queue, struct pd *pd, struct depot *depot, uint64_t type,
		    uint32_t max_wr, uint32_t max_sge);
void recv_queue_fini(struct recv_queue *queue, struct depot *depot);

/*
 * Posts a list; on a bad one stops there, with *bad set to it and a positive errno (noted); those
 * before it are posted.
 */
int recv_queue_post(struct recv_queue *queue, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* A ring of another size, keeping what is in it. 0, or a positive errno (noted): EINVAL when it
 * holds more. */
int recv_queue_resize(struct recv_queue *queue, uint32_t max_wr);

/* Forgets what is posted: the QP was reset. */
void recv_queue_clear(struct recv_queue *queue);

/*
 * A QP's own queue without the lock, for who holds its lane's: the oldest where it stands, NULL
 * when there is none; and then, that it is taken.
 */
const struct recv_wqe *recv_queue_first(const struct recv_queue *queue);
void recv_queue_drop(struct recv_queue *queue);

/* The same of several: how many there are, one of those, and that the first `count` are taken. */
uint32_t recv_queue_count(const struct recv_queue *queue);
const struct recv_wqe *recv_queue_at(const struct recv_queue *queue, uint32_t index);
void recv_queue_pass(struct recv_queue *queue, uint32_t count);

/* Takes the oldest into `wqe` (room for MAX_SGE elements). 0, or -ENOENT when empty. */
int recv_queue_take(struct recv_queue *queue, struct recv_wqe *wqe);

struct srq {
	struct ibv_srq ibv; /* first */
	struct adapter *adapter;
	struct pd *pd;
	enum ibv_srq_type type;
	struct cq *cq;	      /* XRC, TM: where messages complete */
	struct xrcd *xrcd;    /* XRC */
	struct tag_list tags; /* TM */
	struct recv_queue queue;
	uint32_t limit; /* under queue.lock: below it, IBV_EVENT_SRQ_LIMIT_REACHED once */
	uint32_t number;
	atomic_uint users;
	void *face; /* the verbs layer's own: async events outstanding */
};

static inline struct srq *srq_of(struct ibv_srq *ibv)
{
	return (struct srq *)ibv;
}

int srq_create(struct pd *pd, struct ibv_srq_init_attr *attr,
	       struct srq **srq); /* attr gets what it got */

/* Of every type. What the type needs has to be there: XRC an XRCD and a CQ. */
int srq_create_ex(struct pd *pd, struct ibv_srq_init_attr_ex *attr, struct srq **srq);

/* The number by which XRC requests name it, the process's slot included. */
uint32_t srq_wire_number(const struct srq *srq);

int srq_destroy(struct srq *srq);	   /* EBUSY while it has users */
int srq_check_idle(const struct srq *srq); /* that refusal alone */
int srq_modify(struct srq *srq, const struct ibv_srq_attr *attr, int mask);
int srq_query(struct srq *srq, struct ibv_srq_attr *attr);

/* As recv_queue_take(), and raises the limit event. */
int srq_take(struct srq *srq, struct recv_wqe *wqe);

/* The same of one that has one element, for which there is room. -ENOENT, too, if the oldest is
 * none such, which stays. */
int srq_take_single(struct srq *srq, struct recv_wqe *wqe);

#endif
