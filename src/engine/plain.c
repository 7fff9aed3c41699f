/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * As plain.h describes it. A QP whose ACK waits for the program's reply is ready for a turn; with
 * the reply gone it needs none.
 */
#include "base/cancel.h"
#include "base/hot.h"
#include "device/qp.h"
#include "engine/lane.h"
#include "engine/plain.h"
#include "engine/progress.h"
#include "link/samehost.h"
#include "link/udp.h"
#include "transport/plain.h"
#include "transport/transport.h"
#include "transport/unreliable.h"

/* No other QP is to have its turn first, and nothing waits for room. */
static bool is_free(const struct lane *lane, const struct seat *seat)
{
	return atomic_load_explicit(&lane->has_poller, memory_order_relaxed) &&
	       lane->flush_at == UINT64_MAX &&
	       (!lane->ready || (lane->ready == seat && !seat->next));
}

/* Who posts to it meanwhile and finds it queued leaves that to us. */
static void unready(struct lane *lane, struct seat *seat)
{
	if (lane->ready != seat)
		return;
	lane->ready = NULL;
	lane->ready_end = &lane->ready;
	atomic_store_explicit(&seat->is_queued, false, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	if (transport_waits(seat->qp) || transport_owes(seat->qp))
		lane_make_ready(lane, seat);
}

static uint64_t flush(struct lane *lane)
{
	lane_flush(lane, lane->clock);
	return lane_now();
}

/* As a doorbell is. */
static void was_seen(struct lane *lane, uint64_t now)
{
	lane->clock = now;
	lane_count(&lane->posts);
	atomic_store_explicit(&lane->seen_sends, udp_link_sends(lane->link), memory_order_relaxed);
	atomic_store_explicit(&lane->seen, now, memory_order_relaxed);
}

/* The peer waits for it: all else has time until it has left, the clock too. */
static void leave(struct lane *lane, struct seat *seat, const struct ibv_send_wr *wr)
{
	uint64_t now = flush(lane);

	plain_sent(seat->qp, wr, now);
	unready(lane, seat);
	lane_retime(lane, seat->qp);
	lane->is_answering_later = false;
	was_seen(lane, now);
}

static bool post(struct lane *lane, struct seat *seat, const struct ibv_send_wr *wr)
{
	if (!plain_post(seat->qp, wr, udp_link_outbox(lane->link)))
		return false;
	leave(lane, seat, wr);
	return true;
}

/* What sends may be a cancellation point, and what opens a socket for it. */
APART bool plain_send(struct lane *lane, struct seat *seat, const struct ibv_send_wr *wr)
{
	UNCANCELLED_TURN;

	return is_free(lane, seat) && plain_may(seat->qp) && post(lane, seat, wr);
}

APART bool plain_send_unreliably(struct lane *lane, struct qp *qp, struct ibv_send_wr *wr)
{
	UNCANCELLED_TURN;

	if (lane->ready || !is_free(lane, qp->seat) ||
	    !unreliable_post_far(qp, wr, samehost_outbox(lane->samehost), lane->clock))
		return false;
	was_seen(lane, flush(lane));
	return true;
}
