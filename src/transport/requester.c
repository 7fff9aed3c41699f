/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the requester may send and when: order, fence, SQD, the window, the peer's credits.
 */
#include "transport/completion.h"
#include "transport/express.h"
#include "transport/inside.h"
#include "transport/offer.h"
#include "transport/reach.h"
#include "transport/requester.h"
#include "wire/mtu.h"

enum {
	RUN_LEAST = 32 << 10, /* bytes: with fewer none is full */
	SOON_PACKETS = 3,
	SEVERAL_WQES = 2, /* in flight: nobody waits for a single one */
};

void requester_reset(struct qp *qp)
{
	struct requester *requester = qp->requester;
	struct transport_counters counters = requester->counters;

	recovery_drop(qp);
	*requester = (struct requester){
	    .counters = counters,
	    .current = sq_head(qp),
	    .ack_deadline = NO_DEADLINE,
	    .rnr_deadline = NO_DEADLINE,
	    .rate_deadline = NO_DEADLINE,
	};
	probe_reset(&requester->probe);
	window_init(&requester->window, MTU_BYTES_MIN);
}

/* On the way to RTS. */
void requester_start(struct qp *qp, uint32_t psn)
{
	struct requester *requester = qp->requester;

	requester_reset(qp);
	psn &= PSN_MASK;
	requester->una = requester->psn = requester->end = requester->packets_end = psn;
	requester->retries_left = qp->attr.retry_cnt;
	requester->rnr_retries_left = qp->attr.rnr_retry;
	requester->signs_left = qp->type == IBV_QPT_RC ? SIGN_TRIES : 0;
	window_init(&requester->window, qp->mtu ? qp->mtu : MTU_BYTES_MIN);
	pace_start(qp);
	probe_start(qp);
}

/* A WQE can't be executed. Those before it complete first, so it waits for its turn (10.8.2.1). */
void requester_fail_wqe(struct qp *qp, uint32_t index, enum ibv_wc_status status,
			enum reason reason)
{
	struct requester *requester = qp->requester;

	requester->has_failed = true;
	requester->failed = index;
	requester->failed_status = status;
	requester->failed_reason = reason;
}

/* The failed WQE is at the head: it completes, and takes the QP (RC) or its send queue (UC, UD)
 * with it. */
void requester_settle(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;
	uint32_t head = sq_head(qp);

	if (!requester->has_failed || requester->failed != head)
		return;
	requester->has_failed = false;
	if (qp_is_reliable(qp)) /* first, as the program may use its memory again once it is told */
		reach_withdraw(qp);
	send_complete(qp, sq_wqe(&qp->sq, head), requester->failed_status, requester->failed_reason,
		      now);
	if (qp_is_reliable(qp))
		qp_enter_error(qp, now);
	else
		qp_enter_send_error(qp, now);
}

/* Nothing outstanding and no message half sent. */
bool requester_has_drained(const struct qp *qp)
{
	const struct requester *requester = qp->requester;

	if (requester->una != requester->end)
		return false;
	return requester->current == sq_tail(qp) ||
	       !(sq_wqe(&qp->sq, requester->current)->flight & (WQE_STARTED | WQE_REACHING));
}

static bool may_start(const struct qp *qp, const struct send_wqe *wqe)
{
	if (atomic_load_explicit(&qp->state, memory_order_relaxed) != IBV_QPS_RTS)
		return false;
	/* 10.8.3.3: a fenced request waits for READs and atomics before it */
	return !(wqe->flags & IBV_SEND_FENCE) || qp->requester->rd_count == 0;
}

static bool takes_receive(const struct send_wqe *wqe)
{
	switch (wqe->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return true;
	default:
		return false;
	}
}

/* The peer has announced no receive WQE for this message. One packet may go out alone to ask
 * (9.7.7.2.5). */
static bool is_beyond_credits(const struct requester *requester, const struct send_wqe *wqe)
{
	return requester->has_credits && takes_receive(wqe) &&
	       (int32_t)(requester->current - requester->credit_limit) >= 0;
}

