/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tests of the face on a real engine begin with: a network of the process's own, the loopback
 * device open, and two QPs of it that are connected to each other. Linked with the face's objects,
 * so that reasons can be asked for.
 */
#ifndef TESTS_VERBS_LIVE_H
#define TESTS_VERBS_LIVE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include <infiniband/verbs.h>

#include "explain/reason.h"
#include "../lib/lonely_pages.h"
#include "../unit/own_network.h"

enum { PATIENCE_S = 10, CQE = 64, BUFFER = 16384, ANY_LKEY = 0 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_device_attr device_attr;
static bool is_own_network; /* its interfaces may be changed */
static int gid_index;	    /* of 127.0.0.1 */
static union ibv_gid gid;

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

/* The same for a call that gives NULL and leaves errno. */
#define assert_refused_null(call, error, why, word)                                                \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_refused(((call) == NULL ? errno : -1), error, why, word);                   \
	} while (0)

/* The same for one that gives -1 and leaves errno. */
#define assert_refused_minus_1(call, error, why, word)                                             \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_refused(((call) == -1 ? errno : -1), error, why, word);                     \
	} while (0)

static inline double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline struct ibv_context *open_loopback(void)
{
	struct ibv_device **list;
	struct ibv_context *opened = NULL;
	int count;

	list = ibv_get_device_list(&count);
	if (list && count > 0)
		opened = ibv_open_device(list[count - 1]); /* it is the last */
	if (list)
		ibv_free_device_list(list);
	return opened;
}

static inline bool find_ipv4(void)
{
	static const uint8_t wanted[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};

	for (gid_index = 0; gid_index < 16; gid_index++)
		if (!ibv_query_gid(context, 1, gid_index, &gid) && !memcmp(gid.raw, wanted, 16))
			return true;
	return false;
}

static inline int live_open(void **state)
{
	is_own_network = own_network();
	if (is_own_network && interface_up("lo") < 0)
		return -1;
	context = open_loopback();
	if (!context || !find_ipv4() || ibv_query_device(context, &device_attr))
		return -1;
	pd = ibv_alloc_pd(context);
	return pd ? 0 : -1;
}

static inline int live_close(void **state)
{
	return ibv_dealloc_pd(pd) || ibv_close_device(context);
}

/* ---- an end of a connection ---- */

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *buffer;
};

static const int live_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

static inline struct ibv_qp_init_attr end_qp_attr(struct ibv_cq *cq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = cq,
	    .recv_cq = cq,
	    .cap = {.max_send_wr = 16,
		    .max_recv_wr = 16,
		    .max_send_sge = 4,
		    .max_recv_sge = 4,
		    .max_inline_data = 64},
	    .qp_type = type,
	};

	return attr;
}

static inline void end_make_buffer(struct end *end)
{
	end->buffer = aligned_alloc(4096, BUFFER);
	assert_non_null(end->buffer);
	memset(end->buffer, 0, BUFFER);
	end->mr = ibv_reg_mr(pd, end->buffer, BUFFER, live_access);
	assert_non_null(end->mr);
}

static inline void end_create(struct end *end, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr;

	end_make_buffer(end);
	end->cq = ibv_create_cq(context, CQE, end, NULL, 0);
	assert_non_null(end->cq);
	attr = end_qp_attr(end->cq, type);
	end->qp = ibv_create_qp(pd, &attr);
	assert_non_null(end->qp);
}

static inline void end_destroy(struct end *end)
{
	assert_int_equal(ibv_destroy_qp(end->qp), 0);
	assert_int_equal(ibv_destroy_cq(end->cq), 0);
	assert_int_equal(ibv_dereg_mr(end->mr), 0);
	free(end->buffer);
}

static inline struct ibv_qp_attr rtr_attr(uint32_t dest)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = dest,
	    .rq_psn = 7,
	    .max_dest_rd_atomic = 4,
	    .min_rnr_timer = 1,
	    .ah_attr = {.is_global = 1,
			.port_num = 1,
			.grh = {.dgid = gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 1}},
	};

	return attr;
}

