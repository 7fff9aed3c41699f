/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which UD QPs are attached to which multicast group.
 */
#ifndef DEVICE_MCAST_H
#define DEVICE_MCAST_H

#include <pthread.h>
#include <stdbool.h>

#include <urcu/list.h>

#include <infiniband/verbs.h>

struct adapter;
struct qp;

struct mcast {
	pthread_rwlock_t lock;
	struct cds_list_head groups; /* of struct mcast_group */
};

void mcast_init(struct mcast *mcast);
void mcast_fini(struct mcast *mcast);

/*
 * Attaching twice is one attachment, as the man page of ibv_attach_mcast() has it. `is_first` says
 * that the group had no QP before, so that the host joins it; `was_last` that it has none now. 0 or
 * a positive errno (noted).
 */
int mcast_attach(struct adapter *adapter, struct qp *qp, const union ibv_gid *group,
		 bool *is_first);
int mcast_detach(struct adapter *adapter, struct qp *qp, const union ibv_gid *group,
		 bool *was_last);

/* Calls `each` for every QP of the group, under the read lock. */
void mcast_for_each(struct mcast *mcast, const union ibv_gid *group,
		    void (*each)(struct qp *qp, void *data), void *data);

#endif