static bool is_small(const struct send_wqe *wqe)
{
	return wqe->length <= WINDOW_SMALL_BYTES && wqe->opcode != IBV_WR_RDMA_READ;
}

/* Such a peer tells at once what is missing, and packets take their time to come there. Over a long
 * way ACKs are what tells how long it is: few of them would not part a line evenly. And where the
 * one that asks may be lost, more than one has to. */
static bool is_stream_to_ours(const struct qp *qp)
{
	const struct requester *requester = qp->requester;

	return requester->is_peer_ours && requester->probe.is_far && !requester->recovery &&
	       requester->psn == requester->end && !qp->attr.rate_limit &&
	       !window_is_long(&requester->window) && window_is_untouched(&requester->window);
}

/* How many packets may be in flight, of long messages. */
static uint32_t whole_window(const struct qp *qp)
{
	return is_stream_to_ours(qp) ? request_wide_window(qp) : qp->requester->window.packets;
}

/* How many packets may be in flight with this one. */
static uint32_t window_with(struct qp *qp, const struct send_wqe *wqe)
{
	struct requester *requester = qp->requester;

	if (wqe->opcode == IBV_WR_RDMA_READ)
		return request_wide_window(qp);
	if (requester->psn == requester->una ||
	    psn_compare(requester->large_end, requester->una) < 0)
		requester->large_end = requester->una;
	if (is_small(wqe) && requester->large_end == requester->una)
		return window_smalls(&requester->window);
	return whole_window(qp);
}

/* How many packets go out at most from one that asks for an ACK to the next. */
static uint32_t ack_interval(const struct qp *qp)
{
	return window_ack_interval(whole_window(qp),
				   is_stream_to_ours(qp) ? ACK_INTERVAL_OURS : ACK_INTERVAL);
}

/* The message behind this one can begin at once. */
static bool is_next_sure(const struct qp *qp)
{
	uint32_t next = qp->requester->current + 1;
	const struct send_wqe *wqe;

	if (next == sq_tail(qp))
		return false;
	wqe = sq_wqe(&qp->sq, next);
	return (wqe->opcode == IBV_WR_SEND || wqe->opcode == IBV_WR_RDMA_WRITE) &&
	       wqe->length > qp->mtu && may_start(qp, wqe);
}

/* Where the next packets would end that may go in one go: with the message, with the segmented
 * send, or with both. */
struct stretch {
	uint32_t count;
	bool ends_message, fills_run;
};

/* What a segmented send takes of the current message's packets, which are as long as its first, or
 * are filled up to that (wire/filled.h). */
static uint32_t run_packets(const struct qp *qp)
{
	const struct requester *requester = qp->requester;
	uint32_t bytes = BTH_BYTES + qp->mtu + ICRC_BYTES;

	if (requester->current != sq_tail(qp) &&
	    sq_wqe(&qp->sq, requester->current)->opcode == IBV_WR_RDMA_WRITE)
		bytes += RETH_BYTES;
	return packets_of_run(bytes);
}

/* How many more the run takes that has begun. First packets of messages are a little longer. */
static uint32_t run_room(const struct qp *qp)
{
	uint32_t each = BTH_BYTES + qp->mtu, most = run_packets(qp) * each + each / 4;

	return most > qp->requester->run_bytes ? (most - qp->requester->run_bytes) / each : 0;
}

static struct stretch stretch_of(const struct qp *qp, const struct send_wqe *wqe)
{
	uint32_t message = psn_into(wqe->last_psn, qp->requester->psn) + 1, run = run_room(qp);

	if (!run)
		run = 1;
	return (struct stretch){.count = message < run ? message : run,
				.ends_message = message <= run,
				.fills_run = run <= message};
}

/*
 * An ACK costs its sender as much as a batch of packets does. In a stream the end of a message, or
 * of a segmented send, need not ask for one: what follows in the same turn does.
 */
