/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pace of UC and UD. Nothing acknowledges their packets, so a sender faster than the receiver would
 * only fill its socket buffer and lose the rest, where InfiniBand has flow control at the link.
 * Between adapters of ours congestion notification does the work: a packet with FECN asks, the
 * receiver answers with a congestion notification packet once it has taken that packet in (A10,
 * A17.9), and the sender keeps what is not answered within a window, which halves when an answer is
 * missing. Another make's adapter ignores FECN; when it has not answered a few times the sender no
 * longer waits for it. A UD QP keeps the pace of the receiver it is sending to: a stream to one has
 * a pace, datagrams to ever others have none, and a group never has.
 */
#include "device/adapter.h"
#include "transport/build.h"
#include "transport/requester.h"

enum {
	PACE_PACKETS_MIN = 8,
	PACE_PACKETS_MAX = 64,
	PACE_BYTES = 1024, /* a packet; of longer ones there may be fewer, so 64 KiB in all */
	PACE_GIVE_UP = 3,  /* answers missing in a row */
};

/* How long an answer may take: the receiver may have to wait for a processor first. */
static const uint64_t PACE_STRANGER_NS = 30000000, PACE_NS = 200000000;

/* It answers, for it has before, or must be one of us because it shares our address. */
static uint64_t patience(const struct qp *qp)
{
	bool is_ours = qp->requester->pace.has_answered || qp->requester->pace.is_here ||
		       (qp->type == IBV_QPT_UC && gid_is_same(&qp->av.sgid, &qp->av.dgid));

	return is_ours ? PACE_NS : PACE_STRANGER_NS;
}

void pace_start(struct qp *qp)
{
	uint32_t psn = qp->requester->psn;

	qp->requester->pace =
	    (struct pace){.window = PACE_PACKETS_MAX, .confirmed = psn, .asked = psn};
}

static int find_silent(const struct pace *pace)
{
	for (int i = 0; i < PACE_SILENT; i++)
		if (memcmp(&pace->silent[i], &pace->gid, sizeof(pace->gid)) == 0)
			return i;
	return -1;
}

/* UD: whom the next datagram goes to. */
void pace_toward(struct qp *qp, const struct av *av, uint32_t qpn)
{
	struct requester *requester = qp->requester;
	struct pace *pace = &requester->pace;
	const union ibv_gid *gid = &av->dgid;

	if (pace->qpn == qpn && gid_is_same(&pace->gid, gid))
		return;
	pace->gid = *gid;
	pace->qpn = qpn;
	pace->is_here = gid_is_same(gid, &av->sgid);
	pace->window = PACE_PACKETS_MAX;
	pace->confirmed = pace->asked = requester->psn;
	pace->has_answered = false;
	pace->missing = gid_is_multicast(gid) || find_silent(pace) >= 0 ? PACE_GIVE_UP : 0;
	requester->ack_deadline = NO_DEADLINE;
}

uint32_t pace_bytes(const struct qp *qp, const struct send_wqe *wqe)
{
	return wqe->length < qp->mtu ? (uint32_t)wqe->length : (uint32_t)qp->mtu;
}

/* Of so long packets that many may be without an answer. */
static uint32_t limit_of(const struct pace *pace, uint32_t bytes)
{
	uint32_t packets = bytes > PACE_BYTES ? pace->window * PACE_BYTES / bytes : pace->window;

	return packets > PACE_PACKETS_MIN ? packets : PACE_PACKETS_MIN;
}

static uint32_t unanswered(const struct requester *requester)
{
	return psn_into(requester->psn, requester->pace.confirmed);
}

/* One of those that have left. */
static bool has_asked(const struct requester *requester)
{
	const struct pace *pace = &requester->pace;
	uint32_t asked = psn_into(pace->asked, pace->confirmed);

	return asked && asked <= unanswered(requester);
}

