/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester's part of selective recovery: what is known to have arrived, and so what is lost.
 */
#include <string.h>

#include "base/hot.h"
#include "device/adapter.h"
#include "transport/recovery.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "wire/gaps.h"
#include "wire/mtu.h"

void recovery_ask(struct requester *requester, struct bth *bth)
{
	if (!requester->signs_left)
		return;
	requester->signs_left--;
	bth->fecn = true;
	bth->generation = GENERATION_OWN;
}

void recovery_reply(const struct qp *qp, struct bth *bth)
{
	if (!qp->responder->owes_sign)
		return;
	bth->becn = true;
	bth->generation = GENERATION_OWN;
}

void recovery_sign(struct qp *qp, const struct bth *bth)
{
	if (qp->type != IBV_QPT_RC)
		return;
	if (!qp->requester->is_peer_ours)
		congestion_offer(qp);
	qp->requester->is_peer_ours = true;
	if (bth->generation >= GENERATION_JOINS)
		qp->av.carrier_max = mtu_bytes(qp->attr.path_mtu) + MTU_CARRIER;
	qp->requester->takes_offers |= bth->generation >= GENERATION_FETCHES;
	qp->requester->signs_left = 0;
	if (bth->fecn)
		qp->responder->owes_sign = true;
}

/* ---- what has arrived ---- */

static bool is_later(struct departure a, struct departure b)
{
	return a.stamp != b.stamp ? a.stamp > b.stamp : psn_compare(a.psn, b.psn) > 0;
}

static struct departure departure_of(const struct recovery *recovery, uint32_t psn)
{
	return (struct departure){recovery->stamps[psn % RECOVERY_PSNS], psn};
}

static bool is_marked(const uint8_t *bits, uint32_t psn)
{
	return bits[psn % RECOVERY_PSNS / 8] >> psn % 8 & 1;
}

static void mark(uint8_t *bits, uint32_t psn, bool is_so)
{
	uint8_t *byte = &bits[psn % RECOVERY_PSNS / 8], bit = 1 << psn % 8;

	*byte = is_so ? *byte | bit : *byte & ~bit;
}

static uint32_t time_of(uint64_t now)
{
	return (uint32_t)(now / RECOVERY_TIME_NS);
}

/* Of what left twice the first may have arrived, until there was time for a round trip since. */
static bool is_ambiguous(const struct requester *requester, uint32_t psn)
{
	const struct recovery *recovery = requester->recovery;
	uint64_t round_trip = requester->probe.rtt.smoothed;
	uint32_t since = time_of(recovery->now) - recovery->times[psn % RECOVERY_PSNS];

	return is_marked(recovery->again, psn) &&
	       (!round_trip || since < time_of(round_trip - round_trip / 8));
}

static void note(const struct requester *requester, struct departure *latest, uint32_t psn)
{
	struct departure arrived = departure_of(requester->recovery, psn);

	if (!is_ambiguous(requester, psn) && is_later(arrived, *latest))
		*latest = arrived;
}

static void set_executed(struct recovery *recovery, uint32_t psn)
{
	if (psn_compare(psn, recovery->executed) > 0)
		recovery->executed = psn;
}

/* What went back has left before, and since. */
static void note_again(struct requester *requester)
{
	const struct probe *probe = &requester->probe;
	struct recovery *recovery = requester->recovery;
	uint32_t psn = requester->una;

	for (; probe->goes_again && psn != requester->psn && psn_compare(psn, probe->again) < 0;
	     psn = psn_next(psn)) {
		mark(recovery->again, psn, true);
		recovery->times[psn % RECOVERY_PSNS] = time_of(probe->again_since);
	}
}

/* Everything in flight has left in the order of PSNs: stamps of 0 say so. */
static struct recovery *begin(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;
	struct departure none = {0, psn_add(requester->una, -1)};
	struct recovery *recovery;

	if (requester->recovery) {
		requester->recovery->now = now;
		return requester->recovery;
	}
	if (!requester->is_peer_ours || psn_into(requester->end, requester->una) > RECOVERY_SPAN)
		return NULL;
	recovery = pool_take(&qp->adapter->pool, sizeof(*recovery));
	if (!recovery)
		return NULL;
	memset(recovery, 0, sizeof(*recovery));
	recovery->until = requester->end;
	recovery->executed = requester->una;
	recovery->request = recovery->answer = none;
	recovery->now = now;
	requester->recovery = recovery;
	rtt_note_gap(&requester->probe.rtt);
	note_again(requester);
	return recovery;
}

