/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tests of the device begin with: an adapter whose port is up, with an IPv6 link-local, an
 * IPv4 and a global IPv6 address, on a host that counts events; and a word for "refused with this
 * errno and this reason, whose live values name what was wrong".
 */
#ifndef TESTS_UNIT_FIXTURE_H
#define TESTS_UNIT_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/adapter.h"
#include "device/cq.h"
#include "device/mr.h"
#include "device/pd.h"
#include "device/qp.h"
#include "device/srq.h"
#include "explain/reason.h"

enum { FIXTURE_SLOT = 5, FIXTURE_EVENTS = 16 };

static struct adapter adapter;
static struct ibv_async_event fixture_events[FIXTURE_EVENTS];
static unsigned int fixture_event_count, fixture_cq_events, fixture_quiesces;
static uint32_t fixture_seed = 1;

static inline void fixture_schedule(struct adapter *a, struct qp *qp)
{
}

static inline void fixture_cq_event(struct cq *cq)
{
	fixture_cq_events++;
}

static inline void fixture_async_event(struct adapter *a, const struct ibv_async_event *event)
{
	if (fixture_event_count < FIXTURE_EVENTS)
		fixture_events[fixture_event_count] = *event;
	fixture_event_count++;
}

static inline uint32_t fixture_random(struct adapter *a)
{
	fixture_seed = fixture_seed * 1664525 + 1013904223;
	return fixture_seed ^ fixture_seed >> 16;
}

static inline void fixture_quiesce(struct adapter *a)
{
	fixture_quiesces++;
}

static const struct adapter_host fixture_host = {
    .schedule = fixture_schedule,
    .cq_event = fixture_cq_event,
    .async_event = fixture_async_event,
    .random = fixture_random,
    .quiesce = fixture_quiesce,
};

enum { GID_LINK_LOCAL, GID_IPV4, GID_IPV6, GIDS };

static const union ibv_gid fixture_gids[GIDS] = {
    [GID_LINK_LOCAL] = {.raw = {0xfe, 0x80, [15] = 1}},
    [GID_IPV4] = {.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1}},
    [GID_IPV6] = {.raw = {0xfd, [15] = 1}},
};

static const union ibv_gid peer_ipv4 = {.raw = {[10] = 0xff, 0xff, 192, 0, 2, 9}};
static const union ibv_gid group_ipv4 = {.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}};

static inline int fixture_setup(void **state)
{
	fixture_event_count = fixture_cq_events = fixture_quiesces = 0;
	if (adapter_init(&adapter, "rxe0", 0x1122, FIXTURE_SLOT, &fixture_host, NULL))
		return -1;
	port_set_link(&adapter, IBV_PORT_ACTIVE, 1500, 10000);
	port_set_gids(&adapter, fixture_gids, GIDS);
	reason_clear();
	return 0;
}

static inline int fixture_teardown(void **state)
{
	adapter_fini(&adapter);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

/* The call was refused: with this errno, for this reason, whose live values name `word`. */
#define assert_refused(call, error, why, word)                                                     \
	do {                                                                                       \
		const char *live_;                                                                 \
		reason_clear();                                                                    \
		assert_int_equal(call, error);                                                     \
		assert_int_equal(reason_last(&live_), why);                                        \
		if (!strstr(live_, word))                                                          \
			fail_msg("\"%s\" does not name \"%s\"", live_, word);                      \
	} while (0)

static inline struct ibv_ah_attr fixture_address(void)
{
	struct ibv_ah_attr attr = {
	    .is_global = 1,
	    .port_num = 1,
	    .grh = {.dgid = peer_ipv4, .sgid_index = GID_IPV4, .hop_limit = 1},
	};

	return attr;
}

/* ---- objects ---- */

struct objects {
	struct pd *pd;
	struct cq *send_cq, *recv_cq;
};

static inline struct objects objects_create(void)
{
	struct objects o;

	assert_int_equal(pd_create(&adapter, &o.pd), 0);
	assert_int_equal(cq_create(&adapter, 64, &o.send_cq), 0);
	assert_int_equal(cq_create(&adapter, 64, &o.recv_cq), 0);
	return o;
}

static inline void objects_destroy(struct objects *o)
{
	assert_int_equal(cq_destroy(o->send_cq), 0);
	assert_int_equal(cq_destroy(o->recv_cq), 0);
	assert_int_equal(pd_destroy(o->pd), 0);
}

static inline struct ibv_qp_init_attr_ex qp_attr(const struct objects *o, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex attr = {
	    .send_cq = &o->send_cq->ibv,
	    .recv_cq = &o->recv_cq->ibv,
	    .cap = {.max_send_wr = 4,
		    .max_recv_wr = 4,
		    .max_send_sge = 2,
		    .max_recv_sge = 2,
		    .max_inline_data = 64},
	    .qp_type = type,
	    .comp_mask = IBV_QP_INIT_ATTR_PD,
	    .pd = &o->pd->ibv,
	};

	return attr;
}

static inline struct qp *qp_new(const struct objects *o, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(o, type);
	struct qp *qp;

	assert_int_equal(qp_create(o->pd, &attr, &qp), 0);
	return qp;
}

static inline void qp_end(struct qp *qp)
{
	assert_int_equal(qp_unlist(qp), 0);
	qp_free(qp);
}

/* Attributes that every transition's mask may pick from. */
static inline struct ibv_qp_attr good_attr(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {
	    .qp_state = state,
	    .path_mtu = IBV_MTU_1024,
	    .qkey = 0x11111111,
	    .rq_psn = 100,
	    .sq_psn = 200,
	    .dest_qp_num = 0x1234,
	    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	    .ah_attr = fixture_address(),
	    .max_rd_atomic = 1,
	    .max_dest_rd_atomic = 1,
	    .min_rnr_timer = 12,
	    .port_num = 1,
	    .timeout = 14,
	    .retry_cnt = 7,
	    .rnr_retry = 7,
	};

	return attr;
}

static inline int init_mask(enum ibv_qp_type type)
{
	return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
	       (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
}

static inline int rtr_mask(enum ibv_qp_type type)
{
	int mask = IBV_QP_STATE;

	if (type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return mask;
}

static inline int rts_mask(enum ibv_qp_type type)
{
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (type == IBV_QPT_RC)
		mask |=
		    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return mask;
}

static inline void qp_to(struct qp *qp, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = good_attr(state);

	assert_int_equal(qp_modify(qp, &attr, mask), 0);
	assert_int_equal(qp->state, state);
}

/* From RESET as far as `state`, which is one of INIT, RTR, RTS, SQD, SQE, ERR. */
static inline void qp_bring_to(struct qp *qp, enum ibv_qp_state state)
{
	qp_to(qp, IBV_QPS_INIT, init_mask(qp->type));
	if (state == IBV_QPS_INIT)
		return;
	qp_to(qp, IBV_QPS_RTR, rtr_mask(qp->type));
	if (state == IBV_QPS_RTR)
		return;
	qp_to(qp, IBV_QPS_RTS, rts_mask(qp->type));
	if (state == IBV_QPS_SQE)
		qp->state = IBV_QPS_SQE; /* the transport's to set */
	else if (state != IBV_QPS_RTS)
		qp_to(qp, state, IBV_QP_STATE);
}

#endif
