/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What must come of it: each completion against the records of what was posted, and memory when it
 * is done.
 *
 * Send side: completions come in the order of posting; those without a signal are done when a later
 * one is. After the first failure all the rest is flushed, the unsignaled included. A WRITE or an
 * atomic that failed may have taken place all the same, even later while packets are under way; its
 * bytes stay in flux ("limbo") until the connection is gone.
 *
 * In hostile weather forged packets may complete, fail and write whatever their keys allow. What
 * stays: completions in order and once each, everything flushed at the end, and no byte written
 * outside windows and buffers under way.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* ---- send side ---- */

static enum ibv_wc_opcode wc_opcode_of(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_FLUSH:
		return IBV_WC_FLUSH;
	case IBV_WR_ATOMIC_WRITE:
		return IBV_WC_ATOMIC_WRITE;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	default:
		return IBV_WC_SEND;
	}
}

static bool is_hostile(const struct endpoint *end)
{
	return end->world->weather.is_hostile;
}

static bool has_sink(const struct send *send)
{
	return send->opcode == IBV_WR_RDMA_READ || send->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       send->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_remote_reader(const struct send *send)
{
	return has_sink(send) && !send->is_counter;
}

static struct arena *far_arena(struct endpoint *end)
{
	return &end->peer->node->arena;
}

/* A fetch and add on a counter that all share: what it saw goes into the log. */
static void note_addition(struct endpoint *end, struct send *send, bool is_known)
{
	struct addition *addition = world_alloc(end->world, sizeof(*addition));

	addition->add = send->add;
	addition->is_known = is_known;
	if (is_known)
		memcpy(&addition->old, end->node->arena.memory + send->spans[0].at, 8);
	list_add(end->world, &end->peer->node->additions, addition);
}

static void free_sources(struct endpoint *end, struct send *send)
{
	struct arena *arena = &end->node->arena;
	uint16_t *counts = has_sink(send) ? arena->flux : arena->readers;

	if (send->is_inline)
		return;
	for (uint32_t i = 0; i < send->span_count; i++)
		arena_mark(counts, send->spans[i].at, send->spans[i].length, -1);
}

static void free_far_readers(struct endpoint *end, struct send *send)
{
	if (is_remote_reader(send) && send->expect == IBV_WC_SUCCESS)
		arena_mark(far_arena(end)->readers, send->remote_at, send->remote_length, -1);
}

static void check_sink(struct endpoint *end, struct send *send)
{
	struct arena *arena = &end->node->arena;
	const uint8_t *data = send->data;

	for (uint32_t i = 0; i < send->span_count; i++) {
		struct span *span = &send->spans[i];

		if (send->is_counter || is_hostile(end))
			arena_adopt(arena, span->at, span->length);
		else
			arena_expect(arena, span->at, span->length, data,
				     send->opcode == IBV_WR_RDMA_READ ? "READ's sink"
								      : "atomic's old value");
		data += span->length;
	}
}

/* Reliable: it took place, and what it wrote is there unless later work changes it. */
static void settle_done(struct endpoint *end, struct send *send)
{
	free_sources(end, send);
	free_far_readers(end, send);
	if (send->is_counter)
		note_addition(end, send, true);
	if (has_sink(send))
		check_sink(end, send);
	if (!send->effect)
		return;
	if (end->type != IBV_QPT_RC) {
		send->is_limbo = true;
		list_add(end->world, &end->limbo, send);
		return;
	}
	arena_mark(far_arena(end)->flux, send->remote_at, send->remote_length, -1);
	arena_expect(far_arena(end), send->remote_at, send->remote_length, send->effect,
		     send_opcode_name(send->opcode));
}

/* Nobody knows whether it took place; its own buffers are the program's again. */
static void settle_lost(struct endpoint *end, struct send *send)
{
	free_sources(end, send);
	free_far_readers(end, send);
	if (has_sink(send))
		for (uint32_t i = 0; i < send->span_count; i++)
			arena_adopt(&end->node->arena, send->spans[i].at, send->spans[i].length);
	if (send->is_counter)
		note_addition(end, send, false);
	if (send->effect) {
		send->is_limbo = true;
		list_add(end->world, &end->limbo, send);
	}
}

static bool is_of_limbo(const struct endpoint *end, uint32_t at, uint8_t value)
{
	for (uint32_t i = 0; i < end->limbo.count; i++) {
		const struct send *send = end->limbo.items[i];

		if (at - send->remote_at < send->remote_length &&
		    send->effect[at - send->remote_at] == value)
			return true;
	}
	return false;
}

static void check_limbo(struct endpoint *end, const struct send *send)
{
	struct arena *arena = far_arena(end);

	for (uint32_t k = 0; k < send->remote_length; k++) {
		uint32_t at = send->remote_at + k;

		if (arena->flux[at] || arena->memory[at] == arena->shadow[at])
			continue;
		sim_check(end->world, is_of_limbo(end, at, arena->memory[at]),
			  "lost %s: byte %u is neither old nor new", send_opcode_name(send->opcode),
			  k);
		arena->shadow[at] = arena->memory[at];
	}
}

/* Once no packet is under way and nothing else outstanding: the connection is gone, or it is UC. */
void model_release_limbo(struct endpoint *end)
{
	struct arena *arena;
	struct endpoint *peer = end->peer;

	if (!end->limbo.count || sends_outstanding(end))
		return;
	arena = far_arena(end);
	sim_check(end->world,
		  !peer->frozen ||
		      !memcmp(arena->memory + peer->window_at, peer->frozen, peer->window_length),
		  "a region was written after it was deregistered");
	for (uint32_t i = 0; i < end->limbo.count; i++) {
		struct send *send = end->limbo.items[i];

		arena_mark(arena->flux, send->remote_at, send->remote_length, -1);
	}
	for (uint32_t i = 0; i < end->limbo.count; i++)
		check_limbo(end, end->limbo.items[i]);
	end->limbo.count = 0;
	memcpy(peer->final, arena->shadow + peer->window_at, peer->window_length);
}

void model_forget_sends(struct endpoint *end)
{
	while (end->send_head < end->sends.count)
		settle_lost(end, send_at(end, end->send_head++));
}

/*
 * Silence is right if the peer was stopped, if the link was silent often enough, or if the one NAK
 * of a peer that refused something was lost. A repeated READ of a region that has gone since gets
 * no answer.
 */
static bool is_silence_right(const struct endpoint *end)
{
	const struct endpoint *peer = end->peer;

	if (end->peer_gone || end->disturbances >= end->retry_cnt ||
	    (end->pair->trouble == TROUBLE_DEREG && end->pair->is_troubled))
		return true;
	return end->pair->is_troubled && world_is_lossy(end->world) && peer->qp &&
	       peer->qp->state == IBV_QPS_ERR;
}

static bool may_fail_so(struct endpoint *end, struct send *send, enum ibv_wc_status status)
{
	struct pair *pair = end->pair;

	if (is_hostile(end) || (send->expect != IBV_WC_SUCCESS && status == send->expect))
		return true;
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		return is_silence_right(end);
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return end->rnr_retry < 7 && end->most_rnr_naks > end->rnr_retry;
	case IBV_WC_REM_ACCESS_ERR:
		return pair->trouble == TROUBLE_DEREG && pair->is_troubled &&
		       (send->remote_length || send->opcode == IBV_WR_FLUSH);
	case IBV_WC_LOC_PROT_ERR:
		return send->is_lent && !end->lent;
	case IBV_WC_REM_OP_ERR:
		return pair->trouble == TROUBLE_RECV_LKEY && pair->trouble_of == end->peer;
	case IBV_WC_REM_INV_REQ_ERR:
		return false;
	default:
		return false;
	}
}

