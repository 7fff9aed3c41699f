/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the face share: the library's own part of each object that a program holds a
 * pointer to. An object is the device layer's struct with the ABI's struct at its head; what events
 * and acknowledgements need hangs at its `face`.
 *
 * Locks, outermost first: the list of contexts, a context's async_lock or a channel's lock, an
 * object's ABI mutex (it guards the acknowledged counts, with its condition). None is held while
 * the engine is called.
 */
#ifndef VERBS_FACE_H
#define VERBS_FACE_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <urcu/list.h>

#include <infiniband/verbs.h>

#include "base/cancel.h"
#include "device/adapter.h"
#include "device/cq.h"
#include "device/qp.h"
#include "device/srq.h"
#include "engine/engine.h"
#include "engine/lookout.h"
#include "explain/reason.h"

/* ---- the engine's turns inside verbs ---- */

static inline bool progress(struct cq *cq)
{
	UNCANCELLED_TURN;

	return engine_poll(cq);
}

static inline void doorbell(struct qp *qp)
{
	UNCANCELLED_TURN;

	engine_doorbell(qp);
}

/* ---- devices and contexts ---- */

struct device {
	struct ibv_device ibv; /* first */
	/* Provider libraries look behind struct ibv_device for a table of theirs: they find none.
	 */
	void *no_provider[8];
	struct device_info info; /* under the lock in device.c, but for name, ifindex and guid */
	struct cds_list_head node;
	unsigned int refs; /* of lists and contexts; under the lock in device.c */
};

struct context {
	struct verbs_context verbs; /* ends with the ibv_context that programs hold */
	struct device *device;
	struct adapter *adapter;
	struct share *share;	   /* of cmd_fd; NULL: nothing can be imported from it */
	struct cds_list_head node; /* of all contexts, see async.c */
	atomic_uint objects;	   /* PDs, CQs and channels made from it and not yet gone */
	pthread_mutex_t async_lock;
	struct cds_list_head async_events; /* under async_lock, oldest first */
	unsigned int async_count;	   /* of these */
};

static inline struct context *context_of(struct ibv_context *ibv)
{
	return (struct context *)((char *)ibv - offsetof(struct context, verbs.context));
}

/*
 * Opens a device, with a descriptor and what goes with it, which are the context's from then on.
 * NULL and errno, and then they are still the caller's.
 */
struct share;
struct context *context_open(struct device *device, struct share *share, int cmd_fd);

/* pd.c: lists a PD among what its context shares. */
struct pd;
void pd_share(struct pd *pd);

struct device *device_of(struct ibv_device *ibv);
void device_get(struct device *device);
void device_put(struct device *device);
struct device_info device_info(struct device *device);

/* Around a fork(): no other thread is within, so that the child finds the lists whole. */
void device_hold(void);
void device_release(void);
void async_hold(void);
void async_release(void);

/* The extended and the plain entry points of each object's file, into a new context's tables. */
void context_set_device_ops(struct verbs_context *verbs);
void context_set_cq_ops(struct verbs_context *verbs);
void context_set_cq_ex_ops(struct verbs_context *verbs);
void context_set_qp_ops(struct verbs_context *verbs);
void context_set_srq_ops(struct verbs_context *verbs);
void context_set_xrcd_ops(struct verbs_context *verbs);
void context_set_port_ops(struct verbs_context *verbs);
void context_set_pd_ops(struct verbs_context *verbs);
void context_set_mr_ops(struct verbs_context *verbs);
void context_set_mw_ops(struct verbs_context *verbs);
void context_set_buf_ops(struct verbs_context *verbs);
void context_set_dm_ops(struct verbs_context *verbs);
void context_set_dmah_ops(struct verbs_context *verbs);
void context_set_advise_ops(struct verbs_context *verbs);

/* A positive errno as the int of a verb: also left in errno, where many programs look. */
static inline int verb_result(int error)
{
	if (error)
		errno = error;
	return error;
}

/* ---- events ---- */

/* What an object keeps about its asynchronous events; under the context's async_lock. */
struct async_target {
	unsigned int delivered; /* taken by the program: as many have to be acknowledged */
	bool is_dying;		/* takes no more */
};

/* Joins the contexts that events go to, and leaves them. */
int async_open(struct context *context);
void async_close(struct context *context);

/* On demand: 0, or the positive errno of the noted reason. */
int async_raise(struct context *context, const struct ibv_async_event *event);

/* The engine's callback. */
void async_event(struct adapter *adapter, const struct ibv_async_event *event);

/*
 * An object is about to go: drops its events that nobody has taken, then waits until those that
 * were taken are acknowledged. `element` is the object, `mutex`, `cond` and `acknowledged` are its
 * ABI members. async_revive() takes it back where the destruction was refused.
 */
