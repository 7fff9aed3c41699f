/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues, and the ring below them and below a QP's own receive queue.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbatim.h>

#include "base/hot.h"
#include "device/adapter.h"
#include "device/buffer.h"
#include "device/cq.h"
#include "device/pd.h"
#include "device/srq.h"
#include "device/xrcd.h"
#include "explain/reason.h"

/* ---- the ring ---- */

static uint32_t round_up(uint32_t n)
{
	uint32_t power = 1;

	while (power < n)
		power <<= 1;
	return n ? power : 0;
}

int recv_queue_init(struct recv_queue *queue, struct pd *pd, struct depot *depot, uint64_t type,
		    uint32_t max_wr, uint32_t max_sge)
{
	memset(queue, 0, sizeof(*queue));
	queue->pd = pd;
	queue->type = type;
	queue->stride = (uint16_t)(sizeof(struct recv_wqe) + max_sge * sizeof(struct ibv_sge));
	queue->max_wr = round_up(max_wr);
	queue->max_sge = (uint16_t)max_sge;
	if (queue->max_wr) {
		queue->ring = buffer_alloc(pd, depot, queue->max_wr, queue->stride, type);
		if (!queue->ring)
			return -ENOMEM;
	}
	spin_init(&queue->lock);
	return 0;
}

void recv_queue_fini(struct recv_queue *queue, struct depot *depot)
{
	spin_destroy(&queue->lock);
	buffer_free(queue->pd, depot, queue->ring, (size_t)queue->max_wr * queue->stride,
		    queue->type);
}

static struct recv_wqe *wqe_at(const struct recv_queue *queue, uint32_t index)
{
	return (struct recv_wqe *)(queue->ring +
				   (size_t)(index & (queue->max_wr - 1)) * queue->stride);
}

static uint32_t head_of(const struct recv_queue *queue)
{
	return atomic_load_explicit(&queue->head, memory_order_acquire);
}

static uint32_t tail_of(const struct recv_queue *queue)
{
	return atomic_load_explicit(&queue->tail, memory_order_acquire);
}

static void set_head(struct recv_queue *queue, uint32_t head)
{
	atomic_store_explicit(&queue->head, head, memory_order_release);
}

static void set_tail(struct recv_queue *queue, uint32_t tail)
{
	atomic_store_explicit(&queue->tail, tail, memory_order_release);
}

ASIDE static int refuse_elements(const struct recv_queue *queue, const struct ibv_recv_wr *wr)
{
	return refuse(REASON_RECV_TOO_MANY_SGE, "wr_id %#llx has %d elements, the queue takes %u",
		      (unsigned long long)wr->wr_id, wr->num_sge, queue->max_sge);
}

ASIDE static int refuse_full(const struct recv_queue *queue, const struct ibv_recv_wr *wr)
{
	return refuse(REASON_RECV_QUEUE_FULL, "wr_id %#llx finds %u work requests posted",
		      (unsigned long long)wr->wr_id, recv_queue_count(queue));
}

static void fill(struct recv_wqe *wqe, const struct ibv_recv_wr *wr)
{
	uint64_t length = 0;

	wqe->wr_id = wr->wr_id;
	wqe->num_sge = (uint32_t)wr->num_sge;
	if (wr->num_sge == 1) { /* as mostly */
		wqe->length = wr->sg_list[0].length;
		wqe->sge[0] = wr->sg_list[0];
		return;
	}
	for (int i = 0; i < wr->num_sge; i++) {
		wqe->sge[i] = wr->sg_list[i];
		length += wr->sg_list[i].length;
	}
	wqe->length = length;
}

static int post_one(struct recv_queue *queue, const struct ibv_recv_wr *wr)
{
	uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > queue->max_sge)
		return refuse_elements(queue, wr);
	if (tail - head_of(queue) == queue->max_wr)
		return refuse_full(queue, wr);
	fill(wqe_at(queue, tail), wr);
	set_tail(queue, tail + 1);
	return 0;
}

int recv_queue_post(struct recv_queue *queue, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int ret = 0;

	spin_lock(&queue->lock);
	while (wr) {
		ret = post_one(queue, wr);
		if (ret)
			break;
		wr = wr->next;
	}
	spin_unlock(&queue->lock);
	if (ret)
		*bad = wr;
	return ret;
}

