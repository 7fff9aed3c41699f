/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: creation, the end, and what ibv_query_qp() tells. Posting is in qp_post.c, states
 * are in qp_state.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/tm_types.h>
#include <infiniband/verbatim.h>

#include "base/hot.h"
#include "base/lines.h"
#include "device/adapter.h"
#include "device/buffer.h"
#include "device/cq.h"
#include "device/pd.h"
#include "device/qp.h"
#include "device/wq.h"
#include "device/xrcd.h"
#include "explain/reason.h"

enum {
	FIRST_NUMBER = 2, /* 0 and 1 are the subnet manager's and the GSI's */
	NUMBERS = 1 << QPN_SLOT_SHIFT,
	NUMBER_TRIES = 8, /* few are free: then a recent one will do */

	SEND_OPS_DATAGRAM = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
	SEND_OPS_UC = SEND_OPS_DATAGRAM | IBV_QP_EX_WITH_RDMA_WRITE |
		      IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV |
		      IBV_QP_EX_WITH_BIND_MW,
	SEND_OPS_RC = SEND_OPS_UC | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		      IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
		      IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE,
	INIT_ATTR_KNOWN = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
			  IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_IND_TABLE |
			  IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
};

static bool is_xrc(enum ibv_qp_type type)
{
	return type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

static uint64_t send_ops_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		return SEND_OPS_RC;
	case IBV_QPT_UC:
		return SEND_OPS_UC;
	case IBV_QPT_XRC_RECV:
		return 0;
	case IBV_QPT_RAW_PACKET:
		return IBV_QP_EX_WITH_SEND;
	default:
		return SEND_OPS_DATAGRAM;
	}
}

static int check_extended(const struct ibv_qp_init_attr_ex *attr)
{
	uint64_t ops = send_ops_of(attr->qp_type);

	if (attr->comp_mask & ~(uint32_t)INIT_ATTR_KNOWN)
		return refuse(REASON_QP_EXTENSION,
			      "comp_mask is %#x, of which %#x is not supported", attr->comp_mask,
			      attr->comp_mask & ~(uint32_t)INIT_ATTR_KNOWN);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS &&
	    attr->create_flags &
		~(uint32_t)(attr->qp_type == IBV_QPT_RAW_PACKET ? IBV_QP_CREATE_CVLAN_STRIPPING
								: 0))
		return refuse(REASON_QP_EXTENSION, "create_flags is %#x, none is supported",
			      attr->create_flags);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && attr->send_ops_flags & ~ops)
		return refuse(REASON_QP_SEND_OPS, "send_ops_flags is %#llx, this type has %#llx",
			      (unsigned long long)attr->send_ops_flags, (unsigned long long)ops);
	return 0;
}

static int check_cap(const struct adapter *adapter, const struct ibv_qp_cap *cap, bool has_srq)
{
	if (cap->max_send_wr > MAX_QP_WR || (!has_srq && cap->max_recv_wr > MAX_QP_WR))
		return refuse(REASON_QP_SIZE, "max_send_wr %u, max_recv_wr %u; %s takes up to %u",
			      cap->max_send_wr, cap->max_recv_wr, adapter->name, MAX_QP_WR);
	if (cap->max_send_sge > MAX_SGE || (!has_srq && cap->max_recv_sge > MAX_SGE))
		return refuse(REASON_QP_SGE, "max_send_sge %u, max_recv_sge %u; %s takes up to %u",
			      cap->max_send_sge, cap->max_recv_sge, adapter->name, MAX_SGE);
	if (cap->max_inline_data > MAX_INLINE)
		return refuse(REASON_QP_INLINE, "max_inline_data %u; %s takes up to %u",
			      cap->max_inline_data, adapter->name, MAX_INLINE);
	return 0;
}

static bool has_xrcd(const struct ibv_qp_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_QP_INIT_ATTR_XRCD && attr->xrcd;
}

struct adapter *qp_adapter_of(const struct pd *pd, const struct ibv_qp_init_attr_ex *attr)
{
	if (pd)
		return pd->adapter;
	return has_xrcd(attr) ? xrcd_of(attr->xrcd)->adapter : NULL;
}

static int check_type(const struct pd *pd, const struct ibv_qp_init_attr_ex *attr)
{
	switch (attr->qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_RAW_PACKET:
		break;
	case IBV_QPT_XRC_RECV:
		return has_xrcd(attr)
			   ? 0
			   : refuse(REASON_QP_NO_XRCD, "comp_mask is %#x", attr->comp_mask);
	default:
		return refuse(REASON_QP_TYPE, "qp_type is %d", attr->qp_type);
	}
	return pd ? 0 : refuse(REASON_QP_NO_PD, "comp_mask is %#x", attr->comp_mask);
}