void async_retire(struct context *context, const void *element, struct async_target *target,
		  pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *acknowledged);
void async_revive(struct context *context, struct async_target *target);

/* ---- descriptors that are readable while something is queued ---- */

int event_fd_open(void); /* -errno */
void event_fd_raise(int fd);
void event_fd_clear(int fd);
/* 0; -1 with EAGAIN if the program made it non-blocking. */
int event_fd_may_wait(int fd);
/* 0 when readable; -1 with EAGAIN if the program made it non-blocking, EINTR. */
int event_fd_wait(int fd);

/* ---- completion queues and channels ---- */

struct channel {
	struct ibv_comp_channel ibv; /* first */
	atomic_uint lanes;	     /* of the CQs that were armed */
	pthread_mutex_t lock;	     /* guards ibv.refcnt, all below, and what face_cq says so of */
	struct cds_list_head ready;  /* CQs with events to take */
	struct lookout lookout;
	pthread_t waiter;    /* who waited last */
	bool is_looking_out; /* somebody looks: events are not raised */
	bool is_raised;	     /* the descriptor is readable */
	uint64_t raised_at;  /* since then */
};

struct face_cq {
	struct async_target async;
	struct cq *cq;
	struct channel *channel;   /* or NULL */
	struct cds_list_head node; /* in channel->ready while `pending`; under its lock */
	unsigned int pending;	   /* events to take; under the channel's lock */
	unsigned int delivered;	   /* events taken; under the channel's lock */

	/* of extended polling */
	pthread_mutex_t poll_lock; /* from start_poll to end_poll, unless single-threaded */
	bool is_single_threaded;
	struct cqe current;
};

static inline struct face_cq *face_of_cq(const struct cq *cq)
{
	return cq->face;
}

/* The CQ was armed: if nobody looks for its events, the lanes' threads do from now on. */
void channel_armed(struct cq *cq);

/* The engine's callback: an armed CQ has its completion. */
void channel_cq_event(struct cq *cq);

/* A CQ's ties to its channel. cut waits until all of the CQ's events are acknowledged. */
void channel_tie(struct face_cq *face);
void channel_cut(struct face_cq *face);

/* ibv_create_cq(), without the extended entry points; `pd` is a parent domain or NULL. NULL and
 * errno. */
struct cq *face_create_cq(struct context *context, struct pd *pd, uint32_t cqe, void *cq_context,
			  struct ibv_comp_channel *channel, uint32_t comp_vector);

/* ---- queue pairs ---- */

struct face_qp {
	struct async_target async;
	struct qp *self;	   /* XRC_RECV: the handle that this belongs to */
	struct qp *real;	   /* what ibv_open_qp() has opened; NULL: this is the QP itself */
	struct cds_list_head node; /* of XRC_RECV handles; see open_qp.c for the lock */
	unsigned int openers;
	bool is_gone; /* its creator destroyed it, others have it open */
	/* the builder of ibv_wr_*, under the send queue's lock */
	uint64_t ops;	      /* IBV_QP_EX_WITH_*: what it was created for; 0 has no builder */
	struct send_wqe *wqe; /* being built */
	int error;	      /* the first, kept until ibv_wr_complete() */
	bool has_destination; /* of a datagram */
};

static inline struct face_qp *face_of_qp(const struct qp *qp)
{
	return qp->face;
}

/* The QP behind a handle. */
static inline struct qp *real_qp(struct ibv_qp *ibv)
{
	struct qp *qp = qp_of(ibv);
	struct qp *real = face_of_qp(qp)->real;

	return real ? real : qp;
}

void qp_init_sync(struct ibv_qp *qp);
void qp_destroy_sync(struct ibv_qp *qp);

/* open_qp.c: XRC_RECV QPs, which have a handle for each who opened them. */
void shared_qp_add(struct qp *qp);
int shared_qp_destroy(struct qp *handle);
void shared_qp_event(const struct ibv_async_event *event,
		     void (*tell)(const struct ibv_async_event *event));
/* For other processes that have one of ours open; see struct engine_face. */
bool shared_qp_visit(struct qp *qp);
void shared_qp_leave(struct qp *qp);
void shared_qp_hold(void);
void shared_qp_release(void);
void context_set_qp_option_ops(struct verbs_context *verbs);
void context_set_raw_ops(struct verbs_context *verbs);
void context_set_open_qp_ops(struct verbs_context *verbs);

/* Sets the builder's entry points in an extended QP. */
void wr_set_ops(struct ibv_qp_ex *qp);

struct face_wq {
	struct async_target async;
};

struct face_srq {
	struct async_target async;
};

#endif
