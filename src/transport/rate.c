/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rate at which a requester sends. Either what the program asked for by
 * ibv_modify_qp_rate_limit(): each packet takes its time at that rate, and what time was left
 * unused may be caught up with, as far as one burst goes; counted are the bytes from the BTH to the
 * pad. Or, of RC over a long way to a peer of ours, a window in the time of a round trip and a
 * little faster, lest it all stand at once in some queue on the way: in strides, as each costs a
 * timer, and faster by half where the window still doubles.
 */
#include "transport/requester.h"

enum {
	STRIDE_LEAST = 8 << 10,
	TIGHT_SHARE = 4,	/* of a stride, where queues are short */
	STRIDE_MOST = 60 << 10, /* one segmented send */
	GAIN = 5,		/* fourths, of a window in a round trip */
	GAIN_DOUBLING = 6,
};

/* A stride takes so long, if it is neither of the two above. */
static const uint64_t STRIDE_NS = 500000;

static uint64_t at_least(uint64_t value, uint64_t least)
{
	return value > least ? value : least;
}

static uint64_t at_most(uint64_t value, uint64_t most)
{
	return value < most ? value : most;
}

/* 1 kbit/s is a byte in 8 ms. */
static uint64_t time_of(uint64_t bytes, uint32_t kbps)
{
	return bytes * 8 * 1000000 / kbps;
}

static uint64_t burst_time(const struct qp *qp)
{
	return time_of(qp->max_burst, qp->attr.rate_limit);
}

/* Fourths of the bytes that go in a round trip. */
static uint64_t paced_bytes(const struct qp *qp)
{
	const struct window *window = &qp->requester->window;

	return (uint64_t)window->packets * qp->mtu *
	       (window_is_doubling(window) ? GAIN_DOUBLING : GAIN);
}

static uint64_t stride_of(const struct qp *qp)
{
	uint64_t bytes = paced_bytes(qp) * STRIDE_NS / qp->requester->probe.rtt.smoothed / 4;

	if (window_is_tight(&qp->requester->window))
		bytes /= TIGHT_SHARE;

	return at_most(at_least(bytes, STRIDE_LEAST), STRIDE_MOST);
}

static uint64_t paced_time(const struct qp *qp, uint64_t bytes)
{
	return bytes * 4 * qp->requester->probe.rtt.smoothed / paced_bytes(qp);
}

/* The rest of a stride; or another, if the one before is over. Who was late has one more. */
static bool may_send_paced(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;
	uint64_t stride = stride_of(qp), time = paced_time(qp, stride);

	requester->rate_room = at_most(requester->rate_room, stride);
	if (requester->rate_room)
		return true;
	if (requester->rate_next > now) {
		requester->rate_deadline = requester->rate_next;
		return false;
	}
	if (requester->rate_next + time < now)
		requester->rate_next = now - time;
	requester->rate_room = stride;
	return true;
}

/* A READ takes the time of its responses. */
static void sent_paced(struct qp *qp, uint32_t bytes, uint32_t psns)
{
	struct requester *requester = qp->requester;
	uint64_t all = at_least(bytes, psns ? (uint64_t)(psns - 1) * qp->mtu : 0);

	requester->rate_next += paced_time(qp, all);
	requester->rate_room -= at_most(all, requester->rate_room);
}

/* `rate_next` is when the next packet would go without bursts: it may run ahead of the time by one.
 */
bool rate_may_send(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;
	uint64_t burst;

	if (!qp->attr.rate_limit)
		return may_send_paced(qp, now);
	burst = burst_time(qp);
	if (requester->rate_next < now + burst)
		return true;
	requester->rate_deadline = requester->rate_next - burst + 1;
	return false;
}

void rate_sent(struct qp *qp, uint32_t bytes, uint32_t psns, uint64_t now)
{
	struct requester *requester = qp->requester;

	if (!qp->attr.rate_limit) {
		sent_paced(qp, bytes, psns);
		return;
	}
	if (requester->rate_next < now)
		requester->rate_next = now;
	requester->rate_next += time_of(bytes, qp->attr.rate_limit);
}
