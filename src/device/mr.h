/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions and the keys that name them.
 *
 * A key is an index into the adapter's table (high 20 bits, the highest 0: windows have 1) and 12
 * random bits, others in the lkey than in the rkey: one cannot be used as the other, and a key of a
 * region that is gone does not fit the next one at its index. Look-ups take no lock; their results
 * hold while the lane's lock is held (mr_destroy() quiesces before it frees).
 */
#ifndef DEVICE_MR_H
#define DEVICE_MR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbatim.h>

#include "device/adapter.h"
#include "device/pd.h"
#include "explain/reason.h"

/* A file of fixed size that memory lies in, as other processes may open it. */
struct mr_file {
	uint32_t number; /* in this process, of this file alone; 0: there is none */
	int fd;
	uint64_t offset; /* of the region */
};

struct mr {
	struct ibv_mr ibv; /* first */
	struct adapter *adapter;
	struct pd *pd;
	const struct protection *protection; /* the PD's: what look-ups compare */
	char *base;			     /* where byte `iova` lies */
	uint64_t
	    iova; /* how work requests and peers call the first byte; 0 for IBV_ACCESS_ZERO_BASED */
	uint64_t length;
	unsigned int access;
	bool is_null; /* no memory: reads give zeroes, what is written is lost */
	uint32_t lkey, rkey;
	struct mr_file file;
	void *face;	      /* the verbs layer's own: what it has to let go with the region */
	uint32_t shared;      /* and its place in what the context shares */
	atomic_uint windows;  /* bound to it: as long it stays */
	atomic_bool is_ended; /* deregistered; the struct stays for its handles */
	atomic_uint handles;  /* itself and its imports */
	struct mr *origin;    /* of an import: the region; all else but `ibv` and `pd` is there */
	atomic_bool is_valid; /* the keys are made: a look-up may use it */
	bool is_published;    /* by the host; under `change` */
	/* Changes and the end, one at a time. What look-ups see changes under the adapter's lock as
	 * well, while none finds it. */
	pthread_mutex_t change;
};

static inline struct mr *mr_of(struct ibv_mr *ibv)
{
	return (struct mr *)ibv;
}

/*
 * `access` is IBV_ACCESS_*: remote write and atomic need local write; unknown bits are refused
 * unless in the optional range. Length 0 is allowed and names no byte. Memory is not touched, not
 * pinned.
 */
int mr_create(struct pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access,
	      struct mr **mr);

/* A null region: local access to any address. It has no rkey. */
int mr_create_null(struct pd *pd, struct mr **mr);

/*
 * Changes what `flags` (IBV_REREG_MR_CHANGE_*) say, under the same keys; meanwhile the region is
 * not found. EBUSY while a window is bound to it; a refusal leaves it as it was.
 */
struct mr_change {
	int flags;
	struct pd *pd;
	void *addr;
	size_t length;
	unsigned int access;
};

int mr_change(struct mr *mr, const struct mr_change *change);

/* Around that, and around what looks at a region that may be changed. */
void mr_hold_changes(struct mr *mr);
void mr_allow_changes(struct mr *mr);

/*
 * For advice on memory that an lkey names: where it lies. Any thread. 0, or a positive errno: the
 * key is unknown or of another PD, the region is not IBV_ACCESS_ON_DEMAND, or not writable where
 * `is_write`, or ends before.
 */
int mr_find_for_advice(const struct pd *pd, const struct ibv_sge *sge, bool is_write, char **place);

/*
 * A further handle of a region, in the same process. mr_end() ends the region, whichever handle it
 * is called with, mr_release() a handle: the last one takes the region along. The caller of
 * mr_import() has mr_hold() the region for it.
 */
int mr_import(struct pd *pd, struct mr *origin, struct mr **mr);
void mr_hold(struct mr *origin);
int mr_end(struct mr *mr); /* EBUSY while a window is bound to it */
void mr_release(struct mr *mr);

