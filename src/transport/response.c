/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The packets that a responder sends: ACKs and NAKs, READ responses, ATOMIC ACKNOWLEDGEs.
 */
#include "device/access.h"
#include "device/memory.h"
#include "transport/build.h"
#include "transport/responder.h"
#include "wire/gaps.h"

static void count_acknowledge(struct transport_counters *counters, uint8_t syndrome)
{
	if (aeth_kind(syndrome) == AETH_ACK)
		counters->acks_sent++;
	else if (aeth_kind(syndrome) == AETH_RNR_NAK)
		counters->rnr_naks_sent++;
	else if (aeth_value(syndrome) == NAK_PSN_SEQUENCE)
		counters->sequence_naks_sent++;
	else
		counters->error_naks_sent++;
}

/* False when the outbox is full. */
bool response_acknowledge(struct qp *qp, uint8_t syndrome, uint32_t psn, struct outbox *outbox)
{
	struct wire_packet wire;

	wire.bth = bth_of(qp, transport_of(qp) | OP_ACKNOWLEDGE, psn);
	wire.payload_length = 0;
	wire.aeth = (struct aeth){syndrome, qp->responder->msn};
	recovery_reply(qp, &wire.bth);
	if (!packet_open(outbox, &qp->av, &wire))
		return false;
	packet_close(qp, outbox, &wire);
	qp->responder->owes_sign = false;
	count_acknowledge(&qp->requester->counters, syndrome);
	return true;
}

/* What is held behind the gap. False when the outbox is full. */
bool response_gaps(struct qp *qp, struct outbox *outbox)
{
	const struct responder *responder = qp->responder;
	uint32_t psns = psn_into(responder->requests->last, responder->psn) + 1;
	uint32_t most = 8 * (qp->mtu - GAPS_HEAD_BYTES);
	struct wire_packet wire;
	uint8_t *to;

	most = most < GAPS_PSNS ? most : GAPS_PSNS;
	if (psns > most)
		psns = most;
	wire.bth = bth_of(qp, OPCODE_GAPS, responder->psn);
	wire.payload_length = gaps_size(psns);
	wire.aeth = (struct aeth){AETH_NAK | NAK_PSN_SEQUENCE, responder->msn};
	to = packet_open(outbox, &qp->av, &wire);
	if (!to)
		return false;
	gaps_init(to, wire.payload_length);
	for (uint32_t i = 1; i < psns; i++)
		if (hold_has(responder->requests, psn_add(responder->psn, i)))
			gaps_set(to, i);
	packet_close(qp, outbox, &wire);
	count_acknowledge(&qp->requester->counters, wire.aeth.syndrome);
	return true;
}

static uint8_t read_operation(const struct response_job *job)
{
	bool is_last = job->psn == job->last_psn;

	if (job->has_begun)
		return is_last ? OP_READ_RESPONSE_LAST : OP_READ_RESPONSE_MIDDLE;
	return is_last ? OP_READ_RESPONSE_ONLY : OP_READ_RESPONSE_FIRST;
}

/* The key is looked up for each packet: the region may be gone since the request came. `sum` may be
 * NULL. */
static bool read_memory(struct qp *qp, const struct response_job *job, uint8_t *to, uint32_t length,
			uint32_t *sum)
{
	struct access access;
	enum reason reason = access_begin(qp, request_pd(qp, job->srqn), job->rkey, job->va, length,
					  IBV_ACCESS_REMOTE_READ, &access);

	if (!reason && length &&
	    (sum ? memory_load_sum(to, access.place, length, sum)
		 : memory_load(to, access.place, length)))
		reason = REASON_REMOTE_MEMORY_GONE;
	access_end(&access);
	if (reason)
		refuse_wr(reason, "READ by QP 0x%x of QP 0x%x, address 0x%llx, rkey 0x%x",
			  qp->attr.dest_qp_num, qp->number, (unsigned long long)job->va, job->rkey);
	return !reason;
}

enum response response_send(struct qp *qp, struct response_job *job, struct outbox *outbox)
{
	struct wire_packet wire;
	uint8_t *summed = NULL, *to;
	uint32_t sum = 0;

	wire.bth = bth_of(qp,
			  transport_of(qp) | (job->kind == JOB_ATOMIC ? OP_ATOMIC_ACKNOWLEDGE
								      : read_operation(job)),
			  job->psn);
	wire.payload_length = 0;
	if (job->kind == JOB_READ)
		wire.payload_length = job->left < qp->mtu ? job->left : qp->mtu;
	wire.aeth = (struct aeth){AETH_ACK | AETH_CREDIT_NONE, job->msn};
	recovery_reply(qp, &wire.bth);
	wire.atomic_ack = job->original;
	if (wire.payload_length == qp->mtu)
		summed = packet_open_summed(outbox, &qp->av, &wire, &sum);
	to = summed ? summed : packet_open(outbox, &qp->av, &wire);
	if (!to)
		return RESPONSE_FULL;
	if (job->kind == JOB_READ &&
	    !read_memory(qp, job, to, wire.payload_length, summed ? &sum : NULL))
		return RESPONSE_FAULT;
	if (summed)
		packet_close_summed(qp, outbox, &wire, to, sum);
	else
		packet_close(qp, outbox, &wire);
	qp->responder->owes_sign = false;
	job->has_begun = true;
	job->psn = psn_next(job->psn);
	if (job->kind == JOB_READ) {
		job->va += wire.payload_length;
		job->left -= wire.payload_length;
	}
	return RESPONSE_SENT;
}
