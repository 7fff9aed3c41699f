/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One request packet of an RC or UC work request. Which one follows from the PSN alone, so sending
 * again is sending.
 */
#include "device/access.h"
#include "device/adapter.h"
#include "transport/build.h"
#include "transport/requester.h"
#include "wire/opcode.h"

struct operations {
	uint8_t first, middle, last, only;
};

static const struct operations *operations_of(enum ibv_wr_opcode opcode)
{
	static const struct operations table[] = {
	    [IBV_WR_SEND] = {OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST, OP_SEND_ONLY},
	    [IBV_WR_SEND_WITH_IMM] = {OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST_IMM,
				      OP_SEND_ONLY_IMM},
	    [IBV_WR_SEND_WITH_INV] = {OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST_INV,
				      OP_SEND_ONLY_INV},
	    [IBV_WR_RDMA_WRITE] = {OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_LAST, OP_WRITE_ONLY},
	    [IBV_WR_RDMA_WRITE_WITH_IMM] = {OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_LAST_IMM,
					    OP_WRITE_ONLY_IMM},
	    [IBV_WR_RDMA_READ] = {.only = OP_READ_REQUEST},
	    [IBV_WR_ATOMIC_CMP_AND_SWP] = {.only = OP_COMPARE_SWAP},
	    [IBV_WR_ATOMIC_FETCH_AND_ADD] = {.only = OP_FETCH_ADD},
	    [IBV_WR_FLUSH] = {.only = OP_FLUSH},
	    [IBV_WR_ATOMIC_WRITE] = {.only = OP_ATOMIC_WRITE},
	};

	if ((unsigned int)opcode >= sizeof(table) / sizeof(table[0]) || !table[opcode].only)
		return NULL;
	return &table[opcode];
}

static bool has_payload(enum ibv_wr_opcode opcode)
{
	return operations_of(opcode)->middle != 0;
}

static uint32_t psn_count(const struct qp *qp, const struct send_wqe *wqe)
{
	if (!has_payload(wqe->opcode) && wqe->opcode != IBV_WR_RDMA_READ)
		return 1;
	return wqe->length ? (wqe->length + qp->mtu - 1) / qp->mtu : 1;
}

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static enum sent fail(struct qp *qp, enum ibv_wc_status status, enum reason reason)
{
	requester_fail_wqe(qp, qp->requester->current, status, reason);
	return SENT_FAILED;
}

/* Memory management work requests end here: they make no packet (10.6.5, 10.6.6). */
static enum sent begin_local(struct qp *qp, struct send_wqe *wqe)
{
	uint32_t key = wqe->opcode == IBV_WR_BIND_MW ? wqe->bind.rkey : wqe->invalidate_rkey;
	enum reason reason = REASON_NO_SUCH_OPERATION;

	if (wqe->opcode == IBV_WR_BIND_MW)
		reason = mw_bind(qp, &wqe->bind);
	else if (wqe->opcode == IBV_WR_LOCAL_INV)
		reason = access_invalidate(qp, qp->pd, wqe->invalidate_rkey);
	if (!reason) {
		wqe->flight |= WQE_STARTED | WQE_DONE;
		return SENT;
	}
	refuse_wr(reason, "QP 0x%x, wr_id 0x%llx, opcode %d, key 0x%x", qp->number,
		  (unsigned long long)wqe->wr_id, wqe->opcode, key);
	return fail(qp,
		    reason == REASON_NO_SUCH_OPERATION ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_MW_BIND_ERR,
		    reason);
}

/* READ and atomics: where the answer goes must be writable, and the peer must have room for one
 * (9.4.4, 9.4.5). */
static enum sent begin_answered(struct qp *qp, const struct send_wqe *wqe)
{
	struct sge_list list = wqe_list(qp, wqe);
	enum reason reason;

