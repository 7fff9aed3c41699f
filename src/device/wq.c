/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive work queues and their tables.
 */
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbatim.h>

#include "device/adapter.h"
#include "device/cq.h"
#include "device/pd.h"
#include "device/wq.h"
#include "explain/reason.h"

/* ---- queues ---- */

static int check_create(const struct pd *pd, const struct ibv_wq_init_attr *attr)
{
	const struct adapter *adapter = pd->adapter;
	uint32_t flags = attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS ? attr->create_flags : 0;

	if (attr->wq_type != IBV_WQT_RQ || attr->comp_mask & ~(uint32_t)IBV_WQ_INIT_ATTR_FLAGS ||
	    flags & ~(uint32_t)IBV_WQ_FLAGS_CVLAN_STRIPPING)
		return refuse(REASON_WQ_ATTR, "wq_type %d, comp_mask %#x, create_flags %#x",
			      attr->wq_type, attr->comp_mask, flags);
	if (!attr->cq || cq_of(attr->cq)->adapter != adapter)
		return refuse(REASON_WQ_CQ, "the PD is of %s", adapter->name);
	if (!attr->max_wr || attr->max_wr > MAX_QP_WR || attr->max_sge > MAX_SGE)
		return refuse(REASON_WQ_SIZE, "max_wr %u, max_sge %u; %s takes 1 to %u and %u",
			      attr->max_wr, attr->max_sge, adapter->name, MAX_QP_WR, MAX_SGE);
	return 0;
}

int wq_create(struct pd *pd, struct ibv_wq_init_attr *attr, struct wq **wq)
{
	struct wq *new;
	int ret = check_create(pd, attr);

	if (ret)
		return ret;
	new = calloc(1, sizeof(*new));
	if (!new || recv_queue_init(&new->queue, pd, NULL, VERBATIM_RESOURCE_RECV_QUEUE,
				    attr->max_wr, attr->max_sge)) {
		free(new);
		return refuse(REASON_NO_MEMORY, "for a WQ of %u", attr->max_wr);
	}
	new->adapter = pd->adapter;
	new->pd = pd;
	new->cq = cq_of(attr->cq);
	atomic_init(&new->strips_vlan, attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS &&
					   attr->create_flags & IBV_WQ_FLAGS_CVLAN_STRIPPING);
	atomic_init(&new->state, IBV_WQS_RESET);
	atomic_fetch_add(&pd->users, 1);
	atomic_fetch_add(&new->cq->users, 1);
	new->ibv.pd = attr->pd;
	new->ibv.cq = attr->cq;
	new->ibv.wq_type = attr->wq_type;
	new->ibv.state = IBV_WQS_RESET;
	new->ibv.handle = atomic_fetch_add(&pd->adapter->last_handle, 1) + 1;
	new->ibv.wq_num = new->ibv.handle;
	pthread_mutex_init(&new->change, NULL);
	attr->max_wr = new->queue.max_wr;
	*wq = new;
	return 0;
}

int wq_check_idle(const struct wq *wq)
{
	unsigned int users = atomic_load(&wq->users);

	return users
		   ? refuse(REASON_WQ_BUSY, "WQ %u has %u places in tables", wq->ibv.wq_num, users)
		   : 0;
}

void wq_destroy(struct wq *wq)
{
	if (wq->adapter->host->quiesce)
		wq->adapter->host->quiesce(wq->adapter);
	cq_forget(wq->cq, wq->ibv.wq_num);
	atomic_fetch_sub(&wq->cq->users, 1);
	atomic_fetch_sub(&wq->pd->users, 1);
	recv_queue_fini(&wq->queue, NULL);
	pthread_mutex_destroy(&wq->change);
	free(wq);
}

static bool is_way(enum ibv_wq_state from, enum ibv_wq_state to)
{
	switch (to) {
	case IBV_WQS_RESET:
		return true;
	case IBV_WQS_RDY:
		return from == IBV_WQS_RESET || from == IBV_WQS_RDY;
	case IBV_WQS_ERR:
		return from == IBV_WQS_RDY || from == IBV_WQS_ERR;
	default:
		return false;
	}
}

/* What it holds when it goes into the error state completes as flushed. */
static void flush(struct wq *wq, uint64_t now)
{
	union {
		struct recv_wqe wqe;
		char room[sizeof(struct recv_wqe) + MAX_SGE * sizeof(struct ibv_sge)];
	} taken;
	struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR,
			    .opcode = IBV_WC_RECV,
			    .vendor_err = REASON_RECV_FLUSHED,
			    .qp_num = wq->ibv.wq_num};

	while (recv_queue_take(&wq->queue, &taken.wqe) == 0) {
		wc.wr_id = taken.wqe.wr_id;
		cq_push(wq->cq, &wc, true, now);
	}
}