/* Both or none: a table without a hash has no use. */
static bool has_table(const struct ibv_qp_init_attr_ex *attr)
{
	return attr->comp_mask & (IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH);
}

static int check_table(const struct adapter *adapter, const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t both = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
	const struct ibv_rx_hash_conf *hash = &attr->rx_hash_conf;

	if (!has_table(attr))
		return 0;
	if (attr->qp_type != IBV_QPT_RAW_PACKET || (attr->comp_mask & both) != both ||
	    !attr->rwq_ind_tbl || wq_table_of(attr->rwq_ind_tbl)->adapter != adapter)
		return refuse(REASON_QP_TABLE, "qp_type is %d, comp_mask %#x", attr->qp_type,
			      attr->comp_mask);
	if (hash->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ ||
	    hash->rx_hash_key_len != TOEPLITZ_KEY || !hash->rx_hash_key ||
	    hash->rx_hash_fields_mask & ~(uint64_t)HASH_FIELDS)
		return refuse(REASON_QP_HASH, "function %#x, key of %u bytes, fields %#llx",
			      hash->rx_hash_function, hash->rx_hash_key_len,
			      (unsigned long long)hash->rx_hash_fields_mask);
	return 0;
}

static int check_cq(const struct adapter *adapter, struct ibv_cq *cq, const char *name)
{
	if (!cq)
		return refuse(REASON_QP_NO_CQ, "%s is NULL", name);
	if (cq_of(cq)->adapter != adapter)
		return refuse(REASON_QP_OTHER_DEVICE, "the PD is of %s, %s of %s", adapter->name,
			      name, cq_of(cq)->adapter->name);
	return 0;
}

static int check(const struct pd *pd, const struct ibv_qp_init_attr_ex *attr)
{
	const struct adapter *adapter;
	int ret = check_type(pd, attr);

	if (!ret)
		ret = check_extended(attr);
	if (ret)
		return ret;
	adapter = qp_adapter_of(pd, attr);
	ret = check_table(adapter, attr);
	if (ret)
		return ret;
	if (has_table(attr))
		return check_cap(adapter, &attr->cap, true);
	if (attr->qp_type != IBV_QPT_XRC_RECV)
		ret = check_cq(adapter, attr->send_cq, "send_cq");
	if (!ret && !is_xrc(attr->qp_type))
		ret = check_cq(adapter, attr->recv_cq, "recv_cq");
	if (ret)
		return ret;
	if (!is_xrc(attr->qp_type) && attr->srq && srq_of(attr->srq)->adapter != adapter)
		return refuse(REASON_QP_OTHER_DEVICE, "the PD is of %s, the SRQ of %s",
			      adapter->name, srq_of(attr->srq)->adapter->name);
	if (attr->srq && attr->qp_type != IBV_QPT_RC && srq_of(attr->srq)->type == IBV_SRQT_TM)
		return refuse(REASON_QP_TM_TYPE, "qp_type is %d", attr->qp_type);
	if (!is_xrc(attr->qp_type) && attr->srq && srq_of(attr->srq)->type == IBV_SRQT_XRC)
		return refuse(REASON_QP_XRC_SRQ, "SRQ %u", srq_of(attr->srq)->number);
	return check_cap(adapter, &attr->cap, attr->srq);
}

/* What an XRC QP does not have is not looked at. */
static void clear_unused(struct ibv_qp_init_attr_ex *attr)
{
	if (has_table(attr)) { /* it receives, and that by the table */
		attr->send_cq = attr->recv_cq = NULL;
		attr->srq = NULL;
		memset(&attr->cap, 0, sizeof(attr->cap));
	}
	if (!is_xrc(attr->qp_type))
		return;
	attr->recv_cq = NULL;
	attr->srq = NULL;
	attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
	if (attr->qp_type != IBV_QPT_XRC_RECV)
		return;
	attr->send_cq = NULL;
	memset(&attr->cap, 0, sizeof(attr->cap));
}

static uint32_t power_of_two(uint32_t n)
{
	uint32_t power = 1;

	while (power < n)
		power <<= 1;
	return n ? power : 0;
}

