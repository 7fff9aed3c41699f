/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tag list: adding, deleting, synchronizing and matching.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/adapter.h"
#include "device/cq.h"
#include "device/srq.h"
#include "device/tag.h"
#include "explain/reason.h"

struct tag_entry {
	struct cds_list_head node;
	uint32_t index;
	uint32_t
	    generation; /* of this place in the table: an old handle does not fit a new entry */
	bool is_posted, is_active;
	uint64_t tag, mask;
	struct recv_wqe wqe; /* its elements follow */
};

enum { INDEX_BITS = 16, INDEX_MASK = (1 << INDEX_BITS) - 1 };

static struct tag_entry *entry_at(const struct tag_list *list, uint32_t index)
{
	return (struct tag_entry *)(list->entries + index * list->stride);
}

int tag_list_init(struct tag_list *list, uint32_t max, uint32_t max_sge)
{
	size_t size = sizeof(struct tag_entry) + max_sge * sizeof(struct ibv_sge);

	memset(list, 0, sizeof(*list));
	list->stride = (size + 7) & ~(size_t)7;
	list->entries = calloc(max, list->stride);
	if (!list->entries)
		return -ENOMEM;
	list->max = max;
	CDS_INIT_LIST_HEAD(&list->posted);
	CDS_INIT_LIST_HEAD(&list->free);
	for (uint32_t i = 0; i < max; i++) {
		entry_at(list, i)->index = i;
		cds_list_add_tail(&entry_at(list, i)->node, &list->free);
	}
	pthread_mutex_init(&list->lock, NULL);
	return 0;
}

void tag_list_fini(struct tag_list *list)
{
	if (!list->entries)
		return;
	pthread_mutex_destroy(&list->lock);
	free(list->entries);
}

/* The program's count may have 16 bits only, as that of hardware has. */
static bool is_in_step(const struct tag_list *list)
{
	return (uint16_t)list->unexpected == (uint16_t)list->handled;
}

static void release(struct tag_list *list, struct tag_entry *entry)
{
	entry->is_posted = false;
	entry->generation++;
	cds_list_del(&entry->node);
	cds_list_add_tail(&entry->node, &list->free);
}

static uint32_t handle_of(const struct tag_entry *entry)
{
	return entry->generation << INDEX_BITS | entry->index;
}

/* ---- the operations, with the lock held ---- */

static int add(struct srq *srq, struct ibv_ops_wr *op)
{
	struct tag_list *list = &srq->tags;
	struct tag_entry *entry;

	if (op->tm.add.num_sge < 0 || (uint32_t)op->tm.add.num_sge > srq->queue.max_sge)
		return refuse(REASON_TAG_SGE, "wr_id %#llx has %d elements, SRQ %u takes %u",
			      (unsigned long long)op->wr_id, op->tm.add.num_sge, srq->number,
			      srq->queue.max_sge);
	if (cds_list_empty(&list->free))
		return refuse(REASON_TAG_LIST_FULL, "wr_id %#llx finds %u tags in SRQ %u",
			      (unsigned long long)op->wr_id, list->max, srq->number);
	entry = cds_list_first_entry(&list->free, struct tag_entry, node);
	entry->is_posted = true;
	entry->is_active = is_in_step(list);
	entry->tag = op->tm.add.tag;
	entry->mask = op->tm.add.mask;
	entry->wqe.wr_id = op->tm.add.recv_wr_id;
	entry->wqe.num_sge = (uint32_t)op->tm.add.num_sge;
	entry->wqe.length = 0;
	for (int i = 0; i < op->tm.add.num_sge; i++) {
		entry->wqe.sge[i] = op->tm.add.sg_list[i];
		entry->wqe.length += op->tm.add.sg_list[i].length;
	}
	cds_list_del(&entry->node);
	cds_list_add_tail(&entry->node, &list->posted);
	op->tm.handle = handle_of(entry);
	return 0;
}

/* False: it is not there, a message has taken it most likely. */
static bool delete (struct tag_list *list, uint32_t handle)
{
	uint32_t index = handle & INDEX_MASK;
	struct tag_entry *entry = index < list->max ? entry_at(list, index) : NULL;

	if (!entry || !entry->is_posted || handle_of(entry) != handle)
		return false;
	release(list, entry);
	return true;
}

static void synchronize(struct tag_list *list, uint32_t handled)
{
	struct tag_entry *entry;

	list->handled = handled;
	if (!is_in_step(list))
		return;
	cds_list_for_each_entry (entry, &list->posted, node)
		entry->is_active = true;
}