static int check_modify(const struct wq *wq, const struct ibv_wq_attr *attr)
{
	const uint32_t known = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS;
	enum ibv_wq_state from = atomic_load(&wq->state);

	if (!attr->attr_mask || attr->attr_mask & ~known)
		return refuse(REASON_WQ_ATTR, "attr_mask %#x", attr->attr_mask);
	if (attr->attr_mask & IBV_WQ_ATTR_CURR_STATE && attr->curr_wq_state != from)
		return refuse(REASON_WQ_STATE, "WQ %u is in state %d, curr_wq_state says %d",
			      wq->ibv.wq_num, from, attr->curr_wq_state);
	if (attr->attr_mask & IBV_WQ_ATTR_STATE && !is_way(from, attr->wq_state))
		return refuse(REASON_WQ_STATE, "WQ %u from state %d to %d", wq->ibv.wq_num, from,
			      attr->wq_state);
	if (attr->attr_mask & IBV_WQ_ATTR_FLAGS &&
	    (attr->flags | attr->flags_mask) & ~(uint32_t)IBV_WQ_FLAGS_CVLAN_STRIPPING)
		return refuse(REASON_WQ_ATTR, "flags %#x, flags_mask %#x", attr->flags,
			      attr->flags_mask);
	return 0;
}

static int modify_locked(struct wq *wq, const struct ibv_wq_attr *attr, uint64_t now)
{
	enum ibv_wq_state from = atomic_load(&wq->state);
	int ret = check_modify(wq, attr);

	if (ret)
		return ret;
	if (attr->attr_mask & IBV_WQ_ATTR_FLAGS && attr->flags_mask & IBV_WQ_FLAGS_CVLAN_STRIPPING)
		atomic_store(&wq->strips_vlan, (attr->flags & IBV_WQ_FLAGS_CVLAN_STRIPPING) != 0);
	if (!(attr->attr_mask & IBV_WQ_ATTR_STATE))
		return 0;
	atomic_store(&wq->state, attr->wq_state);
	wq->ibv.state = attr->wq_state;
	if (attr->wq_state == IBV_WQS_RESET) {
		recv_queue_clear(&wq->queue);
		cq_forget(wq->cq, wq->ibv.wq_num);
	} else if (attr->wq_state == IBV_WQS_ERR && from != IBV_WQS_ERR) {
		flush(wq, now);
	}
	return 0;
}

int wq_modify(struct wq *wq, const struct ibv_wq_attr *attr, uint64_t now)
{
	int ret;

	pthread_mutex_lock(&wq->change);
	ret = modify_locked(wq, attr, now);
	pthread_mutex_unlock(&wq->change);
	return ret;
}

int wq_post(struct wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	enum ibv_wq_state state = atomic_load(&wq->state);

	if (state != IBV_WQS_RDY) {
		*bad = wr;
		return refuse(REASON_WQ_STATE, "WQ %u is in state %d", wq->ibv.wq_num, state);
	}
	return recv_queue_post(&wq->queue, wr, bad);
}

void wq_fail(struct wq *wq)
{
	struct ibv_async_event event = {.event_type = IBV_EVENT_WQ_FATAL, .element.wq = &wq->ibv};

	if (atomic_exchange(&wq->state, IBV_WQS_ERR) != IBV_WQS_ERR &&
	    wq->adapter->host->async_event)
		wq->adapter->host->async_event(wq->adapter, &event);
}

/* ---- tables ---- */

static int check_table(const struct adapter *adapter,
		       const struct ibv_rwq_ind_table_init_attr *attr)
{
	if (attr->comp_mask || attr->log_ind_tbl_size > MAX_LOG_TABLE)
		return refuse(REASON_WQ_TABLE, "comp_mask %#x, log_ind_tbl_size %u, at most %u",
			      attr->comp_mask, attr->log_ind_tbl_size, MAX_LOG_TABLE);
	for (uint32_t i = 0; i < 1u << attr->log_ind_tbl_size; i++)
		if (!attr->ind_tbl[i] || wq_of(attr->ind_tbl[i])->adapter != adapter)
			return refuse(REASON_WQ_TABLE, "entry %u is no WQ of %s", i, adapter->name);
	return 0;
}

int wq_table_create(struct adapter *adapter, const struct ibv_rwq_ind_table_init_attr *attr,
		    struct wq_table **table)
{
	int ret = check_table(adapter, attr);
	struct wq_table *new;
	uint32_t size;

	if (ret)
		return ret;
	size = 1u << attr->log_ind_tbl_size;
	new = calloc(1, sizeof(*new) + size * sizeof(new->wqs[0]));
	if (!new)
		return refuse(REASON_NO_MEMORY, "for a table of %u WQs", size);
	new->adapter = adapter;
	new->mask = size - 1;
	for (uint32_t i = 0; i < size; i++) {
		new->wqs[i] = wq_of(attr->ind_tbl[i]);
		atomic_fetch_add(&new->wqs[i]->users, 1);
	}
	new->ibv.ind_tbl_handle = (int)atomic_fetch_add(&adapter->last_handle, 1) + 1;
	new->ibv.ind_tbl_num = new->ibv.ind_tbl_handle;
	*table = new;
	return 0;
}

int wq_table_destroy(struct wq_table *table)
{
	unsigned int users = atomic_load(&table->users);

	if (users)
		return refuse(REASON_WQ_TABLE_BUSY, "table %d still serves %u QPs",
			      table->ibv.ind_tbl_num, users);
	for (uint32_t i = 0; i <= table->mask; i++)
		atomic_fetch_sub(&table->wqs[i]->users, 1);
	free(table);
	return 0;
}