static void check_success(struct endpoint *end, struct send *send, const struct ibv_wc *wc)
{
	sim_check(end->world, send->expect == IBV_WC_SUCCESS,
		  "end %d: %s %llx succeeded, but must fail with status %d", end->index,
		  send_opcode_name(send->opcode), (unsigned long long)send->wr_id, send->expect);
	sim_check(end->world, !end->is_flushing, "a success after a failure");
	sim_check(end->world, send->is_signaled, "a completion of an unsignaled send");
	sim_check(end->world, wc->opcode == wc_opcode_of(send->opcode), "wc.opcode is %d for %s",
		  wc->opcode, send_opcode_name(send->opcode));
	sim_check(end->world, wc->vendor_err == 0, "vendor_err %u in a success", wc->vendor_err);
	if (has_sink(send))
		sim_check(end->world, wc->byte_len == send->length, "byte_len is %u, not %u",
			  wc->byte_len, send->length);
}

static void skip_unsignaled(struct endpoint *end, uint64_t wr_id)
{
	while (end->send_head < end->sends.count) {
		struct send *send = send_at(end, end->send_head);

		if (send->wr_id == wr_id)
			return;
		sim_check(end->world, !send->is_signaled,
			  "end %d: the completion of %llx is missing: %llx came", end->index,
			  (unsigned long long)send->wr_id, (unsigned long long)wr_id);
		sim_check(end->world, !end->is_flushing, "an unsignaled one was not flushed");
		sim_check(end->world, send->expect == IBV_WC_SUCCESS,
			  "%s that must fail was passed over", send_opcode_name(send->opcode));
		settle_done(end, send);
		end->send_head++;
	}
	sim_fail(end->world, "end %d: completion of %llx: not outstanding (twice? never posted?)",
		 end->index, (unsigned long long)wr_id);
}