const struct recv_wqe *recv_queue_first(const struct recv_queue *queue)
{
	return recv_queue_count(queue) ? wqe_at(queue, head_of(queue)) : NULL;
}

void recv_queue_drop(struct recv_queue *queue)
{
	recv_queue_pass(queue, 1);
}

uint32_t recv_queue_count(const struct recv_queue *queue)
{
	return tail_of(queue) - head_of(queue);
}

const struct recv_wqe *recv_queue_at(const struct recv_queue *queue, uint32_t index)
{
	return wqe_at(queue, head_of(queue) + index);
}

void recv_queue_pass(struct recv_queue *queue, uint32_t count)
{
	set_head(queue, head_of(queue) + count);
}

static int take_locked(struct recv_queue *queue, struct recv_wqe *wqe)
{
	const struct recv_wqe *oldest = recv_queue_first(queue);

	if (!oldest)
		return -ENOENT;
	recv_wqe_copy(wqe, oldest);
	recv_queue_drop(queue);
	return 0;
}

int recv_queue_take(struct recv_queue *queue, struct recv_wqe *wqe)
{
	int ret;

	spin_lock(&queue->lock);
	ret = take_locked(queue, wqe);
	spin_unlock(&queue->lock);
	return ret;
}

void recv_queue_clear(struct recv_queue *queue)
{
	spin_lock(&queue->lock);
	set_head(queue, tail_of(queue));
	spin_unlock(&queue->lock);
}

int recv_queue_resize(struct recv_queue *queue, uint32_t max_wr)
{
	struct recv_queue new;
	uint32_t count;
	char *old;

	if (recv_queue_init(&new, queue->pd, NULL, queue->type, max_wr, queue->max_sge))
		return refuse(REASON_NO_MEMORY, "for %u receive work requests", max_wr);
	spin_lock(&queue->lock);
	count = recv_queue_count(queue);
	if (count > new.max_wr) {
		spin_unlock(&queue->lock);
		recv_queue_fini(&new, NULL);
		return refuse(REASON_SRQ_RESIZE, "max_wr is %u, %u work requests are posted",
			      max_wr, count);
	}
	for (uint32_t i = 0; i < count; i++)
		memcpy(wqe_at(&new, i), wqe_at(queue, head_of(queue) + i), queue->stride);
	old = queue->ring;
	queue->ring = new.ring;
	queue->max_wr = new.max_wr;
	set_head(queue, 0);
	set_tail(queue, count);
	spin_unlock(&queue->lock);
	spin_destroy(&new.lock);
	buffer_free(queue->pd, NULL, old, 0, queue->type);
	return 0;
}

/* ---- the object ---- */

static int check_attr(const struct adapter *adapter, const struct ibv_srq_attr *attr)
{
	if (!attr->max_wr || attr->max_wr > MAX_SRQ_WR)
		return refuse(REASON_SRQ_SIZE, "max_wr is %u; %s takes 1 to %u", attr->max_wr,
			      adapter->name, MAX_SRQ_WR);
	if (attr->max_sge > MAX_SGE)
		return refuse(REASON_SRQ_SGE, "max_sge is %u; %s takes up to %u", attr->max_sge,
			      adapter->name, MAX_SGE);
	return 0;
}

static int check_xrc(const struct adapter *adapter, const struct ibv_srq_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd)
		return refuse(REASON_SRQ_NO_XRCD, "comp_mask is %#x", attr->comp_mask);
	if (xrcd_of(attr->xrcd)->adapter != adapter)
		return refuse(REASON_SRQ_OTHER_DEVICE, "the PD is of %s, the XRCD of %s",
			      adapter->name, xrcd_of(attr->xrcd)->adapter->name);
	return 0;
}

