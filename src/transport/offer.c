/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester's half. Offers are not counted in the window, which is for what has to find room
 * somewhere: a few are on their way at a time, so that the peer has the next when it is through.
 */
#include "device/adapter.h"
#include "device/mr.h"
#include "transport/build.h"
#include "transport/express.h"
#include "transport/offer.h"
#include "wire/offer.h"

enum {
	FROM = CONTEST_BYTES,	/* of what is no record; shorter ones are as fast by packets */
	AHEAD = 2 * OFFER_PART, /* bytes not acknowledged, then it waits */
	DECLINED_WQES = 32,	/* so many as long go by packets then */
	DECLINED_PSNS = 1 << 20,
};

static bool is_paused(const struct requester *requester)
{
	return requester->has_packets && psn_compare(requester->psn, requester->packets_to) < 0;
}

/* The peer takes some, and nothing is in their way. */
static bool is_open(const struct qp *qp)
{
	const struct requester *requester = qp->requester;
	const struct adapter_host *host = qp->adapter->host;

	return requester->takes_offers && qp->type == IBV_QPT_RC && !requester->recovery &&
	       !requester->has_credits && !qp->attr.rate_limit && !is_paused(requester) &&
	       host->is_reached && host->is_reached(qp);
}

bool offer_may(const struct qp *qp, const struct send_wqe *wqe)
{
	return wqe->length >= FROM &&
	       (wqe->opcode == IBV_WR_SEND || wqe->opcode == IBV_WR_SEND_WITH_IMM) &&
	       !wqe->is_inline && !(wqe->flight & (WQE_OWN | WQE_NO_OFFER)) && is_open(qp);
}

bool offer_is_better(const struct qp *qp, uint64_t length)
{
	return length >= CONTEST_BYTES && contests_want_offers(&qp->requester->contests) &&
	       is_open(qp);
}

void offer_contest(struct qp *qp, uint32_t psns)
{
	struct requester *requester = qp->requester;
	uint64_t (*time)(const struct adapter *) = qp->adapter->host->time;

	if (time && contests_count(&requester->contests, requester->una, requester->psn, psns))
		contests_time(&requester->contests, requester->una, requester->psn,
			      time(qp->adapter));
}

/* Where `bytes` of the WQE lie, by the keys that the peer may fetch them with. How many pieces; 0
 * where there is something to say about a key. */
static uint32_t find_pieces(const struct qp *qp, const struct send_wqe *wqe, uint64_t skipped,
			    uint64_t bytes, struct reth pieces[MAX_SGE])
{
	struct sge_part part = {.offset = skipped, .length = bytes};
	struct sge_list list = wqe_list(qp, wqe);
	struct ibv_sge piece;
	uint32_t count = 0;

	while (sge_part_next(&list, &part, &piece)) {
		const struct mr *mr = mr_find(qp->adapter, piece.lkey);
		char *place;

		if (!mr ||
		    mr_resolve_local(qp->adapter, qp->pd, piece.lkey, piece.addr, piece.length, 0,
				     &place) ||
		    !place)
			return 0;
		pieces[count++] = (struct reth){piece.addr, mr->rkey, piece.length};
	}
	return part.length ? 0 : count;
}

static bool put(struct qp *qp, const struct send_wqe *wqe, uint8_t flags, const struct reth *pieces,
		uint32_t count, struct outbox *outbox)
{
	bool has_imm = flags & OFFER_ENDS && wqe->opcode == IBV_WR_SEND_WITH_IMM;
	struct offer_head head = {.flags = flags | (has_imm ? OFFER_HAS_IMM : 0),
				  .pieces = (uint16_t)count,
				  .imm = be32toh(wqe->imm_data)};
	struct wire_packet wire;
	uint8_t *to;

	wire.bth = bth_of(qp, OPCODE_OFFER, qp->requester->psn);
	wire.bth.ack_req = true;
	wire.bth.solicited = flags & OFFER_ENDS && wqe->flags & IBV_SEND_SOLICITED;
	wire.payload_length = offer_size(count);
	to = packet_open(outbox, &qp->av, &wire);
	if (!to)
		return false;
	offer_pack(to, &head);
	for (uint32_t i = 0; i < count; i++)
		reth_pack(to + offer_size(i), &pieces[i]);
	packet_close(qp, outbox, &wire);
	return true;
}

enum sent offer_send(struct qp *qp, struct send_wqe *wqe, uint64_t now, struct outbox *outbox,
		     uint32_t *bytes)
{
	struct requester *requester = qp->requester;
	uint64_t offset = (uint64_t)psn_into(requester->psn, wqe->first_psn) * qp->mtu;
	uint64_t part = wqe->length - offset;
	uint8_t flags = offset ? 0 : OFFER_STARTS;
	struct reth pieces[MAX_SGE];
	uint32_t count, psns;

	if ((uint64_t)psn_into(requester->psn, requester->una) * qp->mtu >= AHEAD)
		return SENT_WAIT;
	if (part > OFFER_PART)
		part = OFFER_PART;
	if (offset + part == wqe->length)
		flags |= OFFER_ENDS;
	*bytes = 0;
	count = find_pieces(qp, wqe, offset, part, pieces);
	if (!count) {
		wqe->flight |= WQE_NO_OFFER;
		return SENT;
	}
	if (!put(qp, wqe, flags, pieces, count, outbox))
		return SENT_FULL;
	*bytes = offer_size(count);
	requester->since_ack_req = 0;
	requester->is_unasked = false;
	requester->counters.offered++;
	psns = (uint32_t)((part + qp->mtu - 1) / qp->mtu);
	if (wqe->length <= EXPRESS_BYTES)
		offer_contest(qp, psns);
	request_advance(requester, wqe, psns);
	cursor_reset(&requester->gather);
	requester->large_end = requester->psn;
	retry_start_timer(qp, now);
	return SENT;
}

void offer_no_more(struct requester *requester)
{
	requester->has_packets = true;
	requester->packets_to = requester->end;
}

void offer_declined(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;
	const struct send_wqe *wqe = sq_wqe(&qp->sq, sq_head(qp));
	uint64_t psns = DECLINED_WQES * (wqe->length / qp->mtu + 1);

	requester->has_packets = true;
	requester->packets_to =
	    psn_add(requester->end, psns < DECLINED_PSNS ? (uint32_t)psns : DECLINED_PSNS);
	retry_go_back(qp, now);
}