static bool may_leave_asking(const struct qp *qp, const struct send_wqe *wqe, uint32_t room,
			     const struct stretch *stretch)
{
	const struct requester *requester = qp->requester;
	uint32_t more = stretch->fills_run ? run_packets(qp) : 1;

	return is_stream_to_ours(qp) && !is_small(wqe) && !requester->has_credits &&
	       !(stretch->fills_run && requester->turn_runs + 1 == TURN_RUNS) &&
	       requester_in_flight(requester) + stretch->count + more <= room &&
	       (!stretch->ends_message || is_next_sure(qp));
}

/* How many packets of the stretch may go before one that has to ask for an ACK. */
static uint32_t unasked(const struct qp *qp, const struct send_wqe *wqe, uint32_t room,
			const struct stretch *stretch)
{
	const struct requester *requester = qp->requester;
	uint32_t in_flight = requester_in_flight(requester), interval = ack_interval(qp);
	uint32_t count = stretch->count;

	if (in_flight + 1 >= room || requester->since_ack_req + 1 >= interval)
		return 0;
	if (!may_leave_asking(qp, wqe, room, stretch))
		count--;
	if (count > room - in_flight - 1)
		count = room - in_flight - 1;
	if (count > interval - requester->since_ack_req - 1)
		count = interval - requester->since_ack_req - 1;
	return count;
}

/* Packets of a long message, many in one go. 0: there are none. */
static uint32_t send_burst(struct qp *qp, const struct send_wqe *wqe, uint32_t most,
			   struct outbox *outbox, uint32_t *bytes)
{
	uint32_t held = qp->requester->rate_room / qp->mtu;
	uint32_t count = burst_send(qp, wqe, most < held ? most : held, outbox);

	*bytes = count * (BTH_BYTES + qp->mtu);
	return count;
}

/* `count` packets have left, the last of which asks for an ACK, or the stretch goes on, or it has
 * left asking to what follows. */
static void have_left(struct qp *qp, bool is_large, bool leaves_asking, uint64_t now)
{
	struct requester *requester = qp->requester;

	requester->is_unasked =
	    requester->since_ack_req && (requester->is_unasked || leaves_asking);
	if (is_large)
		requester->large_end = requester->psn;
	retry_start_timer(qp, now);
}

static enum sent send_reliably(struct qp *qp, struct send_wqe *wqe, struct outbox *outbox,
			       uint64_t now, uint32_t *bytes)
{
	struct requester *requester = qp->requester;
	uint32_t in_flight = requester_in_flight(requester), first = requester->psn;
	uint32_t room = window_with(qp, wqe), most, count;
	bool is_probe = is_beyond_credits(requester, wqe), is_large = !is_small(wqe);
	struct stretch stretch;
	enum sent sent;

	if (offer_may(qp, wqe))
		return offer_send(qp, wqe, now, outbox, bytes);
	if (is_probe && in_flight)
		return SENT_WAIT;
	if (in_flight >= room)
		return SENT_WAIT;
	if (requester->recovery && psn_into(requester->psn, requester->una) >= RECOVERY_SPAN)
		return SENT_WAIT;
	stretch = stretch_of(qp, wqe);
	most = is_probe ? 0 : unasked(qp, wqe, room, &stretch);
	count = most > 1 ? send_burst(qp, wqe, most, outbox, bytes) : 0;
	if (!count) {
		sent = request_send(qp, wqe, !most, outbox, bytes);
		if (sent != SENT)
			return sent;
		count = 1;
	}
	have_left(qp, is_large, most && count == stretch.count, now);
	if (requester->since_ack_req == 0)
		probe_asked(qp, first, now);
	return SENT;
}

/*
 * Short messages, many in one go, behind one that began a segmented send in this turn. False if
 * there are none.
 */
