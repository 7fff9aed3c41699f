/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SEND and WRITE: payload to its place, and the completion of the receive work request when the
 * message ends. The data are in memory before the completion is.
 */
#include "device/access.h"
#include "device/memory.h"
#include "transport/completion.h"
#include "transport/responder.h"

/* SEND with Invalidate: the key goes before the receive completes (9.4.1.1.3, 10.6.5). */
static enum verdict invalidate(struct arrival *arrival)
{
	const struct qp *qp = arrival->qp;
	enum reason reason;

	if (!(arrival->wire->op->flags & OPF_INVALIDATE))
		return PASS;
	reason = access_invalidate(qp, request_pd(qp, arrival->wire->xrceth), arrival->wire->ieth);
	if (!reason)
		return PASS;
	refuse_wr(reason, "SEND with invalidate by QP 0x%x to QP 0x%x, rkey 0x%x",
		  qp->attr.dest_qp_num, qp->number, arrival->wire->ieth);
	return refuse_request(arrival, IBV_WC_REM_ACCESS_ERR, reason);
}

/*
 * A packet's part of the message to its place. Headers of tag matching are left out; and a
 * rendezvous that the program has to do by itself gets as much of its request as there is room for.
 */
static enum reason store_payload(struct arrival *arrival)
{
	struct responder *responder = arrival->qp->responder;
	const struct wire_packet *wire = arrival->wire;
	struct sge_list list = {arrival->qp->adapter, receive_pd(arrival->qp), responder->recv.sge,
				responder->recv.num_sge};
	uint64_t offset = responder->received, room;
	const uint8_t *from = wire->payload;
	uint32_t length = wire->payload_length, skipped = 0;

	if (offset < responder->skip)
		skipped = responder->skip - offset < length ? responder->skip - offset : length;
	offset += skipped;
	length -= skipped;
	if (!length)
		return REASON_NONE;
	offset -= responder->skip;
	if (responder->tag_mode == TAG_INCOMPLETE) {
		room = responder->recv.length > offset ? responder->recv.length - offset : 0;
		length = length < room ? length : room;
	}
	return payload_scatter(&list, &responder->scatter, offset, from + skipped, length);
}

enum verdict execute_send(struct arrival *arrival)
{
	struct responder *responder = arrival->qp->responder;
	const struct wire_packet *wire = arrival->wire;
	const struct qp *qp = arrival->qp;
	enum reason reason;

	if (message_starts(wire))
		responder->received = 0;
	reason = store_payload(arrival);
	if (reason) {
		refuse_wr(reason, "QP 0x%x, receive wr_id 0x%llx", qp->number,
			  (unsigned long long)responder->recv.wr_id);
		return refuse_request(arrival, IBV_WC_LOC_PROT_ERR, reason);
	}
	responder->received += wire->payload_length;
	responder->message = MESSAGE_SEND;
	return invalidate(arrival);
}

/* The region was checked when the message began, and is looked up again for each packet: it may be
 * gone. */
enum verdict execute_write(struct arrival *arrival)
{
	struct responder *responder = arrival->qp->responder;
	const struct wire_packet *wire = arrival->wire;
	const struct qp *qp = arrival->qp;
	struct access access;
	enum reason reason;
	uint64_t va;

	if (message_starts(wire)) {
		responder->received = 0;
		responder->write_va = wire->reth.va;
		responder->write_rkey = wire->reth.rkey;
		responder->write_length = wire->reth.length;
	}
	va = responder->write_va + responder->received;
	reason = access_begin(qp, request_pd(qp, wire->xrceth), responder->write_rkey, va,
			      wire->payload_length, IBV_ACCESS_REMOTE_WRITE, &access);
	if (!reason && wire->payload_length &&
	    memory_store(access.place, wire->payload, wire->payload_length))
		reason = REASON_REMOTE_MEMORY_GONE;
	access_end(&access);
	if (reason) {
		refuse_wr(reason, "WRITE by QP 0x%x to QP 0x%x: address 0x%llx, rkey 0x%x",
			  qp->attr.dest_qp_num, qp->number, (unsigned long long)va,
			  responder->write_rkey);
		/* what the receive of a WRITE with immediate completes with (11.6.2) */
		return refuse_request(arrival, IBV_WC_LOC_ACCESS_ERR, reason);
	}
	responder->received += wire->payload_length;
	responder->message = MESSAGE_WRITE;
	return PASS;
}

/* The last packet of a SEND or WRITE is in place. */
void execute_end_of_message(struct arrival *arrival)
{
	struct responder *responder = arrival->qp->responder;
	const struct wire_packet *wire = arrival->wire;
	uint32_t flags = wire->op->flags;
	struct ibv_wc wc = {
	    .status = IBV_WC_SUCCESS,
	    .opcode = flags & OPF_SEND ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
	    .byte_len = responder->received,
	    .src_qp = arrival->qp->attr.dest_qp_num,
	    .pkey_index = arrival->qp->attr.pkey_index,
	    .sl = arrival->qp->av.sl,
	};

	responder->message = MESSAGE_NONE;
	if (flags & OPF_WRITE)
		comp_cntr_count(arrival->qp, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE, true,
				responder->received);
	if (!(flags & OPF_RECV))
		return;
	if (flags & OPF_IMM) {
		wc.imm_data = htobe32(wire->imm);
		wc.wc_flags |= IBV_WC_WITH_IMM;
	}
	if (flags & OPF_INVALIDATE) {
		wc.invalidated_rkey = wire->ieth;
		wc.wc_flags |= IBV_WC_WITH_INV;
	}
	recv_complete(arrival->qp, &wc, wire->bth.solicited, arrival->now);
	tag_delivered(arrival->qp, arrival->now);
}
