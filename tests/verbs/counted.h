/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is counted of a test's QP, as it is now: the lane's thread counts as well.
 */
#ifndef TESTS_VERBS_COUNTED_H
#define TESTS_VERBS_COUNTED_H

#include "device/qp.h"
#include "engine/lane.h"
#include "transport/transport.h"
#include "live.h"

static inline struct transport_counters counted(const struct end *end)
{
	const struct qp *qp = qp_of(end->qp);
	struct lane *lane = qp->seat->lane;
	struct transport_counters counters;

	lane_lock(lane);
	counters = *transport_counters(qp);
	lane_unlock(lane);
	return counters;
}

#endif