/* The room of a WQE serves as elements or as inline data: both get all of it, as ConnectX does. */
static int send_queue_init(struct send_queue *sq, struct pd *pd, struct depot *depot,
			   const struct ibv_qp_cap *cap, const struct srq *srq)
{
	bool is_tm = srq && srq->type == IBV_SRQT_TM;
	size_t room = cap->max_send_sge * sizeof(struct ibv_sge);
	uint32_t size;

	if (room < cap->max_inline_data)
		room = (cap->max_inline_data + 15) & ~15u;
	sq->max_wr = power_of_two(cap->max_send_wr);
	sq->max_sge = cap->max_send_sge;
	sq->max_inline = (uint32_t)room;
	/* the adapter's own READs are for the SRQ's elements, and have a FIN each */
	if (is_tm && room < srq->queue.max_sge * sizeof(struct ibv_sge))
		room = srq->queue.max_sge * sizeof(struct ibv_sge);
	if (is_tm && room < sizeof(struct ibv_tmh))
		room = sizeof(struct ibv_tmh);
	sq->stride = (uint32_t)((sizeof(struct send_wqe) + room + 15) & ~(size_t)15);
	size = is_tm ? power_of_two(sq->max_wr + 2 * MAX_RNDV) : sq->max_wr;
	if (size) {
		sq->ring_mask = size - 1;
		sq->ring = buffer_alloc(pd, depot, size, sq->stride, VERBATIM_RESOURCE_SEND_QUEUE);
		if (!sq->ring)
			return -ENOMEM;
	}
	spin_init(&sq->lock);
	return 0;
}

static void send_queue_fini(struct send_queue *sq, struct pd *pd, struct depot *depot)
{
	spin_destroy(&sq->lock);
	buffer_free(pd, depot, sq->ring, ((size_t)sq->ring_mask + 1) * sq->stride,
		    VERBATIM_RESOURCE_SEND_QUEUE);
}

static int queues_init(struct qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	struct depot *depot = &qp->adapter->depot;
	int ret = send_queue_init(&qp->sq, qp->pd, depot, &attr->cap, qp->srq);

	if (ret)
		return ret;
	ret = recv_queue_init(&qp->rq, qp->pd, depot, VERBATIM_RESOURCE_RECV_QUEUE,
			      attr->srq ? 0 : attr->cap.max_recv_wr,
			      attr->srq ? 0 : attr->cap.max_recv_sge);
	if (ret)
		send_queue_fini(&qp->sq, qp->pd, depot);
	return ret;
}

static void queues_fini(struct qp *qp)
{
	struct depot *depot = &qp->adapter->depot;

	recv_queue_fini(&qp->rq, depot);
	send_queue_fini(&qp->sq, qp->pd, depot);
}

/* What the QP is made of cannot go before it. */
static void take_references(struct qp *qp)
{
	if (qp->pd)
		atomic_fetch_add(&qp->pd->users, 1);
	if (qp->send_cq)
		atomic_fetch_add(&qp->send_cq->users, 1);
	if (qp->recv_cq)
		atomic_fetch_add(&qp->recv_cq->users, 1);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->users, 1);
	if (qp->wq_table)
		atomic_fetch_add(&qp->wq_table->users, 1);
	if (!qp->xrcd)
		return;
	qp->domain = qp->xrcd->domain;
	xrc_domain_get(qp->adapter, qp->domain);
	atomic_fetch_add(&qp->xrcd->users, 1);
}

void qp_leave_xrcd(struct qp *qp)
{
	if (qp->xrcd)
		atomic_fetch_sub(&qp->xrcd->users, 1);
	qp->xrcd = NULL;
}

static void drop_references(struct qp *qp)
{
	comp_cntr_detach_all(qp);
	if (qp->wq_table)
		atomic_fetch_sub(&qp->wq_table->users, 1);
	qp_leave_xrcd(qp);
	if (qp->domain)
		xrc_domain_put(qp->adapter, qp->domain);
	if (qp->srq)
		atomic_fetch_sub(&qp->srq->users, 1);
	if (qp->recv_cq)
		atomic_fetch_sub(&qp->recv_cq->users, 1);
	if (qp->send_cq)
		atomic_fetch_sub(&qp->send_cq->users, 1);
	if (qp->pd)
		atomic_fetch_sub(&qp->pd->users, 1);
}

