/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions: making keys, and the one place where a key, a range and a right are checked.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/hot.h"
#include "device/adapter.h"
#include "device/mr.h"
#include "device/pd.h"

enum {
	KEY_RANDOM_BITS = 12,
	KEY_RANDOM_MASK = (1 << KEY_RANDOM_BITS) - 1,
	FIRST_INDEX = 1, /* so that no key is 0, which programs use for "none" */

	ACCESS_KNOWN = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
		       IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_FLUSH_GLOBAL |
		       IBV_ACCESS_FLUSH_PERSISTENT | IBV_ACCESS_OPTIONAL_RANGE,
};

static int check_access(unsigned int access)
{
	const unsigned int writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	if (access & ~(unsigned int)ACCESS_KNOWN)
		return refuse(REASON_MR_ACCESS_UNKNOWN, "access is %#x, of which %#x is unknown",
			      access, access & ~(unsigned int)ACCESS_KNOWN);
	if (access & writes && !(access & IBV_ACCESS_LOCAL_WRITE))
		return refuse(REASON_MR_NEEDS_LOCAL_WRITE,
			      "access is %#x: %s%s without LOCAL_WRITE", access,
			      access & IBV_ACCESS_REMOTE_WRITE ? " REMOTE_WRITE" : "",
			      access & IBV_ACCESS_REMOTE_ATOMIC ? " REMOTE_ATOMIC" : "");
	return 0;
}

/* The whole address space (implicit ODP) is the one range that may end at its last byte but one. */
static int check_range(const void *addr, size_t length, uint64_t iova)
{
	if (length && (uintptr_t)addr + (length - 1) < (uintptr_t)addr)
		return refuse(REASON_MR_RANGE, "%zu bytes at %p go past the end of memory", length,
			      addr);
	if (length && iova + (length - 1) < iova)
		return refuse(REASON_MR_RANGE, "%zu bytes at iova %#llx go past 2^64", length,
			      (unsigned long long)iova);
	return 0;
}

static void make_keys(struct mr *mr, uint32_t index)
{
	uint32_t random = mr->adapter->host->random(mr->adapter);
	uint32_t local = random & KEY_RANDOM_MASK;
	uint32_t remote = random >> KEY_RANDOM_BITS & KEY_RANDOM_MASK;

	if (remote == local)
		remote ^= 1;
	mr->lkey = index << KEY_RANDOM_BITS | local;
	mr->rkey = index << KEY_RANDOM_BITS | remote;
	mr->ibv.lkey = mr->lkey;
	mr->ibv.rkey = mr->rkey;
}

/* The keys depend on the index, so the region is in the table before it has them: look-ups wait for
 * is_valid. */
static int enlist(struct mr *mr)
{
	struct table *mrs = &mr->adapter->mrs;
	uint32_t index;
	int ret;

	pthread_mutex_lock(&mr->adapter->lock);
	ret = table_add(mrs, FIRST_INDEX, 0, mr, &index);
	if (!ret) {
		make_keys(mr, index);
		atomic_store_explicit(&mr->is_valid, true, memory_order_release);
	}
	pthread_mutex_unlock(&mr->adapter->lock);
	if (ret == -ENOSPC)
		return refuse(REASON_TOO_MANY_MRS, "%s has %u MRs already", mr->adapter->name,
			      MAX_MR - 1);
	return ret ? refuse(REASON_NO_MEMORY, "for the table of MRs") : 0;
}

/*
 * Those without remote rights, too: SENDs are fetched from there (transport/offer.h). A null region
 * has no memory. On demand means that the program may change what lies there and its protection,
 * which nobody looks at who goes past it.
 */
static void publish(struct mr *mr)
{
	const struct adapter_host *host = mr->adapter->host;

	if (host->publish_mr && !mr->is_null && mr->length && !(mr->access & IBV_ACCESS_ON_DEMAND))
		mr->is_published = host->publish_mr(mr->adapter, mr);
}

static void withdraw(struct mr *mr)
{
	if (mr->is_published)
		mr->adapter->host->withdraw_mr(mr->adapter, mr);
	mr->is_published = false;
}