static bool send_shorts(struct qp *qp, const struct send_wqe *wqe, struct outbox *outbox,
			uint64_t now, uint32_t *bytes)
{
	struct requester *requester = qp->requester;
	uint32_t room, in_flight, waiting = sq_tail(qp) - requester->current;

	if (!requester->run_bytes)
		return false;
	room = window_with(qp, wqe);
	in_flight = requester_in_flight(requester);
	if (in_flight >= room)
		return false;
	room -= in_flight;
	if (!shorts_send(qp, room < waiting ? room : waiting, outbox, bytes))
		return false;
	retry_start_timer(qp, now);
	probe_asked(qp, psn_add(requester->psn, -1), now);
	return true;
}

/* Of the work requests from the current one on, `enough` at most. */
static uint32_t posted_packets(const struct qp *qp, uint32_t enough)
{
	const struct requester *requester = qp->requester;
	uint32_t count = 0, tail = sq_tail(qp);

	for (uint32_t i = requester->current; i != tail && count < enough; i++) {
		const struct send_wqe *wqe = sq_wqe(&qp->sq, i);

		if (wqe->flight & WQE_STARTED)
			count += psn_into(wqe->last_psn, requester->psn) + 1;
		else
			count += wqe->length / qp->mtu + 1;
	}
	return count < enough ? count : enough;
}

/* Packets of a stream's turn, in segmented sends of `run`, with `room` for the window. */
static uint32_t turn_packets(uint32_t run, uint32_t room)
{
	uint32_t runs = room / 2 / run;

	return (runs < TURN_RUNS ? runs : TURN_RUNS) * run;
}

/*
 * A segmented send costs nearly the same whatever it carries. So when an answer, which has been
 * asked for, will make room in the window, the rest of a long message waits until there is room for
 * a whole one; and in a stream of messages, what is too little waits for an answer or for the next
 * message. In a stream to an end of ours a turn is several of them, as many as half the window
 * holds, and one ACK, and so with all of the window it waits for room for that; otherwise those
 * that once went one by one would do so to the end, each with an ACK of its own. Never more than a
 * quarter of the window waits, or half of it for a turn.
 */
static bool waits_for_more(const struct qp *qp)
{
	const struct requester *requester = qp->requester;
	uint32_t in_flight = psn_into(requester->psn, requester->una);
	uint32_t run = run_packets(qp), quarter = requester->window.packets / 4;
	uint32_t posted, turn, room = whole_window(qp);
	const struct send_wqe *wqe = sq_wqe(&qp->sq, requester->current);

	if (!qp_is_reliable(qp) || requester->recovery || requester->current == sq_tail(qp) ||
	    requester->since_ack_req || requester->psn != requester->end || offer_may(qp, wqe))
		return false;
	if (wqe->opcode == IBV_WR_RDMA_READ)
		room = request_wide_window(qp);
	if (in_flight >= room)
		return false;
	run = run < quarter ? run : quarter;
	if (!run || in_flight < run || wqe->length < qp->mtu)
		return false;
	turn = turn_packets(run, room);
	posted = posted_packets(qp, turn);
	if (posted < run)
		return requester->current - sq_head(qp) >= SEVERAL_WQES;
	if (posted == turn && in_flight >= turn && is_stream_to_ours(qp) &&
	    window_is_full(&requester->window))
		run = turn;
	return room - in_flight < run;
}

/* UC and UD: done when it has left (10.8.5). */
static enum sent send_unreliably(struct qp *qp, struct send_wqe *wqe, struct outbox *outbox,
				 uint64_t now, uint32_t *bytes)
{
	struct requester *requester = qp->requester;
	uint32_t current = requester->current;
	enum sent sent;

	if (qp->type == IBV_QPT_UD)
		pace_toward(qp, &wqe->ud.av, wqe->ud.qpn);
	if (!pace_may_send(qp, pace_bytes(qp, wqe), now))
		return SENT_WAIT;
	sent = qp->type == IBV_QPT_UD ? ud_send(qp, wqe, outbox, bytes)
				      : request_send(qp, wqe, false, outbox, bytes);

	requester->una = requester->psn;
	if (sent == SENT && requester->current != current)
		completer_retire(qp, now);
	return sent;
}