static int check_tm(const struct adapter *adapter, const struct ibv_srq_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TM))
		return refuse(REASON_SRQ_NO_TM, "comp_mask is %#x", attr->comp_mask);
	if (!attr->tm_cap.max_num_tags || attr->tm_cap.max_num_tags > MAX_TAGS ||
	    !attr->tm_cap.max_ops || attr->tm_cap.max_ops > MAX_TAG_OPS)
		return refuse(REASON_SRQ_TM_SIZE,
			      "max_num_tags %u, max_ops %u; %s takes 1 to %u and 1 to %u",
			      attr->tm_cap.max_num_tags, attr->tm_cap.max_ops, adapter->name,
			      MAX_TAGS, MAX_TAG_OPS);
	return 0;
}

static int check_type(const struct adapter *adapter, const struct ibv_srq_init_attr_ex *attr)
{
	int ret = 0;

	if (attr->srq_type == IBV_SRQT_BASIC)
		return 0;
	if (attr->srq_type == IBV_SRQT_XRC)
		ret = check_xrc(adapter, attr);
	else if (attr->srq_type == IBV_SRQT_TM)
		ret = check_tm(adapter, attr);
	else
		ret = refuse(REASON_SRQ_TYPE, "srq_type is %d", attr->srq_type);
	if (ret)
		return ret;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq)
		return refuse(REASON_SRQ_NO_CQ, "comp_mask is %#x", attr->comp_mask);
	if (cq_of(attr->cq)->adapter != adapter)
		return refuse(REASON_SRQ_OTHER_DEVICE, "the PD is of %s, the CQ of %s",
			      adapter->name, cq_of(attr->cq)->adapter->name);
	return 0;
}

static void take_references(struct srq *srq, const struct ibv_srq_init_attr_ex *attr)
{
	srq->type = attr->srq_type;
	atomic_fetch_add(&srq->pd->users, 1);
	if (srq->type == IBV_SRQT_BASIC)
		return;
	srq->cq = cq_of(attr->cq);
	atomic_fetch_add(&srq->cq->users, 1);
	if (srq->type == IBV_SRQT_XRC) {
		srq->xrcd = xrcd_of(attr->xrcd);
		atomic_fetch_add(&srq->xrcd->users, 1);
	}
}

static void drop_references(struct srq *srq)
{
	if (srq->xrcd)
		atomic_fetch_sub(&srq->xrcd->users, 1);
	if (srq->cq)
		atomic_fetch_sub(&srq->cq->users, 1);
	atomic_fetch_sub(&srq->pd->users, 1);
}

uint32_t srq_wire_number(const struct srq *srq)
{
	return srq->adapter->slot << QPN_SLOT_SHIFT | srq->number;
}

int srq_create(struct pd *pd, struct ibv_srq_init_attr *attr, struct srq **srq)
{
	struct ibv_srq_init_attr_ex ex = {
	    .srq_context = attr->srq_context,
	    .attr = attr->attr,
	    .srq_type = IBV_SRQT_BASIC,
	};
	int ret = srq_create_ex(pd, &ex, srq);

	if (!ret)
		attr->attr = ex.attr;
	return ret;
}

int srq_create_ex(struct pd *pd, struct ibv_srq_init_attr_ex *attr, struct srq **srq)
{
	struct adapter *adapter = pd->adapter;
	struct srq *new;
	int ret = check_attr(adapter, &attr->attr);

	if (!ret)
		ret = check_type(adapter, attr);

	if (ret)
		return ret;
	new = calloc(1, sizeof(*new));
	if (!new || recv_queue_init(&new->queue, pd, NULL, VERBATIM_RESOURCE_SRQ, attr->attr.max_wr,
				    attr->attr.max_sge)) {
		free(new);
		return refuse(REASON_NO_MEMORY, "for an SRQ of %u", attr->attr.max_wr);
	}
	if (attr->srq_type == IBV_SRQT_TM &&
	    tag_list_init(&new->tags, attr->tm_cap.max_num_tags, attr->attr.max_sge)) {
		recv_queue_fini(&new->queue, NULL);
		free(new);
		return refuse(REASON_NO_MEMORY, "for an SRQ of %u", attr->attr.max_wr);
	}
	new->adapter = adapter;
	new->pd = pd;
	take_references(new, attr);
	ret = table_add(&adapter->srqs, 1, 0, new, &new->number);
	if (ret) {
		drop_references(new);
		tag_list_fini(&new->tags);
		recv_queue_fini(&new->queue, NULL);
		free(new);
		return ret == -ENOSPC ? refuse(REASON_TOO_MANY_SRQS, "%s has %u SRQs already",
					       adapter->name, MAX_SRQ - 1)
				      : refuse(REASON_NO_MEMORY, "for the table of SRQs");
	}
	new->ibv.pd = &pd->ibv;
	new->ibv.srq_context = attr->srq_context;
	new->ibv.handle = new->number;
	attr->attr.max_wr = new->queue.max_wr;
	*srq = new;
	return 0;
}