static void release(struct mr *mr)
{
	pthread_mutex_destroy(&mr->change);
	free(mr);
}

/* Enlists it, or frees it. */
static int finish(struct mr *new, struct mr **mr)
{
	struct pd *pd = new->pd;
	int ret;

	new->ibv.pd = &pd->ibv;
	new->ibv.handle = atomic_fetch_add(&pd->adapter->last_handle, 1) + 1;
	ret = enlist(new);
	if (ret) {
		release(new);
		return ret;
	}
	atomic_fetch_add(&pd->users, 1);
	publish(new);
	*mr = new;
	return 0;
}

static struct mr *alloc(struct pd *pd)
{
	struct mr *new = calloc(1, sizeof(*new));

	if (!new) {
		refuse(REASON_NO_MEMORY, "for an MR");
		return NULL;
	}
	new->adapter = pd->adapter;
	new->pd = pd;
	new->protection = pd->protection;
	atomic_init(&new->handles, 1);
	atomic_init(&new->is_valid, false);
	pthread_mutex_init(&new->change, NULL);
	return new;
}

int mr_create(struct pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access,
	      struct mr **mr)
{
	struct mr *new;
	int ret;

	if (access & IBV_ACCESS_ZERO_BASED)
		iova = 0;
	ret = check_access(access);
	if (!ret)
		ret = check_range(addr, length, iova);
	if (ret)
		return ret;
	new = alloc(pd);
	if (!new)
		return ENOMEM;
	new->base = addr;
	new->iova = iova;
	new->length = length;
	new->access = access;
	new->ibv.addr = addr;
	new->ibv.length = length;
	return finish(new, mr);
}

int mr_create_null(struct pd *pd, struct mr **mr)
{
	struct mr *new = alloc(pd);
	int ret;

	if (!new)
		return ENOMEM;
	new->length = UINT64_MAX;
	new->access = IBV_ACCESS_LOCAL_WRITE;
	new->is_null = true;
	ret = finish(new, mr);
	if (!ret)
		new->ibv.rkey = 0;
	return ret;
}

static int check_windows(const struct mr *mr)
{
	unsigned int windows = atomic_load(&mr->windows);

	if (windows)
		return refuse(REASON_MR_HAS_WINDOWS, "MR %u: %u windows are bound to it",
			      mr->ibv.handle, windows);
	return 0;
}

/* What was remembered of regions counts no more, and who uses it, or has found one, is through. */
static void quiesce(struct adapter *adapter)
{
	atomic_fetch_add(&adapter->mr_changes, 1);
	if (adapter->host->quiesce)
		adapter->host->quiesce(adapter);
}

/*
 * Look-ups find nothing any more, and who found it before is through. Only then is it certain that
 * no binding came between: if one did, all is as it was. 0, or EBUSY.
 */
static int suspend(struct mr *mr)
{
	int ret = check_windows(mr);

	if (ret)
		return ret;
	atomic_store_explicit(&mr->is_valid, false, memory_order_release);
	withdraw(mr);
	quiesce(mr->adapter);
	ret = check_windows(mr);
	if (ret) {
		atomic_store_explicit(&mr->is_valid, true, memory_order_release);
		publish(mr);
	}
	return ret;
}

int mr_end(struct mr *handle)
{
	struct mr *mr = mr_origin(handle);
	int ret;

	pthread_mutex_lock(&mr->change);
	ret = mr->access & IBV_ACCESS_MW_BIND ? suspend(mr) : 0;
	pthread_mutex_unlock(&mr->change);
	if (ret || atomic_exchange(&mr->is_ended, true))
		return ret;
	pthread_mutex_lock(&mr->adapter->lock); /* who looks at it for advice is through */
	table_remove(&mr->adapter->mrs, mr->lkey >> KEY_RANDOM_BITS);
	pthread_mutex_unlock(&mr->adapter->lock);
	withdraw(mr);
	quiesce(mr->adapter);
	atomic_fetch_sub(&mr->pd->users, 1);
	return 0;
}

void mr_hold(struct mr *origin)
{
	atomic_fetch_add(&origin->handles, 1);
}

