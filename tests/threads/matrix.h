/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The matrix of verbs: each verb runs beside each other one, on the same objects and on others. A
 * set is one object of each kind (matrix_set.c); a verb's round is one use of it on a set, legal
 * whatever else runs (calls_*.c); matrix.c brings any two of them together.
 */
#ifndef THREADS_MATRIX_H
#define THREADS_MATRIX_H

#include <infiniband/verbatim.h>

#include "rig.h"

/*
 * Where what is in the bytes of a set: what requests send, which nobody writes; and for each QP
 * what it reads into, what it writes to, and what it receives into. So no two QPs write the same
 * memory, which would be the program's own race.
 */
enum set_use { SET_INTO = 1, SET_TARGET, SET_RECEIVE };
enum set_qp { SET_FROM, SET_TO, SET_EX, SET_UD };

enum { SET_BYTES = 16384, SET_WRS = 64, SET_CQE = 4096, SET_ACCESS = 0xf };

/* Asynchronous events of a context that were raised on demand: each is taken by one thread. */
struct events {
	atomic_ulong raised, taken;
};

struct set {
	struct rig rig; /* its own context or another set's, and its own PD */
	struct events *events;
	atomic_ulong posted, completed; /* send requests */
	atomic_ulong sent, received;	/* messages over RC */
	char *bytes; /* SET_BYTES, registered as `mr`; nobody looks at what is in them */
	struct ibv_td *td;
	struct ibv_pd *parent;
	struct ibv_mr *mr, *moving, *bound;
	struct ibv_mw *mw, *bound_mw;
	struct ibv_dm *dm;
	struct ibv_buf *buf;
	char *buf_bytes;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq; /* of all QPs but `ex` */
	struct ibv_cq_ex *cq_ex;
	struct ibv_srq *srq, *tag_srq, *xrc_srq;
	struct ibv_xrcd *xrcd;
	struct ibv_qp *from, *to;   /* RC, to each other; `to` receives from `srq` */
	struct ibv_qp *ex, *ud;	    /* extended; each to itself */
	struct ibv_qp *still, *xrc; /* stay in RESET: RC, XRC_SEND */
	struct ibv_qp *xrc_recv;
	struct ibv_qp *raw; /* NULL without the privilege */
	struct ibv_ah *ah;
	struct ibv_comp_cntr *cntr; /* of `still` */
	struct ibv_wq *wq;
	struct ibv_rwq_ind_table *table; /* of `wq` */
};

/*
 * The multicast group that `ud` is in. Others come and go in this one only: a group's first member
 * opens sockets with a program, and those must not be many (docs/engine.md).
 */
extern const union ibv_gid set_group;

/* `of` lends its context; NULL: it opens the device itself. */
void set_open(struct set *set, struct set *of, struct events *events);
void set_close(struct set *set, bool has_own_context);

/* Takes all that waits, and lets what is under way end. */
void set_drain(struct set *set);

/* Counts a completion. */
void set_completed(struct set *set, enum ibv_wc_status status, enum ibv_wc_opcode opcode,
		   uint32_t qp_num);

/* Takes one asynchronous event, if there is one. */
bool set_take_event(struct set *set);

struct verb {
	const char *names; /* of the verbs in it, as tests/threads/complete reads them */
	void (*round)(struct set *set);
};

static inline uint64_t set_place(const struct set *set, enum set_qp qp, enum set_use use)
{
	return (uintptr_t)set->bytes + 1024 * (3 * (uint64_t)qp + use);
}

/* 0 or 1: who it is. */
extern _Thread_local unsigned int matrix_thread;

/* Each ends with a row of NULLs. */
extern const struct verb calls_context[], calls_memory[], calls_queue[], calls_qp[], calls_post[];

#endif
