/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows: a part of a region under an rkey of its own. A work request binds a window (and
 * one takes a window of type 2 away), so all of it runs on a lane; who accesses memory through a
 * window holds its lock shared, so that once a binding is gone nobody is still within.
 *
 * An rkey of a window has the highest bit set, which no region's has: then 19 bits of index, 4 of
 * chance, and 8 that change with each binding. Those of type 2 are the program's to choose.
 *
 * Windows of type 1 belong to their PD, those of type 2 to the QP that bound them. The
 * specification's type 2A looks at the QP number, its 2B also at the PD (10.6.7.2.4): here both are
 * looked at, so what holds for either holds.
 */
#ifndef DEVICE_MW_H
#define DEVICE_MW_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbatim.h>

#include "explain/reason.h"

struct access;
struct adapter;
struct mr;
struct pd;
struct qp;
struct send_wqe;

enum { MW_KEY = 1u << 31 };

struct mw {
	struct ibv_mw ibv; /* first; ibv.rkey of type 1 is that of the last binding posted */
	struct adapter *adapter;
	struct pd *pd;
	uint32_t index;
	uint32_t key; /* the bits of its rkeys that stay; ibv.rkey is the program's to change */

	pthread_rwlock_t lock; /* guards ibv.rkey of type 1, and what follows */
	struct mr *mr;	       /* that it is bound to; NULL: to none */
	uint32_t rkey;
	uint32_t qpn; /* type 2: of the QP that bound it */
	char *base;   /* where byte `iova` lies */
	uint64_t iova;
	uint64_t length;
	unsigned int access;
};

/* What a work request asks for; its objects by number, as they may be gone when its turn comes. */
struct mw_bind {
	uint32_t index;
	uint32_t rkey;
	uint32_t lkey; /* of the region; 0: none */
	unsigned int access;
	uint64_t addr, length;
};

static inline struct mw *mw_of(struct ibv_mw *ibv)
{
	return (struct mw *)ibv;
}

int mw_create(struct pd *pd, enum ibv_mw_type type, struct mw **mw);
int mw_destroy(struct mw *mw);

/* What verbatim_query_mw() tells. */
void mw_describe(struct mw *mw, struct verbatim_mw_attr *attr);

/*
 * Fills a BIND_MW work request, checking what can be checked at once. `is_verb`: it is
 * ibv_bind_mw()'s, which is for type 1; work requests are for type 2. 0, or a positive errno.
 */
int mw_fill_bind(const struct qp *qp, struct send_wqe *wqe, struct ibv_mw *mw, uint32_t rkey,
		 const struct ibv_mw_bind_info *info, bool is_verb);

/* The key that ibv_bind_mw() gives a window of type 1 next, and says that it has given. */
uint32_t mw_next_rkey(struct mw *mw);
void mw_set_rkey(struct mw *mw, uint32_t rkey);

/* Carries a binding out, under the QP's lane's lock. REASON_NONE, or why not (not noted). */
enum reason mw_bind(const struct qp *qp, const struct mw_bind *bind);

/* Takes a binding of type 2 away: LOCAL_INV, and SEND_WITH_INV at the receiver. */
enum reason mw_invalidate(const struct qp *qp, const struct pd *pd, uint32_t rkey);

/* Memory behind a window's rkey, for access_begin() and access_begin_whole() (access.h). */
enum reason mw_acquire(const struct qp *qp, const struct pd *pd, uint32_t rkey, struct mw **mw);
enum reason mw_locate(const struct mw *mw, uint64_t addr, uint64_t length, unsigned int need,
		      char **place);
void mw_release(struct mw *mw);

#endif