/* A long one behind short ones may be too much for what they asked, and asks itself then. */
bool pace_has_room(const struct qp *qp, uint32_t bytes)
{
	const struct requester *requester = qp->requester;
	const struct pace *pace = &requester->pace;
	uint32_t packets = unanswered(requester);

	return pace->missing >= PACE_GIVE_UP || packets < limit_of(pace, bytes) ||
	       (packets < pace->window && !has_asked(requester));
}

/* False: the receiver has enough to do; the deadline is set by when it will be looked at again. */
bool pace_may_send(struct qp *qp, uint32_t bytes, uint64_t now)
{
	struct requester *requester = qp->requester;

	if (pace_has_room(qp, bytes))
		return true;
	if (requester->ack_deadline == NO_DEADLINE)
		requester->ack_deadline = now + patience(qp);
	return false;
}

/* Whether the next packet asks: twice in a window. */
bool pace_asks(struct qp *qp, uint32_t bytes)
{
	struct requester *requester = qp->requester;
	struct pace *pace = &requester->pace;
	uint32_t limit = limit_of(pace, bytes), packets = unanswered(requester) + 1;
	bool asks = packets % (limit / 2) == 0 || (packets >= limit && !has_asked(requester));

	if (asks)
		pace->asked = psn_next(requester->psn);
	return asks;
}

/* No answer: what was sent is over, one way or another. */
void pace_expire(struct qp *qp)
{
	struct requester *requester = qp->requester;
	struct pace *pace = &requester->pace;

	requester->ack_deadline = NO_DEADLINE;
	pace->confirmed = pace->asked = requester->psn;
	if (pace->window > PACE_PACKETS_MIN)
		pace->window /= 2;
	if (pace->missing < PACE_GIVE_UP && ++pace->missing == PACE_GIVE_UP && pace->qpn)
		pace->silent[pace->silent_next++ % PACE_SILENT] = pace->gid;
}

/* A notification came for the packet with this PSN. */
void pace_confirm(struct qp *qp, uint32_t psn)
{
	struct requester *requester = qp->requester;
	struct pace *pace = &requester->pace;
	int silent;

	if (psn_into(psn, pace->confirmed) >= psn_into(requester->psn, pace->confirmed))
		return;
	silent = pace->missing >= PACE_GIVE_UP ? find_silent(pace) : -1;
	if (silent >= 0)
		memset(&pace->silent[silent], 0, sizeof(pace->silent[silent]));
	pace->confirmed = psn_next(psn);
	pace->has_answered = true;
	pace->missing = 0;
	if (pace->window < PACE_PACKETS_MAX)
		pace->window++;
	requester->ack_deadline = NO_DEADLINE;
	if (transport_waits(qp))
		qp->adapter->host->schedule(qp->adapter, qp);
}

struct av pace_answer_av(const struct qp *qp, const struct packet *packet)
{
	if (qp->type != IBV_QPT_UD)
		return qp->av;
	return (struct av){.dgid = packet->sgid,
			   .sgid = packet->dgid,
			   .traffic_class = packet->traffic_class,
			   .hop_limit = 64};
}

/* The answer to a packet with FECN. If there is no room for it the sender waits a little longer. */
void pace_answer(struct qp *qp, const struct packet *packet, uint32_t psn, uint32_t src_qp,
		 struct outbox *outbox)
{
	struct av av = pace_answer_av(qp, packet);
	struct wire_packet wire;
	uint8_t *payload;

	if (gid_is_multicast(&packet->dgid))
		return;
	wire.bth = bth_of(qp, OPCODE_CNP, psn);
	wire.bth.becn = true;
	if (qp->type == IBV_QPT_UD)
		wire.bth.dest_qp = src_qp;
	wire.payload_length = CNP_PAYLOAD_BYTES;
	payload = packet_open(outbox, &av, &wire);
	if (!payload)
		return;
	memset(payload, 0, CNP_PAYLOAD_BYTES);
	packet_close(qp, outbox, &wire);
}
