/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages to a tag matching SRQ. Each begins with a header (struct ibv_tmh). An eager message
 * whose tag is listed goes into the buffer of its tag, without the header; a rendezvous is a
 * request to READ the message and say when that is done, which we do by two work requests of our
 * own in the QP's send queue: the READ, and behind it, fenced, a SEND of the header with
 * IBV_TMH_FIN. All others are the program's, header included.
 */
#include <endian.h>
#include <string.h>

#include <infiniband/tm_types.h>

#include "base/hot.h"
#include "device/adapter.h"
#include "transport/completion.h"
#include "transport/requester.h"
#include "transport/responder.h"

static enum verdict refuse_header(struct arrival *arrival)
{
	refuse_wr(REASON_TAG_NO_HEADER, "QP 0x%x, SRQ %u: %u bytes", arrival->qp->number,
		  arrival->qp->srq->number, arrival->wire->payload_length);
	return refuse_request(arrival, IBV_WC_REM_INV_REQ_ERR, REASON_TAG_NO_HEADER);
}

static enum verdict take_ordinary(struct arrival *arrival, enum tag_mode mode)
{
	struct responder *responder = arrival->qp->responder;

	responder->tag_mode = mode;
	responder->skip = 0;
	return srq_take(arrival->qp->srq, &responder->recv) ? NOT_READY : PASS;
}

/* A rendezvous that is the adapter's to do: there is room for it here, and for READs at all. */
static bool can_do(const struct qp *qp)
{
	struct responder *responder = qp->responder;

	return qp->attr.max_rd_atomic && responder->rendezvous.length <= responder->recv.length &&
	       requester_is_alive(qp) &&
	       atomic_load_explicit(&qp->sq.own, memory_order_relaxed) / 2 +
		       responder->waiting_count <
		   MAX_RNDV - 1;
}

static void take_matched(struct qp *qp, enum ibv_tmh_op operation)
{
	struct responder *responder = qp->responder;

	if (operation == IBV_TMH_EAGER) {
		responder->tag_mode = TAG_EXPECTED;
		responder->skip = sizeof(struct ibv_tmh);
	} else if (can_do(qp)) {
		responder->tag_mode = TAG_RENDEZVOUS;
		responder->skip = MAX_MESSAGE_SIZE;
	} else {
		responder->tag_mode = TAG_INCOMPLETE;
		responder->skip = 0;
	}
}

static void read_rendezvous(struct responder *responder, const uint8_t *bytes)
{
	struct ibv_rvh header;

	memcpy(&header, bytes, sizeof(header));
	responder->rendezvous = (struct rendezvous){
	    .va = be64toh(header.va), .rkey = be32toh(header.rkey), .length = be32toh(header.len)};
}

/* An unexpected message needs a receive; without one it comes again, and is not counted before. */
static enum verdict take_unexpected(struct arrival *arrival)
{
	enum verdict verdict = take_ordinary(arrival, TAG_UNEXPECTED);

	if (verdict != PASS)
		tag_unexpected_undo(arrival->qp->srq);
	return verdict;
}

/* The receive that a message begins with: by its tag, or the next of the SRQ. */
enum verdict tag_take(struct arrival *arrival)
{
	struct responder *responder = arrival->qp->responder;
	const struct wire_packet *wire = arrival->wire;
	struct ibv_tmh header;

	if (!(wire->op->flags & OPF_SEND)) /* a WRITE with immediate */
		return take_ordinary(arrival, TAG_NONE);
	if (wire->payload_length < sizeof(header))
		return refuse_header(arrival);
	memcpy(&header, wire->payload, sizeof(header));
	if (header.opcode != IBV_TMH_EAGER && header.opcode != IBV_TMH_RNDV)
		return take_ordinary(arrival, TAG_NO_TAG);
	if (header.opcode == IBV_TMH_RNDV) {
		if (wire->payload_length < sizeof(header) + sizeof(struct ibv_rvh))
			return refuse_header(arrival);
		read_rendezvous(responder, wire->payload + sizeof(header));
	}
	responder->rendezvous.tag = be64toh(header.tag);
	responder->rendezvous.context = be32toh(header.app_ctx);
	if (!tag_match(arrival->qp->srq, responder->rendezvous.tag, &responder->recv))
		return take_unexpected(arrival);
	take_matched(arrival->qp, header.opcode);
	return PASS;
}

/* What the mode makes of a receive's completion. */
void tag_complete(struct qp *qp, struct cqe *cqe)
{
	struct responder *responder = qp->responder;
	enum tag_mode mode = responder->tag_mode;
	bool is_good = cqe->wc.status == IBV_WC_SUCCESS;

	responder->skip = 0;
	if (mode == TAG_NONE)
		return;
	cqe->wc.opcode = mode == TAG_NO_TAG ? IBV_WC_TM_NO_TAG : IBV_WC_TM_RECV;
	if (mode == TAG_UNEXPECTED && !is_good)
		tag_unexpected_undo(qp->srq);
	if (mode == TAG_UNEXPECTED || mode == TAG_NO_TAG)
		return;
	cqe->wc.wc_flags |= IBV_WC_TM_MATCH;
	cqe->tm_tag = responder->rendezvous.tag;
	cqe->tm_priv = responder->rendezvous.context;
	if (!is_good)
		return;
	if (mode == TAG_EXPECTED) {
		cqe->wc.wc_flags |= IBV_WC_TM_DATA_VALID;
		cqe->wc.byte_len -= sizeof(struct ibv_tmh);
	} else if (mode == TAG_RENDEZVOUS) {
		cqe->wc.byte_len = responder->rendezvous.length;
	} else {
		cqe->wc.status = refuse_wr(
		    REASON_TAG_RNDV_LOCAL, "QP 0x%x: %u bytes, buffer of %llu, max_rd_atomic %u",
		    qp->number, responder->rendezvous.length,
		    (unsigned long long)responder->recv.length, qp->attr.max_rd_atomic);
		cqe->wc.vendor_err = REASON_TAG_RNDV_LOCAL;
	}
}