	if (is_answered(wqe->opcode) && qp->attr.max_rd_atomic == 0) {
		refuse_wr(REASON_NO_READ_DEPTH, "QP 0x%x", qp->number);
		return fail(qp, IBV_WC_LOC_QP_OP_ERR, REASON_NO_READ_DEPTH);
	}
	if (is_atomic(wqe->opcode) && wqe->length != sizeof(uint64_t)) {
		refuse_wr(REASON_ATOMIC_LENGTH, "QP 0x%x, %llu bytes", qp->number,
			  (unsigned long long)wqe->length);
		return fail(qp, IBV_WC_LOC_LEN_ERR, REASON_ATOMIC_LENGTH);
	}
	if (!is_atomic(wqe->opcode) && wqe->opcode != IBV_WR_RDMA_READ)
		return SENT;
	reason = payload_check(&list, IBV_ACCESS_LOCAL_WRITE);
	if (reason) {
		refuse_wr(reason, "QP 0x%x, for the answer to wr_id 0x%llx", qp->number,
			  (unsigned long long)wqe->wr_id);
		return fail(qp, IBV_WC_LOC_PROT_ERR, reason);
	}
	return SENT;
}

enum sent request_begin(struct qp *qp, struct send_wqe *wqe)
{
	struct requester *requester = qp->requester;

	if (!operations_of(wqe->opcode))
		return begin_local(qp, wqe);
	if (wqe->length > MAX_MESSAGE_SIZE) {
		refuse_wr(REASON_MESSAGE_TOO_LONG, "QP 0x%x, %llu bytes", qp->number,
			  (unsigned long long)wqe->length);
		return fail(qp, IBV_WC_LOC_LEN_ERR, REASON_MESSAGE_TOO_LONG);
	}
	if (begin_answered(qp, wqe) == SENT_FAILED)
		return SENT_FAILED;
	wqe->first_psn = requester->end;
	wqe->last_psn = psn_add(wqe->first_psn, psn_count(qp, wqe) - 1);
	wqe->flight |= WQE_STARTED;
	cursor_reset(&requester->gather);
	return SENT;
}

void request_advance(struct requester *requester, const struct send_wqe *wqe, uint32_t psns)
{
	uint32_t next = psn_add(requester->psn, psns);

	if (psn_compare(requester->psn, requester->end) < 0)
		requester->counters.resent++;
	if (requester->recovery)
		recovery_left(requester, requester->psn, psns);
	if (requester->psn == wqe->last_psn || psn_add(next, -1) == wqe->last_psn)
		requester->current++;
	requester->psn = next;
	if (psn_compare(next, requester->end) > 0)
		requester->end = next;
}

/* The packet, its payload copied and, where the link takes that, summed on the way. */
static enum sent write_payload(struct qp *qp, const struct send_wqe *wqe, uint64_t offset,
			       const struct wire_packet *wire, struct outbox *outbox)
{
	struct sge_list list = wqe_list(qp, wqe);
	struct sge_cursor *cursor = &qp->requester->gather;
	uint32_t length = wire->payload_length, sum = 0;
	uint8_t *summed = NULL, *to;
	enum reason reason = REASON_NONE;

	if (length == qp->mtu && !wqe->is_inline)
		summed = packet_open_summed(outbox, &qp->av, wire, &sum);
	to = summed ? summed : packet_open(outbox, &qp->av, wire);
	if (!to)
		return SENT_FULL;
	if (wqe->is_inline)
		memcpy(to, wqe->data + offset, length);
	else if (summed)
		reason = payload_gather_sum(&list, cursor, offset, to, length, &sum);
	else
		reason = payload_gather(&list, cursor, offset, to, length);
	if (reason) {
		refuse_wr(reason, "QP 0x%x, wr_id 0x%llx, byte %llu of %llu", qp->number,
			  (unsigned long long)wqe->wr_id, (unsigned long long)offset,
			  (unsigned long long)wqe->length);
		return fail(qp, IBV_WC_LOC_PROT_ERR, reason);
	}
	if (summed)
		packet_close_summed(qp, outbox, wire, to, sum);
	else
		packet_close(qp, outbox, wire);
	return SENT;
}

/* SEND and WRITE, with or without more. */
static enum sent send_payload(struct qp *qp, const struct send_wqe *wqe, bool asks,
			      struct outbox *outbox, uint32_t *bytes)
{
	const struct operations *operations = operations_of(wqe->opcode);
	struct requester *requester = qp->requester;
	bool is_first = requester->psn == wqe->first_psn, is_last = requester->psn == wqe->last_psn;
	uint64_t offset = (uint64_t)psn_into(requester->psn, wqe->first_psn) * qp->mtu;
	uint8_t operation = is_first ? (is_last ? operations->only : operations->first)
				     : (is_last ? operations->last : operations->middle);
	struct wire_packet wire;
	enum sent sent;

