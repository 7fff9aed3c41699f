/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Looking for a lost tail, as probe.h describes it. The newest packet goes first, for its answer
 * tells of all before it. The oldest goes where that has been tried, or where the peer has told of
 * a gap: that one is missing for sure, or its ACK is, and no peer need tell of a gap twice.
 */
#include "device/adapter.h"
#include "transport/requester.h"

enum {
	PROBES_MAX = 2,
	KNOWN = 64, /* round trips: from then on it takes, */
	ALONE = 8,  /* of packets that go alone, one in so many to know more */
};

/* A peer that sleeps takes this long to wake up on a busy machine. */
static const uint64_t PROBE_LEAST_NS = 1000000;

void probe_reset(struct probe *probe)
{
	*probe = (struct probe){.deadline = NO_DEADLINE};
}

void probe_start(struct qp *qp)
{
	struct probe *probe = &qp->requester->probe;

	probe->until = probe->round = qp->requester->psn;
	probe->is_far = memcmp(&qp->av.sgid, &qp->av.dgid, sizeof(qp->av.sgid)) != 0;
}

static void set_deadline(struct probe *probe, uint64_t now)
{
	if (probe->rtt.smoothed && probe->tries < PROBES_MAX)
		probe->deadline =
		    now + ((rtt_patience(&probe->rtt) + PROBE_LEAST_NS) << probe->tries);
}

/* Several of a window tell sooner that it has become too much. */
static bool may_time(const struct requester *requester, uint32_t psn)
{
	const struct window *window = &requester->window;
	const struct rtt *rtt = &requester->probe.rtt;

	return rtt_may_time(rtt, psn,
			    window_is_long(window) ? window->packets / RTT_TIMED : UINT32_MAX);
}

/* One that is all there is under way, as in a ping-pong, says nothing about the window, and the
 * answer to it waits for what a sample takes. */
static bool is_worth_timing(const struct requester *requester, uint32_t psn)
{
	bool is_alone = psn == requester->una && requester->psn == psn_next(psn);

	return !is_alone || requester->probe.rtt.samples < KNOWN || psn % ALONE == 0;
}

/* With this packet, and without what follows it in a READ. */
static uint32_t ahead_of(const struct requester *requester, uint32_t psn)
{
	uint32_t behind = psn_into(requester->psn, psn) - 1,
		 in_flight = requester_in_flight(requester);

	return in_flight > behind ? in_flight - behind : 1;
}

void probe_asked(struct qp *qp, uint32_t first, uint64_t now)
{
	struct requester *requester = qp->requester;
	struct probe *probe = &requester->probe;

	if (!probe->is_far || qp->attr.rate_limit)
		return;
	probe->until = requester->psn;
	/* what goes again says nothing about the time */
	if (requester->psn == requester->end && may_time(requester, first) &&
	    is_worth_timing(requester, first) &&
	    (!probe->goes_again || psn_compare(requester->psn, probe->again) > 0))
		rtt_time(&probe->rtt, (struct timed){.since = now,
						     .psn = psn_next(first),
						     .ahead = ahead_of(requester, first),
						     .is_behind_gap = requester->recovery});
	set_deadline(probe, now);
}

static void take_time(struct qp *qp, const struct timed *timed, uint64_t now)
{
	struct requester *requester = qp->requester;
	struct rtt *rtt = &requester->probe.rtt;
	uint64_t sample = now - timed->since;

	if (now < timed->since)
		return; /* who polls looks at the clock before it has the lane's lock */
	rtt_add(rtt, sample);
	rtt_note_least(rtt, sample, now);
	if (requester->is_peer_ours)
		window_timed(&requester->window, rtt, sample, timed->ahead, qp->mtu, now);
}

/* What left before it is lost, or comes when it has gone again. */
void probe_arrived(struct qp *qp, uint32_t psn, uint64_t now)
{
	struct rtt *rtt = &qp->requester->probe.rtt;

	for (uint32_t i = 0; i < rtt->timed_count; i++) {
		if (psn_next(psn) != rtt->timed[i].psn)
			continue;
		if (!rtt->timed[i].is_void)
			take_time(qp, &rtt->timed[i], now);
		rtt_drop(rtt, i + 1);
	}
}