/* A frame of its own each, and done when it has left. */
static enum sent send_raw(struct qp *qp, struct send_wqe *wqe, uint64_t now, uint32_t *bytes)
{
	enum sent sent = SENT_WAIT;

	if (may_start(qp, wqe))
		sent = raw_send(qp, wqe, bytes);
	if (sent == SENT)
		completer_retire(qp, now);
	if (sent == SENT_FAILED)
		requester_settle(qp, now);
	return sent;
}

/* Without packets, if it can be. */
static enum reach_result reach(struct qp *qp, struct send_wqe *wqe, uint64_t now, uint32_t *bytes)
{
	if (reach_may(qp, wqe))
		return reach_run(qp, wqe, now, bytes);
	return inside_may(qp, wqe) ? inside_run(qp, wqe, now, bytes) : REACH_REFUSED;
}

/* As a record, where the peer takes those. False: it goes by packets. */
static bool send_record(struct qp *qp, uint64_t now, struct outbox *outbox, uint32_t *bytes,
			enum sent *sent)
{
	struct requester *requester = qp->requester;
	uint32_t end = requester->end;
	enum express_step step = express_go_on(qp, outbox, bytes);

	if (step == EXPRESS_STUCK)
		return false;
	*sent = step == EXPRESS_SENT ? SENT : SENT_WAIT;
	if (step == EXPRESS_WAITS)
		return true;
	if (!requester->ends_by_record)
		requester->packets_end = end;
	requester->ends_by_record = true;
	requester->is_untimed = false;
	retry_start_timer(qp, now);
	return true;
}

static enum sent requester_step(struct qp *qp, uint64_t now, struct outbox *outbox, uint32_t *bytes)
{
	struct requester *requester = qp->requester;
	enum reach_result reached;
	struct send_wqe *wqe;
	enum sent sent = SENT;

	if (requester->current == sq_tail(qp))
		return SENT_WAIT;
	if (requester->has_failed && requester->failed == requester->current)
		return SENT_WAIT;
	if (!rate_is_limited(qp))
		requester->rate_room = UINT32_MAX;
	else if (!rate_may_send(qp, now))
		return SENT_WAIT;
	wqe = sq_wqe(&qp->sq, requester->current);
	if (qp->type == IBV_QPT_RAW_PACKET)
		return send_raw(qp, wqe, now, bytes);
	if (send_record(qp, now, outbox, bytes, &sent))
		return sent;
	requester->ends_by_record = false;
	if (send_shorts(qp, wqe, outbox, now, bytes))
		return SENT;
	if (!(wqe->flight & WQE_STARTED)) {
		if (!(wqe->flight & WQE_REACHING) && !may_start(qp, wqe))
			return SENT_WAIT;
		if (reach_waits(qp, wqe))
			return SENT_WAIT;
		reached = reach(qp, wqe, now, bytes);
		if (reached != REACH_REFUSED)
			return reached == REACH_DONE ? SENT : SENT_WAIT;
		sent = request_begin(qp, wqe);
	}
	if (wqe->flight & WQE_DONE) {
		*bytes = 0;
		requester->current++;
		completer_retire_done(qp, now);
		return SENT;
	}
	if (sent == SENT)
		sent = qp_is_reliable(qp) ? send_reliably(qp, wqe, outbox, now, bytes)
					  : send_unreliably(qp, wqe, outbox, now, bytes);
	if (sent == SENT_FAILED)
		requester_settle(qp, now);
	return sent;
}

static void tell_drained(struct qp *qp)
{
	if (!qp->is_draining || !requester_has_drained(qp))
		return;
	qp->is_draining = false;
	if (qp->requester->notify_drained)
		qp_event(qp, IBV_EVENT_SQ_DRAINED);
}

/* The QP has its turn for its responder alone: so it is for half of all turns. */
static bool has_nothing_to_do(const struct qp *qp, uint64_t now)
{
	const struct requester *requester = qp->requester;

	return requester->current == sq_tail(qp) && requester->psn == requester->end &&
	       !qp->is_draining && !requester->recovery && now < requester->ack_deadline &&
	       now < requester->rnr_deadline && now < requester->probe.deadline &&
	       !requester->probe.is_due;
}

