/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow steering: rules that say which frames of the network a raw packet QP gets, and counters of
 * what they match.
 */
#ifndef DEVICE_FLOW_H
#define DEVICE_FLOW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include <urcu/list.h>

#include "wire/frame.h"

struct adapter;
struct qp;

enum { FLOW_MAX_SPECS = 16, COUNTERS_MAX = 64 };

struct counters {
	struct ibv_counters ibv; /* first */
	struct adapter *adapter;
	pthread_mutex_t lock;	 /* guards which */
	int which[COUNTERS_MAX]; /* enum ibv_counter_description at each index; -1: none */
	_Atomic uint64_t packets, bytes;
	atomic_uint users; /* flows */
};

struct flow {
	struct ibv_flow ibv;	   /* first */
	struct cds_list_head node; /* of the adapter's, by priority; under its lock */
	struct adapter *adapter;
	struct qp *qp;
	enum ibv_flow_attr_type type;
	uint16_t priority;
	bool goes_on; /* DONT_TRAP: lower rules get it as well */
	bool drops;
	uint32_t tag;
	struct counters *counters;
	int spec_count;
	struct ibv_flow_spec specs[FLOW_MAX_SPECS]; /* that match; the actions are above */
};

struct flow_table {
	pthread_mutex_t lock;
	struct cds_list_head flows; /* of highest priority first */
};

static inline struct flow *flow_of(struct ibv_flow *ibv)
{
	return (struct flow *)ibv;
}

static inline struct counters *counters_of(struct ibv_counters *ibv)
{
	return (struct counters *)ibv;
}

void flow_table_init(struct flow_table *table);
void flow_table_fini(struct flow_table *table);

/* These: 0, or the positive errno of the noted reason. */
int flow_create(struct qp *qp, const struct ibv_flow_attr *attr, struct flow **flow);
void flow_destroy(struct flow *flow);

/* Calls `take` for each flow whose QP gets the frame, with the table's lock held. */
void flow_match(struct adapter *adapter, const struct frame *frame,
		void (*take)(const struct flow *flow, const struct frame *frame, void *data),
		void *data);

int counters_create(struct adapter *adapter, const struct ibv_counters_init_attr *attr,
		    struct counters **counters);
int counters_destroy(struct counters *counters);
int counters_attach(struct counters *counters, const struct ibv_counter_attach_attr *attr,
		    struct flow *flow);
int counters_read(struct counters *counters, uint64_t *values, uint32_t count, uint32_t flags);

#endif