	wire.bth = bth_of(qp, transport_of(qp) | operation, requester->psn);
	wire.bth.ack_req = asks;
	wire.bth.solicited = is_last && (wqe->flags & IBV_SEND_SOLICITED) &&
			     (opcode_get(wire.bth.opcode)->flags & OPF_RECV);
	wire.payload_length = is_last ? wqe->length - offset : qp->mtu;
	if (qp->type == IBV_QPT_UC)
		wire.bth.fecn = pace_asks(qp, wire.payload_length);
	else if (asks)
		recovery_ask(requester, &wire.bth);
	wire.reth = (struct reth){wqe->remote_addr, wqe->rkey, wqe->length};
	wire.imm = be32toh(wqe->imm_data);
	wire.ieth = wqe->invalidate_rkey;
	wire.xrceth = wqe->remote_srqn;
	sent = write_payload(qp, wqe, offset, &wire, outbox);
	if (sent != SENT)
		return sent;
	requester->since_ack_req = wire.bth.ack_req ? 0 : requester->since_ack_req + 1;
	*bytes = packet_size(&wire);
	request_advance(requester, wqe, 1);
	return SENT;
}

/* What is missing goes again alone, between two of ours. What a READ asks for comes to a socket of
 * the requester's own; the peer's is taken to hold as much, and where it does not, what is lost
 * tells so. */
uint32_t request_wide_window(const struct qp *qp)
{
	const struct requester *requester = qp->requester;
	uint32_t held = atomic_load_explicit(&qp->adapter->socket_bytes, memory_order_relaxed);

	if (!requester->is_peer_ours || requester->recovery || requester->psn != requester->end ||
	    qp->attr.rate_limit)
		return requester->window.packets;
	return window_wide(&requester->window, window_times(held, table_count(&qp->adapter->qps)));
}

/*
 * How many PSNs the next READ request covers: one that was out before has its borders; a new one
 * takes what the window has room for, and a window at most, but not less than half of it, lest a
 * long READ decay into small ones. 0: wait.
 */
static uint32_t read_psns(const struct qp *qp, const struct send_wqe *wqe)
{
	const struct requester *requester = qp->requester;
	uint32_t left = psn_into(wqe->last_psn, requester->psn) + 1;
	uint32_t in_flight = requester_in_flight(requester);
	uint32_t half = (requester->window.packets + 1) / 2, room;
	uint32_t again;

	if (requester->rd_sent < requester->rd_count) {
		again = (requester->rd_first + requester->rd_sent) % MAX_RD_ATOMIC;
		return psn_into(requester->rd_last[again], requester->psn) + 1;
	}
	room = request_wide_window(qp) - in_flight;
	if (room > requester->window.packets)
		room = requester->window.packets;
	if (left <= room)
		return left;
	return room >= half ? room : 0;
}

static void remember_answered(struct requester *requester, uint32_t last_psn)
{
	uint32_t place = (requester->rd_first + requester->rd_count) % MAX_RD_ATOMIC;

	if (requester->rd_sent++ < requester->rd_count)
		return;
	requester->rd_last[place] = last_psn;
	requester->rd_count++;
}

static void fill_answered(const struct qp *qp, const struct send_wqe *wqe, uint32_t psns,
			  struct wire_packet *wire)
{
	uint64_t offset = (uint64_t)psn_into(wire->bth.psn, wqe->first_psn) * qp->mtu;
	uint64_t left = wqe->length - offset, asked = (uint64_t)psns * qp->mtu;