int srq_check_idle(const struct srq *srq)
{
	unsigned int users = atomic_load(&srq->users);

	if (users)
		return refuse(REASON_SRQ_BUSY, "SRQ %u still serves %u QPs", srq->number, users);
	return 0;
}

int srq_destroy(struct srq *srq)
{
	int ret = srq_check_idle(srq);

	if (ret)
		return ret;
	table_remove(&srq->adapter->srqs, srq->number);
	if (srq->adapter->host->quiesce)
		srq->adapter->host->quiesce(srq->adapter);
	tag_list_fini(&srq->tags);
	recv_queue_fini(&srq->queue, NULL);
	drop_references(srq);
	free(srq);
	return 0;
}

static int check_modify(struct srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	uint32_t max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->queue.max_wr;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return refuse(REASON_SRQ_MASK, "srq_attr_mask is %#x", mask);
	if (!max_wr || max_wr > MAX_SRQ_WR)
		return refuse(REASON_SRQ_SIZE, "max_wr is %u; %s takes 1 to %u", max_wr,
			      srq->adapter->name, MAX_SRQ_WR);
	if (mask & IBV_SRQ_LIMIT && attr->srq_limit > max_wr)
		return refuse(REASON_SRQ_LIMIT, "srq_limit is %u, SRQ %u holds up to %u",
			      attr->srq_limit, srq->number, max_wr);
	return 0;
}

int srq_modify(struct srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	int ret = check_modify(srq, attr, mask);

	if (!ret && mask & IBV_SRQ_MAX_WR)
		ret = recv_queue_resize(&srq->queue, attr->max_wr);
	if (!ret && mask & IBV_SRQ_LIMIT) {
		spin_lock(&srq->queue.lock);
		srq->limit = attr->srq_limit;
		spin_unlock(&srq->queue.lock);
	}
	return ret;
}

int srq_query(struct srq *srq, struct ibv_srq_attr *attr)
{
	spin_lock(&srq->queue.lock);
	attr->max_wr = srq->queue.max_wr;
	attr->max_sge = srq->queue.max_sge;
	attr->srq_limit = srq->limit;
	spin_unlock(&srq->queue.lock);
	return 0;
}

/* One was taken, with the lock, which is let go. */
static void let_go(struct srq *srq)
{
	struct ibv_async_event event = {.event_type = IBV_EVENT_SRQ_LIMIT_REACHED,
					.element.srq = &srq->ibv};
	bool is_below = recv_queue_count(&srq->queue) < srq->limit;

	if (is_below)
		srq->limit = 0;
	spin_unlock(&srq->queue.lock);
	if (is_below && srq->adapter->host->async_event)
		srq->adapter->host->async_event(srq->adapter, &event);
}

int srq_take(struct srq *srq, struct recv_wqe *wqe)
{
	spin_lock(&srq->queue.lock);
	if (take_locked(&srq->queue, wqe)) {
		spin_unlock(&srq->queue.lock);
		return -ENOENT;
	}
	let_go(srq);
	return 0;
}

int srq_take_single(struct srq *srq, struct recv_wqe *wqe)
{
	const struct recv_wqe *oldest;

	spin_lock(&srq->queue.lock);
	oldest = recv_queue_first(&srq->queue);
	if (!oldest || oldest->num_sge != 1) {
		spin_unlock(&srq->queue.lock);
		return -ENOENT;
	}
	memcpy(wqe, oldest, RECV_WQE_SINGLE);
	recv_queue_drop(&srq->queue);
	let_go(srq);
	return 0;
}