static inline struct mr *mr_origin(struct mr *mr)
{
	return mr->origin ? mr->origin : mr;
}

/* Both: the end of a region that has one handle. */
int mr_destroy(struct mr *mr);

/* What verbatim_query_mr() tells. */
void mr_describe(struct mr *mr, struct verbatim_mr_attr *attr);

/* Tells others where it lies, which they may map. Not for a region that mr_change() is used on. */
void mr_lies_in(struct mr *mr, const struct mr_file *file);

/* Gives it these keys, as it has them in another process, if its place in the table is free; no
 * other thread knows it yet. */
void mr_take_keys(struct mr *mr, uint32_t lkey, uint32_t rkey);

/* The region of an lkey, NULL if there is none. Valid while the lane's lock is held. */
struct mr *mr_find(struct adapter *adapter, uint32_t lkey);
bool mr_holds(const struct mr *mr, uint64_t addr, uint64_t length);

/*
 * Resolves `length` bytes at `addr` for work of a QP in `pd`. `need` is 0 (local read),
 * IBV_ACCESS_LOCAL_WRITE, or for the remote form IBV_ACCESS_REMOTE_*. REASON_NONE and the place, or
 * the reason (not yet noted: the caller knows the side and the QP, and refuses with them). A length
 * of 0 passes any key (9.4.1.1.3: no check for zero-length). No place without a reason is a null
 * region's.
 */
enum reason mr_resolve_local(struct adapter *adapter, const struct pd *pd, uint32_t lkey,
			     uint64_t addr, uint64_t length, unsigned int need, char **place);
enum reason mr_resolve_remote(struct adapter *adapter, const struct pd *pd, uint32_t rkey,
			      uint64_t addr, uint64_t length, unsigned int need, char **place);

/*
 * The same as mr_resolve_local() of at least a byte, for who has the lane's lock and looks again
 * and again: the place, and what is to be remembered of the region; NULL if there is a reason, or
 * no place.
 */
char *mr_find_place(struct adapter *adapter, struct mr_memo *memo, const struct pd *pd,
		    uint32_t lkey, uint64_t addr, uint64_t length, unsigned int need);

static inline char *mr_place(struct adapter *adapter, struct mr_memo *memo, const struct pd *pd,
			     uint32_t lkey, uint64_t addr, uint64_t length, unsigned int need)
{
	unsigned long changes = atomic_load_explicit(&adapter->mr_changes, memory_order_acquire);
	char *place = mr_recall(memo, changes, pd->protection, lkey, addr, length, need);

	return place ? place : mr_find_place(adapter, memo, pd, lkey, addr, length, need);
}

/* And as mr_resolve_remote(), of a region: a window has no memo. */
char *mr_find_remote_place(struct adapter *adapter, struct mr_memo *memo, const struct pd *pd,
			   uint32_t rkey, uint64_t addr, uint64_t length, unsigned int need);

static inline char *mr_remote_place(struct adapter *adapter, struct mr_memo *memo,
				    const struct pd *pd, uint32_t rkey, uint64_t addr,
				    uint64_t length, unsigned int need)
{
	unsigned long changes = atomic_load_explicit(&adapter->mr_changes, memory_order_acquire);
	char *place = mr_recall(memo, changes, pd->protection, rkey, addr, length, need);

	return place ? place : mr_find_remote_place(adapter, memo, pd, rkey, addr, length, need);
}

/* The same for a whole region, whatever its size: FLUSH with the level IBV_FLUSH_MR. */
enum reason mr_resolve_whole(struct adapter *adapter, const struct pd *pd, uint32_t rkey,
			     unsigned int need, char **place, uint64_t *length);

/*
 * Why a region's rkey is not invalidated by LOCAL_INV or SEND_WITH_INV: a region that ibv_reg_mr()
 * made cannot be (10.6.5); memory windows of type 2 can (mw.h).
 */
enum reason mr_invalidate(struct adapter *adapter, const struct pd *pd, uint32_t rkey);

#endif
