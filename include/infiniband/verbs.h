/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs: RDMA for user programs, ABI and source compatible with rdma-core's libibverbs up to
 * IBVERBS_1.18. `scripts/man` makes the manual of these headers, and says how to write them.
 *
 * The way through the API:
 *   ibv_get_device_list, ibv_open_device        verbs/device.h    a device, then a context on it
 *   ibv_alloc_pd, ibv_reg_mr                    verbs/pd.h, mr.h  memory that the device may touch
 *   ibv_create_cq, ibv_create_qp, ibv_modify_qp verbs/cq.h, qp.h  queues, brought to RTS
 *   ibv_post_recv, ibv_post_send, ibv_poll_cq   verbs/post.h      work, and its completions
 *
 * Holds everywhere unless a call says otherwise: times are as named, sizes are bytes, numbers are
 * in host byte order but for those typed __be16/32/64. A library or device that does not have a
 * call refuses it with EOPNOTSUPP. After fork() the child opens its devices anew.
 *
 * Returns int: 0, or a positive errno value.
 * Returns pointer: what was made, or NULL with errno set.
 * Returns void: nothing.
 * Threads: any thread may call it at any time, with the same objects, too, except that destroying
 * an object must be the last call with it. It is not for signal handlers.
 * Man: ibverbs(7).
 */
#ifndef INFINIBAND_VERBS_H
#define INFINIBAND_VERBS_H

#include <infiniband/verbs/base.h>
#include <infiniband/verbs/context.h>
#include <infiniband/verbs/device.h>
#include <infiniband/verbs/port.h>
#include <infiniband/verbs/pd.h>
#include <infiniband/verbs/mr.h>
#include <infiniband/verbs/mw.h>
#include <infiniband/verbs/dm.h>
#include <infiniband/verbs/wc.h>
#include <infiniband/verbs/cq.h>
#include <infiniband/verbs/comp_cntr.h>
#include <infiniband/verbs/ah.h>
#include <infiniband/verbs/srq.h>
#include <infiniband/verbs/wq.h>
#include <infiniband/verbs/qp.h>
#include <infiniband/verbs/post.h>
#include <infiniband/verbs/qp_ex.h>
#include <infiniband/verbs/flow.h>
#include <infiniband/verbs/counters.h>
#include <infiniband/verbs/event.h>

#endif