static void fill(struct qp *qp, struct pd *pd, const struct ibv_qp_init_attr_ex *attr)
{
	qp->adapter = qp_adapter_of(pd, attr);
	qp->pd = pd;
	qp->send_cq = attr->send_cq ? cq_of(attr->send_cq) : NULL;
	qp->recv_cq = attr->recv_cq ? cq_of(attr->recv_cq) : NULL;
	qp->xrcd = attr->qp_type == IBV_QPT_XRC_RECV ? xrcd_of(attr->xrcd) : NULL;
	qp->srq = attr->srq ? srq_of(attr->srq) : NULL;
	qp->type = attr->qp_type;
	if (has_table(attr)) {
		qp->wq_table = wq_table_of(attr->rwq_ind_tbl);
		memcpy(qp->hash_key, attr->rx_hash_conf.rx_hash_key, TOEPLITZ_KEY);
		qp->hash_fields = attr->rx_hash_conf.rx_hash_fields_mask;
	}
	qp->strips_vlan = attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS &&
			  attr->create_flags & IBV_QP_CREATE_CVLAN_STRIPPING;
	qp->sq_sig_all = attr->sq_sig_all;
	qp->has_receives = !qp->wq_table && !qp->srq && !qp_is_xrc(qp);
	atomic_init(&qp->state, IBV_QPS_RESET);
	qp->ibv.pd = pd ? &pd->ibv : NULL;
	qp->ibv.qp_context = attr->qp_context;
	qp->ibv.send_cq = attr->send_cq;
	qp->ibv.recv_cq = attr->recv_cq;
	qp->ibv.srq = attr->srq;
	qp->ibv.qp_type = attr->qp_type;
	qp->ibv.state = IBV_QPS_RESET;
}

static bool was_given_lately(const struct adapter *adapter, uint32_t index)
{
	for (int i = 0; i < RECENT_QPS; i++)
		if (adapter->recent_qps[i] == index)
			return true;
	return false;
}

/* Numbers are random, so that what was sent to a QP that is gone does not meet the next one, and
 * none of the last ones; but the low bits say the lane. */
static int enlist(struct qp *qp)
{
	struct adapter *adapter = qp->adapter;
	uint32_t index, lane = 0, lanes = 1, tries = 0;
	int ret;

	pthread_mutex_lock(&adapter->lock);
	if (adapter->host->choose_lane)
		lane = adapter->host->choose_lane(adapter, qp, &lanes);
	for (;;) {
		uint32_t from =
		    FIRST_NUMBER + adapter->host->random(adapter) % (NUMBERS - FIRST_NUMBER);

		ret = table_add_every(&adapter->qps, FIRST_NUMBER, from, lane, lanes, qp, &index);
		if (ret || !was_given_lately(adapter, index) || ++tries == NUMBER_TRIES)
			break;
		table_remove(&adapter->qps, index);
	}
	if (!ret) {
		adapter->recent_qps[adapter->recent_qp++ % RECENT_QPS] = index;
		qp->number = adapter->slot << QPN_SLOT_SHIFT | index;
		qp->ibv.qp_num = qp->number;
		qp->ibv.handle = qp->number;
	}
	pthread_mutex_unlock(&adapter->lock);
	if (ret == -ENOSPC)
		return refuse(REASON_TOO_MANY_QPS, "%s has %u QPs already", adapter->name, MAX_QP);
	return ret ? refuse(REASON_NO_MEMORY, "for the table of QPs") : 0;
}

static void describe_cap(const struct qp *qp, struct ibv_qp_cap *cap)
{
	cap->max_send_wr = qp->sq.max_wr;
	cap->max_send_sge = qp->sq.max_sge;
	cap->max_inline_data = qp->sq.max_inline;
	cap->max_recv_wr = qp->rq.max_wr;
	cap->max_recv_sge = qp->rq.max_sge;
}

int qp_create(struct pd *pd, struct ibv_qp_init_attr_ex *attr, struct qp **qp)
{
	struct depot *depot;
	struct qp *new;
	int ret = check(pd, attr);

	if (ret)
		return ret;
	if (attr->qp_type == IBV_QPT_XRC_RECV)
		pd = NULL;
	clear_unused(attr);
	depot = &qp_adapter_of(pd, attr)->depot;
	new = depot_take(depot, sizeof(*new));
	if (!new)
		return refuse(REASON_NO_MEMORY, "for a QP");
	fill(new, pd, attr);
	if (queues_init(new, attr)) {
		ret = refuse(REASON_NO_MEMORY, "for queues of %u and %u", attr->cap.max_send_wr,
			     attr->cap.max_recv_wr);
		goto free_qp;
	}
	ret = enlist(new);
	if (ret)
		goto free_queues;
	take_references(new);
	describe_cap(new, &attr->cap);
	*qp = new;
	return 0;

free_queues:
	queues_fini(new);
free_qp:
	depot_give(depot, new, sizeof(*new));
	return ret;
}

struct qp *qp_create_branch(struct adapter *adapter, struct xrc_domain *domain, uint32_t number)
{
	const struct ibv_qp_init_attr_ex none = {.qp_type = IBV_QPT_XRC_RECV};
	struct qp *new = depot_take(&adapter->depot, sizeof(*new));