/*
 * The last packets of a WRITE belong to its turn: the next one's first packet is longer, and so the
 * first of another segmented send, unless they are filled up for one of ours (wire/filled.h).
 */
static bool ends_soon(const struct qp *qp)
{
	const struct requester *requester = qp->requester;
	const struct send_wqe *wqe = sq_wqe(&qp->sq, requester->current);

	return requester->current != sq_tail(qp) && (wqe->flight & WQE_STARTED) &&
	       wqe->opcode == IBV_WR_RDMA_WRITE && !qp->av.carrier_max &&
	       psn_into(wqe->last_psn, requester->psn) < SOON_PACKETS;
}

/*
 * What was to ask in place of another has not left after all: the work request behind could not be
 * begun, or its memory is gone. The last packet goes once more, and asks. False: the outbox is
 * full.
 */
static bool ask_at_last(struct qp *qp, uint64_t now, struct outbox *outbox)
{
	struct requester *requester = qp->requester;
	uint32_t last = psn_add(requester->psn, -1);
	enum sent sent;

	if (!requester->is_unasked || !requester_is_alive(qp))
		return true;
	if (!requester->since_ack_req || requester->una == requester->psn ||
	    requester->psn != requester->end) {
		requester->is_unasked = false;
		return true;
	}
	sent = request_repeat(qp, request_index(qp, last), last, 1, outbox);
	if (sent == SENT_FULL)
		return false;
	requester->is_unasked = false;
	if (sent == SENT_FAILED)
		requester_settle(qp, now);
	return true;
}

/* For how many windows it lends pages. */
static uint8_t lends(const struct qp *qp)
{
	if (!is_stream_to_ours(qp))
		return 0;
	return (uint8_t)(whole_window(qp) / qp->requester->window.packets);
}

static bool run(struct qp *qp, uint64_t now, struct outbox *outbox)
{
	struct requester *requester = qp->requester;
	uint32_t bytes = 0, before;
	enum sent sent;

	if (!retry_on_deadline(qp, now))
		return false;
	if (requester->rnr_deadline != NO_DEADLINE)
		return false;
	if (requester->probe.is_due && !probe_run(qp, now, outbox))
		return requester_is_alive(qp);
	if (waits_for_more(qp))
		return false;
	qp->av.lends = lends(qp);
	if (qp->requester->recovery && !recovery_run(qp, now, outbox))
		return requester_is_alive(qp);
	do {
		before = requester->psn;
		sent = requester_step(qp, now, outbox, &bytes);
		if (sent == SENT_FULL)
			return true;
		requester->run_bytes += bytes;
		if (bytes && rate_is_limited(qp))
			rate_sent(qp, bytes, psn_into(requester->psn, before), now);
		bytes = 0;
		if (sent != SENT || requester->run_bytes < RUN_LEAST || run_room(qp) ||
		    ends_soon(qp))
			continue;
		requester->run_bytes = 0;
		if (++requester->turn_runs == TURN_RUNS)
			return true;
		if (waits_for_more(qp))
			break;
	} while (sent == SENT && requester_is_alive(qp));
	if (requester_is_alive(qp))
		tell_drained(qp);
	return !ask_at_last(qp, now, outbox);
}

bool requester_run(struct qp *qp, uint64_t now, struct outbox *outbox)
{
	struct requester *requester = qp->requester;
	bool wants_more;

	requester->run_bytes = requester->turn_runs = 0;
	requester->rate_deadline = NO_DEADLINE;
	if (!requester_is_alive(qp) || has_nothing_to_do(qp, now))
		return false;
	requester->ends_by_record = false;
	wants_more = run(qp, now, outbox);
	if (!requester->ends_by_record)
		requester->packets_end = requester->end;
	return wants_more;
}
