/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks of an inbound request that RC and UC share (9.7.4.1, 9.8.2.2). Each passes the request on
 * or refuses it with its reason; none changes the QP, but for the receive work request that is
 * taken. What a refusal comes to is up to the transport: a NAK over RC, silence over UC.
 */
#include "device/access.h"
#include "transport/responder.h"

/* Classes of refusal by the status of a receive work request (9.9.3, Table 58 NAK codes). */
enum verdict refuse_request(struct arrival *arrival, enum ibv_wc_status status, enum reason reason)
{
	arrival->status = status;
	arrival->reason = reason;
	arrival->event = IBV_EVENT_QP_REQ_ERR;
	switch (status) {
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
		arrival->event = IBV_EVENT_QP_ACCESS_ERR;
		arrival->syndrome = AETH_NAK | NAK_REMOTE_ACCESS;
		break;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_QP_OP_ERR:
		arrival->syndrome = AETH_NAK | NAK_REMOTE_OPERATIONAL;
		break;
	default: /* malformed, out of order, too long for the buffer */
		arrival->syndrome = AETH_NAK | NAK_INVALID_REQUEST;
		break;
	}
	return REFUSED;
}

/* 9.7.4.1.2: a message begins once, goes on with its own kind, and ends before the next begins. */
enum verdict check_sequence(struct arrival *arrival)
{
	const struct responder *responder = arrival->qp->responder;
	uint32_t flags = arrival->wire->op->flags;
	bool fits;

	if (responder->message == MESSAGE_NONE)
		fits = flags & OPF_START;
	else
		fits = !(flags & OPF_START) &&
		       (flags & (responder->message == MESSAGE_SEND ? OPF_SEND : OPF_WRITE));
	if (fits)
		return PASS;
	refuse_wr(REASON_OPCODE_SEQUENCE, "QP 0x%x, PSN 0x%x: %s", arrival->qp->number,
		  arrival->wire->bth.psn, arrival->wire->op->name);
	return refuse_request(arrival, IBV_WC_REM_INV_REQ_ERR, REASON_OPCODE_SEQUENCE);
}

unsigned int access_needed(const struct wire_packet *wire)
{
	uint32_t flags = wire->op->flags;
	unsigned int need = 0;

	if (flags & (OPF_WRITE | OPF_ATOMIC_WRITE))
		return IBV_ACCESS_REMOTE_WRITE;
	if (flags & OPF_READ_REQUEST)
		return IBV_ACCESS_REMOTE_READ;
	if (flags & OPF_ATOMIC)
		return IBV_ACCESS_REMOTE_ATOMIC;
	if (flags & OPF_FLUSH) {
		need |= wire->feth.type & IBV_FLUSH_GLOBAL ? IBV_ACCESS_FLUSH_GLOBAL : 0;
		need |= wire->feth.type & IBV_FLUSH_PERSISTENT ? IBV_ACCESS_FLUSH_PERSISTENT : 0;
	}
	return need;
}

/* 9.7.4.1.3: the QP was set up for this operation. An operation that isn't is an invalid request,
 * not an access error. */
enum verdict check_enabled(struct arrival *arrival)
{
	const struct wire_packet *wire = arrival->wire;
	unsigned int need = access_needed(wire);

	if ((need & ~arrival->qp->attr.qp_access_flags) == 0)
		return PASS;
	refuse_wr(REASON_NOT_ENABLED, "QP 0x%x: %s, qp_access_flags 0x%x", arrival->qp->number,
		  wire->op->name, arrival->qp->attr.qp_access_flags);
	return refuse_request(arrival, IBV_WC_REM_INV_REQ_ERR, REASON_NOT_ENABLED);
}

/* How much of a WRITE was announced; what isn't here yet must still come. */
static bool write_length_fits(const struct responder *responder, const struct wire_packet *wire)
{
	bool starts = message_starts(wire);
	uint64_t length = starts ? wire->reth.length : responder->write_length;
	uint64_t received = (starts ? 0 : responder->received) + wire->payload_length;

	return message_ends(wire) ? received == length : received < length;
}

static enum verdict refuse_length(struct arrival *arrival, enum reason reason)
{
	const struct wire_packet *wire = arrival->wire;

