/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues. The ring holds exactly as many entries as were asked for, so that an overrun
 * shows here as it would on the smallest hardware.
 */
#include <errno.h>
#include <stdlib.h>

#include <infiniband/verbatim.h>

#include "base/hot.h"
#include "device/adapter.h"
#include "device/buffer.h"
#include "device/cq.h"
#include "device/pd.h"
#include "explain/reason.h"

static int check_size(const struct adapter *adapter, uint32_t cqe)
{
	if (!cqe || cqe > MAX_CQE)
		return refuse(REASON_CQ_SIZE, "cqe is %u; %s takes 1 to %u", cqe, adapter->name,
			      MAX_CQE);
	return 0;
}

static int create(struct adapter *adapter, struct pd *pd, uint32_t cqe, struct cq **cq)
{
	struct cq *new;
	int ret = check_size(adapter, cqe);

	if (ret)
		return ret;
	if (atomic_load(&adapter->cq_count) >= MAX_CQ)
		return refuse(REASON_TOO_MANY_CQS, "%s has %u CQs already", adapter->name, MAX_CQ);
	new = calloc(1, sizeof(*new));
	if (!new)
		return refuse(REASON_NO_MEMORY, "for a CQ");
	new->ring = buffer_alloc(pd, NULL, cqe, sizeof(*new->ring), VERBATIM_RESOURCE_CQ);
	if (!new->ring) {
		free(new);
		return refuse(REASON_NO_MEMORY, "for a CQ of %u entries", cqe);
	}
	new->adapter = adapter;
	new->capacity = cqe;
	atomic_init(&new->event_at, CQ_NO_EVENT);
	new->ibv.cqe = (int)cqe;
	new->ibv.handle = atomic_fetch_add(&adapter->last_handle, 1) + 1;
	spin_init(&new->lock);
	atomic_fetch_add(&adapter->cq_count, 1);
	new->pd = pd;
	if (pd)
		atomic_fetch_add(&pd->users, 1);
	*cq = new;
	return 0;
}

int cq_create(struct adapter *adapter, uint32_t cqe, struct cq **cq)
{
	return create(adapter, NULL, cqe, cq);
}

int cq_create_in(struct pd *pd, uint32_t cqe, struct cq **cq)
{
	return create(pd->adapter, pd, cqe, cq);
}

int cq_check_idle(const struct cq *cq)
{
	unsigned int users = atomic_load(&cq->users);

	if (users)
		return refuse(REASON_CQ_BUSY, "CQ %u still serves %u queues", cq->ibv.handle,
			      users);
	return 0;
}

int cq_destroy(struct cq *cq)
{
	int ret = cq_check_idle(cq);

	if (ret)
		return ret;
	atomic_fetch_sub(&cq->adapter->cq_count, 1);
	spin_destroy(&cq->lock);
	buffer_free(cq->pd, NULL, cq->ring, 0, VERBATIM_RESOURCE_CQ);
	if (cq->pd)
		atomic_fetch_sub(&cq->pd->users, 1);
	free(cq);
	return 0;
}

static uint32_t ring_index(const struct cq *cq, uint32_t offset)
{
	uint32_t index = cq->head + offset;

	return index >= cq->capacity ? index - cq->capacity : index;
}

static uint32_t count_locked(const struct cq *cq)
{
	return atomic_load_explicit(&cq->count, memory_order_relaxed);
}

static void set_count(struct cq *cq, uint32_t count)
{
	atomic_store_explicit(&cq->count, count, memory_order_release);
}

static bool is_overrun(const struct cq *cq)
{
	return atomic_load_explicit(&cq->is_overrun, memory_order_relaxed);
}

int cq_resize(struct cq *cq, uint32_t cqe)
{
	struct cqe *ring, *old;
	uint32_t held;
	int ret = check_size(cq->adapter, cqe);

	if (ret)
		return ret;
	ring = buffer_alloc(cq->pd, NULL, cqe, sizeof(*ring), VERBATIM_RESOURCE_CQ);
	if (!ring)
		return refuse(REASON_NO_MEMORY, "for a CQ of %u entries", cqe);
	spin_lock(&cq->lock);
	held = count_locked(cq);
	if (held > cqe) {
		spin_unlock(&cq->lock);
		buffer_free(cq->pd, NULL, ring, 0, VERBATIM_RESOURCE_CQ);
		return refuse(REASON_CQ_RESIZE, "cqe is %u, CQ %u holds %u completions", cqe,
			      cq->ibv.handle, held);
	}
	for (uint32_t i = 0; i < held; i++)
		ring[i] = cq->ring[ring_index(cq, i)];
	old = cq->ring;
	cq->ring = ring;
	cq->capacity = cqe;
	cq->head = 0;
	cq->ibv.cqe = (int)cqe;
	spin_unlock(&cq->lock);
	buffer_free(cq->pd, NULL, old, 0, VERBATIM_RESOURCE_CQ);
	return 0;
}

