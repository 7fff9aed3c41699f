/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive work queues, and the tables by which raw packet QPs spread what they receive over them
 * (receive side scaling).
 */
#ifndef DEVICE_WQ_H
#define DEVICE_WQ_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "device/srq.h"

struct adapter;
struct cq;
struct pd;

struct wq {
	struct ibv_wq ibv; /* first */
	struct adapter *adapter;
	struct pd *pd;
	struct cq *cq;
	struct recv_queue queue;
	_Atomic(enum ibv_wq_state) state;
	atomic_bool strips_vlan;
	pthread_mutex_t change; /* one ibv_modify_wq() at a time */
	atomic_uint users;	/* tables, an entry each */
	void *face;
};

struct wq_table {
	struct ibv_rwq_ind_table ibv; /* first */
	struct adapter *adapter;
	uint32_t mask;	   /* its size, a power of two, less one */
	atomic_uint users; /* QPs */
	struct wq *wqs[];
};

static inline struct wq *wq_of(struct ibv_wq *ibv)
{
	return (struct wq *)ibv;
}

static inline struct wq_table *wq_table_of(struct ibv_rwq_ind_table *ibv)
{
	return (struct wq_table *)ibv;
}

/* These: 0, or the positive errno of the noted reason. attr gets the sizes that it got. */
int wq_create(struct pd *pd, struct ibv_wq_init_attr *attr, struct wq **wq);
int wq_check_idle(const struct wq *wq); /* EBUSY while a table has it */
void wq_destroy(struct wq *wq);		/* that is idle */
int wq_modify(struct wq *wq, const struct ibv_wq_attr *attr, uint64_t now);
int wq_post(struct wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* It has lost a completion: IBV_EVENT_WQ_FATAL, and it takes no more. */
void wq_fail(struct wq *wq);

int wq_table_create(struct adapter *adapter, const struct ibv_rwq_ind_table_init_attr *attr,
		    struct wq_table **table);
int wq_table_destroy(struct wq_table *table); /* EBUSY while a QP has it */

#endif