	refuse_wr(reason, "QP 0x%x, PSN 0x%x: %s with %u bytes, path MTU %u, announced %u",
		  arrival->qp->number, wire->bth.psn, wire->op->name, wire->payload_length,
		  arrival->qp->mtu, wire->reth.length);
	return refuse_request(arrival, IBV_WC_REM_INV_REQ_ERR, reason);
}

/* 9.7.4.1.6, C9-92: first and middle packets are full, a last one is not empty, none is over the
 * path MTU. */
enum verdict check_length(struct arrival *arrival)
{
	const struct wire_packet *wire = arrival->wire;
	const struct responder *responder = arrival->qp->responder;
	uint32_t flags = wire->op->flags, mtu = arrival->qp->mtu;

	if (wire->payload_length > mtu)
		return refuse_length(arrival, REASON_PAYLOAD_LENGTH);
	if ((flags & OPF_PAYLOAD_MTU) && wire->payload_length != mtu)
		return refuse_length(arrival, REASON_PAYLOAD_LENGTH);
	if (!message_starts(wire) && message_ends(wire) && wire->payload_length == 0)
		return refuse_length(arrival, REASON_PAYLOAD_LENGTH);
	if (wire->op->reth_at && !(flags & OPF_FLUSH) && wire->reth.length > MAX_MESSAGE_SIZE)
		return refuse_length(arrival, REASON_ANNOUNCED_LENGTH);
	if ((flags & OPF_WRITE) && !write_length_fits(responder, wire))
		return refuse_length(arrival, REASON_ANNOUNCED_LENGTH);
	if ((flags & OPF_SEND) &&
	    (message_starts(wire) ? 0 : responder->received) + wire->payload_length >
		MAX_MESSAGE_SIZE)
		return refuse_length(arrival, REASON_ANNOUNCED_LENGTH);
	return PASS;
}

/* 9.7.4.1.5: key, protection domain, access and bounds of the whole range, when the message begins.
 */
enum verdict check_key(struct arrival *arrival)
{
	const struct wire_packet *wire = arrival->wire;
	const struct qp *qp = arrival->qp;
	enum reason reason;

	if (!(wire->op->flags & (OPF_WRITE | OPF_READ_REQUEST)) || !message_starts(wire))
		return PASS;
	reason = access_check(qp, request_pd(qp, wire->xrceth), wire->reth.rkey, wire->reth.va,
			      wire->reth.length, access_needed(wire));
	if (!reason)
		return PASS;
	refuse_wr(reason, "%s by QP 0x%x to QP 0x%x: address 0x%llx, %u bytes, rkey 0x%x",
		  wire->op->name, qp->attr.dest_qp_num, qp->number,
		  (unsigned long long)wire->reth.va, wire->reth.length, wire->reth.rkey);
	return refuse_request(arrival, IBV_WC_REM_ACCESS_ERR, reason);
}

/* A SEND takes a receive work request when it begins, a WRITE with immediate when it ends. */
static bool wants_receive(const struct wire_packet *wire)
{
	uint32_t flags = wire->op->flags;

	return flags & OPF_SEND ? flags & OPF_START : flags & OPF_RECV;
}

/* 9.7.4.1.4 and 9.7.5.2.8: a receive work request is there, and the message fits into it. */
enum verdict check_receive(struct arrival *arrival)
{
	struct responder *responder = arrival->qp->responder;
	const struct wire_packet *wire = arrival->wire;
	uint64_t received = message_starts(wire) ? 0 : responder->received;

	if (wants_receive(wire) && !responder->has_recv) {
		enum verdict verdict = receive_take(arrival);

		if (verdict != PASS)
			return verdict;
		responder->has_recv = true;
		cursor_reset(&responder->scatter);
	}
	if (!(wire->op->flags & OPF_SEND) || responder->tag_mode == TAG_INCOMPLETE ||
	    received + wire->payload_length <= responder->recv.length + responder->skip)
		return PASS;
	refuse_wr(REASON_RECEIVE_TOO_SMALL,
		  "QP 0x%x, wr_id 0x%llx of %llu bytes, message of %llu or more",
		  arrival->qp->number, (unsigned long long)responder->recv.wr_id,
		  (unsigned long long)responder->recv.length,
		  (unsigned long long)received + wire->payload_length);
	return refuse_request(arrival, IBV_WC_LOC_LEN_ERR, REASON_RECEIVE_TOO_SMALL);
}