void mr_release(struct mr *handle)
{
	struct mr *mr = mr_origin(handle);

	if (handle != mr) {
		atomic_fetch_sub(&handle->pd->users, 1);
		release(handle);
	}
	if (atomic_fetch_sub(&mr->handles, 1) == 1)
		release(mr);
}

int mr_destroy(struct mr *mr)
{
	int ret = mr_end(mr);

	if (!ret)
		mr_release(mr);
	return ret;
}

int mr_import(struct pd *pd, struct mr *origin, struct mr **mr)
{
	struct mr *new = alloc(pd);

	if (!new)
		return ENOMEM;
	new->origin = origin;
	new->ibv = origin->ibv;
	new->ibv.pd = &pd->ibv;
	new->ibv.addr = NULL;
	atomic_fetch_add(&pd->users, 1);
	*mr = new;
	return 0;
}

void mr_describe(struct mr *handle, struct verbatim_mr_attr *attr)
{
	struct mr *mr = mr_origin(handle);

	pthread_mutex_lock(&mr->adapter->lock); /* mr_change() changes it whole */
	*attr = (struct verbatim_mr_attr){
	    .pd = &handle->pd->ibv,
	    .iova = mr->iova,
	    .length = mr->length,
	    .access = mr->access,
	    .lkey = mr->lkey,
	    .rkey = mr->is_null ? 0 : mr->rkey,
	    .windows = atomic_load(&mr->windows),
	    .is_ended = atomic_load(&mr->is_ended),
	};
	pthread_mutex_unlock(&mr->adapter->lock);
}

void mr_lies_in(struct mr *mr, const struct mr_file *file)
{
	withdraw(mr);
	mr->file = *file;
	publish(mr);
}

void mr_take_keys(struct mr *mr, uint32_t lkey, uint32_t rkey)
{
	struct table *mrs = &mr->adapter->mrs;
	uint32_t index = lkey >> KEY_RANDOM_BITS, got;

	if (index < FIRST_INDEX || index >= MAX_MR || rkey >> KEY_RANDOM_BITS != index ||
	    lkey == rkey)
		return;
	withdraw(mr);
	pthread_mutex_lock(&mr->adapter->lock);
	if (!table_find(mrs, index) && !table_add(mrs, FIRST_INDEX, index, mr, &got)) {
		if (got == index) {
			table_remove(mrs, mr->lkey >> KEY_RANDOM_BITS);
			mr->lkey = mr->ibv.lkey = lkey;
			mr->rkey = mr->ibv.rkey = rkey;
		} else {
			table_remove(mrs, got);
		}
	}
	pthread_mutex_unlock(&mr->adapter->lock);
	publish(mr);
}

/* What the region would be with a change; of it only the fields that ibv_rereg_mr() changes. */
static int draft_change(const struct mr *mr, const struct mr_change *change, struct mr *draft)
{
	bool was_zero_based = mr->access & IBV_ACCESS_ZERO_BASED, is_zero_based;
	int ret;

	draft->pd = change->flags & IBV_REREG_MR_CHANGE_PD ? change->pd : mr->pd;
	draft->access = change->flags & IBV_REREG_MR_CHANGE_ACCESS ? change->access : mr->access;
	draft->base = mr->base;
	draft->length = mr->length;
	draft->iova = mr->iova;
	is_zero_based = draft->access & IBV_ACCESS_ZERO_BASED;
	if (change->flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		draft->base = change->addr;
		draft->length = change->length;
		draft->iova = (uintptr_t)change->addr;
	} else if (was_zero_based && !is_zero_based) {
		draft->iova = (uintptr_t)mr->base;
	}
	if (is_zero_based)
		draft->iova = 0;
	ret = check_access(draft->access);
	return ret ? ret : check_range(draft->base, draft->length, draft->iova);
}

void mr_hold_changes(struct mr *mr)
{
	pthread_mutex_lock(&mr->change);
}

void mr_allow_changes(struct mr *mr)
{
	pthread_mutex_unlock(&mr->change);
}

