/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rate that a program asked for by ibv_modify_qp_rate_limit(): each packet takes its time at
 * that rate, and what time was left unused may be caught up with, as far as one burst goes. Counted
 * are the bytes from the BTH to the pad.
 */
#include "transport/requester.h"

/* 1 kbit/s is a byte in 8 ms. */
static uint64_t time_of(uint64_t bytes, uint32_t kbps)
{
	return bytes * 8 * 1000000 / kbps;
}

static uint64_t burst_time(const struct qp *qp)
{
	return time_of(qp->max_burst, qp->attr.rate_limit);
}

/* `rate_next` is when the next packet would go without bursts: it may run ahead of the time by one.
 */
bool rate_may_send(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;
	uint64_t burst = burst_time(qp);

	if (requester->rate_next < now + burst)
		return true;
	requester->rate_deadline = requester->rate_next - burst + 1;
	return false;
}

void rate_sent(struct qp *qp, uint32_t bytes, uint64_t now)
{
	struct requester *requester = qp->requester;

	if (requester->rate_next < now)
		requester->rate_next = now;
	requester->rate_next += time_of(bytes, qp->attr.rate_limit);
}