static void on_send_wc(struct endpoint *end, const struct ibv_wc *wc)
{
	struct send *send;

	skip_unsignaled(end, wc->wr_id);
	send = send_at(end, end->send_head++);
	if (wc->status == IBV_WC_SUCCESS) {
		check_success(end, send, wc);
		settle_done(end, send);
		return;
	}
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		end->has_flushed = true;
		end->world->stats.flushed++;
	} else {
		sim_check(end->world, !end->is_flushing, "end %d: a second failure, status %d",
			  end->index, wc->status);
		sim_check(end->world, may_fail_so(end, send, wc->status),
			  "end %d: %s %llx failed with status %d (vendor %u), expected %d, "
			  "%u losses, %u RNR NAKs",
			  end->index, send_opcode_name(send->opcode),
			  (unsigned long long)send->wr_id, wc->status, wc->vendor_err, send->expect,
			  end->disturbances, end->rnr_naks);
		sim_check(end->world, wc->vendor_err, "a failure without a reason");
		end->world->stats.failed++;
		end->may_flush = true;
	}
	end->is_flushing = true;
	settle_lost(end, send);
	if (end->world->weather.has_offers && !has_sink(send) && !send->is_inline)
		spans_spoil(end->node, send->spans, send->span_count);
	if (end->pair)
		pair_failed(end->pair);
}

/* ---- receive side ---- */

static bool is_same_message(const struct endpoint *end, const struct message *message,
			    const struct ibv_wc *wc, const struct recv *recv, uint32_t skip)
{
	const uint8_t *data = message->data;
	uint32_t left = message->length;

	if (message->to != end || message->length + skip != wc->byte_len ||
	    message->has_imm != !!(wc->wc_flags & IBV_WC_WITH_IMM) ||
	    (message->has_imm && message->imm != wc->imm_data) ||
	    message->has_inv != !!(wc->wc_flags & IBV_WC_WITH_INV) ||
	    (message->has_inv && message->inv_rkey != wc->invalidated_rkey) ||
	    message->is_write != (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM))
		return false;
	if (message->is_write)
		return true;
	for (uint32_t i = 0; i < recv->span_count && left; i++) {
		const struct span *span = &recv->spans[i];
		uint32_t at = span->at, length = span->length, n;

		n = skip < length ? skip : length;
		at += n;
		length -= n;
		skip -= n;
		n = length < left ? length : left;
		if (memcmp(end->node->arena.memory + at, data, n))
			return false;
		data += n;
		left -= n;
	}
	return !left;
}

/* Before the receive completes; and the peer may have it again. */
static void check_invalidated(struct endpoint *end)
{
	sim_check(end->world, !end->guest->mr, "end %d: its window is bound after the SEND",
		  end->index);
	if (end->qp && end->qp->state == IBV_QPS_RTS)
		offer_guest(end);
}

/* A receive that failed or was flushed: part of a message may be in its buffers. */
void model_forget_recv(struct endpoint *end, struct recv *recv)
{
	struct arena *arena = &end->node->arena;

	recv->is_done = true;
	for (uint32_t i = 0; i < recv->span_count; i++) {
		arena_adopt(arena, recv->spans[i].at, recv->spans[i].length);
		arena_mark(arena->flux, recv->spans[i].at, recv->spans[i].length, -1);
	}
}

/* The first `filled` bytes are the message, the rest must be as it was. */
static void settle_recv(struct endpoint *end, struct recv *recv, uint32_t filled)
{
	struct arena *arena = &end->node->arena;

	recv->is_done = true;
	if (end->type == IBV_QPT_UC)
		filled = recv->capacity; /* a message given up before it may have begun here */
	for (uint32_t i = 0; i < recv->span_count; i++) {
		struct span *span = &recv->spans[i];
		uint32_t n = span->length < filled ? span->length : filled;

		arena_adopt(arena, span->at, n);
		filled -= n;
		arena_mark(arena->flux, span->at, span->length, -1);
		arena_expect(arena, span->at + n, span->length - n, arena->shadow + span->at + n,
			     "behind the message");
	}
}