int mr_change(struct mr *mr, const struct mr_change *change)
{
	struct adapter *adapter = mr->adapter;
	struct mr draft;
	int ret = draft_change(mr, change, &draft);

	if (!ret)
		ret = suspend(mr);
	if (ret)
		return ret;
	atomic_fetch_add(&draft.pd->users, 1);
	atomic_fetch_sub(&mr->pd->users, 1);
	pthread_mutex_lock(&adapter->lock);
	mr->pd = draft.pd;
	mr->protection = draft.pd->protection;
	mr->access = draft.access;
	mr->base = draft.base;
	mr->length = draft.length;
	mr->iova = draft.iova;
	pthread_mutex_unlock(&adapter->lock);
	mr->ibv.pd = &draft.pd->ibv;
	if (change->flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->ibv.addr = change->addr;
		mr->ibv.length = change->length;
	}
	atomic_store_explicit(&mr->is_valid, true, memory_order_release);
	publish(mr);
	return 0;
}

static struct mr *find(struct adapter *adapter, uint32_t key)
{
	struct mr *mr = table_find(&adapter->mrs, key >> KEY_RANDOM_BITS);

	return mr && atomic_load_explicit(&mr->is_valid, memory_order_acquire) ? mr : NULL;
}

struct mr *mr_find(struct adapter *adapter, uint32_t lkey)
{
	struct mr *mr = find(adapter, lkey);

	return mr && mr->lkey == lkey ? mr : NULL;
}

bool mr_holds(const struct mr *mr, uint64_t addr, uint64_t length)
{
	return addr >= mr->iova && length <= mr->length && addr - mr->iova <= mr->length - length;
}

static bool is_of(const struct mr *mr, const struct pd *pd)
{
	return pd && mr->protection == pd->protection;
}

static enum reason find_local(struct adapter *adapter, const struct pd *pd, uint32_t lkey,
			      uint64_t addr, uint64_t length, unsigned int need,
			      const struct mr **found)
{
	const struct mr *mr = *found = find(adapter, lkey);

	if (!mr)
		return REASON_LKEY_UNKNOWN;
	if (mr->lkey != lkey)
		return mr->rkey == lkey ? REASON_LKEY_IS_RKEY : REASON_LKEY_STALE;
	if (!is_of(mr, pd))
		return REASON_LKEY_PD;
	if (!mr_holds(mr, addr, length))
		return REASON_LKEY_RANGE;
	return need & ~mr->access ? REASON_LKEY_ACCESS : REASON_NONE;
}

enum reason mr_resolve_local(struct adapter *adapter, const struct pd *pd, uint32_t lkey,
			     uint64_t addr, uint64_t length, unsigned int need, char **place)
{
	const struct mr *mr;
	enum reason reason;

	*place = NULL;
	if (!length)
		return REASON_NONE;
	reason = find_local(adapter, pd, lkey, addr, length, need, &mr);
	if (!reason && !mr->is_null)
		*place = mr->base + (addr - mr->iova);
	return reason;
}

/* `changes` is how often regions had changed ahead of the look-up. */
static void remember(const struct mr *mr, uint32_t key, unsigned long changes, struct mr_memo *memo)
{
	*memo = (struct mr_memo){
	    .changes = changes,
	    .protection = mr->protection,
	    .base = mr->base,
	    .iova = mr->iova,
	    .length = mr->length,
	    .key = key,
	    .access = mr->access,
	};
}

/* How often regions have changed is read first: what changes from here on ends the memo. */
APART char *mr_find_place(struct adapter *adapter, struct mr_memo *memo, const struct pd *pd,
			  uint32_t lkey, uint64_t addr, uint64_t length, unsigned int need)
{
	unsigned long changes = atomic_load_explicit(&adapter->mr_changes, memory_order_acquire);
	const struct mr *mr;

	if (find_local(adapter, pd, lkey, addr, length, need, &mr) || mr->is_null)
		return NULL;
	remember(mr, lkey, changes, memo);
	return mr->base + (addr - mr->iova);
}