	switch (wqe->opcode) {
	case IBV_WR_RDMA_READ:
		wire->reth = (struct reth){wqe->remote_addr + offset, wqe->rkey,
					   left < asked ? left : asked};
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		wire->atomic = (struct atomiceth){wqe->remote_addr, wqe->rkey, wqe->atomic.swap,
						  wqe->atomic.compare_add};
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wire->atomic =
		    (struct atomiceth){wqe->remote_addr, wqe->rkey, wqe->atomic.compare_add, 0};
		break;
	case IBV_WR_FLUSH:
		wire->feth = (struct feth){wqe->flush.type, wqe->flush.level};
		wire->reth = (struct reth){wqe->remote_addr, wqe->rkey, wqe->length};
		break;
	default: /* ATOMIC WRITE */
		wire->reth = (struct reth){wqe->remote_addr, wqe->rkey, ATOMIC_WRITE_BYTES};
		wire->payload_length = ATOMIC_WRITE_BYTES;
		break;
	}
}

static enum sent send_psns(struct qp *qp, const struct send_wqe *wqe, uint32_t psns,
			   struct outbox *outbox, uint32_t *bytes)
{
	struct requester *requester = qp->requester;
	struct wire_packet wire;
	uint8_t *to;

	wire.bth = bth_of(qp, transport_of(qp) | operations_of(wqe->opcode)->only, requester->psn);
	wire.bth.ack_req = true;
	recovery_ask(requester, &wire.bth);
	wire.bth.is_twice = wqe->opcode == IBV_WR_FLUSH && requester->flushes_twice;
	wire.xrceth = wqe->remote_srqn;
	wire.payload_length = 0;
	fill_answered(qp, wqe, psns, &wire);
	to = packet_open(outbox, &qp->av, &wire);
	if (!to)
		return SENT_FULL;
	if (wqe->opcode == IBV_WR_ATOMIC_WRITE)
		memcpy(to, &wqe->atomic_write, ATOMIC_WRITE_BYTES);
	packet_close(qp, outbox, &wire);
	requester->since_ack_req = 0;
	*bytes = packet_size(&wire);
	request_advance(requester, wqe, psns);
	return SENT;
}

static enum sent send_answered(struct qp *qp, const struct send_wqe *wqe, struct outbox *outbox,
			       uint32_t *bytes)
{
	struct requester *requester = qp->requester;
	uint32_t psns = 1;
	enum sent sent;

	if (requester->rd_sent >= qp->attr.max_rd_atomic)
		return SENT_WAIT;
	if (wqe->opcode == IBV_WR_RDMA_READ)
		psns = read_psns(qp, wqe);
	if (!psns)
		return SENT_WAIT;
	sent = send_psns(qp, wqe, psns, outbox, bytes);
	if (sent == SENT)
		remember_answered(requester, psn_add(requester->psn, -1));
	return sent;
}

enum sent request_send(struct qp *qp, struct send_wqe *wqe, bool asks, struct outbox *outbox,
		       uint32_t *bytes)
{
	if (has_payload(wqe->opcode))
		return send_payload(qp, wqe, asks, outbox, bytes);
	return send_answered(qp, wqe, outbox, bytes);
}

uint32_t request_index(const struct qp *qp, uint32_t psn)
{
	uint32_t index = sq_head(qp);
	const struct send_wqe *wqe;

	for (;; index++) {
		wqe = sq_wqe(&qp->sq, index);
		if (!(wqe->flight & WQE_DONE) && psn_compare(wqe->last_psn, psn) >= 0)
			return index;
	}
}

enum sent request_send_again(struct qp *qp, struct send_wqe *wqe, uint32_t psns,
			     struct outbox *outbox, uint32_t *bytes)
{
	if (has_payload(wqe->opcode))
		return send_payload(qp, wqe, true, outbox, bytes);
	return send_psns(qp, wqe, psns, outbox, bytes);
}

enum sent request_repeat(struct qp *qp, uint32_t index, uint32_t psn, uint32_t psns,
			 struct outbox *outbox)
{
	struct requester *requester = qp->requester;
	uint32_t psn_before = requester->psn, current_before = requester->current, bytes;
	enum sent sent;

	if (requester->recovery)
		requester->recovery->clock++;
	requester->psn = psn;
	requester->current = index;
	cursor_reset(&requester->gather);
	sent = request_send_again(qp, sq_wqe(&qp->sq, index), psns, outbox, &bytes);
	requester->psn = psn_before;
	requester->current = current_before;
	cursor_reset(&requester->gather);
	if (sent == SENT && requester->recovery)
		requester->recovery->until = requester->end;
	return sent;
}