	if (!new)
		return NULL;
	new->adapter = adapter;
	if (queues_init(new, &none)) {
		depot_give(&adapter->depot, new, sizeof(*new));
		return NULL;
	}
	new->domain = domain;
	new->type = IBV_QPT_XRC_RECV;
	new->number = number;
	new->ibv.qp_num = number;
	new->ibv.qp_type = IBV_QPT_XRC_RECV;
	new->has_communicated = true; /* its home tells of that */
	atomic_init(&new->state, IBV_QPS_RESET);
	return new;
}

int qp_check_idle(const struct qp *qp)
{
	unsigned int groups = atomic_load(&qp->groups);

	if (groups)
		return refuse(REASON_QP_ATTACHED, "QP %#x is attached to %u groups", qp->number,
			      groups);
	if (atomic_load(&qp->flows))
		return refuse(REASON_QP_FLOWS, "QP %#x has %u flows", qp->number,
			      atomic_load(&qp->flows));
	return 0;
}

int qp_unlist(struct qp *qp)
{
	int ret = qp_check_idle(qp);

	if (ret)
		return ret;
	if (qp->number >> QPN_SLOT_SHIFT == qp->adapter->slot)
		table_remove(&qp->adapter->qps, qp->number & (NUMBERS - 1));
	else
		adapter_disown_qp(qp->adapter, qp);
	qp_changed(qp);
	return 0;
}

/* Those in the CQs of XRC SRQs stay: they are of messages that the SRQ's owner has received. */
void qp_forget_completions(struct qp *qp)
{
	if (qp->send_cq)
		cq_forget(qp->send_cq, qp->number);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		cq_forget(qp->recv_cq, qp->number);
}

/* Nobody waits for their event's time any more. */
static void expire(struct cq *cq)
{
	if (cq && cq_event_at(cq) != CQ_NO_EVENT)
		cq_expire(cq, CQ_NO_EVENT - 1);
}

void qp_free(struct qp *qp)
{
	expire(qp->send_cq);
	expire(qp->recv_cq);
	qp_forget_completions(qp);
	queues_fini(qp);
	drop_references(qp);
	depot_give(&qp->adapter->depot, qp, sizeof(*qp));
}

void qp_describe(const struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	*attr = qp->attr;
	attr->qp_state = atomic_load_explicit(&qp->state, memory_order_relaxed);
	attr->cur_qp_state = attr->qp_state;
	attr->path_mig_state = IBV_MIG_MIGRATED;
	describe_cap(qp, &attr->cap);
	memset(&attr->ah_attr, 0, sizeof(attr->ah_attr));
	if (qp->type != IBV_QPT_UD && qp->attr.dest_qp_num)
		av_describe(&qp->av, &attr->ah_attr);

	memset(init, 0, sizeof(*init));
	init->qp_context = qp->ibv.qp_context;
	init->send_cq = qp->ibv.send_cq;
	init->recv_cq = qp->ibv.recv_cq;
	init->srq = qp->ibv.srq;
	init->cap = attr->cap;
	init->qp_type = qp->type;
	init->sq_sig_all = qp->sq_sig_all;
}

void qp_changed(const struct qp *qp)
{
	atomic_fetch_add(&qp->adapter->qp_changes, 1);
}

int qp_limit_rate(struct qp *qp, const struct ibv_qp_rate_limit_attr *attr)
{
	enum ibv_qp_state state = atomic_load_explicit(&qp->state, memory_order_relaxed);

	if (attr->comp_mask)
		return refuse(REASON_COMP_MASK, "attr->comp_mask is %#x", attr->comp_mask);
	if (qp->type == IBV_QPT_XRC_RECV)
		return refuse(REASON_RATE_TYPE, "QP %#x", qp->number);
	if (state != IBV_QPS_RTS)
		return refuse(REASON_RATE_STATE, "QP %#x is in %s", qp->number,
			      qp_state_name(state));
	qp->attr.rate_limit = attr->rate_limit;
	qp->max_burst = attr->max_burst_sz ? attr->max_burst_sz : DEFAULT_BURST;
	qp_changed(qp);
	return 0;
}

int qp_take_recv(struct qp *qp, struct recv_wqe *wqe)
{
	return qp->srq ? srq_take(qp->srq, wqe) : recv_queue_take(&qp->rq, wqe);
}

ASIDE void qp_event(struct qp *qp, enum ibv_event_type type)
{
	struct ibv_async_event event = {.event_type = type, .element.qp = &qp->ibv};

	if (qp->adapter->host->async_event)
		qp->adapter->host->async_event(qp->adapter, &event);
}