/* Of those that one ACK acknowledges the last came last. */
static void take_acknowledged(struct qp *qp, uint64_t now)
{
	struct rtt *rtt = &qp->requester->probe.rtt;
	const struct timed *last = NULL;
	uint32_t count = 0;

	while (count < rtt->timed_count &&
	       psn_compare(qp->requester->una, rtt->timed[count].psn) >= 0)
		last = &rtt->timed[count++];
	if (!last)
		return;
	if (!last->is_behind_gap && !last->is_void)
		take_time(qp, last, now);
	rtt_drop(rtt, count);
}

/* What went again may have gone another way than what is to be judged. */
static void count_round(struct qp *qp)
{
	struct requester *requester = qp->requester;
	struct probe *probe = &requester->probe;

	if (!qp->av.is_doubted && psn_compare(requester->una, probe->round) < 0)
		return;
	qp->av.rounds += !qp->av.is_doubted;
	qp->av.is_doubted = false;
	probe->round = requester->end;
}

void probe_progressed(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;
	struct probe *probe = &requester->probe;

	count_round(qp);
	if (rtt_is_timing(&probe->rtt))
		take_acknowledged(qp, now);
	if (probe->goes_again)
		probe->goes_again = psn_compare(requester->una, probe->again) < 0;
	probe->tries = 0;
	probe->is_due = false;
	probe->deadline = NO_DEADLINE;
	if (psn_compare(requester->una, probe->until) < 0)
		set_deadline(probe, now);
	else
		probe->until = requester->una;
}

void probe_drop(struct qp *qp, uint64_t now)
{
	struct probe *probe = &qp->requester->probe;

	probe->deadline = NO_DEADLINE;
	probe->rtt.timed_count = 0;
	probe->is_due = false;
	probe->again = qp->requester->end;
	probe->again_since = now;
	probe->goes_again = true;
}

void probe_expire(struct qp *qp)
{
	struct requester *requester = qp->requester;
	struct probe *probe = &requester->probe;

	probe->deadline = NO_DEADLINE;
	probe->is_due = requester->una != requester->psn &&
			requester->rnr_deadline == NO_DEADLINE && !qp->attr.rate_limit &&
			(requester->is_peer_ours || !requester->rd_count);
}

/* The oldest: of a READ all that its request asked for, lest the peer know two of other borders;
 * but what it has answered in part goes packet by packet. */
static uint32_t oldest_psns(const struct requester *requester, const struct send_wqe *wqe)
{
	if (!is_answered(wqe->opcode) || !requester->rd_sent ||
	    (requester->recovery && psn_compare(requester->una, requester->recovery->executed) < 0))
		return 1;
	return psn_into(requester->rd_last[requester->rd_first], requester->una) + 1;
}

bool probe_run(struct qp *qp, uint64_t now, struct outbox *outbox)
{
	struct requester *requester = qp->requester;
	struct probe *probe = &requester->probe;
	bool is_oldest = requester->recovery || requester->has_gone_back || probe->tries;
	uint32_t psn = is_oldest ? requester->una : psn_add(requester->psn, -1), index, psns = 1;
	enum sent sent;

	if (requester->una == requester->psn) {
		probe->is_due = false;
		return true;
	}
	qp->av.is_doubted = true;
	index = request_index(qp, psn);
	if (is_oldest)
		psns = oldest_psns(requester, sq_wqe(&qp->sq, index));
	sent = request_repeat(qp, index, psn, psns, outbox);
	if (sent == SENT_FAILED)
		requester_settle(qp, now);
	if (sent != SENT)
		return false;
	probe->is_due = false;
	probe->rtt.timed_count = 0;
	probe->tries++;
	requester->counters.probes++;
	set_deadline(probe, now);
	return true;
}