/* WRITEs before a message are visible when its receive completes (9.5, ordering). */
static void check_visibility(struct endpoint *sender, uint32_t upto)
{
	struct arena *arena = far_arena(sender);

	for (uint32_t i = sender->send_head; i <= upto && i < sender->sends.count; i++) {
		struct send *send = send_at(sender, i);

		for (uint32_t k = 0; send->effect && k < send->remote_length; k++)
			sim_check(sender->world,
				  arena->flux[send->remote_at + k] > 1 ||
				      arena->memory[send->remote_at + k] == send->effect[k],
				  "a message overtook %s %llx", send_opcode_name(send->opcode),
				  (unsigned long long)send->wr_id);
	}
}

static struct message *expect_reliable(struct endpoint *end, const struct ibv_wc *wc,
				       const struct recv *recv)
{
	struct endpoint *from = end->peer;
	struct message *message;

	sim_check(end->world, from->message_head < from->messages.count,
		  "end %d: a message that was not sent (or came twice)", end->index);
	message = from->messages.items[from->message_head++];
	sim_check(end->world, !message->must_fail, "a message that must fail was received");
	sim_check(end->world, is_same_message(end, message, wc, recv, 0),
		  "end %d: not the message that is next: %u bytes%s, flags %x, opcode %d; "
		  "sent were %u bytes%s%s",
		  end->index, wc->byte_len, wc->wc_flags & IBV_WC_WITH_IMM ? " with immediate" : "",
		  wc->wc_flags, wc->opcode, message->length,
		  message->has_imm ? " with immediate" : "", message->is_write ? " (WRITE)" : "");
	check_visibility(from, message->send_index);
	return message;
}

/* UC: in order where the link keeps order; some may be missing. UD: any of those sent to it. */
static struct message *expect_lossy(struct endpoint *end, struct endpoint *from,
				    const struct ibv_wc *wc, const struct recv *recv, uint32_t skip)
{
	const struct weather *weather = &end->world->weather;
	bool is_ordered = end->type == IBV_QPT_UC && !weather->reorder && !weather->duplicate;
	uint32_t i = is_ordered ? from->message_head : 0;

	for (; i < from->messages.count; i++) {
		struct message *message = from->messages.items[i];

		if (message->delivered && !weather->duplicate)
			continue;
		if (!is_same_message(end, message, wc, recv, skip))
			continue;
		message->delivered++;
		if (is_ordered)
			from->message_head = i + 1;
		return message;
	}
	sim_fail(end->world,
		 "end %d: received %u bytes (opcode %d, flags %x) that end %d did not send so",
		 end->index, wc->byte_len, wc->opcode, wc->wc_flags, from->index);
}

static void on_message(struct endpoint *end, struct recv *recv, const struct ibv_wc *wc)
{
	struct message *message;
	uint32_t skip = 0;

	sim_check(end->world, !end->is_recv_dead, "a message after the receive queue failed");
	if (is_hostile(end)) {
		settle_recv(end, recv, recv->capacity);
		return;
	}
	sim_check(end->world, wc->opcode == IBV_WC_RECV || wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM,
		  "wc.opcode is %d in a receive", wc->opcode);
	if (end->type == IBV_QPT_RC) {
		message = expect_reliable(end, wc, recv);
	} else if (end->type == IBV_QPT_UC) {
		message = expect_lossy(end, end->peer, wc, recv, 0);
	} else {
		struct endpoint *from = NULL;

		sim_check(end->world, wc->wc_flags & IBV_WC_GRH, "UD without IBV_WC_GRH");
		for (int i = 0; i < end->world->node_count && !from; i++)
			from = endpoint_of_qpn(end->world, &end->world->nodes[i], wc->src_qp);
		sim_check(end->world, from, "wc.src_qp %x is nobody's", wc->src_qp);
		skip = GRH_SIZE;
		message = expect_lossy(end, from, wc, recv, skip);
	}
	sim_check(end->world,
		  recv->expect == IBV_WC_SUCCESS || message->is_write || !message->length,
		  "a receive that must fail did not");
	if (message->has_inv)
		check_invalidated(end);
	settle_recv(end, recv, message->is_write ? 0 : message->length + skip);
	end->world->stats.recvs++;
}