/* Full: the oldest makes room where the program said that it takes care, else the CQ is in error
 * for good. */
static bool make_room(struct cq *cq)
{
	if (!cq->ignore_overrun) {
		atomic_store_explicit(&cq->is_overrun, true, memory_order_relaxed);
		return false;
	}
	cq->head = ring_index(cq, 1);
	set_count(cq, count_locked(cq) - 1);
	return true;
}

ASIDE static int overrun(struct cq *cq, bool is_first, const struct ibv_wc *wc)
{
	struct ibv_async_event event = {.event_type = IBV_EVENT_CQ_ERR, .element.cq = &cq->ibv};

	if (!is_first)
		return -EOVERFLOW;
	refuse(REASON_CQ_OVERRUN, "CQ %u of %d entries was full when QP %#x completed wr_id %#llx",
	       cq->ibv.handle, cq->ibv.cqe, wc->qp_num, (unsigned long long)wc->wr_id);
	if (cq->adapter->host->async_event)
		cq->adapter->host->async_event(cq->adapter, &event);
	return -EOVERFLOW;
}

static void set_event_at(struct cq *cq, uint64_t at)
{
	atomic_store_explicit(&cq->event_at, at, memory_order_relaxed);
}

static void disarm(struct cq *cq)
{
	cq->arm = CQ_NOT_ARMED;
	cq->held = 0;
	set_event_at(cq, CQ_NO_EVENT);
}

/* ---- straight to who polls ---- */

static _Thread_local struct cq_taking *shared;

void cq_take_share(struct cq_taking *taking)
{
	taking->is_shared = true;
	shared = taking;
}

void cq_take_unshare(void)
{
	shared = NULL;
}

int cq_take_count(void)
{
	return shared ? shared->count : 0;
}

struct cq_taking *cq_take_own(void)
{
	return shared;
}

static bool take(struct cq *cq, const struct cqe *cqe)
{
	struct ibv_wc *place = cq_take_next(shared, cq);

	if (place)
		*place = cqe->wc;
	return place;
}

uint32_t cq_room(const struct cq *cq)
{
	uint32_t count = count_locked(cq);
	uint32_t capacity = atomic_load_explicit(&cq->capacity, memory_order_relaxed);

	if (atomic_load_explicit(&cq->moderate_ns, memory_order_relaxed) || count > capacity)
		return 0;
	return capacity - count;
}

bool cq_has_room(const struct cq *cq, uint32_t count)
{
	return cq_room(cq) >= count;
}

/* Whether what was just added raises the event now. With the lock held. */
static bool is_event_due(struct cq *cq, const struct cqe *cqe, bool is_solicited)
{
	bool is_error = cqe->wc.status != IBV_WC_SUCCESS;
	bool is_wanted = cq->arm == CQ_ARMED_NEXT ||
			 (cq->arm == CQ_ARMED_SOLICITED && (is_solicited || is_error));

	if (!is_wanted)
		return false;
	if (is_error || (!cq->moderate_ns && cq->moderate_count <= 1))
		return true;
	if (++cq->held >= cq->moderate_count && cq->moderate_count)
		return true;
	if (cq->moderate_ns && cq_event_at(cq) == CQ_NO_EVENT)
		set_event_at(cq, cqe->timestamp + cq->moderate_ns);
	return false;
}

ASIDE static void raise_event(struct cq *cq)
{
	if (cq->adapter->host->cq_event)
		cq->adapter->host->cq_event(cq);
}

/* With the lock. */
static struct cqe *next_place(struct cq *cq)
{
	if (!count_locked(cq))
		cq->head = 0; /* in the cache, as one of the last that was used */
	return cq_row_at(cq, 0);
}

/* Of completions that are there by now, with the lock, which it gives up. */
static void end_adding(struct cq *cq, bool is_event)
{
	if (is_event)
		disarm(cq);
	spin_unlock(&cq->lock);
	if (is_event)
		raise_event(cq);
}

void cq_added(struct cq *cq, const struct cqe *cqe, bool is_solicited)
{
	set_count(cq, count_locked(cq) + 1);
	end_adding(cq, is_event_due(cq, cqe, is_solicited));
}

int cq_push_cqe(struct cq *cq, const struct cqe *cqe, bool is_solicited)
{
	bool was_overrun;
	struct cqe *place;

	if (take(cq, cqe))
		return 0;
	spin_lock(&cq->lock);
	was_overrun = is_overrun(cq);
	if (was_overrun || (count_locked(cq) == cq->capacity && !make_room(cq))) {
		spin_unlock(&cq->lock);
		return overrun(cq, !was_overrun, &cqe->wc);
	}
	place = next_place(cq);
	*place = *cqe;
	cq_added(cq, place, is_solicited);
	return 0;
}