/* What has to fail fails within two seconds; a busy machine may keep a lane's thread waiting for a
 * tenth of one. */
static inline struct ibv_qp_attr rts_attr(void)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTS,
	    .sq_psn = 7,
	    .timeout = 15,
	    .retry_cnt = 3,
	    .rnr_retry = 1,
	    .max_rd_atomic = 4,
	};

	return attr;
}

static inline void qp_init(struct ibv_qp *qp, int access)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qkey = 0x1234567,
				   .qp_access_flags = (unsigned int)access};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		   (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);

	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
}

static inline void qp_connect_as(struct ibv_qp *qp, uint32_t dest, struct ibv_qp_attr rts)
{
	struct ibv_qp_attr rtr = rtr_attr(dest);
	int rtr_mask = IBV_QP_STATE, rts_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type != IBV_QPT_UD)
		rtr_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp->qp_type == IBV_QPT_RC) {
		rtr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		rts_mask |=
		    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	assert_int_equal(ibv_modify_qp(qp, &rtr, rtr_mask), 0);
	assert_int_equal(ibv_modify_qp(qp, &rts, rts_mask), 0);
}

static inline void qp_connect(struct ibv_qp *qp, uint32_t dest)
{
	qp_connect_as(qp, dest, rts_attr());
}

static inline void pair_create(struct end *a, struct end *b, enum ibv_qp_type type)
{
	end_create(a, type);
	end_create(b, type);
	qp_init(a->qp, live_access);
	qp_init(b->qp, live_access);
	qp_connect(a->qp, b->qp->qp_num);
	qp_connect(b->qp, a->qp->qp_num);
}

static inline void pair_destroy(struct end *a, struct end *b)
{
	end_destroy(a);
	end_destroy(b);
}

/* Raw packet QPs have no peer. */
static inline void qp_raw_to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

/* ---- work ---- */

static inline struct ibv_sge end_sge(const struct end *end, size_t offset, uint32_t length)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)end->buffer + offset, .length = length, .lkey = end->mr->lkey};

	return sge;
}

static inline int post_recv_sge(struct ibv_qp *qp, uint64_t wr_id, struct ibv_sge sge)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

static inline int post_recv(struct end *end, uint64_t wr_id, uint32_t length)
{
	return post_recv_sge(end->qp, wr_id, end_sge(end, 0, length));
}

static inline struct ibv_send_wr make_send(enum ibv_wr_opcode opcode, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = {.wr_id = 0x5e4d,
				 .opcode = opcode,
				 .sg_list = sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED};

	return wr;
}

static inline void post_send_wr(struct end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(end->qp, wr, &bad), 0);
}

/* The next completion of a CQ; fails the test when none comes in time. */
static inline struct ibv_wc next_wc_within(struct ibv_cq *cq, int patience_s)
{
	double end = seconds() + patience_s;
	struct ibv_wc wc;
	int count;

	do {
		count = ibv_poll_cq(cq, 1, &wc);
	} while (!count && seconds() < end);
	assert_int_equal(count, 1);
	return wc;
}

static inline struct ibv_wc next_wc(struct ibv_cq *cq)
{
	return next_wc_within(cq, PATIENCE_S);
}

static inline void assert_wc(struct ibv_wc wc, uint64_t wr_id, enum ibv_wc_status status)
{
	if (wc.status != status) {
		const struct reason_text *why = reason_find(wc.vendor_err);

		fail_msg("wr_id %#llx: %s (%s), not %s", (unsigned long long)wc.wr_id,
			 ibv_wc_status_str(wc.status), why ? why->name : "no reason",
			 ibv_wc_status_str(status));
	}
	assert_int_equal(wc.wr_id, wr_id);
}

/* It failed, and its vendor_err is the number of this reason. */
static inline void assert_failed(struct ibv_wc wc, uint64_t wr_id, enum ibv_wc_status status,
				 enum reason reason)
{
	assert_wc(wc, wr_id, status);
	assert_int_equal(wc.vendor_err, reason);
}

#endif