static struct recv *find_recv(struct endpoint *end, const struct ibv_wc *wc)
{
	if (end->srq) {
		uint64_t index = wc->wr_id & 0xffffffff;
		struct recv *recv;

		sim_check(end->world, index < end->srq->recvs.count, "an unknown receive");
		recv = end->srq->recvs.items[index];
		sim_check(end->world, !recv->is_done && recv->wr_id == wc->wr_id,
			  "a receive completed twice");
		end->srq->outstanding--;
		return recv;
	}
	sim_check(end->world, end->recv_head < end->recvs.count, "a receive was not posted");
	struct recv *recv = end->recvs.items[end->recv_head++];

	sim_check(end->world, recv->wr_id == wc->wr_id,
		  "end %d: receive %llx completed, %llx is next", end->index,
		  (unsigned long long)wc->wr_id, (unsigned long long)recv->wr_id);
	return recv;
}

static bool may_recv_fail_so(const struct endpoint *end, const struct recv *recv,
			     enum ibv_wc_status status)
{
	const struct pair *pair = end->pair;

	if (is_hostile(end))
		return true;
	if (recv->expect != IBV_WC_SUCCESS)
		return status == recv->expect;
	if (status == IBV_WC_LOC_ACCESS_ERR) /* of a WRITE with immediate under way */
		return pair && pair->trouble == TROUBLE_DEREG && pair->trouble_of == end;
	if (status == IBV_WC_REM_ACCESS_ERR)
		return pair && pair->trouble == TROUBLE_INVALIDATE && pair->trouble_of == end->peer;
	if (status == IBV_WC_LOC_LEN_ERR)
		return pair && pair->trouble == TROUBLE_LONG_SEND && pair->trouble_of == end->peer;
	return false;
}

static void on_recv_wc(struct endpoint *end, const struct ibv_wc *wc)
{
	struct recv *recv = find_recv(end, wc);

	if (wc->status == IBV_WC_SUCCESS) {
		on_message(end, recv, wc);
		return;
	}
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		end->has_flushed = true;
		end->world->stats.flushed++;
	} else {
		sim_check(end->world, !end->is_recv_dead, "a second failure of receives");
		sim_check(end->world, may_recv_fail_so(end, recv, wc->status),
			  "end %d: receive failed with status %d (vendor %u), expected %d",
			  end->index, wc->status, wc->vendor_err, recv->expect);
		sim_check(end->world, wc->vendor_err, "a failure without a reason");
		end->world->stats.failed++;
		end->may_flush = true;
	}
	end->is_recv_dead = true;
	model_forget_recv(end, recv);
	if (end->pair)
		pair_failed(end->pair);
}

/* ---- polling ---- */

static void on_wc(struct node *node, const struct ibv_wc *wc)
{
	struct endpoint *end = endpoint_of_qpn(node->world, node, wc->qp_num);

	sim_check(node->world, end, "a completion of QP %06x, which is not there (wr_id %llx)",
		  wc->qp_num, (unsigned long long)wc->wr_id);
	if (wc->status != IBV_WC_WR_FLUSH_ERR) /* posting to a dead QP goes on for ever */
		node->world->last_progress = node->world->now;
	trace_wc(end, wc);
	if (wc->wr_id >> 63)
		on_recv_wc(end, wc);
	else
		on_send_wc(end, wc);
}

static uint32_t poll_some(struct simcq *simcq, uint32_t most)
{
	struct ibv_wc wcs[16];
	int n = VERB("poll", cq_poll(simcq->cq, most < 16 ? most : 16, wcs));

	sim_check(simcq->node->world, n >= 0, "cq_poll returned %d", n);
	for (int i = 0; i < n; i++)
		on_wc(simcq->node, &wcs[i]);
	return n;
}

void model_poll(struct simcq *simcq, uint32_t most)
{
	if (!simcq->by_event) {
		poll_some(simcq, most);
		return;
	}
	/* as programs do: after an event poll dry, arm, poll again for what came in between */
	if (simcq->is_armed)
		return;
	while (poll_some(simcq, 16))
		;
	simcq->is_told = false;
	simcq->is_armed = true;
	cq_arm(simcq->cq, false);
	while (poll_some(simcq, 16))
		;
}

void model_poll_all(struct node *node)
{
	for (int i = 0; i < node->cq_count; i++)
		while (poll_some(&node->cqs[i], 16))
			;
}

void model_check_cause(struct endpoint *end)
{
	if (!end->has_flushed || end->may_flush)
		return;
	model_poll_all(end->node);
	sim_check(end->world, end->may_flush, "end %d was flushed without a failure", end->index);
}