static int check_advice(const struct pd *pd, const struct mr *mr, const struct ibv_sge *sge,
			bool is_write)
{
	if (!mr)
		return refuse(REASON_ADVICE_LKEY, "lkey is %#x", sge->lkey);
	if (!is_of(mr, pd))
		return refuse(REASON_ADVICE_PD, "lkey %#x is of PD %u, asked for PD %u", sge->lkey,
			      mr->pd->ibv.handle, pd->ibv.handle);
	if (!(mr->access & IBV_ACCESS_ON_DEMAND))
		return refuse(REASON_ADVICE_NOT_ON_DEMAND, "lkey %#x, access %#x", sge->lkey,
			      mr->access);
	if (is_write && !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		return refuse(REASON_ADVICE_WRITE, "lkey %#x, access %#x", sge->lkey, mr->access);
	if (!mr_holds(mr, sge->addr, sge->length))
		return refuse(REASON_ADVICE_RANGE, "lkey %#x: %u bytes at %#llx", sge->lkey,
			      sge->length, (unsigned long long)sge->addr);
	return 0;
}

int mr_find_for_advice(const struct pd *pd, const struct ibv_sge *sge, bool is_write, char **place)
{
	struct adapter *adapter = pd->adapter;
	struct mr *mr;
	int ret;

	pthread_mutex_lock(&adapter->lock);
	mr = mr_find(adapter, sge->lkey);
	ret = check_advice(pd, mr, sge, is_write);
	if (!ret)
		*place = mr->base + (sge->addr - mr->iova);
	pthread_mutex_unlock(&adapter->lock);
	return ret;
}

/* Whether an rkey names a region of this PD. */
static enum reason find_remote(struct adapter *adapter, const struct pd *pd, uint32_t rkey,
			       const struct mr **mr)
{
	*mr = find(adapter, rkey);
	if (!*mr)
		return REASON_RKEY_UNKNOWN;
	if ((*mr)->rkey != rkey)
		return (*mr)->lkey == rkey ? REASON_RKEY_IS_LKEY : REASON_RKEY_STALE;
	return is_of(*mr, pd) ? REASON_NONE : REASON_RKEY_PD;
}

enum reason mr_resolve_remote(struct adapter *adapter, const struct pd *pd, uint32_t rkey,
			      uint64_t addr, uint64_t length, unsigned int need, char **place)
{
	const struct mr *mr;
	enum reason reason;

	*place = NULL;
	if (!length)
		return REASON_NONE;
	reason = find_remote(adapter, pd, rkey, &mr);
	if (reason)
		return reason;
	if (!mr_holds(mr, addr, length))
		return REASON_RKEY_RANGE;
	if (need & ~mr->access)
		return REASON_RKEY_ACCESS;
	*place = mr->base + (addr - mr->iova);
	return REASON_NONE;
}

APART char *mr_find_remote_place(struct adapter *adapter, struct mr_memo *memo, const struct pd *pd,
				 uint32_t rkey, uint64_t addr, uint64_t length, unsigned int need)
{
	unsigned long changes = atomic_load_explicit(&adapter->mr_changes, memory_order_acquire);
	const struct mr *mr;

	if (find_remote(adapter, pd, rkey, &mr) || mr->is_null || !mr_holds(mr, addr, length) ||
	    need & ~mr->access)
		return NULL;
	remember(mr, rkey, changes, memo);
	return mr->base + (addr - mr->iova);
}

enum reason mr_resolve_whole(struct adapter *adapter, const struct pd *pd, uint32_t rkey,
			     unsigned int need, char **place, uint64_t *length)
{
	const struct mr *mr;
	enum reason reason = find_remote(adapter, pd, rkey, &mr);

	if (reason)
		return reason;
	if (need & ~mr->access)
		return REASON_RKEY_ACCESS;
	*place = mr->base;
	*length = mr->length;
	return REASON_NONE;
}

enum reason mr_invalidate(struct adapter *adapter, const struct pd *pd, uint32_t rkey)
{
	const struct mr *mr = find(adapter, rkey);

	if (!mr)
		return REASON_RKEY_UNKNOWN;
	if (mr->rkey != rkey)
		return mr->lkey == rkey ? REASON_RKEY_IS_LKEY : REASON_RKEY_STALE;
	if (!is_of(mr, pd))
		return REASON_RKEY_PD;
	return REASON_INVALIDATE_MR;
}
