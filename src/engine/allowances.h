/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a lane's queue pairs were let do last in other processes' memory (link/samehost.h). Most
 * queue pairs never are, so it is not theirs: a lane keeps that of some, of each place in its table
 * that of the queue pair which was last.
 */
#ifndef ENGINE_ALLOWANCES_H
#define ENGINE_ALLOWANCES_H

#include "device/qp.h"
#include "link/samehost.h"
#include "link/udp.h"

enum { ALLOWANCES = 64 };

/* A lane's, under its lock. Zeroed at first. */
struct allowances {
	struct allowance {
		const struct qp *qp;
		struct samehost_memo memo;
	} of[ALLOWANCES];
};

static inline struct allowance *allowances_place(struct allowances *allowances, const struct qp *qp)
{
	return &allowances->of[qp->number / NEAR_PORTS % ALLOWANCES];
}

/* NULL: nothing is known of it. */
static inline const struct samehost_memo *allowances_find(struct allowances *allowances,
							  const struct qp *qp)
{
	const struct allowance *allowance = allowances_place(allowances, qp);

	return allowance->qp == qp ? &allowance->memo : NULL;
}

/* To be filled in. */
static inline struct samehost_memo *allowances_take(struct allowances *allowances,
						    const struct qp *qp)
{
	struct allowance *allowance = allowances_place(allowances, qp);

	allowance->qp = qp;
	return &allowance->memo;
}

/* It changes, or goes. */
static inline void allowances_forget(struct allowances *allowances, const struct qp *qp)
{
	struct allowance *allowance = allowances_place(allowances, qp);

	if (allowance->qp == qp)
		allowance->qp = NULL;
}

#endif