/* ---- events ---- */

void model_async(struct node *node, const struct ibv_async_event *event)
{
	struct world *world = node->world;
	struct endpoint *end = NULL;

	sim_check(world, event->event_type != IBV_EVENT_CQ_ERR, "a CQ overrun");
	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		end = endpoint_of_qpn(world, node, qp_of(event->element.qp)->number);
		break;
	default:
		return;
	}
	if (!end)
		return;
	trace(world, "     end %d: event %d", end->index, event->event_type);
	end->events |= 1u << event->event_type;
	if (event->event_type == IBV_EVENT_SQ_DRAINED) {
		sim_check(world, end->is_drain_awaited, "SQ_DRAINED, but nobody drains");
		end->is_drained = true;
	}
	if (event->event_type <= IBV_EVENT_QP_ACCESS_ERR &&
	    event->event_type >= IBV_EVENT_QP_FATAL) {
		sim_check(world,
			  is_hostile(end) ||
			      (end->pair && (end->pair->trouble || end->pair->is_troubled)),
			  "end %d: error event %d without an error", end->index, event->event_type);
		end->may_flush = true;
	}
}

/* ---- the end ---- */

static bool is_calm(const struct world *world)
{
	const struct weather *weather = &world->weather;

	return !world_is_lossy(world) && !weather->duplicate && !weather->reorder &&
	       !weather->is_hostile;
}

void model_check_calm(struct endpoint *end)
{
	const struct transport_counters *counters = transport_counters(end->qp);

	if (!is_calm(end->world))
		return;
	sim_check(end->world,
		  !counters->timeouts && !counters->sequence_naks_sent && !counters->implied_naks,
		  "end %d on a link without fault: %llu timeouts, %llu sequence NAKs, %llu implied",
		  end->index, (unsigned long long)counters->timeouts,
		  (unsigned long long)counters->sequence_naks_sent,
		  (unsigned long long)counters->implied_naks);
}

/* Over a link without fault a datagram comes, or is counted as dropped (there was no receive). */
void model_check_datagrams(struct endpoint *end)
{
	uint32_t missing = 0;

	for (int i = 0; i < end->world->endpoint_count; i++) {
		const struct list *messages = &end->world->endpoints[i]->messages;

		for (uint32_t k = 0; k < messages->count; k++) {
			const struct message *message = messages->items[k];

			missing += message->to == end && !message->delivered;
		}
	}
	sim_check(end->world,
		  !is_calm(end->world) || missing == transport_counters(end->qp)->dropped,
		  "end %d: %u datagrams did not come, %llu were dropped", end->index, missing,
		  (unsigned long long)transport_counters(end->qp)->dropped);
}

static int by_old(const void *a, const void *b)
{
	uint64_t x = (*(struct addition *const *)a)->old, y = (*(struct addition *const *)b)->old;

	return x < y ? -1 : x > y;
}

/*
 * Every fetch and add on a shared counter saw what another left: sorted by what they saw, they form
 * a chain from the first value to the last. Gaps are those whose fate is unknown.
 */
static void check_counter(struct node *node)
{
	struct world *world = node->world;
	struct addition **known;
	uint64_t value = node->counter_start, last, unknown = 0, gap = 0;
	uint32_t count = 0;

	if (!node->counter_mr || world->weather.is_hostile)
		return;
	known = world_alloc(world, (node->additions.count + 1) * sizeof(*known));
	for (uint32_t i = 0; i < node->additions.count; i++) {
		struct addition *addition = node->additions.items[i];

		if (addition->is_known)
			known[count++] = addition;
		else
			unknown += addition->add;
	}
	qsort(known, count, sizeof(*known), by_old);
	memcpy(&last, node->arena.memory + node->counter_at, 8);
	for (uint32_t i = 0; i < count; i++) {
		sim_check(world, known[i]->old >= value, "two atomics saw the same counter value");
		gap += known[i]->old - value;
		value = known[i]->old + known[i]->add;
	}
	sim_check(world, last >= value, "a fetch and add was lost");
	gap += last - value;
	sim_check(world, gap <= unknown, "the counter is %llu too high: an atomic ran twice",
		  (unsigned long long)(gap - unknown));
}

void model_check_counters(struct world *world)
{
	for (int i = 0; i < world->node_count; i++)
		check_counter(&world->nodes[i]);
}

void model_check_memory(struct world *world, const char *when)
{
	for (int i = 0; i < world->node_count; i++)
		arena_check(&world->nodes[i].arena, when);
}