struct cqe *cq_add(struct cq *cq)
{
	spin_lock(&cq->lock);
	if (count_locked(cq) < cq->capacity && !is_overrun(cq))
		return next_place(cq);
	spin_unlock(&cq->lock);
	return NULL;
}

uint32_t cq_add_row(struct cq *cq, uint32_t count)
{
	uint32_t room;

	spin_lock(&cq->lock);
	room = is_overrun(cq) ? 0 : cq->capacity - count_locked(cq);
	if (!room)
		spin_unlock(&cq->lock);
	else if (!count_locked(cq))
		cq->head = 0;
	return count < room ? count : room;
}

struct cqe *cq_row_at(struct cq *cq, uint32_t index)
{
	return &cq->ring[ring_index(cq, count_locked(cq) + index)];
}

void cq_added_row(struct cq *cq, uint32_t count, bool is_solicited)
{
	bool is_event = false;

	for (uint32_t i = 0; i < count && !is_event && cq->arm != CQ_NOT_ARMED; i++)
		is_event = is_event_due(cq, cq_row_at(cq, i), is_solicited);
	set_count(cq, count_locked(cq) + count);
	end_adding(cq, is_event);
}

int cq_push(struct cq *cq, const struct ibv_wc *wc, bool is_solicited, uint64_t now)
{
	struct cqe cqe = {.wc = *wc, .timestamp = now};

	return cq_push_cqe(cq, &cqe, is_solicited);
}

void cq_moderate(struct cq *cq, uint16_t count, uint16_t period_us)
{
	bool is_event;

	spin_lock(&cq->lock);
	cq->moderate_count = count;
	cq->moderate_ns = (uint64_t)period_us * 1000;
	is_event = cq->held; /* what is held was counted by the old rule: tell it */
	if (is_event)
		disarm(cq);
	spin_unlock(&cq->lock);
	if (is_event)
		raise_event(cq);
}

void cq_query(struct cq *cq, struct cq_status *status)
{
	spin_lock(&cq->lock);
	*status = (struct cq_status){
	    .entries = cq->capacity,
	    .held = count_locked(cq),
	    .arm = cq->arm,
	    .is_overrun = is_overrun(cq),
	    .moderate_count = cq->moderate_count,
	    .moderate_us = (uint16_t)(cq->moderate_ns / 1000),
	};
	spin_unlock(&cq->lock);
}

void cq_expire(struct cq *cq, uint64_t now)
{
	bool is_event;

	if (now < cq_event_at(cq))
		return;
	spin_lock(&cq->lock);
	is_event = now >= cq_event_at(cq);
	if (is_event)
		disarm(cq);
	spin_unlock(&cq->lock);
	if (is_event)
		raise_event(cq);
}

int cq_poll(struct cq *cq, int count, struct ibv_wc *wc)
{
	uint32_t held, taken;
	bool is_lost;

	if (cq_is_empty(cq))
		return 0;
	spin_lock(&cq->lock);
	held = count_locked(cq);
	is_lost = is_overrun(cq);
	for (taken = 0; taken < held && (int)taken < count; taken++) {
		wc[taken] = cq->ring[cq->head].wc;
		cq->head = ring_index(cq, 1);
	}
	set_count(cq, held - taken);
	spin_unlock(&cq->lock);
	return !held && is_lost ? -EOVERFLOW : (int)taken;
}

int cq_poll_one(struct cq *cq, struct cqe *cqe)
{
	int ret = -ENOENT;

	spin_lock(&cq->lock);
	if (count_locked(cq)) {
		*cqe = cq->ring[cq->head];
		cq->head = ring_index(cq, 1);
		set_count(cq, count_locked(cq) - 1);
		ret = 0;
	} else if (is_overrun(cq)) {
		ret = -EOVERFLOW;
	}
	spin_unlock(&cq->lock);
	return ret;
}

void cq_arm(struct cq *cq, bool solicited_only)
{
	enum cq_arm arm = solicited_only ? CQ_ARMED_SOLICITED : CQ_ARMED_NEXT;

	spin_lock(&cq->lock);
	if (arm > cq->arm)
		cq->arm = arm;
	spin_unlock(&cq->lock);
}

void cq_forget(struct cq *cq, uint32_t qpn)
{
	uint32_t held, kept = 0;

	spin_lock(&cq->lock);
	held = count_locked(cq);
	for (uint32_t i = 0; i < held; i++) {
		const struct cqe *cqe = &cq->ring[ring_index(cq, i)];

		if (cqe->wc.qp_num != qpn)
			cq->ring[ring_index(cq, kept++)] = *cqe;
	}
	set_count(cq, kept);
	spin_unlock(&cq->lock);
}