/* ---- posting ---- */

static int check(const struct srq *srq, const struct ibv_ops_wr *op)
{
	const int known = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;

	if ((unsigned int)op->opcode > IBV_WR_TAG_SYNC)
		return refuse(REASON_TAG_OPCODE, "wr_id %#llx on SRQ %u: opcode is %d",
			      (unsigned long long)op->wr_id, srq->number, op->opcode);
	if (op->flags & ~known)
		return refuse(REASON_TAG_FLAGS, "wr_id %#llx on SRQ %u: flags is %#x",
			      (unsigned long long)op->wr_id, srq->number, op->flags);
	return 0;
}

static int execute(struct srq *srq, struct ibv_ops_wr *op, struct ibv_wc *wc)
{
	static const enum ibv_wc_opcode opcodes[] = {
	    [IBV_WR_TAG_ADD] = IBV_WC_TM_ADD,
	    [IBV_WR_TAG_DEL] = IBV_WC_TM_DEL,
	    [IBV_WR_TAG_SYNC] = IBV_WC_TM_SYNC,
	};
	struct tag_list *list = &srq->tags;
	int ret = 0;

	wc->wr_id = op->wr_id;
	wc->opcode = opcodes[op->opcode];
	if (op->flags & IBV_OPS_TM_SYNC || op->opcode == IBV_WR_TAG_SYNC)
		synchronize(list, op->tm.unexpected_cnt);
	if (op->opcode == IBV_WR_TAG_ADD)
		ret = add(srq, op);
	if (op->opcode == IBV_WR_TAG_DEL && !delete (list, op->tm.handle)) {
		wc->status =
		    refuse_wr(REASON_TAG_GONE, "SRQ %u, handle %#x", srq->number, op->tm.handle);
		wc->vendor_err = REASON_TAG_GONE;
	}
	if (!is_in_step(list))
		wc->wc_flags |= IBV_WC_TM_SYNC_REQ;
	return ret;
}

/* Its CQ lost a completion: the list and the program are not in step any more. */
static void fail(struct srq *srq)
{
	struct ibv_async_event event = {.event_type = IBV_EVENT_SRQ_ERR, .element.srq = &srq->ibv};

	if (srq->adapter->host->async_event)
		srq->adapter->host->async_event(srq->adapter, &event);
}

static int post_one(struct srq *srq, struct ibv_ops_wr *op, uint64_t now)
{
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
	int ret = check(srq, op), lost = 0;

	if (ret)
		return ret;
	pthread_mutex_lock(&srq->tags.lock);
	ret = execute(srq, op, &wc);
	/* in here, lest a message that takes the tag completes before its adding does */
	if (!ret && (op->flags & IBV_OPS_SIGNALED || wc.status != IBV_WC_SUCCESS))
		lost = cq_push(srq->cq, &wc, false, now);
	pthread_mutex_unlock(&srq->tags.lock);
	if (lost)
		fail(srq);
	return ret;
}

int tag_post(struct srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad, uint64_t now)
{
	int ret = 0;

	if (srq->type != IBV_SRQT_TM)
		ret = refuse(REASON_SRQ_NOT_TM, "SRQ %u", srq->number);
	while (op && !ret) {
		ret = post_one(srq, op, now);
		if (!ret)
			op = op->next;
	}
	if (ret)
		*bad = op;
	return ret;
}

/* ---- messages ---- */

bool tag_match(struct srq *srq, uint64_t tag, struct recv_wqe *wqe)
{
	struct tag_list *list = &srq->tags;
	struct tag_entry *entry, *found = NULL;

	pthread_mutex_lock(&list->lock);
	cds_list_for_each_entry (entry, &list->posted, node) {
		if (!entry->is_active || (tag & entry->mask) != entry->tag)
			continue;
		found = entry;
		break;
	}
	if (found) {
		memcpy(wqe, &found->wqe,
		       sizeof(*wqe) + found->wqe.num_sge * sizeof(struct ibv_sge));
		release(list, found);
	} else {
		list->unexpected++;
	}
	pthread_mutex_unlock(&list->lock);
	return found;
}

void tag_unexpected_undo(struct srq *srq)
{
	pthread_mutex_lock(&srq->tags.lock);
	srq->tags.unexpected--;
	pthread_mutex_unlock(&srq->tags.lock);
}