static void tell_read(struct qp *qp, const struct send_wqe *wqe, enum ibv_wc_status status,
		      enum reason reason, uint64_t now)
{
	struct cqe cqe = {
	    .wc = {.wr_id = wqe->wr_id,
		   .status = status,
		   .opcode = IBV_WC_TM_RECV,
		   .vendor_err = reason,
		   .byte_len = wqe->length,
		   .qp_num = qp->number,
		   .wc_flags = status == IBV_WC_SUCCESS ? IBV_WC_TM_DATA_VALID : 0},
	    .timestamp = now,
	};

	push_completion(qp, qp->srq->cq, &cqe, true);
}

static void fill_read(const struct rendezvous *what, const struct recv_wqe *recv,
		      struct send_wqe *wqe)
{
	uint64_t left = what->length;

	wqe->wr_id = recv->wr_id;
	wqe->opcode = IBV_WR_RDMA_READ;
	wqe->flight = WQE_OWN;
	wqe->length = left;
	wqe->remote_addr = what->va;
	wqe->rkey = what->rkey;
	for (uint32_t i = 0; i < recv->num_sge && left; i++) {
		wqe->sge[i] = recv->sge[i];
		if (wqe->sge[i].length > left)
			wqe->sge[i].length = left;
		left -= wqe->sge[i].length;
		wqe->num_sge++;
	}
}

static void fill_fin(const struct rendezvous *what, struct send_wqe *wqe)
{
	struct ibv_tmh header = {
	    .opcode = IBV_TMH_FIN, .app_ctx = htobe32(what->context), .tag = htobe64(what->tag)};

	wqe->opcode = IBV_WR_SEND;
	wqe->flight = WQE_OWN;
	wqe->flags = IBV_SEND_FENCE | IBV_SEND_INLINE;
	wqe->is_inline = true;
	wqe->length = sizeof(header);
	memcpy(wqe->data, &header, sizeof(header));
}

/* can_do() has seen that there is room for the two. */
static bool post(struct qp *qp, const struct rendezvous *what, const struct recv_wqe *recv)
{
	if (!sq_try_begin(qp))
		return false;
	fill_read(what, recv, sq_next_own(qp));
	fill_fin(what, sq_next_own(qp));
	sq_commit(qp);
	qp->adapter->host->schedule(qp->adapter, qp);
	return true;
}

static void wait_for_queue(struct responder *responder)
{
	struct waiting_rendezvous *waiting;
	const struct recv_wqe *recv = &responder->recv;

	waiting = &responder->waiting[responder->waiting_count++];
	waiting->what = responder->rendezvous;
	memcpy(waiting->recv_room, recv, sizeof(*recv) + recv->num_sge * sizeof(recv->sge[0]));
}

/* What waited for the program to end its posting, whose doorbell brings us here. */
void tag_run(struct qp *qp)
{
	struct responder *responder = qp->responder;
	uint32_t done = 0;

	while (done < responder->waiting_count &&
	       post(qp, &responder->waiting[done].what, &responder->waiting[done].recv))
		done++;
	if (!done)
		return;
	responder->waiting_count -= done;
	memmove(responder->waiting, responder->waiting + done,
		responder->waiting_count * sizeof(*responder->waiting));
}

/* The request is whole. */
void tag_delivered(struct qp *qp, uint64_t now)
{
	struct responder *responder = qp->responder;
	enum tag_mode mode = responder->tag_mode;

	responder->tag_mode = TAG_NONE;
	if (mode != TAG_RENDEZVOUS || !requester_is_alive(qp))
		return;
	if (responder->waiting_count || !post(qp, &responder->rendezvous, &responder->recv))
		wait_for_queue(responder);
}

/* The QP is in error: what still waits ends with it. */
void tag_flush(struct qp *qp, uint64_t now)
{
	struct responder *responder = qp->responder;
	struct send_wqe wqe = {.opcode = IBV_WR_RDMA_READ};

	for (uint32_t i = 0; i < responder->waiting_count; i++) {
		wqe.wr_id = responder->waiting[i].recv.wr_id;
		tell_read(qp, &wqe, IBV_WC_WR_FLUSH_ERR, REASON_RECV_FLUSHED, now);
	}
	responder->waiting_count = 0;
}

/* The READ completes the rendezvous; nobody waits for the FIN. */
ASIDE void tag_own_done(struct qp *qp, const struct send_wqe *wqe, enum ibv_wc_status status,
			enum reason reason, uint64_t now)
{
	bool is_read = wqe->opcode == IBV_WR_RDMA_READ;
	struct send_wqe copy = *wqe;

	atomic_store_explicit(&qp->sq.head, sq_head(qp) + 1, memory_order_release);
	atomic_fetch_sub_explicit(&qp->sq.own, 1, memory_order_relaxed);
	if (is_read)
		tell_read(qp, &copy, status, reason, now);
}