bool recovery_gaps(struct qp *qp, const struct wire_packet *wire, uint64_t now)
{
	struct requester *requester = qp->requester;
	uint32_t psns = gaps_psns(wire->payload, wire->payload_length), psn = wire->bth.psn;
	struct recovery *recovery = psns ? begin(qp, now) : NULL;

	if (!recovery)
		return false;
	set_executed(recovery, psn);
	for (uint32_t i = 1; i < psns; i++) {
		psn = psn_next(psn);
		if (psn_compare(psn, requester->psn) >= 0)
			break;
		if (!gaps_get(wire->payload, i) || psn_compare(psn, requester->una) < 0 ||
		    is_marked(recovery->arrived, psn))
			continue;
		mark(recovery->arrived, psn, true);
		note(requester, &recovery->request, psn);
		probe_arrived(qp, psn, now);
	}
	recovery->is_due = true;
	return true;
}

/* All answers up to this PSN have left the peer. */
bool recovery_acknowledge(struct qp *qp, uint32_t psn, uint64_t now)
{
	struct recovery *recovery = begin(qp, now);

	if (!recovery)
		return false;
	set_executed(recovery, psn_next(psn));
	note(qp->requester, &recovery->answer, psn);
	note(qp->requester, &recovery->request, psn);
	recovery->is_due = true;
	return true;
}

/* One that came before its turn. */
bool recovery_answer(struct qp *qp, const struct wire_packet *wire, uint64_t now)
{
	struct requester *requester = qp->requester;
	size_t before = wire->op->header_bytes,
	       size = before + wire->payload_length + wire_pad(wire->payload_length);

	if (!begin(qp, now))
		return false;
	probe_arrived(qp, wire->bth.psn, now);
	return hold_put(qp->adapter, &requester->responses, requester->una, wire->bth.psn,
			wire->payload - before, size) &&
	       recovery_acknowledge(qp, wire->bth.psn, now);
}

void recovery_left(struct requester *requester, uint32_t psn, uint32_t psns)
{
	struct recovery *recovery = requester->recovery;

	for (; psns; psns--, psn = psn_next(psn)) {
		recovery->stamps[psn % RECOVERY_PSNS] = recovery->clock;
		recovery->times[psn % RECOVERY_PSNS] = time_of(recovery->now);
		mark(recovery->arrived, psn, false);
		mark(recovery->again, psn, psn_compare(psn, requester->end) < 0);
		if (rtt_is_timing(&requester->probe.rtt))
			rtt_void(&requester->probe.rtt, psn_next(psn));
	}
}

ASIDE void recovery_progressed(struct qp *qp)
{
	struct requester *requester = qp->requester;
	struct recovery *recovery = requester->recovery;

	recovery->is_due = true;
	hold_trim(qp->adapter, &requester->responses, requester->una);
	if (psn_compare(requester->una, recovery->until) < 0 || requester->responses)
		return;
	pool_give(&qp->adapter->pool, recovery);
	requester->recovery = NULL;
}

void recovery_drop(struct qp *qp)
{
	struct requester *requester = qp->requester;

	hold_drop(qp->adapter, &requester->responses);
	pool_give(&qp->adapter->pool, requester->recovery);
	requester->recovery = NULL;
}

/* ---- what is lost ---- */

static const uint64_t PAID_NS = 1000000;

enum { PAID_ROUND_TRIPS = 4 };

struct walk {
	struct qp *qp;
	uint64_t now;
	struct outbox *outbox;
	uint32_t index;	  /* of the WQE */
	uint32_t psn;	  /* the next to look at */
	uint32_t rd;	  /* request with an answer, from the oldest on */
	uint32_t settled; /* see struct recovery */
};

static bool is_lost_request(const struct recovery *recovery, uint32_t psn)
{
	return is_later(recovery->request, departure_of(recovery, psn));
}

/*
 * One of retry_cnt goes for the oldest, as it does for going back, and the timer runs anew. Where
 * packets pass each other one that is only late counts as lost with each that passes it: that must
 * not use up all of them before it can have come.
 */
static bool pay(struct walk *walk, uint32_t psn, uint32_t lost)
{
	struct requester *requester = walk->qp->requester;
	uint64_t round_trips = PAID_ROUND_TRIPS * requester->probe.rtt.smoothed;

	window_missed(&requester->window, lost, requester->una, requester->end);
	if (psn != requester->una)
		return true;
	requester->ack_deadline = NO_DEADLINE;
	retry_start_timer(walk->qp, walk->now);
	if (walk->now < requester->recovery->paid_until)
		return true;
	requester->recovery->paid_until =
	    walk->now + (round_trips > PAID_NS ? round_trips : PAID_NS);
	return retry_spend(walk->qp, walk->now);
}

static bool send_again(struct walk *walk, uint32_t psn, uint32_t psns, uint32_t lost)
{
	enum sent sent = request_repeat(walk->qp, walk->index, psn, psns, walk->outbox);

	if (sent == SENT_FAILED)
		requester_settle(walk->qp, walk->now);
	return sent == SENT && pay(walk, psn, lost);
}

/* SEND and WRITE: packet by packet. */
static bool walk_payload(struct walk *walk, uint32_t last)
{
	const struct recovery *recovery = walk->qp->requester->recovery;

	for (; psn_compare(walk->psn, last) <= 0; walk->psn = psn_next(walk->psn)) {
		if (psn_compare(walk->psn, recovery->executed) < 0 ||
		    is_marked(recovery->arrived, walk->psn))
			walk->settled++;
		else if (is_lost_request(recovery, walk->psn) && !send_again(walk, walk->psn, 1, 1))
			return false;
	}
	return true;
}

/* An answer is missing, and one that was asked for later is here. */
static bool is_lost_answer(const struct requester *requester, uint32_t psn)
{
	return !hold_has(requester->responses, psn) &&
	       is_later(requester->recovery->answer, departure_of(requester->recovery, psn));
}

/* The peer has the request: what is missing of the answer is asked for again. */
static bool walk_answer(struct walk *walk, uint32_t last)
{
	const struct requester *requester = walk->qp->requester;
	uint32_t begin = walk->psn, first, psns;
	bool is_one;

	while (psn_compare(walk->psn, last) <= 0) {
		first = walk->psn;
		while (psn_compare(walk->psn, last) <= 0 && is_lost_answer(requester, walk->psn))
			walk->psn = psn_next(walk->psn);
		psns = psn_into(walk->psn, first);
		if (psns) {
			/* of all that was asked for at once the request may be what was lost */
			is_one = first == begin && psns > psn_into(last, begin);
			if (!send_again(walk, first, psns, is_one ? 1 : psns))
				return false;
			continue;
		}
		walk->settled += hold_has(requester->responses, walk->psn);
		walk->psn = psn_next(walk->psn);
	}
	return true;
}

/* READ, atomics: each request that it went out as. */
static bool walk_answered(struct walk *walk, uint32_t last)
{
	const struct requester *requester = walk->qp->requester;
	const struct recovery *recovery = requester->recovery;

	while (psn_compare(walk->psn, last) <= 0 && walk->rd < requester->rd_sent) {
		uint32_t place = (requester->rd_first + walk->rd++) % MAX_RD_ATOMIC;
		uint32_t first = walk->psn, end = requester->rd_last[place];

		if (psn_compare(first, recovery->executed) < 0 ||
		    is_marked(recovery->arrived, first)) {
			if (!walk_answer(walk, end))
				return false;
		} else if (is_lost_request(recovery, first) &&
			   !send_again(walk, first, psn_into(end, first) + 1, 1)) {
			return false;
		}
		walk->psn = psn_next(end);
	}
	return true;
}

bool recovery_run(struct qp *qp, uint64_t now, struct outbox *outbox)
{
	struct requester *requester = qp->requester;
	struct walk walk = {.qp = qp, .now = now, .outbox = outbox, .psn = requester->una};
	const struct send_wqe *wqe;
	uint32_t last;

	requester->recovery->now = now;
	if (!requester->recovery->is_due)
		return true;
	for (walk.index = sq_head(qp); psn_compare(walk.psn, requester->psn) < 0; walk.index++) {
		wqe = sq_wqe(&qp->sq, walk.index);
		if (wqe->flight & WQE_DONE)
			continue;
		last = wqe->last_psn;
		if (psn_compare(last, requester->psn) >= 0)
			last = psn_add(requester->psn, -1);
		if (!(is_answered(wqe->opcode) ? walk_answered(&walk, last)
					       : walk_payload(&walk, last)))
			return false;
		walk.psn = psn_next(last);
	}
	requester->recovery->settled = walk.settled;
	requester->recovery->is_due = false;
	return true;
}
